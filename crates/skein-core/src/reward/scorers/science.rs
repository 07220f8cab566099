//! Science: one option of a multiple-choice question, named by its letter or by its text.
//!
//! The answer tag should hold a letter; sentences are read too, but only where they commit to one option. This scorer
//! never guesses: no letter, two letters, or a letter the question doesn't have is a wrong answer.

use std::sync::LazyLock;

use regex::Regex;

use super::{ScoreError, as_score, final_text, math};
use crate::skill::Domain;

/// Letters a question may use when its options are not known.
const DEFAULT_OPTIONS: usize = 10;

/// How far behind `answer is` a letter may stand, in bytes.
const ANCHOR_REACH: usize = 40;

/// 1 when `answer` commits to the gold option, else 0.
///
/// `gold` is an option's letter, its text, or both; `options` are the texts of A, B, …, and may be empty where they are not
/// known: letters up to J (or up to the gold one) then count as options.
///
/// # Errors
/// When `gold` names no option.
pub fn score(answer: &str, gold: &str, options: &[String]) -> Result<f64, ScoreError> {
    let answer = final_text(answer);
    let fail = |problem: String| ScoreError::gold(Domain::Science, problem);
    let gold = gold.trim();
    if gold.is_empty() {
        return Err(fail("is empty".to_owned()));
    }
    let letter = single_letter(gold);
    if let (None, true) = (letter, options.is_empty()) {
        return Ok(as_score(same_text(answer, gold)));
    }
    let num_options = match (options.len(), letter) {
        (0, Some(letter)) => DEFAULT_OPTIONS.max(letter + 1),
        (count, _) => count,
    };
    let gold_index = letter
        .filter(|&letter| letter < num_options)
        .or_else(|| unique(options, |option| same_text(option, gold)))
        .or_else(|| choice(gold, num_options, options))
        .or_else(|| single_letter(gold.split_whitespace().next()?).filter(|&letter| letter < num_options))
        .ok_or_else(|| fail(format!("is `{gold}`, neither a letter of the {num_options} options nor one's text")))?;
    Ok(as_score(choice(answer, num_options, options) == Some(gold_index)))
}

/// The index of the option that an answer commits to, if it commits to exactly one.
pub fn choice(answer: &str, num_options: usize, options: &[String]) -> Option<usize> {
    let in_range = |index: &usize| *index < num_options;
    let bare = undecorated(answer);
    if let Some(letter) = single_letter(bare) {
        return Some(letter).filter(in_range);
    }
    if let Some(option) = named_by_text(bare, options) {
        return Some(option);
    }
    if let Some((letter, text)) = labelled(bare).filter(|(letter, _)| in_range(letter)) {
        let contradicts = named_by_text(text, options).is_some_and(|option| option != letter);
        return (!contradicts).then_some(letter);
    }
    match anchored(answer) {
        Anchored::Letter(letter) => return Some(letter).filter(in_range),
        Anchored::Several => return None,
        Anchored::Text(text) => {
            if let Some(option) = named_by_text(undecorated(text), options) {
                return Some(option);
            }
        }
        Anchored::Nothing => {}
    }
    let last_line = answer.lines().rev().find(|line| !line.trim().is_empty())?;
    if let Some(letter) = single_letter(undecorated(last_line)) {
        return Some(letter).filter(in_range);
    }
    opening_letter(answer).or_else(|| only_bracketed_letter(answer)).filter(in_range)
}

fn single_letter(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let letter = chars.next().filter(char::is_ascii_alphabetic)?;
    chars.next().is_none().then(|| index_of(letter))
}

fn index_of(letter: char) -> usize {
    (letter.to_ascii_uppercase() as u8 - b'A').into()
}

/// The text without wrappers that add nothing: `$ \boxed{} \text{} ( ) [ ] * . :` and white space around it.
fn undecorated(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let mut shorter = text.trim_matches(|c: char| c.is_whitespace() || "$*.:\"'`。：".contains(c));
        for (open, close) in
            [("\\boxed{", "}"), ("\\text{", "}"), ("\\mathrm{", "}"), ("\\textbf{", "}"), ("(", ")"), ("[", "]")]
        {
            let inner = shorter.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
            shorter = inner.filter(|inner| !inner.contains(open)).unwrap_or(shorter);
        }
        if !shorter.contains(['(', '[']) {
            shorter = shorter.trim_end_matches([')', ']']);
        }
        if shorter.len() == text.len() {
            return text;
        }
        text = shorter;
    }
}

/// `B. text`, `B) text`, `(B) text`, `B: text`.
fn labelled(text: &str) -> Option<(usize, &str)> {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:\(([A-Za-z])\)|\[([A-Za-z])\]|\*\*([A-Za-z])\*\*[.):]?|([A-Za-z])(?:[.):]|\*\*))\s+")
            .expect("the pattern is a constant")
    });
    let found = LABEL.captures(text)?;
    let letter = (1..=4).find_map(|group| found.get(group))?.as_str().chars().next()?;
    let rest = &text[found.get(0)?.end()..];
    (!rest.is_empty() && !rest.contains('\n')).then(|| (index_of(letter), rest))
}

/// The only option that has this text, or this value.
fn named_by_text(text: &str, options: &[String]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    unique(options, |option| same_text(option, text)).or_else(|| {
        let value = math::Number::read(text)?;
        unique(options, |option| math::Number::read(option).is_some_and(|option| option == value))
    })
}

fn same_text(a: &str, b: &str) -> bool {
    fn normal(text: &str) -> impl Iterator<Item = char> {
        let is_noise = |c: char| c == '$' || c.is_whitespace();
        let text = text.trim_start_matches(is_noise).trim_end_matches(|c| c == '.' || is_noise(c));
        let mut space = false;
        let chars = text.chars().filter(|c| *c != '$').flat_map(char::to_lowercase);
        let collapsed = chars.flat_map(move |c| {
            if c.is_whitespace() {
                space = true;
                return [None, None];
            }
            [std::mem::take(&mut space).then_some(' '), Some(c)]
        });
        collapsed.flatten()
    }
    normal(a).eq(normal(b))
}

fn unique(options: &[String], holds: impl Fn(&str) -> bool) -> Option<usize> {
    let mut matching = (0..options.len()).filter(|&index| holds(&options[index]));
    matching.next().filter(|_| matching.next().is_none())
}

enum Anchored<'a> {
    /// The last anchor names one letter.
    Letter(usize),
    /// The last anchor names several, or says what the answer is not.
    Several,
    /// The last anchor names no letter; what follows it.
    Text(&'a str),
    /// There is no anchor.
    Nothing,
}

/// Reads what stands behind the last `answer is`, `answer:` or the like.
fn anchored(text: &str) -> Anchored<'_> {
    static ANCHOR: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)(?:(?-u:\b)(?:answer|option|choice)\s*(?:\*\*)?\s*(?:is|would be|must be|:|=|：)|réponse\s*(?:est|:)|(?:答案|答え)\s*(?:是|为|:|：|は)?)")
            .expect("the pattern is a constant")
    });
    static DENIAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)\bnot\b|n['’]t\b").expect("the pattern is a constant"));
    static PRONOUN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^I\s+(?:think|believe|guess|would|am|cannot|can't|don't|do|have)\b")
            .expect("the pattern is a constant")
    });
    static SECOND: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[)\]*]*\s*(?:,|/|&|and\b|or\b)\s*(?:and\s+|or\s+)?[(\[]?([A-Z])[)\]]?\s*(?:$|[.,;]|and\b|or\b)")
            .expect("the pattern is a constant")
    });

    let Some(anchor) = ANCHOR.find_iter(text).last() else { return Anchored::Nothing };
    let behind = text[anchor.end()..].trim_start();
    let line = behind.lines().next().unwrap_or("");
    // `the answer is c`: a lower-case letter counts only where nothing else is said.
    if let Some(letter) = single_letter(undecorated(line)) {
        return Anchored::Letter(letter);
    }
    for (at, letter) in standalone_letters(line) {
        if PRONOUN.is_match(&line[at..]) {
            continue;
        }
        if DENIAL.is_match(&line[..at]) {
            return Anchored::Several;
        }
        if let Some(second) = SECOND.captures(&line[at + letter.len_utf8()..])
            && second.get(1).is_some_and(|second| !second.as_str().starts_with(letter))
        {
            return Anchored::Several;
        }
        return Anchored::Letter(index_of(letter));
    }
    Anchored::Text(line)
}

/// Capitals within [`ANCHOR_REACH`] that are no part of a word, and where they stand.
fn standalone_letters(line: &str) -> impl Iterator<Item = (usize, char)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let letters = line.char_indices().take_while(|(at, _)| *at <= ANCHOR_REACH);
    letters.filter(move |(at, letter)| {
        letter.is_ascii_uppercase()
            && !line[..*at].ends_with(is_word)
            && !line[at + 1..].starts_with(|c| is_word(c) || c == '\'' || c == '’')
    })
}

/// A capital that opens the answer and is followed by neither a Latin word nor a space: `B。`, `B不是 A`.
fn opening_letter(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let letter = chars.next().filter(char::is_ascii_uppercase)?;
    chars.next().filter(|c| !c.is_ascii()).map(|_| index_of(letter))
}

/// The letter of `(B)`, where it is the only letter in brackets that stands by itself.
fn only_bracketed_letter(text: &str) -> Option<usize> {
    let mut letters = text.match_indices('(').filter_map(|(at, _)| {
        let stands_alone = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        let letter = text[at + 1..].strip_prefix(|c: char| c.is_ascii_uppercase())?.starts_with(')');
        (stands_alone && letter).then(|| text.as_bytes()[at + 1] as char)
    });
    let first = letters.next()?;
    letters.all(|letter| letter == first).then(|| index_of(first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::task::option_letter;

    fn options() -> Vec<String> {
        ["4.2 m/s", "Helium", "7.5 m/s", "None of the above"].map(str::to_owned).to_vec()
    }

    fn chosen(answer: &str) -> Option<char> {
        choice(answer, 4, &options()).map(option_letter)
    }

    #[test]
    fn letters_in_many_clothes() {
        for answer in ["B", "b", "(B)", " B. ", "**B**", "\\boxed{B}", "$\\boxed{\\text{B}}$", "[B]", "B)", "Answer: B"]
        {
            assert_eq!(chosen(answer), Some('B'), "{answer}");
        }
        for answer in ["B. Helium", "(B) helium", "B) the lighter one", "helium", "Helium.", "The answer is helium"] {
            assert_eq!(chosen(answer), Some('B'), "{answer}");
        }
        assert_eq!(chosen("7.50 m/s"), None);
        assert_eq!(chosen("C. 7.5 m/s"), Some('C'));
    }

    #[test]
    fn sentences_commit_or_do_not() {
        assert_eq!(chosen("The answer is for sure D, it can't be A or B"), Some('D'));
        assert_eq!(chosen("the answer is c"), Some('C'));
        assert_eq!(chosen("The answer is A. No, the answer is D."), Some('D'));
        assert_eq!(chosen("The answer is I think B"), Some('B'));
        assert_eq!(chosen("so\n\nthe answer must be\n\nC."), Some('C'));
        for answer in [
            "A or B",
            "A, B",
            "The answer is A or B",
            "The answer is (A), (B), (C)",
            "The answer is not (A)",
            "E",
            "The answer is E",
            "B12",
            "The answer is B12",
            "Considered",
            "I really cannot tell.",
            "",
            "The answer is a matter of taste",
            "B. 4.2 m/s",
        ] {
            assert_eq!(chosen(answer), None, "{answer}");
        }
    }

    #[test]
    fn gold_is_a_letter_or_a_text() {
        assert_eq!(score("B", "Helium", &options()), Ok(1.0));
        assert_eq!(score("A", "b", &options()), Ok(0.0));
        assert_eq!(score("K", "K", &[]), Ok(1.0));
        assert_eq!(score("Helium", "helium", &[]), Ok(1.0));
        assert!(score("B", "F", &options()).is_err() && score("B", "", &options()).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(answer in "\\PC{0,60}", num_options in 0usize..26) {
            let options: Vec<String> = (0..num_options).map(|i| format!("option {i}")).collect();
            if let Some(index) = choice(&answer, num_options, &options) {
                prop_assert!(index < num_options);
            }
        }
    }
}
