//! What is taken off a completion's reward before advantages are computed.
//!
//! Dynamic sampling never looks at shaped rewards: a group of wrong answers of unequal length has nothing to teach.

/// DAPO's soft punishment of length (arXiv:2503.14476): 0 up to `max_tokens - buffer_tokens`, then falling linearly to
/// `-factor` at `max_tokens`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlongPenalty {
    /// Length at which the whole penalty is due.
    pub max_tokens: usize,
    /// Tokens before `max_tokens` over which it grows; 0 for no penalty at all.
    pub buffer_tokens: usize,
    /// The whole penalty, in rewards.
    pub factor: f64,
}

impl OverlongPenalty {
    /// What a completion of `num_tokens` tokens loses: 0 or negative.
    pub fn of(&self, num_tokens: usize) -> f64 {
        if self.buffer_tokens == 0 {
            return 0.0;
        }
        let free = self.max_tokens as f64 - self.buffer_tokens as f64;
        let excess = num_tokens as f64 - free;
        // Not -0.0 below the buffer: rewards are compared exactly.
        if excess <= 0.0 { 0.0 } else { -excess / self.buffer_tokens as f64 * self.factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_penalty_grows_over_the_buffer_alone() {
        let penalty = OverlongPenalty { max_tokens: 100, buffer_tokens: 20, factor: 0.5 };
        let cases = [(0, 0.0), (80, 0.0), (81, -0.025), (90, -0.25), (100, -0.5)];
        for (num_tokens, expected) in cases {
            assert!((penalty.of(num_tokens) - expected).abs() < 1e-12, "{num_tokens}");
        }
        assert_eq!(OverlongPenalty { buffer_tokens: 0, ..penalty }.of(100), 0.0);
    }
}
