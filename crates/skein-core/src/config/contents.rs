//! What stands in the files that a config names, read as a run would read them before it loads a weight.
//!
//! [`Config::load`] looks at files for existence only, since a run reads them anyway; this is for whoever wants to know
//! before there is a run. Nothing is downloaded, and what [`Config::load`] reports is not reported again.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use super::validate::Finding;
use super::{Config, RewardConfig, Stage, TaskSource};
use crate::excerpt::{QUOTED_CHARS, excerpt};
use crate::reward::format::trace_problem;
use crate::reward::scorers::judge::JudgeRules;
use crate::reward::scorers::{DeferredJudge, Graders, Judge, ScoreError, is_judged};
use crate::reward::{RewardContext, RewardRule};
use crate::skill::{Bank, EntropyTable, SkillKey};
use crate::task::{CrossSkillTask, Step, read_numbered_tasks, unknown_skills};

/// What is wrong with the files that `config` names, and what may be.
pub(super) fn findings(config: &Config) -> Contents {
    let mut contents = Contents::default();
    let table = contents.table(&config.reward);
    let bank = contents.bank(&config.reward, table.as_ref());
    let measured = table.filter(|_| config.reward.lambda_ent > 0.0).map(|table| Bank::of(table.skills()));
    let judge = config.reward.judge.as_ref();
    let judges_itself = judge.is_some_and(|judge| judge.policy);
    let mut is_policy_asked = false;
    // Never asked: that there will be a judge is all that a task needs to know.
    let judge = judge.map(|_| Arc::new(DeferredJudge::new(JudgeRules::default())) as Arc<dyn Judge>);
    let rewards =
        RewardContext::answer_only(config.reward.step_count).with_graders(Graders { judge, ..Graders::default() });
    for (stage, section, tasks) in [
        (Stage::Sft, "sft", &config.sft.tasks),
        (Stage::Rl, "rl", &config.rl.tasks),
        (Stage::Eval, "eval", &config.eval.tasks),
    ] {
        let Some(TaskSource::File(path)) = tasks.as_ref().filter(|_| config.uses_tasks(stage)) else { continue };
        let key = format!("{section}.tasks.file");
        let Some(tasks) = contents.tasks(&key, path) else { continue };
        let is_rewarded = stage != Stage::Sft;
        contents.skills(&key, path, &tasks, &bank, measured.as_ref().filter(|_| is_rewarded));
        let unusable: Vec<(usize, String)> = if is_rewarded {
            is_policy_asked |=
                judges_itself && tasks.iter().any(|(_, task)| own_steps(task, &config.reward).any(is_judged));
            let problem = |task| unscorable(task, &config.reward, &rewards);
            tasks.iter().filter_map(|(line, task)| Some((*line, problem(task)?))).collect()
        } else {
            tasks.iter().filter_map(|(line, task)| Some((*line, trace_problem(task)?))).collect()
        };
        contents.unusable(&key, path, &unusable);
    }
    contents.chat_template(config, is_policy_asked);
    for (domain, scorer) in &config.reward.scorers {
        if let Some(program) = scorer.command.first().filter(|program| !program.is_empty() && !can_be_started(program))
        {
            let message = format!("no program {program} can be started: it is not on the PATH, or may not be executed");
            contents.problem(&format!("reward.scorers.{domain}.command"), message);
        }
    }
    contents
}

/// What was found.
#[derive(Default)]
pub(super) struct Contents {
    pub problems: Vec<Finding>,
    pub warnings: Vec<Finding>,
}

impl Contents {
    fn problem(&mut self, key: &str, message: impl ToString) {
        self.problems.push(Finding { keys: vec![key.to_owned()], message: message.to_string() });
    }

    /// The run's entropy table; none where it can't be read.
    fn table(&mut self, reward: &RewardConfig) -> Option<EntropyTable> {
        let Some(path) = &reward.entropy_table else { return Some(EntropyTable::embedded()) };
        if !path.is_file() {
            return None;
        }
        let table = EntropyTable::load(path).map_err(|error| self.problem("reward.entropy_table", error)).ok()?;
        if reward.lambda_ent > 0.0
            && let Err(error) = RewardContext::with_table(RewardRule::default(), &table)
        {
            self.problem("reward.entropy_table", format!("{}: {error}", path.display()));
        }
        Some(table)
    }

    /// Every skill that is known: the bank's and the table's.
    fn bank(&mut self, reward: &RewardConfig, table: Option<&EntropyTable>) -> Bank {
        let bank = match reward.skill_bank.as_ref().filter(|path| path.is_file()).map(|path| Bank::load(path)) {
            None => Bank::embedded(),
            Some(Ok(bank)) => bank,
            Some(Err(error)) => {
                self.problem("reward.skill_bank", error);
                Bank::embedded()
            }
        };
        known_skills(&bank, table)
    }

    /// The tasks of a file with their lines; none where they can't be read.
    fn tasks(&mut self, key: &str, path: &Path) -> Option<Vec<(usize, CrossSkillTask)>> {
        if !path.is_file() {
            return None;
        }
        read_numbered_tasks(path).map_err(|error| self.problem(key, error)).ok()
    }

    /// What a stage can't use: the first by line and reason, and how many there are besides.
    fn unusable(&mut self, key: &str, path: &Path, problems: &[(usize, String)]) {
        let Some((line, problem)) = problems.first() else { return };
        let others = match problems.len() - 1 {
            0 => String::new(),
            others => format!("; {others} more of its tasks can't be used either"),
        };
        self.problem(key, format!("{}:{line}: {problem}{others}", path.display()));
    }

    /// A chat template where one is asked for, as far as the model's files are here.
    fn chat_template(&mut self, config: &Config, is_policy_asked: bool) {
        let dir = match &config.model.scratch {
            Some(scratch) => scratch.tokenizer.as_path(),
            None => Path::new(&config.model.path),
        };
        if !dir.is_dir() || has_chat_template(dir) {
            return;
        }
        if config.prompt.chat {
            let message = format!("is true, but {} has no chat template: set it to false", dir.display());
            self.problem("prompt.chat", message);
        }
        if is_policy_asked {
            let message = format!("{} has no chat template, and a judge is asked in chat form", dir.display());
            self.problem("reward.judge.policy", message);
        }
    }

    /// The skills of a task file; `measured` holds those that a reward with entropy can tell the switches of.
    fn skills(
        &mut self,
        key: &str,
        path: &Path,
        tasks: &[(usize, CrossSkillTask)],
        bank: &Bank,
        measured: Option<&Bank>,
    ) {
        let lines = || tasks.iter().map(|(line, task)| (*line, task));
        let switches = lines().filter(|(_, task): &(usize, &CrossSkillTask)| task.steps.len() > 1);
        let unmeasured = measured.map(|measured| unknown_skills(switches, measured)).unwrap_or_default();
        for unknown in &unmeasured {
            let place = format!("{}:{}", path.display(), unknown.line);
            self.problem(
                key,
                format!(
                    "{place}: {unknown}; the entropy table has to cover every skill: give one that does \
                     (reward.entropy_table), or set reward.lambda_ent = 0"
                ),
            );
        }
        let refused: Vec<&SkillKey> = unmeasured.iter().map(|unknown| &unknown.skill).collect();
        for unknown in unknown_skills(lines(), bank).iter().filter(|unknown| !refused.contains(&&unknown.skill)) {
            let message = format!("{}:{}: {unknown}", path.display(), unknown.line);
            self.warnings.push(Finding { keys: vec![key.to_owned()], message });
        }
    }
}

/// The skills of `bank` and those that `table` has measured.
pub fn known_skills(bank: &Bank, table: Option<&EntropyTable>) -> Bank {
    let measured = table.map(EntropyTable::skills).unwrap_or_default();
    Bank::of(bank.keys().iter().cloned().chain(measured))
}

/// The steps of a task that no scorer of the user's stands in for.
fn own_steps<'t>(task: &'t CrossSkillTask, reward: &RewardConfig) -> impl Iterator<Item = &'t Step> {
    task.steps.iter().filter(|step| !reward.scorers.contains_key(&step.domain))
}

/// Why answers to a task can't be scored, as far as it shows without running a program.
fn unscorable(task: &CrossSkillTask, reward: &RewardConfig, rewards: &RewardContext) -> Option<String> {
    let problem = |step| rewards.check_gold(step).err().filter(|error| *error != ScoreError::NoRunner);
    let problem = own_steps(task, reward).find_map(problem)?;
    Some(format!("task `{}`: {problem}", excerpt(&task.id, QUOTED_CHARS)))
}

/// Whether a model's directory has a chat template in one of the places where models have it.
fn has_chat_template(dir: &Path) -> bool {
    let in_settings = || -> Option<bool> {
        let settings = std::fs::read(dir.join("tokenizer_config.json")).ok()?;
        let settings: serde_json::Value = serde_json::from_slice(&settings).ok()?;
        Some(!settings.get("chat_template")?.is_null())
    };
    dir.join("chat_template.jinja").is_file() || in_settings().unwrap_or(false)
}

/// Whether the system would find `program` and may execute it: a path as it stands, a name on the search path.
fn can_be_started(program: &str) -> bool {
    let is_executable = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_executable(&folder.join(program)))
}
