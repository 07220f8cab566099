//! Splits English text into sentences with Punkt (Kiss and Strunk, Computational Linguistics 32, 2006), as NLTK applies
//! it, so that counts agree with the graders that use NLTK.
//!
//! The crate `punkt` needs a nightly compiler and its forks are not kept, so only its parameters are used. Nothing is
//! trained here.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

/// Where a word was seen in the training text; decides whether it starts a sentence after an abbreviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// In lower case, and never capitalized inside a sentence.
    Lowercase,
    /// In lower case, and capitalized inside a sentence.
    BothCases,
}

/// A trained model.
#[derive(Default)]
struct Parameters {
    abbreviations: HashSet<&'static str>,
    starters: HashSet<&'static str>,
    /// Pairs of types that a full stop between them does not separate.
    collocations: HashSet<(&'static str, &'static str)>,
    seen: HashMap<&'static str, Seen>,
}

static ENGLISH: LazyLock<Parameters> = LazyLock::new(|| Parameters::read(include_str!("punkt_english.txt")));

impl Parameters {
    fn read(text: &'static str) -> Self {
        let mut parameters = Self::default();
        let mut section = "";
        for line in text.lines().skip_while(|line| !line.starts_with('[')) {
            let words = line.split(' ');
            match section {
                _ if line.starts_with('[') => section = line,
                "[abbreviations]" => parameters.abbreviations.extend(words),
                "[sentence starters]" => parameters.starters.extend(words),
                "[collocations]" => parameters.collocations.extend(line.split_once(' ')),
                "[lower case, never capitalized inside a sentence]" => {
                    parameters.seen.extend(words.map(|word| (word, Seen::Lowercase)));
                }
                _ => parameters.seen.extend(words.map(|word| (word, Seen::BothCases))),
            }
        }
        parameters
    }
}

/// The sentences of a text, in order, without the blanks between them.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut slices = Vec::new();
    let mut start = 0;
    for stop in stops(text) {
        if breaks_sentence(&text[stop.context()]) {
            slices.push(start..stop.at + 1);
            start = stop.next_token.unwrap_or(stop.at + 1);
        }
    }
    slices.push(start..text.trim_end().len().max(start));
    realigned(text, slices).into_iter().map(|slice| &text[slice]).filter(|sentence| !sentence.is_empty()).collect()
}

/// A mark that may end a sentence, with what stands around it.
struct Stop {
    /// Where the word before the mark starts.
    word: usize,
    /// Where the mark is; it is one byte long.
    at: usize,
    /// The end of the closing mark or of the token after it.
    context_end: usize,
    /// Where the token after it starts, where blanks lie between.
    next_token: Option<usize>,
}

impl Stop {
    fn context(&self) -> Range<usize> {
        self.word..self.context_end
    }
}

/// The marks that may end a sentence; of several on one word the last.
fn stops(text: &str) -> Vec<Stop> {
    let mut stops: Vec<Stop> = Vec::new();
    for (at, _) in text.match_indices(is_end_mark) {
        let after = &text[at + 1..];
        let Some(next) = after.chars().next() else { break };
        let blank = after.len() - after.trim_start().len();
        let (context_end, next_token) = if is_non_word(next) {
            (at + 1 + next.len_utf8(), None)
        } else if blank > 0 && blank < after.len() {
            let token = at + 1 + blank;
            let length = text[token..].find(char::is_whitespace).unwrap_or(text.len() - token);
            (token + length, Some(token))
        } else {
            continue;
        };
        let (last_word, last_at) = stops.last().map_or((0, 0), |last| (last.word, last.at));
        let word = match text[last_at..at].rfind(|c: char| c.is_ascii_whitespace() || c == '\u{b}') {
            Some(blank) if blank > 0 => last_at + blank + 1,
            _ => last_word,
        };
        // A mark whose word overlaps the one before replaces it.
        if word < last_at {
            stops.pop();
        }
        stops.push(Stop { word, at, context_end, next_token });
    }
    stops
}

fn is_end_mark(c: char) -> bool {
    matches!(c, '.' | '?' | '!')
}

/// Punctuation that can't be part of a word.
fn is_non_word(c: char) -> bool {
    matches!(c, '?' | '!' | ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[')
}

/// Gives closing quotes and brackets that start a sentence to the sentence before.
fn realigned(text: &str, slices: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut moved = 0;
    for (index, slice) in slices.iter().enumerate() {
        let start = slice.start + moved;
        moved = 0;
        let mut end = slice.end;
        if let Some(next) = slices.get(index + 1)
            && let Some((closing, blank)) = closing_prefix(&text[next.clone()])
        {
            end = next.start + closing;
            moved = closing + blank;
        }
        sentences.push(start..end.max(start));
    }
    sentences
}

/// How long the closing marks at the start of a sentence are and the blanks after them, if only a blank, a line's end or
/// a dash follows.
fn closing_prefix(sentence: &str) -> Option<(usize, usize)> {
    let is_closing = |c: char| matches!(c, '"' | '\'' | ')' | ']' | '}');
    let rest = sentence.trim_start_matches(is_closing);
    let closing = sentence.len() - rest.len();
    let blank = rest.len() - rest.trim_start().len();
    (closing > 0 && (rest.is_empty() || blank > 0 || rest.starts_with("--"))).then_some((closing, blank))
}

/// A word, a number or a punctuation mark of a context.
struct Token<'a> {
    text: &'a str,
    /// The text in lower case; one name for all numbers.
    kind: String,
    is_break: bool,
    /// An abbreviation or an ellipsis.
    is_abbreviation: bool,
}

/// Whether a token that ends a sentence stands before the last token of a context.
fn breaks_sentence(context: &str) -> bool {
    let mut tokens: Vec<Token> = context.split('\n').flat_map(words).map(Token::new).collect();
    for index in 1..tokens.len() {
        let (before, after) = tokens.split_at_mut(index);
        before[index - 1].reconsider(&after[0]);
        if before[index - 1].is_break {
            return true;
        }
    }
    false
}

impl<'a> Token<'a> {
    /// The token judged by itself: a mark ends a sentence, a full stop does unless it belongs to an abbreviation.
    fn new(text: &'a str) -> Self {
        let kind = if is_number(text) { "##number##".to_owned() } else { text.to_lowercase() };
        let is_ellipsis = text.len() > 1 && text.bytes().all(|b| b == b'.');
        let mut token = Self { text, kind, is_break: matches!(text, "." | "?" | "!"), is_abbreviation: is_ellipsis };
        if !token.is_break && !is_ellipsis && text.ends_with('.') && !text.ends_with("..") {
            let stem = text[..text.len() - 1].to_lowercase();
            let last_part = stem.rsplit('-').next().unwrap_or(&stem);
            let known = |stem: &str| ENGLISH.abbreviations.contains(stem);
            token.is_abbreviation = known(&stem) || known(last_part) || text == ". . .";
            token.is_break = !token.is_abbreviation;
        }
        token
    }

    /// Judges a token that ends in a full stop again, by the token after it.
    fn reconsider(&mut self, next: &Token) {
        if !self.text.ends_with('.') {
            return;
        }
        let kind = without_period(&self.kind);
        let next_kind = if next.is_break { without_period(&next.kind) } else { &next.kind };
        let seen = ENGLISH.seen.get(next_kind).copied();
        if ENGLISH.collocations.contains(&(kind, next_kind)) {
            self.is_break = false;
            return;
        }
        let starts = next.starts_sentence(seen);
        let is_initial = is_initial(self.text);
        if self.is_abbreviation && !is_initial {
            let is_starter = next.is_capitalized() && ENGLISH.starters.contains(next_kind);
            if starts == Some(true) || is_starter {
                self.is_break = true;
                return;
            }
        }
        let is_name = starts.is_none() && next.is_capitalized() && seen.is_none();
        if (is_initial || kind == "##number##") && (starts == Some(false) || is_initial && is_name) {
            self.is_break = false;
        }
    }

    fn is_capitalized(&self) -> bool {
        self.text.starts_with(char::is_uppercase)
    }

    /// Whether the token's case and where it was seen say that it starts a sentence; nothing if they can't tell.
    fn starts_sentence(&self, seen: Option<Seen>) -> Option<bool> {
        if matches!(self.text, ";" | ":" | "," | "." | "!" | "?") || self.text.starts_with(char::is_lowercase) {
            return Some(false);
        }
        (self.is_capitalized() && seen == Some(Seen::Lowercase)).then_some(true)
    }
}

fn without_period(kind: &str) -> &str {
    if kind.len() > 1 { kind.strip_suffix('.').unwrap_or(kind) } else { kind }
}

/// A letter and a full stop.
fn is_initial(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_') && chars.as_str() == "."
}

/// Digits, separated and ended by commas, points and dashes; a minus and one point or comma may come first.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text.strip_prefix(['.', ',']).unwrap_or(text);
    text.starts_with(char::is_numeric) && text.chars().all(|c| c.is_numeric() || matches!(c, ',' | '.' | '-'))
}

/// The tokens of a line: words, in which full stops and inner commas stay, runs of dots and dashes, single marks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let length = token_length(rest)?;
        let (token, after) = rest.split_at(length);
        rest = after;
        Some(token)
    })
}

fn token_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if let Some(length) = run_length(text) {
        return Some(length);
    }
    let can_start =
        !matches!(first, '(' | '"' | '`' | '{' | '[' | ':' | ';' | '&' | '#' | '*' | '@' | ')' | '}' | ']' | '-' | ',');
    if !can_start {
        return Some(first.len_utf8());
    }
    let ends = |rest: &str| {
        let Some(c) = rest.chars().next() else { return true };
        let ends_word = |rest: &str, c: char| c.is_whitespace() || is_non_word(c) || run_length(rest).is_some();
        let comma_ends = || rest[1..].chars().next().is_none_or(|after| ends_word(&rest[1..], after));
        ends_word(rest, c) || (c == ',' && comma_ends())
    };
    let inner = text.char_indices().skip(1).map(|(at, _)| at);
    Some(inner.chain([text.len()]).find(|&at| ends(&text[at..])).unwrap_or(text.len()))
}

/// The length of the run of dashes, dots or spaced dots that a text starts with; none for a single mark.
fn run_length(text: &str) -> Option<usize> {
    for mark in ['-', '.'] {
        let length = text.len() - text.trim_start_matches(mark).len();
        if length > 1 {
            return Some(length);
        }
    }
    let mut length = 1;
    let mut num_marks = usize::from(text.starts_with('.'));
    while num_marks > 0 {
        let mut rest = text[length..].chars();
        match (rest.next(), rest.next()) {
            (Some(blank), Some('.')) if blank.is_whitespace() => length += blank.len_utf8() + 1,
            _ => break,
        }
        num_marks += 1;
    }
    (num_marks > 2).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sentences as NLTK 3.8 splits them.
    #[test]
    fn agrees_with_nltk() {
        let cases: [&[&str]; 12] = [
            &["Dr. Smith lives in the U.S. and works.", "He is old."],
            &["Very bad acting!!!", "I promise."],
            &["(It is so.)", "Is it?", "\"Yes!\"", "she said.", "No."],
            &["1.", "First do this.", "2.", "Then that."],
            &["He paid $3.50 at 5 p.m. Mr. Jones left.", "etc.", "and so on."],
            &["We left at 5 p.m.", "The end."],
            &["Wait... what?", "No...", "The end."],
            &["J. Bach wrote it.", "I. Newton did not."],
            &["xx,x.", "xx,x!", "xx/x.", "x{x}x?"],
            &["No end"],
            &["One.", ".", ".", "two.", "Three"],
            &["E.g.", "this one, i.e.", "that.", "No.5 is it?Yes."],
        ];
        for expected in cases {
            assert_eq!(sentences(&expected.join(" ")), expected);
        }
        assert_eq!(sentences("  A line.\n\nAnother one\n"), ["  A line.", "Another one"]);
        assert!(sentences("").is_empty() && sentences(" \n").is_empty());
    }

    proptest! {
        #[test]
        fn sentences_lie_in_the_text_in_order(text in "([a-zé.?! \n\"')-]|Mr\\.|\\. \\. |THE ){0,40}") {
            let mut rest = text.as_str();
            for sentence in sentences(&text) {
                let at = rest.find(sentence);
                prop_assert!(at.is_some());
                rest = &rest[at.unwrap() + sentence.len()..];
            }
        }

        #[test]
        fn any_text_can_be_split(text in "\\PC{0,60}") {
            sentences(&text);
        }
    }
}
