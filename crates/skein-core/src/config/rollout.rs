//! The generation engine's budget.

use serde::{Deserialize, Serialize};

/// How much the engine keeps in flight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// Tokens the key-value cache holds; 0 (the default) chooses from the memory there is.
    pub cache_tokens: usize,
    /// Sequences decoded at once at most; default 256.
    pub max_sequences: usize,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self { cache_tokens: 0, max_sequences: 256 }
    }
}
