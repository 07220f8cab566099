//! Instructions as a gold gives them: an id, and arguments by name.
//!
//! Ids are those of IFEval; a few have a second name in its own tests. Arguments that an instruction does not have are
//! ignored, as data sets carry them as nulls. Keywords are regular expressions there, so they are here, of bounded size.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::language::Language;

/// Patterns longer than this are refused.
const MAX_PATTERN_BYTES: usize = 1_000;

/// Compiled patterns larger than this are refused, which bounds what `a{1000}{1000}` costs.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// One verifiable instruction.
#[derive(Debug, Clone)]
pub enum Instruction {
    /// Every pattern occurs, whatever its case.
    Keywords(Vec<Regex>),
    /// A pattern occurs so often, whatever its case.
    KeywordFrequency(Regex, Amount),
    /// None of the patterns occurs as a word, whatever its case.
    ForbiddenWords(Vec<Regex>),
    /// A letter occurs so often, whatever its case.
    LetterFrequency(String, Amount),
    /// Exactly `count` of the sentences occur.
    KeySentences { sentences: Vec<String>, count: usize },
    /// The response is in a language.
    ResponseLanguage(Language),
    /// So many sentences.
    NumSentences(Amount),
    /// Exactly so many paragraphs, separated by `***`.
    NumParagraphs(usize),
    /// So many words.
    NumWords(Amount),
    /// Exactly so many paragraphs, separated by an empty line, the nth of which starts with a word.
    NthParagraphFirstWord { num_paragraphs: usize, nth: usize, first_word: String },
    /// At least so many placeholders in square brackets.
    Placeholders(usize),
    /// A postscript with this mark.
    Postscript(Regex),
    /// Between `low` and `high` of a paragraph's words.
    RephraseParagraph { original: String, low: usize, high: usize },
    /// Exactly so many bullet points.
    BulletPoints(usize),
    /// One of the three answers that were offered.
    ConstrainedResponse,
    /// At least so many highlighted sections.
    Highlights(usize),
    /// At least so many numbered sections with this mark.
    Sections(Regex, usize),
    /// The response is JSON.
    Json,
    /// A title in double angular brackets.
    Title,
    /// The original message with other words between its asterisks.
    Rephrasing(String),
    /// A line starts with this.
    ConstrainedStart(Regex),
    /// Two different responses.
    TwoResponses,
    /// The response starts with this prompt.
    RepeatPrompt(String),
    /// The response ends with this phrase.
    EndPhrase(String),
    /// The response stands in double quotes.
    Quotation,
    /// English in capital letters.
    EnglishCapital,
    /// English in small letters.
    EnglishLowercase,
    /// So many words in capital letters.
    CapitalWords(Amount),
    /// No comma.
    NoComma,
}

/// A bound on a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Fewer than this many.
    LessThan(usize),
    /// This many or more.
    AtLeast(usize),
}

impl Amount {
    /// Whether a count keeps the bound.
    pub fn holds(self, count: usize) -> bool {
        match self {
            Self::LessThan(bound) => count < bound,
            Self::AtLeast(bound) => count >= bound,
        }
    }
}

impl Instruction {
    /// The instruction with this id and these arguments, or what is wrong with them.
    pub fn parse(id: &str, kwargs: &Value) -> Result<Self, String> {
        let args = Arguments(kwargs);
        Ok(match id.split_once(':').unwrap_or(("", id)) {
            ("keywords", "existence" | "include_keywords") => Self::Keywords(args.patterns("keywords", |word| word)?),
            ("keywords", "frequency" | "keyword_frequency") => {
                Self::KeywordFrequency(pattern(args.text("keyword")?.trim())?, args.amount("relation", "frequency")?)
            }
            ("keywords", "forbidden_words") => {
                Self::ForbiddenWords(args.patterns("forbidden_words", |word| format!(r"\b(?:{word})\b"))?)
            }
            ("keywords", "letter_frequency") => {
                Self::LetterFrequency(args.letter("letter")?, args.amount("let_relation", "let_frequency")?)
            }
            ("keywords", "key_sentences") => {
                Self::KeySentences { sentences: args.texts("key_sentences")?, count: args.count("num_sentences")? }
            }
            ("language", "response_language") => {
                let code = args.text("language")?;
                let language =
                    Language::of_code(code).ok_or_else(|| format!("whose language `{code}` is not known"))?;
                Self::ResponseLanguage(language)
            }
            ("length_constraints" | "length_constraint", name) => return Self::parse_length(name, args),
            ("detectable_content" | "detectable_format", name) => return Self::parse_detectable(name, args),
            ("multi-turn", "constrained_start") => {
                Self::ConstrainedStart(sensitive_pattern(&format!(r"(?m)^\s*(?:{})", args.text("starter")?.trim()))?)
            }
            ("combination", "two_responses") => Self::TwoResponses,
            ("combination", "repeat_prompt") => {
                Self::RepeatPrompt(args.text("prompt_to_repeat")?.trim().to_lowercase())
            }
            ("startend", "end_checker") => Self::EndPhrase(args.text("end_phrase")?.trim().to_lowercase()),
            ("startend", "quotation") => Self::Quotation,
            ("change_case", "english_capital") => Self::EnglishCapital,
            ("change_case", "english_lowercase") => Self::EnglishLowercase,
            ("change_case", "capital_word_frequency") => {
                Self::CapitalWords(args.amount("capital_relation", "capital_frequency")?)
            }
            ("punctuation", "no_comma") => Self::NoComma,
            _ => return Err("which is not known".to_owned()),
        })
    }

    fn parse_length(name: &str, args: Arguments) -> Result<Self, String> {
        Ok(match name {
            "number_sentences" => Self::NumSentences(args.amount("relation", "num_sentences")?),
            "number_paragraphs" => Self::NumParagraphs(args.count("num_paragraphs")?),
            "number_words" => Self::NumWords(args.amount("relation", "num_words")?),
            "nth_paragraph_first_word" => Self::NthParagraphFirstWord {
                num_paragraphs: args.count("num_paragraphs")?,
                nth: args.count("nth_paragraph")?,
                first_word: args.text("first_word")?.to_lowercase(),
            },
            _ => return Err("which is not known".to_owned()),
        })
    }

    fn parse_detectable(name: &str, args: Arguments) -> Result<Self, String> {
        Ok(match name {
            "number_placeholders" => Self::Placeholders(args.count("num_placeholders")?),
            "postscript" => Self::Postscript(sensitive_pattern(&match args.text("postscript_marker")?.trim() {
                "P.P.S" => r"p\.\s?p\.\s?s".to_owned(),
                "P.S." => r"p\.\s?s\.".to_owned(),
                marker => marker.to_lowercase(),
            })?),
            "rephrase_paragraph" => Self::RephraseParagraph {
                original: args.text("original_paragraph")?.to_lowercase(),
                low: args.count("low")?,
                high: args.count("high")?,
            },
            "number_bullet_lists" | "exact_number_bullet_points" => Self::BulletPoints(args.count("num_bullets")?),
            "constrained_response" => Self::ConstrainedResponse,
            "number_highlighted_sections" | "minimum_number_highlighted_sections" => {
                Self::Highlights(args.count("num_highlights")?)
            }
            "multiple_sections" => {
                let splitter = args.text("section_spliter")?.trim();
                Self::Sections(sensitive_pattern(&format!(r"\s?(?:{splitter})\s?\d+\s?"))?, args.count("num_sections")?)
            }
            "json_format" => Self::Json,
            "title" => Self::Title,
            "rephrasing" => {
                let original = args.text("original_message")?;
                if original.split('\n').all(|line| line.matches('*').count() < 2) {
                    return Err("whose `original_message` has nothing between asterisks to change".to_owned());
                }
                Self::Rephrasing(original.to_owned())
            }
            _ => return Err("which is not known".to_owned()),
        })
    }
}

/// An instruction's arguments by name; all errors name the argument.
#[derive(Clone, Copy)]
struct Arguments<'a>(&'a Value);

impl<'a> Arguments<'a> {
    fn text(self, name: &str) -> Result<&'a str, String> {
        let text = self.0[name].as_str().filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| format!("whose `{name}` is no text"))
    }

    fn texts(self, name: &str) -> Result<Vec<String>, String> {
        let texts = self.0[name].as_array().filter(|texts| !texts.is_empty());
        let text = |text: &Value| text.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let texts = texts.and_then(|texts| texts.iter().map(text).collect());
        texts.ok_or_else(|| format!("whose `{name}` is no list of texts"))
    }

    fn patterns<P: AsRef<str>>(self, name: &str, wrap: impl Fn(String) -> P) -> Result<Vec<Regex>, String> {
        self.texts(name)?.into_iter().map(|word| pattern(wrap(word).as_ref())).collect()
    }

    fn letter(self, name: &str) -> Result<String, String> {
        let text = self.text(name)?.trim();
        if text.chars().count() != 1 {
            return Err(format!("whose `{name}` is `{text}`, which is not one character"));
        }
        Ok(text.to_lowercase())
    }

    /// A whole number, which some data sets write as `3.0`.
    fn count(self, name: &str) -> Result<usize, String> {
        let whole = |number: f64| (number >= 0.0 && number.fract() == 0.0 && number < 1e9).then_some(number as usize);
        self.0[name].as_f64().and_then(whole).ok_or_else(|| format!("whose `{name}` is no count"))
    }

    fn amount(self, relation: &str, count: &str) -> Result<Amount, String> {
        match self.text(relation)? {
            "less than" => Ok(Amount::LessThan(self.count(count)?)),
            "at least" => Ok(Amount::AtLeast(self.count(count)?)),
            other => Err(format!("whose `{relation}` is `{other}`, expected `less than` or `at least`")),
        }
    }
}

/// A gold's pattern, whatever its case.
fn pattern(pattern: &str) -> Result<Regex, String> {
    compile(pattern, true)
}

fn sensitive_pattern(pattern: &str) -> Result<Regex, String> {
    compile(pattern, false)
}

fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("whose pattern is {} bytes long, at most {MAX_PATTERN_BYTES} are read", pattern.len()));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| format!("whose pattern `{pattern}` can't be used: {error}"))
}
