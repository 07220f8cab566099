//! Skill entropy: how hard a switch between two skills is for a fixed reference model (arXiv 2608.05139, section 3.1).
//!
//! `SkE(a, b) = ((Acc(a) + Acc(b)) / 2 + α) / (Acc(a, b) + α)`, estimated for skills against domains and factorised:
//! `SkE(a, b) ≈ SkE(a, domain(b)) · SkE(domain(a), b)`. The table keeps counts and derives every ratio. A cell that was
//! not measured is an error that names it: no ratio is ever taken for 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Cell, Domain, SkillKey, Tally};
use crate::excerpt::{MESSAGE_CHARS, excerpt};
use crate::named_fields::NamedFields;

/// The smoothing constant α of the paper.
pub const DEFAULT_ALPHA: f64 = 0.1;

/// A table tells its cells apart when their spread exceeds this many median standard errors.
pub const FLATNESS_FACTOR: f64 = 3.0;

/// Why a table, or a number wanted from it, was refused.
#[derive(Debug, thiserror::Error)]
pub enum EntropyError {
    /// The file can't be read.
    #[error("{}: cannot read the entropy table: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not a table.
    #[error("{}: not an entropy table: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field, what was expected and what was found.
        problem: String,
    },
    /// A cell was never measured.
    #[error("the entropy table has no scores for `{0}`; measure it with `skein entropy estimate`")]
    MissingCell(Cell),
    /// A standard error needs two scores.
    #[error("the entropy table has fewer than two scores for `{0}`, so it has no standard error")]
    TooFewScores(Cell),
    /// A score outside [0, 1].
    #[error("score {score} for `{cell}` lies outside [0, 1]")]
    BadScore {
        /// The cell it was meant for.
        cell: Cell,
        /// The score.
        score: f64,
    },
    /// Levels need pairs of skills from different domains.
    #[error("the entropy table has no two skills from different domains, so there is no switch to grade")]
    NoSwitches,
}

/// A ratio and its standard error (delta method, the three accuracies independent).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The ratio.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// How far a table's ratios lie apart, and how well each is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// 10th percentile of the ratios.
    pub p10: f64,
    /// 90th percentile of the ratios.
    pub p90: f64,
    /// Median of their standard errors.
    pub median_standard_error: f64,
}

impl Spread {
    /// Whether the ratios differ by too little to teach anything: p90 − p10 under [`FLATNESS_FACTOR`] median standard
    /// errors, or no difference at all.
    pub fn is_flat(&self) -> bool {
        let width = self.p90 - self.p10;
        width <= 0.0 || width < FLATNESS_FACTOR * self.median_standard_error
    }
}

/// How hard a task's switches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Up to the first threshold.
    Low,
    /// Between the thresholds.
    Medium,
    /// Above the second threshold.
    High,
}

/// The entropies that part the levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// Up to here a switch is low.
    pub low_up_to: f64,
    /// Up to here a switch is medium, above it high.
    pub medium_up_to: f64,
}

impl Levels {
    /// The level of `entropy`, of a switch or of a task.
    pub fn level(&self, entropy: f64) -> Level {
        if entropy <= self.low_up_to {
            Level::Low
        } else if entropy <= self.medium_up_to {
            Level::Medium
        } else {
            Level::High
        }
    }
}

/// What the accuracies were measured with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The reference model: directory, hub id or a short description.
    pub model: String,
    /// The command that made the table.
    pub command: String,
}

/// Accuracies of a reference model over skills, domains and switches between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntropyTable {
    alpha: f64,
    reference: Reference,
    cells: BTreeMap<Cell, Tally>,
}

impl EntropyTable {
    /// A table without scores, with the paper's α.
    pub fn new(reference: Reference) -> Self {
        Self { alpha: DEFAULT_ALPHA, reference, cells: BTreeMap::new() }
    }

    /// The table that `data/entropy_table.json` holds, compiled in: the skills that have procedural generators.
    pub fn embedded() -> Self {
        const PATH: &str = "data/entropy_table.json";
        Self::parse(include_str!("../../../../data/entropy_table.json"), Path::new(PATH))
            .expect("a test reads the embedded table")
    }

    /// The table in the JSON file at `path`.
    ///
    /// # Errors
    /// When the file can't be read, has an unknown field or cell, α is not positive, or a cell's sums are impossible.
    pub fn load(path: &Path) -> Result<Self, EntropyError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| EntropyError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// The table in `text`; `path` is what errors call it. Errors as [`EntropyTable::load`], but for reading.
    pub fn parse(text: &str, path: &Path) -> Result<Self, EntropyError> {
        let fail = |problem| EntropyError::Invalid { path: path.to_owned(), problem };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let table = Self::deserialize(NamedFields(&mut deserializer))
            .and_then(|table| deserializer.end().map(|()| table))
            .map_err(|error| fail(excerpt(&error.to_string(), MESSAGE_CHARS).into_owned()))?;
        if !(table.alpha > 0.0 && table.alpha.is_finite()) {
            return Err(fail(format!("`alpha` is {}, expected a positive number", table.alpha)));
        }
        if let Some((cell, tally)) = table.cells.iter().find(|(_, tally)| !tally.is_possible()) {
            return Err(fail(format!("no scores in [0, 1] can have the sums of `{cell}`: {tally:?}")));
        }
        Ok(table)
    }

    /// The table as indented JSON, cells in order, ending with a newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a table is plain data with string keys") + "\n"
    }

    /// The smoothing constant α.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// What the accuracies were measured with.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Adds the score of one instance to `cell`. An interrupted estimate goes on at instance [`Tally::count`].
    ///
    /// # Errors
    /// When the score is not in [0, 1].
    pub fn record(&mut self, cell: Cell, score: f64) -> Result<(), EntropyError> {
        if !(0.0..=1.0).contains(&score) {
            return Err(EntropyError::BadScore { cell, score });
        }
        self.cells.entry(cell).or_default().add(score);
        Ok(())
    }

    /// What was counted in `cell` so far.
    pub fn tally(&self, cell: &Cell) -> Tally {
        self.cells.get(cell).copied().unwrap_or_default()
    }

    /// The skills with scores of their own, in order.
    pub fn skills(&self) -> Vec<SkillKey> {
        let skill = |cell: &Cell| if let Cell::Skill(skill) = cell { Some(skill.clone()) } else { None };
        self.cells.keys().filter_map(skill).collect()
    }

    /// That every pair of `skills` has an entropy.
    ///
    /// # Errors
    /// The first of [`Cell::required`] that has no scores.
    pub fn check_complete(&self, skills: &[SkillKey]) -> Result<(), EntropyError> {
        Cell::required(skills).iter().try_for_each(|cell| self.accuracy(cell).map(drop))
    }

    /// SkE(skill, domain): the ratio for leaving `skill` towards `domain`.
    ///
    /// # Errors
    /// A cell without scores.
    pub fn leaving(&self, skill: &SkillKey, domain: Domain) -> Result<f64, EntropyError> {
        self.ratio(skill, domain, &Cell::SkillDomain(skill.clone(), domain))
    }

    /// SkE(domain, skill): the ratio for entering `skill` from `domain`.
    ///
    /// # Errors
    /// A cell without scores.
    pub fn entering(&self, domain: Domain, skill: &SkillKey) -> Result<f64, EntropyError> {
        self.ratio(skill, domain, &Cell::DomainSkill(domain, skill.clone()))
    }

    /// SkE(from, to) ≈ SkE(from, domain(to)) · SkE(domain(from), to).
    ///
    /// # Errors
    /// A cell without scores.
    pub fn switch(&self, from: &SkillKey, to: &SkillKey) -> Result<f64, EntropyError> {
        Ok(self.leaving(from, to.domain())? * self.entering(from.domain(), to)?)
    }

    /// The mean entropy of the switches of a skill sequence, `None` when it has no switch.
    ///
    /// # Errors
    /// A cell without scores.
    pub fn sequence(&self, skills: &[SkillKey]) -> Result<Option<f64>, EntropyError> {
        let switches =
            skills.windows(2).map(|pair| self.switch(&pair[0], &pair[1])).collect::<Result<Vec<f64>, _>>()?;
        Ok((!switches.is_empty()).then(|| switches.iter().sum::<f64>() / switches.len() as f64))
    }

    /// All measured ratios with their standard errors, by their two-step cell, in order.
    ///
    /// # Errors
    /// A cell without scores, or with only one.
    pub fn estimates(&self) -> Result<Vec<(Cell, Estimate)>, EntropyError> {
        let pair = |cell: &Cell| match cell {
            Cell::SkillDomain(skill, domain) | Cell::DomainSkill(domain, skill) => Some((skill.clone(), *domain)),
            Cell::Skill(_) | Cell::Domain(_) => None,
        };
        let pairs = self.cells.keys().filter_map(|cell| Some((cell, pair(cell)?)));
        pairs.map(|(cell, (skill, domain))| Ok((cell.clone(), self.estimate(&skill, domain, cell)?))).collect()
    }

    /// The spread of the table's ratios against their standard errors.
    ///
    /// # Errors
    /// A cell without scores or with only one, or a table without ratios.
    pub fn spread(&self) -> Result<Spread, EntropyError> {
        let estimates = self.estimates()?;
        let sorted = |of: fn(&Estimate) -> f64| {
            let mut values: Vec<f64> = estimates.iter().map(|(_, estimate)| of(estimate)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (ratios, errors) = (sorted(|e| e.value), sorted(|e| e.standard_error));
        Ok(Spread {
            p10: quantile(&ratios, 0.1).ok_or(EntropyError::NoSwitches)?,
            p90: quantile(&ratios, 0.9).ok_or(EntropyError::NoSwitches)?,
            median_standard_error: quantile(&errors, 0.5).ok_or(EntropyError::NoSwitches)?,
        })
    }

    /// Levels by terciles of SkE(a, b) over all ordered pairs of the table's skills from different domains.
    ///
    /// # Errors
    /// A cell without scores, or no such pair.
    pub fn levels(&self) -> Result<Levels, EntropyError> {
        let skills = self.skills();
        let pairs = skills.iter().flat_map(|from| skills.iter().map(move |to| (from, to)));
        let mut entropies = pairs
            .filter(|(from, to)| from.domain() != to.domain())
            .map(|(from, to)| self.switch(from, to))
            .collect::<Result<Vec<f64>, _>>()?;
        entropies.sort_by(f64::total_cmp);
        Ok(Levels {
            low_up_to: quantile(&entropies, 1.0 / 3.0).ok_or(EntropyError::NoSwitches)?,
            medium_up_to: quantile(&entropies, 2.0 / 3.0).ok_or(EntropyError::NoSwitches)?,
        })
    }

    fn accuracy(&self, cell: &Cell) -> Result<f64, EntropyError> {
        self.tally(cell).accuracy().ok_or_else(|| EntropyError::MissingCell(cell.clone()))
    }

    fn variance(&self, cell: &Cell) -> Result<f64, EntropyError> {
        self.tally(cell).variance_of_mean().ok_or_else(|| EntropyError::TooFewScores(cell.clone()))
    }

    fn ratio(&self, skill: &SkillKey, domain: Domain, pair: &Cell) -> Result<f64, EntropyError> {
        let single = (self.accuracy(&Cell::Skill(skill.clone()))? + self.accuracy(&Cell::Domain(domain))?) / 2.0;
        Ok((single + self.alpha) / (self.accuracy(pair)? + self.alpha))
    }

    fn estimate(&self, skill: &SkillKey, domain: Domain, pair: &Cell) -> Result<Estimate, EntropyError> {
        let value = self.ratio(skill, domain, pair)?;
        let denominator = self.accuracy(pair)? + self.alpha;
        let numerator_variance =
            (self.variance(&Cell::Skill(skill.clone()))? + self.variance(&Cell::Domain(domain))?) / 4.0;
        let variance = (numerator_variance + value * value * self.variance(pair)?) / (denominator * denominator);
        Ok(Estimate { value, standard_error: variance.sqrt() })
    }
}

/// The `p`-quantile of `sorted`, linear between neighbours (NumPy's default), `None` when it is empty.
fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let place = p * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hand-computed decimals against sums and quotients of a few doubles.
    const TOLERANCE: f64 = 1e-12;

    fn a() -> SkillKey {
        SkillKey::new(Domain::Math, "A")
    }

    fn b() -> SkillKey {
        SkillKey::new(Domain::Science, "B")
    }

    /// `scores` are (how often, score).
    fn record(table: &mut EntropyTable, cell: &str, scores: &[(usize, f64)]) {
        let cell: Cell = cell.parse().expect("a cell's name");
        for &(times, score) in scores {
            (0..times).for_each(|_| table.record(cell.clone(), score).expect("a score in [0, 1]"));
        }
    }

    fn table() -> EntropyTable {
        let mut table = EntropyTable::new(Reference { model: "made by hand".into(), command: "none".into() });
        for (cell, scores) in [
            ("math", [(2, 1.0), (2, 0.0)]),
            ("science", [(3, 1.0), (1, 0.0)]),
            ("math/A", [(4, 1.0), (0, 0.0)]),
            ("science/B", [(1, 1.0), (3, 0.0)]),
            ("math/A -> math", [(9, 1.0), (1, 0.0)]),
            ("math/A -> science", [(2, 1.0), (3, 0.0)]),
            ("science/B -> math", [(2, 0.5), (3, 0.0)]),
            ("science/B -> science", [(4, 1.0), (6, 0.0)]),
            ("math -> math/A", [(4, 1.0), (1, 0.0)]),
            ("math -> science/B", [(3, 0.5), (7, 0.0)]),
            ("science -> math/A", [(2, 1.0), (2, 0.0)]),
            ("science -> science/B", [(1, 1.0), (4, 0.0)]),
        ] {
            record(&mut table, cell, &scores);
        }
        table
    }

    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < TOLERANCE, "{value} is not {expected}");
    }

    #[test]
    fn entropies_are_the_hand_computed_ratios() {
        let table = table();
        // ((1 + 0.75) / 2 + 0.1) / (0.4 + 0.1) and ((0.5 + 0.25) / 2 + 0.1) / (0.15 + 0.1).
        assert_close(table.leaving(&a(), Domain::Science).expect("measured"), 1.95);
        assert_close(table.entering(Domain::Math, &b()).expect("measured"), 1.9);
        assert_close(table.switch(&a(), &b()).expect("measured"), 1.95 * 1.9);
        // ((0.25 + 0.5) / 2 + 0.1) / (0.2 + 0.1) and ((0.75 + 1) / 2 + 0.1) / (0.5 + 0.1).
        let back = 0.475 / 0.3 * (0.975 / 0.6);
        assert_close(table.switch(&b(), &a()).expect("measured"), back);
        // ((1 + 0.5) / 2 + 0.1) / (0.9 + 0.1) and the same over (0.8 + 0.1).
        assert_close(table.switch(&a(), &a()).expect("measured"), 0.85 * (0.85 / 0.9));
        let there_and_back = table.sequence(&[a(), b(), a()]).expect("measured").expect("two switches");
        assert_close(there_and_back, (1.95 * 1.9 + back) / 2.0);
        assert_eq!(table.sequence(&[a()]).expect("nothing to measure"), None);
    }

    #[test]
    fn standard_errors_follow_the_delta_method() {
        let estimates = table().estimates().expect("two scores a cell");
        assert_eq!(estimates.len(), 8);
        let (_, estimate) = estimates.iter().find(|(cell, _)| cell.to_string() == "math/A -> science").expect("there");
        assert_close(estimate.value, 1.95);
        // Var Acc(A) = 0, Var Acc(science) = 0.75/3/4, Var Acc(A, science) = 1.2/4/5.
        assert_close(estimate.standard_error, ((0.0625 / 4.0 + 1.95 * 1.95 * 0.06) / 0.25_f64).sqrt());
    }

    #[test]
    fn missing_cells_are_named() {
        let mut table = table();
        assert!(table.check_complete(&[a(), b()]).is_ok());
        let c = SkillKey::new(Domain::Logic, "C");
        let message = table.check_complete(&[a(), b(), c.clone()]).expect_err("not measured").to_string();
        assert!(message.contains("no scores for `logic`"), "{message}");
        let message = table.switch(&a(), &c).expect_err("not measured").to_string();
        assert!(message.contains("`logic`"), "{message}");
        table.cells.remove(&"science -> math/A".parse().expect("a cell"));
        let message = table.check_complete(&[a(), b()]).expect_err("removed").to_string();
        assert!(message.contains("`science -> math/A`"), "{message}");
    }

    #[test]
    fn a_table_is_flat_until_its_ratios_differ_by_three_errors() {
        // 400 scores a cell put the standard errors of ratios around 1 near 0.05.
        let even = |leaving: usize| {
            let mut table = EntropyTable::new(Reference::default());
            for cell in Cell::required(&[a(), b()]) {
                let right = if matches!(cell, Cell::SkillDomain(..)) { leaving } else { 280 };
                record(&mut table, &cell.to_string(), &[(right, 1.0), (400 - right, 0.0)]);
            }
            table.spread().expect("measured")
        };
        assert!(even(280).is_flat() && even(260).is_flat());
        let far = even(150);
        assert!(!far.is_flat());
        // Ratios 0.8 / 0.8 and 0.8 / (0.375 + 0.1), four of each.
        assert_close(far.p10, 1.0);
        assert_close(far.p90, 0.8 / 0.475);
        let saturated = Spread { p10: 1.0, p90: 1.0, median_standard_error: 0.0 };
        assert!(saturated.is_flat());
    }

    #[test]
    fn levels_are_terciles_of_switches_between_domains() {
        let levels = table().levels().expect("two domains");
        let (there, back) = (1.95 * 1.9, 0.475 / 0.3 * (0.975 / 0.6));
        assert_close(levels.low_up_to, back + (there - back) / 3.0);
        assert_close(levels.medium_up_to, back + (there - back) * 2.0 / 3.0);
        assert_eq!([back, 3.0, there].map(|e| levels.level(e)), [Level::Low, Level::Medium, Level::High]);
        let message = EntropyTable::new(Reference::default()).levels().expect_err("empty").to_string();
        assert!(message.contains("no two skills from different domains"), "{message}");
    }

    #[test]
    fn quantiles_interpolate_like_numpy() {
        for (p, expected) in [(0.0, 1.0), (0.1, 1.3), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            assert_close(quantile(&[1.0, 2.0, 4.0, 8.0], p).expect("not empty"), expected);
        }
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn tables_survive_their_file() {
        let table = table();
        assert_eq!(EntropyTable::parse(&table.to_json(), Path::new("t")).expect("just written"), table);
        assert_eq!(table.skills(), [a(), b()]);
    }

    #[test]
    fn bad_tables_and_scores_are_refused() {
        let good = table().to_json();
        for (from, to, expected) in [
            ("\"alpha\": 0.1", "\"alpha\": 0.0", "`alpha` is 0"),
            ("\"math/A\"", "\"maths/A\"", "unknown domain `maths`"),
            ("\"count\": 5", "\"count\": 1", "no scores in [0, 1] can have the sums of"),
            ("\"reference\"", "\"referee\"", "unknown field `referee`"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from} occurs");
            let message = EntropyTable::parse(&bad, Path::new("t.json")).expect_err("bad").to_string();
            assert!(message.starts_with("t.json: ") && message.contains(expected), "{message} lacks {expected}");
        }
        let mut table = table();
        for score in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(table.record(Cell::Skill(a()), score), Err(EntropyError::BadScore { .. })));
        }
        table.record(Cell::Skill(SkillKey::new(Domain::Math, "C")), 1.0).expect("in range");
        record(&mut table, "math/C -> math", &[(1, 1.0)]);
        assert!(matches!(table.spread(), Err(EntropyError::TooFewScores(_))));
    }
}
