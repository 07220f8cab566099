//! The list of skills that exist, and the only judge of whether a label names one.
//!
//! Nothing here guesses: a label either normalises to a name in the bank or it does not.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Domain, SkillKey, normalize_name};
use crate::excerpt::{MESSAGE_CHARS, excerpt};
use crate::named_fields::NamedFields;

/// Why a bank was refused.
#[derive(Debug, thiserror::Error)]
pub enum BankError {
    /// The file can't be read.
    #[error("{}: cannot read the skill bank: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not a bank.
    #[error("{}: not a skill bank: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The domain or field, what was expected and what was found.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainEntry {
    bank_size: usize,
    skills: Vec<String>,
}

/// Skills by domain, each under its canonical spelling.
#[derive(Debug, Clone)]
pub struct Bank {
    keys: Vec<SkillKey>,
    known: HashSet<SkillKey>,
    full_sizes: BTreeMap<Domain, usize>,
}

impl Bank {
    /// The bank that `data/skills.toml` holds, compiled in.
    pub fn embedded() -> Self {
        Self::parse(include_str!("../../../../data/skills.toml"), Path::new("data/skills.toml"))
            .expect("a test reads the embedded bank")
    }

    /// The bank in the TOML file at `path`.
    ///
    /// # Errors
    /// When the file can't be read, has no skill, an unknown domain or field, a name that is empty or occurs twice in its
    /// domain, or more names than the domain's `bank_size`.
    pub fn load(path: &Path) -> Result<Self, BankError> {
        let text = std::fs::read_to_string(path).map_err(|source| BankError::Io { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// The bank in `text`; `path` is what errors call it. Errors as [`Bank::load`], but for reading.
    pub fn parse(text: &str, path: &Path) -> Result<Self, BankError> {
        let fail = |problem| BankError::Invalid { path: path.to_owned(), problem };
        let entries: BTreeMap<Domain, DomainEntry> = toml::Deserializer::parse(text)
            .and_then(|table| BTreeMap::deserialize(NamedFields(table)))
            .map_err(|error| {
                let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
                let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
                fail(place + &excerpt(error.message(), MESSAGE_CHARS))
            })?;
        let mut bank = Self { keys: Vec::new(), known: HashSet::new(), full_sizes: BTreeMap::new() };
        for (domain, DomainEntry { bank_size, skills }) in entries {
            if skills.len() > bank_size {
                let names = skills.len();
                return Err(fail(format!("[{domain}] lists {names} skills but its bank_size is {bank_size}")));
            }
            bank.full_sizes.insert(domain, bank_size);
            for name in skills {
                if normalize_name(&name).is_empty() {
                    return Err(fail(format!("[{domain}] has a skill without a name")));
                }
                let key = SkillKey::new(domain, name);
                if !bank.known.insert(key.clone()) {
                    return Err(fail(format!("[{domain}] lists `{}` twice (names compare normalised)", key.skill())));
                }
                bank.keys.push(key);
            }
        }
        if bank.keys.is_empty() {
            return Err(fail("it lists no skill; expected tables such as [math] with bank_size and skills".to_owned()));
        }
        Ok(bank)
    }

    /// The bank of exactly `keys`, as when only skills that an entropy table covers may count as known.
    pub fn of(keys: impl IntoIterator<Item = SkillKey>) -> Self {
        let mut bank = Self { keys: Vec::new(), known: HashSet::new(), full_sizes: BTreeMap::new() };
        for key in keys {
            if bank.known.insert(key.clone()) {
                *bank.full_sizes.entry(key.domain()).or_default() += 1;
                bank.keys.push(key);
            }
        }
        bank
    }

    /// All keys, domain by domain, in file order.
    pub fn keys(&self) -> &[SkillKey] {
        &self.keys
    }

    /// The bank's own key for any spelling of it, `None` when the label is out of the bank.
    pub fn resolve(&self, label: &SkillKey) -> Option<&SkillKey> {
        self.known.get(label)
    }

    /// The keys that bear `name`, one for each domain that has it.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &SkillKey> {
        Domain::ALL.into_iter().filter_map(move |domain| self.resolve(&SkillKey::new(domain, name)))
    }

    /// How many skills the full bank of `domain` has; the names listed can be fewer.
    pub fn full_size(&self, domain: Domain) -> usize {
        self.full_sizes.get(&domain).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Bank::parse(text, Path::new("bank.toml")).expect_err("the bank is bad").to_string()
    }

    #[test]
    fn the_embedded_bank_has_the_published_sizes() {
        let bank = Bank::embedded();
        assert_eq!(Domain::ALL.map(|d| bank.full_size(d)), [186, 137, 46, 14, 92, 34, 12, 12, 25]);
        let listed = |domain| bank.keys().iter().filter(|k| k.domain() == domain).count();
        assert_eq!(Domain::ALL.map(listed), [30, 30, 30, 14, 30, 30, 12, 12, 25]);
        assert_eq!(bank.keys().len(), 213);
    }

    #[test]
    fn labels_resolve_to_the_canonical_spelling() {
        let bank = Bank::embedded();
        let label = SkillKey::new(Domain::ContextRetrieval, "cross_turn consistency");
        assert_eq!(bank.resolve(&label).map(SkillKey::skill), Some("Cross-turn Consistency"));
        assert_eq!(bank.resolve(&SkillKey::new(Domain::Math, "Cross-turn Consistency")), None);
        let domains: Vec<_> = bank.named("critical thinking").map(SkillKey::domain).collect();
        assert_eq!(domains, [Domain::Science, Domain::Logic]);
    }

    #[test]
    fn a_bank_of_some_keys_knows_only_those() {
        let sorting = SkillKey::new(Domain::InformationExtraction, "Sorting");
        let bank = Bank::of([sorting.clone(), sorting.clone()]);
        assert_eq!(bank.keys(), [sorting]);
        assert_eq!(bank.named("Table Scanning").count(), 0);
    }

    #[test]
    fn bad_banks_are_refused_by_name() {
        for (text, expected) in [
            ("[maths]\nbank_size = 1\nskills = []", "unknown variant `maths`"),
            ("[math]\nbank_size = 1\nskill = []", "unknown field `skill`"),
            ("[math]\nbank_size = 1\nskills = [\"a\", \"b\"]", "[math] lists 2 skills but its bank_size is 1"),
            ("[math]\nbank_size = 2\nskills = [\"a b\", \"A-b\"]", "lists `A-b` twice"),
            ("[math]\nbank_size = 2\nskills = [\" \"]", "a skill without a name"),
            ("", "it lists no skill"),
            ("[math]\nbank_size = 2\nskills = []", "it lists no skill"),
            ("math = [1, [\"a\"]]", "line 1: invalid type: sequence, expected struct"),
        ] {
            let message = refusal(text);
            assert!(message.contains(expected) && message.starts_with("bank.toml: "), "{message} lacks {expected}");
        }
        assert!(matches!(Bank::load(Path::new("/nowhere.toml")), Err(BankError::Io { .. })));
    }
}
