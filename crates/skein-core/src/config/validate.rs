//! Values and combinations that can never work, found before anything is loaded.

use std::path::Path;

use super::{
    Config, EvalConfig, Importance, LossAggregation, ModelConfig, RewardConfig, RlConfig, RolloutConfig, ScratchConfig,
    SftConfig, Stage, TaskSource,
};
use crate::types::SamplingParams;

/// Most steps of a task in the task format.
const MAX_TASK_STEPS: usize = 10;

/// Largest count of anything that a config asks for.
const MAX_COUNT: usize = 100_000_000;
/// Longest that graders may take over one response, in seconds: a day.
const MAX_GRADER_SECS: f64 = 86_400.0;

/// Something impossible, with the keys it is about (the one to change first).
pub(super) struct Finding {
    pub keys: Vec<String>,
    pub message: String,
}

/// Everything impossible in `config`.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut check = Check::default();
    if config.name.is_empty() || config.name.contains('/') {
        check.add(&["name"], "expected a name without `/`");
    }
    if config.stages.is_empty() {
        check.add(&["stages"], "lists no stage; expected some of \"sft\", \"rl\", \"eval\"");
    }
    check.model(&config.model);
    check.sft(&config.sft);
    check.rl(&config.rl);
    check.eval(&config.eval);
    check.reward(&config.reward);
    check.at_least(1, "rollout.max_sequences", config.rollout.max_sequences);
    check.at_least(0, "rollout.cache_tokens", config.rollout.cache_tokens);
    check.stages(config);
    check.lengths(config);
    check.findings
}

#[derive(Default)]
struct Check {
    findings: Vec<Finding>,
}

impl Check {
    fn add(&mut self, keys: &[&str], message: impl Into<String>) {
        self.findings
            .push(Finding { keys: keys.iter().map(|key| (*key).to_owned()).collect(), message: message.into() });
    }

    fn at_least(&mut self, least: usize, key: &str, value: usize) {
        self.count(least, MAX_COUNT, key, value);
    }

    /// A count beyond `most` is a slip of the keyboard, and would end in an allocation that fails.
    fn count(&mut self, least: usize, most: usize, key: &str, value: usize) {
        if value < least {
            self.add(&[key], format!("is {value}; expected {least} or more"));
        } else if value > most {
            self.add(&[key], format!("is {value}; expected at most {most}"));
        }
    }

    /// `holds` is false for NaN, as every comparison with it is.
    fn range(&mut self, key: &str, value: f64, holds: bool, expected: &str) {
        if !holds || !value.is_finite() {
            self.add(&[key], format!("is {value}; expected {expected}"));
        }
    }

    fn positive(&mut self, key: &str, value: f64) {
        self.range(key, value, value > 0.0, "a number above 0");
    }

    fn not_negative(&mut self, key: &str, value: f64) {
        self.range(key, value, value >= 0.0, "0 or more");
    }

    fn file(&mut self, key: &str, path: &Path) {
        let path_shown = path.display();
        match path.metadata() {
            Ok(found) if found.is_file() => {}
            Ok(found) if found.is_dir() => self.add(&[key], format!("{path_shown} is a directory, expected a file")),
            Ok(_) => self.add(
                &[key],
                format!(
                    "{path_shown} is a pipe or a device, which gives its contents once; a run reads them more often: \
                         put them into a file"
                ),
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.add(&[key], format!("there is no file {path_shown}"));
            }
            Err(error) => self.add(&[key], format!("cannot look at {path_shown}: {error}")),
        }
    }

    fn model(&mut self, model: &ModelConfig) {
        match (&model.scratch, model.path.as_str()) {
            (None, "") => self.add(&["model.path", "model.scratch"], "no model: set model.path or model.scratch"),
            (None, path) => self.model_path("model.path", path),
            (Some(scratch), "") => self.scratch(scratch),
            (Some(_), _) => {
                self.add(&["model.path", "model.scratch"], "set together with model.scratch: keep one of them")
            }
        }
    }

    /// A model's directory or hub id.
    fn model_path(&mut self, key: &str, name: &str) {
        let path = Path::new(name);
        if path.is_dir() {
            if !path.join("config.json").is_file() {
                self.add(&[key], format!("{name} holds no config.json: not a Hugging Face model directory"));
            }
        } else if !is_hub_id(name) || path.parent().is_some_and(|parent| parent.is_dir() && parent != Path::new("")) {
            self.add(&[key], format!("there is no directory {name}, and it is not a hub id like `owner/name`"));
        }
    }

    fn scratch(&mut self, s: &ScratchConfig) {
        for (field, value, most) in [
            ("hidden_size", s.hidden_size, 1 << 16),
            ("intermediate_size", s.intermediate_size, 1 << 20),
            ("num_hidden_layers", s.num_hidden_layers, 1 << 10),
            ("num_attention_heads", s.num_attention_heads, 1 << 10),
            ("num_key_value_heads", s.num_key_value_heads, 1 << 10),
            ("head_dim", s.head_dim, 1 << 12),
            ("max_position_embeddings", s.max_position_embeddings, 1 << 22),
        ] {
            self.count(1, most, &format!("model.scratch.{field}"), value);
        }
        self.positive("model.scratch.rope_theta", s.rope_theta);
        self.positive("model.scratch.init_std", s.init_std);
        if s.head_dim % 2 == 1 {
            self.add(&["model.scratch.head_dim"], format!("is {}; rotary embedding needs an even width", s.head_dim));
        }
        if s.num_key_value_heads > 0 && !s.num_attention_heads.is_multiple_of(s.num_key_value_heads) {
            self.add(
                &["model.scratch.num_key_value_heads", "model.scratch.num_attention_heads"],
                format!(
                    "{} query heads cannot share {} key-value heads evenly",
                    s.num_attention_heads, s.num_key_value_heads
                ),
            );
        }
        if s.tokenizer.as_os_str().is_empty() {
            self.add(&["model.scratch.tokenizer"], "missing: a random model needs the directory of a tokenizer");
        } else if !s.tokenizer.join("tokenizer.json").is_file() {
            self.add(
                &["model.scratch.tokenizer"],
                format!("there is no {}", s.tokenizer.join("tokenizer.json").display()),
            );
        }
    }

    fn sft(&mut self, sft: &SftConfig) {
        if sft.epochs == 0 && sft.max_steps == 0 {
            self.add(&["sft.epochs", "sft.max_steps"], "is 0, and so is sft.max_steps: set one of them");
        }
        self.at_least(1, "sft.batch_size", sft.batch_size);
        self.at_least(2, "sft.max_length", sft.max_length);
        self.at_least(1, "sft.log_every", sft.log_every);
        for (key, value) in [
            ("sft.max_steps", sft.max_steps),
            ("sft.epochs", sft.epochs),
            ("sft.micro_batch_tokens", sft.micro_batch_tokens),
        ] {
            self.at_least(0, key, value);
        }
        if sft.micro_batch_tokens < sft.max_length {
            let message =
                format!("is {}, less than one sequence of sft.max_length ({})", sft.micro_batch_tokens, sft.max_length);
            self.add(&["sft.micro_batch_tokens", "sft.max_length"], message);
        }
        for (key, value) in [("sft.warmup_ratio", sft.warmup_ratio), ("sft.min_lr_ratio", sft.min_lr_ratio)] {
            self.range(key, value, (0.0..=1.0).contains(&value), "a share from 0 to 1");
        }
        self.optimizer("sft", [sft.lr, sft.weight_decay, sft.beta1, sft.beta2, sft.eps, sft.max_grad_norm]);
    }

    fn optimizer(&mut self, section: &str, [lr, weight_decay, beta1, beta2, eps, max_grad_norm]: [f64; 6]) {
        let key = |field: &str| format!("{section}.{field}");
        self.positive(&key("lr"), lr);
        self.not_negative(&key("weight_decay"), weight_decay);
        self.range(&key("beta1"), beta1, (0.0..1.0).contains(&beta1), "at least 0 and below 1");
        self.range(&key("beta2"), beta2, (0.0..1.0).contains(&beta2), "at least 0 and below 1");
        self.positive(&key("eps"), eps);
        self.not_negative(&key("max_grad_norm"), max_grad_norm);
    }

    fn rl(&mut self, rl: &RlConfig) {
        for (key, value) in [
            ("rl.steps", rl.steps),
            ("rl.batch_size", rl.batch_size),
            ("rl.group_size", rl.group_size),
            ("rl.max_prompt_tokens", rl.max_prompt_tokens),
            ("rl.max_rounds", rl.max_rounds),
        ] {
            self.at_least(1, key, value);
        }
        for (key, value) in [
            ("rl.rollout_batch_size", rl.rollout_batch_size),
            ("rl.max_staleness", rl.max_staleness),
            ("rl.micro_batch_tokens", rl.micro_batch_tokens),
            ("rl.warmup_steps", rl.warmup_steps),
        ] {
            self.at_least(0, key, value);
        }
        if rl.group_size == 1 && rl.filter {
            self.add(
                &["rl.group_size", "rl.filter"],
                "is 1: a group of one has equal rewards, so rl.filter would drop all of them",
            );
        }
        if rl.mini_batch_size > 0 && !rl.batch_size.is_multiple_of(rl.mini_batch_size) {
            let message = format!("is {}, which does not divide rl.batch_size ({})", rl.mini_batch_size, rl.batch_size);
            self.add(&["rl.mini_batch_size", "rl.batch_size"], message);
        }
        let longest = rl.max_prompt_tokens.saturating_add(rl.sampling.max_new_tokens);
        if rl.micro_batch_tokens < longest {
            let message = format!(
                "is {}, less than one sequence of rl.max_prompt_tokens + rl.sampling.max_new_tokens ({longest})",
                rl.micro_batch_tokens
            );
            self.add(&["rl.micro_batch_tokens", "rl.max_prompt_tokens", "rl.sampling.max_new_tokens"], message);
        }
        let (low, high, dual) = (rl.clip_ratio_low, rl.clip_ratio_high, rl.clip_ratio_c);
        self.range("rl.clip_ratio_low", low, low > 0.0 && low < 1.0, "above 0 and below 1");
        self.positive("rl.clip_ratio_high", high);
        self.range("rl.clip_ratio_c", dual, dual == 0.0 || dual > 1.0, "0 (off) or above 1");
        if let Some(weights) = &rl.level_weights {
            for (key, weight) in [("low", weights.low), ("medium", weights.medium), ("high", weights.high)] {
                self.not_negative(&format!("rl.level_weights.{key}"), weight);
            }
        }
        if rl.importance_cap != 0.0 && rl.importance_cap <= 1.0 + high {
            let message =
                format!("is {}; expected 0 (off) or above 1 + rl.clip_ratio_high ({high})", rl.importance_cap);
            self.add(&["rl.importance_cap", "rl.clip_ratio_high"], message);
        }
        if rl.importance == Importance::Sequence && rl.loss_aggregation != LossAggregation::SeqMeanTokenMean {
            self.add(
                &["rl.loss_aggregation", "rl.importance"],
                "must be \"seq-mean-token-mean\" where rl.importance is \"sequence\": each completion has one ratio",
            );
        }
        if rl.overlong_buffer_tokens > rl.sampling.max_new_tokens {
            let message = format!(
                "is {}, more than rl.sampling.max_new_tokens ({})",
                rl.overlong_buffer_tokens, rl.sampling.max_new_tokens
            );
            self.add(&["rl.overlong_buffer_tokens", "rl.sampling.max_new_tokens"], message);
        }
        self.not_negative("rl.overlong_penalty", rl.overlong_penalty);
        self.not_negative("rl.kl_coef", rl.kl_coef);
        self.not_negative("rl.entropy_coef", rl.entropy_coef);
        if rl.patience > 0 && rl.eval_every == 0 {
            let message = format!("is {}, but rl.eval_every is 0: there is no evaluation to wait for", rl.patience);
            self.add(&["rl.patience", "rl.eval_every"], message);
        }
        self.positive("rl.logprob_gap_bound", rl.logprob_gap_bound);
        self.optimizer("rl", [rl.lr, rl.weight_decay, rl.beta1, rl.beta2, rl.eps, rl.max_grad_norm]);
        self.sampling("rl.sampling", &rl.sampling);
        if rl.sampling.temperature <= 0.0 {
            self.add(&["rl.sampling.temperature"], "is not above 0: greedy rollouts of a group are all the same");
        }
    }

    fn eval(&mut self, eval: &EvalConfig) {
        self.at_least(1, "eval.samples", eval.samples);
        self.at_least(1, "eval.batch_size", eval.batch_size);
        self.sampling("eval.sampling", &eval.sampling);
        if eval.sampling.temperature == 0.0 && eval.samples > 1 {
            let message =
                format!("is {} with a temperature of 0: greedy samples are all the same, so use 1", eval.samples);
            self.add(&["eval.samples", "eval.sampling.temperature"], message);
        }
    }

    fn sampling(&mut self, section: &str, sampling: &SamplingParams) {
        let key = |field: &str| format!("{section}.{field}");
        self.not_negative(&key("temperature"), sampling.temperature);
        self.range(
            &key("top_p"),
            sampling.top_p,
            sampling.top_p > 0.0 && sampling.top_p <= 1.0,
            "above 0 and at most 1",
        );
        self.range(&key("min_p"), sampling.min_p, (0.0..1.0).contains(&sampling.min_p), "at least 0 and below 1");
        self.at_least(1, &key("max_new_tokens"), sampling.max_new_tokens);
        if sampling.stop_strings.iter().any(String::is_empty) {
            self.add(&[&key("stop_strings")], "holds an empty string, which ends every completion at once");
        }
    }

    fn reward(&mut self, reward: &RewardConfig) {
        self.not_negative("reward.lambda_ans", reward.lambda_ans);
        self.not_negative("reward.lambda_ent", reward.lambda_ent);
        if reward.lambda_ans == 0.0 && reward.lambda_ent == 0.0 {
            self.add(
                &["reward.lambda_ans", "reward.lambda_ent"],
                "is 0, and so is reward.lambda_ent: every reward would be 0",
            );
        }
        self.positive("reward.entropy_scale", reward.entropy_scale);
        let cosine = f64::from(reward.min_cosine);
        self.range("reward.min_cosine", cosine, (-1.0..=1.0).contains(&cosine), "at least -1 and at most 1");
        let secs = reward.grader_secs;
        let expected = format!("above 0 and at most {MAX_GRADER_SECS}");
        self.range("reward.grader_secs", secs, secs > 0.0 && secs <= MAX_GRADER_SECS, &expected);
        let error_rate = reward.max_error_rate;
        self.range("reward.max_error_rate", error_rate, (0.0..=1.0).contains(&error_rate), "at least 0 and at most 1");
        for (key, value) in [
            ("reward.sandbox.cpu_secs", reward.sandbox.cpu_secs),
            ("reward.sandbox.wall_secs", reward.sandbox.wall_secs),
            ("reward.sandbox.memory_mib", reward.sandbox.memory_mib),
        ] {
            self.at_least(1, key, value as usize);
        }
        let judge = reward.judge.as_ref().and_then(|judge| judge.model.as_deref());
        for (key, model) in [("reward.embedder", reward.embedder.as_deref()), ("reward.judge.model", judge)] {
            if let Some(model) = model {
                self.model_path(key, model);
            }
        }
        for problem in reward.judge.iter().flat_map(|judge| judge.problems()) {
            self.add(&["reward.judge"], problem);
        }
        for (domain, scorer) in &reward.scorers {
            for problem in scorer.problems() {
                let (field, problem) = problem.split_once(": ").expect("a problem names its field");
                self.add(&[&format!("reward.scorers.{domain}.{field}")], problem);
            }
        }
        if let Some(path) = &reward.entropy_table {
            self.file("reward.entropy_table", path);
        }
        if let Some(path) = &reward.skill_bank {
            self.file("reward.skill_bank", path);
        }
    }

    /// Tasks: there for every stage that needs them, and sensible wherever given.
    fn stages(&mut self, config: &Config) {
        let listed = |stage: Stage| config.stages.contains(&stage);
        for (section, tasks, needed) in [
            ("sft", &config.sft.tasks, listed(Stage::Sft)),
            ("rl", &config.rl.tasks, listed(Stage::Rl)),
            ("eval", &config.eval.tasks, config.uses_tasks(Stage::Eval)),
        ] {
            let key = format!("{section}.tasks");
            match tasks {
                Some(tasks) => self.tasks(&key, tasks),
                None if needed && section == "eval" && !listed(Stage::Eval) => {
                    self.add(&[&key, "rl.eval_every"], "missing, although rl.eval_every asks for evaluations");
                }
                None if needed => {
                    let message = format!(
                        "missing, although \"{section}\" is a stage; set {key} = {{ file = … }} or {{ procedural = {{ … }} }}"
                    );
                    self.add(&[&key, "stages"], message);
                }
                None => {}
            }
        }
    }

    fn tasks(&mut self, key: &str, tasks: &TaskSource) {
        match tasks {
            TaskSource::File(path) => self.file(&format!("{key}.file"), path),
            TaskSource::Procedural(tasks) => {
                let key = |field: &str| format!("{key}.procedural.{field}");
                self.at_least(1, &key("num_tasks"), tasks.num_tasks);
                self.at_least(1, &key("min_steps"), tasks.min_steps);
                if tasks.max_steps > MAX_TASK_STEPS {
                    self.add(
                        &[&key("max_steps")],
                        format!("is {}; tasks have at most {MAX_TASK_STEPS} steps", tasks.max_steps),
                    );
                }
                if tasks.min_steps > tasks.max_steps {
                    let message = format!("is {}, more than max_steps ({})", tasks.min_steps, tasks.max_steps);
                    self.add(&[&key("min_steps"), &key("max_steps")], message);
                }
            }
        }
    }

    /// What each listed stage needs of the model's context and of the cache.
    fn lengths(&mut self, config: &Config) {
        let context = config.model.scratch.as_ref().map(|scratch| scratch.max_position_embeddings);
        let RolloutConfig { cache_tokens, .. } = config.rollout;
        let rl = (config.rl.max_prompt_tokens, config.rl.sampling.max_new_tokens);
        // An evaluation prompt has no bound of its own; it holds at least one token.
        let eval = (1, config.eval.sampling.max_new_tokens);
        if config.stages.contains(&Stage::Sft)
            && let Some(context) = context.filter(|context| config.sft.max_length > *context)
        {
            let message = format!("is {}, more than the model's context ({context})", config.sft.max_length);
            self.add(&["sft.max_length", "model.scratch.max_position_embeddings"], message);
        }
        for (stage, (prompt, new), keys) in [
            (Stage::Rl, rl, ["rl.sampling.max_new_tokens", "rl.max_prompt_tokens"].as_slice()),
            (Stage::Eval, eval, ["eval.sampling.max_new_tokens"].as_slice()),
        ] {
            let longest = prompt.saturating_add(new);
            if !config.stages.contains(&stage) {
                continue;
            }
            if let Some(context) = context.filter(|context| longest > *context) {
                let message =
                    format!("is {new}: with {prompt} prompt tokens that is more than the model's context ({context})");
                self.add(&[keys, &["model.scratch.max_position_embeddings"]].concat(), message);
            }
            if cache_tokens > 0 && longest > cache_tokens {
                let message = format!("is {cache_tokens}, too few for one sequence of {prompt} + {new} tokens");
                self.add(&[&["rollout.cache_tokens"], keys].concat(), message);
            }
        }
        if let Some(judge) = config.reward.judge.as_ref().filter(|judge| judge.policy)
            && cache_tokens > 0
            && judge.max_new_tokens >= cache_tokens
        {
            let message = format!("is {cache_tokens}, too few for a judge's reply of {}", judge.max_new_tokens);
            self.add(&["rollout.cache_tokens", "reward.judge.max_new_tokens"], message);
        }
    }
}

/// Whether `name` can be a repository of the hub: `name` or `owner/name`.
pub fn is_hub_id(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    name.split('/').count() <= 2 && name.split('/').all(is_part)
}
