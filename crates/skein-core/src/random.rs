//! Counter-based random numbers: a draw is a pure function of its key.
//!
//! Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) turns a 128-bit counter and
//! a 64-bit key into 128 random bits. A sampled token's draw is keyed by where the token stands, so it depends neither
//! on which sequences share its batch nor on the order in which they are scheduled. Nothing here reads a clock or the
//! operating system, and nothing holds global state.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The Philox4x32-10 block function: 128 random bits for `counter` under `key`, least significant word first.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let low = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let high = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
    }
    counter
}

/// Where a sampled token stands; equal keys give equal draws, on any machine and in any batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DrawKey {
    /// The run's seed.
    pub seed: u64,
    /// Training step, or any other count that separates repeated visits to a prompt.
    pub step: u32,
    /// Index of the prompt in its data set.
    pub prompt: u32,
    /// Index of the completion in its group.
    pub sample: u32,
    /// Index of the token in its completion.
    pub token: u32,
}

/// The uniform draw of `key`, in [0, 1), a multiple of 2⁻⁵³.
pub fn uniform(key: DrawKey) -> f64 {
    let block = philox4x32([key.token, key.sample, key.prompt, key.step], split(key.seed));
    unit(join(block[0], block[1]))
}

/// A reproducible sequence of random numbers for everything that is not a sampled token: shuffles, task synthesis,
/// initial weights.
///
/// Streams with different (seed, label, index) are independent of each other and of [`uniform`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
    index: u64,
    position: u64,
}

impl Stream {
    /// The stream that `label` names under `seed`; `index` numbers the streams of one label.
    pub fn new(seed: u64, label: &str, index: u64) -> Self {
        let mut key = split(seed);
        // The length goes in first, so that a label and the same label with zero bytes appended differ.
        let length = label.len() as u64;
        let mut state = [length as u32, (length >> 32) as u32, u32::MAX, 0];
        for chunk in std::iter::once([].as_slice()).chain(label.as_bytes().chunks(8)) {
            let mut bytes = [0u8; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            let word = split(u64::from_le_bytes(bytes));
            state = philox4x32([state[0] ^ word[0], state[1] ^ word[1], state[2], state[3]], key);
            key = [state[2], state[3]];
        }
        Self { key, index, position: 0 }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let ([low, high], [index_low, index_high]) = (split(self.position), split(self.index));
        self.position += 1;
        let block = philox4x32([low, high, index_low, index_high], self.key);
        join(block[0], block[1])
    }

    /// The next uniform draw in [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// The next draw from {0, …, bound − 1}, without bias (Lemire's multiply-and-reject).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below 0");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// The next draw from `low..=high`.
    ///
    /// # Panics
    /// When `low > high`, or the range holds more than 2⁶⁴ − 1 numbers.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "the range {low}..={high} is empty");
        low.wrapping_add(self.below(high.abs_diff(low) + 1) as i64)
    }

    /// One element of `items`, each as likely as the others.
    ///
    /// # Panics
    /// When `items` is empty.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Puts `items` into random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with Random123 for philox4x32, 10 rounds.
    #[test]
    fn philox_gives_the_published_known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32([u32::MAX; 4], [u32::MAX; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn a_draw_of_the_zero_key_is_the_known_answer_scaled() {
        let key = DrawKey { seed: 0, step: 0, prompt: 0, sample: 0, token: 0 };
        assert_eq!(uniform(key), (0xe169_c58d_6627_e8d5_u64 >> 11) as f64 * 2f64.powi(-53));
    }

    #[test]
    fn every_field_of_the_key_changes_the_draw() {
        let key = DrawKey { seed: 7, step: 1, prompt: 2, sample: 3, token: 4 };
        let others = [
            DrawKey { seed: 8, ..key },
            DrawKey { seed: 7 | 1 << 40, ..key },
            DrawKey { step: 2, ..key },
            DrawKey { prompt: 3, ..key },
            DrawKey { sample: 4, ..key },
            DrawKey { token: 5, ..key },
        ];
        for other in others {
            assert_ne!(uniform(key), uniform(other), "{other:?}");
        }
    }

    #[test]
    fn draws_are_uniform() {
        const DRAWS: u32 = 100_000;
        const BINS: usize = 20;
        let mut counts = [0u32; BINS];
        for token in 0..DRAWS {
            let draw = uniform(DrawKey { seed: 3, step: 0, prompt: 0, sample: 0, token });
            counts[(draw * BINS as f64) as usize] += 1;
        }
        let expected = f64::from(DRAWS) / BINS as f64;
        let chi_squared: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
        // The 99.9 % point of chi-squared with 19 degrees of freedom; the draws are fixed, so this never flickers.
        assert!(chi_squared < 43.8, "{chi_squared}");
    }

    #[test]
    fn streams_differ_by_seed_label_and_index() {
        let first = |seed, label, index| Stream::new(seed, label, index).next_u64();
        let draws = [
            first(1, "", 0),
            first(1, "\0", 0),
            first(1, "a", 0),
            first(1, "b", 0),
            first(1, "a longer label", 0),
            first(1, "a longer labem", 0),
            first(2, "a", 0),
            first(1, "a", 1),
        ];
        for (i, a) in draws.iter().enumerate() {
            assert!(!draws[..i].contains(a), "draw {i} repeats");
        }
    }

    /// Pinned: files written and runs resumed under an older build must see the same numbers.
    #[test]
    fn streams_stay_as_they_are() {
        let mut stream = Stream::new(17, "prompt order", 3);
        let drawn: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(drawn, [15179016397901409464, 12255333299510272184, 114734394577509312]);
        let mut order: Vec<u8> = (0..8).collect();
        stream.shuffle(&mut order);
        assert_eq!(order, [2, 0, 4, 6, 1, 5, 7, 3]);
    }

    #[test]
    fn ranges_are_covered_and_kept() {
        let mut stream = Stream::new(0, "ranges", 0);
        let mut seen = [false; 7];
        for _ in 0..500 {
            seen[(stream.between(-3, 3) + 3) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(stream.between(5, 5), 5);
    }
}
