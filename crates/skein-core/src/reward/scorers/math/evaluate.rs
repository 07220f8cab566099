//! Values of formulas: exact rationals where the formula allows it, complex floats elsewhere, both with bounded work.
//!
//! A formula with variables is evaluated at a [`Point`]. Two formulas are the same when they agree at enough random
//! points; over the rationals that test is exact up to a vanishing chance.

use num_bigint::BigInt;
use num_complex::Complex64;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::expr::{Constant, Expr, Function};
use super::work::Work;

/// Exact numbers grow no larger than this, numerator and denominator together.
const MAX_BITS: u64 = 40_000;

/// Largest argument of an exact factorial and largest lower argument of an exact binomial coefficient.
const MAX_FACTORIAL: u32 = 2500;

/// Steps of visiting a node of a formula, and of an exact factorial or binomial coefficient.
const NODE_STEPS: u64 = 20;
const FACTORIAL_STEPS: u64 = 1_000_000;

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
        BigRational::new(BigInt::from(numerator) * sign, BigInt::from(10_007))
    }
}

fn bits(value: &BigRational) -> u64 {
    value.numer().bits() + value.denom().bits()
}

fn bounded(value: BigRational, point: Point) -> Option<BigRational> {
    point.work.spend_on_bits(bits(&value))?;
    (bits(&value) <= MAX_BITS).then_some(value)
}

/// The exact value at a point; none where it isn't rational, isn't defined or is too large.
pub fn exact(expr: &Expr, point: Point) -> Option<BigRational> {
    point.work.spend(NODE_STEPS)?;
    match expr {
        Expr::Number { value, .. } => Some(value.clone()),
        Expr::Percent(inner) => Some(exact(inner, point)? / BigInt::from(100)),
        Expr::Symbol(name) | Expr::Word(name) => Some(point.value(name)),
        Expr::Sum(items) => {
            items.iter().try_fold(BigRational::zero(), |sum, item| bounded(sum + exact(item, point)?, point))
        }
        Expr::Product(items) => {
            items.iter().try_fold(BigRational::one(), |product, item| bounded(product * exact(item, point)?, point))
        }
        Expr::Power(base, exponent) => bounded(exact_power(&exact(base, point)?, &exact(exponent, point)?)?, point),
        Expr::Call(Function::Opaque(_), _) => Some(point.value(&expr.canonical())),
        Expr::Call(function, arguments) => {
            let arguments = arguments.iter().map(|argument| exact(argument, point)).collect::<Option<Vec<_>>>()?;
            if matches!(function, Function::Factorial | Function::Binomial) {
                point.work.spend(FACTORIAL_STEPS)?;
            }
            bounded(exact_call(function, &arguments)?, point)
        }
        _ => None,
    }
}

fn exact_power(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    if base.is_zero() {
        return exponent.is_positive().then(BigRational::zero);
    }
    if !exponent.is_integer() {
        return exact_root(base, exponent);
    }
    let exponent = exponent.to_integer().to_i32()?;
    if bits(base).saturating_mul(exponent.unsigned_abs().into()) > MAX_BITS && !base.abs().is_one() {
        return None;
    }
    let power = |value: &BigInt| value.pow(exponent.unsigned_abs());
    Some(match (base.abs().is_one(), exponent >= 0) {
        (true, _) if exponent % 2 == 0 => BigRational::one(),
        (true, _) => base.clone(),
        // Powers of a reduced fraction are reduced.
        (false, true) => BigRational::new_raw(power(base.numer()), power(base.denom())),
        (false, false) => BigRational::new_raw(power(base.numer()), power(base.denom())).recip(),
    })
}

/// A rational root, where the base is a perfect power.
fn exact_root(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    let degree = exponent.denom().to_u32().filter(|degree| *degree <= 64)?;
    if base.is_negative() {
        return None;
    }
    let root = |value: &BigInt| {
        let root = value.nth_root(degree);
        (root.pow(degree) == *value).then_some(root)
    };
    let root = BigRational::new(root(base.numer())?, root(base.denom())?);
    exact_power(&root, &BigRational::from_integer(exponent.numer().clone()))
}

fn exact_call(function: &Function, arguments: &[BigRational]) -> Option<BigRational> {
    let integers = || -> Option<Vec<BigInt>> {
        arguments.iter().map(|argument| argument.is_integer().then(|| argument.to_integer())).collect()
    };
    let first = arguments.first()?;
    Some(match function {
        Function::Abs => first.abs(),
        Function::Floor => first.floor(),
        Function::Ceil => first.ceil(),
        Function::Max => arguments.iter().max()?.clone(),
        Function::Min => arguments.iter().min()?.clone(),
        Function::Gcd => BigRational::from_integer(integers()?.iter().fold(BigInt::zero(), |a, b| a.gcd(b))),
        Function::Lcm => {
            let lcm = integers()?.iter().try_fold(BigInt::one(), |a, b| {
                let lcm = if a.is_zero() || b.is_zero() { BigInt::zero() } else { a.lcm(b) };
                (lcm.bits() <= MAX_BITS).then_some(lcm)
            })?;
            BigRational::from_integer(lcm)
        }
        Function::Modulo => {
            let divisor = arguments.get(1)?;
            if divisor.is_zero() {
                return None;
            }
            first - divisor * (first / divisor).floor()
        }
        Function::Factorial => {
            let n = integers()?[0].to_u32().filter(|n| *n <= MAX_FACTORIAL)?;
            BigRational::from_integer((1..=n).map(BigInt::from).product())
        }
        Function::Binomial => {
            let [n, k] = <[BigInt; 2]>::try_from(integers()?).ok()?;
            let k = if k.is_negative() || n < k { return None } else { k.clone().min(&n - &k) };
            let k = k.to_u32().filter(|k| *k <= MAX_FACTORIAL)?;
            let mut value = BigInt::one();
            for i in 0..k {
                value = value * (&n - i) / (i + 1);
                if value.bits() > MAX_BITS {
                    return None;
                }
            }
            BigRational::from_integer(value)
        }
        Function::Log => exact_log(first, arguments.get(1)?)?,
        Function::Elementary(_) | Function::Opaque(_) => return None,
    })
}

/// `log_base(x)` where it is an integer.
fn exact_log(base: &BigRational, x: &BigRational) -> Option<BigRational> {
    if !base.is_positive() || base.is_one() || !x.is_positive() {
        return None;
    }
    let guess = to_float(x).ln() / to_float(base).ln();
    let exponent =
        BigRational::from_integer((guess.is_finite() && guess.abs() < 1e6).then(|| guess.round() as i64)?.into());
    (exact_power(base, &exponent)? == *x).then_some(exponent)
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
        Expr::Number { value, .. } => real(to_float(value)),
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
        Expr::Call(Function::Opaque(_), _) => real(to_float(&point.value(&expr.canonical()))),
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
        exact(&parse(&tokenize(text)?)?, Point { index: 0, work: &Work::new() }).map(|value| value.to_string())
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
            let value =
                float(&parse(&tokenize(text).unwrap()).unwrap(), Point { index: 0, work: &Work::new() }).unwrap();
            assert!((value - expected).norm() < 1e-12, "{text} is {value}");
        };
        close("e^{i\\pi}", -1.0);
        close("\\sin^2 x+\\cos^2 x", 1.0);
        close("\\sqrt[3]{-8}", -2.0);
        close("\\log 1000 + \\ln e", 4.0);
        close("|3-\\pi|", std::f64::consts::PI - 3.0);
    }
}
