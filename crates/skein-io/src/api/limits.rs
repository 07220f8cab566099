//! How many requests are under way and how many begin in a minute.
//!
//! Both wait no longer than a request's deadline, and neither is fair: whoever wakes first goes first.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Places for requests under way.
#[derive(Debug)]
pub(super) struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// One place; dropped, it is free again.
#[derive(Debug)]
pub(super) struct Slot<'a>(&'a Slots);

/// The counts under these locks are whole whatever a panicking thread was doing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count), freed: Condvar::new() }
    }

    /// A place, or none where none is free before `deadline`.
    pub(super) fn take(&self, deadline: Instant) -> Option<Slot<'_>> {
        let wait = deadline.saturating_duration_since(Instant::now());
        let waited = self.freed.wait_timeout_while(lock(&self.free), wait, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Slot(self))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// Lets at most so many requests begin in any window of time.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    window: Duration,
    /// When the last requests began, oldest first; at most `most`.
    begun: Mutex<VecDeque<Instant>>,
}

impl Pace {
    pub(super) fn new(most: usize, window: Duration) -> Self {
        Self { most, window, begun: Mutex::default() }
    }

    /// Waits for a request's turn; false, at once, where it does not come before `deadline`.
    pub(super) fn wait_turn(&self, deadline: Instant) -> bool {
        loop {
            let now = Instant::now();
            let turn = {
                let mut begun = lock(&self.begun);
                while begun.front().is_some_and(|first| now.duration_since(*first) >= self.window) {
                    begun.pop_front();
                }
                match begun.front() {
                    Some(first) if begun.len() >= self.most => *first + self.window,
                    _ => {
                        begun.push_back(now);
                        return true;
                    }
                }
            };
            if turn >= deadline {
                return false;
            }
            std::thread::sleep(turn.saturating_duration_since(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(200);

    fn after(millis: u64) -> Instant {
        Instant::now() + Duration::from_millis(millis)
    }

    #[test]
    fn a_taken_place_comes_back() {
        let slots = Slots::new(1);
        let first = slots.take(after(0)).unwrap();
        assert!(slots.take(after(20)).is_none());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| slots.take(after(10_000)).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(slots.take(after(0)).is_some());
    }

    #[test]
    fn no_window_holds_more_than_its_share() {
        let (pace, began) = (Pace::new(3, WINDOW), Instant::now());
        for turn in 0..8 {
            assert!(pace.wait_turn(after(10_000)));
            assert!(began.elapsed() >= WINDOW * (turn / 3), "turn {turn} came after {:?}", began.elapsed());
        }
    }

    #[test]
    fn a_turn_after_the_deadline_is_refused_at_once() {
        let pace = Pace::new(1, Duration::from_secs(60));
        assert!(pace.wait_turn(after(0)));
        let asked = Instant::now();
        assert!(!pace.wait_turn(after(30_000)));
        assert!(asked.elapsed() < Duration::from_secs(5));
    }
}
