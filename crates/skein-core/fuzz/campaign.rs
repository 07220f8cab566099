//! Runs targets over inputs and says which ones panicked, took too long or hoarded memory.
//!
//! One worker thread with a stack as small as a thread pool's does the work. A watchdog ends the process when an input
//! does not come back at all or memory runs away, after naming and saving that input: nothing can stop the worker
//! itself. Time is the worker's own processor time, so that a busy machine makes no input slow. A stack overflow kills
//! the process before anybody can speak; the file `current` then names the input.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::generator;
use crate::memory;
use crate::targets::Target;

/// The stack of a thread in a pool, where scorers run.
const STACK_BYTES: usize = 2 << 20;

/// Processor time beyond which an input is a finding.
const SLOW: Duration = Duration::from_millis(250);

/// Wall time beyond which an input counts as hanging.
const HANG: Duration = Duration::from_secs(30);

/// Memory of one input beyond which it is a finding.
const HOARD_BYTES: usize = 64 << 20;

/// Memory of the process beyond which it is ended.
const RUNAWAY_BYTES: usize = 2 << 30;

/// Findings of one kind that are saved; the others are counted.
const MAX_SAVED: u64 = 5;

const WATCH_EVERY: Duration = Duration::from_millis(50);

/// What is to be done.
pub struct Campaign {
    /// Seed of all inputs.
    pub seed: u64,
    /// Index of the first input.
    pub first: u64,
    /// Inputs for each target.
    pub inputs: u64,
    /// No input begins after this time per target.
    pub limit: Option<Duration>,
    /// Seeds besides the grammars' own.
    pub extra_seeds: Vec<String>,
    /// Where findings are saved.
    pub folder: PathBuf,
}

/// What is wrong with a parser. The order is that of the report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It panicked, here and with these words.
    Panic(String),
    /// It took longer than [`SLOW`].
    Slow,
    /// It held more than [`HOARD_BYTES`].
    Hoard,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(message) => write!(f, "panics: {message}"),
            Self::Slow => write!(f, "takes over {SLOW:?}"),
            Self::Hoard => write!(f, "holds over {} MiB", HOARD_BYTES >> 20),
        }
    }
}

/// What became of one target.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Inputs it was given.
    pub inputs: u64,
    /// Wall time they took, making them included.
    pub elapsed: Duration,
    /// The slowest input's index and processor time.
    pub slowest: (u64, Duration),
    /// The most memory one input held, in bytes.
    pub most_bytes: usize,
    /// How often each fault was found, and the indices of the inputs saved.
    pub faults: BTreeMap<Fault, (u64, Vec<u64>)>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, slowest) = self.slowest;
        let rate = self.inputs as f64 / self.elapsed.as_secs_f64();
        write!(f, "{} inputs, {rate:.0}/s, ", self.inputs)?;
        write!(f, "slowest {slowest:.1?} (input {index}), at most {} KiB", self.most_bytes >> 10)
    }
}

/// What the watchdog sees of the worker.
#[derive(Default)]
struct Watch {
    index: AtomicU64,
    /// Milliseconds since the run began, plus one, at which the input began; 0 between inputs.
    began: AtomicU64,
    done: AtomicBool,
    baseline: AtomicUsize,
}

impl Campaign {
    /// The input that `index` names.
    pub fn input(&self, target: &Target, index: u64) -> Vec<u8> {
        generator::input(self.seed, target.name, index, target.grammar, &self.extra_seeds, target.num_texts)
    }

    /// Gives `target` its inputs.
    pub fn run(&self, target: &Target) -> Outcome {
        fs::create_dir_all(&self.folder).expect("the folder of findings can be made");
        let watch = Watch::default();
        watch.baseline.store(memory::live(), Relaxed);
        let began = Instant::now();
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name(WORKER.into()).stack_size(STACK_BYTES);
            let work = || {
                let outcome = self.work(target, &watch, began);
                watch.done.store(true, Relaxed);
                outcome
            };
            let worker = worker.spawn_scoped(scope, work).expect("a thread can be made");
            while !watch.done.load(Relaxed) && !worker.is_finished() {
                self.look(target, &watch, began);
                std::thread::sleep(WATCH_EVERY);
            }
            worker.join().expect("the worker catches what its inputs do")
        })
    }

    /// Ends the process when the worker's input hangs or memory runs away.
    fn look(&self, target: &Target, watch: &Watch, run_began: Instant) {
        let (index, began) = (watch.index.load(Relaxed), watch.began.load(Relaxed));
        let waited = run_began.elapsed().saturating_sub(Duration::from_millis(began));
        let runaway = memory::live().saturating_sub(watch.baseline.load(Relaxed)) > RUNAWAY_BYTES;
        if began == 0 || (waited < HANG && !runaway) {
            return;
        }
        let what = if runaway { "takes all memory" } else { "hangs" };
        let path = self.save(target, index, "fatal");
        eprintln!("{} input {index} of seed {} {what}: {}", target.name, self.seed, path.display());
        std::process::exit(3);
    }

    fn work(&self, target: &Target, watch: &Watch, began: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        let current = File::create(self.folder.join("current")).expect("the folder of findings is writable");
        let heading = format!("{} seed {} input ", target.name, self.seed);
        current.write_all_at(heading.as_bytes(), 0).expect("the folder of findings is writable");
        for index in self.first..self.first + self.inputs {
            if self.limit.is_some_and(|limit| began.elapsed() > limit) {
                break;
            }
            let input = self.input(target, index);
            let name = format!("{index:020}\n");
            current.write_all_at(name.as_bytes(), heading.len() as u64).expect("the folder of findings is writable");
            watch.index.store(index, Relaxed);
            watch.began.store(began.elapsed().as_millis() as u64 + 1, Relaxed);
            let (fault, time, bytes) = attempt(target.run, &input);
            watch.began.store(0, Relaxed);
            outcome.inputs += 1;
            outcome.most_bytes = outcome.most_bytes.max(bytes);
            if time > outcome.slowest.1 {
                outcome.slowest = (index, time);
            }
            if let Some(fault) = fault {
                let (count, saved) = outcome.faults.entry(fault).or_default();
                *count += 1;
                if *count <= MAX_SAVED {
                    saved.push(index);
                    self.save(target, index, "finding");
                }
            }
        }
        outcome.elapsed = began.elapsed();
        outcome
    }

    fn save(&self, target: &Target, index: u64, kind: &str) -> PathBuf {
        let path = self.folder.join(format!("{kind}-{}-{}-{index}", target.name, self.seed));
        fs::write(&path, self.input(target, index)).expect("the folder of findings is writable");
        path
    }
}

/// Gives one saved input to `target`; what is wrong with it, and its processor time and memory.
pub fn replay(target: &Target, path: &Path) -> std::io::Result<(Option<Fault>, Duration, usize)> {
    let input = fs::read(path)?;
    let worker = std::thread::Builder::new().name(WORKER.into()).stack_size(STACK_BYTES);
    let run = target.run;
    Ok(worker.spawn(move || attempt(run, &input))?.join().expect("the worker catches what its input does"))
}

const WORKER: &str = "fuzz worker";

thread_local! {
    static IS_TRYING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn attempt(run: fn(&[u8]), input: &[u8]) -> (Option<Fault>, Duration, usize) {
    note_panics();
    let before = memory::restart_peak();
    let began = processor_time();
    IS_TRYING.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(input)));
    IS_TRYING.set(false);
    let time = processor_time().saturating_sub(began);
    let bytes = memory::peak().saturating_sub(before);
    let fault = match outcome {
        Err(_) => Some(Fault::Panic(PANIC.take())),
        Ok(()) if time > SLOW => Some(Fault::Slow),
        Ok(()) if bytes > HOARD_BYTES => Some(Fault::Hoard),
        Ok(()) => None,
    };
    (fault, time, bytes)
}

/// Keeps the words of a worker's panic and prints those of all others.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_TRYING.get() {
                return usual(info);
            }
            let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
            let words = info.payload_as_str().unwrap_or("no message");
            // What differs from input to input goes; findings are told apart by where they happen.
            let words: String = words.chars().take(80).filter(|c| !c.is_ascii_digit()).collect();
            PANIC.set(format!("{words}{place}"));
        }));
    });
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
