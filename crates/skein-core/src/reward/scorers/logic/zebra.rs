//! Zebra puzzles: who lives in which house with what, compared cell by cell.
//!
//! An answer is the last object with a `solution` (ZeroEval's form: house → column → value) or with `rows` (guru's form,
//! usually under a `header`), or else a Markdown table. Houses and columns are found by name, whatever its case and
//! spacing, values must agree up to case and outer blanks. The column that numbers the houses is no cell.

use std::borrow::Cow;

use serde::Deserialize;

use super::literal::{self, Literal, Map};

/// A solved puzzle: the first column numbers the houses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Solution {
    /// The columns' names.
    pub header: Vec<String>,
    /// One row for each house, as long as the header.
    pub rows: Vec<Vec<String>>,
}

impl Solution {
    /// What makes this no solution, if anything does.
    pub fn problem(&self) -> Option<&'static str> {
        if self.header.len() < 2 || self.rows.is_empty() {
            Some("has no cell: it needs a header of two columns and a row")
        } else if self.rows.iter().any(|row| row.len() != self.header.len()) {
            Some("has a row that is not as long as its header")
        } else if self.rows.iter().flatten().any(|cell| cell.trim().is_empty()) {
            Some("has an empty cell")
        } else {
            None
        }
    }

    /// How many cells there are, the house column left out.
    pub fn num_cells(&self) -> usize {
        self.rows.len() * (self.header.len() - 1)
    }

    /// How many cells an answer has right, the house column left out.
    pub fn num_correct(&self, answer: &str) -> usize {
        let maps = literal::maps(answer);
        if let Some(map) = maps.iter().rev().find(|map| Layout::of(map).is_some()) {
            return match Layout::of(map) {
                Some(Layout::Houses(houses)) => self.num_correct_in_houses(houses),
                Some(Layout::Table { header, rows }) => self.num_correct_in_table(&header, &rows),
                None => 0,
            };
        }
        let table = markdown_table(answer);
        match table.split_first() {
            Some((header, rows)) => self.num_correct_in_table(header, rows),
            None => 0,
        }
    }

    fn num_correct_in_houses(&self, houses: &Map) -> usize {
        let correct_in_row = |row: &Vec<String>| {
            let columns = houses.iter().find(|(name, _)| self.names_house(name, &row[0]));
            let Some((_, Literal::Map(columns))) = columns else { return 0 };
            let is_correct = |(name, gold): &(&String, &String)| {
                let cell = columns.iter().find(|(key, _)| same_name(key, name));
                cell.and_then(|(_, value)| cell_text(value)).is_some_and(|cell| same_value(&cell, gold))
            };
            self.header.iter().zip(row).skip(1).filter(is_correct).count()
        };
        self.rows.iter().map(correct_in_row).sum()
    }

    fn num_correct_in_table(&self, header: &[Cow<str>], rows: &[Vec<Cow<str>>]) -> usize {
        // Without a header the columns are taken to stand in the puzzle's order.
        let columns: Vec<Option<usize>> = if header.is_empty() {
            (0..self.header.len()).map(Some).collect()
        } else {
            self.header.iter().map(|name| header.iter().position(|given| same_name(given, name))).collect()
        };
        let correct_in_row = |(index, gold): (usize, &Vec<String>)| {
            let row = match columns[0] {
                Some(label) => rows.iter().find(|row| row.get(label).is_some_and(|l| self.names_house(l, &gold[0]))),
                None => rows.get(index),
            };
            let Some(row) = row else { return 0 };
            let is_correct = |(column, gold): &(&Option<usize>, &String)| {
                column.and_then(|column| row.get(column)).is_some_and(|cell| same_value(cell, gold))
            };
            columns.iter().zip(gold).skip(1).filter(is_correct).count()
        };
        self.rows.iter().enumerate().map(correct_in_row).sum()
    }

    /// Whether a name is a house's: `House 1`, or `1` alone.
    fn names_house(&self, name: &str, label: &str) -> bool {
        let folded: String = folded(name).collect();
        let column: String = folded_owned(&self.header[0]);
        folded.strip_prefix(&column).unwrap_or(&folded) == folded_owned(label)
    }

    /// The share of right cells by guru's rule for a whole answer: a JSON or Python literal whose `rows` are compared
    /// position by position and exactly, the house column included; 0 when a row or a cell is missing.
    pub fn exact_accuracy(&self, answer: &str) -> f64 {
        let Some(Literal::Map(map)) = literal::read(answer) else { return 0.0 };
        let Some(Literal::List(rows)) = entry(&map, "rows") else { return 0.0 };
        let mut num_correct = 0;
        for (index, gold) in self.rows.iter().enumerate() {
            let Some(Literal::List(row)) = rows.get(index) else { return 0.0 };
            if row.len() < gold.len() {
                return 0.0;
            }
            num_correct += gold.iter().zip(row).filter(|(gold, cell)| is_text(cell, gold)).count();
        }
        num_correct as f64 / (self.rows.len() * self.header.len()) as f64
    }
}

/// How an object lays out an answer.
enum Layout<'m, 'a> {
    Houses(&'m Map<'a>),
    Table { header: Vec<Cow<'a, str>>, rows: Vec<Vec<Cow<'a, str>>> },
}

impl<'m, 'a> Layout<'m, 'a> {
    fn of(map: &'m Map<'a>) -> Option<Self> {
        if let Some(Literal::Map(houses)) = entry(map, "solution") {
            return Some(Self::Houses(houses));
        }
        let Some(Literal::List(rows)) = entry(map, "rows") else { return None };
        let header = entry(map, "header").map(texts).unwrap_or_default();
        Some(Self::Table { header, rows: rows.iter().map(texts).collect() })
    }
}

fn entry<'m, 'a>(map: &'m Map<'a>, name: &str) -> Option<&'m Literal<'a>> {
    map.iter().find(|(key, _)| same_name(key, name)).map(|(_, value)| value)
}

/// A list's items as cells, empty where an item is none; nothing for what is no list.
fn texts<'a>(list: &Literal<'a>) -> Vec<Cow<'a, str>> {
    match list {
        Literal::List(items) => items.iter().map(|item| cell_text(item).unwrap_or_default()).collect(),
        _ => Vec::new(),
    }
}

/// A cell's text; of a list the first item counts. Nothing for a null and for an object.
fn cell_text<'a>(value: &Literal<'a>) -> Option<Cow<'a, str>> {
    match value {
        Literal::Text(text) => Some(text.clone()),
        Literal::Atom("null" | "None") => None,
        Literal::Atom(text) => Some(Cow::Borrowed(text)),
        Literal::List(items) => items.first().and_then(cell_text),
        Literal::Map(_) => None,
    }
}

fn is_text(value: &Literal, text: &str) -> bool {
    matches!(value, Literal::Text(given) if given == text)
}

fn same_value(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim(), b.trim());
    if a.is_ascii() && b.is_ascii() { a.eq_ignore_ascii_case(b) } else { a.to_lowercase() == b.to_lowercase() }
}

/// Whether two names agree up to case, blanks and the signs that stand for blanks.
fn same_name(a: &str, b: &str) -> bool {
    a == b || folded(a).eq(folded(b))
}

fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|c| !c.is_whitespace() && !matches!(c, '_' | '-')).flat_map(char::to_lowercase)
}

fn folded_owned(name: &str) -> String {
    folded(name).collect()
}

/// The cells of the last Markdown table in a text, its header first; nothing where there is none.
fn markdown_table(text: &str) -> Vec<Vec<Cow<'_, str>>> {
    let mut last = Vec::new();
    let mut table = Vec::new();
    for line in text.lines().chain([""]) {
        if line.contains('|') {
            let cells = line.trim().trim_start_matches('|').trim_end_matches('|').split('|');
            table.push(cells.map(|cell| Cow::Borrowed(cell.trim().trim_matches(['*', '`']).trim())).collect());
        } else if !table.is_empty() {
            last = std::mem::take(&mut table);
        }
    }
    let is_rule =
        |row: &[Cow<str>]| row.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|b| b":-".contains(&b)));
    last.retain(|row: &Vec<Cow<str>>| !is_rule(row));
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gold() -> Solution {
        let own = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        Solution {
            header: own(&["House", "Name", "Hair Color"]),
            rows: vec![own(&["1", "Eric", "dark red"]), own(&["2", "Ann", "gray"])],
        }
    }

    #[test]
    fn every_form_of_a_right_answer() {
        for answer in [
            r#"{"reasoning": "a { of sorts", "solution":
                {"House 1": {"Name": "Eric", "Hair Color": "dark red"}, "House 2": {"Name": "Ann", "Hair Color": "gray"}}}"#,
            r#"{"Solution": {"house 2": {"name": ["ANN "], "HairColor": "Gray", "x": 1}, "1": {"name": "eric", "hair_color": "DARK RED"}}}"#,
            r#"{"header": ["House", "Name", "Hair Color"], "rows": [["1", "Eric", "dark red"], ["2", "Ann", "gray"]]}"#,
            "{'header': ['Name', 'HAIRCOLOR', 'house'], 'rows': [('Ann', 'gray', 'House 2'), ('Eric', 'dark red', 1)]}",
            "{'rows': [[1, 'Eric', 'dark red'], [2, 'Ann', 'gray']]}",
            "So:\n\n| House | Name | Hair color |\n|---|:-:|---|\n| 1 | **Eric** | dark red |\n| 2 | Ann | gray |\n\nDone.",
            "Name | Hair Color\n--- | ---\nEric | dark red\nAnn | gray",
        ] {
            assert_eq!(gold().num_correct(answer), gold().num_cells(), "{answer}");
        }
    }

    #[test]
    fn wrong_missing_and_null_cells() {
        for (answer, expected) in [
            (r#"{"solution": {"House 1": {"Name": "Eric", "Hair Color": null}, "House 2": {"Name": ""}}}"#, 1),
            (r#"{"solution": {"House 1": {"Name": "Ann", "Hair Color": "gray"}}}"#, 0),
            (r#"{"solution": {"House 1": {"Name": "Eric"}}} {"solution": {"House 1": {"Name": "___"}}}"#, 0),
            (r#"{"solution": {"House 1": {"Name": "Eric"}, "House 2": {"Name": "Ann"}}"#, 0),
            ("House 1 has Eric", 0),
            ("", 0),
        ] {
            assert_eq!(gold().num_correct(answer), expected, "{answer}");
        }
    }

    #[test]
    fn guru_compares_exactly_and_by_position() {
        let rows = |rows: &str| gold().exact_accuracy(&format!(r#"{{"header": [], "rows": {rows}}}"#));
        assert_eq!(rows(r#"[["1", "Eric", "dark red"], ["2", "Ann", "gray"]]"#), 1.0);
        assert_eq!(rows(r#"[["1", "eric", "dark red"], ["2", "Ann", "gray "], ["3"]]"#), 4.0 / 6.0);
        assert_eq!(rows(r#"[[1, "Eric", "dark red"], ["2", "Ann", "gray"]]"#), 5.0 / 6.0);
        assert_eq!(rows(r#"[["1", "Eric", "dark red"]]"#), 0.0);
        assert_eq!(rows(r#"[["1", "Eric"], ["2", "Ann", "gray"]]"#), 0.0);
        assert_eq!(gold().exact_accuracy("It is {'rows': []}"), 0.0);
    }
}
