//! The list of differences and how it is shown.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};
use tch::Tensor;

use crate::models::{Entry, Weights};

/// Log-probs in f32, and logits up to a magnitude of 10: sums in another order than the reference's.
pub(super) const LOGPROB_TOLERANCE: f64 = 1e-4;
/// Of the largest logit. Thirty layers lose that much in f32: transformers' own padded and unpadded logits of
/// SmolLM2-135M differ by 2e-4 where the largest is 32.
pub(super) const RELATIVE_LOGIT_TOLERANCE: f64 = 1e-5;
/// Losses are means of log-probs.
pub(super) const LOSS_TOLERANCE: f64 = 1e-4;
/// AdamW divides each gradient by its own size, so where a gradient is all rounding its sign decides over a whole
/// learning rate; later losses of a deep model show it.
pub(super) const ADAMW_LOSS_TOLERANCE: f64 = 1e-3;
/// Relative. A gradient norm adds up thousands of rounded products.
const GRAD_NORM_TOLERANCE: f64 = 1e-3;
/// Relative. A forgotten weight decay of the reference's 0.01 would show as 3e-5.
const PARAM_NORM_TOLERANCE: f64 = 1e-5;
/// Elements of a vector of length one.
pub(super) const EMBEDDING_TOLERANCE: f64 = 1e-4;
/// Tokens are equal or they are not.
pub(super) const TOKEN_TOLERANCE: f64 = 0.0;
/// Norms below this are compared as if they were this: their relative difference means nothing.
const SMALLEST_NORM: f64 = 1e-6;

/// One quantity compared.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    /// Which code computed it: `plain`, `cached` or `packed`.
    path: &'static str,
    /// How the rows were laid out.
    layout: &'static str,
    /// What was compared, with the parameter's name where there is one.
    quantity: String,
    /// Largest absolute difference, or the relative one of norms, or the number of tokens that differ.
    difference: f64,
    tolerance: f64,
    passed: bool,
}

/// All quantities compared so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    differences: Vec<Difference>,
}

/// Adds what one path computes in one layout.
pub(super) struct Section<'a> {
    comparison: &'a mut Comparison,
    path: &'static str,
    layout: &'static str,
}

impl Comparison {
    pub(super) fn section(&mut self, path: &'static str, layout: &'static str) -> Section<'_> {
        Section { comparison: self, path, layout }
    }

    pub(super) fn len(&self) -> usize {
        self.differences.len()
    }

    pub(super) fn num_failed(&self) -> usize {
        self.differences.iter().filter(|difference| !difference.passed).count()
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "passed": self.num_failed() == 0, "differences": self.differences })
    }
}

impl Section<'_> {
    pub(super) fn add(&mut self, quantity: impl Into<String>, difference: f64, tolerance: f64) {
        let Self { path, layout, .. } = *self;
        let (quantity, passed) = (quantity.into(), difference <= tolerance);
        self.comparison.differences.push(Difference { path, layout, quantity, difference, tolerance, passed });
    }

    /// Adds the gradient norm of every checkpoint tensor.
    pub(super) fn add_grad_norms(&mut self, weights: &Weights, expected: &BTreeMap<String, f64>) {
        let norm = |entry: &Entry| weights.grad_rows(entry).map_or(0.0, |grad| norm(&grad));
        self.add_norms("gradient", weights, norm, (expected, GRAD_NORM_TOLERANCE));
    }

    /// Adds the norm of every checkpoint tensor after the optimizer's steps.
    pub(super) fn add_param_norms(&mut self, weights: &Weights, expected: &BTreeMap<String, f64>) {
        let norm = |entry: &Entry| norm(&weights.rows(entry));
        self.add_norms("after AdamW", weights, norm, (expected, PARAM_NORM_TOLERANCE));
    }

    /// Relative differences of norms by name. A name that only one side has counts as infinitely different.
    fn add_norms(
        &mut self,
        what: &str,
        weights: &Weights,
        norm: impl Fn(&Entry) -> f64,
        (expected, tolerance): (&BTreeMap<String, f64>, f64),
    ) {
        for entry in &weights.entries {
            let difference = expected
                .get(&entry.name)
                .map_or(f64::INFINITY, |expected| (norm(entry) - expected).abs() / expected.abs().max(SMALLEST_NORM));
            self.add(format!("{what} {}", entry.name), difference, tolerance);
        }
        for name in expected.keys().filter(|&name| !weights.entries.iter().any(|entry| entry.name == *name)) {
            self.add(format!("{what} {name}"), f64::INFINITY, tolerance);
        }
    }
}

fn norm(tensor: &Tensor) -> f64 {
    tensor.norm().double_value(&[])
}

/// The larger of two, NaN if either is.
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The largest absolute value; NaN if any element is NaN.
pub(super) fn max_abs(difference: &Tensor) -> f64 {
    difference.abs().max().double_value(&[])
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Difference { path, layout, quantity, difference, tolerance, passed } in &self.differences {
            let verdict = if *passed { "ok  " } else { "FAIL" };
            writeln!(f, "{verdict} {path:<6} {layout:<13} {difference:9.2e} (at most {tolerance:.0e})  {quantity}")?;
        }
        writeln!(f, "{} of {} differences within tolerance", self.len() - self.num_failed(), self.len())
    }
}
