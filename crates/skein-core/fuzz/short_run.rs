//! A campaign short enough for every test run; the example `fuzz` runs the long ones.

mod campaign;
mod generator;
mod memory;
mod targets;

use std::sync::{Mutex, MutexGuard, PoisonError};

use campaign::{Campaign, Fault, replay};
use generator::{Grammar, SEPARATOR};
use targets::{ALL, Target};

/// Inputs over all targets.
const INPUTS: u64 = 20_000;

/// The memory counters are the process's, so one test at a time may use them.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn campaign(folder: &tempfile::TempDir, inputs: u64) -> Campaign {
    let folder = folder.path().to_owned();
    Campaign { seed: 1, first: 0, inputs, limit: None, extra_seeds: Vec::new(), folder }
}

#[test]
fn no_parser_panics_hangs_or_hoards() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let campaign = campaign(&folder, INPUTS / ALL.len() as u64);
    for target in ALL {
        let outcome = campaign.run(target);
        eprintln!("{}: {outcome}", target.name);
        assert_eq!(outcome.inputs, campaign.inputs);
        for (fault, (count, saved)) in &outcome.faults {
            let first = campaign.input(target, saved[0]);
            let first: String = String::from_utf8_lossy(&first).chars().take(500).collect();
            eprintln!("    {count} inputs, among them {saved:?}: {fault}\n    {first:?}");
        }
        assert!(outcome.faults.is_empty(), "{}: see above", target.name);
    }
}

static DIGITS: Grammar = Grammar { tokens: &[&["1", "2", "b"]], seeds: &["12"] };

fn target(run: fn(&[u8])) -> Target {
    Target { name: "made to fail", grammar: &DIGITS, num_texts: 2, run }
}

#[test]
fn a_panic_is_found_saved_and_replayed() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = target(|input| assert!(!input.contains(&b'b'), "{} bytes with a b", input.len()));
    let outcome = campaign(&folder, 200).run(&target);
    let [(Fault::Panic(words), (count, saved))] = &outcome.faults.iter().collect::<Vec<_>>()[..] else {
        panic!("one kind of fault is expected: {:?}", outcome.faults);
    };
    assert!(words.contains("bytes with a b at ") && *count > 1 && !saved.is_empty(), "{words} {count}");
    let path = folder.path().join(format!("finding-made to fail-1-{}", saved[0]));
    assert_eq!(std::fs::read(&path).expect("it was saved"), campaign(&folder, 1).input(&target, saved[0]));
    let (fault, _, _) = replay(&target, &path).expect("it was saved");
    assert!(matches!(fault, Some(Fault::Panic(_))), "{fault:?}");
}

#[test]
fn a_slow_and_a_greedy_parser_are_found() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let greedy = target(|_| drop(std::hint::black_box(vec![1_u8; 80 << 20])));
    let outcome = campaign(&folder, 1).run(&greedy);
    assert_eq!(outcome.faults.keys().collect::<Vec<_>>(), [&Fault::Hoard]);
    let slow = target(|_| {
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_secs(3) {
            std::hint::black_box(began);
        }
    });
    let outcome = campaign(&folder, 1).run(&slow);
    assert_eq!(outcome.faults.keys().collect::<Vec<_>>(), [&Fault::Slow]);
}

#[test]
fn an_input_depends_on_its_name_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let campaign = campaign(&folder, 1);
    let target = &ALL[1];
    assert_eq!(campaign.input(target, 7), campaign.input(target, 7));
    assert_ne!(campaign.input(target, 7), campaign.input(target, 8));
    assert!(String::from_utf8_lossy(&campaign.input(target, 7)).contains(SEPARATOR));
}
