//! From a run's config to the parameters of the parts it drives; no decision is made here.

use skein_core::config::{KlPlacement, RlConfig, SftConfig};

use crate::optim::{AdamWParams, LrSchedule};
use crate::trainer::{PolicyLossParams, TrainerParams};

/// SFT's optimizer constants.
pub fn sft_optimizer(config: &SftConfig) -> AdamWParams {
    AdamWParams { beta1: config.beta1, beta2: config.beta2, eps: config.eps, weight_decay: config.weight_decay }
}

/// RL's optimizer constants.
pub fn rl_optimizer(config: &RlConfig) -> AdamWParams {
    AdamWParams { beta1: config.beta1, beta2: config.beta2, eps: config.eps, weight_decay: config.weight_decay }
}

/// How SFT computes an update.
pub fn sft_trainer(config: &SftConfig) -> TrainerParams {
    TrainerParams {
        max_tokens: config.micro_batch_tokens,
        temperature: 1.0,
        max_grad_norm: positive(config.max_grad_norm),
        checkpoint_layers: config.checkpoint_layers,
        ..TrainerParams::default()
    }
}

/// How RL computes an update: log-probabilities at the sampling temperature.
pub fn rl_trainer(config: &RlConfig) -> TrainerParams {
    TrainerParams {
        max_tokens: config.micro_batch_tokens,
        temperature: config.sampling.temperature,
        max_grad_norm: positive(config.max_grad_norm),
        checkpoint_layers: config.checkpoint_layers,
        shared_prefix: config.shared_prefix,
        ..TrainerParams::default()
    }
}

/// SFT's learning rate over `total` updates.
pub fn sft_schedule(config: &SftConfig, total: u64) -> LrSchedule {
    LrSchedule {
        peak: config.lr,
        warmup_steps: (config.warmup_ratio * total as f64).round() as usize,
        total_steps: total as usize,
        shape: config.schedule,
        min_ratio: config.min_lr_ratio,
    }
}

/// RL's learning rate.
pub fn rl_schedule(config: &RlConfig) -> LrSchedule {
    LrSchedule {
        peak: config.lr,
        warmup_steps: config.warmup_steps,
        total_steps: config.steps,
        shape: config.schedule,
        min_ratio: 0.0,
    }
}

/// RL's loss.
pub fn policy_loss(config: &RlConfig) -> PolicyLossParams {
    PolicyLossParams {
        clip_ratio_low: config.clip_ratio_low,
        clip_ratio_high: config.clip_ratio_high,
        clip_ratio_c: positive(config.clip_ratio_c),
        importance: config.importance,
        importance_cap: positive(config.importance_cap),
        kl_coef: match config.kl_in {
            KlPlacement::Loss => config.kl_coef,
            KlPlacement::Reward => 0.0,
        },
        kl_estimator: config.kl_estimator,
        entropy_coef: config.entropy_coef,
        aggregation: config.loss_aggregation,
        scale_tokens: match config.loss_scale_tokens {
            0 => config.sampling.max_new_tokens,
            tokens => tokens,
        },
    }
}

/// In the config 0 turns a bound off.
fn positive(bound: f64) -> Option<f64> {
    (bound > 0.0).then_some(bound)
}
