//! An arm's evaluation in a few numbers.
//!
//! Beside every score stands the share of responses that parse and the score among those, so that learning the format
//! is not sold as skill.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statistics::{Cluster, IntervalMethod, MeanEstimate, estimate_mean, paired_difference};
use crate::reward::Reward;
use crate::skill::Domain;
use crate::task::CrossSkillTask;

/// One scored response.
#[derive(Debug, Clone, Copy)]
pub struct EvalRecord<'a> {
    /// The task it answers; records of one task id form one cluster.
    pub task: &'a CrossSkillTask,
    /// What it earned.
    pub reward: &'a Reward,
}

/// What one arm reached on a task set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvalSummary {
    /// The task score (r_ans): the mean of its steps' scores, 0 where the response is malformed.
    pub score: MeanEstimate,
    /// The whole reward, under whatever weights the arm was scored with.
    pub reward: MeanEstimate,
    /// Share of responses that keep the format.
    pub parse_rate: MeanEstimate,
    /// The score among responses that keep the format; none if none does.
    pub score_if_parsed: Option<MeanEstimate>,
    /// Share of steps whose skill is named right.
    pub skill_accuracy: MeanEstimate,
    /// Step scores by the step's domain.
    pub domains: BTreeMap<Domain, MeanEstimate>,
    /// Task scores by number of steps.
    pub lengths: BTreeMap<usize, MeanEstimate>,
}

impl EvalSummary {
    /// Column titles for [`EvalSummary::cells`].
    pub const HEADER: [&'static str; 4] = ["score", "parse rate", "score if parsed", "skill accuracy"];

    /// The main numbers as table cells.
    pub fn cells(&self) -> [String; 4] {
        let if_parsed = self.score_if_parsed.map_or_else(|| "–".to_owned(), |estimate| estimate.to_string());
        [self.score.to_string(), self.parse_rate.to_string(), if_parsed, self.skill_accuracy.to_string()]
    }
}

/// Clusters of one quantity by task id.
#[derive(Default)]
struct Quantity<'a>(BTreeMap<&'a str, Cluster>);

impl<'a> Quantity<'a> {
    fn add(&mut self, task: &'a CrossSkillTask, value: f64) {
        self.0.entry(&task.id).or_default().add(value);
    }

    /// Every quantity here lies in [0, 1], and so must its mean, whatever a normal interval says.
    fn estimate(&self, method: IntervalMethod) -> Option<MeanEstimate> {
        let clusters: Vec<Cluster> = self.0.values().copied().collect();
        let mut estimate = estimate_mean(&clusters, method)?;
        estimate.interval = estimate.interval.map(|(low, high)| (low.max(0.0), high.min(1.0)));
        Some(estimate)
    }
}

/// The summary of an arm's records; none when there are none.
pub fn summarize(records: &[EvalRecord], method: IntervalMethod) -> Option<EvalSummary> {
    let of = |value: &dyn Fn(&EvalRecord) -> Option<f64>| {
        let mut quantity = Quantity::default();
        for record in records {
            if let Some(value) = value(record) {
                quantity.add(record.task, value);
            }
        }
        quantity.estimate(method)
    };
    let mut domains: BTreeMap<Domain, Quantity> = BTreeMap::new();
    let mut lengths: BTreeMap<usize, Quantity> = BTreeMap::new();
    for record in records {
        lengths.entry(record.task.steps.len()).or_default().add(record.task, record.reward.answer);
        for (step, reward) in record.task.steps.iter().zip(&record.reward.steps) {
            domains.entry(step.domain).or_default().add(record.task, reward.score);
        }
    }
    Some(EvalSummary {
        score: of(&|record| Some(record.reward.answer))?,
        reward: of(&|record| Some(record.reward.total))?,
        parse_rate: of(&|record| Some(f64::from(u8::from(record.reward.malformed.is_none()))))?,
        score_if_parsed: of(&|record| record.reward.malformed.is_none().then_some(record.reward.answer)),
        skill_accuracy: of(&|record| Some(record.reward.skill_accuracy()))?,
        domains: domains.into_iter().filter_map(|(domain, q)| Some((domain, q.estimate(method)?))).collect(),
        lengths: lengths.into_iter().filter_map(|(length, q)| Some((length, q.estimate(method)?))).collect(),
    })
}

/// The mean difference `b − a` in task score over the tasks that both arms answered; none when there is no such task.
pub fn compare(a: &[EvalRecord], b: &[EvalRecord], method: IntervalMethod) -> Option<MeanEstimate> {
    let task_means = |records: &[EvalRecord]| {
        let mut quantity: BTreeMap<String, Cluster> = BTreeMap::new();
        for record in records {
            quantity.entry(record.task.id.clone()).or_default().add(record.reward.answer);
        }
        quantity.into_iter().map(|(id, cluster)| (id, cluster.sum / cluster.count as f64)).collect::<BTreeMap<_, _>>()
    };
    let (a, b) = (task_means(a), task_means(b));
    let (first, second): (Vec<f64>, Vec<f64>) = a.iter().filter_map(|(id, a)| Some((*a, *b.get(id)?))).unzip();
    paired_difference(&first, &second, method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reward::StepReward;
    use crate::reward::format::Malformed;
    use crate::task::Step;

    fn task(id: &str, domains: &[Domain]) -> CrossSkillTask {
        let step = |&domain: &Domain| Step {
            question: "q".into(),
            answer: "1".into(),
            domain,
            skill: "s".into(),
            options: Vec::new(),
            standalone: None,
        };
        CrossSkillTask {
            id: id.into(),
            scenario: String::new(),
            steps: domains.iter().map(step).collect(),
            trace: None,
            provenance: None,
        }
    }

    fn reward(scores: &[f64], malformed: Option<Malformed>) -> Reward {
        let answer = scores.iter().sum::<f64>() / scores.len() as f64;
        let step = |(index, &score): (usize, &f64)| StepReward {
            score,
            label: None,
            skill_correct: malformed.is_none() && index == 0,
            matched: None,
        };
        let steps = scores.iter().enumerate().map(step).collect();
        Reward { total: answer / 2.0, answer, entropy: None, steps, malformed, num_out_of_bank: None }
    }

    #[test]
    fn summary_is_the_hand_count() {
        let long = task("long", &[Domain::Math, Domain::Science]);
        let short = task("short", &[Domain::Math]);
        let rewards = [
            reward(&[1.0, 0.0], None),
            reward(&[0.0, 0.0], Some(Malformed::NoSteps)),
            reward(&[1.0], None),
            reward(&[0.0], None),
        ];
        let records: Vec<EvalRecord> = [&long, &long, &short, &short]
            .into_iter()
            .zip(&rewards)
            .map(|(task, reward)| EvalRecord { task, reward })
            .collect();
        let summary = summarize(&records, IntervalMethod::Normal).unwrap();
        assert_eq!(summary.score.mean, 0.375);
        assert_eq!(summary.reward.mean, 0.1875);
        assert_eq!((summary.score.num_clusters, summary.score.num_observations), (2, 4));
        assert_eq!(summary.parse_rate.mean, 0.75);
        assert_eq!(summary.score_if_parsed.unwrap().mean, 0.5);
        assert_eq!(summary.skill_accuracy.mean, (0.5 + 0.0 + 1.0 + 1.0) / 4.0);
        assert_eq!(summary.domains[&Domain::Math].mean, 0.5);
        assert_eq!(summary.domains[&Domain::Science].mean, 0.0);
        assert_eq!((summary.lengths[&1].mean, summary.lengths[&2].mean), (0.5, 0.25));
        assert_eq!(summarize(&[], IntervalMethod::Normal), None);
    }

    #[test]
    fn arms_compare_on_the_tasks_they_share() {
        let tasks = [task("a", &[Domain::Math]), task("b", &[Domain::Math]), task("c", &[Domain::Math])];
        let (right, wrong) = (reward(&[1.0], None), reward(&[0.0], None));
        let record = |task, reward| EvalRecord { task, reward };
        let first = [record(&tasks[0], &wrong), record(&tasks[1], &right), record(&tasks[1], &wrong)];
        let second = [record(&tasks[1], &right), record(&tasks[0], &right), record(&tasks[2], &wrong)];
        let difference = compare(&first, &second, IntervalMethod::Normal).unwrap();
        assert_eq!((difference.mean, difference.num_clusters), (0.75, 2));
        assert_eq!(compare(&first[..1], &second[..1], IntervalMethod::Normal), None);
    }
}
