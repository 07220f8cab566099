//! Rewards: what a response to a cross-skill task earns, from its text and the task alone.
//!
//! `r = λ_ans · r_ans + λ_ent · r_ent`. r_ans is the mean of the steps' domain scores; r_ent says how well the predicted
//! skill sequence agrees with the gold one through skill entropy. A malformed response earns 0 for both. A step whose
//! scorer can't judge it is an error of that response, to be counted by the caller, never a silent 0. Nothing here sees
//! a token or a tensor.

mod context;
pub mod entropy;
pub mod format;
pub mod matcher;
pub mod prompt;
pub mod scorers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rayon::prelude::*;

pub use context::{RewardContext, RewardRule, RewardSetupError};
pub use entropy::EntropyForm;
pub use format::{Malformed, StepCount};
pub use prompt::{PromptStyle, PromptTemplate};

use crate::skill::{SkillKey, normalize_name};
use crate::task::{CrossSkillTask, Step};
use entropy::entropy_reward;
use format::{ResponseStep, SkillLabel, parse_response};
use matcher::EmbedError;
use scorers::{Graders, ScoreError};

/// Why a response could not be scored. None of these is a wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewardError {
    /// A step's scorer can't judge it.
    #[error("task `{task}`, step {step}: {source}")]
    Step {
        /// The task's id.
        task: String,
        /// Counted from 1.
        step: usize,
        /// What the scorer says.
        source: ScoreError,
    },
    /// The task's own skills have no entropy.
    #[error(
        "task `{task}`: the entropy table does not cover the switch from `{from}` to `{to}`; give a table that does \
         (reward.entropy_table), or set reward.lambda_ent = 0"
    )]
    GoldSwitch {
        /// The task's id.
        task: String,
        /// The gold skill before the switch.
        from: String,
        /// The gold skill after it.
        to: String,
    },
    /// A grader panicked, which is a fault of its own and no verdict.
    #[error("task `{task}`: a grader crashed: {message}")]
    Crashed {
        /// The task's id.
        task: String,
        /// What the panic said.
        message: String,
    },
    /// The matcher's embedder failed.
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl RewardError {
    fn step(task: &CrossSkillTask, index: usize, source: ScoreError) -> Self {
        Self::Step { task: task.id.clone(), step: index + 1, source }
    }
}

/// What became of one step of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReward {
    /// The domain scorer's verdict, in [0, 1]; 0 where the response has no such step.
    pub score: f64,
    /// The skill the response names, as written; none where the response has no such step.
    pub label: Option<String>,
    /// Whether the label is the gold skill's name, normalised. Needs neither matcher nor bank, so that arms with and
    /// without λ_ent can be compared by it.
    pub skill_correct: bool,
    /// The bank key the matcher found; none out of the bank, and none when λ_ent is 0.
    pub matched: Option<SkillKey>,
}

impl StepReward {
    fn missing() -> Self {
        Self { score: 0.0, label: None, skill_correct: false, matched: None }
    }
}

/// What a response earns.
#[derive(Debug, Clone, PartialEq)]
pub struct Reward {
    /// `λ_ans · answer + λ_ent · entropy`, in [0, 1]; without a switch λ_ent's weight goes to the answer.
    pub total: f64,
    /// r_ans: the mean of the steps' scores.
    pub answer: f64,
    /// r_ent; none when λ_ent is 0 or the task has no switch.
    pub entropy: Option<f64>,
    /// One entry per step of the task.
    pub steps: Vec<StepReward>,
    /// Why the response earns nothing, if it does not keep the format.
    pub malformed: Option<Malformed>,
    /// Labels the matcher could not resolve; none when it did not run.
    pub num_out_of_bank: Option<usize>,
}

impl Reward {
    /// Share of the task's steps whose skill is named right.
    pub fn skill_accuracy(&self) -> f64 {
        self.steps.iter().filter(|step| step.skill_correct).count() as f64 / self.steps.len().max(1) as f64
    }
}

/// The reward of `response` to `task`.
///
/// # Errors
/// When a step can't be scored, the task's gold skills have no entropy, or the matcher fails.
pub fn score_response(task: &CrossSkillTask, response: &str, context: &RewardContext) -> Result<Reward, RewardError> {
    let deadline = Instant::now() + context.graders.time_limit;
    let gold = context.gold_entropies(task)?;
    let num_steps = task.steps.len();
    let parsed = match parse_response(response, num_steps, context.rule.step_count) {
        Ok(parsed) => parsed,
        Err(reason) => {
            return Ok(Reward {
                total: 0.0,
                answer: 0.0,
                entropy: (!gold.is_empty()).then_some(0.0),
                steps: vec![StepReward::missing(); num_steps],
                malformed: Some(reason),
                num_out_of_bank: None,
            });
        }
    };
    let mut steps = Vec::with_capacity(num_steps);
    for (index, step) in task.steps.iter().enumerate() {
        steps.push(match parsed.steps.get(index) {
            Some(given) => score_step(step, given, &context.graders, deadline)
                .map_err(|source| RewardError::step(task, index, source))?,
            None => StepReward::missing(),
        });
    }
    let mut num_out_of_bank = None;
    if let Some(skills) = &context.skills {
        for (step, given) in steps.iter_mut().zip(&parsed.steps) {
            step.matched = skills.matcher.resolve(&given.skill)?.cloned();
        }
        num_out_of_bank = Some(steps.iter().filter(|step| step.label.is_some() && step.matched.is_none()).count());
    }
    let answer = steps.iter().map(|step| step.score).sum::<f64>() / num_steps.max(1) as f64;
    let entropy = context.skills.as_ref().and_then(|skills| {
        let switch =
            |pair: &[StepReward]| skills.entropies.switch(pair[0].matched.as_ref()?, pair[1].matched.as_ref()?);
        let predicted: Vec<Option<f64>> = steps.windows(2).map(switch).collect();
        entropy_reward(context.rule.entropy_form, context.rule.entropy_scale, &predicted, &gold)
    });
    let total = context.rule.total(answer, entropy);
    Ok(Reward { total, answer, entropy, steps, malformed: None, num_out_of_bank })
}

fn score_step(
    step: &Step,
    given: &ResponseStep,
    graders: &Graders,
    deadline: Instant,
) -> Result<StepReward, ScoreError> {
    Ok(StepReward {
        score: scorers::score(step, given.answer, graders, deadline)?,
        label: Some(given.skill.to_string()),
        skill_correct: names_skill(&given.skill, &step.key()),
        matched: None,
    })
}

/// Whether a label spells a key: both names agree normalised, or the skill's alone where the label has no domain.
pub fn names_skill(label: &SkillLabel, key: &SkillKey) -> bool {
    let same_domain = label.domain.is_none_or(|domain| domain.parse() == Ok(key.domain()));
    same_domain && normalize_name(label.skill) == normalize_name(key.skill())
}

/// [`score_response`] for many responses on all threads; results come in the order of `pairs`.
///
/// Labels that need the embedder are embedded together first.
pub fn score_batch(pairs: &[(&CrossSkillTask, &str)], context: &RewardContext) -> Vec<Result<Reward, RewardError>> {
    if let Some(skills) = &context.skills {
        let step_count = context.rule.step_count;
        let parsed = pairs.iter().filter_map(|(task, text)| parse_response(text, task.steps.len(), step_count).ok());
        if let Err(error) = skills.matcher.prepare(parsed.flat_map(|response| response.steps).map(|step| step.skill)) {
            return vec![Err(error.into()); pairs.len()];
        }
    }
    pairs.par_iter().map(|(task, response)| score_guarded(task, response, context)).collect()
}

/// [`score_response`], with a panic in a grader as that response's error.
///
/// # Errors
/// As [`score_response`], and when a grader panics.
pub fn score_guarded(task: &CrossSkillTask, response: &str, context: &RewardContext) -> Result<Reward, RewardError> {
    // What a panic may leave half-done is the grader's own state; nothing of it is used for this response again.
    let outcome = catch_unwind(AssertUnwindSafe(|| score_response(task, response, context)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(RewardError::Crashed { task: task.id.clone(), message })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
    use crate::reward::scorers::judge::JudgeRules;
    use crate::reward::scorers::{DeferredJudge, ExternalScorer};
    use crate::skill::{Cell, Domain, EntropyTable, Reference};
    use crate::types::FinishReason;

    /// Sums and quotients of a few doubles.
    const TOLERANCE: f64 = 1e-12;

    const FORMS: [EntropyForm; 3] = [EntropyForm::TaskGap, EntropyForm::TaskGapExp, EntropyForm::SwitchProfile];

    /// Accuracies 1/2 for all single cells; pairs differ, so that every switch has an entropy of its own.
    fn table() -> EntropyTable {
        let mut table = EntropyTable::new(Reference { model: "by hand".into(), command: "none".into() });
        let skills = [
            SkillKey::new(Domain::Math, "Sums"),
            SkillKey::new(Domain::Science, "Units"),
            SkillKey::new(Domain::Science, "Gases"),
        ];
        for (index, cell) in Cell::required(&skills).into_iter().enumerate() {
            let ones = match cell {
                Cell::Skill(_) | Cell::Domain(_) => 4,
                _ => 1 + index % 7,
            };
            (0..8).for_each(|i| table.record(cell.clone(), f64::from(u8::from(i < ones))).unwrap());
        }
        table
    }

    fn rule(lambda_ent: f64, entropy_form: EntropyForm, step_count: StepCount) -> RewardRule {
        RewardRule { lambda_ans: 1.0 - lambda_ent, lambda_ent, entropy_form, step_count, ..Default::default() }
    }

    fn context(rule: RewardRule) -> RewardContext {
        RewardContext::with_table(rule, &table()).unwrap()
    }

    fn task() -> CrossSkillTask {
        let step = |domain, skill: &str, answer: &str, options: &[&str]| Step {
            question: "?".into(),
            answer: answer.into(),
            domain,
            skill: skill.into(),
            options: options.iter().map(|&option| option.into()).collect(),
            standalone: None,
        };
        CrossSkillTask {
            id: "t".into(),
            scenario: String::new(),
            steps: vec![
                step(Domain::Math, "Sums", "12", &[]),
                step(Domain::Science, "Units", "B", &["kg", "m"]),
                step(Domain::Math, "Sums", "3", &[]),
            ],
            trace: None,
            provenance: None,
        }
    }

    fn response(steps: &[(&str, &str)]) -> String {
        steps.iter().map(|(skill, answer)| format!("<skill>{skill}</skill><answer>{answer}</answer>")).collect()
    }

    const PERFECT: [(&str, &str); 3] = [("Math, Sums", "12"), ("science,units", "B"), ("Math, sums", "3")];

    #[test]
    fn a_perfect_response_earns_one() {
        for form in FORMS {
            let reward =
                score_response(&task(), &response(&PERFECT), &context(rule(0.3, form, StepCount::Strict))).unwrap();
            assert_eq!((reward.total, reward.answer, reward.entropy), (1.0, 1.0, Some(1.0)), "{form:?}");
            assert_eq!((reward.skill_accuracy(), reward.num_out_of_bank), (1.0, Some(0)));
        }
    }

    #[test]
    fn a_made_up_skill_costs_its_switches() {
        let table = table();
        let keys: Vec<SkillKey> = task().steps.iter().map(Step::key).collect();
        let gold = table.sequence(&keys).unwrap().unwrap();
        let kept = table.switch(&keys[0], &keys[1]).unwrap();
        let text = response(&[PERFECT[0], PERFECT[1], ("Math, Invented", "4")]);
        let context = context(rule(0.3, EntropyForm::TaskGap, StepCount::Strict));
        let reward = score_response(&task(), &text, &context).unwrap();
        let entropy = 0.5 * (1.0 - (kept - gold).abs() / gold);
        assert!((reward.entropy.unwrap() - entropy).abs() < TOLERANCE);
        assert!((reward.total - (0.7 * 2.0 / 3.0 + 0.3 * entropy)).abs() < TOLERANCE);
        assert_eq!(reward.num_out_of_bank, Some(1));
        assert_eq!(reward.steps[2].label.as_deref(), Some("Math, Invented"));
        assert!((reward.skill_accuracy() - 2.0 / 3.0).abs() < TOLERANCE);
    }

    #[test]
    fn malformed_earns_nothing_and_says_why() {
        let context = context(rule(0.3, EntropyForm::TaskGap, StepCount::Strict));
        let reward = score_response(&task(), &response(&PERFECT[..2]), &context).unwrap();
        assert_eq!((reward.total, reward.answer, reward.entropy), (0.0, 0.0, Some(0.0)));
        assert_eq!(reward.malformed, Some(Malformed::StepCount { expected: 3, found: 2 }));
        assert_eq!((reward.steps.len(), reward.num_out_of_bank), (3, None));
    }

    #[test]
    fn lenient_counts_missing_steps_as_wrong() {
        let context = context(rule(0.3, EntropyForm::SwitchProfile, StepCount::Lenient));
        let reward = score_response(&task(), &response(&PERFECT[..2]), &context).unwrap();
        assert!((reward.answer - 2.0 / 3.0).abs() < TOLERANCE);
        assert_eq!(reward.entropy, Some(0.5), "the first switch fits, the second does not exist");
        let extra: Vec<_> = PERFECT.iter().copied().chain([("Math, Sums", "9")]).collect();
        assert_eq!(score_response(&task(), &response(&extra), &context).unwrap().total, 1.0);
    }

    #[test]
    fn one_step_moves_the_entropy_weight_to_the_answer() {
        let mut task = task();
        task.steps.truncate(1);
        let context = context(rule(0.3, EntropyForm::TaskGap, StepCount::Strict));
        let reward = score_response(&task, &response(&[("Math, Nonsense", "12")]), &context).unwrap();
        assert_eq!((reward.total, reward.entropy), (1.0, None));
    }

    #[test]
    fn without_entropy_weight_no_matcher_runs() {
        let contexts = [
            RewardContext::answer_only(StepCount::Strict),
            context(rule(0.0, EntropyForm::TaskGap, StepCount::Strict)),
        ];
        for context in contexts {
            assert!(context.skills.is_none());
            // The skill is in no table, which would be an error if one were asked.
            let mut task = task();
            task.steps[0].skill = "Unmeasured".into();
            let text = response(&[("x", "12"), ("y", "A"), ("z", "3")]);
            let reward = score_response(&task, &text, &context).unwrap();
            assert_eq!((reward.total, reward.entropy, reward.num_out_of_bank), (2.0 / 3.0, None, None));
        }
    }

    #[test]
    fn what_cannot_be_scored_is_an_error() {
        let context = context(rule(0.3, EntropyForm::TaskGap, StepCount::Strict));
        let mut unknown = task();
        unknown.steps[1].domain = Domain::Coding;
        let error = score_response(&unknown, &response(&PERFECT), &RewardContext::answer_only(StepCount::Strict));
        assert!(error.unwrap_err().to_string().starts_with("task `t`, step 2: the gold answer of a coding step"));
        let mut unmeasured = task();
        unmeasured.steps[1].skill = "Unmeasured".into();
        let error = context.check_task(&unmeasured).unwrap_err().to_string();
        let expected =
            "task `t`: the entropy table does not cover the switch from `Math, Sums` to `Science, Unmeasured`; ";
        assert!(error.starts_with(expected), "{error}");
        let mut bad_gold = task();
        bad_gold.steps[1].answer = "Z".into();
        assert!(context.check_task(&bad_gold).unwrap_err().to_string().contains("`Z`"));
        assert_eq!(context.check_task(&task()), Ok(()));
    }

    /// Gives every answer 5 points.
    struct Lukewarm;

    impl ChatModel for Lukewarm {
        fn complete(&self, requests: &[ChatRequest], _: Instant) -> Vec<Result<ChatReply, ChatError>> {
            let reply = |request: &ChatRequest| {
                let (_, after) = request.messages[0].content.split_once("<verdict-").expect("the form is shown");
                let nonce = after.split_once('>').expect("the tag closes").0;
                let text = format!("<verdict-{nonce}>{{\"points\": 5}}</verdict-{nonce}>");
                Ok(ChatReply { text, finish_reason: FinishReason::Stop })
            };
            requests.iter().map(reply).collect()
        }
    }

    #[test]
    fn what_a_response_is_judged_on_is_known_before_it_is_scored() {
        let mut task = task();
        for index in [1, 2] {
            task.steps[index].domain = Domain::CreativeWriting;
            task.steps[index].answer = "It rhymes.".into();
        }
        task.steps[2].standalone = Some("A line about the sea?".into());
        let given =
            response(&[("Math, Sums", "12"), ("Creative Writing, Verse", "Moon."), ("x", "<think>a</think>Sea.")]);
        let judge = Arc::new(DeferredJudge::new(JudgeRules::default()));
        for step_count in [StepCount::Strict, StepCount::Lenient] {
            let context = RewardContext::answer_only(step_count)
                .with_graders(Graders { judge: Some(judge.clone()), ..Graders::default() });
            let judged = context.judged(&task, &given);
            let questions: Vec<&str> = judged.iter().map(|judged| judged.question).collect();
            assert_eq!(questions, ["?", "A line about the sea?"]);
            judge.hear(&judged, &Lukewarm);
            let scores: Vec<f64> =
                score_response(&task, &given, &context).unwrap().steps.iter().map(|step| step.score).collect();
            assert_eq!(scores, [1.0, 0.5, 0.5]);

            let short = response(&[("Math, Sums", "12"), ("Creative Writing, Verse", "Dune.")]);
            assert_eq!(context.judged(&task, &short).len(), usize::from(step_count == StepCount::Lenient));
            assert!(context.judged(&task, "no tags").is_empty());
        }
        struct Users;
        impl ExternalScorer for Users {
            fn score(&self, _: &Step, _: &str, _: Instant) -> Result<f64, String> {
                Ok(0.25)
            }
        }
        let external = [(Domain::CreativeWriting, Arc::new(Users) as Arc<dyn ExternalScorer>)].into();
        let graders = Graders { judge: Some(judge), external, ..Graders::default() };
        let context = RewardContext::answer_only(StepCount::Strict).with_graders(graders);
        assert!(context.judged(&task, &given).is_empty(), "the user's scorer stands in for the judge");
    }

    #[test]
    fn structured_golds_pass_the_check_and_broken_ones_do_not() {
        let check = |domain, answer: &str| {
            let mut task = task();
            task.steps[0].domain = domain;
            task.steps[0].answer = answer.into();
            RewardContext::answer_only(StepCount::Strict).check_task(&task).map_err(|error| error.to_string())
        };
        let checks = r#"{"type":"ifeval","instruction_id_list":["startend:quotation"],"kwargs":[{}]}"#;
        assert_eq!(check(Domain::InstructionFollowing, checks), Ok(()), "checks are no answer to themselves");
        assert_eq!(check(Domain::Logic, r#"{"type":"arc_grid","grid":[[1]]}"#), Ok(()));
        let rubric = check(Domain::InstructionFollowing, "Be brief.").unwrap_err();
        assert!(rubric.contains("needs a judge"), "a plain text is a rubric: {rubric}");
        let typed = r#"{"type":"wtq","target":["Oslo","Rome"],"canon":["Oslo","Rome"]}"#;
        assert_eq!(check(Domain::InformationExtraction, typed), Ok(()));
        for (domain, answer) in [(Domain::InstructionFollowing, r#"{"type":"x"}"#), (Domain::Logic, r#"{"grid":[]}"#)] {
            let error = check(domain, answer).unwrap_err();
            assert!(error.starts_with(&format!("task `t`, step 1: the gold answer of a {domain} step")), "{error}");
        }
    }

    #[test]
    fn only_the_ratio_of_the_weights_counts() {
        let text = response(&[PERFECT[0], PERFECT[1], ("Math, Invented", "4")]);
        let total = |lambda_ans, lambda_ent| {
            let rule = RewardRule { lambda_ans, lambda_ent, ..Default::default() };
            score_response(&task(), &text, &context(rule)).unwrap().total
        };
        assert!((total(0.7, 0.3) - total(1.4, 0.6)).abs() < TOLERANCE);
        assert_eq!(total(0.7, 0.0), 2.0 / 3.0);
    }

    #[test]
    fn impossible_rules_are_listed() {
        let bad = RewardRule { lambda_ans: 0.0, lambda_ent: 0.0, entropy_scale: 0.0, ..Default::default() };
        assert_eq!(bad.problems().len(), 2, "{:?}", bad.problems());
        assert!(RewardRule { lambda_ent: f64::NAN, ..Default::default() }.problems()[0].starts_with("lambda_ent"));
        assert!(RewardRule { lambda_ans: -0.1, ..Default::default() }.problems()[0].starts_with("lambda_ans"));
        assert!(RewardRule::default().problems().is_empty());
        assert!(matches!(RewardContext::with_table(bad, &table()), Err(RewardSetupError::Rule(_))));
    }

    #[test]
    fn labels_name_skills_whatever_their_spelling() {
        let key = SkillKey::new(Domain::InformationExtraction, "Cross-Column Analysis");
        for text in ["information extraction, cross column analysis", "Information_Extraction,CrossColumnAnalysis"] {
            assert!(names_skill(&SkillLabel::split(text), &key), "{text}");
        }
        assert!(names_skill(&SkillLabel::split("cross column analysis"), &key));
        for text in ["logic, cross column analysis", "nowhere, cross column analysis", "information extraction, x"] {
            assert!(!names_skill(&SkillLabel::split(text), &key), "{text}");
        }
    }

    const LABELS: [&str; 6] = ["Math, Sums", "Science, Units", "Science, Gases", "Gases", "Math, Invented", ""];
    const ANSWERS: [&str; 4] = ["12", "B", "3", "?"];

    proptest! {
        #[test]
        fn rewards_stay_in_range_and_without_entropy_equal_the_answer(
            steps in proptest::collection::vec((0..LABELS.len(), 0..ANSWERS.len()), 0..5),
            form in 0..FORMS.len(),
            lambda_ent in 0.0f64..=1.0,
            lenient: bool,
        ) {
            let text = response(&steps.iter().map(|&(s, a)| (LABELS[s], ANSWERS[a])).collect::<Vec<_>>());
            let step_count = if lenient { StepCount::Lenient } else { StepCount::Strict };
            let reward = score_response(&task(), &text, &context(rule(lambda_ent, FORMS[form], step_count))).unwrap();
            prop_assert!((0.0..=1.0).contains(&reward.total));
            prop_assert!((0.0..=1.0).contains(&reward.entropy.unwrap_or(0.0)));
            let plain = score_response(&task(), &text, &RewardContext::answer_only(step_count)).unwrap();
            prop_assert_eq!(plain.total, reward.answer);
            prop_assert_eq!(plain.answer, reward.answer);
        }

        #[test]
        fn any_text_can_be_scored(text in "(<skill>|</skill>|<answer>|</answer>|[a-zA-Z0-9,. $\\\\{}^/%-]){0,16}") {
            let context = context(rule(0.3, EntropyForm::TaskGap, StepCount::Lenient));
            let batch = score_batch(&[(&task(), &text), (&task(), &response(&PERFECT))], &context);
            prop_assert!(batch[0].is_ok());
            prop_assert_eq!(batch[1].as_ref().unwrap().total, 1.0);
        }
    }
}
