//! The comparison of arms: scores with 95 % intervals and differences within tasks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use skein_core::eval::{EvalSummary, IntervalMethod, MeanEstimate, paired_difference, render_table};

use crate::cli::UsageError;
use crate::jobs::eval::{Evaluation, read_evaluations};

/// One arm: its last evaluation over all runs given.
pub struct Arm {
    /// The run it comes from.
    pub run: PathBuf,
    /// Its evaluation.
    pub evaluation: Evaluation,
}

/// The arms of some runs, in the order of the runs. An arm that occurs again with the same scores (the base model, say)
/// is taken once; one of the same name with other scores gets its run's name beside it. The last evaluation of a run's
/// own arm counts.
///
/// # Errors
/// When a run holds no evaluation, or the runs were evaluated on different tasks.
pub fn collect_arms(runs: &[PathBuf]) -> Result<Vec<Arm>> {
    let mut arms: Vec<Arm> = Vec::new();
    for run in runs {
        for mut evaluation in read_evaluations(run)? {
            let name = evaluation.arm.clone();
            if arms.iter().any(|arm| arm.run != *run && arm.evaluation.arm == name && !same_scores(arm, &evaluation)) {
                evaluation.arm = format!("{name} ({})", run.file_name().unwrap_or(run.as_os_str()).display());
            }
            match arms.iter_mut().find(|arm| arm.evaluation.arm == evaluation.arm) {
                None => arms.push(Arm { run: run.clone(), evaluation }),
                Some(known) if known.run == *run => known.evaluation = evaluation,
                Some(_) => {}
            }
        }
    }
    if let Some(other) = arms.iter().find(|arm| !same_tasks(&arms[0].evaluation, &arm.evaluation)) {
        return Err(UsageError(format!(
            "{} and {} were evaluated on different tasks or numbers of samples: their scores can't be compared",
            arms[0].run.display(),
            other.run.display()
        ))
        .into());
    }
    Ok(arms)
}

fn same_scores(arm: &Arm, evaluation: &Evaluation) -> bool {
    arm.evaluation.tasks == evaluation.tasks && arm.evaluation.step == evaluation.step
}

fn same_tasks(one: &Evaluation, other: &Evaluation) -> bool {
    let ids = |evaluation: &Evaluation| evaluation.tasks.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    one.samples == other.samples && ids(one) == ids(other)
}

/// The table as text, with what it may and may not be read as.
pub fn render(arms: &[Arm]) -> String {
    let header = [&["arm"], EvalSummary::HEADER.as_slice(), &["rollouts", "RL updates"]].concat();
    let rows: Vec<Vec<String>> = arms
        .iter()
        .map(|arm| {
            let evaluation = &arm.evaluation;
            let mut row = vec![evaluation.arm.clone()];
            row.extend(evaluation.summary.cells());
            row.push(evaluation.rollouts.to_string());
            row.push(evaluation.rl_updates.to_string());
            row
        })
        .collect();
    let mut text = render_table(&header, &rows);
    if let Some(first) = arms.first() {
        let evaluation = &first.evaluation;
        text += &format!(
            "\n{} held-out tasks, {} sample{} each; brackets are 95 % intervals over tasks.\n",
            evaluation.tasks.len(),
            evaluation.samples,
            if evaluation.samples == 1 { "" } else { "s" }
        );
    }
    for (a, b, difference) in differences(arms) {
        text += &format!("{b} − {a}: {difference}{}\n", verdict(&difference));
    }
    text
}

/// The difference of every two arms, over the tasks both answered.
fn differences(arms: &[Arm]) -> Vec<(&str, &str, MeanEstimate)> {
    let scores = |arm: &Arm| -> BTreeMap<String, f64> {
        arm.evaluation.tasks.iter().map(|task| (task.id.clone(), task.score)).collect()
    };
    let mut found = Vec::new();
    for (later, b) in arms.iter().enumerate() {
        for a in &arms[..later] {
            let (of_a, of_b) = (scores(a), scores(b));
            let (first, second): (Vec<f64>, Vec<f64>) =
                of_a.iter().filter_map(|(id, score)| Some((*score, *of_b.get(id)?))).unzip();
            if let Some(difference) = paired_difference(&first, &second, IntervalMethod::Normal) {
                found.push((a.evaluation.arm.as_str(), b.evaluation.arm.as_str(), difference));
            }
        }
    }
    found
}

fn verdict(difference: &MeanEstimate) -> &'static str {
    match difference.interval {
        Some((low, high)) if low > 0.0 || high < 0.0 => "",
        _ => "  (no difference shown: the interval holds 0)",
    }
}

/// A run's name for legends: its directory's.
pub(super) fn run_name(run: &Path) -> String {
    run.file_name().map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned())
}
