use std::fs;
use std::path::Path;

use skein_core::skill::Domain;

use super::*;

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Python loop that answers every request with what `answer` makes of it.
fn python(answer: &str) -> String {
    format!(
        "import json, os, sys, time\nlater = []\nfor line in sys.stdin:\n    r = json.loads(line)\n    \
         say = lambda text: (sys.stdout.write(text), sys.stdout.flush())\n    \
         reply = lambda score, id=r['id']: say(json.dumps({{'id': id, 'score': score}}) + '\\n')\n    {}\n",
        answer.replace('\n', "\n    ")
    )
}

struct Script {
    folder: tempfile::TempDir,
    config: CommandScorerConfig,
}

impl Script {
    fn new(interpreter: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        fs::write(&path, text).unwrap();
        let command = vec![interpreter.to_owned(), path.display().to_string(), folder.path().display().to_string()];
        let config = CommandScorerConfig { command, max_restarts: 2, backoff_secs: 0.02, ..Default::default() };
        Self { folder, config }
    }

    fn python(answer: &str) -> Self {
        Self::new("python3", &python(answer))
    }

    fn scorer(&self) -> CommandScorer {
        CommandScorer::new(self.config.clone()).unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

fn ask_within(scorer: &CommandScorer, answer: &str, time: Duration) -> Outcome {
    let (domain, skill, question, gold) = (Domain::CreativeWriting, "Rhyme", "A rhyme?", "It rhymes.");
    let request = ScoreRequest { domain, skill, question, options: &[], answer, gold };
    scorer.score(request, Instant::now() + time)
}

fn ask(scorer: &CommandScorer, answer: &str) -> Outcome {
    ask_within(scorer, answer, PATIENCE)
}

fn ended(outcome: Outcome) -> String {
    match outcome {
        Err(CommandScorerError::Ended(reason)) => reason,
        other => panic!("the process should have ended: {other:?}"),
    }
}

/// Whether the process with the id in this file is gone, or will be at once.
fn is_gone(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    let is_dead = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    (0..200).any(|_| {
        is_dead() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

#[test]
fn scores_come_back() {
    let script =
        Script::python("reply(float(r['answer']) if r['gold'] == 'It rhymes.' and r['skill'] == 'Rhyme' else 2)");
    let scorer = script.scorer();
    assert_eq!(ask(&scorer, "0.25"), Ok(0.25));
    assert_eq!(ask(&scorer, "1"), Ok(1.0));
    assert!(matches!(ask(&scorer, "1.5"), Err(CommandScorerError::BadScore(_))));
    assert!(matches!(ask(&scorer, "nan"), Err(CommandScorerError::BadScore(_))));
    assert_eq!(ask(&scorer, "0"), Ok(0.0), "the process lived through it all");
}

#[test]
fn answers_out_of_order_find_their_requests() {
    let script = Script::python(
        "later.append((float(r['answer']), r['id']))\nif len(later) == 8:\n    for score, id in reversed(later): reply(score, id)",
    );
    let scorer = script.scorer();
    std::thread::scope(|scope| {
        for index in 0..8 {
            let scorer = &scorer;
            scope.spawn(move || {
                let score = f64::from(index) / 8.0;
                assert_eq!(ask(scorer, &score.to_string()), Ok(score));
            });
        }
    });
}

#[test]
fn no_more_requests_are_under_way_than_allowed() {
    let script = Script::python("open(sys.argv[1] + '/seen', 'a').write('x')\ntime.sleep(0.2)\nreply(1)");
    let config = CommandScorerConfig { max_in_flight: 1, ..script.config.clone() };
    let scorer = CommandScorer::new(config).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| ask(&scorer, "a"))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == Ok(1.0)));
    });
    assert_eq!(fs::read_to_string(script.path("seen")).unwrap(), "xxxx");
}

#[test]
fn a_crash_is_an_error_of_the_requests_under_way_and_the_next_one_is_served() {
    let script = Script::python("if r['answer'] == 'crash': os._exit(3)\nreply(1)");
    let scorer = script.scorer();
    for _ in 0..5 {
        assert_eq!(ask(&scorer, "a"), Ok(1.0), "a reply forgives the failures before it");
        let reason = ended(ask(&scorer, "crash"));
        assert!(reason.contains("ended its output") && reason.contains("exit status: 3"), "{reason}");
    }
}

#[test]
fn a_command_that_never_works_is_given_up() {
    let script = Script::new("sh", "exit 7");
    let scorer = script.scorer();
    for _ in 0..3 {
        assert!(ended(ask(&scorer, "a")).contains("exit status: 7"));
    }
    match ask(&scorer, "a") {
        Err(CommandScorerError::GivenUp { failures: 3, reason }) => {
            assert!(reason.contains("exit status: 7"), "{reason}")
        }
        other => panic!("it should have been given up: {other:?}"),
    }
    let config = CommandScorerConfig { command: vec!["/no/such/program".into()], ..script.config };
    let missing = CommandScorer::new(config).unwrap();
    let error = ask(&missing, "a").unwrap_err().to_string();
    assert!(error.contains("given up") && error.contains("can't be started"), "{error}");
    assert!(matches!(CommandScorer::new(CommandScorerConfig::default()), Err(CommandScorerError::Config(_))));
}

#[test]
fn output_that_is_no_reply_ends_the_process() {
    for (answer, words) in [
        ("say('loading model\\n')", "it wrote `loading model`"),
        ("say('{\"id\": 99, \"score\": 1}\\n')", "answered 99"),
        ("reply(1)\nreply(1)\ntime.sleep(9)", "not under way"),
        ("sys.stdout.buffer.write(b'\\xff\\n')\nsys.stdout.flush()", "not UTF-8"),
        ("say('x' * 200000)\ntime.sleep(9)", "more than 65536 bytes"),
        ("say('{\"id\": 0, \"score\": 1}')\nos._exit(0)", "in the middle of a line"),
        ("os.close(1)\ntime.sleep(9)", "ended its output"),
    ] {
        let script = Script::python(answer);
        let scorer = script.scorer();
        let _ = ask(&scorer, "a");
        let reason = || scorer.shared.lock().reason.clone();
        let says_so = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            reason().contains(words)
        });
        assert!(says_so, "{answer}: {}", reason());
    }
}

#[test]
fn a_reply_may_come_in_pieces() {
    let script = Script::python(
        "say('{\"id\": ')\ntime.sleep(0.05)\nsay(str(r['id']) + ', \"score\"')\ntime.sleep(0.05)\nsay(': 0.5}\\n')",
    );
    assert_eq!(ask(&script.scorer(), "a"), Ok(0.5));
}

#[test]
fn a_slow_request_misses_its_own_deadline_only() {
    let script = Script::python(
        "later.append(r['id'])\nif r['answer'] != 'slow':\n    for id in later: reply(1, id)\n    later.clear()",
    );
    let scorer = script.scorer();
    assert_eq!(ask(&scorer, "a"), Ok(1.0));
    let began = Instant::now();
    assert_eq!(ask_within(&scorer, "slow", Duration::from_millis(100)), Err(CommandScorerError::Deadline));
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(ask(&scorer, "a"), Ok(1.0), "the late reply was taken for what it is");
    assert_eq!(ask_within(&scorer, "a", Duration::ZERO), Err(CommandScorerError::Deadline));
}

#[test]
fn a_process_that_hangs_is_killed_with_its_children() {
    let text = "sleep 1000 & echo $! > $1/child; echo $$ > $1/parent; read line; wait";
    let script = Script::new("sh", text);
    let scorer = CommandScorer::new(CommandScorerConfig { silence_secs: 0.3, ..script.config.clone() }).unwrap();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let patient = scope.spawn(|| ask(&scorer, "a"));
        while !script.path("parent").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(400));
        let hasty = ask_within(&scorer, "a", Duration::from_millis(300));
        vec![patient.join().unwrap(), hasty]
    });
    assert!(ended(outcomes[0].clone()).contains("silent"), "{outcomes:?}");
    assert!(is_gone(&script.path("child")) && is_gone(&script.path("parent")));
}

#[test]
fn a_process_that_reads_nothing_delays_nobody() {
    let script = Script::new("sh", "sleep 1000");
    let scorer = script.scorer();
    let large = "x".repeat(1 << 20);
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(ask_within(&scorer, &large, Duration::from_millis(100)), Err(CommandScorerError::Deadline));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn dropping_the_scorer_kills_the_group() {
    let script =
        Script::new("sh", "sleep 1000 & echo $! > $1/child; read line; echo '{\"id\": 0, \"score\": 1}'; wait");
    let scorer = script.scorer();
    assert_eq!(ask(&scorer, "a"), Ok(1.0));
    drop(scorer);
    assert!(is_gone(&script.path("child")));
}

#[test]
fn a_flood_of_complaints_blocks_nothing() {
    let script = Script::python("sys.stderr.write(('noise ' * 1000 + '\\n') * 2000)\nsys.stderr.flush()\nreply(1)");
    assert_eq!(ask(&script.scorer(), "a"), Ok(1.0));
}
