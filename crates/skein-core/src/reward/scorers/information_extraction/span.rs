//! Exact match and token F1 for answers read from text, after SQuAD's normalisation as WebSRC uses it.
//!
//! That normalisation drops punctuation, which makes `1.5` and `15`, or `-5` and `5`, the same text. A reward can't
//! have that: [`exact_match`] also demands that both texts hold the same numbers in the same order. It is the only
//! difference from the published rule.

use std::collections::HashMap;

const ARTICLES: [&str; 3] = ["a", "an", "the"];

/// Whether two spans are the same text or the same number.
pub fn exact_match(predicted: &str, gold: &str) -> bool {
    let same_numbers = numbers(predicted) == numbers(gold);
    let same_text = tokens(predicted) == tokens(gold);
    same_numbers && same_text || plain_number(predicted).is_some_and(|p| plain_number(gold) == Some(p))
}

/// F1 over the two spans' tokens as multisets, in [0, 1]; 1 when both are empty.
pub fn token_f1(predicted: &str, gold: &str) -> f64 {
    let (predicted, gold) = (tokens(predicted), tokens(gold));
    if predicted.is_empty() || gold.is_empty() {
        return f64::from(u8::from(predicted.is_empty() && gold.is_empty()));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for token in &gold {
        *left.entry(token).or_default() += 1;
    }
    let mut shared = 0;
    for token in &predicted {
        if let Some(count) = left.get_mut(token.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    2.0 * f64::from(shared) / (predicted.len() + gold.len()) as f64
}

/// Lower-case words without ASCII punctuation and articles.
fn tokens(text: &str) -> Vec<String> {
    let text: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    text.split_whitespace().filter(|word| !ARTICLES.contains(word)).map(str::to_owned).collect()
}

/// The numbers in a text as normalised digits: sign, no thousands separators, no trailing zeros after the point.
fn numbers(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let is_digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        if !is_digit(i) {
            i += 1;
            continue;
        }
        let start = i;
        let mut digits = String::new();
        let mut has_point = start > 0 && bytes[start - 1] == b'.' && (start < 2 || !is_digit(start - 2));
        if has_point {
            digits.push_str("0.");
        }
        while is_digit(i)
            || (bytes.get(i) == Some(&b',') && (1..=3).all(|k| is_digit(i + k)) && !is_digit(i + 4))
            || (bytes.get(i) == Some(&b'.') && !has_point && is_digit(i + 1))
        {
            has_point |= bytes[i] == b'.';
            if bytes[i] != b',' {
                digits.push(char::from(bytes[i]));
            }
            i += 1;
        }
        // A hyphen is a sign only where no word or number ends just before it.
        let before = text[..start].trim_end_matches(['$', '.']);
        let negative = before.strip_suffix('-').is_some_and(|rest| !rest.ends_with(char::is_alphanumeric));
        let digits = digits.trim_start_matches('0');
        let digits = if has_point { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        let sign = if negative && !digits.is_empty() { "-" } else { "" };
        found.push(format!("{sign}{digits}"));
    }
    found
}

/// The value of a text that is one number, with an optional currency sign and thousands separators.
fn plain_number(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches('.');
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let rest = rest.trim_start_matches(['$', '£', '€']).trim_start();
    let mut groups = rest.split('.').next()?.split(',');
    let first = groups.next()?;
    let grouped = groups.all(|group| group.len() == 3) && (!rest.contains(',') || (1..=3).contains(&first.len()));
    let digits: String = rest.chars().filter(|&c| c != ',').collect();
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if grouped && plain { digits.parse().ok().map(|number: f64| sign * number) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_match_keeps_numbers_apart() {
        for (a, b) in [("20 MPG.", "20 mpg"), ("66", "66 \""), ("A simple test.", "simple test"), ("$5.00", "5")] {
            assert!(exact_match(a, b), "{a} {b}");
        }
        assert!(exact_match("1,000 km", "1000 km") && exact_match("10/06/2020", "10/06/2020."));
        assert!(exact_match("-5 degrees", "-5 degrees") && exact_match("2-3", "2-3") && exact_match(".5", "0.50"));
        for (a, b) in [("1.5", "15"), ("-5 kg", "5 kg"), ("3.5 kg", "35 kg"), ("Web", "Web camera"), ("", "no")] {
            assert!(!exact_match(a, b), "{a} {b}");
        }
    }

    #[test]
    fn f1_counts_multisets() {
        assert_eq!(token_f1("The answer is Video conferencing kit", "Video conferencing kit"), 0.75);
        assert_eq!(token_f1("a a b b", "b b b"), 0.8);
        assert_eq!(token_f1("", "the"), 1.0);
        assert_eq!(token_f1("x", ""), 0.0);
    }
}
