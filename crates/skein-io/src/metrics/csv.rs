//! metrics.csv: one column per metric, `step` and `time` first.

use std::fs;
use std::path::Path;

use super::append::AppendFile;
use super::{MetricsError, Row};

/// A growing CSV file. A metric seen for the first time adds a column, for which the file is written anew.
pub(super) struct CsvFile {
    file: AppendFile,
    /// The metrics' columns, after `step` and `time`.
    columns: Vec<String>,
}

impl CsvFile {
    /// A file with the columns that `rows` will need and no row.
    pub fn create(path: &Path, rows: &[Row]) -> Result<Self, MetricsError> {
        let mut columns = Vec::new();
        for row in rows {
            add_columns(&mut columns, row);
        }
        Ok(Self { file: AppendFile::replace(path, header(&columns).as_bytes())?, columns })
    }

    /// Appends `row`.
    pub fn write(&mut self, row: &Row) -> Result<(), MetricsError> {
        let num_new = add_columns(&mut self.columns, row);
        if num_new > 0 {
            self.widen(num_new)?;
        }
        let mut line = format!("{},{}", row.step, row.time);
        for column in &self.columns {
            line.push(',');
            if let Some((_, value)) = row.values.iter().find(|(name, _)| name == column) {
                line.push_str(&value.to_string());
            }
        }
        self.file.append((line + "\n").as_bytes())
    }

    /// Writes the file anew with the current header, every row longer by `num_new` empty fields.
    fn widen(&mut self, num_new: usize) -> Result<(), MetricsError> {
        let path = self.file.path().to_owned();
        let text = fs::read_to_string(&path).map_err(MetricsError::io(&path))?;
        let mut content = header(&self.columns);
        // Rows hold numbers only, so the lines of the file are its rows.
        for row in text.lines().skip(1) {
            content.extend([row, &",".repeat(num_new), "\n"]);
        }
        self.file = AppendFile::replace(&path, content.as_bytes())?;
        Ok(())
    }
}

/// Adds the metrics of `row` that `columns` lacks and returns how many those were.
fn add_columns(columns: &mut Vec<String>, row: &Row) -> usize {
    let before = columns.len();
    for (name, _) in &row.values {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    columns.len() - before
}

fn header(columns: &[String]) -> String {
    let mut header = "step,time".to_owned();
    for column in columns {
        header.push(',');
        // A name is on one line: control characters have no place in it.
        let name: String = column.chars().filter(|c| !c.is_control()).collect();
        if name.contains([',', '"']) {
            header.extend(["\"", &name.replace('"', "\"\""), "\""]);
        } else {
            header.push_str(&name);
        }
    }
    header + "\n"
}
