//! Names of domains and skills, and when two spellings are the same name.
//!
//! Nothing here knows which skills exist; that is the [bank](super::Bank)'s business.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The form in which names compare: lower case, without white space, hyphens and underscores.
pub fn normalize_name(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_' | '\u{2010}' | '\u{2011}'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// One of the nine fields that skills come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Numbers and expressions, compared by value.
    Math,
    /// Multiple choice.
    Science,
    /// Programs, judged by their tests.
    Coding,
    /// Grids and puzzles.
    Logic,
    /// Values read from a table or a text.
    InformationExtraction,
    /// Schedules and routes.
    Planning,
    /// Free text, judged by a rubric.
    CreativeWriting,
    /// Recall from a long context, judged by a rubric.
    ContextRetrieval,
    /// Constraints on the form of a text.
    InstructionFollowing,
}

impl Domain {
    /// All domains: the six verifiable ones, then the three open-ended ones.
    pub const ALL: [Domain; 9] = [
        Domain::Math,
        Domain::Science,
        Domain::Coding,
        Domain::Logic,
        Domain::InformationExtraction,
        Domain::Planning,
        Domain::CreativeWriting,
        Domain::ContextRetrieval,
        Domain::InstructionFollowing,
    ];

    /// The name in files and metrics: `information_extraction`.
    pub fn id(self) -> &'static str {
        match self {
            Domain::Math => "math",
            Domain::Science => "science",
            Domain::Coding => "coding",
            Domain::Logic => "logic",
            Domain::InformationExtraction => "information_extraction",
            Domain::Planning => "planning",
            Domain::CreativeWriting => "creative_writing",
            Domain::ContextRetrieval => "context_retrieval",
            Domain::InstructionFollowing => "instruction_following",
        }
    }

    /// The name in prompts and responses: `Information Extraction`.
    pub fn title(self) -> &'static str {
        match self {
            Domain::Math => "Math",
            Domain::Science => "Science",
            Domain::Coding => "Coding",
            Domain::Logic => "Logic",
            Domain::InformationExtraction => "Information Extraction",
            Domain::Planning => "Planning",
            Domain::CreativeWriting => "Creative Writing",
            Domain::ContextRetrieval => "Context Retrieval",
            Domain::InstructionFollowing => "Instruction Following",
        }
    }

    /// Whether answers have one gold value that a program can compare with.
    pub fn is_verifiable(self) -> bool {
        !matches!(self, Domain::CreativeWriting | Domain::ContextRetrieval | Domain::InstructionFollowing)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A name that is none of the nine domains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown domain `{0}`, expected one of math, science, coding, logic, information_extraction, planning, \
         creative_writing, context_retrieval, instruction_following"
)]
pub struct UnknownDomain(pub String);

impl FromStr for Domain {
    type Err = UnknownDomain;

    /// Reads any spelling that normalises to a domain's name.
    fn from_str(name: &str) -> Result<Self, UnknownDomain> {
        let wanted = normalize_name(name);
        Domain::ALL.into_iter().find(|d| normalize_name(d.id()) == wanted).ok_or_else(|| UnknownDomain(name.to_owned()))
    }
}

/// A skill together with its source domain; the same skill name in two domains is two keys.
///
/// Equality, order and hash follow the normalised name, so every spelling of a key is the same key.
#[derive(Debug, Clone)]
pub struct SkillKey {
    domain: Domain,
    skill: String,
    normalized: String,
}

impl SkillKey {
    /// The key of `skill` in `domain`, in the spelling given.
    pub fn new(domain: Domain, skill: impl Into<String>) -> Self {
        let skill = skill.into();
        let normalized = normalize_name(&skill);
        Self { domain, skill, normalized }
    }

    /// The source domain.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The skill's name as it was spelled.
    pub fn skill(&self) -> &str {
        &self.skill
    }

    fn comparable(&self) -> (Domain, &str) {
        (self.domain, &self.normalized)
    }
}

impl fmt::Display for SkillKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.domain.title(), self.skill)
    }
}

impl PartialEq for SkillKey {
    fn eq(&self, other: &Self) -> bool {
        self.comparable() == other.comparable()
    }
}

impl Eq for SkillKey {}

impl PartialOrd for SkillKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SkillKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.comparable().cmp(&other.comparable())
    }
}

impl Hash for SkillKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.comparable().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_compare_equal() {
        for spelling in
            ["Cross Column Analysis", "cross-column analysis", "CROSS_COLUMN_ANALYSIS", " crossColumnAnalysis\n"]
        {
            assert_eq!(
                SkillKey::new(Domain::Math, spelling),
                SkillKey::new(Domain::Math, "Cross Column Analysis"),
                "{spelling}"
            );
        }
        assert_ne!(SkillKey::new(Domain::Math, "Sorting"), SkillKey::new(Domain::Logic, "Sorting"));
        assert_ne!(SkillKey::new(Domain::Math, "Sorting"), SkillKey::new(Domain::Math, "Sortings"));
    }

    #[test]
    fn domains_read_back_from_both_of_their_names() {
        for domain in Domain::ALL {
            assert_eq!(domain.id().parse(), Ok(domain));
            assert_eq!(domain.title().parse(), Ok(domain));
            assert_eq!(serde_json::to_value(domain).expect("a domain is a string"), domain.id());
        }
        assert_eq!(Domain::ALL.iter().filter(|d| d.is_verifiable()).count(), 6);
        assert_eq!("history".parse::<Domain>(), Err(UnknownDomain("history".into())));
    }
}
