//! The commands of the grammar: functions, fractions, roots, big operators, matrices.

use num_traits::ToPrimitive;

use super::expr::{Constant, Expr, Function, Relation};
use super::matrices::{PART_STEPS, determinant, product_of, sum_of};
use super::parser::Parser;
use super::polynomial;
use super::work::Work;

/// Sums and products over a range are written out up to this many parts of formulas.
const MAX_RANGE_PARTS: usize = 5_000;

/// Functions of one argument.
const ELEMENTARY: [&str; 15] = [
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
    "arccosh", "arctanh",
];

impl Parser<'_> {
    /// What a command means, with its arguments; the command itself has been read.
    pub(super) fn command(&mut self, name: &str) -> Option<Expr> {
        let two = |parser: &mut Self| Some((parser.braced()?, parser.braced()?));
        Some(match name {
            "pi" => Expr::Constant(Constant::Pi),
            "e" => Expr::Constant(Constant::E),
            "i" => Expr::Constant(Constant::I),
            "infty" => Expr::Constant(Constant::Infinity),
            "reals" => Expr::Reals,
            "emptyset" => Expr::Set(Vec::new()),
            "frac" => {
                let (numerator, denominator) = two(self)?;
                Expr::Product(vec![numerator, denominator.reciprocal()])
            }
            "sqrt" => {
                let degree = if self.take("[") {
                    let degree = self.within_brackets(Self::sum)?;
                    self.expect("]")?;
                    degree
                } else {
                    Expr::integer(2)
                };
                Expr::Power(Box::new(self.braced()?), Box::new(degree.reciprocal()))
            }
            "binom" => {
                let (upper, lower) = two(self)?;
                Expr::Call(Function::Binomial, vec![upper, lower])
            }
            "boxed" | "fbox" | "overline" | "bar" if self.peek_sign() == Some("{") => match (name, self.braced()?) {
                ("boxed" | "fbox", inner) => inner,
                (_, inner) => Expr::Call(Function::Opaque("overline".into()), vec![inner]),
            },
            "exp" => {
                let argument = self.argument()?;
                Expr::Power(Box::new(Expr::Constant(Constant::E)), Box::new(argument))
            }
            "log" | "ln" => {
                let base = match (name, self.take("_")) {
                    ("ln", false) => Expr::Constant(Constant::E),
                    (_, true) => self.braced()?,
                    _ => Expr::integer(10),
                };
                self.powered(|parser| Some(Expr::Call(Function::Log, vec![base, parser.argument()?])))?
            }
            "gcd" | "lcm" | "max" | "min" => {
                let function = match name {
                    "gcd" => Function::Gcd,
                    "lcm" => Function::Lcm,
                    "max" => Function::Max,
                    _ => Function::Min,
                };

                let call = Expr::Call(function.clone(), self.arguments()?);
                match &call {
                    Expr::Call(Function::Gcd | Function::Lcm, arguments) if call.has_symbol() => {
                        polynomial::common(&function, arguments, self.work).unwrap_or(call)
                    }
                    _ => call,
                }
            }
            "abs" | "floor" | "ceil" => {
                let function = match name {
                    "abs" => Function::Abs,
                    "floor" => Function::Floor,
                    _ => Function::Ceil,
                };
                Expr::Call(function, self.arguments()?)
            }
            "sum" | "prod" => self.big_operator(name)?,
            _ if name.starts_with("begin ") => self.matrix(name)?,
            _ => {
                let function = ELEMENTARY.iter().find(|function| **function == name)?;
                self.powered(|parser| Some(Expr::Call(Function::Elementary(function), vec![parser.argument()?])))?
            }
        })
    }

    /// `\sin^2 x` is the square of `\sin x`, and `\sin^{-1} x` is `\arcsin x`.
    fn powered(&mut self, call: impl FnOnce(&mut Self) -> Option<Expr>) -> Option<Expr> {
        let exponent = if self.take("^") { Some(self.braced()?) } else { None };
        let call = call(self)?;
        Some(match (exponent, call) {
            (Some(exponent), call) if exponent != Expr::integer(-1) => Expr::Power(Box::new(call), Box::new(exponent)),
            (Some(_), Expr::Call(Function::Elementary(name), arguments)) if inverse_of(name).is_some() => {
                Expr::Call(Function::Elementary(inverse_of(name)?), arguments)
            }
            (Some(_), call) => call.reciprocal(),
            (None, call) => call,
        })
    }

    /// A function's argument: a bracketed one, or the factors up to the next operator or function.
    fn argument(&mut self) -> Option<Expr> {
        if matches!(self.peek_sign(), Some("(" | "{" | "[" | "|")) {
            return self.nested(Self::atom);
        }
        let mut factors = vec![self.signed_factor()?];
        while self.starts_factor()
            && !matches!(self.peek_sign(), Some("(" | "["))
            && !self.peek_command().is_some_and(|name| ELEMENTARY.contains(&name) || matches!(name, "log" | "ln"))
        {
            factors.push(self.factor()?);
        }
        Some(product_of(factors, self.work))
    }

    fn arguments(&mut self) -> Option<Vec<Expr>> {
        match self.peek_sign()? {
            "(" | "[" | "\\{" => {
                self.at += 1;
                let (items, _) = self.items()?;
                self.peek_sign().filter(|sign| matches!(*sign, ")" | "]" | "\\}"))?;
                self.at += 1;
                Some(items)
            }
            "{" => match self.braced()? {
                Expr::Set(items) => Some(items),
                item => Some(vec![item]),
            },
            _ => None,
        }
    }

    /// A sum or product over a range: written out where both ends are numbers, else compared by its parts.
    fn big_operator(&mut self, name: &str) -> Option<Expr> {
        let (mut lower, mut upper) = (None, None);
        for _ in 0..2 {
            if self.take("_") {
                lower = Some(self.braced()?);
            } else if self.take("^") {
                upper = Some(self.braced()?);
            }
        }
        let body = self.product()?;
        let (lower, upper) = (lower?, upper?);
        if let Some(terms) = written_out(&lower, &upper, &body, self.work) {
            return Some(if name == "sum" { sum_of(terms) } else { product_of(terms, self.work) });
        }
        Some(Expr::Call(Function::Opaque(name.to_owned()), vec![lower, upper, body]))
    }

    fn matrix(&mut self, begin: &str) -> Option<Expr> {
        let environment = begin.strip_prefix("begin ")?;
        if !matches!(environment, "vmatrix" | "matrix" | "pmatrix" | "bmatrix" | "Bmatrix" | "array" | "smallmatrix") {
            return None;
        }
        let end = format!("end {environment}");
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        self.within_brackets(|parser| {
            while parser.peek_command() != Some(&end) {
                let mut row = vec![parser.relation()?];
                while parser.take("&") {
                    row.push(parser.relation()?);
                }
                rows.push(row);
                if !parser.take("\\\\") {
                    break;
                }
            }
            (parser.peek_command() == Some(&end)).then_some(())
        })?;
        self.at += 1;
        let rectangular = rows.iter().all(|row| row.len() == rows[0].len());
        if !rectangular || rows.is_empty() {
            return None;
        }
        if environment == "vmatrix" { determinant(&rows, self.work) } else { Some(Expr::Matrix(rows)) }
    }
}

/// The function that undoes another, `arcsin` for `sin`.
fn inverse_of(name: &str) -> Option<&'static str> {
    ELEMENTARY.into_iter().find(|function| function.strip_prefix("arc") == Some(name))
}

/// The terms of `\sum_{k=1}^{4}` and the like; none where the ends are no integers, or too far apart.
fn written_out(lower: &Expr, upper: &Expr, body: &Expr, work: &Work) -> Option<Vec<Expr>> {
    let Expr::Relation { operands, operators } = lower else { return None };
    let ([index @ (Expr::Symbol(_) | Expr::Constant(Constant::I)), first], [Relation::Equal]) =
        (operands.as_slice(), operators.as_slice())
    else {
        return None;
    };
    let (first, last) = (integer(first)?, integer(upper)?);
    let count = usize::try_from(last.checked_sub(first)?.checked_add(1)?).ok()?;
    let parts = count.checked_mul(body.num_parts())?;
    let is_small = count > 0 && parts <= MAX_RANGE_PARTS;
    work.spend(if is_small { PART_STEPS * count as u64 * body.weight() } else { 0 })?;
    is_small.then(|| (first..=last).map(|value| body.with(index, &Expr::integer(value))).collect())
}

fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Number { value, .. } if value.is_integer() => value.to_integer().to_i64(),
        _ => None,
    }
}
