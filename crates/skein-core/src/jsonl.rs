//! Reads JSON Lines files, so that a bad line is reported by file, line and field.
//!
//! Whole files only: what Skein reads this way (tasks, prompts, responses) fits in memory many times over. Writing
//! needs atomic replacement and lives in `skein-io`.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::excerpt::{MESSAGE_CHARS, excerpt};
use crate::named_fields::NamedFields;

/// Why a JSONL file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JsonlError {
    /// The file cannot be opened or read.
    #[error("{}: cannot read the file: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A line that is not UTF-8.
    #[error("{}:{line}: the line is not valid UTF-8", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
    },
    /// A line that is not JSON, or not JSON of the expected shape.
    #[error("{}:{line}: {}{message}", path.display(), if field.is_empty() { String::new() } else { format!("field `{field}`: ") })]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// Dotted path of the offending field; empty when the whole line is meant.
        field: String,
        /// What was expected.
        message: String,
    },
    /// A file without a single record.
    #[error("{}: the file holds no records", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Every record of the file, with its 1-based line; blank lines are skipped.
///
/// # Errors
/// [`JsonlError::Empty`] when there is no record, else the first bad line.
pub fn read_jsonl<T: DeserializeOwned>(path: &Path) -> Result<Vec<(usize, T)>, JsonlError> {
    let bytes = std::fs::read(path).map_err(|source| JsonlError::Read { path: path.to_owned(), source })?;
    parse_jsonl(&bytes, path)
}

/// Every record in `bytes`; `path` is what errors call them. Errors as [`read_jsonl`], but for reading.
pub fn parse_jsonl<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Result<Vec<(usize, T)>, JsonlError> {
    let mut records = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let text = str::from_utf8(line).map_err(|_| JsonlError::Encoding { path: path.to_owned(), line: index + 1 })?;
        // Some editors open UTF-8 files with a byte order mark.
        let text = if index == 0 { text.trim_start_matches('\u{feff}') } else { text };
        if !text.trim().is_empty() {
            records.push((index + 1, parse_line(path, index + 1, text)?));
        }
    }
    if records.is_empty() { Err(JsonlError::Empty { path: path.to_owned() }) } else { Ok(records) }
}

fn parse_line<T: DeserializeOwned>(path: &Path, line: usize, text: &str) -> Result<T, JsonlError> {
    let bad = |field: String, error: &serde_json::Error| JsonlError::Line {
        path: path.to_owned(),
        line,
        field,
        message: describe(error),
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let record = serde_path_to_error::deserialize(NamedFields(&mut deserializer)).map_err(|error| {
        let field = error.path().to_string();
        let names_a_field = error.inner().is_data() && field != ".";
        bad(if names_a_field { field } else { String::new() }, error.inner())
    })?;
    deserializer.end().map_err(|error| bad(String::new(), &error))?;
    Ok(record)
}

/// serde_json's message with its position reduced to the column: the line within a line is always 1.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    if !error.is_data() {
        return format!("not valid JSON: {message} at column {}", error.column());
    }
    match message.rsplit_once(", expected struct ") {
        Some((found, _)) => format!("{}, expected an object", excerpt(found, MESSAGE_CHARS)),
        None => excerpt(message, MESSAGE_CHARS).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Step {
        answer: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Task {
        id: String,
        steps: Vec<Step>,
    }

    fn read(text: &[u8]) -> Result<Vec<(usize, Task)>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tasks.jsonl");
        std::fs::write(&path, text).unwrap();
        read_jsonl(&path).map_err(|e| e.to_string().replace(&dir.path().display().to_string(), ""))
    }

    #[test]
    fn records_keep_their_lines_over_blank_ones_and_carriage_returns() {
        let read = read(b"\xef\xbb\xbf{\"id\":\"a\",\"steps\":[]}\r\n\n{\"id\":\"b\",\"steps\":[{\"answer\":\"1\"}]}")
            .unwrap();
        assert_eq!(read[0], (1, Task { id: "a".into(), steps: vec![] }));
        assert_eq!(read[1], (3, Task { id: "b".into(), steps: vec![Step { answer: "1".into() }] }));
    }

    #[test]
    fn a_bad_line_is_named_by_file_line_and_field() {
        let good = "{\"id\":\"a\",\"steps\":[]}\n";
        for (bad, expected) in [
            (
                "{\"id\":\"b\",\"steps\":[{\"answer\":3}]}",
                "/tasks.jsonl:2: field `steps[0].answer`: invalid type: integer `3`, expected a string",
            ),
            ("{\"id\":\"b\"}", "/tasks.jsonl:2: missing field `steps`"),
            ("[\"b\",[]]", "/tasks.jsonl:2: invalid type: sequence, expected an object"),
            (
                "{\"id\":\"b\",\"steps\":[[\"1\"]]}",
                "/tasks.jsonl:2: field `steps[0]`: invalid type: sequence, expected an object",
            ),
            ("{\"id\":\"b\",", "/tasks.jsonl:2: not valid JSON: EOF while parsing a value at column 10"),
            ("{\"id\":\"b\",\"steps\":[]} x", "/tasks.jsonl:2: not valid JSON: trailing characters at column 23"),
        ] {
            assert_eq!(read(format!("{good}{bad}\n").as_bytes()).unwrap_err(), expected);
        }
        assert_eq!(
            read(b"{\"id\":\"a\",\"steps\":[]}\n\xff\n").unwrap_err(),
            "/tasks.jsonl:2: the line is not valid UTF-8"
        );
    }

    #[test]
    fn a_message_stays_short_however_long_the_line_is() {
        let long = "x".repeat(1 << 20);
        for line in [format!("{{\"id\":\"a\",\"steps\":\"{long}\"}}"), format!("\"{long}\"")] {
            let message = read(line.as_bytes()).unwrap_err();
            assert!(message.len() < 400 && message.contains("xxx…"), "{message}");
        }
    }

    #[test]
    fn empty_and_missing_files_are_errors() {
        assert_eq!(read(b"\n \n").unwrap_err(), "/tasks.jsonl: the file holds no records");
        let missing = read_jsonl::<Task>(Path::new("no/such.jsonl")).unwrap_err().to_string();
        assert!(missing.starts_with("no/such.jsonl: cannot read the file: "), "{missing}");
    }
}
