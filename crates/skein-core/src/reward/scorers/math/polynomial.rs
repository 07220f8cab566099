//! Polynomials in several variables over the rationals: whether two formulas are the same one, and their greatest
//! common divisor and least common multiple.
//!
//! A variable may occur under rational exponents, `\sqrt{x}`; its smallest root is then the variable. Work is counted,
//! and a computation that asks for more than its share has no result.

use std::collections::{BTreeMap, btree_map};

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::expr::{Expr, Function};
use super::rational::{self, is_same};
use super::work::Work;

/// Products of two terms that one computation may form, and steps of each beyond its arithmetic: of finding a place for it.
const MAX_PRODUCTS: usize = 10_000;
const PRODUCT_STEPS: u64 = 200;

/// Coefficients grow no larger than this.
const MAX_COEFFICIENT_BITS: u64 = 4_000;

/// Exponents grow no larger than this.
const MAX_EXPONENT: u32 = 1_000;

/// More variables than this are not looked at.
const MAX_VARIABLES: usize = 12;

/// Exponents of each variable, and their coefficient; none is zero.
type Terms<C> = BTreeMap<Vec<u32>, C>;

/// What is left to spend: products of terms here, so that others get their share, and the answer's steps.
struct Budget<'w> {
    products: usize,
    work: &'w Work,
}

impl<'w> Budget<'w> {
    fn new(work: &'w Work) -> Self {
        Self { products: MAX_PRODUCTS, work }
    }

    fn spend(&mut self, products: usize) -> Option<()> {
        self.products = self.products.checked_sub(products)?;
        self.work.spend(PRODUCT_STEPS * products as u64)
    }
}

/// Whether two formulas are the same polynomial; none where one isn't a polynomial, or is too large.
pub fn same(a: &Expr, b: &Expr, work: &Work) -> Option<bool> {
    let variables = Variables::of(&[a, b], work)?;
    let mut budget = Budget::new(work);
    let (a, b) = (variables.read(a, &mut budget)?, variables.read(b, &mut budget)?);
    let same = |((a_exponents, a), (b_exponents, b)): (_, _)| a_exponents == b_exponents && is_same(a, b);
    Some(a.len() == b.len() && a.iter().zip(&b).all(same))
}

/// The gcd or lcm of polynomials; none where an argument isn't one.
///
/// With integer coefficients numbers count as factors; with others they don't, and the result is monic.
pub fn common(function: &Function, arguments: &[Expr], work: &Work) -> Option<Expr> {
    let variables = Variables::of(&arguments.iter().collect::<Vec<_>>(), work)?;
    let mut budget = Budget::new(work);
    let polynomials =
        arguments.iter().map(|argument| variables.read(argument, &mut budget)).collect::<Option<Vec<_>>>()?;
    let is_integral = polynomials.iter().flat_map(BTreeMap::values).all(BigRational::is_integer);
    let mut result: Option<Terms<BigInt>> = None;
    for polynomial in &polynomials {
        let next = integral(polynomial, work)?;
        result = Some(match result {
            None => next,
            Some(so_far) => {
                let divisor = gcd(&so_far, &next, &mut budget)?;
                match function {
                    Function::Gcd => divisor,
                    _ if divisor.is_empty() => divisor,
                    _ => divided(product(&so_far, &next, &mut budget)?, &divisor, &mut budget)?,
                }
            }
        });
    }
    let result = positive(result?);
    let scale = match result.last_key_value() {
        Some((_, leading)) if !is_integral => leading.clone(),
        _ => BigInt::one(),
    };
    Some(variables.write(&result, &scale))
}

/// The variables of some formulas, by name, with the denominator that their exponents share.
struct Variables(BTreeMap<String, u32>);

impl Variables {
    fn of(formulas: &[&Expr], work: &Work) -> Option<Self> {
        let mut variables = Self(BTreeMap::new());
        formulas.iter().try_for_each(|formula| variables.collect(formula, work))?;
        (variables.0.len() <= MAX_VARIABLES).then_some(variables)
    }

    fn collect(&mut self, formula: &Expr, work: &Work) -> Option<()> {
        match formula {
            Expr::Symbol(name) => self.add(name, 1),
            Expr::Power(base, exponent) => match (&**base, constant_value(exponent, work)) {
                (Expr::Symbol(name), Some(exponent)) => self.add(name, exponent.denom().to_u32()?),
                _ => self.collect(base, work),
            },
            Expr::Number { .. } => Some(()),
            Expr::Sum(items) | Expr::Product(items) => items.iter().try_for_each(|item| self.collect(item, work)),
            _ => None,
        }
    }

    fn add(&mut self, name: &str, denominator: u32) -> Option<()> {
        if denominator > MAX_EXPONENT {
            return None;
        }
        let shared = self.0.entry(name.to_owned()).or_insert(1);
        *shared = shared.lcm(&denominator);
        (*shared <= MAX_EXPONENT).then_some(())
    }

    fn constant(&self, value: BigRational) -> Terms<BigRational> {
        if value.is_zero() { Terms::new() } else { Terms::from([(vec![0; self.0.len()], value)]) }
    }

    /// `name` to a power that is a non-negative multiple of its smallest root.
    fn monomial(&self, name: &str, exponent: &BigRational) -> Option<Terms<BigRational>> {
        let (index, shared) =
            self.0.iter().enumerate().find_map(|(i, (n, shared))| (n == name).then_some((i, shared)))?;
        let exponent = exponent * BigInt::from(*shared);
        let mut exponents = vec![0; self.0.len()];
        exponents[index] = exponent.to_integer().to_u32().filter(|exponent| *exponent <= MAX_EXPONENT)?;
        exponent.is_integer().then(|| Terms::from([(exponents, BigRational::one())]))
    }

    fn read(&self, formula: &Expr, budget: &mut Budget) -> Option<Terms<BigRational>> {
        match formula {
            Expr::Number { value, .. } => Some(self.constant(value.clone())),
            Expr::Symbol(name) => self.monomial(name, &BigRational::one()),
            Expr::Sum(items) => items.iter().try_fold(Terms::new(), |sum, item| {
                let item = self.read(item, budget)?;
                added(sum, item, budget)
            }),
            Expr::Product(items) => items.iter().try_fold(self.constant(BigRational::one()), |so_far, item| {
                let item = self.read(item, budget)?;
                product(&so_far, &item, budget)
            }),
            Expr::Power(base, exponent) => {
                let exponent = constant_value(exponent, budget.work)?;
                if let Expr::Symbol(name) = &**base {
                    return self.monomial(name, &exponent);
                }
                let base = self.read(base, budget)?;
                let times = exponent.is_integer().then(|| exponent.to_integer().to_i32()).flatten()?;
                let base = if times < 0 { reciprocal(base)? } else { base };
                if times.unsigned_abs() > MAX_EXPONENT {
                    return None;
                }
                (0..times.unsigned_abs())
                    .try_fold(self.constant(BigRational::one()), |so_far, _| product(&so_far, &base, budget))
            }
            _ => None,
        }
    }

    /// The polynomial over a number, as a formula.
    fn write(&self, terms: &Terms<BigInt>, divisor: &BigInt) -> Expr {
        let number = |value| Expr::Number { value, decimal: false };
        let written = terms.iter().map(|(exponents, coefficient)| {
            let powers = self.0.iter().zip(exponents).filter(|(_, exponent)| **exponent > 0);
            let powers = powers.map(|((name, shared), exponent)| {
                let exponent = BigRational::new((*exponent).into(), (*shared).into());
                Expr::Power(Box::new(Expr::Symbol(name.clone())), Box::new(number(exponent)))
            });
            let coefficient = number(BigRational::new(coefficient.clone(), divisor.clone()));
            Expr::Product([coefficient].into_iter().chain(powers).collect())
        });
        Expr::Sum(written.collect())
    }
}

/// The value of a formula of numbers alone, as exponents and coefficients have them.
fn constant_value(formula: &Expr, work: &Work) -> Option<BigRational> {
    match formula {
        Expr::Number { value, .. } => Some(value.clone()),
        Expr::Product(items) => rational::product(items.iter().map(|item| constant_value(item, work)), work),
        Expr::Power(base, exponent) if **exponent == Expr::integer(-1) => {
            constant_value(base, work).filter(|base| !base.is_zero()).map(|base| base.recip())
        }
        _ => None,
    }
}

/// One over a number; a sum or a variable in a denominator makes no polynomial.
fn reciprocal(terms: Terms<BigRational>) -> Option<Terms<BigRational>> {
    let is_number = terms.len() == 1 && terms.keys().all(|exponents| exponents.iter().all(Zero::is_zero));
    is_number.then(|| terms.into_iter().map(|(exponents, value)| (exponents, value.recip())).collect())
}

/// Coefficients that a polynomial can have here.
trait Coefficient: Clone + Zero {
    fn bits(&self) -> u64;
    fn plus(&self, other: &Self, work: &Work) -> Option<Self>;
    fn times(&self, other: &Self, work: &Work) -> Option<Self>;
}

impl Coefficient for BigInt {
    fn bits(&self) -> u64 {
        BigInt::bits(self)
    }

    fn plus(&self, other: &Self, work: &Work) -> Option<Self> {
        work.spend(rational::words(self.bits() + other.bits()))?;
        Some(self + other)
    }

    fn times(&self, other: &Self, work: &Work) -> Option<Self> {
        rational::multiplied(self, other, work)
    }
}

impl Coefficient for BigRational {
    fn bits(&self) -> u64 {
        rational::bits(self)
    }

    fn plus(&self, other: &Self, work: &Work) -> Option<Self> {
        rational::sum([self, other].map(|term| Some(term.clone())), work)
    }

    fn times(&self, other: &Self, work: &Work) -> Option<Self> {
        rational::product([self, other].map(|factor| Some(factor.clone())), work)
    }
}

fn added<C: Coefficient>(mut a: Terms<C>, b: Terms<C>, budget: &mut Budget) -> Option<Terms<C>> {
    budget.spend(b.len())?;
    for (exponents, coefficient) in b {
        add_term(&mut a, exponents, coefficient, budget.work)?;
    }
    Some(a)
}

fn add_term<C: Coefficient>(terms: &mut Terms<C>, exponents: Vec<u32>, coefficient: C, work: &Work) -> Option<()> {
    match terms.entry(exponents) {
        btree_map::Entry::Vacant(entry) => {
            entry.insert(coefficient);
        }
        btree_map::Entry::Occupied(mut entry) => {
            let sum = entry.get().plus(&coefficient, work)?;
            if sum.is_zero() {
                entry.remove();
            } else {
                entry.insert(sum);
            }
        }
    }
    Some(())
}

fn product<C: Coefficient>(a: &Terms<C>, b: &Terms<C>, budget: &mut Budget) -> Option<Terms<C>> {
    budget.spend(a.len() * b.len())?;
    let mut terms = Terms::new();
    for (a_exponents, a_coefficient) in a {
        for (b_exponents, b_coefficient) in b {
            let exponents: Vec<u32> = a_exponents.iter().zip(b_exponents).map(|(a, b)| a + b).collect();
            let coefficient = a_coefficient.times(b_coefficient, budget.work)?;
            if coefficient.bits() > MAX_COEFFICIENT_BITS || exponents.iter().any(|exponent| *exponent > MAX_EXPONENT) {
                return None;
            }
            add_term(&mut terms, exponents, coefficient, budget.work)?;
        }
    }
    Some(terms)
}

/// The polynomial times the common denominator of its coefficients.
fn integral(terms: &Terms<BigRational>, work: &Work) -> Option<Terms<BigInt>> {
    let denominator = terms.values().try_fold(BigInt::one(), |so_far, value| {
        let factor = value.denom() / rational::gcd(&so_far, value.denom(), work)?;
        rational::multiplied(&so_far, &factor, work)
    })?;
    let scaled = |value: &BigRational| {
        rational::pay_product(denominator.bits(), value.denom().bits(), work)?;
        rational::multiplied(value.numer(), &(&denominator / value.denom()), work)
    };
    terms.iter().map(|(exponents, value)| Some((exponents.clone(), scaled(value)?))).collect()
}

/// The polynomial or its negative, whichever has a positive leading coefficient.
fn positive(terms: Terms<BigInt>) -> Terms<BigInt> {
    match terms.last_key_value() {
        Some((_, leading)) if leading.is_negative() => terms.into_iter().map(|(e, value)| (e, -value)).collect(),
        _ => terms,
    }
}

/// `a / b` where `b` divides `a`.
fn divided(mut a: Terms<BigInt>, b: &Terms<BigInt>, budget: &mut Budget) -> Option<Terms<BigInt>> {
    let (b_exponents, b_coefficient) = b.last_key_value()?;
    let mut quotient = Terms::new();
    while let Some((a_exponents, a_coefficient)) = a.last_key_value() {
        let exponents: Vec<u32> =
            a_exponents.iter().zip(b_exponents).map(|(a, b)| a.checked_sub(*b)).collect::<Option<_>>()?;
        rational::pay_product(a_coefficient.bits(), b_coefficient.bits(), budget.work)?;
        let (ratio, rest) = a_coefficient.div_rem(b_coefficient);
        if !rest.is_zero() {
            return None;
        }
        let multiple = product(&Terms::from([(exponents.clone(), -&ratio)]), b, budget)?;
        a = added(a, multiple, budget)?;
        quotient.insert(exponents, ratio);
    }
    Some(quotient)
}

/// The greatest common divisor, by pseudo-remainders of primitive parts in one variable after the other.
fn gcd(a: &Terms<BigInt>, b: &Terms<BigInt>, budget: &mut Budget) -> Option<Terms<BigInt>> {
    if a.is_empty() || b.is_empty() {
        return Some(positive(if a.is_empty() { b.clone() } else { a.clone() }));
    }
    let num_variables = a.keys().next()?.len();
    let Some(variable) = (0..num_variables).find(|&at| degree(a, at) > 0 || degree(b, at) > 0) else {
        let mut values = a.values().chain(b.values());
        let numbers = values.try_fold(BigInt::zero(), |so_far, value| rational::gcd(&so_far, value, budget.work))?;
        return Some(Terms::from([(vec![0; num_variables], numbers)]));
    };
    let (a_content, b_content) = (content(a, variable, budget)?, content(b, variable, budget)?);
    let shared_content = gcd(&a_content, &b_content, budget)?;
    let (mut a, mut b) = (divided(a.clone(), &a_content, budget)?, divided(b.clone(), &b_content, budget)?);
    while !b.is_empty() {
        let mut rest = pseudo_remainder(a, &b, variable, budget)?;
        if !rest.is_empty() {
            let content = content(&rest, variable, budget)?;
            rest = divided(rest, &content, budget)?;
        }
        (a, b) = (b, rest);
    }
    product(&positive(a), &shared_content, budget)
}

fn degree(terms: &Terms<BigInt>, variable: usize) -> u32 {
    terms.keys().map(|exponents| exponents[variable]).max().unwrap_or(0)
}

/// The factor of a power of one variable.
fn coefficient(terms: &Terms<BigInt>, variable: usize, exponent: u32) -> Terms<BigInt> {
    let of_power = terms.iter().filter(|(exponents, _)| exponents[variable] == exponent);
    let without = |exponents: &Vec<u32>| {
        let mut exponents = exponents.clone();
        exponents[variable] = 0;
        exponents
    };
    of_power.map(|(exponents, value)| (without(exponents), value.clone())).collect()
}

/// The common divisor of the factors of one variable's powers.
fn content(terms: &Terms<BigInt>, variable: usize, budget: &mut Budget) -> Option<Terms<BigInt>> {
    let mut powers: Vec<u32> = terms.keys().map(|exponents| exponents[variable]).collect();
    powers.sort_unstable();
    powers.dedup();
    budget.spend(terms.len() * powers.len())?;
    powers
        .into_iter()
        .try_fold(Terms::new(), |so_far, power| gcd(&so_far, &coefficient(terms, variable, power), budget))
}

fn pseudo_remainder(
    mut a: Terms<BigInt>,
    b: &Terms<BigInt>,
    variable: usize,
    budget: &mut Budget,
) -> Option<Terms<BigInt>> {
    let b_degree = degree(b, variable);
    let b_leading = coefficient(b, variable, b_degree);
    while !a.is_empty() && degree(&a, variable) >= b_degree {
        let a_degree = degree(&a, variable);
        let mut shift = coefficient(&a, variable, a_degree);
        shift = shift
            .into_iter()
            .map(|(mut exponents, value)| {
                exponents[variable] = a_degree - b_degree;
                (exponents, -value)
            })
            .collect();
        let (a_multiple, b_multiple) = (product(&a, &b_leading, budget)?, product(&shift, b, budget)?);
        a = added(a_multiple, b_multiple, budget)?;
    }
    Some(a)
}

#[cfg(test)]
mod tests {
    use super::super::{lexer::tokenize, parser::parse};
    use super::*;

    fn formula(text: &str) -> Expr {
        let work = Work::new();
        parse(&tokenize(text, &work).unwrap(), &work).unwrap()
    }

    #[test]
    fn equality_is_decided() {
        for (a, b, expected) in [
            ("(x+1)^{20}", "(x+1)^{19}(x+1)", Some(true)),
            ("x^2-y^2", "(x-y)(x+y)", Some(true)),
            ("x+10^{-30}", "x", Some(false)),
            ("x\\sqrt{x}", "x^{3/2}", Some(true)),
            ("x/2+y/3", "\\frac{3x+2y}{6}", Some(true)),
            ("x", "\\sin x", None),
            ("1/x", "x^{-1}", None),
            ("(a+b+c+d)^{99}", "(a+b+c+d)^{99}", None),
        ] {
            assert_eq!(same(&formula(a), &formula(b), &Work::new()), expected, "{a} and {b}");
        }
    }

    #[test]
    fn common_divisors_and_multiples() {
        let arguments = |list: &str| match formula(list) {
            Expr::Set(items) => items,
            item => vec![item],
        };
        for (list, divisor, multiple) in [
            ("x^2-1, x^2+2x+1", "x+1", "(x-1)(x+1)^2"),
            ("12x, 18", "6", "36x"),
            ("4xy^2, 6x^2y", "2xy", "12x^2y^2"),
            ("(x+y)(x-y), (x+y)^2 z", "x+y", "(x+y)^2(x-y)z"),
            ("0.5x, x^2", "x", "x^2"),
            ("\\sqrt{x}, x", "\\sqrt{x}", "x"),
            ("a, b, ab", "1", "ab"),
            ("-x, x", "x", "x"),
        ] {
            let arguments = arguments(list);
            for (function, expected) in [(Function::Gcd, divisor), (Function::Lcm, multiple)] {
                let found = common(&function, &arguments, &Work::new()).unwrap();
                assert_eq!(
                    same(&found, &formula(expected), &Work::new()),
                    Some(true),
                    "{function:?} of {list}: {found:?}"
                );
            }
        }
        assert_eq!(common(&Function::Gcd, &arguments("\\sin x, x"), &Work::new()), None);
    }
}
