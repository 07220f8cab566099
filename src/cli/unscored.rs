//! Answers that got no score, so that a command which scores can end with their number and the reasons.
//!
//! An answer without a score is no 0: the command prints what it has, then fails.

use std::collections::BTreeSet;

/// Reasons that are told; more would bury the first ones.
const MAX_TOLD: usize = 3;

/// The answers that got no score so far.
#[derive(Debug, Default)]
pub struct Unscored {
    count: usize,
    reasons: BTreeSet<String>,
}

/// Some answers got no score.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoScore(String);

impl Unscored {
    /// Notes one more answer without a score, and why.
    pub fn note(&mut self, reason: &str) {
        self.count += 1;
        self.reasons.insert(reason.lines().next().unwrap_or_default().to_owned());
    }

    /// Fails when any of `total` answers, which are called `what`, got no score.
    ///
    /// # Errors
    /// [`NoScore`] says how many, and each different reason once.
    pub fn refuse(&self, total: usize, what: &str) -> Result<(), NoScore> {
        if self.count == 0 {
            return Ok(());
        }
        let told: Vec<&str> = self.reasons.iter().take(MAX_TOLD).map(String::as_str).collect();
        let rest = match self.reasons.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} more reasons"),
        };
        Err(NoScore(format!("{} of {total} {what} have no score: {}{rest}", self.count, told.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_told_once_and_few_of_many() {
        let mut unscored = Unscored::default();
        assert_eq!(unscored.refuse(9, "cases"), Ok(()));
        for reason in ["b", "a\ndetails", "b"] {
            unscored.note(reason);
        }
        let said = |unscored: &Unscored| unscored.refuse(9, "cases").unwrap_err().to_string();
        assert_eq!(said(&unscored), "3 of 9 cases have no score: a; b");
        ["c", "d", "e"].iter().for_each(|reason| unscored.note(reason));
        assert_eq!(said(&unscored), "6 of 9 cases have no score: a; b; c; and 2 more reasons");
    }
}
