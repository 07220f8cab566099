//! What a scorer writes to its standard error, forwarded to the log at a bounded rate.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use super::protocol::shorten;

/// Longest line that is forwarded whole, in bytes; longer ones come in pieces.
const MAX_LINE_BYTES: u64 = 1024;

/// Lines forwarded in a window; others are counted.
const MAX_LINES: u32 = 20;

const WINDOW: Duration = Duration::from_secs(1);

/// Says which lines may pass.
struct Meter {
    began: Instant,
    lines: u32,
    dropped: u64,
}

impl Meter {
    fn new(now: Instant) -> Self {
        Self { began: now, lines: 0, dropped: 0 }
    }

    /// How many lines were dropped before this one, if it may pass.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.began) >= WINDOW {
            (self.began, self.lines) = (now, 0);
        }
        if self.lines == MAX_LINES {
            self.dropped += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Forwards until the scorer closes its standard error. Never stops reading before, or the scorer would block.
pub(super) fn forward(stderr: impl Read, name: &str) {
    let (mut reader, mut line) = (BufReader::new(stderr), Vec::new());
    let mut meter = Meter::new(Instant::now());
    loop {
        line.clear();
        match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if let Some(dropped) = meter.admit(Instant::now()) {
            if dropped > 0 {
                tracing::info!("scorer `{name}`: {dropped} lines left out");
            }
            tracing::info!("scorer `{name}`: {}", shorten(&String::from_utf8_lossy(&line)));
        }
    }
    if meter.dropped > 0 {
        tracing::info!("scorer `{name}`: {} lines left out", meter.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_lets_a_few_lines_through_and_counts_the_rest() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let passed = (0..100).filter(|_| meter.admit(start).is_some()).count();
        assert_eq!((passed as u32, meter.dropped), (MAX_LINES, u64::from(100 - MAX_LINES)));
        assert_eq!(meter.admit(start + WINDOW), Some(u64::from(100 - MAX_LINES)));
        assert_eq!(meter.admit(start + WINDOW), Some(0));
    }
}
