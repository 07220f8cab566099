//! The checks: whether a text follows an instruction.
//!
//! Each is linear in the text, but for a gold's own patterns. Where the graders' code and its description differ, the
//! code counts, since published verdicts come from it.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::de::IgnoredAny;

use super::instruction::Instruction;
use super::language::Language;
use super::sentences::sentences;
use super::words;

const CONSTRAINED_RESPONSES: [&str; 3] = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

macro_rules! static_pattern {
    ($name:ident, $pattern:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("the pattern is a constant"));
    };
}

static_pattern!(PLACEHOLDER, r"\[.*?\]");
static_pattern!(STAR_BULLET, r"(?m)^\s*\*[^*].*$");
static_pattern!(DASH_BULLET, r"(?m)^\s*-.*$");
static_pattern!(HIGHLIGHT, r"\*[^\n*]*\*");
static_pattern!(DOUBLE_HIGHLIGHT, r"\*\*[^\n*]*\*\*");
static_pattern!(DIVIDER, r"\s?\*\*\*\s?");
static_pattern!(TITLE, r"<<[^\n]+>>");
static_pattern!(CHANGE, r"\*.*\*");

impl Instruction {
    /// Whether a text, which is not blank, follows the instruction.
    pub fn is_followed_by(&self, text: &str) -> bool {
        match self {
            Self::Keywords(keywords) => keywords.iter().all(|keyword| keyword.is_match(text)),
            Self::KeywordFrequency(keyword, amount) => amount.holds(keyword.find_iter(text).count()),
            Self::ForbiddenWords(words) => !words.iter().any(|word| word.is_match(text)),
            Self::LetterFrequency(letter, amount) => amount.holds(text.to_lowercase().matches(letter).count()),
            Self::KeySentences { sentences, count } => num_key_sentences(text, sentences) == *count,
            Self::ResponseLanguage(language) => language.is_language_of(text),
            Self::NumSentences(amount) => amount.holds(sentences(text).len()),
            Self::NumParagraphs(count) => num_paragraphs(text) == Some(*count),
            Self::NumWords(amount) => amount.holds(words::num_words(text)),
            Self::NthParagraphFirstWord { num_paragraphs, nth, first_word } => {
                starts_paragraph(text, *num_paragraphs, *nth, first_word)
            }
            Self::Placeholders(count) => PLACEHOLDER.find_iter(text).count() >= *count,
            Self::Postscript(marker) => marker.is_match(&text.to_lowercase()),
            Self::RephraseParagraph { original, low, high } => {
                (*low..=*high).contains(&num_shared_words(&text.to_lowercase(), original))
            }
            Self::BulletPoints(count) => {
                STAR_BULLET.find_iter(text).count() + DASH_BULLET.find_iter(text).count() == *count
            }
            Self::ConstrainedResponse => CONSTRAINED_RESPONSES.iter().any(|response| text.contains(response)),
            Self::Highlights(count) => num_highlights(text) >= *count,
            Self::Sections(marker, count) => marker.find_iter(text).count() >= *count,
            Self::Json => is_json(text),
            Self::Title => TITLE.find_iter(text).any(|title| !is_blank(title.as_str(), &['<', '>'])),
            Self::Rephrasing(original) => {
                CHANGE.is_match(text) && CHANGE.replace_all(text, "") == CHANGE.replace_all(original, "")
            }
            Self::ConstrainedStart(starter) => starter.is_match(text),
            Self::TwoResponses => are_two_responses(text),
            Self::RepeatPrompt(prompt) => text.trim().to_lowercase().starts_with(prompt),
            Self::EndPhrase(phrase) => text.trim().trim_matches('"').to_lowercase().ends_with(phrase),
            Self::Quotation => {
                let text = text.trim();
                text.len() > 1 && text.starts_with('"') && text.ends_with('"')
            }
            Self::EnglishCapital => words::is_upper(text) && is_english(text),
            Self::EnglishLowercase => words::is_lower(text) && is_english(text),
            Self::CapitalWords(amount) => amount.holds(words::num_capital_words(text)),
            Self::NoComma => !text.contains(','),
        }
    }
}

fn is_english(text: &str) -> bool {
    Language::Identified(whatlang::Lang::Eng).is_language_of(text)
}

/// Whether nothing but blanks is left once the marks are taken off both ends.
fn is_blank(text: &str, marks: &[char]) -> bool {
    text.trim_matches(marks).trim().is_empty()
}

fn num_key_sentences(text: &str, wanted: &[String]) -> usize {
    let text = text.replace('\n', " ");
    let given: Vec<&str> = sentences(&text).into_iter().map(str::trim).collect();
    wanted.iter().filter(|sentence| given.contains(&sentence.as_str())).count()
}

/// How many paragraphs a text has; none if an inner one is empty.
fn num_paragraphs(text: &str) -> Option<usize> {
    let paragraphs: Vec<&str> = DIVIDER.split(text).collect();
    let is_empty = |paragraph: &&str| paragraph.trim().is_empty();
    let last = paragraphs.len() - 1;
    let inner = paragraphs.get(1..last).unwrap_or_default();
    if inner.iter().any(is_empty) {
        return None;
    }
    Some(paragraphs.iter().filter(|paragraph| !is_empty(paragraph)).count())
}

/// Whether a text has so many paragraphs and the nth starts with a word. Blank paragraphs are counted when looking for
/// the nth, but not otherwise.
fn starts_paragraph(text: &str, num_paragraphs: usize, nth: usize, first_word: &str) -> bool {
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    let num_given = paragraphs.iter().filter(|paragraph| !paragraph.trim().is_empty()).count();
    if num_given != num_paragraphs || nth == 0 || nth > num_given {
        return false;
    }
    let Some(word) = paragraphs[nth - 1].split_whitespace().next() else { return false };
    let word = word.trim_start_matches('\'').trim_start_matches('"');
    let end = word.find(['.', ',', '?', '!', '\'', '"']).unwrap_or(word.len());
    word[..end].to_lowercase() == first_word
}

fn num_shared_words(text: &str, original: &str) -> usize {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in words::words(original) {
        *left.entry(word).or_default() += 1;
    }
    let mut num_shared = 0;
    for word in words::words(text) {
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            num_shared += 1;
        }
    }
    num_shared
}

fn num_highlights(text: &str) -> usize {
    let is_filled = |highlight: &regex::Match| !is_blank(highlight.as_str(), &['*']);
    HIGHLIGHT.find_iter(text).filter(is_filled).count() + DOUBLE_HIGHLIGHT.find_iter(text).filter(is_filled).count()
}

fn is_json(text: &str) -> bool {
    let mut text = text.trim();
    for fence in ["```json", "```Json", "```JSON", "```"] {
        text = text.strip_prefix(fence).unwrap_or(text);
    }
    let text = text.strip_suffix("```").unwrap_or(text);
    serde_json::from_str::<IgnoredAny>(text.trim()).is_ok()
}

fn are_two_responses(text: &str) -> bool {
    let responses: Vec<&str> = text.split("******").map(str::trim).collect();
    let last = responses.len() - 1;
    if responses.get(1..last).unwrap_or_default().contains(&"") {
        return false;
    }
    let given: Vec<&str> = responses.into_iter().filter(|response| !response.is_empty()).collect();
    matches!(given[..], [first, second] if first != second)
}
