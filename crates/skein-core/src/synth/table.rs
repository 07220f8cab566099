//! Information extraction steps: made tables, a row chosen by name or number, and what is asked of that row.
//!
//! What is asked differs from row to row, so that another row always means another answer.

use std::slice;

use super::content::{Kind, Value, fill, pick_wording, split_of};
use super::{Difficulty, Draft, Incoming, Maker, Outcome, Phrasing, Puzzle, Wordings};
use crate::skill::Domain;

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
            terse: Wordings {
                train: &[
                    "{col} of {key}?",
                    "Find the {col} of {key}.",
                    "What {col} has {key}?",
                    "Read the {col} for {key}.",
                ],
                test: &["Find the {col} for {key}.", "What is the {col} of {key}?"],
            },
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
                train: &[
                    "{col} plus {col2} of {key}?",
                    "Add {col} and {col2} of {key}.",
                    "Sum of {col} and {col2} for {key}?",
                    "For {key}, add {col} plus {col2}.",
                ],
                test: &["For {key}, sum of {col} and {col2}?", "Add {col} plus {col2} for {key}."],
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
                train: &[
                    "Rank of {key} by {col}?",
                    "By {col}, what rank has {key}?",
                    "Find the rank by {col} of {key}.",
                    "At what rank by {col} is {key}?",
                ],
                test: &["By {col}, find the rank of {key}.", "What rank by {col} has {key}?"],
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
            terse: Wordings {
                train: &[
                    "Venue of {key}?",
                    "Find the venue of {key}.",
                    "At what venue is {key}?",
                    "Where is the venue for {key}?",
                ],
                test: &["What venue has {key}?", "Find the venue for {key}."],
            },
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
            terse: Wordings {
                train: &[
                    "Player of {key}?",
                    "Find the player of {key}.",
                    "Who is the player for {key}?",
                    "Which player has {key}?",
                ],
                test: &["Who is the player of {key}?", "Find the player for {key}."],
            },
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

    /// How the answer is found, written down: the cells of the row that it follows from, as the table shows them.
    fn work(&self, row: usize, order: &[usize], style: &TableStyle) -> Option<String> {
        let num_read = if self.target == Target::Sum { 2 } else { 1 };
        let read = order.iter().filter(|&&column| column < num_read);
        let mut cells: Vec<String> = read.map(|&column| self.columns[column].cells[row].text()).collect();
        let result = self.result(row)?.text();
        let conclusion = match self.target {
            Target::Cell | Target::Word(_) => String::new(),
            Target::Sum => format!(", {} = {result}", cells.join(" + ")),
            Target::Rank => {
                let mut sorted = self.columns[0].cells.clone();
                sorted.sort_by_key(|value| if let Value::Number(number) = value { -number } else { 0 });
                let sorted: Vec<String> = sorted.iter().map(Value::text).collect();
                format!(" in {} -> {result}", sorted.join(" "))
            }
        };
        cells.insert(0, style.key(&self.keys.cells[row]));
        Some(cells.join(style.separator) + &conclusion)
    }

    /// The table as text, its columns after the keys in `order`.
    fn show(&self, order: &[usize], style: &TableStyle) -> String {
        let line = |key: String, cell: &dyn Fn(&Column) -> String| {
            let cells = order.iter().map(|&column| cell(&self.columns[column]));
            std::iter::once(key).chain(cells).collect::<Vec<_>>().join(style.separator)
        };
        let title = style.key_title.unwrap_or(self.keys.title);
        let mut lines = vec![line(title.to_owned(), &|column: &Column| column.title.to_owned())];
        for (row, key) in self.keys.cells.iter().enumerate() {
            lines.push(line(style.key(key), &|column: &Column| column.cells[row].text()));
        }
        lines.join("\n")
    }
}

/// How a level writes tables.
struct TableStyle {
    separator: &'static str,
    /// What stands over the keys, where it is not the column's own title.
    key_title: Option<&'static str>,
    /// What a key begins with, in tables and in questions.
    key_mark: &'static str,
    column_titles: &'static [&'static str],
}

/// Tables of tiny tasks mark their keys, so that a key is the same tokens in a table, a question and a calculation.
const TERSE_STYLE: TableStyle =
    TableStyle { separator: "|", key_title: Some("#"), key_mark: "#", column_titles: &["Pts", "Age", "Qty", "Fee"] };

const FULL_STYLE: TableStyle = TableStyle {
    separator: " | ",
    key_title: None,
    key_mark: "",
    column_titles: &["Points", "Age", "Quantity", "Fee", "Weight", "Price", "Stock", "Matches"],
};

impl TableStyle {
    fn of(difficulty: &Difficulty) -> &'static Self {
        if difficulty.terse { &TERSE_STYLE } else { &FULL_STYLE }
    }

    fn key(&self, key: &Value) -> String {
        format!("{}{}", self.key_mark, key.text())
    }
}

fn numbers(numbers: Vec<i64>) -> Vec<Value> {
    numbers.into_iter().map(Value::Number).collect()
}

impl Query {
    /// A step of this query; `None` where its table can't be keyed by what comes in, or a draw did not fit.
    pub(super) fn draft(&'static self, maker: &mut Maker, incoming: Option<Incoming>) -> Option<Draft> {
        let style = TableStyle::of(&maker.difficulty);
        let keys = self.draw_keys(maker, incoming)?;
        let columns = self.draw_columns(maker, &keys, style)?;
        let previous = incoming.map(|incoming| &incoming.outcome.value);
        let given = match previous {
            Some(_) => None,
            None => Some(maker.stream.choose(&keys.cells).clone()),
        };
        let puzzle = TablePuzzle { target: self.target, given, keys, columns };
        let row = puzzle.row(previous)?;
        let mut others = puzzle.results()?;
        let result = others.remove(row);
        let fits = !matches!(result, Value::Number(number) if number > maker.difficulty.max_answer);
        let distinct = !others.contains(&result) && (1..others.len()).all(|i| !others[..i].contains(&others[i]));
        let mut order: Vec<usize> = (0..puzzle.columns.len()).collect();
        maker.stream.shuffle(&mut order);
        let shown = puzzle.show(&order, style);
        if !fits || !distinct || split_of(&shown) != maker.split {
            return None;
        }

        let wording = pick_wording(maker.wordings(&self.phrasing), maker.split, &mut maker.stream);
        let second = puzzle.columns.get(1).map_or("", |column| column.title);
        let key = &puzzle.keys.cells[row];
        let mark = match key {
            Value::Number(_) if !maker.difficulty.terse => "number ",
            _ => style.key_mark,
        };
        let asked_with = |key: &str| {
            fill(wording, &[("key", &format!("{mark}{key}")), ("col2", second), ("col", puzzle.columns[0].title)])
        };
        let alone = format!("{}\n{shown}", asked_with(&key.text()));
        let (question, standalone) = match incoming {
            Some(incoming) => (format!("{}\n{shown}", maker.refer(incoming, &asked_with)), Some(alone)),
            None => (alone, None),
        };
        Some(Draft {
            domain: Domain::InformationExtraction,
            skill: self.skill,
            question,
            standalone,
            options: Vec::new(),
            answer: puzzle.gold(previous)?,
            work: puzzle.work(row, &order, style)?,
            outcome: Outcome { value: result, others, chosen: false },
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
            Value::Number(_) => "Number",
            Value::Word(kind, _) => kind.title(),
        };
        Some(Column { title, cells })
    }

    fn draw_columns(&self, maker: &mut Maker, keys: &Column, style: &TableStyle) -> Option<Vec<Column>> {
        let num_rows = maker.difficulty.num_rows;
        let mut columns = Vec::new();
        let num_asked = match self.target {
            Target::Word(kind) if kind.title() == keys.title => return None,
            Target::Word(kind) => {
                let cells = maker.entities.draw(kind, num_rows, &[], &mut maker.stream)?;
                columns.push(Column { title: kind.title(), cells });
                0
            }
            Target::Cell | Target::Rank => 1,
            Target::Sum => 2,
        };
        let mut titles = style.column_titles.to_vec();
        maker.stream.shuffle(&mut titles);
        for title in titles.into_iter().take(num_asked + maker.difficulty.num_spare_columns) {
            let cells = numbers(maker.distinct_numbers(num_rows, 1..=maker.difficulty.max_answer)?);
            columns.push(Column { title, cells });
        }
        Some(columns)
    }
}
