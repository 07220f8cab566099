//! What every stage of a run works with: the model, its tokenizer, the reward, and where results go.
//!
//! A session loads and saves; it never decides what is trained. World size 1 here.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};
use skein_core::config::{Config, Dtype, RlConfig, Stage};
use skein_core::reward::matcher::SkillMatcher;
use skein_core::reward::scorers::DeferredJudge;
use skein_core::reward::{RewardContext, RewardRule};
use skein_core::skill::{Bank, EntropyTable};
use skein_core::task::CrossSkillTask;
use skein_io::atomic::write_atomically;
use skein_io::chat::ChatTemplate;
use skein_io::hub::Hub;
use skein_io::jsonl::write_jsonl;
use skein_io::metrics::{MetricsOptions, MetricsWriter};
use skein_io::tokenizer::Tokenizer;
use tch::{Device, Kind};

use super::data::{PromptEncoder, domains_of};
use super::embedder::Embedder;
use super::graders::{GraderCounts, GraderNeeds, build_graders, policy_judge};
use super::interrupt::Interrupt;
use super::loaded::chat_template;
use super::mapping;
use super::rl::MAX_PROMPT;
use super::rollout::{Rollouts, Scoring};
use super::run_dir::{Resume, RunDir};
use super::saved_state::SavedState;
use super::stage_tasks::{check_tasks, stage_tasks};
use super::state::RunState;
use crate::checkpoint::{
    BackgroundSave, CheckpointManager, ModelFiles, Pretrained, SaveOptions, TokenIds, TrainState, init_model,
    load_checkpoint, load_model,
};
use crate::cli::UsageError;
use crate::engine::{Engine, EngineConfig};
use crate::models::CausalLm;
use crate::optim::AdamWState;
use crate::trainer::{PendingUpdate, ReferenceModel, SkipReason, Trainer, UpdateMetrics};

/// The name of the checkpoint with the best held-out score.
pub(super) const BEST: &str = "best";

/// An open run.
pub struct Session {
    /// The resolved config.
    pub config: Config,
    /// The policy. Engine and trainer share these weights.
    pub model: Rc<dyn CausalLm>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, where it has one.
    pub template: Option<ChatTemplate>,
    /// Scores responses.
    pub rewards: RewardContext,
    /// What was asked of graders for them.
    pub grader_counts: GraderCounts,
    /// Step metrics.
    pub metrics: MetricsWriter,
    /// Before the directory, whose lock must outlive what is written into it.
    saving: RefCell<BackgroundSave>,
    /// The run's directory.
    pub run: RunDir,
    /// Ctrl-C, SIGTERM and a closed terminal.
    pub interrupt: Interrupt,
    /// The judge among the graders of `rewards`, where it is the policy; there is a template then.
    policy_judge: Option<Arc<DeferredJudge>>,
    checkpoints: CheckpointManager,
    /// The step whose checkpoint this run has written, or was resumed from, last.
    saved_step: Cell<Option<u64>>,
    config_json: Map<String, Value>,
    /// Where the tokenizer files are copied from.
    assets: PathBuf,
    /// Moments of a stage that was resumed midway, until its trainer takes them.
    moments: Option<AdamWState>,
}

impl Session {
    /// Opens the run directory, loads or resumes the model and everything around it; none where the run has nothing left to
    /// do.
    ///
    /// # Errors
    /// When the directory belongs to another run, or the model, tokenizer, table or bank cannot be loaded.
    pub fn open(mut config: Config, out: &Path, resume: &Resume) -> Result<Option<(Self, RunState)>> {
        let tasks = stage_tasks(&config)?;
        let judged = tasks.iter().filter(|(stage, _)| *stage != Stage::Sft).flat_map(|(_, set)| &set.tasks);
        let needs = GraderNeeds::of(&config.reward, judged.flat_map(|task| &task.steps));
        let grader_counts = GraderCounts::default();
        let policy_judge = policy_judge(&config.reward, needs);
        let graders = build_graders(&config.reward, needs, grader_counts.clone(), policy_judge.clone())?;
        let rewards = reward_context(&config)?.with_graders(graders);
        check_tasks(&tasks, &rewards)?;
        if config.model.dtype != Dtype::F32 {
            let problem = "model.dtype is not \"f32\": generation runs in f32 on the CPU, and on nothing else yet";
            return Err(UsageError(problem.into()).into());
        }
        let mut run = RunDir::check(out, &config.to_toml(), resume)?;
        let keep_last = config.checkpoint.keep_last;
        let resumed = match resume {
            Resume::Auto if run.root().is_dir() => CheckpointManager::new(run.root(), keep_last)?.load_latest()?,
            Resume::Off | Resume::Auto => None,
            Resume::Path(dir) => Some(load_checkpoint(dir).map_err(|error| UsageError(error.to_string()))?),
        };
        let weights = resumed.as_ref().map(|loaded| loaded.dir.clone());
        // A checkpoint named by its path may be another run's.
        let saved_step = resumed.as_ref().filter(|_| *resume == Resume::Auto).map(|loaded| loaded.step);
        let (state, moments) =
            resumed.map_or_else(|| Ok(Default::default()), |loaded| SavedState::take_up(&config, loaded))?;
        if state.rl_asked > config.rl.steps as u64 {
            let (made, asked) = (state.rl_asked, config.rl.steps);
            tracing::info!(
                "the rl stage was made with rl.steps = {made} and is now asked for {asked}: it stays as it is"
            );
            config.rl.steps = made as usize;
        }
        if run.is_finished(&config, &state)? {
            let longer = match state.rl_asked {
                0 => String::new(),
                asked => format!("; a larger rl.steps than {asked} would make its rl stage longer"),
            };
            tracing::info!("{} has finished, there is nothing to do{longer}", out.display());
            return Ok(None);
        }
        let start = start_model(&config, weights.as_deref())?;
        let tokenizer = Tokenizer::load(&start.assets)?;
        refuse_large_tokenizer(&tokenizer, start.pretrained.model.as_ref(), &start.assets)?;
        let template = chat_template(&start.assets)?;
        if policy_judge.is_some() && template.is_none() {
            let problem = "reward.judge.policy: the model has no chat template, and a judge is asked in chat form";
            return Err(UsageError(problem.into()).into());
        }
        if let Some((_, set)) = tasks.iter().find(|(stage, _)| *stage == Stage::Rl) {
            let encoder = PromptEncoder::new(&tokenizer, template.as_ref(), &config.prompt, domains_of(&set.tasks))?;
            encoder.prompts(set, config.rl.max_prompt_tokens, MAX_PROMPT)?;
            let context = start.pretrained.model.config().max_position_embeddings;
            let (prompt, response) = (config.rl.max_prompt_tokens, config.rl.sampling.max_new_tokens);
            if prompt + response > context {
                tracing::warn!(
                    "the model's context is {context} tokens: after a prompt of rl.max_prompt_tokens = {prompt} a response ends \
                     there, before rl.sampling.max_new_tokens = {response}"
                );
            }
        }
        run.create(&config.to_toml(), config.seed)?;
        let checkpoints = CheckpointManager::new(run.root(), keep_last)?;
        let files = MetricsOptions { csv: config.logging.csv, tensorboard: config.logging.tensorboard };
        let metrics = match resume {
            Resume::Off => MetricsWriter::create(run.root(), files)?,
            Resume::Auto | Resume::Path(_) => MetricsWriter::resume(run.root(), files, state.step)?,
        };
        let session = Self {
            template,
            rewards,
            grader_counts,
            policy_judge,
            model: Rc::from(start.pretrained.model),
            config_json: start.pretrained.config_json,
            assets: start.assets,
            moments,
            interrupt: Interrupt::install()?,
            config,
            tokenizer,
            metrics,
            run,
            checkpoints,
            saved_step: saved_step.into(),
            saving: RefCell::default(),
        };
        Ok(Some((session, state)))
    }

    /// An encoder of the run's prompts for `tasks`.
    ///
    /// # Errors
    /// When the config asks for a chat template that the model lacks.
    pub fn encoder(&self, tasks: &[CrossSkillTask]) -> Result<PromptEncoder<'_>> {
        PromptEncoder::new(&self.tokenizer, self.template.as_ref(), &self.config.prompt, domains_of(tasks))
    }

    /// What decodes and scores the policy's completions.
    pub fn scoring(&self) -> Scoring<'_> {
        let policy_judge = self.policy_judge.as_deref().zip(self.template.as_ref());
        Scoring { tokenizer: &self.tokenizer, rewards: &self.rewards, policy_judge }
    }

    /// A generation engine over the session's weights.
    ///
    /// # Errors
    /// When its cache cannot be allocated.
    pub fn engine<'m>(&self, model: &'m dyn CausalLm) -> Result<Engine<'m>> {
        let rollout = &self.config.rollout;
        let config = EngineConfig {
            cache_tokens: match rollout.cache_tokens {
                0 => affordable_cache_tokens(model, rollout.max_sequences),
                tokens => tokens,
            },
            max_sequences: rollout.max_sequences,
            max_step_tokens: EngineConfig::default().max_step_tokens.max(rollout.max_sequences),
        };
        Ok(Engine::new(model, config)?)
    }

    /// The policy as it was when the RL stage began, or nothing where the loss has no KL term.
    ///
    /// On a resumed run it comes from the checkpoint that the stage began with, never from the resumed weights.
    ///
    /// # Errors
    /// When that checkpoint cannot be read.
    pub fn reference(&self, config: &RlConfig, state: &RunState) -> Result<Option<ReferenceModel>> {
        let params = mapping::rl_trainer(config);
        if config.kl_coef == 0.0 {
            return Ok(None);
        }
        if state.stage_step == 0 {
            return Ok(Some(ReferenceModel::copy_of(self.model.as_ref(), params)));
        }
        let start = match state.stage_start {
            0 => start_model(&self.config, None)?.pretrained,
            step => load_model(&self.checkpoints.step_dir(step), kind(&self.config), Device::Cpu)
                .context("loading the reference model: the checkpoint its stage began with")?,
        };
        Ok(Some(ReferenceModel::new(start.model, params)))
    }

    /// Gives a resumed stage's moments to its trainer; a stage that starts anew starts with none.
    ///
    /// # Errors
    /// When the saved moments belong to another model.
    pub fn restore_optimizer(&mut self, trainer: &mut Trainer<'_>) -> Result<()> {
        if let Some(moments) = self.moments.take() {
            trainer.optimizer_mut().load_state(&moments)?;
        }
        Ok(())
    }

    /// Whether something that happens every `every` steps (0: never) happens after `step`.
    pub fn is_due(&self, step: u64, every: usize) -> bool {
        every > 0 && step.is_multiple_of(every as u64)
    }

    /// Refuses to go on where too many graders fail: the reward would be of those responses that happen to be judged.
    ///
    /// # Errors
    /// When more than `reward.max_error_rate` of `num_responses` have no verdict.
    pub fn guard_errors(&self, rollouts: &Rollouts, num_responses: usize) -> Result<()> {
        let Some(first) = rollouts.errors.first() else { return Ok(()) };
        let (errors, bound) = (rollouts.errors.len(), self.config.reward.max_error_rate);
        if errors as f64 <= bound * num_responses as f64 {
            tracing::warn!("{errors} of {num_responses} responses could not be graded, the first: {first}");
            return Ok(());
        }
        bail!(
            "{errors} of {num_responses} responses could not be graded, more than reward.max_error_rate = {bound}; the \
             first: {first}"
        );
    }

    /// Counts an update that was skipped for a number that is not finite, and keeps its batch for a look.
    ///
    /// # Errors
    /// After `bound` of them in a row; the state is saved first.
    pub fn guard_skips(
        &self,
        state: &mut RunState,
        trainer: &Trainer<'_>,
        skipped: Option<SkipReason>,
        bound: usize,
        batch: &impl Serialize,
    ) -> Result<()> {
        let Some(reason) = skipped.filter(|reason| *reason != SkipReason::NothingToTrain) else {
            state.skipped_in_a_row = 0;
            return Ok(());
        };
        state.skipped_in_a_row += 1;
        let path = self.run.skipped_path(state.step);
        write_atomically(&path, serde_json::to_string(batch)?.as_bytes())?;
        tracing::warn!(
            step = state.step,
            "update skipped, weights unchanged: {reason}; its batch is in {}",
            path.display()
        );
        if state.skipped_in_a_row <= bound {
            return Ok(());
        }
        let saved = self.save(state, trainer)?;
        bail!(
            "{} updates in a row were skipped ({reason}); the last good weights are in {}. Lower the learning rate, or \
             look at the batches in {}",
            state.skipped_in_a_row,
            saved.display(),
            path.with_file_name("").display()
        );
    }

    /// Takes the step of an update once the checkpoint that is being written is whole: it reads what the step changes.
    ///
    /// # Errors
    /// When that checkpoint could not be written; the step is not taken then.
    pub fn step(&self, update: PendingUpdate<'_, '_>, lr: f64) -> Result<UpdateMetrics> {
        self.finish_save()?;
        Ok(update.step(lr))
    }

    /// Begins a checkpoint of the run as it stands, and returns while it is being written. [`Session::step`] waits for it.
    ///
    /// # Errors
    /// When the one before it could not be written.
    pub fn begin_save(&self, state: &RunState, trainer: &Trainer<'_>) -> Result<()> {
        self.begin(state, None, trainer, &[])
    }

    fn begin(
        &self,
        state: &RunState,
        ended: Option<&RunState>,
        trainer: &Trainer<'_>,
        names: &'static [&'static str],
    ) -> Result<()> {
        let AdamWState { step: optimizer_step, tensors } = trainer.optimizer().state();
        let saved = SavedState { run: state.clone(), ended: ended.cloned(), optimizer_step };
        let train_state = TrainState { tensors, state: serde_json::to_value(saved)? };
        let files = ModelFiles::of(self.model.as_ref(), &self.config_json);
        let (checkpoints, step, assets) = (self.checkpoints.clone(), state.step, self.assets.clone());
        self.saving.borrow_mut().begin(move || {
            let options = SaveOptions { assets_from: Some(&assets), ..SaveOptions::default() };
            checkpoints.save(step, names, |dir| files.write(dir, options), &train_state)
        })?;
        self.saved_step.set(Some(step));
        Ok(())
    }

    /// Waits for the checkpoint that is being written, if there is one.
    fn finish_save(&self) -> Result<()> {
        let saved = self.saving.borrow_mut().finish();
        if saved.is_err() {
            self.saved_step.set(None);
        }
        saved?;
        Ok(())
    }

    /// Writes a checkpoint of the run as it stands, where its step has none yet, and returns its directory.
    ///
    /// # Errors
    /// When it cannot be written; earlier checkpoints are untouched then.
    pub fn save(&self, state: &RunState, trainer: &Trainer<'_>) -> Result<PathBuf> {
        if !self.has_saved(state) {
            self.begin_save(state, trainer)?;
        }
        self.finish_save()?;
        Ok(self.checkpoints.step_dir(state.step))
    }

    /// Keeps the checkpoint of this step as `best`, in place of the one that was; begins it where the step has none yet.
    ///
    /// # Errors
    /// When it, or the one before it, cannot be written.
    pub fn keep_best(&self, state: &RunState, trainer: &Trainer<'_>) -> Result<()> {
        if !self.has_saved(state) {
            return self.begin(state, None, trainer, &[BEST]);
        }
        self.finish_save()?;
        Ok(self.checkpoints.name(state.step, BEST)?)
    }

    /// Whether the weights as they stand are in the last checkpoint that was written. Its state may lack their evaluation: that is in a file of its
    /// own, where a resumed run reads it.
    fn has_saved(&self, state: &RunState) -> bool {
        self.saved_step.get() == Some(state.step)
    }

    /// Writes some of a step's rollouts where the config asks for it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn dump_rollouts(&self, state: &RunState, tasks: &[CrossSkillTask], rounds: &[Rollouts]) -> Result<()> {
        if !self.is_due(state.step, self.config.logging.rollouts_every) {
            return Ok(());
        }
        let all = rounds.iter().flat_map(|round| round.records(tasks));
        Ok(write_jsonl(&self.run.rollouts_path(state.step), all.take(self.config.logging.rollouts_per_step))?)
    }

    /// Ends a training stage: its last checkpoint is kept for good under `names`, and a resumed run goes on after it.
    ///
    /// # Errors
    /// When the checkpoint cannot be written.
    pub fn finish_training(
        &self,
        state: &RunState,
        trainer: &Trainer<'_>,
        names: &'static [&'static str],
    ) -> Result<()> {
        let mut next = state.clone();
        next.enter_next_stage(&self.config);
        self.begin(&next, Some(state), trainer, names)?;
        self.finish_save()
    }
}

/// A quarter of the memory that is free now, but no more than all sequences can fill.
pub(super) fn affordable_cache_tokens(model: &dyn CausalLm, max_sequences: usize) -> usize {
    const SHARE: usize = 4;
    const ASSUMED_FREE_KIB: usize = 4 << 20;
    let shapes = model.config();
    let bytes_per_token =
        2 * size_of::<f32>() * shapes.num_hidden_layers * (shapes.num_key_value_heads * shapes.head_dim) as usize;
    let free_kib = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok())
        })
        .unwrap_or(ASSUMED_FREE_KIB);
    let affordable = free_kib * 1024 / SHARE / bytes_per_token;
    affordable.clamp(1, max_sequences.saturating_mul(shapes.max_position_embeddings))
}

struct StartModel {
    pretrained: Pretrained,
    assets: PathBuf,
}

/// The weights a run starts or goes on from.
fn start_model(config: &Config, resumed: Option<&Path>) -> Result<StartModel> {
    let kind = kind(config);
    if let Some(dir) = resumed {
        // Not the checkpoint's own copy: that one is pruned while the run goes on.
        return Ok(StartModel { pretrained: load_model(dir, kind, Device::Cpu)?, assets: assets_dir(config)? });
    }
    if !config.model.path.is_empty() {
        let dir = assets_dir(config)?;
        let pretrained = load_model(&dir, kind, Device::Cpu).map_err(|error| UsageError(error.to_string()))?;
        return Ok(StartModel { pretrained, assets: dir });
    }
    let scratch = config.model.scratch.as_ref().expect("a checked config has model.path or model.scratch");
    let tokenizer = Tokenizer::load(&scratch.tokenizer).map_err(|error| UsageError(error.to_string()))?;
    let ids = TokenIds {
        vocab_size: tokenizer.vocab_size(),
        eos: tokenizer.special().stop_ids.clone(),
        pad: tokenizer.special().pad_id,
    };
    let pretrained = init_model(scratch, &ids, config.seed, (kind, Device::Cpu))?;
    Ok(StartModel { pretrained, assets: scratch.tokenizer.clone() })
}

/// The directory whose tokenizer files go into every checkpoint.
fn assets_dir(config: &Config) -> Result<PathBuf> {
    if let Some(scratch) = &config.model.scratch {
        return Ok(scratch.tokenizer.clone());
    }
    let dir = Hub::from_env().resolve(&config.model.path, None).map_err(|error| UsageError(error.to_string()))?;
    Ok(dir)
}

fn kind(config: &Config) -> Kind {
    match config.model.dtype {
        Dtype::F32 => Kind::Float,
        Dtype::Bf16 => Kind::BFloat16,
    }
}

pub(super) fn refuse_large_tokenizer(tokenizer: &Tokenizer, model: &dyn CausalLm, dir: &Path) -> Result<()> {
    let (ids, rows) = (tokenizer.vocab_size(), model.config().vocab_size as usize);
    if ids > rows {
        let problem = format!(
            "{}: the tokenizer has {ids} ids, the model's embedding {rows} rows; they do not belong together",
            dir.display()
        );
        return Err(UsageError(problem).into());
    }
    Ok(())
}

/// The run's skill-entropy table.
pub(super) fn entropy_table(config: &Config) -> Result<EntropyTable, UsageError> {
    match &config.reward.entropy_table {
        Some(path) => EntropyTable::load(path).map_err(|error| UsageError(error.to_string())),
        None => Ok(EntropyTable::embedded()),
    }
}

/// The bank that the config names, or the embedded one.
pub(super) fn skill_bank(config: &Config) -> Result<Bank, UsageError> {
    match &config.reward.skill_bank {
        Some(path) => Bank::load(path).map_err(|error| UsageError(error.to_string())),
        None => Ok(Bank::embedded()),
    }
}

fn reward_context(config: &Config) -> Result<RewardContext> {
    let section = &config.reward;
    if section.lambda_ent == 0.0 {
        return Ok(RewardContext::answer_only(section.step_count));
    }
    let table = entropy_table(config)?;
    let trains = config.stages.contains(&Stage::Rl);
    if trains && table.spread()?.is_flat() && !section.allow_flat_table {
        let problem = "the entropy table is flat: its cells differ by less than their standard errors, so the \
                       skill-entropy reward would teach nothing. Estimate it with more instances or another reference \
                       model, or set reward.allow_flat_table = true";
        return Err(UsageError(problem.into()).into());
    }
    let rule = RewardRule {
        lambda_ans: section.lambda_ans,
        lambda_ent: section.lambda_ent,
        entropy_form: section.entropy_form,
        entropy_scale: section.entropy_scale,
        step_count: section.step_count,
    };
    let bank = match &section.skill_bank {
        None => Bank::of(table.skills()),
        Some(_) => skill_bank(config)?,
    };
    let matcher = match &section.embedder {
        None => SkillMatcher::exact(bank),
        Some(model) => {
            let embedder = Embedder::load(model).context("reward.embedder")?;
            SkillMatcher::nearest(bank, Box::new(embedder), section.min_cosine)?
        }
    };
    RewardContext::with_matcher(rule, &table, matcher, &table.skills())
        .map_err(|error| UsageError(error.to_string()).into())
}

#[cfg(test)]
mod tests;
