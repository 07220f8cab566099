//! Values of formulas: exact rationals where the formula allows it, complex floats elsewhere, both with bounded work.
//!
//! A formula with variables is evaluated at a [`Point`]. Two formulas are the same when they agree at enough random
//! points; over the rationals that test is exact up to a vanishing chance.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_complex::Complex64;
use num_integer::Integer;
use num_rational::{BigRational, Ratio};
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::expr::{Constant, Expr, Function};
use super::rational::{self, MAX_BITS, bits, bounded, is_same, words};
use super::work::Work;

/// Largest argument of an exact factorial and largest lower argument of an exact binomial coefficient.
const MAX_FACTORIAL: u32 = 2500;

/// Steps of visiting a node of a formula, and of each factor of a factorial.
const NODE_STEPS: u64 = 100;
const FACTOR_STEPS: u64 = 200;

/// Values for variables: a number per name, derived from the name and the point's index.
#[derive(Debug, Clone, Copy)]
pub struct Point<'w> {
    /// Which of the points it is.
    pub index: u64,
    /// What evaluation may still cost.
    pub work: &'w Work,
}

impl Point<'_> {
    /// A rational between 0.3 and 3 in size, of either sign.
    fn value(self, name: &str) -> BigRational {
        // FNV-1a, then a finaliser, so that names and points that differ little get unrelated values.
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ self.index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        let sign = if hash & 1 == 0 { 1 } else { -1 };
        let numerator = 3000 + (hash >> 8) % 27_000;
        let (numerator, denominator) = Ratio::new(numerator as i64 * sign, 10_007).into_raw();
        BigRational::new_raw(numerator.into(), denominator.into())
    }

    /// A value for a function that is compared by its name and arguments.
    fn value_of(self, call: &Expr) -> Option<BigRational> {
        self.work.spend(NODE_STEPS * call.weight())?;
        Some(self.value(&call.canonical()))
    }
}

/// The exact value at a point; none where it isn't rational, isn't defined or is too large.
pub fn exact(expr: &Expr, point: Point) -> Option<BigRational> {
    point.work.spend(NODE_STEPS)?;
    match expr {
        Expr::Number { value, .. } => {
            point.work.spend(words(bits(value)))?;
            Some(value.clone())
        }
        Expr::Percent(inner) => {
            let hundredth = BigRational::new_raw(1.into(), 100.into());
            rational::product([exact(inner, point), Some(hundredth)], point.work)
        }
        Expr::Symbol(name) | Expr::Word(name) => {
            point.work.spend(name.len() as u64)?;
            Some(point.value(name))
        }
        Expr::Sum(items) => rational::sum(items.iter().map(|item| exact(item, point)), point.work),
        Expr::Product(items) => rational::product(items.iter().map(|item| exact(item, point)), point.work),
        Expr::Power(base, exponent) => {
            exact_power(&exact(base, point)?, &exact(exponent, point)?, point.work).and_then(bounded)
        }
        Expr::Call(Function::Opaque(_), _) => point.value_of(expr),
        Expr::Call(function, arguments) => {
            let arguments = arguments.iter().map(|argument| exact(argument, point)).collect::<Option<Vec<_>>>()?;
            exact_call(function, arguments, point.work).and_then(bounded)
        }
        _ => None,
    }
}

fn exact_power(base: &BigRational, exponent: &BigRational, work: &Work) -> Option<BigRational> {
    if base.is_zero() {
        return exponent.is_positive().then(BigRational::zero);
    }
    if !exponent.is_integer() {
        return exact_root(base, exponent, work);
    }
    rational::power(base, exponent.numer().to_i32()?, work)
}

/// A rational root, where the base is a perfect power.
fn exact_root(base: &BigRational, exponent: &BigRational, work: &Work) -> Option<BigRational> {
    let degree = exponent.denom().to_u32().filter(|degree| *degree <= 64)?;
    if base.is_negative() {
        return None;
    }
    rational::power(&rational::root(base, degree, work)?, exponent.numer().to_i32()?, work)
}

fn exact_call(function: &Function, arguments: Vec<BigRational>, work: &Work) -> Option<BigRational> {
    let first = arguments.first()?;
    Some(match function {
        Function::Abs => first.abs(),
        Function::Floor | Function::Ceil => {
            rational::pay_product(first.numer().bits(), first.denom().bits(), work)?;
            if *function == Function::Floor { first.floor() } else { first.ceil() }
        }
        Function::Max => extreme(arguments, Ordering::Greater, work)?,
        Function::Min => extreme(arguments, Ordering::Less, work)?,
        Function::Modulo => rational::modulo(first, arguments.get(1)?, work)?,
        Function::Log => exact_log(first, arguments.get(1)?, work)?,
        Function::Gcd | Function::Lcm | Function::Factorial | Function::Binomial => {
            let integers = arguments.iter().map(|value| value.is_integer().then(|| value.numer()));
            BigRational::from_integer(integer_call(function, &integers.collect::<Option<Vec<_>>>()?, work)?)
        }
        Function::Elementary(_) | Function::Opaque(_) => return None,
    })
}

/// The largest or the smallest of some numbers.
fn extreme(numbers: Vec<BigRational>, wanted: Ordering, work: &Work) -> Option<BigRational> {
    let mut numbers = numbers.into_iter();
    let first = numbers.next()?;
    numbers.try_fold(first, |found, number| {
        Some(if rational::order(&number, &found, work)? == wanted { number } else { found })
    })
}

fn integer_call(function: &Function, arguments: &[&BigInt], work: &Work) -> Option<BigInt> {
    let gcd = |a: BigInt, b: &BigInt| rational::gcd(&a, b, work);
    match function {
        Function::Gcd => arguments.iter().try_fold(BigInt::zero(), |a, b| gcd(a, b)),
        Function::Lcm => arguments.iter().try_fold(BigInt::one(), |a, b| {
            if a.is_zero() || b.is_zero() {
                return Some(BigInt::zero());
            }
            let shared = gcd(a.clone(), b)?;
            rational::pay_product(a.bits(), b.bits(), work)?;
            let lcm = (a / shared * *b).abs();
            (lcm.bits() <= MAX_BITS).then_some(lcm)
        }),
        Function::Factorial => {
            let n = arguments.first()?.to_u32().filter(|n| *n <= MAX_FACTORIAL)?;
            work.spend(FACTOR_STEPS * u64::from(n))?;
            Some((1..=n).map(BigInt::from).product())
        }
        Function::Binomial => {
            let [n, k] = *<&[&BigInt; 2]>::try_from(arguments).ok()?;
            let k = if k.is_negative() || n < k { return None } else { k.clone().min(n - k) };
            let k = k.to_u32().filter(|k| *k <= MAX_FACTORIAL)?;
            let mut value = BigInt::one();
            for i in 0..k {
                rational::pay_product(value.bits(), n.bits(), work)?;
                value = value * (n - i) / (i + 1);
                if value.bits() > MAX_BITS {
                    return None;
                }
            }
            Some(value)
        }
        _ => None,
    }
}

/// `log_base(x)` where it is an integer.
fn exact_log(base: &BigRational, x: &BigRational, work: &Work) -> Option<BigRational> {
    if !base.is_positive() || base.is_one() || !x.is_positive() {
        return None;
    }
    let guess = to_float(x).ln() / to_float(base).ln();
    let exponent = (guess.is_finite() && guess.abs() < 1e6).then(|| guess.round() as i32)?;
    is_same(&rational::power(base, exponent, work)?, x).then(|| BigRational::from_integer(exponent.into()))
}

/// The nearest float, also where numerator and denominator are beyond a float's range.
pub fn to_float(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

/// The value at a point as a complex float; none where it isn't defined or finite.
pub fn float(expr: &Expr, point: Point) -> Option<Complex64> {
    let value = raw_float(expr, point)?;
    value.is_finite().then_some(value)
}

fn raw_float(expr: &Expr, point: Point) -> Option<Complex64> {
    point.work.spend(NODE_STEPS)?;
    let real = |value: f64| Some(Complex64::new(value, 0.0));
    match expr {
        Expr::Number { value, .. } => {
            point.work.spend(words(bits(value)))?;
            real(to_float(value))
        }
        Expr::Percent(inner) => Some(raw_float(inner, point)? / 100.0),
        Expr::Symbol(name) | Expr::Word(name) => real(to_float(&point.value(name))),
        Expr::Constant(constant) => match constant {
            Constant::Pi => real(std::f64::consts::PI),
            Constant::E => real(std::f64::consts::E),
            Constant::I => Some(Complex64::I),
            Constant::Infinity => real(f64::INFINITY),
        },
        Expr::Sum(items) => items.iter().map(|item| raw_float(item, point)).sum(),
        Expr::Product(items) => items.iter().map(|item| raw_float(item, point)).product(),
        Expr::Power(base, exponent) => {
            if let Some(value) = exact(expr, point) {
                return real(to_float(&value));
            }
            let value = raw_float(base, point)?;
            // An odd root of a negative number is the real one, as answers mean it.
            if value.im == 0.0
                && value.re < 0.0
                && let Some(exponent) = exact(exponent, point)
                && exponent.denom().is_odd()
            {
                let sign = if exponent.numer().is_odd() { -1.0 } else { 1.0 };
                return real(sign * (-value.re).powf(to_float(&exponent)));
            }
            Some(power(value, raw_float(exponent, point)?))
        }
        Expr::Call(Function::Opaque(_), _) => real(to_float(&point.value_of(expr)?)),
        Expr::Call(function, arguments) => {
            if let Some(value) = exact(expr, point) {
                return real(to_float(&value));
            }
            let arguments = arguments.iter().map(|argument| raw_float(argument, point)).collect::<Option<Vec<_>>>()?;
            call(function, &arguments)
        }
        _ => None,
    }
}

fn power(base: Complex64, exponent: Complex64) -> Complex64 {
    if base.im == 0.0 && exponent.im == 0.0 && base.re >= 0.0 {
        return Complex64::new(base.re.powf(exponent.re), 0.0);
    }
    base.powc(exponent)
}

fn call(function: &Function, arguments: &[Complex64]) -> Option<Complex64> {
    let x = *arguments.first()?;
    let real = |value: f64| Some(Complex64::new(value, 0.0));
    let all_real = || -> Option<Vec<f64>> {
        arguments.iter().map(|argument| (argument.im == 0.0).then_some(argument.re)).collect()
    };
    match function {
        Function::Elementary(name) => Some(match *name {
            "sin" => x.sin(),
            "cos" => x.cos(),
            "tan" => x.tan(),
            "cot" => x.tan().inv(),
            "sec" => x.cos().inv(),
            "csc" => x.sin().inv(),
            "arcsin" => x.asin(),
            "arccos" => x.acos(),
            "arctan" => x.atan(),
            "sinh" => x.sinh(),
            "cosh" => x.cosh(),
            "tanh" => x.tanh(),
            "arcsinh" => x.asinh(),
            "arccosh" => x.acosh(),
            "arctanh" => x.atanh(),
            _ => return None,
        }),
        Function::Log => Some(arguments.get(1)?.ln() / x.ln()),
        Function::Abs => real(x.norm()),
        Function::Floor => real(all_real()?[0].floor()),
        Function::Ceil => real(all_real()?[0].ceil()),
        Function::Max => real(all_real()?.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        Function::Min => real(all_real()?.into_iter().fold(f64::INFINITY, f64::min)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{lexer::tokenize, parser::parse};
    use super::*;

    fn value(text: &str) -> Option<String> {
        let work = Work::new();
        let formula = parse(&tokenize(text, &work)?, &work)?;
        exact(&formula, Point { index: 0, work: &work }).map(|value| value.to_string())
    }

    #[test]
    fn exact_values() {
        for (text, expected) in [
            ("3\\frac12", "7/2"),
            ("-3 \\frac{1}{2}", "-7/2"),
            ("2^{10}-1", "1023"),
            ("2^{-2}", "1/4"),
            ("\\sqrt{16}", "4"),
            ("8^{2/3}", "4"),
            ("{16 \\choose 2}", "120"),
            ("5!/3!", "20"),
            ("\\gcd(830,450)", "10"),
            ("128*10^300\\mod 876123", "335792"),
            ("9\\mod -213", "-204"),
            ("1+1\\mod 2", "2"),
            ("\\log_2(8)", "3"),
            ("\\lfloor -1.5 \\rfloor", "-2"),
            ("1.5\\%", "3/200"),
            ("7:32", "7/32"),
        ] {
            assert_eq!(value(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["2^{2^{2^{49}}}", "\\binom{1000000}{500000}", "1/0", "\\sqrt{2}", "\\pi", "100000!"] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn floats_cover_what_is_not_rational() {
        let close = |text: &str, expected: f64| {
            let work = Work::new();
            let formula = parse(&tokenize(text, &work).unwrap(), &work).unwrap();
            let value = float(&formula, Point { index: 0, work: &work }).unwrap();
            assert!((value - expected).norm() < 1e-12, "{text} is {value}");
        };
        close("e^{i\\pi}", -1.0);
        close("\\sin^2 x+\\cos^2 x", 1.0);
        close("\\sqrt[3]{-8}", -2.0);
        close("\\log 1000 + \\ln e", 4.0);
        close("|3-\\pi|", std::f64::consts::PI - 3.0);
    }
}
