//! Trains the tokenizers of models made from scratch.
//!
//! Byte-level BPE, so every text can be encoded. The same texts in the same order give the same files.

use std::path::Path;

use serde_json::json;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, TokenizerImpl};

use super::TokenizerError;
use crate::atomic::write_atomically;

/// The special tokens, in the order of their ids.
const SPECIAL_TOKENS: [&str; 4] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"];

/// The smallest vocabulary: the special tokens and the 256 bytes.
const MIN_VOCAB_SIZE: usize = SPECIAL_TOKENS.len() + 256;

/// The turns as `<|im_start|>role`, a line break, the content, `<|im_end|>`.
const CHAT_TEMPLATE: &str = "\
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}";

/// What to train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpeSpec {
    /// Tokens in all, special ones and bytes included: at least 260. Texts with little variety give fewer.
    pub vocab_size: usize,
    /// Makes every digit a token of its own, so that numbers of equal length have equally many tokens. Without it
    /// frequent numbers become single tokens, which a very small model copies and looks up more easily.
    pub split_digits: bool,
}

/// Trains on `texts` and writes tokenizer.json and tokenizer_config.json (with a chat template) into `directory`, which
/// Hugging Face loads too. Special tokens: `<|endoftext|>`, `<|im_start|>`, `<|im_end|>` (ends a turn), `<|pad|>`, ids 0 to 3.
///
/// # Errors
/// A vocabulary below 260 tokens, or files that cannot be written.
pub fn train_bpe<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    spec: &BpeSpec,
    directory: &Path,
) -> Result<(), TokenizerError> {
    let failed = |error: tokenizers::Error| TokenizerError::Failed(error.to_string());
    if spec.vocab_size < MIN_VOCAB_SIZE {
        let message =
            format!("a vocabulary of {} cannot hold the bytes and special tokens ({MIN_VOCAB_SIZE})", spec.vocab_size);
        return Err(TokenizerError::Failed(message));
    }
    let special = SPECIAL_TOKENS.map(|token| AddedToken::from(token, true).normalized(false));
    let trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(spec.vocab_size)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special.to_vec())
        .build();
    let mut tokenizer: TokenizerImpl<
        BPE,
        NormalizerWrapper,
        PreTokenizerWrapper,
        PostProcessorWrapper,
        DecoderWrapper,
    > = TokenizerImpl::new(BPE::default());
    let digits = spec.split_digits.then(|| Digits::new(true).into());
    let bytes = ByteLevel::default().add_prefix_space(false).into();
    tokenizer.with_pre_tokenizer(Some(Sequence::new(digits.into_iter().chain([bytes]).collect())));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    // The vector is what the trait's iterator bounds want: Send, and strings it can refer to.
    let texts: Vec<&str> = texts.into_iter().collect();
    tokenizer.train(&mut { trainer }, texts.into_iter()).map_err(failed)?;

    let broken = |path: &Path, error: std::io::Error| TokenizerError::File {
        path: path.to_owned(),
        message: format!("cannot write the file: {error}"),
    };
    std::fs::create_dir_all(directory).map_err(|error| broken(directory, error))?;
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|pad|>",
        "unk_token": "<|endoftext|>",
        "bos_token": null,
        "clean_up_tokenization_spaces": false,
        "chat_template": CHAT_TEMPLATE,
    });
    let config = serde_json::to_string_pretty(&config).expect("strings and booleans are JSON");
    for (name, text) in
        [("tokenizer.json", tokenizer.to_string(true).map_err(failed)?), ("tokenizer_config.json", config + "\n")]
    {
        let path = directory.join(name);
        write_atomically(&path, text.as_bytes()).map_err(|error| broken(&path, error))?;
    }
    Ok(())
}
