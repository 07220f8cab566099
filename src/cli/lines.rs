//! Reads JSONL files given on the command line; whatever is wrong with one is the user's to mend, so errors are usage errors.

use std::path::Path;

use anyhow::Result;
use serde::de::DeserializeOwned;

use super::UsageError;

/// The objects of a JSONL file with their line numbers, counted from 1; blank lines are skipped.
///
/// # Errors
/// When the file can't be read, holds nothing, or a line is no `T`: with file, line and what was expected.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<(usize, T)>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("{}: cannot read the file: {error}", path.display())))?;
    let mut items = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let item = serde_json::from_str(line).map_err(|error| refusal(path, index + 1, &error.to_string()))?;
        items.push((index + 1, item));
    }
    if items.is_empty() {
        return Err(
            UsageError(format!("{}: the file is empty, expected one JSON object a line", path.display())).into()
        );
    }
    Ok(items)
}

/// The error for one line of a file.
pub fn refusal(path: &Path, line: usize, problem: &str) -> UsageError {
    // serde_json counts lines inside the text it was given, which is always one line here.
    UsageError(format!("{}:{line}: {}", path.display(), problem.replace(" at line 1 column ", " at column ")))
}
