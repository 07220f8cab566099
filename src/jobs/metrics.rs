//! The numbers a step reports, under the names that dashboards of other trainers use.

use std::collections::BTreeMap;
use std::time::Duration;

use skein_core::eval::mean;
use skein_core::reward::Reward;
use skein_core::rl::{AcceptedGroup, PromptLedger, ScoredGroup};
use skein_core::skill::{Domain, Level};
use skein_core::task::CrossSkillTask;

use super::rollout::Rollouts;
use crate::trainer::{UpdateMetrics, UpdateTimings};

/// Names and values of one step.
pub type Metrics = Vec<(&'static str, f64)>;

/// An SFT update's numbers.
pub fn sft(update: &UpdateMetrics, elapsed: Duration) -> Metrics {
    let seconds = elapsed.as_secs_f64();
    vec![
        ("sft/loss", update.loss),
        ("sft/grad_norm", update.grad_norm),
        ("sft/lr", update.lr),
        ("sft/skipped", f64::from(u8::from(update.skipped.is_some()))),
        ("perf/tokens_per_second", update.num_tokens as f64 / seconds),
        ("perf/step_seconds", seconds),
    ]
}

/// One RL step as it went.
pub struct RlStep<'a> {
    /// The stage's tasks.
    pub tasks: &'a [CrossSkillTask],
    /// The level of each task, where it has one.
    pub levels: &'a [Option<Level>],
    /// All rounds of generation, what was filtered out included.
    pub rounds: &'a [Rollouts],
    /// The groups trained on.
    pub kept: &'a [AcceptedGroup],
    /// What became of all prompts of the stage, this step's included.
    pub ledger: &'a PromptLedger,
    /// Steps of the stage before this one.
    pub stage_step: u64,
    /// One entry per optimizer step.
    pub updates: &'a [UpdateMetrics],
    /// Wall time of the reference's log-probabilities.
    pub reference: Duration,
    /// Wall time of the updates, with what their steps waited for a checkpoint.
    pub update: Duration,
    /// Wall time of the step.
    pub total: Duration,
}

impl RlStep<'_> {
    /// One line for people.
    pub fn summary(&self) -> String {
        format!(
            "reward {:.3} answer {:.3} parsed {:.0}% kl {:.4} {:.1}s",
            self.mean_of(|reward| reward.total),
            self.mean_of(|reward| reward.answer),
            100.0 * self.mean_of(parsed),
            self.mean_token(|update| update.policy.map_or(0.0, |policy| policy.kl)),
            self.total.as_secs_f64()
        )
    }

    /// All numbers of the step.
    pub fn metrics(&self) -> Metrics {
        let sum = |of: fn(&Rollouts) -> f64| self.rounds.iter().map(of).sum::<f64>();
        let generation = sum(|round| round.generation.as_secs_f64());
        let num_tokens = sum(|round| round.num_tokens as f64);
        let policy = |of: fn(&crate::trainer::PolicyMetrics) -> f64| {
            self.mean_token(|update| update.policy.as_ref().map_or(0.0, of))
        };
        let timing = |of: fn(&UpdateTimings) -> Duration| {
            self.updates.iter().map(|update| of(&update.timings)).sum::<Duration>().as_secs_f64()
        };
        let mut metrics = self.responses();
        metrics.extend([
            ("reward/errors", sum(|round| round.errors.len() as f64)),
            ("actor/pg_loss", self.mean_update(|update| update.policy.map_or(0.0, |policy| policy.pg_loss))),
            ("actor/kl", policy(|policy| policy.kl)),
            ("actor/approx_kl", policy(|policy| policy.approx_kl)),
            ("actor/clip_fraction", policy(|policy| policy.clip_fraction)),
            ("actor/clip_fraction_lower", policy(|policy| policy.clip_fraction_lower)),
            ("actor/entropy", self.mean_token(|update| update.entropy)),
            ("actor/grad_norm", self.mean_update(|update| update.grad_norm)),
            ("actor/lr", self.mean_update(|update| update.lr)),
            ("actor/layer_tokens", self.updates.iter().map(|update| update.num_layer_tokens as f64).sum()),
            ("actor/updates", self.updates.len() as f64),
            ("actor/skipped", self.updates.iter().filter(|update| update.skipped.is_some()).count() as f64),
            ("rollout/groups_kept", self.kept.len() as f64),
            ("rollout/groups_waiting", self.ledger.num_waiting() as f64),
            ("rollout/staleness", average(self.kept.iter().map(|group| (self.stage_step - group.step) as f64))),
            ("ledger/drawn", self.ledger.num_drawn() as f64),
            ("ledger/trained", self.ledger.trained as f64),
            ("ledger/filtered", self.ledger.filtered as f64),
            ("ledger/stale", self.ledger.stale as f64),
            ("rollout/rounds", self.rounds.len() as f64),
            ("rollout/tokens_per_second", num_tokens / generation.max(f64::MIN_POSITIVE)),
            ("timing_s/generate", generation),
            ("timing_s/reward", sum(|round| round.scoring.as_secs_f64())),
            ("timing_s/reference", self.reference.as_secs_f64()),
            ("timing_s/update", self.update.as_secs_f64()),
            ("timing_s/forward", timing(|timings| timings.forward)),
            ("timing_s/head", timing(|timings| timings.head)),
            ("timing_s/backward", timing(|timings| timings.backward)),
            ("timing_s/optimizer", timing(|timings| timings.optimizer)),
            ("perf/step_seconds", self.total.as_secs_f64()),
        ]);
        let entropies: Vec<f64> = self.rewards().filter_map(|reward| reward.entropy).collect();
        if let Some(entropy) = mean(&entropies) {
            metrics.push(("reward/entropy", entropy));
            metrics.push(("reward/group_variance_entropy", self.mean_variance(|r| r.entropy.unwrap_or(0.0))));
            let out_of_bank = self.mean_of(|reward| reward.num_out_of_bank.unwrap_or(0) as f64);
            metrics.push(("reward/out_of_bank", out_of_bank));
        }
        metrics.extend(self.domain_scores());
        metrics.extend(self.level_rewards());
        metrics
    }

    /// What is said of the step's responses; nothing where the groups that waited were enough and none was generated.
    fn responses(&self) -> Metrics {
        let count = |of: fn(&Rollouts) -> usize| self.rounds.iter().map(of).sum::<usize>() as f64;
        let (all, graded) = (count(|round| round.num_responses), self.rewards().count());
        let mut metrics = Vec::new();
        if all > 0.0 {
            metrics.push(("response_length/mean", count(|round| round.num_tokens) / all));
            metrics.push(("response_length/truncated", count(|round| round.num_truncated) / all));
        }
        if graded > 0 {
            metrics.extend([
                ("reward/mean", self.mean_of(|reward| reward.total)),
                ("reward/answer", self.mean_of(|reward| reward.answer)),
                ("reward/parse_rate", self.mean_of(parsed)),
                ("reward/skill_accuracy", self.mean_of(Reward::skill_accuracy)),
                ("reward/group_variance", self.mean_variance(|reward| reward.total)),
                ("reward/group_variance_answer", self.mean_variance(|reward| reward.answer)),
            ]);
        }
        metrics
    }

    /// Mean step score of every domain that occurs.
    fn domain_scores(&self) -> Metrics {
        let mut scores: BTreeMap<Domain, Vec<f64>> = BTreeMap::new();
        for group in self.groups() {
            for rollout in &group.rollouts {
                for (step, scored) in self.tasks[group.prompt].steps.iter().zip(&rollout.reward.steps) {
                    scores.entry(step.domain).or_default().push(scored.score);
                }
            }
        }
        scores.into_iter().map(|(domain, scores)| (domain_metric(domain), average(scores.into_iter()))).collect()
    }

    /// Mean answer reward of every level that occurs.
    fn level_rewards(&self) -> Metrics {
        let names = [(Level::Low, "reward/low"), (Level::Medium, "reward/medium"), (Level::High, "reward/high")];
        let of = |level: Level| {
            let groups = self.groups().filter(|group| self.levels[group.prompt] == Some(level));
            let rewards: Vec<f64> = groups.flat_map(|group| group.values(|reward| reward.answer)).collect();
            mean(&rewards)
        };
        names.into_iter().filter_map(|(level, name)| Some((name, of(level)?))).collect()
    }

    fn groups(&self) -> impl Iterator<Item = &ScoredGroup> {
        self.rounds.iter().flat_map(|round| &round.groups)
    }

    fn rewards(&self) -> impl Iterator<Item = &Reward> {
        self.groups().flat_map(|group| group.rollouts.iter().map(|rollout| &rollout.reward))
    }

    fn mean_of(&self, of: impl Fn(&Reward) -> f64) -> f64 {
        average(self.rewards().map(of))
    }

    fn mean_variance(&self, of: impl Fn(&Reward) -> f64) -> f64 {
        average(self.groups().map(|group| group.variance(&of)))
    }

    /// The mean of a number that each update reports once.
    fn mean_update(&self, of: impl Fn(&UpdateMetrics) -> f64) -> f64 {
        average(self.updates.iter().map(of))
    }

    /// The mean over trained tokens of a number that each update reports as such a mean.
    fn mean_token(&self, of: impl Fn(&UpdateMetrics) -> f64) -> f64 {
        let num_tokens: usize = self.updates.iter().map(|update| update.num_tokens).sum();
        let sum: f64 = self.updates.iter().map(|update| update.num_tokens as f64 * of(update)).sum();
        sum / num_tokens.max(1) as f64
    }
}

fn domain_metric(domain: Domain) -> &'static str {
    match domain {
        Domain::Math => "reward/math",
        Domain::Science => "reward/science",
        Domain::Coding => "reward/coding",
        Domain::Logic => "reward/logic",
        Domain::InformationExtraction => "reward/information_extraction",
        Domain::Planning => "reward/planning",
        Domain::CreativeWriting => "reward/creative_writing",
        Domain::ContextRetrieval => "reward/context_retrieval",
        Domain::InstructionFollowing => "reward/instruction_following",
    }
}

/// The mean, 0 over nothing: a step without an update has an entropy of 0 in its metrics, not a gap.
fn average(values: impl Iterator<Item = f64>) -> f64 {
    mean(&values.collect::<Vec<_>>()).unwrap_or(0.0)
}

fn parsed(reward: &Reward) -> f64 {
    f64::from(u8::from(reward.malformed.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trainer::{PolicyMetrics, SkipReason};

    fn update(num_tokens: usize, kl: f64, skipped: Option<SkipReason>) -> UpdateMetrics {
        let policy = PolicyMetrics { pg_loss: 0.0, kl, clip_fraction: kl, clip_fraction_lower: 0.0, approx_kl: kl };
        UpdateMetrics {
            loss: 0.0,
            entropy: kl,
            grad_norm: 1.0,
            lr: 1e-3,
            num_tokens,
            num_layer_tokens: 2 * num_tokens,
            num_micro_batches: 1,
            skipped,
            policy: Some(policy),
            timings: UpdateTimings::default(),
        }
    }

    #[test]
    fn means_over_tokens_weigh_each_token_once_and_no_response_has_no_length() {
        let updates = [update(10, 1.0, None), update(90, 0.0, None), update(0, 0.0, Some(SkipReason::NothingToTrain))];
        let step = RlStep {
            tasks: &[],
            levels: &[],
            rounds: &[],
            kept: &[],
            ledger: &PromptLedger::default(),
            stage_step: 0,
            updates: &updates,
            reference: Duration::ZERO,
            update: Duration::ZERO,
            total: Duration::ZERO,
        };
        let metrics = step.metrics();
        let value = |name: &str| metrics.iter().find(|(found, _)| *found == name).map(|&(_, value)| value);
        for name in ["actor/kl", "actor/entropy", "actor/approx_kl", "actor/clip_fraction"] {
            assert_eq!(value(name), Some(0.1), "{name}");
        }
        assert_eq!((value("actor/layer_tokens"), value("actor/skipped")), (Some(200.0), Some(1.0)));
        assert_eq!((value("response_length/mean"), value("reward/mean")), (None, None));
    }
}
