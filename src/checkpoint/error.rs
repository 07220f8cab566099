//! What can go wrong with a checkpoint, said so that the reader knows which file to look at.

use std::io;
use std::path::{Path, PathBuf};

/// A checkpoint that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried: `read`, `write`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A JSON file is not JSON, or not of the expected form.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// Line and column.
        source: serde_json::Error,
    },
    /// A field of `config.json` is missing, of the wrong type, or has an unsupported value.
    #[error("{path}: `{field}` {problem}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The field, dotted.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// No weights where weights should be.
    #[error("{dir}: no model.safetensors and no model.safetensors.index.json; is this a Hugging Face model directory?")]
    NoWeights {
        /// The directory.
        dir: PathBuf,
    },
    /// A safetensors file that is cut short or malformed.
    #[error("{path}: {problem}")]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Tensors that the architecture has and the files lack.
    #[error("{path}: {count} tensors missing, first `{name}`")]
    MissingTensor {
        /// The file or index.
        path: PathBuf,
        /// The first of them.
        name: String,
        /// How many.
        count: usize,
    },
    /// Tensors that the files have and the architecture lacks.
    #[error("{path}: {count} tensors the architecture does not have, first `{name}`")]
    UnexpectedTensor {
        /// The file or index.
        path: PathBuf,
        /// The first of them.
        name: String,
        /// How many.
        count: usize,
    },
    /// A tensor whose shape contradicts `config.json`.
    #[error("{path}: `{name}` has shape {found:?}, config.json makes it {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// By the config.
        expected: Vec<i64>,
        /// In the file.
        found: Vec<i64>,
    },
    /// A file of a checkpoint is not what was written.
    #[error("{path}: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What differs.
        problem: String,
    },
    /// A tensor of a type that is not supported where it stands.
    #[error("{path}: `{name}` is {found}; supported are F32, F16 and BF16")]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
    },
}

impl CheckpointError {
    /// For `map_err`: `action` on `path` failed.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}
