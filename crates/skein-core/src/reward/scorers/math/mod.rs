//! Math: numeric equality for now.

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;

/// 1 when `answer` equals `gold`.
///
/// # Errors
/// When `gold` is empty.
pub fn score(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    if gold.trim().is_empty() {
        return Err(ScoreError::gold(Domain::Math, "is empty"));
    }
    Ok(as_score(final_text(answer) == gold.trim() || equivalent_numbers(answer, gold)))
}

/// Whether both texts are numbers, and equal.
pub fn equivalent_numbers(a: &str, b: &str) -> bool {
    let read = |text: &str| text.trim().replace(',', "").parse::<f64>().ok();
    read(a).is_some_and(|a| read(b) == Some(a))
}
