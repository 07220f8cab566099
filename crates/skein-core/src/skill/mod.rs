//! What a skill is called, which skills exist, and how hard it is to switch from one to another.

mod key;

pub use key::{Domain, SkillKey, UnknownDomain, normalize_name};
