//! Text to token ids and back, as the model's own Hugging Face files say.
//!
//! Nothing is added that was not asked for: no start token, no truncation, no padding, whatever tokenizer.json
//! configures. Ids that were sampled are never decoded and encoded again; the decoders here serve people, stop
//! strings and rewards.

use std::path::{Path, PathBuf};

mod special;
mod stream;
mod train;

pub use special::SpecialTokens;
pub(crate) use special::{read_json, token_text};
pub use stream::StreamDecoder;
pub use train::{BpeSpec, train_bpe};

/// Why a tokenizer could not be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// There is no tokenizer.json.
    #[error("{}: there is no tokenizer.json; expected a Hugging Face model or tokenizer directory", directory.display())]
    Missing {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// A file is there but cannot be read or parsed.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A configured special token is not in the vocabulary.
    #[error("{}: the {role} token `{token}` is not in the vocabulary of tokenizer.json", path.display())]
    UnknownToken {
        /// The file that names the token.
        path: PathBuf,
        /// `eos`, `bos` or `pad`.
        role: &'static str,
        /// The token's text.
        token: String,
    },
    /// The tokenizer refused a text or ids.
    #[error("the tokenizer failed: {0}")]
    Failed(String),
}

/// A model's tokenizer and the ids with a meaning.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    special: SpecialTokens,
    vocab_size: usize,
}

impl Tokenizer {
    /// The tokenizer of a Hugging Face directory: tokenizer.json, and the special ids from tokenizer_config.json,
    /// generation_config.json and config.json where they are there.
    ///
    /// # Errors
    /// A missing tokenizer.json, a file that cannot be read, a special token the vocabulary does not have.
    pub fn load(directory: &Path) -> Result<Self, TokenizerError> {
        let path = directory.join("tokenizer.json");
        if !path.is_file() {
            return Err(TokenizerError::Missing { directory: directory.to_owned() });
        }
        let broken = |error: tokenizers::Error| TokenizerError::File {
            path: path.clone(),
            message: format!("not a tokenizer: {error}"),
        };
        let mut inner = tokenizers::Tokenizer::from_file(&path).map_err(broken)?;
        inner.with_truncation(None).map_err(broken)?;
        inner.with_padding(None);
        let special = SpecialTokens::read(directory, |token| inner.token_to_id(token))?;
        let largest_id = inner.get_vocab(true).into_values().max();
        let vocab_size = largest_id.map_or(0, |id| id as usize + 1);
        Ok(Self { inner, special, vocab_size })
    }

    /// The ids of `text`. Special tokens written out in it become their ids, as in Hugging Face; none is added around it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_as(text, false)
    }

    /// The ids of `text` with whatever tokenizer.json puts around a sequence, such as a start token.
    pub fn encode_with_special_tokens(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode_as(text, true)
    }

    fn encode_as(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.inner.encode_fast(text, add_special_tokens);
        Ok(encoding.map_err(|error| TokenizerError::Failed(error.to_string()))?.get_ids().to_vec())
    }

    /// The text of `ids`, special tokens included; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, false).map_err(|error| TokenizerError::Failed(error.to_string()))
    }

    /// The text of `ids` without special tokens: what a response says, its end marker left out.
    pub fn decode_visible(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        self.inner.decode(ids, true).map_err(|error| TokenizerError::Failed(error.to_string()))
    }

    /// A decoder of one sequence, id by id; `skip_special_tokens` leaves special tokens out.
    pub fn stream(&self, skip_special_tokens: bool) -> StreamDecoder<'_> {
        StreamDecoder::new(&self.inner, skip_special_tokens)
    }

    /// The id of a token by its text.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// One more than the largest id: the rows an embedding needs at least. (A vocabulary may have holes, so this is not a
    /// count.)
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The ids with a meaning.
    pub fn special(&self) -> &SpecialTokens {
        &self.special
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod test_models {
    use std::path::{Path, PathBuf};

    /// `models/NAME` of the project; panics with the command that fetches it.
    pub fn path(name: &str) -> PathBuf {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name);
        assert!(
            path.join("tokenizer.json").is_file(),
            "{} is missing: run `scripts/get-model` in the project's root, which fetches the models the tests need",
            path.display()
        );
        path
    }
}
