//! Sets of real numbers: intervals, finite sets, their unions, intersections and differences, and the solutions of
//! inequalities in one variable.
//!
//! Two such sets are the same when they agree on every number that occurs in either of them and on one number between
//! each two neighbours: nothing can change anywhere else, as long as the variable occurs only as itself or as its
//! absolute value.

use std::collections::BTreeSet;

use super::compare::{Judge, real};
use super::expr::{Constant, Expr, Function, Relation, SetOperator};

/// Sets with more end points than this are not compared.
const MAX_POINTS: usize = 200;

/// End points this close, relatively, are one.
const TOLERANCE: f64 = 1e-9;

/// Whether two expressions denote the same set of real numbers; false where either is no such set.
pub fn same_reals(judge: &Judge, a: &Expr, b: &Expr) -> bool {
    let (in_a, in_b) = (variables(a), variables(b));
    if !in_a.is_empty() && !in_b.is_empty() && in_a != in_b {
        return false;
    }
    let mut ends = Vec::new();
    if collect_ends(judge, a, &mut ends).is_none() || collect_ends(judge, b, &mut ends).is_none() {
        return false;
    }
    if ends.is_empty() {
        // Only the whole line and the empty set have no ends; any number tells them apart.
        if ![a, b].into_iter().all(is_endless) {
            return false;
        }
        ends.push(0.0);
    }
    ends.extend(ends.clone().iter().map(|end| -end));
    ends.sort_by(f64::total_cmp);
    ends.dedup_by(|b, a| (*b - *a).abs() <= TOLERANCE * a.abs().max(b.abs()));
    if ends.len() > MAX_POINTS {
        return false;
    }
    let between = ends.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let outside = [ends[0] - 1.0, ends[ends.len() - 1] + 1.0];
    let probes: Vec<f64> = ends.iter().copied().chain(between).chain(outside).collect();
    let mut ever_inside = false;
    for probe in probes {
        match (contains(judge, a, probe), contains(judge, b, probe)) {
            (Some(in_a), Some(in_b)) if in_a == in_b => ever_inside |= in_a,
            _ => return false,
        }
    }
    ever_inside
}

fn variables(expr: &Expr) -> BTreeSet<&str> {
    let own = if let Expr::Symbol(name) = expr { Some(name.as_str()) } else { None };
    own.into_iter().chain(expr.children().into_iter().flat_map(variables)).collect()
}

/// Whether a set without ends is written as one.
fn is_endless(set: &Expr) -> bool {
    matches!(set, Expr::Reals | Expr::Bracketed { .. } | Expr::SetOperation(..))
}

/// An end point: a real number or an infinity.
fn end(judge: &Judge, expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Constant(Constant::Infinity) => Some(f64::INFINITY),
        Expr::Product(items) if items.len() == 2 && items[0] == Expr::integer(-1) => {
            end(judge, &items[1]).map(|value| -value)
        }
        Expr::Sum(items) if items.len() == 1 => end(judge, &items[0]),
        other => real(judge, other),
    }
}

fn collect_ends(judge: &Judge, expr: &Expr, ends: &mut Vec<f64>) -> Option<()> {
    let mut push = |expr: &Expr| {
        let value = end(judge, expr)?;
        if value.is_finite() {
            ends.push(value);
        }
        Some(())
    };
    match expr {
        Expr::Reals => Some(()),
        Expr::Bracketed { items, .. } if items.len() == 2 => items.iter().try_for_each(push),
        Expr::Set(items) => items.iter().try_for_each(push),
        Expr::SetOperation(_, a, b) => {
            collect_ends(judge, a, ends)?;
            collect_ends(judge, b, ends)
        }
        Expr::Relation { operands, operators } if operators.as_slice() == [Relation::Element] => {
            collect_ends(judge, &operands[1], ends)
        }
        Expr::Relation { operands, .. } => operands.iter().filter(|operand| !is_variable(operand)).try_for_each(push),
        other if other.is_scalar() => push(other),
        _ => None,
    }
}

/// The variable, or its absolute value.
fn is_variable(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) => true,
        Expr::Call(Function::Abs, items) => matches!(items.as_slice(), [Expr::Symbol(_)]),
        _ => false,
    }
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a.is_finite() && b.is_finite() && (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()))
}

fn contains(judge: &Judge, set: &Expr, x: f64) -> Option<bool> {
    match set {
        Expr::Reals => Some(true),
        Expr::Bracketed { open, close, items } => {
            let (low, high) = (end(judge, &items[0])?, end(judge, &items[1])?);
            let above = if near(x, low) { *open == '[' } else { x > low };
            let below = if near(x, high) { *close == ']' } else { x < high };
            Some(above && below)
        }
        Expr::Set(items) => {
            items.iter().map(|item| end(judge, item)).try_fold(false, |found, item| Some(found || near(item?, x)))
        }
        Expr::SetOperation(operator, a, b) => {
            let (in_a, in_b) = (contains(judge, a, x)?, contains(judge, b, x)?);
            Some(match operator {
                SetOperator::Union => in_a || in_b,
                SetOperator::Intersection => in_a && in_b,
                SetOperator::Difference => in_a && !in_b,
            })
        }
        Expr::Relation { operands, operators } if operators.as_slice() == [Relation::Element] => {
            contains(judge, &operands[1], x)
        }
        Expr::Relation { operands, operators } => {
            let value = |expr: &Expr| match expr {
                Expr::Symbol(_) => Some(x),
                Expr::Call(Function::Abs, _) if is_variable(expr) => Some(x.abs()),
                other => end(judge, other),
            };
            let values: Vec<f64> = operands.iter().map(value).collect::<Option<_>>()?;
            Some(values.windows(2).zip(operators).all(|(pair, operator)| {
                let same = near(pair[0], pair[1]);
                match operator {
                    Relation::Equal | Relation::Approximately => same,
                    Relation::Unequal => !same,
                    Relation::Less => !same && pair[0] < pair[1],
                    Relation::LessOrEqual => same || pair[0] < pair[1],
                    Relation::Greater => !same && pair[0] > pair[1],
                    Relation::GreaterOrEqual => same || pair[0] > pair[1],
                    Relation::Element => false,
                }
            }))
        }
        other if other.is_scalar() => Some(near(end(judge, other)?, x)),
        _ => None,
    }
}
