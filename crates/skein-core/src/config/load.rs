//! From files and overrides to one table that knows where every value came from.
//!
//! Layers in order: the defaults, included files (deepest first), the file itself, each `--set`. Tables merge key by key,
//! anything else is replaced. The defaults are a layer like any other so that setting `eval.sampling.top_k` alone
//! keeps the other defaults of `eval.sampling`, which differ from those of a bare `SamplingParams`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::validate::Finding;
use super::{Checked, Config, ConfigError, Problem, contents, decode, validate};
use crate::excerpt::{QUOTED_CHARS, excerpt, excerpt_around};

/// Keys of which a later layer's choice replaces an earlier layer's.
fn alternatives(table_key: &str) -> &'static [&'static str] {
    match table_key {
        "model" => &["path", "scratch"],
        "reward.judge" => &["api", "model", "policy"],
        "sft.tasks" | "rl.tasks" | "eval.tasks" => &["file", "procedural"],
        _ => &[],
    }
}

pub(super) fn load(path: &Path, overrides: &[String]) -> Result<Config, ConfigError> {
    let (config, problems, _) = examine(path, overrides)?;
    if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
}

pub(super) fn check(path: &Path, overrides: &[String]) -> Checked {
    let (config, mut problems, layers) = match examine(path, overrides) {
        Ok(examined) => examined,
        Err(ConfigError { problems }) => return Checked { problems, warnings: Vec::new() },
    };
    let contents = contents::findings(&config);
    problems.extend(contents.problems.into_iter().map(|finding| layers.locate(finding)));
    Checked { problems, warnings: contents.warnings.into_iter().map(|finding| layers.locate(finding)).collect() }
}

/// The config as far as it can be read, and every problem with its values.
fn examine(path: &Path, overrides: &[String]) -> Result<(Config, Vec<Problem>, Layers), ConfigError> {
    let mut layers = Layers::new(path);
    layers.add_file(path, &mut Vec::new())?;
    layers.add_overrides(overrides)?;
    let (config, mut problems, broken) = decode::decode(&layers);
    for finding in validate::findings(&config) {
        if !finding.keys.iter().any(|key| broken.iter().any(|b| is_within(key, b) || is_within(b, key))) {
            problems.push(layers.locate(finding));
        }
    }
    Ok((config, problems, layers))
}

/// Whether `key` is `ancestor` or lies below it.
pub(super) fn is_within(key: &str, ancestor: &str) -> bool {
    key.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The merged table and, for every key that was set, where.
pub(super) struct Layers {
    pub table: Table,
    /// The file that was asked for, as a location for what nobody set.
    pub file: String,
    origins: BTreeMap<String, String>,
}

impl Layers {
    fn new(path: &Path) -> Self {
        let table = Table::try_from(Config::default()).expect("every section is a TOML table of plain values");
        Self { table, file: path.display().to_string(), origins: BTreeMap::new() }
    }

    /// A finding with the place where its first key that was set was set.
    fn locate(&self, Finding { mut keys, message }: Finding) -> Problem {
        let exact = keys.iter().find_map(|key| self.origins.get(key).cloned());
        let location = exact.or_else(|| self.origin(&keys[0])).unwrap_or_else(|| self.file.clone());
        Problem { location, key: keys.swap_remove(0), message }
    }

    /// Where `key`, or the nearest table around it, was set.
    pub fn origin(&self, key: &str) -> Option<String> {
        let mut key = key;
        loop {
            if let Some(location) = self.origins.get(key) {
                return Some(location.clone());
            }
            key = key.rsplit_once('.')?.0;
        }
    }

    /// Merges `path` over what is there, after the file it includes. `open` holds the files being included.
    fn add_file(&mut self, path: &Path, open: &mut Vec<PathBuf>) -> Result<(), ConfigError> {
        let name = path.display().to_string();
        let whole_file = |message: String| Problem { location: name.clone(), key: String::new(), message };
        let text = std::fs::read_to_string(path).map_err(|e| whole_file(format!("cannot read the config: {e}")))?;
        // A pipe has a path that resolves to nothing.
        open.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let (mut table, origins) = parse(&name, &text)?;
        if let Some(include) = table.remove("include") {
            let location = origins.get("include").cloned().unwrap_or_else(|| name.clone());
            let problem = |message: String| Problem { location: location.clone(), key: "include".into(), message };
            let Value::String(include) = include else {
                return Err(problem(format!("expected the path of one file, found {include}")).into());
            };
            let base = path.parent().unwrap_or(Path::new("")).join(&include);
            let resolved = base.canonicalize().map_err(|e| problem(format!("cannot read {}: {e}", base.display())))?;
            if open.contains(&resolved) {
                return Err(
                    problem(format!("{} is being read already: the files include each other", base.display())).into()
                );
            }
            self.add_file(&base, open)?;
        }
        open.pop();
        self.merge(table, &origins);
        Ok(())
    }

    fn add_overrides(&mut self, overrides: &[String]) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for text in overrides {
            let location = format!("--set {}", excerpt(text, QUOTED_CHARS));
            match parse_override(text) {
                Ok((keys, value)) => {
                    let mut table = Table::new();
                    let mut origins = BTreeMap::new();
                    record_origins(&keys.join("."), &value, &location, &mut origins);
                    let (last, parents) = keys.split_last().expect("a split string has at least one part");
                    table.insert((*last).to_owned(), value);
                    for key in parents.iter().rev() {
                        table = Table::from_iter([((*key).to_owned(), Value::Table(table))]);
                    }
                    self.merge(table, &origins);
                }
                Err(message) => problems.push(Problem { location, key: String::new(), message }),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
    }

    fn merge(&mut self, layer: Table, origins: &BTreeMap<String, String>) {
        merge_tables(&mut self.table, layer, "", &mut self.origins);
        self.origins.extend(origins.iter().map(|(key, location)| (key.clone(), location.clone())));
    }
}

fn merge_tables(below: &mut Table, above: Table, prefix: &str, origins: &mut BTreeMap<String, String>) {
    let is_chosen = |value: &Value| value.as_str() != Some("") && value.as_bool() != Some(false);
    let alternatives = alternatives(prefix);
    if alternatives.iter().any(|key| above.get(*key).is_some_and(is_chosen)) {
        for key in alternatives.iter().filter(|key| !above.contains_key(**key)) {
            below.remove(*key);
        }
    }
    for (key, value) in above {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge_tables(below, above, &path, origins),
            (_, value) => {
                origins.retain(|origin, _| !is_within(origin, &path));
                below.insert(key, value);
            }
        }
    }
}

/// A file's table and the `FILE:LINE` of each of its keys.
fn parse(file: &str, text: &str) -> Result<(Table, BTreeMap<String, String>), ConfigError> {
    let (spanned, errors) = toml::de::DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problems = errors.iter().map(|error| syntax_problem(file, text, error)).collect();
        return Err(ConfigError { problems });
    }
    let table = text.parse::<Table>().map_err(|error| syntax_problem(file, text, &error))?;
    let mut origins = BTreeMap::new();
    record_lines(spanned.get_ref(), "", &|offset| format!("{file}:{}", line_of(text, offset)), &mut origins);
    Ok((table, origins))
}

fn syntax_problem(file: &str, text: &str, error: &toml::de::Error) -> Problem {
    let Some(span) = error.span() else {
        return Problem { location: file.to_owned(), key: String::new(), message: error.message().to_owned() };
    };
    let line = line_of(text, span.start);
    let line_start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let source = text[line_start..].lines().next().unwrap_or("");
    let source = excerpt_around(source, span.start - line_start, QUOTED_CHARS);
    let message = format!("not valid TOML: {} in `{}`", error.message(), source.trim());
    Problem { location: format!("{file}:{line}"), key: String::new(), message }
}

/// The 1-based line that holds byte `offset` of `text`.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn record_lines(
    table: &toml::de::DeTable<'_>,
    prefix: &str,
    locate: &dyn Fn(usize) -> String,
    origins: &mut BTreeMap<String, String>,
) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        origins.insert(path.clone(), locate(key.span().start));
        if let toml::de::DeValue::Table(inner) = value.get_ref() {
            record_lines(inner, &path, locate, origins);
        }
    }
}

fn record_origins(path: &str, value: &Value, location: &str, origins: &mut BTreeMap<String, String>) {
    origins.insert(path.to_owned(), location.to_owned());
    if let Value::Table(inner) = value {
        for (key, value) in inner {
            record_origins(&format!("{path}.{key}"), value, location, origins);
        }
    }
}

/// `a.b=value` as its keys and value: the value is TOML, and whatever is not TOML is a string.
fn parse_override(text: &str) -> Result<(Vec<&str>, Value), String> {
    let (keys, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as rl.steps=20")?;
    let keys: Vec<&str> = keys.trim().split('.').collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err("expected KEY=VALUE with a dotted KEY, such as rl.steps=20".into());
    }
    let value = value.trim();
    Ok((keys, value.parse::<Value>().unwrap_or_else(|_| Value::String(value.to_owned()))))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
