//! From the merged table to [`Config`], reporting every wrong key and type instead of the first.
//!
//! serde stops at the first mistake, so a mistake is recorded, its value removed, and the rest decoded again. The words
//! serde uses for Rust types are replaced by words for TOML values.

use serde_path_to_error::Segment;
use toml::{Table, Value};

use super::load::{Layers, is_within};
use super::{Config, Problem};
use crate::excerpt::{QUOTED_CHARS, excerpt};
use crate::named_fields::NamedFields;

/// Similarity (Jaro-Winkler, 0 to 1) above which a known name is offered for an unknown one.
const SUGGESTION_SIMILARITY: f64 = 0.7;

/// The config as far as it decodes, the problems, and the keys whose values were wrong (their defaults stand in).
pub(super) fn decode(layers: &Layers) -> (Config, Vec<Problem>, Vec<String>) {
    let mut table = layers.table.clone();
    let mut problems = Vec::new();
    let mut broken: Vec<String> = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize::<_, Config>(NamedFields(Value::Table(table.clone()))) {
            Ok(config) => return (config, problems, broken),
            Err(error) => error,
        };
        let segments = key_segments(error.path());
        let key = segments.join(".");
        // Taking a wrong value out of a table can make the table itself incomplete: one report is enough.
        if !broken.iter().any(|reported| is_within(reported, &key)) {
            let location = layers.origin(&key).unwrap_or_else(|| layers.file.clone());
            let message = explain(error.inner().message(), &key);
            problems.push(Problem { location, key: key.clone(), message });
        }
        if !remove(&mut table, &segments) {
            return (Config::default(), problems, vec![String::new()]);
        }
        broken.push(key);
    }
}

/// The keys of a path, up to the first array index.
fn key_segments(path: &serde_path_to_error::Path) -> Vec<String> {
    path.iter()
        .map_while(|segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { variant } => Some(variant.clone()),
            Segment::Seq { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// Removes the value at `segments`, or the nearest table or value around it; false when there is nothing to remove.
fn remove(table: &mut Table, segments: &[String]) -> bool {
    match segments {
        [] => false,
        [last] => table.remove(last).is_some(),
        [first, rest @ ..] => match table.get_mut(first) {
            Some(Value::Table(inner)) => remove(inner, rest) || table.remove(first).is_some(),
            Some(_) => table.remove(first).is_some(),
            None => false,
        },
    }
}

/// serde's message in a config author's words.
fn explain(message: &str, key: &str) -> String {
    if key.ends_with(".tasks") {
        return "expected { file = \"tasks.jsonl\" } or { procedural = { … } }".into();
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (_, known) = names(rest);
        let leaf = key.rsplit('.').next().unwrap_or(key);
        return match home_of(leaf).or_else(|| nearest(leaf, &known)) {
            Some(name) => format!("unknown key; did you mean `{name}`?"),
            None => format!("unknown key; known here: {}", known.join(", ")),
        };
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (found, known) = names(rest);
        let choices = known.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let hint = nearest(&found, &known).map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
        return format!("\"{}\" is not one of {choices}{hint}", excerpt(&found, QUOTED_CHARS));
    }
    let Some((found, expected)) = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "))
    else {
        return message.to_owned();
    };
    let expected = match expected {
        "f64" => "a number",
        "usize" | "u64" | "u32" => "a whole number, 0 or more",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "path string" => "a path in quotes",
        "a string" => "text in quotes",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    let found = match found {
        "sequence" => "an array",
        "map" => "a table",
        other => &excerpt(other, QUOTED_CHARS),
    };
    let example = example(key).map(|example| format!(", such as {example}")).unwrap_or_default();
    format!("expected {expected}{example}, found {found}")
}

/// A value of a key whose type alone does not tell what to write.
fn example(key: &str) -> Option<&'static str> {
    match key.split('.').collect::<Vec<_>>()[..] {
        ["stages"] => Some(r#"["sft", "rl"]"#),
        ["reward", "sandbox", "allow_missing"] => Some(r#"["landlock"]"#),
        ["reward", "scorers"] => Some(r#"{ math = { command = ["python3", "scorer.py"] } }"#),
        ["reward", "scorers", _] => Some(r#"{ command = ["python3", "scorer.py"] }"#),
        ["reward", "scorers", _, "command"] => Some(r#"["python3", "scorer.py"]"#),
        _ => None,
    }
}

/// The names in backquotes: the first, and all others.
fn names(message: &str) -> (String, Vec<String>) {
    let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
    (quoted.next().unwrap_or_default(), quoted.collect())
}

fn nearest(name: &str, known: &[String]) -> Option<String> {
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.clone())
}

/// `section.leaf` for a key that stands in the wrong section.
fn home_of(leaf: &str) -> Option<String> {
    let defaults = Table::try_from(Config::default()).ok()?;
    if defaults.contains_key(leaf) {
        return Some(leaf.to_owned());
    }
    defaults.iter().find_map(|(section, value)| value.get(leaf).map(|_| format!("{section}.{leaf}")))
}
