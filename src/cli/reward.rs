//! Prints per-step scores and both rewards of responses, as JSONL.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use skein_core::config::{Config, RewardConfig};
use skein_core::eval::{EvalRecord, EvalSummary, IntervalMethod, render_table, summarize};
use skein_core::jsonl::{JsonlError, read_jsonl};
use skein_core::reward::scorers::Graders;
use skein_core::reward::{EntropyForm, Reward, RewardContext, RewardError, RewardRule, StepCount, score_batch};
use skein_core::skill::EntropyTable;
use skein_core::task::{CrossSkillTask, read_tasks};

use super::UsageError;
use super::stdout::print_line;
use super::unscored::Unscored;
use crate::jobs::{GraderCounts, GraderNeeds, build_graders};

/// Responses scored between two writes.
const BATCH: usize = 1024;

/// Arguments of `skein reward`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cross-skill tasks, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// Responses, one JSON object a line: `{"id": TASK, "response": TEXT}`; several may answer one task. What `skein
    /// generate --prompts` writes is read where its prompts carry the ids of tasks.
    #[arg(long, value_name = "FILE")]
    responses: PathBuf,
    /// Entropy table; by default the embedded one, or none where that does not cover the tasks' skills.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Weight of r_ans; only the ratio of the two weights counts.
    #[arg(long, value_name = "WEIGHT", default_value_t = RewardRule::default().lambda_ans)]
    lambda_ans: f64,
    /// Weight of r_ent.
    #[arg(long, value_name = "WEIGHT", default_value_t = RewardRule::default().lambda_ent)]
    lambda_ent: f64,
    /// How skill entropies turn into r_ent: task_gap, task_gap_exp or switch_profile.
    #[arg(long, value_name = "FORM", default_value = "task_gap", value_parser = named::<EntropyForm>)]
    entropy_form: EntropyForm,
    /// The gap at which task_gap_exp has fallen to 1/e.
    #[arg(long, value_name = "GAP", default_value_t = RewardRule::default().entropy_scale)]
    entropy_scale: f64,
    /// Whether a wrong number of steps is malformed: strict or lenient.
    #[arg(long, value_name = "RULE", default_value = "strict", value_parser = named::<StepCount>)]
    step_count: StepCount,
    /// Take the sandbox, the judge and the user's scorers from this config's [reward] section.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the JSON lines only, no summary on stderr.
    #[arg(long)]
    json: bool,
}

/// Reads the name of an enum's variant as config files spell it.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct Response {
    id: String,
    response: String,
}

fn refuse_responses(error: &JsonlError) -> UsageError {
    let hint = match error {
        JsonlError::Line { message, .. } if message.contains("missing field `id`") => {
            "; it names the task that is answered (`skein generate` copies the `id` of a prompt's line)"
        }
        _ => "",
    };
    UsageError(format!("{error}{hint}"))
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<()> {
    let tasks = read_tasks(&args.tasks).map_err(|error| UsageError(error.to_string()))?;
    let by_id: HashMap<&str, &CrossSkillTask> = tasks.iter().map(|task| (task.id.as_str(), task)).collect();
    let responses: Vec<(usize, Response)> = read_jsonl(&args.responses).map_err(|error| refuse_responses(&error))?;
    let pairs = responses
        .iter()
        .map(|(line, response)| {
            let task = by_id.get(response.id.as_str()).copied().ok_or_else(|| {
                let (file, tasks) = (args.responses.display(), args.tasks.display());
                UsageError(format!("{file}:{line}: no task in {tasks} has the id `{}`", response.id))
            })?;
            Ok((task, response.response.as_str()))
        })
        .collect::<Result<Vec<_>, UsageError>>()?;
    let context = context(&args, &tasks)?.with_graders(graders(&args, &tasks)?);

    let mut scored: Vec<(&CrossSkillTask, Reward)> = Vec::with_capacity(pairs.len());
    let mut unscored = Unscored::default();
    for batch in pairs.chunks(BATCH) {
        for ((task, _), outcome) in batch.iter().zip(score_batch(batch, &context)) {
            print_line(line(task, &outcome))?;
            match outcome {
                Ok(reward) => scored.push((task, reward)),
                Err(RewardError::Step { source, .. }) => unscored.note(&source.to_string()),
                Err(error) => unscored.note(&error.to_string()),
            }
        }
    }
    if !args.json {
        let records: Vec<EvalRecord> = scored.iter().map(|(task, reward)| EvalRecord { task, reward }).collect();
        if let Some(summary) = summarize(&records, IntervalMethod::default()) {
            say!("{}", overview(&summary).trim_end());
        }
    }
    Ok(unscored.refuse(pairs.len(), "responses")?)
}

fn graders(args: &Args, tasks: &[CrossSkillTask]) -> Result<Graders> {
    let config = match &args.config {
        Some(path) => Config::load(path, &[]).map_err(|error| UsageError(error.to_string()))?.reward,
        None => RewardConfig::default(),
    };
    build_graders(
        &config,
        GraderNeeds::of(&config, tasks.iter().flat_map(|task| &task.steps)),
        GraderCounts::default(),
        None,
    )
}

fn context(args: &Args, tasks: &[CrossSkillTask]) -> Result<RewardContext, UsageError> {
    let usage = |error: &dyn std::fmt::Display| UsageError(error.to_string());
    let rule = RewardRule {
        lambda_ans: args.lambda_ans,
        lambda_ent: args.lambda_ent,
        entropy_form: args.entropy_form,
        entropy_scale: args.entropy_scale,
        step_count: args.step_count,
    };
    let table = match &args.table {
        Some(path) => EntropyTable::load(path).map_err(|error| usage(&error))?,
        None => EntropyTable::embedded(),
    };
    let context = RewardContext::with_table(rule, &table).map_err(|error| usage(&error))?;
    if args.table.is_none() && !tasks.iter().all(|task| context.covers(task)) {
        tracing::warn!("the embedded entropy table does not cover these tasks: r_ent is left out, the score is r_ans");
        return Ok(RewardContext::answer_only(args.step_count));
    }
    Ok(context)
}

fn line(task: &CrossSkillTask, outcome: &Result<Reward, RewardError>) -> Value {
    let reward = match outcome {
        Ok(reward) => reward,
        Err(error) => return json!({"id": task.id, "score": null, "error": error.to_string()}),
    };
    let steps: Vec<Value> = task
        .steps
        .iter()
        .zip(&reward.steps)
        .map(|(step, earned)| {
            json!({
                "domain": step.domain,
                "score": earned.score,
                "skill": earned.label,
                "skill_correct": earned.skill_correct,
                "matched": earned.matched.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    json!({
        "id": task.id,
        "score": reward.total,
        "answer": reward.answer,
        "entropy": reward.entropy,
        "steps": steps,
        "malformed": reward.malformed.as_ref().map(ToString::to_string),
    })
}

fn overview(summary: &EvalSummary) -> String {
    let whole = [("reward", summary.reward), ("answer", summary.score), ("parse rate", summary.parse_rate)];
    let whole = whole.into_iter().map(|(name, estimate)| (name.to_owned(), estimate));
    let parsed = summary.score_if_parsed.map(|estimate| ("answer if parsed".to_owned(), estimate));
    let skills = ("skill accuracy".to_owned(), summary.skill_accuracy);
    let domains = summary.domains.iter().map(|(domain, estimate)| (domain.to_string(), *estimate));
    let rows: Vec<Vec<String>> = whole
        .chain(parsed)
        .chain([skills])
        .chain(domains)
        .map(|(name, estimate)| vec![name, estimate.to_string(), estimate.num_observations.to_string()])
        .collect();
    render_table(&["", "mean [95 %]", "n"], &rows)
}
