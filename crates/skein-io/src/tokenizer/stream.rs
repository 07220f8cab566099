//! Text from ids as they arrive, never half a character.
//!
//! A token can end inside a UTF-8 character, and a decoder can treat the first token of a sequence differently. So each
//! step decodes the pending ids together with the ids before them and gives out what is new, holding back what a later
//! id may still complete.

use super::TokenizerError;

/// Pending ids are given out after this many even if their last character is incomplete. A character has at most four
/// bytes and a token at least one, so only invalid text gets this far; the bound keeps a step's cost constant.
const MAX_PENDING: usize = 16;

/// U+FFFD characters that can stand for the beginning of a character still to be completed.
const MAX_INCOMPLETE: usize = 3;

/// Decodes one sequence id by id.
pub struct StreamDecoder<'t> {
    tokenizer: &'t tokenizers::Tokenizer,
    skip_special_tokens: bool,
    /// Ids given out in full, decoded again only for what they do to the next ones.
    context: Vec<u32>,
    pending: Vec<u32>,
    /// Bytes of the text of `context` and `pending` that were given out.
    given: usize,
}

impl<'t> StreamDecoder<'t> {
    pub(super) fn new(tokenizer: &'t tokenizers::Tokenizer, skip_special_tokens: bool) -> Self {
        Self { tokenizer, skip_special_tokens, context: Vec::new(), pending: Vec::new(), given: 0 }
    }

    /// The text that `id` completes, possibly empty.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        self.pending.push(id);
        let text = self.window_text()?;
        let num_incomplete =
            text.chars().rev().take_while(|c| *c == char::REPLACEMENT_CHARACTER).take(MAX_INCOMPLETE).count();
        let held = num_incomplete * char::REPLACEMENT_CHARACTER.len_utf8();
        let stable = text.len() - held;
        let new = text.get(self.given..stable).unwrap_or_default().to_owned();
        self.given = self.given.max(stable);
        if held == 0 || self.pending.len() >= MAX_PENDING {
            self.context = std::mem::take(&mut self.pending);
            self.given = self.window_text()?.len().saturating_sub(held);
        }
        Ok(new)
    }

    /// What was held back, when no id follows: an incomplete character becomes U+FFFD.
    pub fn finish(self) -> Result<String, TokenizerError> {
        Ok(self.window_text()?.get(self.given..).unwrap_or_default().to_owned())
    }

    fn window_text(&self) -> Result<String, TokenizerError> {
        let ids = [self.context.as_slice(), &self.pending].concat();
        self.tokenizer.decode(&ids, self.skip_special_tokens).map_err(|error| TokenizerError::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::tokenizer::{BpeSpec, Tokenizer, test_models, train_bpe};

    fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> (Vec<String>, String) {
        let mut stream = tokenizer.stream(false);
        let pieces: Vec<String> = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        let rest = stream.finish().unwrap();
        (pieces, rest)
    }

    #[test]
    fn a_character_of_several_tokens_comes_whole() {
        let tokenizer = Tokenizer::load(&test_models::path("SmolLM2-135M-Instruct")).unwrap();
        let ids = tokenizer.encode("a 数🧮.").unwrap();
        let (pieces, rest) = streamed(&tokenizer, &ids);
        assert!(pieces.iter().any(String::is_empty), "the text has characters of several tokens: {pieces:?}");
        assert!(!pieces.concat().contains('\u{fffd}'), "{pieces:?}");
        assert_eq!((pieces.concat(), rest), ("a 数🧮.".to_owned(), String::new()));
    }

    #[test]
    fn an_unfinished_character_is_replaced_at_the_end_only() {
        let tokenizer = Tokenizer::load(&test_models::path("SmolLM2-135M-Instruct")).unwrap();
        let ids = tokenizer.encode("🧮").unwrap();
        assert!(ids.len() > 1);
        let (pieces, rest) = streamed(&tokenizer, &ids[..ids.len() - 1]);
        assert_eq!((pieces.concat().as_str(), rest.as_str()), ("", "\u{fffd}"));
    }

    /// A byte-level tokenizer whose tokens are the 256 bytes alone.
    fn byte_tokenizer() -> (tempfile::TempDir, Tokenizer) {
        let dir = tempfile::tempdir().unwrap();
        train_bpe(["abc"], &BpeSpec { vocab_size: 260, split_digits: true }, dir.path()).unwrap();
        let tokenizer = Tokenizer::load(dir.path()).unwrap();
        (dir, tokenizer)
    }

    proptest! {
        /// Any bytes, valid UTF-8 or not, give the same text streamed and at once.
        #[test]
        fn streaming_gives_the_text_of_decoding_at_once(
            ids in prop::collection::vec(prop_oneof![4u32..260, Just(230u32), Just(160u32)], 0..80)
        ) {
            let (_dir, tokenizer) = byte_tokenizer();
            let (pieces, rest) = streamed(&tokenizer, &ids);
            prop_assert_eq!(pieces.concat() + &rest, tokenizer.decode(&ids).unwrap());
        }

        #[test]
        fn streaming_real_text_gives_it_back(text in "\\PC{0,60}") {
            let (_dir, tokenizer) = byte_tokenizer();
            let (pieces, rest) = streamed(&tokenizer, &tokenizer.encode(&text).unwrap());
            prop_assert_eq!(pieces.concat() + &rest, text);
        }
    }
}
