//! The accuracies an entropy table is made of: what each is an accuracy of, and what was counted.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Domain, SkillKey};

/// One accuracy of the reference model.
///
/// Written `math/Sorting`, `math`, `math/Sorting -> science` and `science -> math/Sorting`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// Acc(d): single questions of a domain.
    Domain(Domain),
    /// Acc(s): single questions of a skill.
    Skill(SkillKey),
    /// Acc(d, s): two steps, the domain's question first.
    DomainSkill(Domain, SkillKey),
    /// Acc(s, d): two steps, the skill's question first.
    SkillDomain(SkillKey, Domain),
}

impl Cell {
    /// Every cell that a table over `skills` must have, each once, in order: their domains and the skills themselves,
    /// and both directions of every (skill, domain) pair, a skill's own domain included.
    pub fn required(skills: &[SkillKey]) -> Vec<Cell> {
        let skills: BTreeSet<&SkillKey> = skills.iter().collect();
        let domains: BTreeSet<Domain> = skills.iter().map(|s| s.domain()).collect();
        let mut cells: Vec<Cell> = domains.iter().map(|&d| Cell::Domain(d)).collect();
        for &skill in &skills {
            cells.push(Cell::Skill(skill.clone()));
            for &domain in &domains {
                cells.push(Cell::DomainSkill(domain, skill.clone()));
                cells.push(Cell::SkillDomain(skill.clone(), domain));
            }
        }
        cells.sort();
        cells
    }
}

fn skill_path(skill: &SkillKey) -> String {
    format!("{}/{}", skill.domain(), skill.skill())
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Domain(domain) => write!(f, "{domain}"),
            Cell::Skill(skill) => f.write_str(&skill_path(skill)),
            Cell::DomainSkill(domain, skill) => write!(f, "{domain} -> {}", skill_path(skill)),
            Cell::SkillDomain(skill, domain) => write!(f, "{} -> {domain}", skill_path(skill)),
        }
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let domain = |name: &str| name.trim().parse::<Domain>().map_err(|error| error.to_string());
        let skill = |path: &str| -> Result<SkillKey, String> {
            let (domain_name, name) = path.split_once('/').ok_or_else(|| format!("`{path}` is no domain/skill"))?;
            Ok(SkillKey::new(domain(domain_name)?, name.trim()))
        };
        match text.split_once(" -> ") {
            None if text.contains('/') => Ok(Cell::Skill(skill(text)?)),
            None => Ok(Cell::Domain(domain(text)?)),
            Some((first, second)) if second.contains('/') => Ok(Cell::DomainSkill(domain(first)?, skill(second)?)),
            Some((first, second)) => Ok(Cell::SkillDomain(skill(first)?, domain(second)?)),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Scores counted in one cell; accuracy and error are derived, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// How many instances were scored.
    pub count: u64,
    /// Sum of their scores, each in [0, 1].
    pub sum: f64,
    /// Sum of the squares of their scores.
    pub sum_squares: f64,
}

impl Tally {
    /// Counts one more score.
    pub fn add(&mut self, score: f64) {
        self.count += 1;
        self.sum += score;
        self.sum_squares += score * score;
    }

    /// The mean score, `None` before the first.
    pub fn accuracy(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The estimated variance of the mean score, `None` below two scores.
    pub fn variance_of_mean(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        let squared_deviations = (self.sum_squares - self.sum * self.sum / count).max(0.0);
        Some(squared_deviations / (count - 1.0) / count)
    }

    /// Whether any scores in [0, 1] can have these sums.
    pub fn is_possible(&self) -> bool {
        // Sums of decimal scores carry rounding; a unit in the ninth place is far above it and far below one score.
        const SLACK: f64 = 1e-9;
        let count = self.count as f64;
        let in_range = |value: f64, low: f64, high: f64| value >= low - SLACK && value <= high + SLACK;
        in_range(self.sum, 0.0, count)
            && in_range(self.sum_squares, 0.0, self.sum)
            && self.sum * self.sum <= self.sum_squares * count + SLACK * count.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(domain: Domain, name: &str) -> SkillKey {
        SkillKey::new(domain, name)
    }

    #[test]
    fn two_skills_of_two_domains_need_twelve_cells() {
        let (a, b) = (skill(Domain::Math, "A"), skill(Domain::Science, "B"));
        let names: Vec<String> = Cell::required(&[b.clone(), a, b]).iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "math",
                "science",
                "math/A",
                "science/B",
                "math -> math/A",
                "math -> science/B",
                "science -> math/A",
                "science -> science/B",
                "math/A -> math",
                "math/A -> science",
                "science/B -> math",
                "science/B -> science",
            ]
        );
    }

    #[test]
    fn cells_read_back_from_their_names() {
        for cell in Cell::required(&[skill(Domain::Math, "A b/c"), skill(Domain::Logic, "D")]) {
            assert_eq!(cell.to_string().parse(), Ok(cell));
        }
        for bad in ["maths", "math -> science", "math/A -> science/B", "a/b"] {
            assert!(bad.parse::<Cell>().is_err(), "{bad}");
        }
    }

    #[test]
    fn tallies_give_mean_and_standard_error() {
        let mut tally = Tally::default();
        assert_eq!((tally.accuracy(), tally.variance_of_mean()), (None, None));
        for score in [1.0, 0.0, 1.0, 0.5] {
            tally.add(score);
        }
        assert_eq!(tally.accuracy(), Some(0.625));
        // Deviations from 0.625: 0.375², 0.625², 0.375², 0.125² add up to 0.6875; over 3, over 4.
        let variance = tally.variance_of_mean().expect("four scores");
        assert!((variance - 0.6875 / 12.0).abs() < 1e-15, "{variance}");
    }

    #[test]
    fn impossible_tallies_are_told_apart() {
        let tally = |count, sum, sum_squares| Tally { count, sum, sum_squares };
        for possible in [tally(0, 0.0, 0.0), tally(4, 4.0, 4.0), tally(4, 2.0, 1.0), tally(3, 0.3, 0.03)] {
            assert!(possible.is_possible(), "{possible:?}");
        }
        for impossible in
            [tally(4, 5.0, 5.0), tally(4, 2.0, 2.5), tally(4, 2.0, 0.9), tally(1, -0.1, 0.0), tally(0, 1.0, 1.0)]
        {
            assert!(!impossible.is_possible(), "{impossible:?}");
        }
        assert!(!tally(4, f64::NAN, 1.0).is_possible());
    }
}
