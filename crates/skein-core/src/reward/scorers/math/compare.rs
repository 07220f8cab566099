//! When two answers are the same: exactly for exact forms, after rounding where one is a decimal, by random points for
//! formulas, by shape for everything that has one.

use std::borrow::Cow;

use num_bigint::BigInt;
use num_rational::BigRational;

use super::Rules;
use super::evaluate::{Point, exact, float, to_float};
use super::expr::{Expr, Function, Relation};
use super::rational::{bits, is_same, pay_product, rounded, words};
use super::work::Work;
use super::{polynomial, precise, sets};

/// Random points at which formulas are compared, and how many of them must be in both domains.
const POINTS: u64 = 10;
const MIN_POINTS: usize = 4;

/// At this many of them values that are close as floats are also compared with many more digits.
const PRECISE_POINTS: usize = 2;

/// Relative error below which two floats are one value: what is left of 1e-16 after a formula's own cancellations.
const FLOAT_TOLERANCE: f64 = 1e-11;

/// Below this size decimals must also agree relatively, or rounding would make all small numbers equal.
const SMALL: f64 = 1e-3;
const SMALL_TOLERANCE: f64 = 1e-6;

/// Steps of one comparison, and of each part of a formula it compares by its form.
const COMPARISON_STEPS: u64 = 500;
const PART_STEPS: u64 = 100;

/// Steps of comparing a number with an end point of a set.
const PROBE_STEPS: u64 = 10;

/// Collections larger than this are not compared.
const MAX_ITEMS: usize = 200;

/// Whether a prediction denotes what the gold answer does; false once the work is spent. The two are not
/// interchangeable: a gold formula decides what form is asked for.
pub fn equal(gold: &Expr, pred: &Expr, rules: Rules, work: &Work) -> bool {
    // Whatever was decided after the last step was decided without the better means.
    equal_under(gold, pred, &Judge { rules, work }) && !work.is_spent()
}

/// A comparison under way: its rules, and the work it may still do.
pub struct Judge<'w> {
    rules: Rules,
    work: &'w Work,
}

impl Judge<'_> {
    fn point(&self, index: u64) -> Point<'_> {
        Point { index, work: self.work }
    }

    /// Pays for looking a number up among so many.
    pub fn pay_probe(&self, num_ends: usize) -> Option<()> {
        self.work.spend(PROBE_STEPS * num_ends as u64)
    }
}

/// [`equal`], within a comparison.
fn equal_under(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    if let (Expr::Number { value: g, decimal: false }, Expr::Number { value: p, decimal: false }) = (gold, pred) {
        return judge.work.spend(words(bits(g).min(bits(p)))).is_some() && is_same(g, p);
    }
    if judge.work.spend(COMPARISON_STEPS + PART_STEPS * (gold.weight() + pred.weight())).is_none() {
        return false;
    }
    let (gold, pred) = (&*without_rounding(gold), &*without_rounding(pred));
    match (equation(gold), equation(pred)) {
        (Some((left, right)), None) if names_something(left) => return same_value(right, pred, judge),
        (Some((left, right)), None) if names_something(right) && !names_something(pred) => {
            return same_value(left, pred, judge);
        }
        (None, Some((left, right))) if gold.is_scalar() || !matches!(gold, Expr::Relation { .. }) => {
            // A formula that is 0 is a condition on its variables, not the value 0.
            if *right == Expr::integer(0) && left.has_symbol() && !names_something(left) {
                return false;
            }
            // `2 = x` says what x is as well as `x = 2` does.
            let value = if names_something(right) && !names_something(left) { left } else { right };
            return same_value(gold, value, judge);
        }
        (Some(gold), Some(pred)) => return same_equation(gold, pred, judge),
        _ => {}
    }
    same_value(gold, pred, judge)
}

/// `a ≈ b` as `a`, unless `a` is only a name: what stands behind ≈ rounds what stands before it.
fn without_rounding(expr: &Expr) -> Cow<'_, Expr> {
    let Expr::Relation { operands, operators } = expr else { return Cow::Borrowed(expr) };
    match operators.iter().position(|operator| *operator == Relation::Approximately) {
        Some(0) if !names_something(&operands[0]) => Cow::Borrowed(&operands[0]),
        Some(at) if at > 0 => {
            Cow::Owned(Expr::Relation { operands: operands[..=at].to_vec(), operators: operators[..at].to_vec() })
        }
        _ => Cow::Borrowed(expr),
    }
}

/// The first and the last side of `a = … = b`.
fn equation(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Relation { operands, operators } = expr else { return None };
    let equal = |operator: &Relation| matches!(operator, Relation::Equal | Relation::Approximately);
    operators.iter().all(equal).then(|| (&operands[0], &operands[operands.len() - 1]))
}

/// Whether a formula only names a quantity: variables, ratios and functions of them, points of variables.
fn names_something(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) | Expr::Word(_) => true,
        Expr::Product(items) | Expr::Bracketed { items, .. } => items.iter().all(names_something),
        Expr::Call(Function::Abs | Function::Opaque(_), items) => items.iter().all(names_something),
        // The reciprocal in a ratio.
        Expr::Power(base, exponent) => names_something(base) && **exponent == Expr::integer(-1),
        _ => false,
    }
}

/// The names in `f(x)`, but not in `P(A)`: probabilities of different events are different.
fn function_value(expr: &Expr) -> Option<(&str, &str)> {
    match expr {
        Expr::Call(Function::Opaque(function), items) if function != "p" => match items.as_slice() {
            [Expr::Symbol(variable)] => Some((function, variable)),
            _ => None,
        },
        _ => None,
    }
}

fn same_equation(gold: (&Expr, &Expr), pred: (&Expr, &Expr), judge: &Judge) -> bool {
    if gold.0.canonical() == pred.0.canonical() {
        return same_value(gold.1, pred.1, judge);
    }
    if let (Some((g, g_variable)), Some((p, p_variable))) = (function_value(gold.0), function_value(pred.0)) {
        // A function is the same whatever its variable is called.
        let [from, to] = [p_variable, g_variable].map(|name| Expr::Symbol(name.to_owned()));
        return g == p && !pred.1.any(&|expr| *expr == to) && same_value(gold.1, &pred.1.with(&from, &to), judge);
    }
    if [gold.0, gold.1, pred.0, pred.1].iter().all(|side| side.is_scalar()) {
        return proportional(judge, gold, pred, |ratio| ratio != 0.0);
    }
    same_value(gold.0, pred.0, judge) && same_value(gold.1, pred.1, judge)
}

/// Whether left − right of two relations differ by a constant factor that `allowed` accepts.
fn proportional(judge: &Judge, gold: (&Expr, &Expr), pred: (&Expr, &Expr), allowed: impl Fn(f64) -> bool) -> bool {
    let mut ratio: Option<f64> = None;
    let mut points = 0;
    for point in (0..POINTS).map(|index| judge.point(index)) {
        let difference =
            |(left, right): (&Expr, &Expr)| Some((float(left, point)? - float(right, point)?, float(left, point)?));
        let (Some((g, g_size)), Some((p, p_size))) = (difference(gold), difference(pred)) else { continue };
        if g.norm() <= FLOAT_TOLERANCE * g_size.norm() || p.norm() <= FLOAT_TOLERANCE * p_size.norm() {
            continue;
        }
        let here = p / g;
        let first = *ratio.get_or_insert(here.re);
        if here.im.abs() > 1e-9 * here.norm() || (here.re - first).abs() > 1e-9 * first.abs() {
            return false;
        }
        points += 1;
    }
    points >= MIN_POINTS && ratio.is_some_and(allowed)
}

fn same_value(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    use Expr::{Bracketed, Matrix, Relation as Related, Set};
    match (gold, pred) {
        (Related { .. }, Related { .. }) => {
            same_relation(gold, pred, judge)
                || (equation(gold).is_none() && equation(pred).is_none() && sets::same_reals(judge, gold, pred))
        }
        (Related { operands, operators }, _) | (_, Related { operands, operators }) => {
            let other = if matches!(gold, Related { .. }) { pred } else { gold };
            match operators.as_slice() {
                [Relation::Element] => same_value(&operands[1], other, judge),
                _ if equation(gold).is_some() || equation(pred).is_some() => equal_through_equation(gold, pred, judge),
                _ => sets::same_reals(judge, gold, pred),
            }
        }
        (Matrix(g), Matrix(p)) => {
            let shape = |rows: &Vec<Vec<Expr>>| (rows.len(), rows[0].len());
            shape(g) == shape(p) && all_equal(&g.concat(), &p.concat(), judge)
        }
        (Bracketed { open: go, close: gc, items: g }, Bracketed { open: po, close: pc, items: p }) => {
            // Brackets tell intervals apart; longer tuples are tuples in any brackets.
            (g.len() > 2 || (go, gc) == (po, pc)) && all_equal(g, p, judge)
        }
        (Bracketed { open: '(', close: ')', items: g }, Set(p)) => all_equal(g, p, judge),
        (Set(g), Bracketed { open: '(', close: ')', items: p }) if p.len() > 2 => all_equal(g, p, judge),
        _ if is_collection(gold) || is_collection(pred) => {
            same_collection(gold, pred, judge) || sets::same_reals(judge, gold, pred) || same_shape(gold, pred)
        }
        _ if gold.is_scalar() && pred.is_scalar() => same_number(gold, pred, judge),
        _ => sets::same_reals(judge, gold, pred) || same_shape(gold, pred),
    }
}

fn equal_through_equation(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    // One side is an equation whose left side is no name: it has no value that the other side could be.
    !(matches!(gold, Expr::Relation { .. }) && equation(pred).is_none()) && equal_under(gold, pred, judge)
}

fn all_equal(gold: &[Expr], pred: &[Expr], judge: &Judge) -> bool {
    gold.len() == pred.len() && gold.iter().zip(pred).all(|(g, p)| equal_under(g, p, judge))
}

fn is_collection(expr: &Expr) -> bool {
    matches!(expr, Expr::Set(_) | Expr::PlusMinus(..))
}

fn same_shape(gold: &Expr, pred: &Expr) -> bool {
    gold.canonical() == pred.canonical()
}

/// The elements of a list or set, `±` written out, equal ones once.
fn elements(expr: &Expr, judge: &Judge) -> Option<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    let items = match expr {
        Expr::Set(items) => items.iter().collect(),
        Expr::Relation { operands, .. } if equation(expr).is_some() && is_collection(&operands[operands.len() - 1]) => {
            vec![&operands[operands.len() - 1]]
        }
        other => vec![other],
    };
    for item in items.into_iter().flat_map(without_plus_minus) {
        if found.len() > MAX_ITEMS {
            return None;
        }
        if !found.iter().any(|other| equal_under(other, &item, judge)) {
            found.push(item);
        }
    }
    Some(found)
}

fn without_plus_minus(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::PlusMinus(left, right) => vec![
            Expr::Sum(vec![(**left).clone(), (**right).clone()]),
            Expr::Sum(vec![(**left).clone(), (**right).clone().negated()]),
        ],
        Expr::Relation { operands, operators } if equation(expr).is_some() => {
            let Some((last, front)) = operands.split_last() else { return Vec::new() };
            let values = without_plus_minus(last);
            let related = |value| Expr::Relation {
                operands: front.iter().cloned().chain([value]).collect(),
                operators: operators.clone(),
            };
            values.into_iter().map(related).collect()
        }
        other => vec![other.clone()],
    }
}

/// Whether a list holds groups of assignments, `p=5,q=2;p=7,q=2`.
fn has_solutions(expr: &Expr) -> bool {
    let is_group = |item: &Expr| match item {
        Expr::Bracketed { items, .. } => items.iter().all(|item| equation(item).is_some()),
        _ => false,
    };
    matches!(expr, Expr::Set(items) if items.iter().all(is_group))
}

/// A flat list of assignments, `p=5,q=2,p=7,q=2`, as groups that each begin where a name comes again.
fn as_solutions(expr: &Expr) -> Cow<'_, Expr> {
    let Expr::Set(items) = expr else { return Cow::Borrowed(expr) };
    let mut groups: Vec<(Vec<String>, Vec<Expr>)> = vec![(Vec::new(), Vec::new())];
    for item in items {
        let Some((left, _)) = equation(item) else { return Cow::Borrowed(expr) };
        let name = left.canonical();
        if groups.last().is_none_or(|(names, _)| names.contains(&name)) {
            groups.push((Vec::new(), Vec::new()));
        }
        if let Some((names, items)) = groups.last_mut() {
            names.push(name);
            items.push(item.clone());
        }
    }
    let grouped = groups.into_iter().map(|(_, items)| Expr::Bracketed { open: '(', close: ')', items });
    Cow::Owned(Expr::Set(grouped.collect()))
}

/// Whether two collections hold the same elements in any order.
fn same_collection(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    let (gold, pred) = match (has_solutions(gold), has_solutions(pred)) {
        (true, false) => (Cow::Borrowed(gold), as_solutions(pred)),
        (false, true) => (as_solutions(gold), Cow::Borrowed(pred)),
        _ => (Cow::Borrowed(gold), Cow::Borrowed(pred)),
    };
    let (gold, pred) = (&*gold, &*pred);
    let (Some(gold), Some(pred)) = (elements(gold, judge), elements(pred, judge)) else { return false };
    if gold.len() != pred.len() {
        return false;
    }
    let mut left = pred;
    gold.iter().all(|g| match left.iter().position(|p| equal_under(g, p, judge)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

fn same_relation(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    let (Expr::Relation { operands: g, operators: g_ops }, Expr::Relation { operands: p, operators: p_ops }) =
        (gold, pred)
    else {
        return false;
    };
    let reversed: Vec<Relation> = p_ops.iter().rev().map(|operator| operator.flipped()).collect();
    if g_ops == p_ops && all_equal(g, p, judge) {
        return true;
    }
    if *g_ops == reversed && g.iter().zip(p.iter().rev()).all(|(g, p)| equal_under(g, p, judge)) {
        return true;
    }
    let ([g_op], [p_op]) = (g_ops.as_slice(), p_ops.as_slice()) else { return false };
    let (gold, pred) = ((&g[0], &g[1]), (&p[0], &p[1]));
    match g_op {
        Relation::Unequal if p_op == g_op => proportional(judge, gold, pred, |ratio| ratio != 0.0),
        _ if g_op.is_inequality() && p_op == g_op => proportional(judge, gold, pred, |ratio| ratio > 0.0),
        _ if g_op.is_inequality() && *p_op == g_op.flipped() => proportional(judge, gold, pred, |ratio| ratio < 0.0),
        _ => false,
    }
}

/// The readings of a number with a percent sign: a hundredth, and the plain number.
fn readings(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::Percent(inner) => vec![expr.clone(), (**inner).clone()],
        other => vec![other.clone()],
    }
}

fn same_number(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    let both_percent = matches!((gold, pred), (Expr::Percent(_), Expr::Percent(_)));
    if both_percent || !matches!((gold, pred), (Expr::Percent(_), _) | (_, Expr::Percent(_))) {
        return same_formula(gold, pred, judge);
    }
    // `9%` is 0.09, and for whole numbers also 9.
    let whole = |expr: &Expr| exact(expr, judge.point(0)).is_some_and(|value| value.is_integer());
    readings(gold).iter().any(|g| {
        readings(pred).iter().any(|p| {
            let plain = !matches!(g, Expr::Percent(_)) && !matches!(p, Expr::Percent(_));
            same_formula(g, p, judge) && (!plain || whole(g) || whole(p))
        })
    })
}

fn same_formula(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    if same_shape(gold, pred) {
        return true;
    }
    if base_numeral_matches(gold, pred, judge.work) {
        return true;
    }
    if !gold.has_symbol() && !pred.has_symbol() {
        return same_constant(gold, pred, judge);
    }
    if let Some(same) = polynomial::same(gold, pred, judge.work) {
        return same;
    }
    let mut points = 0;
    for point in (0..POINTS).map(|index| judge.point(index)) {
        if let (Some(g), Some(p)) = (exact(gold, point), exact(pred, point)) {
            if !is_same(&g, &p) {
                return false;
            }
            points += 1;
        } else if let (Some(g), Some(p)) = (float(gold, point), float(pred, point)) {
            let close = (g - p).norm() <= FLOAT_TOLERANCE * g.norm().max(p.norm()).max(SMALL);
            let same = if close && points >= PRECISE_POINTS { Some(true) } else { precise::same(gold, pred, point) };
            if !same.unwrap_or(close) {
                return false;
            }
            points += 1;
        }
    }
    points >= MIN_POINTS
}

/// `204_5` is answered by `204` too: the base is in the question.
fn base_numeral_matches(gold: &Expr, pred: &Expr, work: &Work) -> bool {
    match (gold, pred) {
        (Expr::Symbol(name), Expr::Number { value, .. }) => name.split_once("_{").is_some_and(|(digits, _)| {
            pay_product(bits(value), bits(value), work).is_some() && digits == value.to_string()
        }),
        _ => false,
    }
}

fn same_constant(gold: &Expr, pred: &Expr, judge: &Judge) -> bool {
    let point = judge.point(0);
    let has_decimal = gold.has_decimal() || pred.has_decimal();
    match (exact(gold, point), exact(pred, point)) {
        (Some(g), Some(p)) if !has_decimal => is_same(&g, &p),
        (Some(g), Some(p)) => {
            is_same(&g, &p) || ((!g.is_integer() || gold.has_decimal()) && same_rounded(&g, &p, judge))
        }
        _ => {
            let (Some(g), Some(p)) = (float(gold, point), float(pred, point)) else { return false };
            if has_decimal && g.im == 0.0 && p.im == 0.0 {
                let rational = |value: f64| BigRational::from_float(value);
                return rational(g.re).zip(rational(p.re)).is_some_and(|(g, p)| same_rounded(&g, &p, judge));
            }
            let close = (g - p).norm() <= FLOAT_TOLERANCE * g.norm().max(p.norm());
            precise::same(gold, pred, point).unwrap_or(close)
        }
    }
}

/// Whether two numbers agree when both are rounded, and, if both are small, also relatively.
fn same_rounded(a: &BigRational, b: &BigRational, judge: &Judge) -> bool {
    let scale = BigInt::from(10).pow(judge.rules.decimals);
    let [Some(a_rounded), Some(b_rounded)] = [a, b].map(|value| rounded(value, &scale, judge.work)) else {
        return false;
    };
    if a_rounded != b_rounded {
        return false;
    }
    let (a, b) = (to_float(a), to_float(b));
    let size = a.abs().max(b.abs());
    size >= SMALL || (a - b).abs() <= SMALL_TOLERANCE * size
}

/// The value of a formula without variables; none where it isn't a real number.
pub fn real(judge: &Judge, expr: &Expr) -> Option<f64> {
    if expr.has_symbol() {
        return None;
    }
    if let Some(value) = exact(expr, judge.point(0)) {
        return Some(to_float(&value));
    }
    float(expr, judge.point(0)).filter(|value| value.im == 0.0).map(|value| value.re)
}
