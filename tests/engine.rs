//! The engine against Hugging Face's greedy tokens and logits, against the plain forward, and against itself in other
//! batches, budgets and orders.

use std::cell::RefCell;

use skein::engine::{DrawOrigin, Engine, EngineConfig, EngineError, Event, Hooks, Request, RequestError};
use skein::models::CausalLm;
use skein::optim::AdamWParams;
use skein::trainer::{SftExample, Trainer, TrainerParams};
use skein_core::random::{DrawKey, uniform};
use skein_core::types::{Completion, FinishReason, SamplingParams};
use tch::{Kind, Tensor};

use crate::models::{FIXTURES, LOGIT_TOLERANCE, load_fixture, padded_logits, reference};

/// Products of another shape sum in another order: a probability of these small models moves by less than this, and
/// only a draw within it of a boundary may give another token.
const BOUNDARY: f64 = 1e-5;
/// Of all tokens compared between batches, at most this share may follow a draw that fell to the other side.
const FLIP_SHARE: f64 = 0.01;

const LARGE: EngineConfig = EngineConfig { cache_tokens: 16 * 1024, max_sequences: 64, max_step_tokens: 2048 };

fn generate(engine: &mut Engine, requests: &[Request]) -> Vec<Result<Vec<Completion>, RequestError>> {
    engine.generate(requests, &mut Hooks { decode: None, on_event: &mut |_| () })
}

fn request(prompt_ids: &[u32], num_samples: usize, params: SamplingParams) -> Request {
    let origin = DrawOrigin { seed: 42, step: 3, prompt: prompt_ids.len() as u32 };
    Request { prompt_ids: prompt_ids.to_vec(), num_samples, params, origin }
}

fn greedy(max_new_tokens: usize) -> SamplingParams {
    SamplingParams { temperature: 0.0, max_new_tokens, ..SamplingParams::default() }
}

fn sampled(max_new_tokens: usize) -> SamplingParams {
    SamplingParams { temperature: 0.9, max_new_tokens, ..SamplingParams::default() }
}

/// A prompt of ids that differ from prompt to prompt.
fn prompt(len: usize, salt: usize) -> Vec<u32> {
    (0..len).map(|i| (3 + (i * 37 + salt * 101 + i * i) % 500) as u32).collect()
}

fn unpadded(ids: &Tensor, mask: &Tensor, row: i64) -> Vec<u32> {
    let ids = ids.get(row).masked_select(&mask.get(row).to_kind(Kind::Bool));
    Vec::<i64>::try_from(ids).unwrap().into_iter().map(|id| id as u32).collect()
}

#[test]
fn greedy_tokens_match_hugging_face_under_any_budget() {
    // The second computes prompts in chunks of seven and holds two sequences at a time.
    let tight = EngineConfig { cache_tokens: 64, max_sequences: 2, max_step_tokens: 7 };
    for name in FIXTURES {
        let (reference, model) = (reference(name), load_fixture(name));
        let requests: Vec<Request> = (0..3)
            .map(|row| {
                let ids = unpadded(&reference["input_ids"], &reference["attention_mask"], row);
                request(&ids, 2, greedy(12))
            })
            .collect();
        for config in [LARGE, tight] {
            let outcomes = generate(&mut Engine::new(&*model, config).unwrap(), &requests);
            for (row, outcome) in outcomes.into_iter().enumerate() {
                let expected = Vec::<i64>::try_from(reference["greedy"].get(row as i64)).unwrap();
                for completion in outcome.unwrap() {
                    let ids: Vec<i64> = completion.token_ids.iter().map(|id| i64::from(*id)).collect();
                    assert_eq!(ids, expected, "{name}, row {row}");
                    assert_eq!(completion.finish_reason, FinishReason::Length);
                }
            }
        }
    }
}

#[test]
fn scores_through_the_cache_match_hugging_face() {
    const PROMPT: usize = 4;
    for name in FIXTURES {
        let (reference, model) = (reference(name), load_fixture(name));
        let mut engine = Engine::new(&*model, LARGE).unwrap();
        for row in 0..3 {
            let ids = unpadded(&reference["input_ids"], &reference["attention_mask"], row);
            let scored = engine.score(&ids[..PROMPT], &ids[PROMPT..]).unwrap();
            let len = (ids.len() - PROMPT) as i64;
            let all = reference["logits"].get(row);
            let expected = all.narrow(0, all.size()[0] - len - 1, len);
            let worst = (&scored.logits - &expected).abs().max().double_value(&[]);
            assert!(worst <= LOGIT_TOLERANCE, "{name}, row {row}: logits differ by {worst:e}");
            let logprobs = reference["token_logprobs"].get(row);
            let expected = logprobs.narrow(0, logprobs.size()[0] - len, len);
            let worst = (Tensor::from_slice(&scored.logprobs) - expected).abs().max().double_value(&[]);
            assert!(worst <= LOGIT_TOLERANCE, "{name}, row {row}: log-probs differ by {worst:e}");
        }
    }
}

/// Log-softmax at `temperature` of the plain forward for each of `completion`'s tokens.
fn plain_logprobs(model: &dyn CausalLm, prompt: &[u32], completion: &[u32], temperature: f64) -> Tensor {
    let ids: Vec<i64> = prompt.iter().chain(completion).map(|id| i64::from(*id)).collect();
    let ids = Tensor::from_slice(&ids).unsqueeze(0);
    let len = completion.len() as i64;
    let logits = padded_logits(model, &ids, &ids.ones_like()).squeeze_dim(0) / temperature;
    let logprobs = logits.log_softmax(-1, Kind::Float).narrow(0, prompt.len() as i64 - 1, len);
    logprobs.gather(1, &ids.squeeze_dim(0).narrow(0, prompt.len() as i64, len).unsqueeze(1), false).squeeze_dim(1)
}

#[test]
fn logprobs_are_those_of_the_plain_forward_before_filters() {
    for name in ["qwen3-tied", "llama3-rope", "olmo3"] {
        let model = load_fixture(name);
        let params = SamplingParams { top_k: 40, top_p: 0.9, min_p: 0.01, ..sampled(60) };
        let prompt = prompt(70, 0);
        let outcomes = generate(
            &mut Engine::new(&*model, LARGE).unwrap(),
            &[request(&prompt, 3, params), request(&prompt, 1, greedy(9))],
        );
        for (outcome, temperature) in outcomes.into_iter().zip([0.9, 1.0]) {
            for completion in outcome.unwrap() {
                let expected = plain_logprobs(&*model, &prompt, &completion.token_ids, temperature);
                let worst = (Tensor::from_slice(&completion.logprobs) - expected).abs().max().double_value(&[]);
                assert!(worst <= LOGIT_TOLERANCE, "{name}: log-probs differ by {worst:e}");
            }
        }
    }
}

/// Compares completions of the same draws made in different batches. Returns the number of flips (0 or 1: what follows
/// a flip is another text) after making sure that the draw lay at a boundary.
fn compare(engine: &mut Engine, request: &Request, sample: usize, a: &Completion, b: &Completion) -> usize {
    let differs = a.token_ids.iter().zip(&b.token_ids).position(|(a, b)| a != b);
    let shared = differs.unwrap_or(a.token_ids.len());
    for (a, b) in a.logprobs[..shared].iter().zip(&b.logprobs) {
        assert!(f64::from((a - b).abs()) < LOGIT_TOLERANCE, "log-probs {a} and {b} of the same token");
    }
    let Some(token) = differs else {
        assert_eq!((a.token_ids.len(), a.finish_reason), (b.token_ids.len(), b.finish_reason));
        return 0;
    };
    let DrawOrigin { seed, step, prompt } = request.origin;
    let draw = uniform(DrawKey { seed, step, prompt, sample: sample as u32, token: token as u32 });
    let scored = engine.score(&request.prompt_ids, &a.token_ids[..token + 1]).unwrap();
    let logits = scored.logits.get(token as i64).to_kind(Kind::Double) / request.params.temperature;
    let cumulative = Vec::<f64>::try_from(logits.softmax(0, Kind::Double).cumsum(0, Kind::Double)).unwrap();
    let distance = cumulative.iter().map(|sum| (sum - draw).abs()).fold(f64::INFINITY, f64::min);
    assert!(distance < BOUNDARY, "token {token} differs and its draw is {distance:e} from a boundary");
    1
}

fn requests() -> Vec<Request> {
    (0..6).map(|i| request(&prompt(5 + 13 * i, i), 1 + i % 4, sampled(20 + 11 * i))).collect()
}

/// Compares every completion of two runs of the same requests and bounds the flips.
fn assert_same(
    model: &dyn CausalLm,
    requests: &[Request],
    a: &[Result<Vec<Completion>, RequestError>],
    b: &[Result<Vec<Completion>, RequestError>],
) {
    let mut engine = Engine::new(model, LARGE).unwrap();
    let (mut flips, mut tokens) = (0, 0);
    for (request, (a, b)) in requests.iter().zip(a.iter().zip(b)) {
        for (sample, (a, b)) in a.as_ref().unwrap().iter().zip(b.as_ref().unwrap()).enumerate() {
            flips += compare(&mut engine, request, sample, a, b);
            tokens += a.token_ids.len();
        }
    }
    eprintln!("{flips} flips at rounding boundaries in {tokens} tokens");
    assert!(flips as f64 <= FLIP_SHARE * tokens as f64, "{flips} flips in {tokens} tokens");
}

#[test]
fn a_sequence_is_the_same_alone_and_in_any_batch() {
    for name in ["qwen3-tied", "olmo3"] {
        let model = load_fixture(name);
        let requests = requests();
        let together = generate(&mut Engine::new(&*model, LARGE).unwrap(), &requests);
        let alone: Vec<_> = requests
            .iter()
            .map(|request| {
                let config = EngineConfig { max_sequences: 1, ..LARGE };
                generate(&mut Engine::new(&*model, config).unwrap(), std::slice::from_ref(request)).remove(0)
            })
            .collect();
        assert_same(&*model, &requests, &together, &alone);
        let mut backwards: Vec<Request> = requests.clone();
        backwards.reverse();
        let config = EngineConfig { max_sequences: 5, max_step_tokens: 9, ..LARGE };
        let mut reordered = generate(&mut Engine::new(&*model, config).unwrap(), &backwards);
        reordered.reverse();
        assert_same(&*model, &requests, &together, &reordered);
    }
}

#[test]
fn preempted_sequences_come_out_the_same() {
    for name in ["qwen3-untied", "olmo3-yarn"] {
        let model = load_fixture(name);
        let requests = requests();
        let together = generate(&mut Engine::new(&*model, LARGE).unwrap(), &requests);
        let mut small = Engine::new(&*model, EngineConfig { cache_tokens: 192, ..LARGE }).unwrap();
        let squeezed = generate(&mut small, &requests);
        assert!(small.timings().preemptions > 0, "{name}: the cache was not small enough to test this");
        assert_same(&*model, &requests, &together, &squeezed);
    }
}

#[test]
fn an_engine_starts_every_call_afresh() {
    let model = load_fixture("llama-tied");
    let mut engine = Engine::new(&*model, LARGE).unwrap();
    let first = generate(&mut engine, &requests());
    assert_eq!(first, generate(&mut engine, &requests()));
}

#[test]
fn a_bad_request_gets_its_error_and_others_their_completions() {
    let model = load_fixture("qwen3-tied");
    let context = model.config().max_position_embeddings;
    let mut engine =
        Engine::new(&*model, EngineConfig { cache_tokens: 128, max_sequences: 4, max_step_tokens: 32 }).unwrap();
    let good = request(&prompt(9, 1), 2, sampled(10));
    let bad_parameter = |params: SamplingParams| request(&prompt(3, 0), 1, params);
    let requests = [
        good.clone(),
        request(&[], 1, sampled(5)),
        request(&prompt(context, 0), 1, sampled(5)),
        request(&prompt(3, 0), 1, sampled(0)),
        request(&prompt(3, 0), 0, sampled(5)),
        request(&prompt(40, 0), 1, sampled(100)),
        request(&[1, 512], 1, sampled(5)),
        bad_parameter(SamplingParams { temperature: -1.0, ..sampled(5) }),
        bad_parameter(SamplingParams { temperature: f64::NAN, ..sampled(5) }),
        bad_parameter(SamplingParams { top_p: 0.0, ..sampled(5) }),
        bad_parameter(SamplingParams { min_p: 1.5, ..sampled(5) }),
        bad_parameter(SamplingParams { stop_strings: vec!["x".into()], ..sampled(5) }),
        good.clone(),
    ];
    let outcomes = generate(&mut engine, &requests);
    let alone = generate(&mut engine, &[good]).remove(0);
    let errors: Vec<&RequestError> = outcomes[1..12].iter().map(|outcome| outcome.as_ref().unwrap_err()).collect();
    assert_eq!(errors[0], &RequestError::EmptyPrompt);
    assert_eq!(errors[1], &RequestError::PromptTooLong { tokens: context, context });
    assert_eq!(errors[2], &RequestError::NoNewTokens);
    assert_eq!(errors[3], &RequestError::NoSamples);
    assert!(matches!(errors[4], RequestError::CacheTooSmall(too_large) if too_large.cache_tokens == 128));
    assert_eq!(errors[5], &RequestError::UnknownToken { id: 512, vocab_size: 512 });
    for (error, parameter) in errors[6..10].iter().zip(["temperature", "temperature", "top_p", "min_p"]) {
        assert!(matches!(error, RequestError::BadParameter { name, .. } if *name == parameter), "{error}");
    }
    assert_eq!(errors[10], &RequestError::NoDecoder);
    let expected: Vec<Vec<u32>> = alone.unwrap().into_iter().map(|completion| completion.token_ids).collect();
    for outcome in [&outcomes[0], &outcomes[12]] {
        let ids: Vec<Vec<u32>> =
            outcome.as_ref().unwrap().iter().map(|completion| completion.token_ids.clone()).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn generation_ends_at_the_context() {
    let model = load_fixture("qwen3-tied");
    let context = model.config().max_position_embeddings;
    let mut engine = Engine::new(&*model, LARGE).unwrap();
    let outcome = generate(&mut engine, &[request(&prompt(context - 5, 0), 1, sampled(50))]).remove(0).unwrap();
    assert_eq!((outcome[0].token_ids.len(), outcome[0].finish_reason), (5, FinishReason::Length));
}

#[test]
fn stop_ids_and_stop_strings_end_a_completion_with_the_token_that_completes_them() {
    let model = load_fixture("qwen3-tied");
    let mut engine = Engine::new(&*model, LARGE).unwrap();
    let free = generate(&mut engine, &[request(&prompt(9, 1), 1, sampled(40))]).remove(0).unwrap().remove(0);
    let cut = 17;
    let stop_id = free.token_ids[cut];
    let first = free.token_ids.iter().position(|id| *id == stop_id).unwrap();
    // Text of an id: its number and a bar, so a string of two ids spans a token boundary.
    let decode = |ids: &[u32]| ids.iter().map(|id| format!("{id}|")).collect::<String>();
    let stop_string = format!("|{}|{}|", free.token_ids[cut - 1], stop_id);
    let by_id = SamplingParams { stop_token_ids: vec![stop_id], ..sampled(40) };
    let by_string = SamplingParams { stop_strings: vec!["nowhere".into(), stop_string], ..sampled(40) };
    let requests = [request(&prompt(9, 1), 1, by_id), request(&prompt(9, 1), 1, by_string)];
    let outcomes = engine.generate(&requests, &mut Hooks { decode: Some(&decode), on_event: &mut |_| () });
    for (outcome, end) in outcomes.into_iter().zip([first, cut]) {
        let completion = outcome.unwrap().remove(0);
        assert_eq!(completion.token_ids, free.token_ids[..=end]);
        assert_eq!(completion.finish_reason, FinishReason::Stop);
    }
}

#[test]
fn events_tell_every_token_and_every_end_once() {
    let model = load_fixture("llama3-rope");
    let mut engine = Engine::new(&*model, LARGE).unwrap();
    let requests = requests();
    type Streamed = Vec<(Vec<u32>, bool)>;
    let streamed: RefCell<Vec<Streamed>> =
        RefCell::new(requests.iter().map(|request| vec![(Vec::new(), false); request.num_samples]).collect());
    let mut on_event = |event: Event<'_>| match event {
        Event::Token { request, sample, token_id, logprob } => {
            assert!(logprob <= 0.0);
            let (ids, finished) = &mut streamed.borrow_mut()[request][sample];
            assert!(!*finished);
            ids.push(token_id);
        }
        Event::Finished { request, sample, completion } => {
            let (ids, finished) = &mut streamed.borrow_mut()[request][sample];
            assert_eq!(*ids, completion.token_ids);
            assert!(!std::mem::replace(finished, true));
        }
    };
    let outcomes = engine.generate(&requests, &mut Hooks { decode: None, on_event: &mut on_event });
    for (outcome, streamed) in outcomes.into_iter().zip(streamed.into_inner()) {
        for (completion, (ids, finished)) in outcome.unwrap().into_iter().zip(streamed) {
            assert!(finished && ids == completion.token_ids);
        }
    }
}

#[test]
fn broken_weights_are_an_error_not_a_text() {
    let model = load_fixture("qwen3-tied");
    let _ = tch::no_grad(|| model.weights().leaves[1].tensor.get(0).fill_(f64::NAN));
    let outcomes = generate(&mut Engine::new(&*model, LARGE).unwrap(), &[request(&prompt(5, 0), 3, sampled(5))]);
    assert_eq!(outcomes[0], Err(RequestError::BrokenLogits { sample: 0, token: 0 }));
}

#[test]
fn impossible_limits_and_other_types_are_refused() {
    let model = load_fixture("qwen3-tied");
    let refused = |config: EngineConfig| Engine::new(&*model, config).unwrap_err();
    assert_eq!(refused(EngineConfig { cache_tokens: 0, ..LARGE }), EngineError::ZeroLimit("cache_tokens"));
    assert_eq!(refused(EngineConfig { max_sequences: 0, ..LARGE }), EngineError::ZeroLimit("max_sequences"));
    let config = EngineConfig { max_sequences: 9, max_step_tokens: 8, ..LARGE };
    assert_eq!(refused(config), EngineError::StepTooSmall { max_step_tokens: 8, max_sequences: 9 });
}

#[test]
fn an_engine_sees_every_update() {
    for name in FIXTURES {
        let model = load_fixture(name);
        let mut engine = Engine::new(&*model, LARGE).unwrap();
        let (prompt, completion) = (prompt(20, 1), prompt(12, 2));
        let before = engine.score(&prompt, &completion).unwrap().logprobs;
        let example = SftExample { prompt_ids: prompt.clone(), completion_ids: completion.clone(), loss_mask: None };
        let mut trainer = Trainer::new(&*model, AdamWParams::default(), TrainerParams::default());
        trainer.sft_update(&[example], 1e-2).unwrap();
        let after = engine.score(&prompt, &completion).unwrap().logprobs;
        assert_ne!(before, after, "{name}");
        let plain = tch::no_grad(|| plain_logprobs(&*model, &prompt, &completion, 1.0));
        let found = Tensor::from_slice(&after);
        let difference = (found - plain).abs().max().double_value(&[]);
        assert!(difference <= LOGIT_TOLERANCE, "{name}: {difference}");
    }
}
