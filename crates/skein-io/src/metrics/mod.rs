//! A run's numbers, written down as they come: metrics.jsonl, metrics.csv, a TensorBoard event file.
//!
//! metrics.jsonl is the truth. When a run resumes, the records past the resumed step are dropped and the other two files
//! are made again from what is kept, so the three always agree. A record is written in one piece or not at all; a
//! number is never thrown away silently: every failure comes back to the caller.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use serde_json::{Map, Value};
use skein_core::excerpt::{MESSAGE_CHARS, QUOTED_CHARS, excerpt};

mod append;
mod csv;
mod tfevents;

use append::AppendFile;
use csv::CsvFile;
use tfevents::EventFile;

/// Why metrics could not be written or read back.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A new run in the directory of an old one.
    #[error("{}: the file is there already: the directory belongs to another run", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A line of metrics.jsonl that is none of ours.
    #[error("{}:{line}: not a metrics record: {message}; mend the line or remove it", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

impl MetricsError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Which files are kept beside metrics.jsonl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// metrics.csv.
    pub csv: bool,
    /// A TensorBoard event file.
    pub tensorboard: bool,
}

/// One row of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Steps of the whole run so far, over all stages.
    pub step: u64,
    /// Seconds since 1970.
    pub time: f64,
    /// Names and values; a value that was not finite is NaN.
    pub values: Vec<(String, f64)>,
}

/// Writes a run's metrics.
pub struct MetricsWriter {
    jsonl: AppendFile,
    csv: Option<CsvFile>,
    events: Option<EventFile>,
}

impl MetricsWriter {
    /// Begins the files of a new run in `directory`.
    ///
    /// # Errors
    /// [`MetricsError::Exists`] when there is a metrics.jsonl.
    pub fn create(directory: &Path, options: MetricsOptions) -> Result<Self, MetricsError> {
        let path = jsonl_path(directory);
        if path.exists() {
            return Err(MetricsError::Exists { path });
        }
        fs::create_dir_all(directory).map_err(MetricsError::io(directory))?;
        Self::open(directory, options, &[])
    }

    /// Continues the files of the run in `directory` after `step`: later records are dropped, and so is a last line that a
    /// kill cut short. Records that should be there and are not are warned of.
    pub fn resume(directory: &Path, options: MetricsOptions, step: u64) -> Result<Self, MetricsError> {
        let (mut rows, is_torn) = read_rows(&jsonl_path(directory))?;
        rows.retain(|row| row.step <= step);
        // A kill tears the record of a step that no checkpoint has seen yet.
        let last = rows.last().map_or(0, |row| row.step);
        let path = jsonl_path(directory);
        if last < step && (is_torn || rows.is_empty()) && path.exists() {
            tracing::warn!("{}: if steps {} to {step} had records, they are lost", path.display(), last + 1);
        }
        for entry in fs::read_dir(directory).map_err(MetricsError::io(directory))? {
            let path = entry.map_err(MetricsError::io(directory))?.path();
            if tfevents::is_event_file(&path) {
                fs::remove_file(&path).map_err(MetricsError::io(&path))?;
            }
        }
        Self::open(directory, options, &rows)
    }

    fn open(directory: &Path, options: MetricsOptions, rows: &[Row]) -> Result<Self, MetricsError> {
        let lines: String = rows.iter().map(json_line).collect();
        let mut csv = options.csv.then(|| CsvFile::create(&directory.join("metrics.csv"), rows)).transpose()?;
        let mut events = options.tensorboard.then(|| EventFile::create(directory, now())).transpose()?;
        for row in rows {
            csv.iter_mut().try_for_each(|csv| csv.write(row))?;
            events.iter_mut().try_for_each(|events| events.write(row))?;
        }
        // Last, so that a failure above leaves the truth as it was.
        let jsonl = AppendFile::replace(&jsonl_path(directory), lines.as_bytes())?;
        Ok(Self { jsonl, csv, events })
    }

    /// Appends one row. `step` counts the whole run's steps over all stages, so that every file has one axis. A value
    /// that is not finite is null in metrics.jsonl and NaN elsewhere.
    pub fn write(&mut self, step: u64, values: &[(&str, f64)]) -> Result<(), MetricsError> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let row = Row { step, time: now(), values };
        self.jsonl.append(json_line(&row).as_bytes())?;
        self.csv.iter_mut().try_for_each(|csv| csv.write(&row))?;
        self.events.iter_mut().try_for_each(|events| events.write(&row))
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn jsonl_path(directory: &Path) -> PathBuf {
    directory.join("metrics.jsonl")
}

fn json_line(row: &Row) -> String {
    let mut record = Map::new();
    record.insert("step".into(), row.step.into());
    record.insert("time".into(), row.time.into());
    // `Value::from` makes null of what is not finite.
    record.extend(row.values.iter().map(|(name, value)| (name.clone(), Value::from(*value))));
    Value::Object(record).to_string() + "\n"
}

/// The rows of the run in `directory`, in the order they were written; none where there are no metrics yet.
///
/// # Errors
/// A line that is no record, but for a last one that was cut short.
pub fn read_metrics(directory: &Path) -> Result<Vec<Row>, MetricsError> {
    read_rows(&jsonl_path(directory)).map(|(rows, _)| rows)
}

/// The rows of a metrics.jsonl, and whether its last line was not whole and is left out; none when there is no file.
fn read_rows(path: &Path) -> Result<(Vec<Row>, bool), MetricsError> {
    // Reading a pipe would wait for whoever writes it.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(MetricsError::io(path)(io::Error::other("this is not a file; remove it")));
    }
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), false)),
        Err(error) => return Err(MetricsError::io(path)(error)),
    };
    let mut rows = Vec::new();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        // A record and its line break are written in one piece: a line without one was cut short.
        let Some(line) = line.strip_suffix(b"\n") else { return Ok((rows, true)) };
        let record = |message: String| MetricsError::Record { path: path.to_owned(), line: index + 1, message };
        let fields: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| record(excerpt(&error.to_string(), MESSAGE_CHARS).into_owned()))?;
        let step = fields.get("step").and_then(Value::as_u64).ok_or_else(|| record("there is no step".into()))?;
        let time = fields.get("time").and_then(Value::as_f64).ok_or_else(|| record("there is no time".into()))?;
        let values = fields
            .into_iter()
            .filter(|(name, _)| name != "step" && name != "time")
            .map(|(name, value)| match value {
                Value::Null => Ok((name, f64::NAN)),
                value => match value.as_f64() {
                    Some(number) => Ok((name, number)),
                    None => Err(record(format!("`{}` is no number", excerpt(&name, QUOTED_CHARS)))),
                },
            })
            .collect::<Result<_, _>>()?;
        rows.push(Row { step, time, values });
    }
    Ok((rows, false))
}

#[cfg(test)]
mod tests;
