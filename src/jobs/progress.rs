//! Progress with an ETA: a bar on a terminal, a plain line every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a log file gets a line.
const PLAIN_LINE_EVERY: Duration = Duration::from_secs(10);

/// One loop's progress.
pub struct Progress {
    label: String,
    total: u64,
    start: u64,
    started: Instant,
    last_line: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of `label` over `total` steps of which `done` are behind us (a resumed run).
    pub fn new(label: &str, total: u64, done: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix:>5} {bar:28} {pos}/{len} eta {eta} {msg}")
                .expect("the template is a constant that indicatif accepts");
            let bar = ProgressBar::new(total).with_style(style).with_prefix(label.to_owned()).with_position(done);
            bar.reset_eta();
            bar
        });
        Self { label: label.to_owned(), total, start: done, started: Instant::now(), last_line: None, bar }
    }

    /// Reports that `done` steps are finished; `message` says how it goes.
    pub fn update(&mut self, done: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_owned());
            bar.set_position(done);
            return;
        }
        let due = self.last_line.is_none_or(|at| at.elapsed() >= PLAIN_LINE_EVERY);
        if due || done == self.total {
            self.last_line = Some(Instant::now());
            say!("{} {done}/{} eta {} {message}", self.label, self.total, clock(self.remaining(done)));
        }
    }

    fn remaining(&self, done: u64) -> Duration {
        let finished = done.saturating_sub(self.start).max(1);
        self.started.elapsed().mul_f64(self.total.saturating_sub(done) as f64 / finished as f64)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

/// `h:mm:ss`, hours only when there are any.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_shows_hours_only_when_there_are_any() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }

    #[test]
    fn a_resumed_run_estimates_from_its_own_steps() {
        let mut progress = Progress::new("rl", 100, 90);
        progress.started = Instant::now() - Duration::from_secs(50);
        let remaining = progress.remaining(95).as_secs_f64();
        assert!((remaining - 50.0).abs() < 1.0, "{remaining}");
    }
}
