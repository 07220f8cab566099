//! Information extraction steps: made tables, a row chosen by name or number, and what is asked of that row.
//!
//! What is asked differs from row to row, so that another row always means another answer.

use std::slice;

use super::content::{Kind, Value, fill, pick_wording, split_of};
use super::{Draft, Incoming, Maker, Outcome, Phrasing, Puzzle, Wordings};

/// What is asked of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The number in one column.
    Cell,
    /// The sum of the numbers in two columns.
    Sum,
    /// How many rows have at least this row's number in one column.
    Rank,
    /// The person or place of the row.
    Word(Kind),
}

/// One skill of information extraction.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) skill: &'static str,
    target: Target,
    pub(super) phrasing: Phrasing,
}

pub(super) static QUERIES: [Query; 5] = [
    Query {
        skill: "Column Value Extraction",
        target: Target::Cell,
        phrasing: Phrasing {
            terse: Wordings { train: &["{col} of {key}?", "{key}: which {col}?"], test: &["Which {col} of {key}?"] },
            full: Wordings {
                train: &[
                    "What does the column {col} say for {key}?",
                    "Read off the {col} of {key}.",
                    "Which value stands under {col} for {key}?",
                ],
                test: &["Read off the value in the column {col} for {key}.", "Which value does {col} have for {key}?"],
            },
        },
    },
    Query {
        skill: "Cross Column Analysis",
        target: Target::Sum,
        phrasing: Phrasing {
            terse: Wordings {
                train: &["{col} plus {col2} of {key}?", "{key}: {col} and {col2} together?"],
                test: &["{key}: {col} plus {col2} together?"],
            },
            full: Wordings {
                train: &[
                    "What do {col} and {col2} add up to for {key}?",
                    "Add the {col} and the {col2} of {key}.",
                    "For {key}, what is the sum of {col} and {col2}?",
                ],
                test: &["What is the sum of {col} and {col2} of {key}?", "For {key}, add up {col} and {col2}."],
            },
        },
    },
    Query {
        skill: "Rank Interpretation",
        target: Target::Rank,
        phrasing: Phrasing {
            terse: Wordings {
                train: &["Rank of {key} by {col}, most first?", "{key}: rank by most {col}?"],
                test: &["{key}: rank by {col}, most first?"],
            },
            full: Wordings {
                train: &[
                    "Ranked by {col} with the highest first, at which place is {key}?",
                    "What rank does {key} have by {col}, if 1 is the highest?",
                    "Sort the rows by {col} from high to low. Which position does {key} get?",
                ],
                test: &[
                    "Ranked by {col} from high to low, which place does {key} get?",
                    "At which position is {key} by {col}, if 1 is the highest?",
                ],
            },
        },
    },
    Query {
        skill: "Venue Extraction",
        target: Target::Word(Kind::Place),
        phrasing: Phrasing {
            terse: Wordings { train: &["Venue of {key}?", "{key}: where is it?"], test: &["{key}: which venue?"] },
            full: Wordings {
                train: &[
                    "At which venue does {key} take place?",
                    "Name the venue listed for {key}.",
                    "Where, by the table, is {key} held?",
                ],
                test: &["Which venue is listed for {key}?", "At which venue, by the table, is {key} held?"],
            },
        },
    },
    Query {
        skill: "Player Identification",
        target: Target::Word(Kind::Person),
        phrasing: Phrasing {
            terse: Wordings { train: &["Player of {key}?", "{key}: who plays?"], test: &["{key}: which player?"] },
            full: Wordings {
                train: &[
                    "Which player is listed for {key}?",
                    "Identify the player who belongs to {key}.",
                    "Who is the player in the row of {key}?",
                ],
                test: &["Identify the player in the row of {key}.", "Who is the player that belongs to {key}?"],
            },
        },
    },
];

const TERSE_COLUMNS: [&str; 4] = ["Pts", "Age", "Qty", "Fee"];
const FULL_COLUMNS: [&str; 8] = ["Points", "Age", "Quantity", "Fee", "Weight", "Price", "Stock", "Matches"];

#[derive(Debug, Clone)]
struct Column {
    title: &'static str,
    cells: Vec<Value>,
}

/// A table step with everything its question states.
#[derive(Debug, Clone)]
pub(super) struct TablePuzzle {
    target: Target,
    /// The row wanted; `None` where the previous answer names it.
    given: Option<Value>,
    keys: Column,
    /// The columns asked about come first.
    columns: Vec<Column>,
}

impl TablePuzzle {
    pub(super) fn gold(&self, previous: Option<&Value>) -> Option<String> {
        self.row(previous).and_then(|row| self.result(row)).map(|value| value.text())
    }

    fn row(&self, previous: Option<&Value>) -> Option<usize> {
        let wanted = self.given.as_ref().or(previous)?;
        self.keys.cells.iter().position(|key| key == wanted)
    }

    fn result(&self, row: usize) -> Option<Value> {
        let number = |column: usize, row: usize| match self.columns.get(column)?.cells.get(row)? {
            Value::Number(number) => Some(*number),
            Value::Word(..) => None,
        };
        match self.target {
            Target::Word(_) => self.columns.first()?.cells.get(row).cloned(),
            Target::Cell => number(0, row).map(Value::Number),
            Target::Sum => Some(Value::Number(number(0, row)? + number(1, row)?)),
            Target::Rank => {
                let own = number(0, row)?;
                let ahead = (0..self.keys.cells.len()).filter(|&other| number(0, other) >= Some(own)).count();
                Some(Value::Number(ahead as i64))
            }
        }
    }

    fn results(&self) -> Option<Vec<Value>> {
        (0..self.keys.cells.len()).map(|row| self.result(row)).collect()
    }

    /// How the answer is found, written down: the key, what is read from its row, and what follows from it.
    fn work(&self, row: usize) -> Option<String> {
        let (key, result) = (self.keys.cells[row].text(), self.result(row)?.text());
        let cell = |column: usize| self.columns[column].cells[row].text();
        Some(match self.target {
            Target::Cell | Target::Word(_) => format!("{key} -> {result}"),
            Target::Sum => format!("{key} -> {} + {} = {result}", cell(0), cell(1)),
            Target::Rank => {
                let mut sorted = self.columns[0].cells.clone();
                sorted.sort_by_key(|value| if let Value::Number(number) = value { -number } else { 0 });
                let sorted: Vec<String> = sorted.iter().map(Value::text).collect();
                format!("{key} -> {} in {} -> {result}", cell(0), sorted.join(" "))
            }
        })
    }
}

fn numbers(numbers: Vec<i64>) -> Vec<Value> {
    numbers.into_iter().map(Value::Number).collect()
}

impl Query {
    /// A step of this query; `None` where its table can't be keyed by what comes in, or a draw did not fit.
    pub(super) fn draft(&'static self, maker: &mut Maker, incoming: Option<Incoming>) -> Option<Draft> {
        let keys = self.draw_keys(maker, incoming)?;
        let columns = self.draw_columns(maker, &keys)?;
        let row = match incoming {
            Some(incoming) => keys.cells.iter().position(|key| *key == incoming.outcome.value)?,
            None => maker.stream.below(keys.cells.len() as u64) as usize,
        };
        let given = if incoming.is_none() { Some(keys.cells[row].clone()) } else { None };
        let puzzle = TablePuzzle { target: self.target, given, keys, columns };
        let results = puzzle.results()?;
        let distinct = (1..results.len()).all(|row| !results[..row].contains(&results[row]));
        let shown = self.show(maker, &puzzle);
        if !distinct || split_of(&shown) != maker.split {
            return None;
        }

        let wording = pick_wording(maker.wordings(&self.phrasing), maker.split, &mut maker.stream);
        let second = puzzle.columns.get(1).map_or("", |column| column.title);
        let numbered = if maker.difficulty.terse { "No" } else { "number" };
        let number_key = matches!(puzzle.keys.cells[row], Value::Number(_));
        let asked_with = |key: &str| {
            let key = if number_key { format!("{numbered} {key}") } else { key.to_owned() };
            fill(wording, &[("key", &key), ("col2", second), ("col", puzzle.columns[0].title)])
        };
        let key = puzzle.keys.cells[row].text();
        let question = match incoming {
            Some(incoming) => maker.refer(incoming, &asked_with),
            None => asked_with(&key),
        };
        Some(Draft {
            domain: crate::skill::Domain::InformationExtraction,
            skill: self.skill,
            question: format!("{question}\n{shown}"),
            standalone: incoming.map(|_| format!("{}\n{shown}", asked_with(&key))),
            options: Vec::new(),
            answer: puzzle.gold(incoming.map(|incoming| &incoming.outcome.value))?,
            work: puzzle.work(row)?,
            outcome: Outcome {
                value: results[row].clone(),
                others: results.iter().enumerate().filter(|(other, _)| *other != row).map(|(_, v)| v.clone()).collect(),
                chosen: false,
            },
            puzzle: Puzzle::Table(puzzle),
        })
    }

    /// Rows are keyed by what comes in, among others that it could have been; a first step is keyed by what suits it.
    fn draw_keys(&self, maker: &mut Maker, incoming: Option<Incoming>) -> Option<Column> {
        let num_rows = maker.difficulty.num_rows;
        let mut cells = match (incoming, self.target) {
            (Some(Incoming { outcome, .. }), _) => match &outcome.value {
                Value::Number(number) => numbers(maker.with_others(*number, outcome, num_rows)?),
                Value::Word(kind, _) => {
                    let own = outcome.value.clone();
                    let mut words =
                        maker.entities.draw(*kind, num_rows - 1, slice::from_ref(&own), &mut maker.stream)?;
                    words.push(own);
                    words
                }
            },
            (None, Target::Word(_)) => numbers(maker.distinct_numbers(num_rows, 1..=maker.difficulty.max_answer)?),
            (None, _) => maker.entities.draw(Kind::Person, num_rows, &[], &mut maker.stream)?,
        };
        maker.stream.shuffle(&mut cells);
        let title = match cells.first()? {
            Value::Number(_) if maker.difficulty.terse => "No",
            Value::Number(_) => "Number",
            Value::Word(kind, _) => kind.title(),
        };
        Some(Column { title, cells })
    }

    fn draw_columns(&self, maker: &mut Maker, keys: &Column) -> Option<Vec<Column>> {
        let difficulty = maker.difficulty;
        let mut columns = Vec::new();
        if let Target::Word(kind) = self.target {
            if kind.title() == keys.title {
                return None;
            }
            let cells = maker.entities.draw(kind, difficulty.num_rows, &[], &mut maker.stream)?;
            columns.push(Column { title: kind.title(), cells });
        }
        let mut titles: Vec<&'static str> =
            if difficulty.terse { TERSE_COLUMNS.to_vec() } else { FULL_COLUMNS.to_vec() };
        maker.stream.shuffle(&mut titles);
        // A word column stands in for one of numbers, so that all tables of a level are equally wide.
        titles.truncate(difficulty.num_number_columns - columns.len());
        let largest = if self.target == Target::Sum { difficulty.max_answer / 2 } else { difficulty.max_answer };
        for title in titles {
            let cells = maker.distinct_numbers(difficulty.num_rows, 1..=largest)?;
            columns.push(Column { title, cells: numbers(cells) });
        }
        Some(columns)
    }

    /// The table as text, its columns after the key in random order.
    fn show(&self, maker: &mut Maker, puzzle: &TablePuzzle) -> String {
        let mut order: Vec<&Column> = puzzle.columns.iter().collect();
        maker.stream.shuffle(&mut order);
        order.insert(0, &puzzle.keys);
        let separator = if maker.difficulty.terse { "|" } else { " | " };
        let line = |texts: Vec<String>| texts.join(separator);
        let mut lines = vec![line(order.iter().map(|column| column.title.to_owned()).collect())];
        lines.extend((0..puzzle.keys.cells.len()).map(|row| line(order.iter().map(|c| c.cells[row].text()).collect())));
        lines.join("\n")
    }
}
