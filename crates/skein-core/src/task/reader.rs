//! Reads task files and refuses, with file and line, whatever could not be trained on or scored.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{CrossSkillTask, MAX_OPTIONS, option_letter};
use crate::excerpt::{QUOTED_CHARS, excerpt};
use crate::jsonl::{JsonlError, parse_jsonl};

/// Why a task file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadTasksError {
    /// The file can't be read, holds nothing, or a line is no JSON object with a task's fields.
    #[error(transparent)]
    Jsonl(#[from] JsonlError),
    /// A line has a task's fields, but not a task's values.
    #[error("{}:{line}: {problem}", path.display())]
    Task {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The field, what was expected and what was found.
        problem: String,
    },
}

/// The tasks of the file at `path`, in file order; blank lines are skipped.
///
/// # Errors
/// When the file can't be read, holds no task, or a line is not a valid task: bad JSON, an unknown or missing field,
/// an empty id, question or answer, an answer that is no option's letter, no steps, or an id used before.
pub fn read_tasks(path: &Path) -> Result<Vec<CrossSkillTask>, ReadTasksError> {
    read_numbered_tasks(path).map(without_lines)
}

/// The tasks of the file at `path`, each with its 1-based line. Errors as [`read_tasks`].
pub fn read_numbered_tasks(path: &Path) -> Result<Vec<(usize, CrossSkillTask)>, ReadTasksError> {
    let bytes = std::fs::read(path).map_err(|source| JsonlError::Read { path: path.to_owned(), source })?;
    parse_numbered_tasks(&bytes, path)
}

/// The tasks in `bytes`; `path` is what errors call them. Errors as [`read_tasks`], but for reading.
pub fn parse_tasks(bytes: &[u8], path: &Path) -> Result<Vec<CrossSkillTask>, ReadTasksError> {
    parse_numbered_tasks(bytes, path).map(without_lines)
}

fn without_lines(tasks: Vec<(usize, CrossSkillTask)>) -> Vec<CrossSkillTask> {
    tasks.into_iter().map(|(_, task)| task).collect()
}

pub(super) fn parse_numbered_tasks(bytes: &[u8], path: &Path) -> Result<Vec<(usize, CrossSkillTask)>, ReadTasksError> {
    let mut tasks = Vec::new();
    let mut first_lines = HashMap::new();
    for (line, task) in parse_jsonl::<CrossSkillTask>(bytes, path)? {
        let fail = |problem| ReadTasksError::Task { path: path.to_owned(), line, problem };
        check(&task).map_err(fail)?;
        if let Some(first) = first_lines.insert(task.id.clone(), line) {
            let id = excerpt(&task.id, QUOTED_CHARS);
            return Err(fail(format!("`id` `{id}` was already used on line {first}; ids must be unique")));
        }
        tasks.push((line, task));
    }
    Ok(tasks)
}

fn check(task: &CrossSkillTask) -> Result<(), String> {
    if task.id.trim().is_empty() {
        return Err("`id` is empty".to_owned());
    }
    if task.steps.is_empty() {
        return Err("`steps` is empty; a task needs at least one step".to_owned());
    }
    for (index, step) in task.steps.iter().enumerate() {
        for (field, text) in [("question", &step.question), ("answer", &step.answer), ("skill", &step.skill)] {
            if text.trim().is_empty() {
                return Err(format!("`steps[{index}].{field}` is empty"));
            }
        }
        let options = step.options.len();
        if options > MAX_OPTIONS {
            return Err(format!("`steps[{index}].options` has {options} options, at most {MAX_OPTIONS} are possible"));
        }
        if options > 0 && !(0..options).any(|option| step.answer == option_letter(option).to_string()) {
            let last = option_letter(options - 1);
            let answer = excerpt(&step.answer, QUOTED_CHARS);
            return Err(format!(
                "`steps[{index}].answer` is `{answer}`, expected the letter of an option, A to {last}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::Domain;

    const GOOD: &str =
        r#"{"id":"a","scenario":"","steps":[{"question":"1+1?","answer":"2","domain":"math","skill":"Sums"}]}"#;

    fn read(text: &str) -> Result<Vec<CrossSkillTask>, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tasks.jsonl");
        std::fs::write(&path, text).expect("writable");
        read_tasks(&path).map_err(|error| error.to_string().replace(&folder.path().display().to_string(), ""))
    }

    #[test]
    fn a_task_reads_and_writes_back_unchanged() {
        let tasks = read(GOOD).expect("the line is good");
        assert_eq!(tasks[0].steps[0].domain, Domain::Math);
        assert_eq!(serde_json::to_string(&tasks[0]).expect("a task is plain data"), GOOD);
    }

    #[test]
    fn structured_answers_are_kept_as_json_text() {
        for answer in [r#"{"type":"x","b":[1,2.5],"a":"é"}"#, "[[1,2],[3,4]]", "[]"] {
            let text = read(&GOOD.replace(r#""2""#, answer)).expect("objects and lists are answers");
            assert_eq!(text[0].steps[0].answer, answer);
            let written = serde_json::to_string(&text[0]).expect("a task is plain data");
            assert_eq!(read(&written).expect("what was written reads back"), text);
        }
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let step =
            |rest: &str| format!(r#"{{"id":"b","scenario":"","steps":[{{"question":"q","answer":"2",{rest}}}]}}"#);
        for (line, expected) in [
            (GOOD.to_owned(), "`id` `a` was already used on line 1"),
            ("{".to_owned(), "not valid JSON"),
            (step(r#""domain":"history","skill":"s""#), "field `steps[0].domain`: unknown variant `history`"),
            (step(r#""domain":"math""#), "field `steps[0]`: missing field `skill`"),
            (step(r#""domain":"math","skill":"s","option":[]"#), "unknown field `option`"),
            (step(r#""domain":"math","skill":"s""#).replace(r#""2""#, "2"), "`answer` is 2, expected a text"),
            (step(r#""domain":"math","skill":" ""#), "`steps[0].skill` is empty"),
            (step(r#""domain":"science","skill":"s","options":["x","y"]"#), "expected the letter of an option, A to B"),
            (r#"{"id":"b","scenario":"","steps":[]}"#.to_owned(), "`steps` is empty"),
            (r#"{"id":" ","scenario":"","steps":[]}"#.to_owned(), "`id` is empty"),
        ] {
            let message = read(&format!("{GOOD}\n\n{line}\n")).expect_err("the line is bad");
            assert!(
                message.starts_with("/tasks.jsonl:3: ") && message.contains(expected),
                "{message} lacks {expected}"
            );
        }
    }

    #[test]
    fn a_file_without_tasks_is_refused() {
        assert_eq!(read("\n \n"), Err("/tasks.jsonl: the file holds no records".into()));
    }
}
