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
    let [mut in_a, mut in_b] = [BTreeSet::new(), BTreeSet::new()];
    collect_variables(a, &mut in_a);
    collect_variables(b, &mut in_b);
    if !in_a.is_empty() && !in_b.is_empty() && in_a != in_b {
        return false;
    }
    let is_endless = [a, b].into_iter().all(is_endless);
    let (Some(a), Some(b)) = (Reals::read(judge, a), Reals::read(judge, b)) else { return false };
    let mut ends = Vec::new();
    a.collect_ends(&mut ends);
    b.collect_ends(&mut ends);
    if ends.is_empty() {
        // Only the whole line and the empty set have no ends; any number tells them apart.
        if !is_endless {
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
        if judge.pay_probe(a.num_ends() + b.num_ends()).is_none() || a.contains(probe) != b.contains(probe) {
            return false;
        }
        ever_inside |= a.contains(probe);
    }
    ever_inside
}

fn collect_variables<'e>(expr: &'e Expr, found: &mut BTreeSet<&'e str>) {
    if let Expr::Symbol(name) = expr {
        found.insert(name);
    }
    expr.any_child(|child| {
        collect_variables(child, found);
        false
    });
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

/// A side of a relation.
enum Side {
    Variable,
    /// The variable's absolute value.
    Size,
    Value(f64),
}

/// A set of real numbers whose end points have been worked out.
enum Reals {
    All,
    /// What its brackets are, and its two ends.
    Interval {
        open: char,
        close: char,
        low: f64,
        high: f64,
    },
    Points(Vec<f64>),
    Operation(SetOperator, Box<Reals>, Box<Reals>),
    /// Where all the relations between neighbours hold.
    Solutions(Vec<Side>, Vec<Relation>),
}

impl Reals {
    fn read(judge: &Judge, expr: &Expr) -> Option<Self> {
        Some(match expr {
            Expr::Reals => Self::All,
            Expr::Bracketed { open, close, items } => {
                let [low, high] = items.as_slice() else { return None };
                Self::Interval { open: *open, close: *close, low: end(judge, low)?, high: end(judge, high)? }
            }
            Expr::Set(items) => Self::Points(items.iter().map(|item| end(judge, item)).collect::<Option<_>>()?),
            Expr::SetOperation(operator, a, b) => {
                Self::Operation(*operator, Box::new(Self::read(judge, a)?), Box::new(Self::read(judge, b)?))
            }
            Expr::Relation { operands, operators } if operators.as_slice() == [Relation::Element] => {
                Self::read(judge, &operands[1])?
            }
            Expr::Relation { operands, operators } => {
                let sides = operands.iter().map(|operand| side(judge, operand)).collect::<Option<_>>()?;
                Self::Solutions(sides, operators.clone())
            }
            other if other.is_scalar() => Self::Points(vec![end(judge, other)?]),
            _ => return None,
        })
    }

    fn collect_ends(&self, ends: &mut Vec<f64>) {
        match self {
            Self::All => {}
            Self::Interval { low, high, .. } => ends.extend([low, high].into_iter().filter(|end| end.is_finite())),
            Self::Points(points) => ends.extend(points.iter().filter(|end| end.is_finite())),
            Self::Operation(_, a, b) => {
                a.collect_ends(ends);
                b.collect_ends(ends);
            }
            Self::Solutions(sides, _) => ends.extend(sides.iter().filter_map(|side| match side {
                Side::Value(value) if value.is_finite() => Some(*value),
                _ => None,
            })),
        }
    }

    /// How much there is to look at for one number.
    fn num_ends(&self) -> usize {
        match self {
            Self::All | Self::Interval { .. } => 1,
            Self::Points(points) => points.len(),
            Self::Operation(_, a, b) => a.num_ends() + b.num_ends(),
            Self::Solutions(sides, _) => sides.len(),
        }
    }

    fn contains(&self, x: f64) -> bool {
        match self {
            Self::All => true,
            Self::Interval { open, close, low, high } => {
                let above = if near(x, *low) { *open == '[' } else { x > *low };
                let below = if near(x, *high) { *close == ']' } else { x < *high };
                above && below
            }
            Self::Points(points) => points.iter().any(|point| near(*point, x)),
            Self::Operation(operator, a, b) => {
                let (in_a, in_b) = (a.contains(x), b.contains(x));
                match operator {
                    SetOperator::Union => in_a || in_b,
                    SetOperator::Intersection => in_a && in_b,
                    SetOperator::Difference => in_a && !in_b,
                }
            }
            Self::Solutions(sides, operators) => {
                let value = |side: &Side| match side {
                    Side::Variable => x,
                    Side::Size => x.abs(),
                    Side::Value(value) => *value,
                };
                sides
                    .windows(2)
                    .zip(operators)
                    .all(|(pair, operator)| holds(value(&pair[0]), *operator, value(&pair[1])))
            }
        }
    }
}

fn side(judge: &Judge, expr: &Expr) -> Option<Side> {
    Some(match expr {
        Expr::Symbol(_) => Side::Variable,
        Expr::Call(Function::Abs, items) if matches!(items.as_slice(), [Expr::Symbol(_)]) => Side::Size,
        other => Side::Value(end(judge, other)?),
    })
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a.is_finite() && b.is_finite() && (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()))
}

fn holds(left: f64, relation: Relation, right: f64) -> bool {
    let same = near(left, right);
    match relation {
        Relation::Equal | Relation::Approximately => same,
        Relation::Unequal => !same,
        Relation::Less => !same && left < right,
        Relation::LessOrEqual => same || left < right,
        Relation::Greater => !same && left > right,
        Relation::GreaterOrEqual => same || left > right,
        Relation::Element => false,
    }
}
