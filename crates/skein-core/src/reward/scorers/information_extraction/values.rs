//! Typed values for table answers: numbers, dates with blanks, strings.
//!
//! The matching rule is that of the WikiTableQuestions evaluator 1.0.2 (github.com/ppasupat/WikiTableQuestions): two
//! values match when their texts agree after normalisation, or both are numbers within [`NUMBER_TOLERANCE`], or both
//! are dates with the same year, month and day, blanks included.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Two numbers are the same value within this distance (the evaluator's constant).
pub const NUMBER_TOLERANCE: f64 = 1e-6;

/// One item of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    normalized: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Number(f64),
    /// `None` is a blank.
    Date {
        year: Option<u32>,
        month: Option<u32>,
        day: Option<u32>,
    },
    Text,
}

impl Value {
    /// The value that a text stands for.
    pub fn of(text: &str) -> Self {
        Self::with_canonical(text, text)
    }

    /// The value whose text is `raw` and whose type is read from `canonical`.
    pub fn with_canonical(raw: &str, canonical: &str) -> Self {
        Self { normalized: normalize(raw), kind: Kind::of(canonical) }
    }

    fn matches(&self, other: &Self) -> bool {
        self.normalized == other.normalized || self.kind.matches(&other.kind)
    }

    /// The evaluator's identity of values, by which lists lose their duplicates: by type first, then by content.
    fn same_as(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (Kind::Text, Kind::Text) => self.normalized == other.normalized,
            (a, b) => a == b,
        }
    }
}

impl Kind {
    fn of(text: &str) -> Self {
        let text = text.trim();
        if let Some(number) = number(text) {
            return Self::Number(number);
        }
        match date(text) {
            Some(Self::Date { year: Some(year), month: None, day: None }) => Self::Number(f64::from(year)),
            Some(date) => date,
            None => Self::Text,
        }
    }

    fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => (a - b).abs() < NUMBER_TOLERANCE,
            (Self::Date { .. }, Self::Date { .. }) => self == other,
            _ => false,
        }
    }
}

/// A finite number in plain or scientific notation, without thousands separators.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    number.is_finite().then_some(number)
}

/// `yyyy-mm-dd`, where `xx` (`xxxx` for the year) is a blank; not all three can be blank.
fn date(text: &str) -> Option<Kind> {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let part = |text: &str, range: std::ops::RangeInclusive<u32>| match text {
        "xx" => Some(None),
        _ if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok().filter(|n| range.contains(n)).map(Some),
        _ => None,
    };
    let year = if year == "xxxx" { None } else { part(year, 0..=9999)? };
    let (month, day) = (part(month, 1..=12)?, part(day, 1..=31)?);
    let all_blank = year.is_none() && month.is_none() && day.is_none();
    (parts.next().is_none() && !all_blank).then_some(Kind::Date { year, month, day })
}

/// Gold values from annotators' texts and, where given, their canonical forms.
pub fn targets(raw: &[String], canonical: &[String]) -> Vec<Value> {
    if canonical.is_empty() {
        return raw.iter().map(|text| Value::of(text)).collect();
    }
    raw.iter().zip(canonical).map(|(raw, canonical)| Value::with_canonical(raw, canonical)).collect()
}

/// Whether a predicted list of items denotes the gold values: equally many distinct ones, each gold value matched.
pub fn denote_same(gold: &[Value], predicted: &[String]) -> bool {
    let gold = distinct(gold.iter().cloned());
    let predicted = distinct(predicted.iter().map(|text| Value::of(text)));
    gold.len() == predicted.len() && gold.iter().all(|g| predicted.iter().any(|p| g.matches(p)))
}

fn distinct(values: impl Iterator<Item = Value>) -> Vec<Value> {
    // Quadratic in distinct items, so bounded: no gold answer has nearly this many.
    const MAX_ITEMS: usize = 1000;
    let mut kept: Vec<Value> = Vec::new();
    for value in values {
        if kept.len() <= MAX_ITEMS && !kept.iter().any(|k| k.same_as(&value)) {
            kept.push(value);
        }
    }
    kept
}

/// The form in which texts compare: without accents, typographic quotes and dashes, citations, trailing remarks in
/// parentheses, outer quotes and a final full stop, in lower case with single spaces.
fn normalize(text: &str) -> String {
    let text: String = text
        .nfkd()
        .filter(|&c| !is_combining_mark(c))
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' | '\u{00b4}' | '`' => '\'',
            '\u{201c}' | '\u{201d}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c => c,
        })
        .collect();
    let mut text = text.trim();
    loop {
        let shorter = without_outer_quotes(without_remark(without_citations(text)));
        if shorter.len() == text.len() {
            break;
        }
        text = shorter;
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Drops trailing citations: `[…]` that isn't the whole text, `[12]`, or a footnote sign.
fn without_citations(text: &str) -> &str {
    let mut text = text;
    loop {
        let trimmed = text.trim_end();
        let shorter = match trimmed.strip_suffix(['\u{2022}', '\u{2666}', '\u{2020}', '\u{2021}', '*', '#', '+']) {
            Some(before) => before,
            None => trimmed.strip_suffix(']').and_then(|body| citation_start(trimmed, body)).unwrap_or(trimmed),
        };
        if shorter.len() == text.len() {
            return text;
        }
        text = shorter;
    }
}

fn citation_start<'a>(text: &'a str, body: &str) -> Option<&'a str> {
    let open = body.rfind('[')?;
    let inner = &body[open + 1..];
    let is_number = !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_digit());
    (is_number || (open > 0 && !inner.contains(']'))).then(|| &text[..open])
}

/// Drops one trailing ` (…)`.
fn without_remark(text: &str) -> &str {
    let trimmed = text.trim_end();
    let Some(open) = trimmed.strip_suffix(')').and_then(|body| body.rfind('(')) else { return trimmed };
    let before = trimmed[..open].trim_end();
    if before.is_empty() || before.len() == open { trimmed } else { before }
}

fn without_outer_quotes(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).map_or(text, str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes() {
        for (text, expected) in [
            ("  Beyoncé  Knowles ", "beyonce knowles"),
            ("“Heroes”", "heroes"),
            ("2–1", "2-1"),
            ("Keflavík[3]", "keflavik"),
            ("[3]", ""),
            ("[a]", "[a]"),
            ("Northern Iowa* (FCS)", "northern iowa"),
            ("f(x)", "f(x)"),
            ("Yes.", "yes"),
            ("*", ""),
        ] {
            assert_eq!(normalize(text), expected, "{text}");
        }
    }

    #[test]
    fn types_values() {
        assert_eq!(Kind::of("25.0"), Kind::Number(25.0));
        assert_eq!(Kind::of("2004-xx-xx"), Kind::Number(2004.0));
        assert_eq!(Kind::of("xxxx-09-xx"), Kind::Date { year: None, month: Some(9), day: None });
        for text in ["1,000", "inf", "nan", "25%", "2001-13-01", "xx-xx-xx", "1-2-3-4", "1990-01", "+1-1-1"] {
            assert_eq!(Kind::of(text), Kind::Text, "{text}");
        }
    }

    #[test]
    fn lists_compare_as_sets_of_values() {
        let gold = targets(&["10".into(), "10.0".into()], &["10".into(), "10.0".into()]);
        assert!(denote_same(&gold, &["10".into()]));
        assert!(!denote_same(&gold, &["10".into(), "11".into()]));
        assert!(denote_same(&[Value::of("4.2")], &["4.2000005".into()]));
        assert!(!denote_same(&[Value::of("4.2")], &["4.20001".into()]));
    }
}
