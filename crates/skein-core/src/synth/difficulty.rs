//! How hard procedural tasks are: one struct of sizes, and the levels that fill it in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The two sizes of procedural tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For models of a few million parameters trained from nothing: terse questions, small numbers, three-row tables.
    Tiny,
    /// For pretrained language models: full sentences, larger numbers and tables.
    Standard,
}

/// Which side of the content split tasks come from; no content occurs on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// For training.
    Train,
    /// Held out.
    Test,
}

macro_rules! named_choice {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$variant => $name),+ })
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                match name {
                    $($name => Ok($type::$variant),)+
                    _ => Err(format!("unknown {} `{name}`, expected {}", $what, [$($name),+].join(" or "))),
                }
            }
        }
    };
}

named_choice!(Level, "level", Tiny = "tiny", Standard = "standard");
named_choice!(Split, "split", Train = "train", Test = "test");

/// The sizes a level stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difficulty {
    /// Answers lie in 1..=`max_answer`.
    pub max_answer: i64,
    /// Numbers that a first step gives outright lie in 2..=`max_given`.
    pub max_given: i64,
    /// Numbers to add or subtract lie in 1..=`max_addend`.
    pub max_addend: i64,
    /// Numbers to multiply by lie in 2..=`max_factor`.
    pub max_factor: i64,
    /// Rows of a table.
    pub num_rows: usize,
    /// Columns of a table beside its keys and those asked about.
    pub num_spare_columns: usize,
    /// Options of a multiple-choice question.
    pub num_options: usize,
    /// Whether questions are clipped phrases instead of sentences.
    pub terse: bool,
}

impl Level {
    /// The sizes of this level.
    pub fn difficulty(self) -> Difficulty {
        match self {
            // Most answers are one digit, one token, so that looking one up in a table or among options is one match;
            // below 12 a skill that multiplies would have a single pair of numbers held out.
            Level::Tiny => Difficulty {
                max_answer: 12,
                max_given: 9,
                max_addend: 8,
                max_factor: 9,
                num_rows: 3,
                num_spare_columns: 0,
                num_options: 3,
                terse: true,
            },
            Level::Standard => Difficulty {
                max_answer: 400,
                max_given: 60,
                max_addend: 60,
                max_factor: 9,
                num_rows: 4,
                num_spare_columns: 2,
                num_options: 4,
                terse: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for level in [Level::Tiny, Level::Standard] {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for split in [Split::Train, Split::Test] {
            assert_eq!(split.to_string().parse(), Ok(split));
        }
        assert_eq!("huge".parse::<Level>(), Err("unknown level `huge`, expected tiny or standard".into()));
    }
}
