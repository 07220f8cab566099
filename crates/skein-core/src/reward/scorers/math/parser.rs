//! From tokens to expressions, by recursive descent with bounded depth.
//!
//! The parser reads the whole token sequence or nothing: an answer that is only partly a formula has no value here, and
//! no part of it is taken for the whole.

use super::expr::{Expr, Function, Relation, SetOperator};
use super::lexer::Token;
use super::matrices::{PART_STEPS, product_of, sum_of};
use super::work::Work;

/// Nesting beyond this is refused.
const MAX_DEPTH: usize = 200;

/// Operators that nest to the left, at most this many in a row.
const MAX_CHAIN: usize = 50;

/// The expression that `tokens` spell, all of them.
pub fn parse(tokens: &[Token], work: &Work) -> Option<Expr> {
    let mut parser = Parser { tokens, at: 0, depth: 0, bars: 0, work };
    let expr = parser.list()?;
    (parser.at == tokens.len()).then_some(expr)
}

/// Where a parse stands in its tokens.
pub(super) struct Parser<'a> {
    tokens: &'a [Token],
    pub(super) at: usize,
    depth: usize,
    /// Open `|`, inside which a bar closes and never opens.
    bars: usize,
    /// What formulas that are more than their tokens may still cost.
    pub(super) work: &'a Work,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn peek_sign(&self) -> Option<&'static str> {
        match self.peek() {
            Some(Token::Sign(sign)) => Some(sign),
            _ => None,
        }
    }

    pub(super) fn peek_command(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Command(name)) => Some(name),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let found = self.peek_sign() == Some(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, sign: &str) -> Option<()> {
        self.take(sign).then_some(())
    }

    /// Runs a rule one level deeper.
    pub(super) fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH { None } else { rule(self) };
        self.depth -= 1;
        result
    }

    /// Items between commas, and lists of them between semicolons.
    fn list(&mut self) -> Option<Expr> {
        let mut lists = vec![self.comma_list()?];
        while self.take(";") {
            lists.push(self.comma_list()?);
        }
        if lists.len() == 1 {
            return lists.pop().map(single_or_set);
        }
        let item = |mut items: Vec<Expr>| match items.len() {
            1 => items.pop(),
            _ => Some(Expr::Bracketed { open: '(', close: ')', items }),
        };
        Some(Expr::Set(lists.into_iter().map(item).collect::<Option<_>>()?))
    }

    fn comma_list(&mut self) -> Option<Vec<Expr>> {
        let mut items = vec![self.relation()?];
        while self.take(",") {
            // `1, 2, and 3` leaves two commas in a row.
            while self.take(",") {}
            items.push(self.relation()?);
        }
        Some(items)
    }

    pub(super) fn relation(&mut self) -> Option<Expr> {
        let mut operands = vec![match self.function_value() {
            Some(value) => value,
            None => self.ratio()?,
        }];
        let mut operators = Vec::new();
        while let Some(operator) = self.peek_sign().and_then(relation_of) {
            self.at += 1;
            operators.push(operator);
            // `k ∈ 1,2,3` lists the elements.
            operands.push(if operator == Relation::Element { self.elements()? } else { self.ratio()? });
        }
        if operators.is_empty() { operands.pop() } else { Some(Expr::Relation { operands, operators }) }
    }

    /// `f(x)` before an equals sign: a function's value at its variable, not a product.
    fn function_value(&mut self) -> Option<Expr> {
        let [Token::Symbol(name), Token::Sign("("), Token::Symbol(variable), Token::Sign(")"), Token::Sign("="), ..] =
            self.tokens.get(self.at..)?
        else {
            return None;
        };
        self.at += 4;
        Some(Expr::Call(Function::Opaque(name.clone()), vec![Expr::Symbol(variable.clone())]))
    }

    fn elements(&mut self) -> Option<Expr> {
        let mut items = vec![self.ratio()?];
        while items[0].is_scalar() && self.take(",") {
            items.push(self.ratio()?);
        }
        Some(single_or_set(items))
    }

    fn ratio(&mut self) -> Option<Expr> {
        let mut left = self.set_operation()?;
        for _ in 0..MAX_CHAIN {
            if !self.take(":") {
                return Some(left);
            }
            left = Expr::Product(vec![left, self.set_operation()?.reciprocal()]);
        }
        None
    }

    fn set_operation(&mut self) -> Option<Expr> {
        let mut left = self.sum()?;
        for _ in 0..MAX_CHAIN {
            let operator = match self.peek_sign() {
                Some("∪") => SetOperator::Union,
                Some("∩") => SetOperator::Intersection,
                Some("∖") => SetOperator::Difference,
                _ => return Some(left),
            };
            self.at += 1;
            left = Expr::SetOperation(operator, Box::new(left), Box::new(self.sum()?));
        }
        None
    }

    pub(super) fn sum(&mut self) -> Option<Expr> {
        self.nested(|parser| {
            let mut terms: Vec<Expr> = Vec::new();
            let mut plus_minus: Option<Expr> = None;
            loop {
                match parser.peek_sign() {
                    Some("+") => {
                        parser.at += 1;
                        terms.push(parser.product()?);
                    }
                    Some("-") => {
                        parser.at += 1;
                        let term = parser.product()?;
                        terms.push(parser.negated(term)?);
                    }
                    Some("±" | "∓") if plus_minus.is_none() => {
                        parser.at += 1;
                        plus_minus = Some(parser.product()?);
                    }
                    _ if terms.is_empty() && plus_minus.is_none() => terms.push(parser.product()?),
                    _ => break,
                }
            }
            match (sum_of(terms), plus_minus) {
                (sum, None) => Some(sum),
                (sum, Some(part)) => Some(Expr::PlusMinus(Box::new(sum), Box::new(part))),
            }
        })
    }

    /// A term times −1; each entry's work where it is a matrix.
    fn negated(&self, term: Expr) -> Option<Expr> {
        if let Expr::Matrix(rows) = &term {
            self.work.spend(PART_STEPS * (rows.len() * rows[0].len()) as u64)?;
        }
        Some(term.negated())
    }

    pub(super) fn product(&mut self) -> Option<Expr> {
        let mut factors = vec![self.signed_factor()?];
        loop {
            match self.peek_sign() {
                Some("*") => {
                    self.at += 1;
                    factors.push(self.signed_factor()?);
                    continue;
                }
                Some("/") => {
                    self.at += 1;
                    factors.push(self.signed_factor()?.reciprocal());
                    continue;
                }
                _ => {}
            }
            if self.peek_command() == Some("mod") {
                self.at += 1;
                let left = product_of(std::mem::take(&mut factors), self.work);
                factors.push(Expr::Call(Function::Modulo, vec![left, self.signed_factor()?]));
            } else if matches!(self.peek(), Some(Token::Word(_))) {
                // A unit behind a quantity adds nothing.
                self.at += 1;
                if self.take("^") {
                    self.nested(Self::script)?;
                }
            } else if self.mixed_number(factors.last()) {
                let whole = factors.pop()?;
                let fraction = self.fraction()?;
                factors.push(Expr::Sum(vec![whole, fraction]));
            } else if self.starts_factor() || self.starts_mixed_number() {
                factors.push(self.factor()?);
            } else {
                return Some(product_of(factors, self.work));
            }
        }
    }

    /// Whether `3` and the `\frac12` or `1/2` behind it are one number.
    fn mixed_number(&self, last: Option<&Expr>) -> bool {
        let whole = matches!(last, Some(Expr::Number { value, decimal: false }) if value.is_integer());
        let after_number = matches!(self.tokens.get(self.at.wrapping_sub(1)), Some(Token::Number { .. }));
        let is_number = |ahead: usize| matches!(self.tokens.get(self.at + ahead), Some(Token::Number { .. }));
        let is_sign = |ahead: usize, sign| self.tokens.get(self.at + ahead) == Some(&Token::Sign(sign));
        let fraction = match self.peek_command() {
            Some("frac") => is_number(1) || is_sign(1, "{") && is_number(2) && is_sign(3, "}"),
            _ => is_number(0) && is_sign(1, "/") && is_number(2),
        };
        whole && after_number && fraction
    }

    /// Whether an integer and a fraction follow, which are one factor even behind another number.
    fn starts_mixed_number(&self) -> bool {
        let is_command = |name: &str| matches!(self.tokens.get(self.at + 1), Some(Token::Command(c)) if c == name);
        matches!(self.peek(), Some(Token::Number { .. })) && is_command("frac")
    }

    /// The fraction of a mixed number.
    fn fraction(&mut self) -> Option<Expr> {
        if self.peek_command().is_some() {
            return self.factor();
        }
        let numerator = self.nested(Self::atom)?;
        self.expect("/")?;
        Some(Expr::Product(vec![numerator, self.nested(Self::atom)?.reciprocal()]))
    }

    /// A factor behind an operator, which may bring its own sign.
    pub(super) fn signed_factor(&mut self) -> Option<Expr> {
        self.nested(|parser| match parser.peek_sign() {
            Some("-") => {
                parser.at += 1;
                let factor = parser.signed_factor()?;
                parser.negated(factor)
            }
            Some("+") => {
                parser.at += 1;
                parser.signed_factor()
            }
            _ => parser.factor(),
        })
    }

    pub(super) fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Symbol(_)) => true,
            Some(Token::Command(name)) => name != "mod" && !name.starts_with("end ") && name != "choose",
            Some(Token::Sign("(" | "[" | "{" | "\\{" | "⌊" | "⌈")) => true,
            Some(Token::Sign("|")) => self.bars == 0,
            // `2 3` is no product, but `x 3` and `\sqrt{2} 3` are.
            Some(Token::Number { .. }) => !matches!(self.tokens[self.at - 1], Token::Number { .. }),
            _ => false,
        }
    }

    /// An atom with its powers, factorials and percent signs.
    pub(super) fn factor(&mut self) -> Option<Expr> {
        let mut base = self.nested(Self::atom)?;
        for _ in 0..MAX_CHAIN {
            match self.peek_sign() {
                Some("^") => {
                    self.at += 1;
                    let exponent = self.nested(Self::script)?;
                    base = match base {
                        // `x^{2}_{2}` is the square of x₂.
                        Expr::Symbol(name) if self.peek_sign() == Some("_") => {
                            Expr::Power(Box::new(Expr::Symbol(self.with_subscript(name)?)), Box::new(exponent))
                        }
                        base => Expr::Power(Box::new(base), Box::new(exponent)),
                    };
                }
                Some("!") => {
                    self.at += 1;
                    base = Expr::Call(Function::Factorial, vec![base]);
                }
                Some("%") => {
                    self.at += 1;
                    base = Expr::Percent(Box::new(base));
                }
                _ => return Some(base),
            }
        }
        None
    }

    /// An exponent or a command's argument: one token or what stands in braces.
    fn script(&mut self) -> Option<Expr> {
        match self.peek_sign() {
            Some("{") => {
                self.at += 1;
                let inner = self.list()?;
                self.expect("}")?;
                Some(inner)
            }
            Some("-") => {
                self.at += 1;
                let script = self.nested(Self::script)?;
                self.negated(script)
            }
            _ => match self.peek()? {
                // A subscript behind a bare number is the operator's, not the number's.
                Token::Number { value, decimal } => {
                    self.at += 1;
                    Some(Expr::Number { value: value.clone(), decimal: *decimal })
                }
                _ => self.nested(Self::atom),
            },
        }
    }

    pub(super) fn braced(&mut self) -> Option<Expr> {
        self.nested(Self::script)
    }

    pub(super) fn atom(&mut self) -> Option<Expr> {
        let token = self.peek()?;
        self.at += 1;
        match token {
            Token::Number { value, decimal } => {
                if self.peek_sign() == Some("_") && value.is_integer() && !decimal {
                    // A numeral in a base is itself and nothing else.
                    return Some(Expr::Symbol(self.with_subscript(value.to_string())?));
                }
                Some(Expr::Number { value: value.clone(), decimal: *decimal })
            }
            Token::Symbol(name) => {
                let mut name = name.clone();
                if self.peek_sign() == Some("_") {
                    name = self.with_subscript(name)?;
                }
                while self.take("'") {
                    name.push('\'');
                }
                Some(Expr::Symbol(name))
            }
            Token::Word(word) => Some(Expr::Word(word.clone())),
            Token::Command(name) => self.command(name),
            Token::Sign(open @ ("(" | "[")) => {
                let items = self.items()?;
                let close = self.peek_sign().filter(|sign| matches!(*sign, ")" | "]"))?;
                self.at += 1;
                match (items, (*open == "(") == (close == ")")) {
                    ((mut items, false), true) if items.len() == 1 => items.pop(),
                    ((items, _), _) if items.len() > 1 => {
                        let close = close.chars().next()?;
                        Some(Expr::Bracketed { open: open.chars().next()?, close, items })
                    }
                    _ => None,
                }
            }
            Token::Sign("{") => {
                let expr = self.within_brackets(Self::list)?;
                if self.peek_command() == Some("choose") {
                    self.at += 1;
                    let lower = self.within_brackets(Self::list)?;
                    self.expect("}")?;
                    return Some(Expr::Call(Function::Binomial, vec![expr, lower]));
                }
                self.expect("}")?;
                Some(expr)
            }
            Token::Sign("\\{") => {
                if self.take("\\}") {
                    return Some(Expr::Set(Vec::new()));
                }
                let (mut items, _) = self.items()?;
                self.expect("\\}")?;
                if items.len() == 1 { items.pop() } else { Some(Expr::Set(items)) }
            }
            Token::Sign("|") => {
                self.bars += 1;
                let inner = self.sum();
                self.bars -= 1;
                let inner = inner?;
                self.expect("|")?;
                Some(Expr::Call(Function::Abs, vec![inner]))
            }
            Token::Sign("⌊") => self.closed_call(Function::Floor, "⌋"),
            Token::Sign("⌈") => self.closed_call(Function::Ceil, "⌉"),
            Token::Sign(_) => None,
        }
    }

    fn closed_call(&mut self, function: Function, close: &str) -> Option<Expr> {
        let inner = self.within_brackets(Self::sum)?;
        self.expect(close)?;
        Some(Expr::Call(function, vec![inner]))
    }

    /// Runs a rule inside brackets, where a bar may open again.
    pub(super) fn within_brackets<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let bars = std::mem::take(&mut self.bars);
        let result = self.nested(rule);
        self.bars = bars;
        result
    }

    /// Items between commas or semicolons, and whether a trailing comma followed them.
    pub(super) fn items(&mut self) -> Option<(Vec<Expr>, bool)> {
        self.within_brackets(|parser| {
            let mut items = vec![parser.relation()?];
            while parser.take(",") || parser.take(";") {
                if matches!(parser.peek_sign(), Some(")" | "]" | "\\}")) {
                    return Some((items, true));
                }
                items.push(parser.relation()?);
            }
            Some((items, false))
        })
    }

    /// Reads `_x` or `_{…}` into a name.
    fn with_subscript(&mut self, name: String) -> Option<String> {
        self.expect("_")?;
        let subscript = self.nested(Self::script)?;
        Some(format!("{name}_{{{}}}", subscript.canonical()))
    }
}

fn relation_of(sign: &str) -> Option<Relation> {
    Some(match sign {
        "=" => Relation::Equal,
        "~" => Relation::Approximately,
        "!=" => Relation::Unequal,
        "<" => Relation::Less,
        "<=" => Relation::LessOrEqual,
        ">" => Relation::Greater,
        ">=" => Relation::GreaterOrEqual,
        "in" => Relation::Element,
        _ => return None,
    })
}

fn single_or_set(mut items: Vec<Expr>) -> Expr {
    match items.len() {
        1 => items.remove(0),
        _ => Expr::Set(items),
    }
}
