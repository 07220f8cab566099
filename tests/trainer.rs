//! Losses against verl's numbers; packed, chunked and split computations against plain ones; AdamW against torch.

use std::path::PathBuf;

use serde_json::Value;
use skein::checkpoint::load_model;
use skein::models::CausalLm;
use skein::nn::DenseAttention;
use skein::optim::AdamWParams;
use skein::trainer::losses::{LossNormalizer, PolicyToken, TokenLoss, kl_penalty, policy_loss};
use skein::trainer::{
    Importance, KlEstimator, LossAggregation, PolicyLossParams, PromptCompletions, ReferenceModel, SftExample,
    SkipReason, Trainer, TrainerError, TrainerParams, TrainingCompletion, TrainingGroup, logprobs, policy_gradients,
    sft_gradients,
};
use skein_core::batching::packing::PackingError;
use tch::{Device, Kind, Tensor};

/// verl computes in f32; its sums carry a few units in the seventh digit.
const VERL_TOLERANCE: f64 = 1e-5;
/// Two orders of summation in f32, relative to the norm of what is compared.
const SPLIT_TOLERANCE: f64 = 1e-5;
/// Hugging Face's f32 gradient norms after three layers, relative.
const GRAD_NORM_TOLERANCE: f64 = 1e-4;
/// Losses and parameter norms over three AdamW steps, relative: early steps divide by small second moments.
const ADAMW_TOLERANCE: f64 = 1e-5;

const FIXTURES: [&str; 6] = ["llama-tied", "llama3-rope", "olmo3", "olmo3-yarn", "qwen3-tied", "qwen3-untied"];

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn model(name: &str) -> Box<dyn CausalLm> {
    load_model(&fixtures().join("models").join(name), Kind::Float, Device::Cpu).unwrap().model
}

fn read_json(path: PathBuf) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(|row| row.as_array().unwrap().iter().map(number).collect()).collect()
}

fn close(found: f64, expected: f64, tolerance: f64) -> bool {
    (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}

/// Gradients of single tokens are a few hundredths; rounding of the log-ratio dominates the smallest.
fn same_gradient(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= VERL_TOLERANCE * expected.abs().max(1e-2)
}

fn aggregation(value: &Value) -> LossAggregation {
    match value.as_str().unwrap() {
        "token-mean" => LossAggregation::TokenMean,
        "seq-mean-token-sum" => LossAggregation::SeqMeanTokenSum,
        "seq-mean-token-mean" => LossAggregation::SeqMeanTokenMean,
        "seq-mean-token-sum-norm" => LossAggregation::SeqMeanTokenSumNorm,
        other => panic!("unknown aggregation {other}"),
    }
}

const NO_EXTRAS: PolicyLossParams = PolicyLossParams {
    clip_ratio_low: 0.2,
    clip_ratio_high: 0.2,
    clip_ratio_c: None,
    importance: Importance::Token,
    importance_cap: None,
    kl_coef: 0.0,
    kl_estimator: KlEstimator::K3,
    entropy_coef: 0.0,
    aggregation: LossAggregation::TokenMean,
    scale_tokens: 1,
};

/// Weighted token losses of a padded batch: calls `visit(row, column, weight)` for every unmasked token.
fn for_each_token(mask: &[Vec<f64>], aggregation: LossAggregation, mut visit: impl FnMut(usize, usize, f64)) -> usize {
    let lens: Vec<usize> = mask.iter().map(|row| row.iter().filter(|&&flag| flag == 1.0).count()).collect();
    let normalizer = LossNormalizer::new(aggregation, 1, lens.iter().copied());
    for (row, &len) in lens.iter().enumerate() {
        for column in (0..mask[row].len()).filter(|&column| mask[row][column] == 1.0) {
            visit(row, column, normalizer.weight(len));
        }
    }
    normalizer.num_tokens()
}

#[test]
fn policy_losses_are_verls() {
    for case in read_json(fixtures().join("grpo_losses.json")).as_array().unwrap() {
        let [mask, old, logprobs] = ["response_mask", "old_logprobs", "logprobs"].map(|key| rows(&case[key]));
        let advantages = case["advantages"]["group_std"].as_array().unwrap();
        for expected in case["policy_loss"].as_array().unwrap() {
            let params = PolicyLossParams {
                clip_ratio_low: number(&expected["clip_ratio_low"]),
                clip_ratio_high: number(&expected["clip_ratio_high"]),
                clip_ratio_c: Some(number(&expected["clip_ratio_c"])),
                aggregation: aggregation(&expected["aggregation"]),
                ..NO_EXTRAS
            };
            let gradients = rows(&expected["grad"]);
            let (mut loss, mut clipped, mut clipped_lower, mut approx_kl) = (0.0, 0.0, 0.0, 0.0);
            let num_tokens = for_each_token(&mask, params.aggregation, |row, column, weight| {
                let token = PolicyToken {
                    old_logprob: old[row][column],
                    ref_logprob: f64::NAN,
                    advantage: number(&advantages[row]),
                    sequence_log_ratio: None,
                };
                let TokenLoss { loss: token_loss, d_logprob, policy, .. } =
                    policy_loss(&params, &token, logprobs[row][column], 1.0);
                let gradient = gradients[row][column];
                assert!(same_gradient(weight * d_logprob, gradient), "{} {gradient}", weight * d_logprob);
                let terms = policy.unwrap();
                loss += weight * token_loss;
                clipped += f64::from(terms.clipped);
                clipped_lower += f64::from(terms.clipped_lower);
                approx_kl += terms.approx_kl;
            }) as f64;
            assert!(close(loss, number(&expected["loss"]), VERL_TOLERANCE), "{loss} {expected}");
            for (found, key) in
                [(clipped, "clip_fraction"), (clipped_lower, "clip_fraction_lower"), (approx_kl, "approx_kl")]
            {
                assert!(close(found / num_tokens, number(&expected[key]), VERL_TOLERANCE), "{key} {found} {expected}");
            }
        }
    }
}

#[test]
fn kl_estimates_are_verls() {
    for case in read_json(fixtures().join("grpo_losses.json")).as_array().unwrap() {
        let [mask, logprobs, reference] = ["response_mask", "logprobs", "ref_logprobs"].map(|key| rows(&case[key]));
        for expected in case["kl"].as_array().unwrap() {
            let estimator = match expected["estimator"].as_str().unwrap() {
                "k1" => KlEstimator::K1,
                "k2" => KlEstimator::K2,
                "k3" => KlEstimator::K3,
                other => panic!("unknown estimator {other}"),
            };
            let gradients = rows(&expected["grad"]);
            let mut value = 0.0;
            for_each_token(&mask, aggregation(&expected["aggregation"]), |row, column, weight| {
                let (kl, d_kl) = kl_penalty(estimator, logprobs[row][column], reference[row][column]);
                assert!(same_gradient(weight * d_kl, gradients[row][column]));
                value += weight * kl;
            });
            assert!(close(value, number(&expected["value"]), VERL_TOLERANCE), "{value} {expected}");
        }
    }
}

#[test]
fn plus_estimators_take_their_gradient_from_k2() {
    for (plus, value_of) in [(KlEstimator::K1Plus, KlEstimator::K1), (KlEstimator::K3Plus, KlEstimator::K3)] {
        for (logprob, reference) in [(-2.0, -2.5), (-0.1, -7.0), (-3.0, -1.0), (-1.0, -1.0)] {
            let (value, gradient) = kl_penalty(plus, logprob, reference);
            assert_eq!(value, kl_penalty(value_of, logprob, reference).0);
            assert_eq!(gradient, kl_penalty(KlEstimator::K2, logprob, reference).1);
        }
    }
}

/// The expectation over all tokens of k3's own gradient is not the divergence's gradient; k2's is.
#[test]
fn only_k2_gradients_are_unbiased() {
    let (policy, reference) = ([0.7f64, 0.2, 0.1], [0.3f64, 0.3, 0.4]);
    let divergence = |policy: &[f64; 3]| policy.iter().zip(&reference).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
    // By the logit of token 0: d p_i = p_i (δ_i0 − p_0).
    let step = 1e-6;
    let moved = |sign: f64| {
        let weights = [policy[0] * (sign * step).exp(), policy[1], policy[2]];
        weights.map(|weight| weight / weights.iter().sum::<f64>())
    };
    let exact = (divergence(&moved(1.0)) - divergence(&moved(-1.0))) / (2.0 * step);
    let expected = |estimator: KlEstimator| {
        let token = |i: usize| {
            let d_logprob = f64::from(u8::from(i == 0)) - policy[0];
            policy[i] * kl_penalty(estimator, policy[i].ln(), reference[i].ln()).1 * d_logprob
        };
        (0..3).map(token).sum::<f64>()
    };
    for unbiased in [KlEstimator::K2, KlEstimator::K1Plus, KlEstimator::K3Plus] {
        assert!(close(expected(unbiased), exact, 1e-6), "{unbiased:?} {} {exact}", expected(unbiased));
    }
    for biased in [KlEstimator::K1, KlEstimator::K3] {
        assert!(!close(expected(biased), exact, 1e-2), "{biased:?} {} {exact}", expected(biased));
    }
}

#[test]
fn derivatives_are_those_of_the_values() {
    let params = PolicyLossParams { clip_ratio_c: Some(3.0), kl_coef: 0.3, entropy_coef: 0.2, ..NO_EXTRAS };
    for estimator in [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3] {
        for advantage in [-1.5, 0.0, 0.7] {
            for log_ratio in [-25.0, -1.0, -0.1, 0.1, 0.5, 2.0, 25.0] {
                let params = PolicyLossParams { kl_estimator: estimator, ..params };
                let token = PolicyToken {
                    old_logprob: -2.0 - log_ratio,
                    ref_logprob: -2.3,
                    advantage,
                    sequence_log_ratio: None,
                };
                let at = |logprob: f64, entropy: f64| policy_loss(&params, &token, logprob, entropy).loss;
                let step = 1e-6;
                let exact = policy_loss(&params, &token, -2.0, 0.9);
                let by_logprob = (at(-2.0 + step, 0.9) - at(-2.0 - step, 0.9)) / (2.0 * step);
                let by_entropy = (at(-2.0, 0.9 + step) - at(-2.0, 0.9 - step)) / (2.0 * step);
                assert!(close(exact.d_logprob, by_logprob, 1e-6), "{estimator:?} {advantage} {log_ratio}");
                assert!(close(exact.d_entropy, by_entropy, 1e-6));
            }
        }
    }
}

/// Tokens that the model reads of the longest sequence of [`groups`]: no micro-batch can be smaller.
const LONGEST: usize = 13 + 16;

/// Groups of ragged lengths and different sizes, with masks; everything drawn from `seed`.
fn groups(seed: i64, vocab_size: i64) -> Vec<TrainingGroup> {
    tch::manual_seed(seed);
    let ids = |len: i64| -> Vec<u32> {
        let ids = Vec::<i64>::try_from(Tensor::randint_low(3, vocab_size, [len], (Kind::Int64, Device::Cpu))).unwrap();
        ids.into_iter().map(|id| id as u32).collect()
    };
    let floats = |len: usize, scale: f64, shift: f64| -> Vec<f32> {
        Vec::try_from(Tensor::randn([len as i64], (Kind::Float, Device::Cpu)) * scale + shift).unwrap()
    };
    let completion = |len: i64, loss_mask: Option<Vec<bool>>| TrainingCompletion {
        token_ids: ids(len),
        loss_mask,
        old_logprobs: floats(len as usize, 0.3, -6.2),
        ref_logprobs: Some(floats(len as usize, 0.3, -6.2)),
        advantage: floats(1, 1.0, 0.0)[0],
    };
    let group = |prompt_len: i64, lens: &[i64]| TrainingGroup {
        prompt_ids: ids(prompt_len),
        completions: lens.iter().map(|&len| completion(len, None)).collect(),
    };
    let mut groups = vec![group(13, &[5, 17, 1, 12]), group(1, &[9]), group(20, &[3, 3]), group(4, &[1, 1])];
    groups[0].completions.push(completion(6, Some(vec![false; 6])));
    groups[2].completions.push(completion(7, Some(vec![false, true, true, false, true, false, false])));
    groups.push(TrainingGroup { prompt_ids: ids(9), completions: vec![completion(4, Some(vec![false; 4]))] });
    groups
}

fn policy_params(aggregation: LossAggregation) -> PolicyLossParams {
    PolicyLossParams {
        clip_ratio_high: 0.28,
        clip_ratio_c: Some(3.0),
        kl_coef: 0.1,
        entropy_coef: 0.01,
        aggregation,
        ..NO_EXTRAS
    }
}

/// Gradients of all leaves after `run`, cleared before.
fn gradients_of(model: &dyn CausalLm, run: impl FnOnce() -> f64) -> (f64, Vec<Tensor>) {
    let weights = model.weights();
    weights.set_requires_grad(true);
    for leaf in &weights.leaves {
        torch_ext_sys::set_grad(&leaf.tensor, None).unwrap();
    }
    let loss = run();
    let gradients = weights.leaves.iter().map(|leaf| leaf.tensor.grad());
    (loss, gradients.collect())
}

fn norm(x: &Tensor) -> f64 {
    x.to_kind(Kind::Double).norm().double_value(&[])
}

fn assert_same(label: &str, model: &dyn CausalLm, found: &(f64, Vec<Tensor>), expected: &(f64, Vec<Tensor>)) {
    assert!(close(found.0, expected.0, SPLIT_TOLERANCE), "{label}: loss {} {}", found.0, expected.0);
    for (leaf, (found, expected)) in model.weights().leaves.iter().zip(found.1.iter().zip(&expected.1)) {
        let (difference, size) = (norm(&(found - expected)), norm(expected));
        assert!(size > 0.0, "{label}: {} has no gradient", leaf.name);
        assert!(difference <= SPLIT_TOLERANCE * size, "{label}: {} differs by {difference} of {size}", leaf.name);
    }
}

/// The policy loss with every sequence as its own padded row, and libtorch's operators throughout.
fn plain_policy_loss(
    model: &dyn CausalLm,
    groups: &[TrainingGroup],
    params: &PolicyLossParams,
    temperature: f64,
) -> Tensor {
    let rows: Vec<(&TrainingGroup, &TrainingCompletion)> =
        groups.iter().flat_map(|group| group.completions.iter().map(move |completion| (group, completion))).collect();
    let longest = rows.iter().map(|(g, c)| g.prompt_ids.len() + c.token_ids.len()).max().unwrap();
    let table = |value: &dyn Fn(usize, usize) -> f64| {
        let values: Vec<f64> =
            (0..rows.len()).flat_map(|row| (0..longest).map(move |column| value(row, column))).collect();
        Tensor::from_slice(&values).view([rows.len() as i64, longest as i64])
    };
    let completion_index = |row: usize, column: usize| {
        let (group, completion) = rows[row];
        column.checked_sub(group.prompt_ids.len()).filter(|&token| token < completion.token_ids.len())
    };
    let ids = table(&|row, column| {
        let (group, completion) = rows[row];
        let id = group.prompt_ids.iter().chain(&completion.token_ids).nth(column);
        f64::from(id.copied().unwrap_or(0))
    })
    .to_kind(Kind::Int64);
    let mask = table(&|row, column| f64::from(column < rows[row].0.prompt_ids.len() + rows[row].1.token_ids.len()));
    let per_token = |value: &dyn Fn(&TrainingCompletion, usize) -> f64| {
        table(&|row, column| completion_index(row, column).map_or(0.0, |token| value(rows[row].1, token)))
            .narrow(1, 1, longest as i64 - 1)
            .to_kind(Kind::Float)
    };
    let is_trained =
        |completion: &TrainingCompletion, token: usize| completion.loss_mask.as_ref().is_none_or(|mask| mask[token]);
    let trained = per_token(&|completion, token| f64::from(is_trained(completion, token)));
    let old = per_token(&|completion, token| f64::from(completion.old_logprobs[token]));
    let reference = per_token(&|completion, token| f64::from(completion.ref_logprobs.as_ref().unwrap()[token]));
    let advantage = per_token(&|completion, _| f64::from(completion.advantage));

    let mut attention = DenseAttention::new(&mask.to_kind(Kind::Int64));
    let positions = attention.positions();
    let hidden = model.forward(&ids.flatten(0, 1), &positions, &mut attention);
    let logits = model.head(&hidden).view([rows.len() as i64, longest as i64, -1]) / temperature;
    let log_softmax = logits.narrow(1, 0, longest as i64 - 1).log_softmax(-1, Kind::Float);
    let targets = ids.narrow(1, 1, longest as i64 - 1).unsqueeze(-1);
    let logprobs = log_softmax.gather(-1, &targets, false).squeeze_dim(-1);
    let entropy = -(log_softmax.exp() * &log_softmax).sum_dim_intlist([-1i64].as_slice(), false, Kind::Float);

    let lens = trained.sum_dim_intlist([1i64].as_slice(), false, Kind::Float);
    // One times whatever: 1 in value, the log-probability's in the gradient.
    let through = (&logprobs - logprobs.detach()).exp();
    let ratio = match params.importance {
        Importance::Token => (&logprobs - old).exp(),
        // verl's form of GSPO: the sequence's ratio in value, spread over its tokens in the gradient.
        Importance::Sequence => {
            let mean = ((logprobs.detach() - old) * &trained).sum_dim_intlist([1i64].as_slice(), true, Kind::Float)
                / lens.clamp_min(1.0).unsqueeze(1);
            mean.exp() * &through
        }
    };
    let clipped = ratio.clamp(1.0 - params.clip_ratio_low, 1.0 + params.clip_ratio_high);
    let capped = match params.importance_cap {
        Some(cap) => (&through * cap).where_self(&ratio.gt(cap), &ratio),
        None => ratio.shallow_clone(),
    };
    let surrogate = (-&advantage * capped).maximum(&(-&advantage * clipped));
    let dual = surrogate.minimum(&(-&advantage * params.clip_ratio_c.unwrap()));
    let surrogate = dual.where_self(&advantage.lt(0.0), &surrogate);
    let difference = reference - &logprobs;
    let kl = difference.exp() - difference - 1.0;
    let loss = (surrogate + params.kl_coef * kl - params.entropy_coef * entropy) * &trained;
    let num_sequences = lens.gt(0.0).sum(Kind::Float);
    let sums = loss.sum_dim_intlist([1i64].as_slice(), false, Kind::Float);
    match params.aggregation {
        LossAggregation::TokenMean => sums.sum(Kind::Float) / lens.sum(Kind::Float),
        LossAggregation::SeqMeanTokenSum => sums.sum(Kind::Float) / num_sequences,
        LossAggregation::SeqMeanTokenMean => (sums / lens.clamp_min(1.0)).sum(Kind::Float) / num_sequences,
        LossAggregation::SeqMeanTokenSumNorm => sums.sum(Kind::Float) / (num_sequences * params.scale_tokens as f64),
    }
}

#[test]
fn packed_groups_give_the_padded_loss_and_gradients() {
    for name in FIXTURES {
        let model = model(name);
        let groups = groups(7, model.config().vocab_size);
        let params = policy_params(LossAggregation::TokenMean);
        for temperature in [1.0, 0.6] {
            let plain = gradients_of(model.as_ref(), || {
                let loss = plain_policy_loss(model.as_ref(), &groups, &params, temperature);
                loss.backward();
                loss.double_value(&[])
            });
            let trainer = TrainerParams { temperature, head_rows: 16, ..TrainerParams::default() };
            let packed =
                gradients_of(model.as_ref(), || policy_gradients(model.as_ref(), &trainer, &groups, &params).unwrap());
            assert_same(&format!("{name} at temperature {temperature}"), model.as_ref(), &packed, &plain);
        }
    }
}

#[test]
fn the_loss_does_not_depend_on_micro_batches_or_head_chunks() {
    let model = model("olmo3");
    let groups = groups(8, model.config().vocab_size);
    let aggregations = [
        LossAggregation::TokenMean,
        LossAggregation::SeqMeanTokenSum,
        LossAggregation::SeqMeanTokenMean,
        LossAggregation::SeqMeanTokenSumNorm,
    ];
    let by_token = aggregations.map(|aggregation| PolicyLossParams { scale_tokens: 31, ..policy_params(aggregation) });
    let by_sequence =
        PolicyLossParams { importance: Importance::Sequence, ..policy_params(LossAggregation::SeqMeanTokenMean) };
    let capped = PolicyLossParams { importance_cap: Some(1.5), ..policy_params(LossAggregation::TokenMean) };
    for params in by_token.into_iter().chain([by_sequence, capped]) {
        let plain = gradients_of(model.as_ref(), || {
            let loss = plain_policy_loss(model.as_ref(), &groups, &params, 1.0);
            loss.backward();
            loss.double_value(&[])
        });
        for (max_tokens, head_rows, shared_prefix) in [
            (4096, 4096, true),
            (4096, 1, true),
            (60, 7, true),
            (LONGEST, 1024, true),
            (LONGEST, 1, true),
            (4096, 4096, false),
            (60, 7, false),
            (LONGEST, 1, false),
        ] {
            let trainer = TrainerParams { max_tokens, head_rows, shared_prefix, ..TrainerParams::default() };
            let split =
                gradients_of(model.as_ref(), || policy_gradients(model.as_ref(), &trainer, &groups, &params).unwrap());
            assert_same(&format!("{params:?} {trainer:?}"), model.as_ref(), &split, &plain);
        }
    }
}

#[test]
fn checkpointed_layers_give_the_same_bits() {
    let model = model("qwen3-tied");
    let groups = groups(9, model.config().vocab_size);
    let params = policy_params(LossAggregation::TokenMean);
    let [kept, recomputed] = [false, true].map(|checkpoint_layers| {
        let trainer = TrainerParams { checkpoint_layers, ..TrainerParams::default() };
        gradients_of(model.as_ref(), || policy_gradients(model.as_ref(), &trainer, &groups, &params).unwrap())
    });
    assert_eq!(kept.0, recomputed.0);
    for (kept, recomputed) in kept.1.iter().zip(&recomputed.1) {
        assert!(kept.equal(recomputed));
    }
}

#[test]
fn a_shared_prompt_goes_through_the_layers_once() {
    let groups = groups(12, 512);
    let layer_tokens = [true, false].map(|shared_prefix| {
        let model = model("llama-tied");
        let trainer = TrainerParams { shared_prefix, ..TrainerParams::default() };
        let params = policy_params(LossAggregation::TokenMean);
        let update = Trainer::new(model.as_ref(), AdamWParams::default(), trainer).policy_update(&groups, &params, 0.0);
        update.unwrap().num_layer_tokens
    });
    // Of completions all ids but the last trained one; prompts of 13, 1, 20 and 4 tokens before 4, 1, 3 and 2 of them.
    let completions = (4 + 16 + 11) + 8 + (2 + 2 + 4);
    assert_eq!(layer_tokens, [13 + 1 + 20 + 4 + completions, 13 * 4 + 1 + 20 * 3 + 4 * 2 + completions]);
}

#[test]
fn metrics_do_not_depend_on_micro_batches() {
    let groups = groups(10, 512);
    let params = policy_params(LossAggregation::TokenMean);
    let [one, many] = [4096, LONGEST].map(|max_tokens| {
        let model = model("llama-tied");
        let trainer = TrainerParams { max_tokens, ..TrainerParams::default() };
        Trainer::new(model.as_ref(), AdamWParams::default(), trainer).policy_update(&groups, &params, 1e-3).unwrap()
    });
    assert_eq!((one.num_micro_batches, one.skipped), (1, None));
    assert!(many.num_micro_batches > 3);
    assert_eq!(one.num_tokens, many.num_tokens);
    let numbers = |metrics: &skein::trainer::UpdateMetrics| {
        let policy = metrics.policy.unwrap();
        let parts = [policy.pg_loss, policy.kl, policy.clip_fraction, policy.clip_fraction_lower, policy.approx_kl];
        [&parts[..], &[metrics.loss, metrics.entropy, metrics.grad_norm]].concat()
    };
    for (one, many) in numbers(&one).into_iter().zip(numbers(&many)) {
        assert!(close(one, many, SPLIT_TOLERANCE), "{one} {many}");
    }
}

/// The reference's rows as examples: the first real token is the prompt, all others are trained on.
fn reference_examples(name: &str) -> Vec<SftExample> {
    let path = fixtures().join("models").join(name).join("reference.safetensors");
    let tensors: std::collections::HashMap<String, Tensor> =
        Tensor::read_safetensors(path).unwrap().into_iter().collect();
    let [ids, mask] = ["input_ids", "attention_mask"].map(|key| Vec::<Vec<i64>>::try_from(&tensors[key]).unwrap());
    let rows = ids.iter().zip(&mask).map(|(ids, mask)| {
        let tokens: Vec<u32> = ids.iter().zip(mask).filter(|(_, flag)| **flag == 1).map(|(&id, _)| id as u32).collect();
        SftExample { prompt_ids: tokens[..1].to_vec(), completion_ids: tokens[1..].to_vec(), loss_mask: None }
    });
    rows.collect()
}

#[test]
fn sft_loss_and_gradient_norms_are_hugging_faces() {
    for name in FIXTURES {
        let model = model(name);
        let reference = read_json(fixtures().join("models").join(name).join("reference.json"));
        let examples = reference_examples(name);
        for max_tokens in [4096, 24] {
            let trainer = TrainerParams { max_tokens, head_rows: 20, ..TrainerParams::default() };
            let (loss, _) =
                gradients_of(model.as_ref(), || sft_gradients(model.as_ref(), &trainer, &examples).unwrap());
            assert!(close(loss, number(&reference["sft_loss"]), 1e-5), "{name}: {loss}");
            let weights = model.weights();
            for entry in &weights.entries {
                let found = norm(&weights.grad_rows(entry).unwrap());
                let expected = number(&reference["grad_norms"][&entry.name]);
                assert!(
                    (found - expected).abs() <= GRAD_NORM_TOLERANCE * expected,
                    "{name} {} {found} {expected}",
                    entry.name
                );
            }
        }
    }
}

#[test]
fn three_adamw_steps_are_torchs() {
    let optimizer = AdamWParams { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    for name in FIXTURES {
        let model = model(name);
        let reference = read_json(fixtures().join("models").join(name).join("reference.json"));
        let examples = reference_examples(name);
        let params = TrainerParams { max_grad_norm: None, ..TrainerParams::default() };
        let mut trainer = Trainer::new(model.as_ref(), optimizer, params);
        for expected in reference["adamw_losses"].as_array().unwrap() {
            let metrics = trainer.sft_update(&examples, 1e-3).unwrap();
            assert!(close(metrics.loss, number(expected), ADAMW_TOLERANCE), "{name}: {} {expected}", metrics.loss);
        }
        let weights = model.weights();
        for entry in &weights.entries {
            let found = norm(&weights.rows(entry));
            let expected = number(&reference["adamw_param_norms"][&entry.name]);
            assert!((found - expected).abs() <= ADAMW_TOLERANCE * expected, "{name} {} {found} {expected}", entry.name);
        }
    }
}

#[test]
fn optimizer_state_continues_where_it_was() {
    let examples = reference_examples("llama-tied");
    let run = |interrupt: bool| {
        let model = model("llama-tied");
        let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), TrainerParams::default());
        trainer.sft_update(&examples, 1e-3).unwrap();
        if interrupt {
            let mut resumed = Trainer::new(model.as_ref(), AdamWParams::default(), TrainerParams::default());
            resumed.optimizer_mut().load_state(&trainer.optimizer().state()).unwrap();
            trainer = resumed;
        }
        trainer.sft_update(&examples, 1e-3).unwrap();
        model.weights().leaves.iter().map(|leaf| leaf.tensor.detach().copy()).collect::<Vec<_>>()
    };
    for (straight, resumed) in run(false).iter().zip(run(true)) {
        assert!(straight.equal(&resumed));
    }
    let other = model("olmo3");
    let mut trainer = Trainer::new(other.as_ref(), AdamWParams::default(), TrainerParams::default());
    let llama = model("llama-tied");
    let state = Trainer::new(llama.as_ref(), AdamWParams::default(), TrainerParams::default()).optimizer().state();
    let error = trainer.optimizer_mut().load_state(&state).unwrap_err();
    assert!(error.to_string().contains("q_norm"), "{error}");
}

#[test]
fn gradients_are_clipped_to_the_norm() {
    let examples = reference_examples("llama-tied");
    // With eps far above the gradients, Adam's first step is proportional to them.
    let optimizer = AdamWParams { eps: 1e4, weight_decay: 0.0, ..AdamWParams::default() };
    let step = |max_grad_norm| {
        let model = model("llama-tied");
        let before = model.weights().leaves[1].tensor.copy();
        let params = TrainerParams { max_grad_norm, ..TrainerParams::default() };
        let metrics = Trainer::new(model.as_ref(), optimizer, params).sft_update(&examples, 1e4).unwrap();
        (metrics.grad_norm, norm(&(&model.weights().leaves[1].tensor.detach() - before)))
    };
    let (grad_norm, free) = step(None);
    let (same_norm, clipped) = step(Some(grad_norm / 4.0));
    let (_, untouched) = step(Some(grad_norm * 2.0));
    assert_eq!(grad_norm, same_norm);
    assert!((clipped * 4.0 / free - 1.0).abs() < 1e-3, "{clipped} {free}");
    assert_eq!(untouched, free);
}

#[test]
fn a_step_that_is_not_finite_changes_nothing() {
    let mut broken = groups(11, 512);
    broken[0].completions[0].advantage = f32::INFINITY;
    let whole = groups(11, 512);
    let params = policy_params(LossAggregation::TokenMean);
    let model = model("qwen3-untied");
    let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), TrainerParams::default());
    let before: Vec<Tensor> = model.weights().leaves.iter().map(|leaf| leaf.tensor.detach().copy()).collect();
    let unchanged =
        || model.weights().leaves.iter().zip(&before).all(|(leaf, before)| leaf.tensor.detach().equal(before));
    assert_eq!(trainer.policy_update(&broken, &params, 1e-3).unwrap().skipped, Some(SkipReason::NonFiniteLoss));
    assert!(unchanged() && trainer.optimizer().state().step == 0);
    // The loss is summed in f64 and stays finite; its gradient does not fit into f32.
    let mut steep = groups(11, 512);
    steep.iter_mut().flat_map(|group| &mut group.completions).for_each(|completion| completion.advantage = f32::MAX);
    let skipped = trainer.policy_update(&steep, &params, 1e-3).unwrap().skipped;
    assert_eq!(skipped, Some(SkipReason::NonFiniteGradient));
    assert!(unchanged() && trainer.optimizer().state().step == 0);
    let nothing: Vec<TrainingGroup> = whole[4..].to_vec(); // the group whose only completion is masked
    assert_eq!(trainer.policy_update(&nothing, &params, 1e-3).unwrap().skipped, Some(SkipReason::NothingToTrain));
    assert!(unchanged());
    assert_eq!(trainer.policy_update(&whole, &params, 1e-3).unwrap().skipped, None);
    assert!(!unchanged() && trainer.optimizer().state().step == 1);
}

#[test]
fn logprobs_are_the_same_alone_shared_and_in_the_reference() {
    let model = model("olmo3-yarn");
    let mut all = groups(12, model.config().vocab_size);
    let params = TrainerParams { temperature: 1.3, ..TrainerParams::default() };
    let mut reference = all.clone();
    ReferenceModel::copy_of(model.as_ref(), params).score(&mut reference).unwrap();
    for (group, scored) in all.iter().zip(&reference) {
        for (completion, scored) in group.completions.iter().zip(&scored.completions) {
            let alone = PromptCompletions { prompt_ids: &group.prompt_ids, completions: &[&completion.token_ids] };
            let alone = logprobs(model.as_ref(), &params, &[alone]).unwrap();
            for (alone, shared) in alone[0][0].iter().zip(scored.ref_logprobs.as_ref().unwrap()) {
                assert!(close(f64::from(*alone), f64::from(*shared), SPLIT_TOLERANCE), "{alone} {shared}");
            }
        }
    }
    // On-policy with itself as reference, ratios are 1 and the KL is 0; a step moves the policy, not the reference.
    let frozen = ReferenceModel::copy_of(model.as_ref(), params);
    for (group, scored) in all.iter_mut().zip(&reference) {
        for (completion, scored) in group.completions.iter_mut().zip(&scored.completions) {
            completion.ref_logprobs = scored.ref_logprobs.clone();
            completion.old_logprobs = scored.ref_logprobs.clone().unwrap();
        }
    }
    let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), params);
    let first = trainer.policy_update(&all, &policy_params(LossAggregation::TokenMean), 1e-2).unwrap().policy.unwrap();
    assert!(first.kl.abs() < 1e-9 && first.approx_kl.abs() < 1e-5 && first.clip_fraction == 0.0, "{first:?}");
    let second = trainer.policy_update(&all, &policy_params(LossAggregation::TokenMean), 1e-2).unwrap().policy.unwrap();
    assert!(second.kl > 1e-4, "{second:?}");
    let mut again = all.clone();
    frozen.score(&mut again).unwrap();
    assert_eq!(again, all);
}

#[test]
fn missing_logprobs_are_named() {
    let model = model("llama-tied");
    let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), TrainerParams::default());
    let mut groups = groups(13, 512);
    groups[1].completions[0].ref_logprobs = None;
    let error = trainer.policy_update(&groups, &policy_params(LossAggregation::TokenMean), 1e-3).unwrap_err();
    assert_eq!(error.to_string(), "group 1, completion 0: 0 ref_logprobs for 9 token ids");
    assert!(trainer.policy_update(&groups, &NO_EXTRAS, 1e-3).is_ok());
    groups[2].completions[1].old_logprobs.pop();
    let error = trainer.policy_update(&groups, &NO_EXTRAS, 1e-3).unwrap_err();
    assert_eq!(error.to_string(), "group 2, completion 1: 2 old_logprobs for 3 token ids");
}

#[test]
fn a_micro_batch_too_small_for_a_sequence_is_refused() {
    let model = model("llama-tied");
    let before: Vec<Tensor> = model.weights().leaves.iter().map(|leaf| leaf.tensor.detach().copy()).collect();
    for (max_tokens, (completion, tokens)) in [(0, (0, 17)), (5, (0, 17)), (LONGEST - 1, (1, LONGEST))] {
        let params = TrainerParams { max_tokens, ..TrainerParams::default() };
        let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), params);
        let error = trainer.policy_update(&groups(14, 512), &NO_EXTRAS, 1e-3).unwrap_err();
        let expected = PackingError::TooLong { group: 0, completion, tokens, max_tokens };
        assert_eq!(error, TrainerError::Packing(expected));
    }
    let weights = model.weights();
    assert!(weights.leaves.iter().zip(&before).all(|(leaf, before)| leaf.tensor.detach().equal(before)));
}

#[test]
fn sequences_the_model_cannot_read_are_named() {
    let model = model("llama-tied");
    let mut trainer = Trainer::new(model.as_ref(), AdamWParams::default(), TrainerParams::default());
    let example = |prompt_ids, completion_ids| SftExample { prompt_ids, completion_ids, loss_mask: None };
    let fits = example(vec![5; 200], vec![6; 56]);
    let mut refused = |bad: SftExample| trainer.sft_update(&[fits.clone(), bad], 1e-3).unwrap_err().to_string();
    let long = refused(example(vec![5; 200], vec![6; 57]));
    assert_eq!(long, "group 1, completion 0: 257 tokens with the prompt, the model's context holds 256");
    let foreign = refused(example(vec![5], vec![6, 512]));
    assert_eq!(foreign, "group 1: token id 512 is outside the model's vocabulary of 512");
    assert!(refused(example(vec![], vec![6])).contains("empty prompt"));
    assert!(trainer.sft_update(&[fits], 1e-3).unwrap().skipped.is_none());
}
