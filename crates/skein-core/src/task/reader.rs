//! Reads task files and refuses, with file and line, whatever could not be trained on or scored.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{CrossSkillTask, MAX_OPTIONS, option_letter};

/// Why a task file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadTasksError {
    /// The file can't be read.
    #[error("{}: cannot read the task file: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file holds no task.
    #[error("{}: the task file is empty, expected one JSON object a line", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a task.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
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
    let text = std::fs::read_to_string(path).map_err(|source| ReadTasksError::Io { path: path.to_owned(), source })?;
    parse_tasks(&text, path)
}

/// The tasks in `text`; `path` is what errors call it. Errors as [`read_tasks`], but for reading.
pub fn parse_tasks(text: &str, path: &Path) -> Result<Vec<CrossSkillTask>, ReadTasksError> {
    let mut tasks = Vec::new();
    let mut first_lines = HashMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = index + 1;
        let fail = |problem| ReadTasksError::Line { path: path.to_owned(), line: number, problem };
        let task = parse_line(line).map_err(fail)?;
        if let Some(first) = first_lines.insert(task.id.clone(), number) {
            return Err(fail(format!("id `{}` was already used on line {first}; ids must be unique", task.id)));
        }
        tasks.push(task);
    }
    if tasks.is_empty() { Err(ReadTasksError::Empty { path: path.to_owned() }) } else { Ok(tasks) }
}

fn parse_line(line: &str) -> Result<CrossSkillTask, String> {
    let mut json = serde_json::Deserializer::from_str(line);
    let task: CrossSkillTask = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = match error.path().to_string() {
            path if path == "." || path == "?" => String::new(),
            path => format!("in `{path}`: "),
        };
        // serde_json counts lines inside the text it was given, which is always one line here.
        let message = error.inner().to_string().replace(" at line 1 column ", " at column ");
        format!("not a task: {place}{message}")
    })?;
    json.end().map_err(|_| "not a task: more text follows the JSON object; expected one object a line".to_owned())?;
    check(&task)?;
    Ok(task)
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
            let answer = &step.answer;
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

    fn refusal(line: &str) -> String {
        let text = format!("{GOOD}\n\n{line}\n");
        parse_tasks(&text, Path::new("tasks.jsonl")).expect_err("the line is bad").to_string()
    }

    #[test]
    fn a_task_reads_and_writes_back_unchanged() {
        let tasks = parse_tasks(GOOD, Path::new("t")).expect("the line is good");
        assert_eq!(tasks[0].steps[0].domain, Domain::Math);
        assert_eq!(serde_json::to_string(&tasks[0]).expect("a task is plain data"), GOOD);
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let step =
            |rest: &str| format!(r#"{{"id":"b","scenario":"","steps":[{{"question":"q","answer":"2",{rest}}}]}}"#);
        for (line, expected) in [
            (GOOD.to_owned(), "tasks.jsonl:3: id `a` was already used on line 1"),
            ("{".to_owned(), "tasks.jsonl:3: not a task: EOF"),
            (format!("{} {GOOD}", GOOD.replace("\"a\"", "\"b\"")), "more text follows"),
            (step(r#""domain":"history","skill":"s""#), "in `steps[0].domain`: unknown variant `history`"),
            (step(r#""domain":"math""#), "in `steps[0]`: missing field `skill`"),
            (step(r#""domain":"math","skill":"s","option":[]"#), "unknown field `option`"),
            (step(r#""domain":"math","skill":" ""#), "`steps[0].skill` is empty"),
            (step(r#""domain":"science","skill":"s","options":["x","y"]"#), "expected the letter of an option, A to B"),
            (r#"{"id":"b","scenario":"","steps":[]}"#.to_owned(), "`steps` is empty"),
        ] {
            let message = refusal(&line);
            assert!(message.contains(expected), "{message} lacks {expected}");
        }
    }

    #[test]
    fn a_file_without_tasks_is_refused() {
        let message = parse_tasks("\n \n", Path::new("none.jsonl")).expect_err("no task").to_string();
        assert!(message.starts_with("none.jsonl: the task file is empty"), "{message}");
        assert!(matches!(read_tasks(Path::new("/nowhere/tasks.jsonl")), Err(ReadTasksError::Io { .. })));
    }
}
