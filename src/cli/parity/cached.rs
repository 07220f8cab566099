//! The path that rollouts run: prefill and decode through the engine's cache.

use anyhow::Result;
use skein_core::types::SamplingParams;
use tch::Kind;

use super::comparison::{Comparison, LOGPROB_TOLERANCE, TOKEN_TOLERANCE, larger, max_abs};
use super::reference::Reference;
use crate::checkpoint::Pretrained;
use crate::engine::{DrawOrigin, Engine, EngineConfig, Hooks, Request};

/// Completions of each prompt: more than one, so that the prompt is shared.
const NUM_SAMPLES: usize = 2;

/// Compares logits, log-probabilities and greedy tokens.
pub(super) fn compare(
    load: &dyn Fn() -> Result<Pretrained>,
    reference: &Reference,
    comparison: &mut Comparison,
) -> Result<()> {
    let model = load()?.model;
    let rows: Vec<Vec<u32>> = (0..reference.num_rows()).map(|row| reference.ids_vec(row)).collect();
    let num_new = reference.greedy.size()[1] as usize;
    let row_tokens = reference.len() as usize + NUM_SAMPLES * num_new;
    let default = EngineConfig::default();
    let config = EngineConfig { cache_tokens: default.cache_tokens.max(2 * rows.len() * row_tokens), ..default };
    let mut engine = Engine::new(&*model, config)?;

    for (layout, prompt_share) in [("decoded", None), ("prefilled", Some(2))] {
        let (mut worst_logit, mut worst_logprob) = (0.0, 0.0);
        for (row, ids) in rows.iter().enumerate() {
            let prompt_len = prompt_share.map_or(1, |share| ids.len().div_ceil(share));
            let (prompt_ids, continuation_ids) = ids.split_at(prompt_len);
            let scored = engine.score(prompt_ids, continuation_ids)?;
            let expected = reference.last_logits(row as i64, continuation_ids.len());
            worst_logit = larger(worst_logit, max_abs(&(scored.logits - expected)));
            for (logprob, expected) in
                scored.logprobs.iter().zip(reference.last_logprobs(row as i64, continuation_ids.len()))
            {
                worst_logprob = larger(worst_logprob, f64::from((logprob - expected).abs()));
            }
        }
        let mut section = comparison.section("cached", layout);
        section.add("logits", worst_logit, reference.logit_tolerance());
        section.add("token_logprobs", worst_logprob, LOGPROB_TOLERANCE);
    }

    let wrong_tokens = count_wrong_greedy_tokens(&mut engine, reference, &rows)?;
    comparison.section("cached", "generated").add("greedy tokens", wrong_tokens as f64, TOKEN_TOLERANCE);
    Ok(())
}

/// Greedy tokens of all rows at once that differ from the reference's.
fn count_wrong_greedy_tokens(engine: &mut Engine, reference: &Reference, rows: &[Vec<u32>]) -> Result<usize> {
    let max_new_tokens = reference.greedy.size()[1] as usize;
    let params = SamplingParams { temperature: 0.0, max_new_tokens, ..SamplingParams::default() };
    let request = |(row, prompt_ids): (usize, &Vec<u32>)| Request {
        prompt_ids: prompt_ids.clone(),
        num_samples: NUM_SAMPLES,
        params: params.clone(),
        origin: DrawOrigin { seed: 0, step: 0, prompt: row as u32 },
    };
    let requests: Vec<Request> = rows.iter().enumerate().map(request).collect();
    let mut hooks = Hooks { decode: None, on_event: &mut |_| () };
    let mut wrong = 0;
    for (row, completions) in engine.generate(&requests, &mut hooks).into_iter().enumerate() {
        let expected = Vec::<i64>::try_from(reference.greedy.get(row as i64).to_kind(Kind::Int64))
            .expect("a flat i64 tensor is a vector");
        for completion in completions? {
            let same =
                completion.token_ids.iter().zip(&expected).filter(|(id, expected)| i64::from(**id) == **expected);
            wrong += expected.len() - same.count();
        }
    }
    Ok(wrong)
}
