//! The examples of `docs/TASKS.md`: each line is a valid task, and the right answer beside it scores 1.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_core::reward::RewardContext;
use skein_core::reward::format::StepCount;
use skein_core::reward::scorers::{Graders, is_judged, score};
use skein_core::skill::{Bank, Domain};
use skein_core::task::parse_tasks;

use super::sandbox;

/// The fenced blocks of a page, each with the language it names.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let kind = line.trim_start_matches('`');
        let fence = &line[..line.len() - kind.len()];
        if fence.len() >= 3 {
            let content: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            blocks.push((kind, content.join("\n")));
        }
    }
    blocks
}

#[test]
fn every_example_is_a_task_whose_right_answer_scores_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TASKS.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let blocks = blocks(&page);
    let lines: Vec<&str> = blocks.iter().filter(|(kind, _)| *kind == "json").map(|(_, text)| text.as_str()).collect();
    let tasks = parse_tasks(lines.join("\n").as_bytes(), Path::new("docs/TASKS.md")).expect("valid tasks");
    assert!(Domain::ALL.iter().all(|domain| tasks.iter().any(|task| task.steps[0].domain == *domain)));

    let graders = || Graders { code: Some(Arc::new(sandbox())), ..Graders::default() };
    let (context, graders) = (RewardContext::answer_only(StepCount::Strict).with_graders(graders()), graders());
    for (task, pair) in tasks.iter().zip(blocks.chunks(2)) {
        let [("json", _), ("text", right)] = pair else { panic!("{}: expected a line and its right answer", task.id) };
        let step = &task.steps[0];
        assert!(Bank::embedded().resolve(&step.key()).is_some(), "{}: `{}` is no skill", task.id, step.skill);
        if is_judged(step) {
            eprintln!("NOT SCORED: {} of docs/TASKS.md needs a judge", task.id);
            continue;
        }
        context.check_task(task).unwrap_or_else(|error| panic!("{}: {error}", task.id));
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(score(step, right, &graders, deadline), Ok(1.0), "{}", task.id);
        assert_eq!(score(step, "no answer", &graders, deadline), Ok(0.0), "{}", task.id);
    }
}
