//! Arithmetic of rationals of any size, paid for before it is done.
//!
//! Reducing a fraction costs far more than the arithmetic that it ends, so sums and products are reduced once, at their
//! end, and never where an integer or a power of the other denominator is involved. Nothing here works on numbers of
//! more than [`MAX_BITS`], or without steps to pay with.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::work::Work;

/// Exact numbers grow no larger than this, numerator and denominator together.
pub const MAX_BITS: u64 = 40_000;

/// Bits of a machine word.
const WORD_BITS: u64 = 64;

/// Steps of an operation on numbers of a word or two, allocations included.
const OPERATION_STEPS: u64 = 50;

/// Passes over both numbers of a binary greatest common divisor, for each of a number's bits.
const GCD_PASSES: u64 = 2;

/// Passes of Newton's iteration for a root, and of a division each holds.
const ROOT_PASSES: u64 = 30;

/// Bits of numerator and denominator.
pub fn bits(value: &BigRational) -> u64 {
    value.numer().bits() + value.denom().bits()
}

/// Machine words of so many bits.
pub fn words(bits: u64) -> u64 {
    bits / WORD_BITS + 1
}

/// Pays for multiplying, or dividing, numbers of so many bits.
pub fn pay_product(a_bits: u64, b_bits: u64, work: &Work) -> Option<()> {
    work.spend(OPERATION_STEPS + 2 * words(a_bits) * words(b_bits))
}

/// Whether two reduced fractions are one; the standard comparison divides where this one reads.
pub fn is_same(a: &BigRational, b: &BigRational) -> bool {
    a.numer() == b.numer() && a.denom() == b.denom()
}

/// The order of two fractions, by multiplication with each other's denominator.
pub fn order(a: &BigRational, b: &BigRational, work: &Work) -> Option<Ordering> {
    let left = multiplied(a.numer(), b.denom(), work)?;
    Some(left.cmp(&multiplied(b.numer(), a.denom(), work)?))
}

/// The product of two integers.
pub fn multiplied(a: &BigInt, b: &BigInt, work: &Work) -> Option<BigInt> {
    if b.is_one() {
        work.spend(OPERATION_STEPS + words(a.bits()))?;
        return Some(a.clone());
    }
    pay_product(a.bits(), b.bits(), work)?;
    Some(a * b)
}

/// The quotient of two integers that leave no rest.
fn divided(a: BigInt, b: &BigInt, work: &Work) -> Option<BigInt> {
    if b.is_one() {
        return Some(a);
    }
    pay_product(a.bits(), b.bits(), work)?;
    Some(a / b)
}

/// The greatest common divisor.
pub fn gcd(a: &BigInt, b: &BigInt, work: &Work) -> Option<BigInt> {
    let (long, short) = if a.bits() < b.bits() { (b, a) } else { (a, b) };
    if short.is_zero() || short.magnitude().is_one() {
        work.spend(OPERATION_STEPS + words(long.bits()))?;
        return Some(if short.is_zero() { long.abs() } else { BigInt::one() });
    }
    pay_product(long.bits() - short.bits(), short.bits(), work)?;
    // A division first: binary steps take as many passes as the longer number has bits.
    let rest = long % short;
    if let (Some(rest), Some(short)) = (rest.magnitude().to_u64(), short.magnitude().to_u64()) {
        return Some(rest.gcd(&short).into());
    }
    if rest.is_zero() {
        return Some(short.abs());
    }
    let bits = rest.bits().max(short.bits());
    work.spend(GCD_PASSES * bits * words(bits))?;
    Some(rest.gcd(short))
}

/// A fraction in lowest terms, whose denominator is over 0.
pub fn reduced(numerator: BigInt, denominator: BigInt, work: &Work) -> Option<BigRational> {
    let divisor = gcd(&numerator, &denominator, work)?;
    let (numerator, denominator) = (divided(numerator, &divisor, work)?, divided(denominator, &divisor, work)?);
    Some(if denominator.is_negative() {
        BigRational::new_raw(-numerator, -denominator)
    } else {
        BigRational::new_raw(numerator, denominator)
    })
}

/// A number that is not too large.
pub fn bounded(value: BigRational) -> Option<BigRational> {
    (bits(&value) <= MAX_BITS).then_some(value)
}

/// The sum of some terms; none where one of them has no value.
pub fn sum(terms: impl IntoIterator<Item = Option<BigRational>>, work: &Work) -> Option<BigRational> {
    let (mut numerator, mut denominator) = (BigInt::zero(), BigInt::one());
    for term in terms {
        let (other, other_denominator) = term?.into_raw();
        work.spend(OPERATION_STEPS + words(numerator.bits() + other.bits()))?;
        if denominator == other_denominator {
            numerator += other;
        } else {
            let shared = gcd(&denominator, &other_denominator, work)?;
            let factor = divided(other_denominator, &shared, work)?;
            let other_factor = divided(denominator.clone(), &shared, work)?;
            numerator = multiplied(&numerator, &factor, work)? + multiplied(&other, &other_factor, work)?;
            denominator = multiplied(&denominator, &factor, work)?;
        }
        if numerator.bits() + denominator.bits() > 2 * MAX_BITS {
            return None;
        }
    }
    reduced(numerator, denominator, work).and_then(bounded)
}

/// The product of some factors; none where one of them has no value.
pub fn product(factors: impl IntoIterator<Item = Option<BigRational>>, work: &Work) -> Option<BigRational> {
    let (mut numerator, mut denominator) = (BigInt::one(), BigInt::one());
    for factor in factors {
        let factor = factor?;
        numerator = multiplied(&numerator, factor.numer(), work)?;
        denominator = multiplied(&denominator, factor.denom(), work)?;
        // What cancels may be as long as what stays.
        if numerator.bits() + denominator.bits() > 2 * MAX_BITS {
            return None;
        }
    }
    reduced(numerator, denominator, work).and_then(bounded)
}

/// An integral power.
pub fn power(base: &BigRational, exponent: i32, work: &Work) -> Option<BigRational> {
    if base.numer().magnitude().is_one() && base.denom().is_one() {
        return Some(if exponent % 2 == 0 { BigRational::one() } else { base.clone() });
    }
    let times = exponent.unsigned_abs();
    let bits = bits(base).saturating_mul(times.into());
    if bits > MAX_BITS || (base.is_zero() && exponent < 0) {
        return None;
    }
    pay_product(bits, bits, work)?;
    // Powers of a reduced fraction are reduced.
    let power = BigRational::new_raw(base.numer().pow(times), base.denom().pow(times));
    Some(if exponent < 0 { power.recip() } else { power })
}

/// The root of a fraction over 0; none where it isn't a fraction.
pub fn root(value: &BigRational, degree: u32, work: &Work) -> Option<BigRational> {
    let root = |value: &BigInt| {
        if value.is_one() {
            return Some(BigInt::one());
        }
        work.spend(OPERATION_STEPS + ROOT_PASSES * words(value.bits()).pow(2))?;
        let root = value.nth_root(degree);
        (root.pow(degree) == *value).then_some(root)
    };
    Some(BigRational::new_raw(root(value.numer())?, root(value.denom())?))
}

/// What is left of a division, with the divisor's sign.
pub fn modulo(value: &BigRational, divisor: &BigRational, work: &Work) -> Option<BigRational> {
    if divisor.is_zero() {
        return None;
    }
    let scaled = multiplied(value.numer(), divisor.denom(), work)?;
    let divisor_scaled = multiplied(divisor.numer(), value.denom(), work)?;
    let denominator = multiplied(value.denom(), divisor.denom(), work)?;
    pay_product(scaled.bits(), divisor_scaled.bits(), work)?;
    reduced(scaled.mod_floor(&divisor_scaled), denominator, work)
}

/// The nearest integer to a fraction times an integer, halves away from 0.
pub fn rounded(value: &BigRational, scale: &BigInt, work: &Work) -> Option<BigInt> {
    let double: BigInt = multiplied(value.numer(), scale, work)?.abs() * 2;
    pay_product(double.bits(), value.denom().bits(), work)?;
    let size: BigInt = (double + value.denom()) / (value.denom() * 2);
    Some(if value.is_negative() { -size } else { size })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::work::MAX_STEPS;
    use super::*;

    fn fraction(numerator: i64, denominator: i64) -> BigRational {
        BigRational::new(numerator.into(), denominator.into())
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_arithmetic(
            parts in proptest::collection::vec((any::<i32>(), 1i64..400), 1..6), exponent in -4i32..5,
        ) {
            let work = Work::new();
            let values: Vec<BigRational> = parts.iter().map(|(n, d)| fraction((*n).into(), *d)).collect();
            let (first, last) = (&values[0], &values[values.len() - 1]);
            let total = values.iter().fold(BigRational::zero(), |a, b| a + b);
            let product = values.iter().fold(BigRational::one(), |a, b| a * b);
            prop_assert_eq!(sum(values.iter().cloned().map(Some), &work), Some(total));
            prop_assert_eq!(super::product(values.iter().cloned().map(Some), &work), Some(product));
            prop_assert_eq!(order(first, last, &work), Some(first.cmp(last)));
            prop_assert_eq!(rounded(first, &10.into(), &work), Some((first * BigInt::from(10)).round().to_integer()));
            if !last.is_zero() {
                prop_assert_eq!(power(last, exponent, &work), Some(last.pow(exponent)));
                let rest = first - last * (first / last).floor();
                prop_assert_eq!(modulo(first, last, &work), Some(rest));
            }
            if !first.is_zero() {
                let cube = power(&first.abs(), 3, &work).unwrap();
                prop_assert_eq!(root(&cube, 3, &work), Some(first.abs()));
            }
        }
    }

    #[test]
    fn what_shares_a_factor_with_a_long_number_is_cheap() {
        let long = BigInt::from(7).pow(6000);
        let work = Work::new();
        assert_eq!(gcd(&long, &(&long * 6), &work), Some(long.clone()));
        assert_eq!(gcd(&long, &BigInt::from(-21), &work), Some(7.into()));
        assert!(MAX_STEPS - work.left() < MAX_STEPS / 10, "{} steps left", work.left());
        // Without a common factor it is not, and is refused.
        assert_eq!(gcd(&long, &(BigInt::from(5).pow(7000) + 2), &Work::of(MAX_STEPS / 10)), None);
    }
}
