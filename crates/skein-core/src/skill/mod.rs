//! What a skill is called, which skills exist, and how hard it is to switch from one to another.

mod bank;
mod cell;
mod entropy;
mod key;

pub use bank::{Bank, BankError};
pub use cell::{Cell, Tally};
pub use entropy::{
    DEFAULT_ALPHA, EntropyError, EntropyTable, Estimate, FLATNESS_FACTOR, Level, Levels, Reference, Spread,
};
pub use key::{Domain, SkillKey, UnknownDomain, normalize_name};
