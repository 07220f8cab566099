//! Whether two real formulas have one value, decided far beyond a float's digits.
//!
//! Two values are the same when their difference vanishes as precision grows: from one precision to the next it must
//! shrink by many orders of magnitude, or be nothing but rounding. So `e^{\pi\sqrt{163}}` is no integer, and
//! `\sqrt{10^{20}+1}-10^{10}` is not 0. Complex values, and sizes beyond [`MAX_EXPONENT`], are left to floats.

use std::cell::RefCell;

use astro_float::{BigFloat, Consts, RoundingMode};
use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive};

use super::evaluate::{Point, exact};
use super::expr::{Constant, Expr, Function};
use super::rational::words;

/// Bits of the two evaluations.
const PRECISIONS: [usize; 2] = [192, 320];

/// The difference of equal values shrinks by at least this many bits between the two: half of what precision gains.
const SHRINKING_BITS: i64 = 64;

/// A difference this many bits below both values is rounding.
const ROUNDING_BITS: i64 = 280;

/// Binary exponents beyond this are not looked at, on either side.
const MAX_EXPONENT: i64 = 100_000;

/// Arguments of circular and exponential functions have exponents up to this.
const MAX_ARGUMENT_EXPONENT: i64 = 20;

/// Steps of arithmetic, and of a logarithm or another function's value, with so many digits.
const NODE_STEPS: u64 = 1_000;
const FUNCTION_STEPS: u64 = 40_000;

/// No rounding to the last bit: the two precisions are far apart.
const ROUNDING: RoundingMode = RoundingMode::None;

thread_local! {
    /// Digits of π, e and logarithms that evaluations share; none where memory for them could not be had.
    static CONSTANTS: RefCell<Option<Consts>> = RefCell::new(Consts::new().ok());
}

/// Whether two formulas have the same real value at a point; none where one isn't defined, real or of moderate size.
pub fn same(a: &Expr, b: &Expr, point: Point) -> Option<bool> {
    CONSTANTS.with_borrow_mut(|constants| {
        let constants = constants.as_mut()?;
        let [coarse, fine] = PRECISIONS.map(|bits| {
            let mut evaluation = Evaluation { point, bits, constants: &mut *constants };
            let (a, b) = (evaluation.value(a)?, evaluation.value(b)?);
            let difference = exponent(&a.sub(&b, bits, ROUNDING));
            Some((difference, exponent(&a).max(exponent(&b))))
        });
        let (coarse, fine) = (coarse?, fine?);
        let (Some(difference), Some(size)) = fine else { return Some(true) };
        let shrinks = coarse.0.is_some_and(|coarse| difference <= coarse - SHRINKING_BITS);
        Some(shrinks || difference <= size - ROUNDING_BITS)
    })
}

/// The binary exponent; none for zero.
fn exponent(value: &BigFloat) -> Option<i64> {
    if value.is_zero() { None } else { value.exponent().map(i64::from) }
}

struct Evaluation<'c> {
    point: Point<'c>,
    bits: usize,
    constants: &'c mut Consts,
}

impl Evaluation<'_> {
    fn value(&mut self, expr: &Expr) -> Option<BigFloat> {
        self.point.work.spend(NODE_STEPS)?;
        let value = self.raw_value(expr)?;
        let is_moderate =
            !value.is_nan() && !value.is_inf() && exponent(&value).is_none_or(|e| e.abs() <= MAX_EXPONENT);
        is_moderate.then_some(value)
    }

    fn raw_value(&mut self, expr: &Expr) -> Option<BigFloat> {
        match expr {
            Expr::Number { value, .. } => self.rational(value),
            Expr::Percent(inner) => Some(self.value(inner)?.div(&self.word(100), self.bits, ROUNDING)),
            Expr::Symbol(_) | Expr::Word(_) | Expr::Call(Function::Opaque(_), _) => {
                self.rational(&exact(expr, self.point)?)
            }
            Expr::Constant(Constant::Pi) => Some(self.constants.pi(self.bits, ROUNDING)),
            Expr::Constant(Constant::E) => Some(self.constants.e(self.bits, ROUNDING)),
            Expr::Sum(items) => items.iter().try_fold(self.word(0), |sum, item| {
                let item = self.value(item)?;
                Some(sum.add(&item, self.bits, ROUNDING))
            }),
            Expr::Product(items) => items.iter().try_fold(self.word(1), |product, item| {
                let item = self.value(item)?;
                Some(product.mul(&item, self.bits, ROUNDING))
            }),
            Expr::Power(base, exponent) => match exact(expr, self.point) {
                Some(value) => self.rational(&value),
                None => self.power(base, exponent),
            },
            Expr::Call(function, arguments) => match exact(expr, self.point) {
                Some(value) => self.rational(&value),
                None => self.call(function, arguments),
            },
            _ => None,
        }
    }

    fn word(&self, value: u64) -> BigFloat {
        BigFloat::from_word(value, self.bits)
    }

    fn rational(&self, value: &BigRational) -> Option<BigFloat> {
        let quotient = self.integer(value.numer())?.div(&self.integer(value.denom())?, self.bits, ROUNDING);
        Some(if value.is_negative() { quotient.neg() } else { quotient })
    }

    /// The absolute value, from its digits of 64 bits.
    fn integer(&self, value: &BigInt) -> Option<BigFloat> {
        if value.bits() > MAX_EXPONENT.unsigned_abs() {
            return None;
        }
        self.point.work.spend(NODE_STEPS * words(value.bits()))?;
        let base = self.word(1 << 32);
        let shifted = |value: BigFloat| value.mul(&base, self.bits, ROUNDING).mul(&base, self.bits, ROUNDING);
        let digits = value.iter_u64_digits().rev();
        Some(digits.fold(self.word(0), |value, digit| shifted(value).add(&self.word(digit), self.bits, ROUNDING)))
    }

    fn power(&mut self, base: &Expr, exponent: &Expr) -> Option<BigFloat> {
        let rational = exact(exponent, self.point);
        let base = self.value(base)?;
        let two = BigInt::from(2);
        match rational {
            Some(rational) if *rational.denom() == two && !base.is_negative() => {
                let root = base.sqrt(self.bits, ROUNDING);
                self.integer_power(root, rational.numer())
            }
            Some(rational) if rational.is_integer() => self.integer_power(base, rational.numer()),
            // An odd root of a negative number is the real one, as answers mean it.
            Some(rational) if base.is_negative() && rational.denom().is_odd() => {
                let exponent = self.rational(&rational)?;
                let size = self.positive_power(&base.neg(), &exponent)?;
                Some(if rational.numer().is_odd() { size.neg() } else { size })
            }
            _ => {
                let exponent = self.value(exponent)?;
                self.positive_power(&base, &exponent)
            }
        }
    }

    fn integer_power(&self, base: BigFloat, exponent: &BigInt) -> Option<BigFloat> {
        let times = exponent.abs().to_u32()?;
        let size = exponent_size(&base).checked_mul(times.into())?;
        if size > MAX_EXPONENT {
            return None;
        }
        let power = base.powi(times as usize, self.bits, ROUNDING);
        Some(if exponent.is_negative() { self.word(1).div(&power, self.bits, ROUNDING) } else { power })
    }

    /// `e^{exponent · ln base}`, whose base is over 0.
    fn positive_power(&mut self, base: &BigFloat, exponent: &BigFloat) -> Option<BigFloat> {
        let logarithm = self.logarithm(base)?;
        self.exponential(&logarithm.mul(exponent, self.bits, ROUNDING))
    }

    fn logarithm(&mut self, value: &BigFloat) -> Option<BigFloat> {
        self.point.work.spend(FUNCTION_STEPS)?;
        (!value.is_zero() && !value.is_negative()).then(|| value.ln(self.bits, ROUNDING, self.constants))
    }

    fn exponential(&mut self, value: &BigFloat) -> Option<BigFloat> {
        self.point.work.spend(FUNCTION_STEPS)?;
        is_small(value).then(|| value.exp(self.bits, ROUNDING, self.constants))
    }

    fn call(&mut self, function: &Function, arguments: &[Expr]) -> Option<BigFloat> {
        let values = arguments.iter().map(|argument| self.value(argument)).collect::<Option<Vec<_>>>()?;
        let (first, bits) = (values.first()?, self.bits);
        Some(match function {
            Function::Elementary(name) => return self.elementary(name, first),
            Function::Log => {
                let (base, value) = (self.logarithm(first)?, self.logarithm(values.get(1)?)?);
                value.div(&base, bits, ROUNDING)
            }
            Function::Abs => first.abs(),
            Function::Max => values.iter().skip(1).fold(first.clone(), |max, value| max.max(value)),
            Function::Min => values.iter().skip(1).fold(first.clone(), |min, value| min.min(value)),
            _ => return None,
        })
    }

    fn elementary(&mut self, name: &str, x: &BigFloat) -> Option<BigFloat> {
        self.point.work.spend(FUNCTION_STEPS)?;
        if !is_small(x) {
            return None;
        }
        let (bits, constants) = (self.bits, &mut *self.constants);
        let inverse = |value: BigFloat| BigFloat::from_word(1, bits).div(&value, bits, ROUNDING);
        Some(match name {
            "sin" => x.sin(bits, ROUNDING, constants),
            "cos" => x.cos(bits, ROUNDING, constants),
            "tan" => x.tan(bits, ROUNDING, constants),
            "cot" => inverse(x.tan(bits, ROUNDING, constants)),
            "sec" => inverse(x.cos(bits, ROUNDING, constants)),
            "csc" => inverse(x.sin(bits, ROUNDING, constants)),
            "arcsin" => x.asin(bits, ROUNDING, constants),
            "arccos" => x.acos(bits, ROUNDING, constants),
            "arctan" => x.atan(bits, ROUNDING, constants),
            "sinh" => x.sinh(bits, ROUNDING, constants),
            "cosh" => x.cosh(bits, ROUNDING, constants),
            "tanh" => x.tanh(bits, ROUNDING, constants),
            "arcsinh" => x.asinh(bits, ROUNDING, constants),
            "arccosh" => x.acosh(bits, ROUNDING, constants),
            "arctanh" => x.atanh(bits, ROUNDING, constants),
            _ => return None,
        })
    }
}

fn exponent_size(value: &BigFloat) -> i64 {
    exponent(value).map_or(0, i64::abs)
}

fn is_small(value: &BigFloat) -> bool {
    exponent(value).is_none_or(|exponent| exponent <= MAX_ARGUMENT_EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::super::{lexer::tokenize, parser::parse, work::Work};
    use super::*;

    #[test]
    fn decides_beyond_the_digits_of_floats() {
        for (a, b, expected) in [
            ("e^{\\pi\\sqrt{163}}", "640320^3+744", Some(false)),
            ("\\sqrt{10^{20}+1}-10^{10}", "0", Some(false)),
            ("\\sqrt{10^{20}+1}-10^{10}", "\\frac{1}{\\sqrt{10^{20}+1}+10^{10}}", Some(true)),
            ("\\sqrt{2}\\sqrt{3}-\\sqrt{6}", "0", Some(true)),
            ("\\sqrt{5+2\\sqrt{6}}", "\\sqrt{2}+\\sqrt{3}", Some(true)),
            ("\\sqrt[3]{-2}\\sqrt[3]{4}", "-2", Some(true)),
            ("e^{-1000\\pi}", "e^{-1001\\pi}", Some(false)),
            ("\\sin^2 x + \\cos^2 x", "1", Some(true)),
            ("\\arctan 1", "\\pi/4", Some(true)),
            ("\\log_2 3", "\\frac{\\ln 3}{\\ln 2}", Some(true)),
            ("\\arcsin 2", "1", None),
            ("\\sqrt{-1}", "1", None),
            ("\\ln 0", "1", None),
            ("e^{10^{10}}", "1", None),
            ("\\infty", "1", None),
        ] {
            let work = Work::new();
            let formula = |text: &str| parse(&tokenize(text, &work).unwrap(), &work).unwrap();
            let point = Point { index: 0, work: &work };
            assert_eq!(same(&formula(a), &formula(b), point), expected, "{a} and {b}");
        }
    }
}
