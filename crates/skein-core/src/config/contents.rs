//! What stands in the files that a config names, read as a run would read them before it loads a weight.
//!
//! [`Config::load`] looks at files for existence only, since a run reads them anyway; this is for whoever wants to know
//! before there is a run. Nothing is downloaded, and what [`Config::load`] reports is not reported again.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::validate::Finding;
use super::{Config, RewardConfig, Stage, TaskSource};
use crate::reward::{RewardContext, RewardRule};
use crate::skill::{Bank, EntropyTable, SkillKey};
use crate::task::{CrossSkillTask, read_numbered_tasks, unknown_skills};

/// What is wrong with the files that `config` names, and what may be.
pub(super) fn findings(config: &Config) -> Contents {
    let mut contents = Contents::default();
    let table = contents.table(&config.reward);
    let bank = contents.bank(&config.reward, table.as_ref());
    let measured = table.filter(|_| config.reward.lambda_ent > 0.0).map(|table| Bank::of(table.skills()));
    for (stage, section, tasks) in [
        (Stage::Sft, "sft", &config.sft.tasks),
        (Stage::Rl, "rl", &config.rl.tasks),
        (Stage::Eval, "eval", &config.eval.tasks),
    ] {
        let Some(TaskSource::File(path)) = tasks.as_ref().filter(|_| config.uses_tasks(stage)) else { continue };
        let is_rewarded = stage != Stage::Sft;
        contents.tasks(&format!("{section}.tasks.file"), path, &bank, measured.as_ref().filter(|_| is_rewarded));
    }
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

    /// A task file; `measured` holds the skills that a reward with entropy can tell the switches of.
    fn tasks(&mut self, key: &str, path: &Path, bank: &Bank, measured: Option<&Bank>) {
        if !path.is_file() {
            return;
        }
        let tasks = match read_numbered_tasks(path) {
            Ok(tasks) => tasks,
            Err(error) => return self.problem(key, error),
        };
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
