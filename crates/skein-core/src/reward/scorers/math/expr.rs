//! What an answer denotes: numbers, formulas, collections, relations.

use std::fmt::Write;

use num_rational::BigRational;

use super::rational::{bits, words};

/// A formula or a collection of formulas.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// An exact number; `decimal` where it was written with a decimal point.
    Number {
        /// Its value.
        value: BigRational,
        /// Written with a decimal point, so that it may stand for a rounded value.
        decimal: bool,
    },
    /// `X%`.
    Percent(Box<Expr>),
    /// π, e, i or ∞.
    Constant(Constant),
    /// A variable, with its subscript and primes in the name.
    Symbol(String),
    /// A word that is no formula.
    Word(String),
    /// A sum; differences are sums of negated terms.
    Sum(Vec<Expr>),
    /// A product; quotients are products with reciprocal powers.
    Product(Vec<Expr>),
    /// Base and exponent.
    Power(Box<Expr>, Box<Expr>),
    /// Two values: the sum and the difference of a left part and a right one.
    PlusMinus(Box<Expr>, Box<Expr>),
    /// A function's value.
    Call(Function, Vec<Expr>),
    /// Bracketed items: a point, a tuple or an interval, with what it opens and closes with.
    Bracketed {
        /// `(` or `[`.
        open: char,
        /// `)` or `]`.
        close: char,
        /// Two or more.
        items: Vec<Expr>,
    },
    /// `{…}` or a bare list: order doesn't count.
    Set(Vec<Expr>),
    /// A union, intersection or difference of sets.
    SetOperation(SetOperator, Box<Expr>, Box<Expr>),
    /// All real numbers.
    Reals,
    /// Rows of equal length.
    Matrix(Vec<Vec<Expr>>),
    /// `a < b ≤ c`: one operator fewer than operands.
    Relation {
        /// In order.
        operands: Vec<Expr>,
        /// Between them.
        operators: Vec<Relation>,
    },
}

/// A constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    /// π.
    Pi,
    /// Euler's number.
    E,
    /// The imaginary unit.
    I,
    /// ∞.
    Infinity,
}

/// A function of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// A function of one argument that [`f64`] or a complex number has under this name.
    Elementary(&'static str),
    /// `log_base(x)`: base, argument.
    Log,
    /// Absolute value.
    Abs,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// n!.
    Factorial,
    /// Binomial coefficient.
    Binomial,
    /// Greatest common divisor.
    Gcd,
    /// Least common multiple.
    Lcm,
    /// Largest argument.
    Max,
    /// Smallest argument.
    Min,
    /// Remainder with the divisor's sign.
    Modulo,
    /// Something else, compared by its name and arguments only.
    Opaque(String),
}

/// How two sets combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperator {
    /// In either.
    Union,
    /// In both.
    Intersection,
    /// In the first but not in the second.
    Difference,
}

/// A relation between two formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// =
    Equal,
    /// ≈
    Approximately,
    /// ≠
    Unequal,
    /// <
    Less,
    /// ≤
    LessOrEqual,
    /// >
    Greater,
    /// ≥
    GreaterOrEqual,
    /// ∈
    Element,
}

impl Relation {
    /// The relation with its sides swapped.
    pub fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Whether it is one of <, ≤, >, ≥.
    pub fn is_inequality(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }
}

impl Expr {
    /// An exact integer.
    pub fn integer(value: i64) -> Self {
        Self::Number { value: BigRational::from_integer(value.into()), decimal: false }
    }

    /// The expression times −1.
    pub fn negated(self) -> Self {
        match self {
            Self::Number { value, decimal } => Self::Number { value: -value, decimal },
            Self::Matrix(rows) => {
                Self::Matrix(rows.into_iter().map(|row| row.into_iter().map(Self::negated).collect()).collect())
            }
            other => Self::Product(vec![Self::integer(-1), other]),
        }
    }

    /// One over the expression.
    pub fn reciprocal(self) -> Self {
        Self::Power(Box::new(self), Box::new(Self::integer(-1)))
    }

    /// Whether one of the parts it is made of, in order, has a property.
    pub fn any_child<'a>(&'a self, mut property: impl FnMut(&'a Self) -> bool) -> bool {
        match self {
            Self::Number { .. } | Self::Constant(_) | Self::Symbol(_) | Self::Word(_) | Self::Reals => false,
            Self::Percent(inner) => property(inner),
            Self::Power(a, b) | Self::PlusMinus(a, b) | Self::SetOperation(_, a, b) => property(a) || property(b),
            Self::Sum(items)
            | Self::Product(items)
            | Self::Call(_, items)
            | Self::Set(items)
            | Self::Bracketed { items, .. }
            | Self::Relation { operands: items, .. } => items.iter().any(property),
            Self::Matrix(rows) => rows.iter().flatten().any(property),
        }
    }

    /// Whether the expression or any part of it has a property.
    pub fn any(&self, property: &impl Fn(&Self) -> bool) -> bool {
        property(self) || self.any_child(|child| child.any(property))
    }

    /// Nodes of a formula.
    pub fn num_parts(&self) -> usize {
        let mut parts = 1;
        self.any_child(|child| {
            parts += child.num_parts();
            false
        });
        parts
    }

    /// What a formula takes to be read once: its nodes, and the machine words of its numbers and names.
    pub fn weight(&self) -> u64 {
        let mut weight = match self {
            Self::Number { value, .. } => words(bits(value)),
            Self::Symbol(name) | Self::Word(name) => words(8 * name.len() as u64),
            _ => 1,
        };
        self.any_child(|child| {
            weight += child.weight();
            false
        });
        weight
    }

    /// The expression with `value` in place of a variable or constant.
    pub fn with(&self, variable: &Self, value: &Self) -> Self {
        if self == variable {
            return value.clone();
        }
        let replace = |expr: &Self| expr.with(variable, value);
        let boxed = |expr: &Self| Box::new(expr.with(variable, value));
        let all = |items: &[Self]| items.iter().map(replace).collect();
        match self {
            Self::Number { .. } | Self::Constant(_) | Self::Symbol(_) | Self::Word(_) | Self::Reals => self.clone(),
            Self::Percent(inner) => Self::Percent(boxed(inner)),
            Self::Power(a, b) => Self::Power(boxed(a), boxed(b)),
            Self::PlusMinus(a, b) => Self::PlusMinus(boxed(a), boxed(b)),
            Self::SetOperation(operator, a, b) => Self::SetOperation(*operator, boxed(a), boxed(b)),
            Self::Sum(items) => Self::Sum(all(items)),
            Self::Product(items) => Self::Product(all(items)),
            Self::Call(function, items) => Self::Call(function.clone(), all(items)),
            Self::Set(items) => Self::Set(all(items)),
            Self::Bracketed { open, close, items } => Self::Bracketed { open: *open, close: *close, items: all(items) },
            Self::Relation { operands, operators } => {
                Self::Relation { operands: all(operands), operators: operators.clone() }
            }
            Self::Matrix(rows) => Self::Matrix(rows.iter().map(|row| all(row)).collect()),
        }
    }

    /// Whether it holds a number written with a decimal point.
    pub fn has_decimal(&self) -> bool {
        self.any(&|expr| matches!(expr, Expr::Number { decimal: true, .. }))
    }

    /// Whether it holds a variable or a word.
    pub fn has_symbol(&self) -> bool {
        self.any(&|expr| matches!(expr, Expr::Symbol(_) | Expr::Word(_) | Expr::Call(Function::Opaque(_), _)))
    }

    /// Whether it is a single formula, neither a collection nor a relation.
    pub fn is_scalar(&self) -> bool {
        !matches!(
            self,
            Expr::Bracketed { .. }
                | Expr::Set(_)
                | Expr::SetOperation(..)
                | Expr::Reals
                | Expr::Matrix(_)
                | Expr::Relation { .. }
                | Expr::PlusMinus(..)
        )
    }

    /// A text that is the same for expressions that differ only in the order of terms, factors and set elements.
    pub fn canonical(&self) -> String {
        let join = |items: &[Expr], sorted: bool| {
            let mut texts: Vec<String> = items.iter().map(Expr::canonical).collect();
            if sorted {
                texts.sort_unstable();
            }
            texts.join(",")
        };
        let mut text = String::new();
        let written = match self {
            // Decimal digits of long numbers would take a division each.
            Self::Number { value, .. } => write!(text, "{:#x}/{:#x}", value.numer(), value.denom()),
            Self::Percent(inner) => write!(text, "percent({})", inner.canonical()),
            Self::Constant(constant) => write!(text, "{constant:?}"),
            Self::Symbol(name) | Self::Word(name) => write!(text, "{name}"),
            Self::Sum(items) => write!(text, "sum({})", join(items, true)),
            Self::Product(items) => write!(text, "product({})", join(items, true)),
            Self::Power(base, exponent) => write!(text, "power({},{})", base.canonical(), exponent.canonical()),
            Self::PlusMinus(a, b) => write!(text, "plusminus({},{})", a.canonical(), b.canonical()),
            Self::Call(function, items) => write!(text, "{function:?}({})", join(items, false)),
            Self::Bracketed { open, close, items } => write!(text, "{open}{}{close}", join(items, false)),
            Self::Set(items) => write!(text, "set({})", join(items, true)),
            Self::SetOperation(operator, a, b) => {
                write!(text, "{operator:?}({},{})", a.canonical(), b.canonical())
            }
            Self::Reals => write!(text, "reals"),
            Self::Matrix(rows) => {
                let rows: Vec<String> = rows.iter().map(|row| join(row, false)).collect();
                write!(text, "matrix({})", rows.join(";"))
            }
            Self::Relation { operands, operators } => write!(text, "{operators:?}({})", join(operands, false)),
        };
        written.expect("writing to a string cannot fail");
        text
    }
}
