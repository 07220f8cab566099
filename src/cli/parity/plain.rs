//! The dense path: every quantity of the reference, in padded rows and in rows of their own.

use anyhow::Result;
use tch::{IndexOp, Kind, Tensor};

use super::comparison::{
    ADAMW_LOSS_TOLERANCE, Comparison, EMBEDDING_TOLERANCE, LOGPROB_TOLERANCE, LOSS_TOLERANCE, Section, TOKEN_TOLERANCE,
    larger, max_abs,
};
use super::reference::{ADAMW_LR, Reference};
use crate::checkpoint::Pretrained;
use crate::models::CausalLm;
use crate::nn::DenseAttention;
use crate::optim::{AdamW, AdamWParams};

/// Rows that are run together, all of one length.
struct Batch {
    ids: Tensor,            // [B, T]
    attention_mask: Tensor, // [B, T]
    /// The reference's first of these rows, and how many.
    rows: (i64, i64),
}

/// Compares all quantities; `load` gives the model with fresh weights.
pub(super) fn compare(
    load: &dyn Fn() -> Result<Pretrained>,
    reference: &Reference,
    comparison: &mut Comparison,
) -> Result<()> {
    for (layout, batches) in [("left-padded", padded(reference)), ("unpadded", unpadded(reference))] {
        let model = load()?.model;
        let mut section = comparison.section("plain", layout);
        compare_outputs(&*model, reference, &batches, &mut section);
        compare_training(&*model, reference, &batches, &mut section);
    }
    Ok(())
}

fn padded(reference: &Reference) -> Vec<Batch> {
    let (ids, attention_mask) = (reference.input_ids.shallow_clone(), reference.attention_mask.shallow_clone());
    vec![Batch { ids, attention_mask, rows: (0, reference.num_rows()) }]
}

fn unpadded(reference: &Reference) -> Vec<Batch> {
    let row = |row| {
        let ids = reference.ids(row).unsqueeze(0);
        Batch { attention_mask: ids.ones_like(), ids, rows: (row, 1) }
    };
    (0..reference.num_rows()).map(row).collect()
}

impl Batch {
    /// Normed hidden states, `[B, T, D]`.
    fn hidden(&self, model: &dyn CausalLm) -> Tensor {
        let mut attention = DenseAttention::new(&self.attention_mask);
        let positions = attention.positions();
        model.forward(&self.ids.flatten(0, 1), &positions, &mut attention).unflatten(0, self.ids.size())
    }

    /// This batch's rows and last `len` positions of a `[B, T, ..]` tensor of the reference.
    fn expected(&self, of_reference: &Tensor, len: i64) -> Tensor {
        let rows = of_reference.narrow(0, self.rows.0, self.rows.1);
        rows.narrow(1, of_reference.size()[1] - len, len)
    }

    /// Neighbouring pairs of tokens, `[B, T - 1]` bool.
    fn pairs(&self) -> Tensor {
        let last = self.ids.size()[1] - 1;
        (self.attention_mask.narrow(1, 0, last) * self.attention_mask.narrow(1, 1, last)).to_kind(Kind::Bool)
    }

    /// Log-probabilities of the next token, `[B, T - 1]`.
    fn logprobs(&self, logits: &Tensor) -> Tensor {
        let last = self.ids.size()[1] - 1;
        let targets = self.ids.narrow(1, 1, last).unsqueeze(-1);
        logits.narrow(1, 0, last).log_softmax(-1, Kind::Float).gather(-1, &targets, false).squeeze_dim(-1)
    }

    /// Appends the likeliest token `count` times: `[B, count]`.
    fn greedy(&self, model: &dyn CausalLm, count: i64) -> Tensor {
        let mut batch = Self {
            ids: self.ids.shallow_clone(),
            attention_mask: self.attention_mask.shallow_clone(),
            rows: self.rows,
        };
        for _ in 0..count {
            let hidden = batch.hidden(model);
            let last = hidden.i((.., -1));
            let next = model.head(&last).argmax(-1, true);
            batch.attention_mask = Tensor::cat(&[&batch.attention_mask, &next.ones_like()], 1);
            batch.ids = Tensor::cat(&[&batch.ids, &next], 1);
        }
        batch.ids.narrow(1, self.ids.size()[1], count)
    }
}

fn compare_outputs(model: &dyn CausalLm, reference: &Reference, batches: &[Batch], section: &mut Section) {
    let num_new = reference.greedy.size()[1];
    let mut worst = [0f64; 3];
    let mut wrong_tokens = 0.0;
    tch::no_grad(|| {
        for batch in batches {
            let hidden = batch.hidden(model);
            let logits = model.head(&hidden);
            let len = batch.ids.size()[1];
            let is_token = batch.attention_mask.to_kind(Kind::Bool);
            let logprobs = batch.logprobs(&logits);
            let last = hidden.i((.., -1));
            let embedding = &last / last.norm_scalaropt_dim(2, [-1], true);
            let differences = [
                (logits - batch.expected(&reference.logits, len)).index(&[Some(&is_token)]),
                (logprobs - batch.expected(&reference.token_logprobs, len - 1)).index(&[Some(batch.pairs())]),
                embedding - reference.embedding.narrow(0, batch.rows.0, batch.rows.1),
            ];
            for (worst, difference) in worst.iter_mut().zip(&differences) {
                *worst = larger(*worst, max_abs(difference));
            }
            let greedy = batch.greedy(model, num_new);
            let expected = reference.greedy.narrow(0, batch.rows.0, batch.rows.1);
            wrong_tokens += greedy.not_equal_tensor(&expected).sum(Kind::Int64).int64_value(&[]) as f64;
        }
    });
    let [logits, logprobs, embedding] = worst;
    section.add("logits", logits, reference.logit_tolerance());
    section.add("token_logprobs", logprobs, LOGPROB_TOLERANCE);
    section.add("embedding", embedding, EMBEDDING_TOLERANCE);
    section.add("greedy tokens", wrong_tokens, TOKEN_TOLERANCE);
}

/// Accumulates gradients of the mean loss over all batches and returns it.
fn backward(model: &dyn CausalLm, batches: &[Batch]) -> f64 {
    let num_pairs: i64 = batches.iter().map(|batch| batch.pairs().sum(Kind::Int64).int64_value(&[])).sum();
    let mut total = 0.0;
    for batch in batches {
        let logprobs = batch.logprobs(&model.head(&batch.hidden(model))).index(&[Some(batch.pairs())]);
        let loss = -logprobs.sum(Kind::Float) / num_pairs as f64;
        loss.backward();
        total += loss.double_value(&[]);
    }
    total
}

fn compare_training(model: &dyn CausalLm, reference: &Reference, batches: &[Batch], section: &mut Section) {
    let weights = model.weights();
    weights.set_requires_grad(true);
    let scalars = &reference.scalars;
    let mut optimizer = AdamW::new(weights, AdamWParams::default());
    for (step, expected) in scalars.adamw_losses.iter().enumerate() {
        optimizer.zero_grad();
        let loss = backward(model, batches);
        if step == 0 {
            section.add("sft_loss", (loss - scalars.sft_loss).abs(), LOSS_TOLERANCE);
            section.add_grad_norms(weights, &scalars.grad_norms);
        }
        section.add(format!("loss before AdamW step {}", step + 1), (loss - expected).abs(), ADAMW_LOSS_TOLERANCE);
        optimizer.step(ADAMW_LR, 1.0);
    }
    section.add_param_norms(weights, &scalars.adamw_param_norms);
}
