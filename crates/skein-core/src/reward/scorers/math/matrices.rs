//! Arithmetic of matrices that an answer writes out: sums, products, multiples and determinants.
//!
//! Results are formulas again, entry by entry. What doesn't fit together, or would grow too large, stays as written and
//! is then compared by its form.

use num_rational::BigRational;

use super::evaluate::{Point, exact};
use super::expr::Expr;
use super::rational;
use super::work::Work;

/// Entries of a result hold at most this many parts together.
const MAX_PARTS: usize = 10_000;

/// Determinants of formulas are expanded up to this many rows; those of numbers are too.
const MAX_DETERMINANT_ROWS: usize = 5;

/// Steps of making or copying one part of a formula.
pub const PART_STEPS: u64 = 200;

/// The sum of some terms, entry by entry where all are matrices of one shape.
pub fn sum_of(mut terms: Vec<Expr>) -> Expr {
    if terms.len() == 1 {
        return terms.remove(0);
    }
    let shape = |term: &Expr| match term {
        Expr::Matrix(rows) => Some((rows.len(), rows[0].len())),
        _ => None,
    };
    let Some((height, width)) = terms.first().and_then(shape) else { return Expr::Sum(terms) };
    if !terms.iter().all(|term| shape(term) == Some((height, width))) {
        return Expr::Sum(terms);
    }
    let mut entries = vec![vec![Vec::new(); width]; height];
    for (row, entry_row) in terms.into_iter().flat_map(into_rows).zip((0..height).cycle()) {
        for (entry, terms) in row.into_iter().zip(&mut entries[entry_row]) {
            terms.push(entry);
        }
    }
    Expr::Matrix(entries.into_iter().map(|row| row.into_iter().map(Expr::Sum).collect()).collect())
}

/// The product of some factors, carried out where matrices of numbers fit together.
pub fn product_of(mut factors: Vec<Expr>, work: &Work) -> Expr {
    if factors.len() == 1 {
        return factors.remove(0);
    }
    if !factors.iter().any(|factor| matches!(factor, Expr::Matrix(_))) {
        return Expr::Product(factors);
    }
    carried_out(&factors, work).unwrap_or(Expr::Product(factors))
}

fn carried_out(factors: &[Expr], work: &Work) -> Option<Expr> {
    let (matrices, scalars): (Vec<&Expr>, Vec<&Expr>) =
        factors.iter().partition(|factor| matches!(factor, Expr::Matrix(_)));
    // Each level of brackets around a matrix copies its entries again.
    work.spend(PART_STEPS * factors.iter().map(Expr::weight).sum::<u64>())?;
    let rows = match matrices.as_slice() {
        [Expr::Matrix(rows)] => rows.clone(),
        _ => matrices
            .into_iter()
            .map(|matrix| numbers(matrix, work))
            .reduce(|a, b| times(&a?, &b?, work))??
            .into_iter()
            .map(as_entries)
            .collect(),
    };
    if scalars.is_empty() {
        return Some(Expr::Matrix(rows));
    }
    let parts = scalars.iter().map(|scalar| scalar.num_parts()).sum::<usize>();
    let is_multiple =
        scalars.iter().all(|scalar| scalar.is_scalar()) && parts * rows.len() * rows[0].len() <= MAX_PARTS;
    work.spend(PART_STEPS * (parts * rows.len() * rows[0].len()) as u64)?;
    let multiple = |entry: Expr| Expr::Product(scalars.iter().map(|&scalar| scalar.clone()).chain([entry]).collect());
    is_multiple.then(|| Expr::Matrix(rows.into_iter().map(|row| row.into_iter().map(multiple).collect()).collect()))
}

fn into_rows(term: Expr) -> Vec<Vec<Expr>> {
    match term {
        Expr::Matrix(rows) => rows,
        _ => Vec::new(),
    }
}

fn as_entries(row: Vec<BigRational>) -> Vec<Expr> {
    row.into_iter().map(|value| Expr::Number { value, decimal: false }).collect()
}

/// The entries of a matrix as exact numbers.
fn numbers(matrix: &Expr, work: &Work) -> Option<Vec<Vec<BigRational>>> {
    let Expr::Matrix(rows) = matrix else { return None };
    let number = |entry: &Expr| if entry.has_symbol() { None } else { exact(entry, Point { index: 0, work }) };
    rows.iter().map(|row| row.iter().map(number).collect()).collect()
}

fn times(a: &[Vec<BigRational>], b: &[Vec<BigRational>], work: &Work) -> Option<Vec<Vec<BigRational>>> {
    if a[0].len() != b.len() || a.len() * b.len() * b[0].len() > MAX_PARTS {
        return None;
    }
    let entry = |row: &[BigRational], column: usize| {
        let products = row
            .iter()
            .zip(b)
            .map(|(value, other)| rational::product([value, &other[column]].map(|factor| Some(factor.clone())), work));
        rational::sum(products, work)
    };
    a.iter().map(|row| (0..b[0].len()).map(|column| entry(row, column)).collect()).collect()
}

/// The determinant of a square matrix that is not too large.
pub fn determinant(rows: &[Vec<Expr>], work: &Work) -> Option<Expr> {
    let size = rows.len();
    let parts = rows.iter().flatten().map(Expr::num_parts).sum::<usize>();
    let num_terms = (1..=size).product::<usize>();
    let is_small = size <= MAX_DETERMINANT_ROWS && parts * num_terms <= MAX_PARTS;
    work.spend(if is_small { PART_STEPS * (parts * num_terms) as u64 } else { 0 })?;
    (is_small && rows[0].len() == size).then(|| expanded(rows, 0, &(0..size).collect::<Vec<_>>()))
}

/// Expansion along the first of the remaining rows.
fn expanded(rows: &[Vec<Expr>], row: usize, columns: &[usize]) -> Expr {
    if let [column] = columns {
        return rows[row][*column].clone();
    }
    let term = |at: usize| {
        let others: Vec<usize> = columns.iter().copied().filter(|&column| column != columns[at]).collect();
        let term = Expr::Product(vec![rows[row][columns[at]].clone(), expanded(rows, row + 1, &others)]);
        if at.is_multiple_of(2) { term } else { term.negated() }
    };
    Expr::Sum((0..columns.len()).map(term).collect())
}
