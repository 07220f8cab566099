//! Estimates a skill-entropy table: how well a reference model answers single questions and pairs of them.
//!
//! For every cell it makes instances, asks them at temperature 0 and records each score. The second question of a pair
//! is asked with the model's own answer to the first. The table is written after every chunk of cells, so an
//! interrupted estimate goes on where it stopped.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use skein_core::reward::format::{StepCount, parse_response};
use skein_core::reward::scorers::{self, Graders};
use skein_core::skill::{Cell, EntropyTable, SkillKey};
use skein_core::synth::{Link, Synthesizer};
use skein_core::task::CrossSkillTask;
use skein_core::types::SamplingParams;
use skein_io::atomic::write_atomically;
use skein_io::tokenizer::Tokenizer;

use super::data::PromptEncoder;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::rollout::with_stops;
use super::state::StageEnd;
use crate::engine::{DrawOrigin, Engine, Hooks, Request};

/// Cells asked together: enough to fill a batch, few enough that little is lost.
const CELLS_PER_CHUNK: usize = 16;

/// What an estimate works with.
pub struct Estimator<'a, 'm> {
    /// The reference model.
    pub engine: &'a mut Engine<'m>,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Writes its prompts.
    pub encoder: PromptEncoder<'a>,
    /// Makes the instances.
    pub synthesizer: Synthesizer,
    /// Instances of a domain's or skill's own accuracy.
    pub single_instances: usize,
    /// Instances of a switch.
    pub pair_instances: usize,
    /// Tokens of an answer at most.
    pub max_new_tokens: usize,
}

impl Estimator<'_, '_> {
    /// Fills `table` over `skills` and keeps it in the file `out`.
    ///
    /// # Errors
    /// When a question cannot be made, asked or scored, or the file cannot be written.
    pub fn run(
        &mut self,
        table: &mut EntropyTable,
        skills: &[SkillKey],
        out: &Path,
        interrupt: &Interrupt,
    ) -> Result<StageEnd> {
        let cells = Cell::required(skills);
        let mut progress = Progress::new("cells", cells.len() as u64, 0);
        for (chunk, some) in cells.chunks(CELLS_PER_CHUNK).enumerate() {
            if interrupt.requested() {
                return Ok(StageEnd::Interrupted);
            }
            let mut instances = Vec::new();
            for cell in some {
                for index in table.tally(cell).count..self.instances(cell) as u64 {
                    instances.push((cell.clone(), self.synthesizer.instance(cell, Link::Independent, index)?));
                }
            }
            let scores = self.ask(&instances)?;
            for ((cell, _), score) in instances.into_iter().zip(scores) {
                table.record(cell, score)?;
            }
            write_atomically(out, table.to_json().as_bytes())?;
            progress.update(((chunk + 1) * CELLS_PER_CHUNK).min(cells.len()) as u64, "");
        }
        Ok(StageEnd::Finished)
    }

    fn instances(&self, cell: &Cell) -> usize {
        match cell {
            Cell::Domain(_) | Cell::Skill(_) => self.single_instances,
            Cell::DomainSkill(..) | Cell::SkillDomain(..) => self.pair_instances,
        }
    }

    /// One score per instance: the mean over its steps.
    fn ask(&mut self, instances: &[(Cell, CrossSkillTask)]) -> Result<Vec<f64>> {
        let wording = self.encoder.wording().clone();
        let firsts: Vec<String> = instances.iter().map(|(_, task)| wording.single(&task.steps[0])).collect();
        let first_answers = self.answers(&firsts)?;
        let pairs: Vec<usize> = (0..instances.len()).filter(|&index| instances[index].1.steps.len() == 2).collect();
        let seconds: Vec<String> = pairs
            .iter()
            .map(|&index| {
                let steps = &instances[index].1.steps;
                wording.second_of_two(&steps[0], &first_answers[index], &steps[1])
            })
            .collect();
        let second_answers = self.answers(&seconds)?;
        let graders = Graders::default();
        let deadline = Instant::now() + graders.time_limit;
        let mut scores = Vec::with_capacity(instances.len());
        for ((_, task), answer) in instances.iter().zip(&first_answers) {
            scores.push(scorers::score(&task.steps[0], answer, &graders, deadline)?);
        }
        for (&index, answer) in pairs.iter().zip(&second_answers) {
            let second = scorers::score(&instances[index].1.steps[1], answer, &graders, deadline)?;
            scores[index] = (scores[index] + second) / 2.0;
        }
        Ok(scores)
    }

    /// The model's answer to each message; all that it wrote where it did not keep the format.
    fn answers(&mut self, messages: &[String]) -> Result<Vec<String>> {
        let greedy = SamplingParams { temperature: 0.0, max_new_tokens: self.max_new_tokens, ..Default::default() };
        let params = with_stops(&greedy, self.tokenizer);
        let requests = messages
            .iter()
            .map(|message| {
                Ok(Request {
                    prompt_ids: self.encoder.message(message)?,
                    num_samples: 1,
                    params: params.clone(),
                    origin: DrawOrigin { seed: 0, step: 0, prompt: 0 },
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut hooks = Hooks { decode: None, on_event: &mut |_| {} };
        let mut answers = Vec::with_capacity(messages.len());
        for (message, completions) in messages.iter().zip(self.engine.generate(&requests, &mut hooks)) {
            let completions = completions.with_context(|| format!("asking: {message}"))?;
            let text = self.tokenizer.decode_visible(&completions[0].token_ids)?;
            let parsed = parse_response(&text, 1, StepCount::Strict);
            answers
                .push(parsed.map_or_else(|_| text.trim().to_owned(), |response| response.steps[0].answer.to_owned()));
        }
        Ok(answers)
    }
}
