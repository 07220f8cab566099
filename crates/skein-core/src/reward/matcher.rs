//! Which bank skill a label names: an exact match after normalisation, else, where an embedder is given, the nearest.
//!
//! What cannot be matched is out of the bank, which is an outcome, not an error. Embeddings come from outside through
//! [`Embed`]; nothing here runs a model.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::format::SkillLabel;
use crate::skill::{Bank, SkillKey};

/// Below this cosine the nearest skill is not the label's skill (the paper's threshold).
pub const DEFAULT_MIN_COSINE: f32 = 0.5;

/// Which side of a search a text is on; some embedders put an instruction before queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    /// A label that is looked up.
    Query,
    /// A bank key that can be found.
    Key,
}

/// Turns texts into vectors whose cosine measures likeness.
pub trait Embed: Send + Sync {
    /// One vector of unit length per text, all of the same dimension.
    ///
    /// # Errors
    /// Whatever the model reports, as text.
    fn embed(&self, texts: &[String], role: TextRole) -> Result<Vec<Vec<f32>>, String>;
}

/// An embedder failed; the label is neither in nor out of the bank.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot embed skill labels: {0}")]
pub struct EmbedError(pub String);

/// Resolves labels to keys of one bank.
pub struct SkillMatcher {
    bank: Bank,
    nearest: Option<Nearest>,
}

struct Nearest {
    embedder: Box<dyn Embed>,
    min_cosine: f32,
    /// One unit vector per bank key, in bank order.
    vectors: Vec<Vec<f32>>,
    /// Rollouts repeat labels: what each text matched, as an index into the bank.
    cache: Mutex<HashMap<String, Option<usize>>>,
}

impl SkillMatcher {
    /// A matcher that knows exact names only.
    pub fn exact(bank: Bank) -> Self {
        Self { bank, nearest: None }
    }

    /// A matcher that falls back to the nearest key over all domains, if its cosine is at least `min_cosine`.
    ///
    /// # Errors
    /// When the embedder fails on the bank's own keys.
    pub fn nearest(bank: Bank, embedder: Box<dyn Embed>, min_cosine: f32) -> Result<Self, EmbedError> {
        let texts: Vec<String> =
            bank.keys().iter().map(|key| embedded_text(Some(key.domain().title()), key.skill())).collect();
        let vectors = embedder.embed(&texts, TextRole::Key).map_err(EmbedError)?;
        if vectors.len() != texts.len() {
            return Err(EmbedError(format!("{} vectors came back for {} texts", vectors.len(), texts.len())));
        }
        let nearest = Nearest { embedder, min_cosine, vectors, cache: Mutex::default() };
        Ok(Self { bank, nearest: Some(nearest) })
    }

    /// The bank's key for a label; none when the label is out of the bank.
    ///
    /// A label without a domain matches exactly only where a single domain has a skill of that name.
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn resolve(&self, label: &SkillLabel) -> Result<Option<&SkillKey>, EmbedError> {
        match (self.exact_key(label), &self.nearest) {
            (None, Some(nearest)) if !label.skill.is_empty() => {
                Ok(nearest.find(&embedded_text(label.domain, label.skill))?.map(|index| &self.bank.keys()[index]))
            }
            (exact, _) => Ok(exact),
        }
    }

    /// Embeds the labels among `labels` that no exact name resolves, all at once, so that [`SkillMatcher::resolve`] finds
    /// them in the cache.
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn prepare<'a>(&self, labels: impl Iterator<Item = SkillLabel<'a>>) -> Result<(), EmbedError> {
        let Some(nearest) = &self.nearest else { return Ok(()) };
        let texts: Vec<String> = labels
            .filter(|label| !label.skill.is_empty() && self.exact_key(label).is_none())
            .map(|label| embedded_text(label.domain, label.skill))
            .collect();
        nearest.look_up(&texts)
    }

    /// The `count` keys nearest to a label with their cosines, best first; none where the matcher has no embedder.
    ///
    /// # Errors
    /// When the embedder fails.
    pub fn nearest_keys(&self, label: &SkillLabel, count: usize) -> Result<Vec<(&SkillKey, f32)>, EmbedError> {
        let Some(nearest) = &self.nearest else { return Ok(Vec::new()) };
        let cosines = nearest.rank(&[embedded_text(label.domain, label.skill)])?.remove(0);
        let mut keys: Vec<(&SkillKey, f32)> = self.bank.keys().iter().zip(cosines).collect();
        keys.sort_by(|a, b| b.1.total_cmp(&a.1));
        keys.truncate(count);
        Ok(keys)
    }

    /// The bank's key that a label names exactly, after normalisation.
    pub fn exact_key(&self, label: &SkillLabel) -> Option<&SkillKey> {
        match label.domain {
            Some(domain) => self.bank.resolve(&SkillKey::new(domain.parse().ok()?, label.skill)),
            None => {
                let mut named = self.bank.named(label.skill);
                named.next().filter(|_| named.next().is_none())
            }
        }
    }
}

impl Nearest {
    fn find(&self, text: &str) -> Result<Option<usize>, EmbedError> {
        self.look_up(&[text.to_owned()])?;
        Ok(self.cached().get(text).copied().flatten())
    }

    /// Puts what each of `texts` matches into the cache; those not there yet are embedded together.
    fn look_up(&self, texts: &[String]) -> Result<(), EmbedError> {
        let mut unknown: Vec<String> = {
            let cache = self.cached();
            texts.iter().filter(|text| !cache.contains_key(*text)).cloned().collect()
        };
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        let ranked = self.rank(&unknown)?;
        let mut cache = self.cached();
        for (text, cosines) in unknown.into_iter().zip(ranked) {
            let best = cosines.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
            cache.insert(text, best.filter(|&(_, cosine)| cosine >= self.min_cosine).map(|(index, _)| index));
        }
        Ok(())
    }

    /// For each text its cosine to every bank key, in bank order.
    fn rank(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.embedder.embed(texts, TextRole::Query).map_err(EmbedError)?;
        if vectors.len() != texts.len() {
            return Err(EmbedError(format!("{} vectors came back for {} labels", vectors.len(), texts.len())));
        }
        let cosine = |key: &[f32], vector: &[f32]| key.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
        Ok(vectors.iter().map(|vector| self.vectors.iter().map(|key| cosine(key, vector)).collect()).collect())
    }

    fn cached(&self) -> MutexGuard<'_, HashMap<String, Option<usize>>> {
        // A poisoned cache only means that another thread panicked between two inserts; its entries are whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is embedded for a label or key: `domain: skill`, or the skill alone where no domain was given.
fn embedded_text(domain: Option<&str>, skill: &str) -> String {
    domain.map_or_else(|| skill.to_owned(), |domain| format!("{domain}: {skill}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::skill::Domain;

    fn bank() -> Bank {
        Bank::of([
            SkillKey::new(Domain::Math, "Percentages"),
            SkillKey::new(Domain::Science, "Critical Thinking"),
            SkillKey::new(Domain::Logic, "Critical Thinking"),
        ])
    }

    /// Counts letters, which is enough to put `Percentage` beside `Percentages`.
    struct LetterCounts(Arc<AtomicUsize>);

    impl Embed for LetterCounts {
        fn embed(&self, texts: &[String], _: TextRole) -> Result<Vec<Vec<f32>>, String> {
            self.0.fetch_add(texts.len(), Ordering::Relaxed);
            let vector = |text: &String| {
                let mut counts = vec![0f32; 26];
                text.to_lowercase()
                    .bytes()
                    .filter(u8::is_ascii_lowercase)
                    .for_each(|b| counts[usize::from(b - b'a')] += 1.0);
                let norm = counts.iter().map(|c| c * c).sum::<f32>().sqrt().max(1.0);
                counts.into_iter().map(|c| c / norm).collect()
            };
            Ok(texts.iter().map(vector).collect())
        }
    }

    /// Loses the last vector of one side of a search.
    struct Forgetful(TextRole);

    impl Embed for Forgetful {
        fn embed(&self, texts: &[String], role: TextRole) -> Result<Vec<Vec<f32>>, String> {
            Ok(vec![vec![1.0]; texts.len() - usize::from(role == self.0)])
        }
    }

    fn label(text: &str) -> SkillLabel<'_> {
        SkillLabel::split(text)
    }

    #[test]
    fn exact_match_ignores_spelling_and_needs_an_unambiguous_name() {
        let matcher = SkillMatcher::exact(bank());
        let resolve = |text| matcher.resolve(&label(text)).unwrap().map(ToString::to_string);
        assert_eq!(resolve("MATH, per-centages").as_deref(), Some("Math, Percentages"));
        assert_eq!(resolve("percentages").as_deref(), Some("Math, Percentages"));
        assert_eq!(resolve("logic, critical_thinking").as_deref(), Some("Logic, Critical Thinking"));
        for text in ["Critical Thinking", "Science, Percentages", "Alchemy, Percentages", "Math, Percentage", ""] {
            assert_eq!(resolve(text), None, "{text}");
        }
    }

    #[test]
    fn nearest_key_is_taken_above_the_threshold_and_cached() {
        let calls = Arc::new(AtomicUsize::new(0));
        let matcher = SkillMatcher::nearest(bank(), Box::new(LetterCounts(calls.clone())), 0.9).unwrap();
        let resolve = |text| matcher.resolve(&label(text)).unwrap().map(ToString::to_string);
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        for _ in 0..4 {
            assert_eq!(resolve("Math, Percentage").as_deref(), Some("Math, Percentages"));
            assert_eq!(resolve("zzz"), None);
        }
        assert_eq!(resolve("math, percentages").as_deref(), Some("Math, Percentages"));
        assert_eq!(calls.load(Ordering::Relaxed), 5, "two new labels, each embedded once");
        let labels = ["Math, Percentage", "yyy", "logic, critical thinking", "yyy", ""];
        matcher.prepare(labels.iter().map(|text| label(text))).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 6, "one label is neither a name nor known");
        assert_eq!(resolve("yyy"), None);
        assert_eq!(calls.load(Ordering::Relaxed), 6);
        let nearest = matcher.nearest_keys(&label("Math, Percentage"), 2).unwrap();
        assert_eq!((nearest[0].0.to_string().as_str(), nearest.len()), ("Math, Percentages", 2));
        assert!(nearest[0].1 > nearest[1].1 && nearest[0].1 <= 1.0 + f32::EPSILON);
    }

    #[test]
    fn a_lost_vector_is_an_error_and_nobodys_match() {
        let matcher = |role| SkillMatcher::nearest(bank(), Box::new(Forgetful(role)), 0.5);
        let lost = |vectors: usize, texts: &str| EmbedError(format!("{vectors} vectors came back for {texts}"));
        assert_eq!(matcher(TextRole::Key).err(), Some(lost(2, "3 texts")));
        let matcher = matcher(TextRole::Query).unwrap();
        let labels = ["Math, Percentage", "zzz"].map(label);
        for _ in 0..2 {
            assert_eq!(matcher.prepare(labels.iter().copied()), Err(lost(1, "2 labels")));
            for label in &labels {
                assert_eq!(matcher.resolve(label), Err(lost(0, "1 labels")));
                assert_eq!(matcher.nearest_keys(label, 2), Err(lost(0, "1 labels")));
            }
        }
    }
}
