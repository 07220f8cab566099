//! The reward's weights and forms.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

use super::{CommandScorerConfig, JudgeConfig, SandboxConfig};
use crate::reward::entropy::EntropyForm;
use crate::reward::format::StepCount;
use crate::reward::matcher::DEFAULT_MIN_COSINE;
use crate::skill::Domain;

/// `reward = lambda_ans * r_ans + lambda_ent * r_ent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RewardConfig {
    /// Weight of the answer reward; default 0.7 (paper).
    pub lambda_ans: f64,
    /// Weight of the skill-entropy reward; default 0.3 (paper); 0 is the GRPO baseline.
    pub lambda_ent: f64,
    /// Form of the skill-entropy reward; default "task_gap".
    pub entropy_form: EntropyForm,
    /// Scale of the gap in "task_gap_exp"; default 1.
    pub entropy_scale: f64,
    /// What a wrong number of steps in a response means; default "strict".
    pub step_count: StepCount,
    /// Skill-entropy table; default the embedded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entropy_table: Option<PathBuf>,
    /// Skill bank; default the embedded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_bank: Option<PathBuf>,
    /// Sentence embedder that resolves labels no exact name matches: a Hugging Face directory or hub id, such as
    /// Qwen3-Embedding or all-MiniLM-L6-v2; default none, and such labels are out of the bank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<String>,
    /// Below this cosine the nearest skill is not the label's; default 0.5 (paper).
    pub min_cosine: f32,
    /// Whether training may use a table whose cells do not differ beyond their standard errors; default false.
    pub allow_flat_table: bool,
    /// Seconds that the graders of one response have together; default 60.
    pub grader_secs: f64,
    /// Share of a step's responses whose grader may fail before the run stops; default 0.2.
    pub max_error_rate: f64,
    /// How programs of coding answers are run.
    pub sandbox: SandboxConfig,
    /// Who judges the answers of open-ended domains; no default, needed when such tasks occur.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeConfig>,
    /// Scorers of one's own, by domain; each stands in for the one here.
    #[serde(deserialize_with = "by_domain", skip_serializing_if = "BTreeMap::is_empty")]
    pub scorers: BTreeMap<Domain, CommandScorerConfig>,
}

impl Default for RewardConfig {
    fn default() -> Self {
        Self {
            lambda_ans: 0.7,
            lambda_ent: 0.3,
            entropy_form: EntropyForm::TaskGap,
            entropy_scale: 1.0,
            step_count: StepCount::Strict,
            entropy_table: None,
            skill_bank: None,
            embedder: None,
            min_cosine: DEFAULT_MIN_COSINE,
            allow_flat_table: false,
            grader_secs: 60.0,
            max_error_rate: 0.2,
            sandbox: SandboxConfig::default(),
            judge: None,
            scorers: BTreeMap::new(),
        }
    }
}

/// Reads the keys as texts first, since a path to a mistake holds no key that is read as an enum.
fn by_domain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Domain, CommandScorerConfig>, D::Error> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Key(Domain);
    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Domain::deserialize(String::deserialize(deserializer)?.into_deserializer()).map(Self)
        }
    }
    let scorers = BTreeMap::<Key, CommandScorerConfig>::deserialize(deserializer)?;
    Ok(scorers.into_iter().map(|(Key(domain), scorer)| (domain, scorer)).collect())
}
