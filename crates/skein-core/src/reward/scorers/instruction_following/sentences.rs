//! Splits English text into sentences with Punkt (Kiss and Strunk, Computational Linguistics 32, 2006), as NLTK applies
//! it, so that counts agree with the graders that use NLTK.
//!
//! The crate `punkt_n` holds the algorithm and its English parameters. Nothing is trained here, and nothing is done where
//! the crate splits marks that no word precedes (`One. . . two.`, `Oh !!!`) into other pieces than NLTK.

use std::ops::Range;
use std::sync::LazyLock;

use punkt_n::params::Standard;
use punkt_n::{SentenceByteOffsetTokenizer, TrainingData};

static ENGLISH: LazyLock<TrainingData> = LazyLock::new(TrainingData::english);

/// The sentences of a text, in order, without the blanks between them.
pub fn sentences(text: &str) -> Vec<&str> {
    let text = text.trim_end();
    // The tokenizer looks for what follows the last word, and loses the last sentence where nothing does.
    let padded = format!("{text} ");
    let tokenizer = SentenceByteOffsetTokenizer::<Standard>::new(&padded, &ENGLISH);
    let slices: Vec<Range<usize>> = tokenizer.map(|(start, end)| start..end.min(text.len())).collect();
    realigned(text, &slices).into_iter().map(|slice| &text[slice]).filter(|sentence| !sentence.is_empty()).collect()
}

/// Gives closing quotes and brackets that start a sentence to the sentence before, as NLTK does.
fn realigned(text: &str, slices: &[Range<usize>]) -> Vec<Range<usize>> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sentences as NLTK 3.8 splits them.
    #[test]
    fn agrees_with_nltk() {
        let cases: [&[&str]; 11] = [
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
        fn any_text_can_be_split(text in "([\\PC\u{85}\u{a0}\u{2003}]|[.?!,-]|[)\"'*] |\n){0,60}") {
            sentences(&text);
        }
    }
}
