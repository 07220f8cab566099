//! When two programs' outputs are the same: LiveCodeBench's rule (its `testing_util`), on text alone.
//!
//! Outputs are compared line by line, blank lines inside included; two lines agree when they are the same text, or when
//! both consist of decimal numbers that are equal one by one. Nothing is rounded and case counts.

/// Decimal exponents beyond this are no numbers (the limit of Python's `decimal` on 64-bit machines).
const MAX_EXPONENT: i64 = 999_999_999_999_999_999;

/// Whether `output` is the output that `expected` asks for.
pub fn outputs_agree(output: &str, expected: &str) -> bool {
    let (output, expected) = (output.trim().split('\n'), expected.trim().split('\n'));
    let mut expected = expected.fuse();
    for line in output {
        match expected.next() {
            Some(wanted) if lines_agree(line.trim(), wanted.trim()) => {}
            _ => return false,
        }
    }
    expected.next().is_none()
}

fn lines_agree(line: &str, expected: &str) -> bool {
    if line == expected {
        return true;
    }
    let (mut tokens, mut wanted) = (line.split_whitespace(), expected.split_whitespace());
    loop {
        match (tokens.next(), wanted.next()) {
            (None, None) => return true,
            (Some(token), Some(wanted)) if numbers_agree(token, wanted) => {}
            _ => return false,
        }
    }
}

fn numbers_agree(a: &str, b: &str) -> bool {
    matches!((Decimal::parse(a), Decimal::parse(b)), (Some(a), Some(b)) if a == b && a != Decimal::NotANumber)
}

/// A decimal number in the only form that its value has.
#[derive(Debug, PartialEq, Eq)]
enum Decimal {
    Zero,
    Finite {
        negative: bool,
        /// Without zeros at either end.
        digits: String,
        /// Of the last digit.
        exponent: i64,
    },
    Infinite {
        negative: bool,
    },
    NotANumber,
}

impl Decimal {
    /// Reads what Python's `Decimal` constructor reads.
    fn parse(token: &str) -> Option<Self> {
        let token = token.replace('_', "").to_ascii_lowercase();
        let negative = token.starts_with('-');
        let body = token.strip_prefix(['+', '-']).unwrap_or(&token);
        if matches!(body, "inf" | "infinity") {
            return Some(Self::Infinite { negative });
        }
        let payload = body.strip_prefix('s').unwrap_or(body).strip_prefix("nan");
        if payload.is_some_and(|payload| payload.bytes().all(|b| b.is_ascii_digit())) {
            return Some(Self::NotANumber);
        }
        let (mantissa, exponent) = match body.split_once('e') {
            Some((mantissa, exponent)) => (mantissa, Self::exponent(exponent)?),
            None => (body, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_end_matches('0');
        if significant.is_empty() {
            return Some(Self::Zero);
        }
        let dropped = i64::try_from(all.len() - significant.len()).ok()?;
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
        Some(Self::Finite { negative, digits: significant.trim_start_matches('0').to_owned(), exponent })
    }

    fn exponent(text: &str) -> Option<i64> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().filter(|exponent: &i64| exponent.abs() <= MAX_EXPONENT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_and_numbers() {
        for (output, expected) in [
            ("3\n", "3"),
            ("", "\n\n"),
            ("1e3", "1000"),
            ("011", "11"),
            ("0.1  0.2", "0.10 0.20"),
            ("-0", "0.0"),
            ("YES  \r\n1 \r\n", "YES\n1"),
            ("1_000", "1000"),
            ("Infinity", "inf"),
            ("1e999999", "10e999998"),
        ] {
            assert!(outputs_agree(output, expected), "{output:?} {expected:?}");
        }
        for (output, expected) in [
            ("yes", "YES"),
            ("nan", "NaN"),
            ("1\n\n2", "1\n2"),
            ("1\n2\n3", "1\n2"),
            ("1", "1\n2"),
            ("7.0 L", "7 L"),
            ("50000000000000001", "50000000000000000"),
            ("1.0000001", "1"),
            ("-1", "1"),
            ("1 2", "12"),
            ("", "0"),
            (".", "0"),
            ("1e", "1"),
            ("0x10", "16"),
            ("inf", "-inf"),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ] {
            assert!(!outputs_agree(output, expected), "{output:?} {expected:?}");
        }
    }

    proptest! {
        #[test]
        fn agreement_is_symmetric_and_reflexive(a in "[0-9eE+._ \n-]{0,12}", b in "[0-9eE+._ \n-]{0,12}") {
            prop_assert!(outputs_agree(&a, &a));
            prop_assert_eq!(outputs_agree(&a, &b), outputs_agree(&b, &a));
        }

        #[test]
        fn integers_agree_with_their_longer_spellings(n: i64) {
            prop_assert!(outputs_agree(&format!("{n}.00"), &n.to_string()), "{n}");
            prop_assert!(outputs_agree(&format!("{n}0e-1"), &n.to_string()), "{n}");
        }
    }
}
