use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::chat::{ChatError, ChatModel, ChatReply, ChatRequest};
use crate::reward::scorers::judge::JudgeRules;
use crate::reward::scorers::{DeferredJudge, ExternalScorer, Graders};
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

/// A grader with a fault of its own.
struct Panics;

impl ExternalScorer for Panics {
    fn score(&self, _: &Step, answer: &str, _: std::time::Instant) -> Result<f64, String> {
        assert!(answer != "boom", "the grader's own fault");
        Ok(1.0)
    }
}

#[test]
fn a_grader_that_panics_costs_its_own_responses_an_error() {
    let mut task = task();
    task.steps.truncate(1);
    let graders = Graders { external: [(Domain::Math, Arc::new(Panics) as _)].into(), ..Graders::default() };
    let context = RewardContext::answer_only(StepCount::Strict).with_graders(graders);
    let (bad, good) = (response(&[("Math, Sums", "boom")]), response(&[("Math, Sums", "12")]));
    // More than there are threads, so that each meets a panic and goes on.
    let pairs = [(&task, bad.as_str()), (&task, good.as_str())].repeat(64);
    for (index, outcome) in score_batch(&pairs, &context).into_iter().enumerate() {
        if index % 2 == 1 {
            assert_eq!(outcome.unwrap().total, 1.0);
        } else {
            assert!(
                matches!(outcome, Err(RewardError::Crashed { task, message }) if task == "t" && message.contains("own fault"))
            );
        }
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
    let contexts =
        [RewardContext::answer_only(StepCount::Strict), context(rule(0.0, EntropyForm::TaskGap, StepCount::Strict))];
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
    let expected = "task `t`: the entropy table does not cover the switch from `Math, Sums` to `Science, Unmeasured`; ";
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
    let given = response(&[("Math, Sums", "12"), ("Creative Writing, Verse", "Moon."), ("x", "<think>a</think>Sea.")]);
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
