//! Logic: zebra puzzles, ARC grids, orderings, and names.
//!
//! A gold answer's shape says which it is: `{"header": [...], "rows": [[...]]}` is a zebra puzzle's solution, a list of
//! lists of integers (or `{"grid": ...}`) a grid, a list of names an ordering, and plain text a name, such as a
//! graph's node. An object may say its `type`, `zebra_grid` or `arc_grid`. Every answer is right or wrong as a whole
//! (the paper's grid equality); [`cell_accuracy`] is for reports. [`guru_score`] is the rule of the guru graders
//! (LLM360/Reasoning360), which read a whole response and give zebra puzzles partial credit.

mod grid;
mod literal;
mod zebra;

use serde::Deserialize;

use super::{ScoreError, as_score, final_text};
use crate::skill::Domain;
use zebra::Solution;

/// A gold answer, read from its text.
#[derive(Debug, Clone, PartialEq)]
enum Gold {
    Zebra(Solution),
    Grid(Vec<Vec<i64>>),
    Ordering(Vec<String>),
    Name(String),
}

#[derive(Deserialize)]
struct GoldObject {
    r#type: Option<String>,
    header: Option<Vec<String>>,
    rows: Option<Vec<Vec<String>>>,
    grid: Option<Vec<Vec<i64>>>,
}

/// 1 when `answer` is the gold answer, else 0.
///
/// # Errors
/// When `gold` is of no shape that an answer can have.
pub fn score(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    let answer = final_text(answer);
    Ok(as_score(match Gold::parse(gold)? {
        Gold::Zebra(gold) => gold.num_correct(answer) == gold.num_cells(),
        Gold::Grid(gold) => grid::bracketed(answer).or_else(|| grid::digit_lines(answer)).is_some_and(|g| g == gold),
        Gold::Ordering(gold) => is_ordering(bracketed_list(answer).unwrap_or(answer), &gold),
        Gold::Name(gold) => name(answer) == name(&gold),
    }))
}

/// The share of a zebra puzzle's cells that `answer` has right, in [0, 1]; the house column does not count.
///
/// # Errors
/// When `gold` is no zebra puzzle's solution.
pub fn cell_accuracy(answer: &str, gold: &str) -> Result<f64, ScoreError> {
    match Gold::parse(gold)? {
        Gold::Zebra(gold) => Ok(gold.num_correct(final_text(answer)) as f64 / gold.num_cells() as f64),
        _ => Err(ScoreError::gold(Domain::Logic, "is no zebra puzzle's solution, so it has no cells")),
    }
}

/// What a guru grader gives a whole response, in [0, 1]: the content of its last pair of answer tags counts, which may
/// span lines for a grid only.
///
/// # Errors
/// When `gold` is of no shape that an answer can have.
pub fn guru_score(response: &str, gold: &str) -> Result<f64, ScoreError> {
    let gold = Gold::parse(gold)?;
    let Some(answer) = last_tagged(response, matches!(gold, Gold::Grid(_))) else { return Ok(0.0) };
    Ok(match gold {
        Gold::Zebra(gold) => gold.exact_accuracy(answer),
        Gold::Grid(gold) => as_score(grid::bracketed(answer).is_some_and(|grid| grid == gold)),
        Gold::Ordering(gold) => as_score(bracketed_list(answer).is_some_and(|names| is_ordering(names, &gold))),
        Gold::Name(gold) => {
            let is_word = !answer.is_empty() && answer.bytes().all(|b| b.is_ascii_alphabetic());
            as_score(is_word && answer.eq_ignore_ascii_case(gold.trim()))
        }
    })
}

impl Gold {
    fn parse(gold: &str) -> Result<Self, ScoreError> {
        let gold = gold.trim();
        let parsed = match gold.as_bytes() {
            [] => Err("is empty".to_owned()),
            [b'{', ..] => serde_json::from_str(gold)
                .map_err(|error| format!("is no JSON object with `header` and `rows`, or with `grid`: {error}"))
                .and_then(Self::of_object),
            [b'[', ..] => Self::of_list(gold),
            _ => Ok(Self::Name(gold.to_owned())),
        };
        parsed.map_err(|problem| ScoreError::gold(Domain::Logic, problem))
    }

    fn of_object(object: GoldObject) -> Result<Self, String> {
        let GoldObject { r#type, header, rows, grid } = object;
        match (r#type.as_deref(), header, rows, grid) {
            (None | Some("zebra_grid"), Some(header), Some(rows), _) => {
                let solution = Solution { header, rows };
                solution.problem().map_or(Ok(Self::Zebra(solution)), |problem| Err(problem.to_owned()))
            }
            (None | Some("arc_grid"), _, _, Some(grid)) => Self::of_grid(grid),
            _ => Err("is neither a `zebra_grid` with `header` and `rows` nor an `arc_grid` with `grid`".to_owned()),
        }
    }

    fn of_list(gold: &str) -> Result<Self, String> {
        if gold[1..].trim_start().starts_with('[') {
            return serde_json::from_str(gold)
                .map_err(|error| format!("is no list of lists of integers: {error}"))
                .and_then(Self::of_grid);
        }
        let names: Vec<String> = serde_json::from_str(gold).map_err(|error| format!("is no list of names: {error}"))?;
        if names.is_empty() || names.iter().any(|name| name.contains([',', ';', '\n']) || normal_item(name).is_empty())
        {
            return Err("is a list with no name, an empty one, or one that holds a separator".to_owned());
        }
        Ok(Self::Ordering(names))
    }

    fn of_grid(grid: Vec<Vec<i64>>) -> Result<Self, String> {
        let width = grid.first().map_or(0, Vec::len);
        if width == 0 || grid.iter().any(|row| row.len() != width) {
            return Err("is a grid without cells, or with rows of different lengths".to_owned());
        }
        Ok(Self::Grid(grid))
    }
}

/// The content of the last `<answer>…</answer>`, trimmed; with `across_lines` false only of those on one line.
fn last_tagged(response: &str, across_lines: bool) -> Option<&str> {
    let mut last = None;
    let mut rest = response;
    while let Some((_, after)) = rest.split_once("<answer>") {
        let Some((content, after_close)) = after.split_once("</answer>") else { break };
        // A pair that spans lines does not count, but another may open inside it.
        let counts = across_lines || !content.contains('\n');
        rest = if counts { after_close } else { after };
        if counts {
            last = Some(content.trim());
        }
    }
    last
}

/// What the first pair of brackets in a text encloses.
fn bracketed_list(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(list, _)| list)
}

fn is_ordering(list: &str, gold: &[String]) -> bool {
    let items = list.split([',', ';', '\n']).map(normal_item).filter(|item| !item.is_empty());
    items.eq(gold.iter().map(|name| normal_item(name)))
}

/// An item of an ordering without the marks around it: quotes, and the number or bullet of a list line.
fn normal_item(item: &str) -> String {
    let item = item.trim();
    let unnumbered = item.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = match unnumbered.strip_prefix(['.', ')']) {
        Some(rest) if unnumbered.len() < item.len() => rest,
        _ => item.trim_start_matches(['-', '*']),
    };
    item.trim().trim_matches(['"', '\'', '`', '*']).trim().to_lowercase()
}

/// A name in lower case with single blanks, without quotes around it and a full stop behind it.
fn name(text: &str) -> String {
    let text = text.trim().trim_end_matches('.').trim_matches(['"', '\'', '`', '*', '$']);
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests;
