//! Tokens of an answer written in LaTeX, as plain text, or in between.
//!
//! What carries no meaning is dropped here (spacing, delimiter sizes, dollar signs, degree signs), and what has several
//! spellings gets one, so that the token sequence is already a normal form. Unknown characters are refused: the caller
//! then compares texts instead of guessing at values.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;

use super::work::Work;
use super::{rational, vocabulary};

/// Numbers with more digits than this are not read, nor are longer periods of repeating decimals.
const MAX_DIGITS: usize = 6000;
const MAX_PERIOD: usize = 100;

/// Bits that a decimal digit takes, rounded up.
const BITS_PER_DIGIT: u64 = 4;

/// Answers with more tokens than this are compared as texts only.
const MAX_TOKENS: usize = 4000;

/// Texts in formulas in texts: `\text{…\text{…}}` nests this deep at most.
const MAX_TEXTS: usize = 5;

/// A character's code has at most this many hexadecimal digits.
const MAX_CODE_DIGITS: usize = 6;

/// One unit of meaning.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// A number without sign; `decimal` where it is written with a decimal point.
    Number {
        /// Its exact value.
        value: BigRational,
        /// Written with a decimal point.
        decimal: bool,
    },
    /// A variable: a lower-case letter, or a Greek letter's name.
    Symbol(String),
    /// A command that means something, without its backslash, or a function's bare name.
    Command(String),
    /// Text of two letters or more that is not a formula.
    Word(String),
    /// A bracket, an operator or a relation.
    Sign(&'static str),
}

/// The tokens of `text`; none when it holds something that isn't known, or too much of everything.
pub fn tokenize(text: &str, work: &Work) -> Option<Vec<Token>> {
    tokenize_within(text, 0, work)
}

/// [`tokenize`], inside so many texts.
fn tokenize_within(text: &str, texts: usize, work: &Work) -> Option<Vec<Token>> {
    let text = spelled_one_way(text);
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, tokens: Vec::new(), depth: 0, texts, work };
    while lexer.at < lexer.chars.len() {
        lexer.step()?;
        if lexer.tokens.len() > MAX_TOKENS {
            return None;
        }
    }
    Some(lexer.tokens)
}

/// Spellings that are easier to unify in the text than in tokens.
fn spelled_one_way(text: &str) -> String {
    let mut text = text.replace(['\u{2212}', '\u{2013}'], "-");
    // Answers that were escaped twice: `\\frac`. Between the rows of a matrix the double backslash means itself.
    if !text.contains("\\begin") {
        text = text.replace("\\\\", "\\");
    }
    for (from, to) in [
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("^{\\prime}", "'"),
        ("^\\prime", "'"),
        ("\\degree", ""),
        ("°", ""),
        (",\\! ", "\u{1}"),
        (",\\!", "\u{1}"),
        ("\\!", ""),
        ("{,}", "\u{1}"),
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\cfrac", "\\frac"),
        ("**", "^"),
        ("²", "^2"),
        ("³", "^3"),
    ] {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text
}

struct Lexer<'w> {
    chars: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    /// Open brackets, inside which a comma never groups thousands.
    depth: usize,
    /// Text commands around this text.
    texts: usize,
    /// What arithmetic of long numbers may still cost.
    work: &'w Work,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn sign(&mut self, sign: &'static str) {
        match sign {
            "(" | "[" | "{" | "\\{" => self.depth += 1,
            ")" | "]" | "}" | "\\}" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.tokens.push(Token::Sign(sign));
    }

    fn command(&mut self, name: &str) {
        self.tokens.push(Token::Command(name.to_owned()));
    }

    fn step(&mut self) -> Option<()> {
        let c = self.peek(0)?;
        if c.is_whitespace() || matches!(c, '$' | '"' | '`' | '\u{2019}' | '€' | '£' | '¥') {
            self.at += 1;
        } else if c.is_ascii_digit() || (c == '.' && self.starts_decimals()) {
            self.number()?;
        } else if c == '\\' {
            self.backslash()?;
        } else if c.is_ascii_alphabetic() {
            self.letters();
        } else {
            self.other(c)?;
        }
        Some(())
    }

    fn other(&mut self, c: char) -> Option<()> {
        for (text, sign) in
            [("<=", "<="), (">=", ">="), ("!=", "!="), ("==", "="), ("~=", "~"), ("=<", "<="), ("=>", ">=")]
        {
            if self.starts_with(text) {
                self.at += 2;
                self.sign(sign);
                return Some(());
            }
        }
        // A full stop ends the answer; three of them leave it open.
        let is_end = || self.chars[self.at + 1..].iter().all(|c| c.is_whitespace() || *c == '$');
        if c == '.' && self.at > 0 && self.chars[self.at - 1] != '.' && is_end() {
            self.at = self.chars.len();
            return Some(());
        }
        self.at += 1;
        match c {
            'π' => self.command("pi"),
            '∞' => self.command("infty"),
            '√' => self.command("sqrt"),
            '∅' => self.command("emptyset"),
            _ => {
                if let Some(letter) = vocabulary::greek_letter(c) {
                    self.tokens.push(Token::Symbol(letter.to_owned()));
                    return Some(());
                }
                let sign = vocabulary::character(c)?;
                self.sign(sign);
            }
        }
        Some(())
    }

    fn backslash(&mut self) -> Option<()> {
        self.at += 1;
        let first = self.peek(0)?;
        let mut name = String::from(first);
        self.at += 1;
        if first == '\\' {
            self.tokens.push(Token::Sign("\\\\"));
            return Some(());
        }
        if first.is_ascii_alphabetic() {
            while let Some(c) = self.peek(0).filter(char::is_ascii_alphabetic) {
                name.push(c);
                self.at += 1;
            }
        }
        // `\vertx`: sources that lost the space behind a bar or a bracket.
        for bar in ["lvert", "rvert", "vert"] {
            if name.len() > bar.len() && name.starts_with(bar) {
                self.at -= name.len() - bar.len();
                name.truncate(bar.len());
            }
        }
        if vocabulary::is_decoration(&name) {
            // `\left.` is a missing bracket.
            if (name.starts_with("left") || name.starts_with("right")) && self.peek(0) == Some('.') {
                self.at += 1;
            }
        } else if let Some(sign) = vocabulary::command_sign(&name) {
            self.sign(sign);
        } else if vocabulary::is_text_command(&name) {
            self.text_command()?;
        } else if name == "char" {
            let code = self.character_code()?;
            self.other(code)?;
        } else if name == "mathbb" {
            let set = self.braced()?;
            self.command(if set.trim() == "R" { "reals" } else { return None });
        } else if vocabulary::is_greek(&name) {
            let letter = name.strip_prefix("var").unwrap_or(&name);
            self.tokens.push(Token::Symbol(letter.to_owned()));
        } else if matches!(name.as_str(), "begin" | "end") {
            let environment = self.braced()?;
            self.command(&format!("{name} {}", environment.trim_end_matches('*')));
            if name == "begin" && environment == "array" {
                self.braced()?;
            }
        } else {
            self.command(match name.as_str() {
                "exponentialE" => "e",
                "imaginaryI" => "i",
                "varnothing" => "emptyset",
                "bmod" | "pmod" => "mod",
                "dbinom" | "tbinom" => "binom",
                other => other,
            });
        }
        Some(())
    }

    /// What stands in the braces that follow.
    fn braced(&mut self) -> Option<String> {
        while self.peek(0) == Some(' ') {
            self.at += 1;
        }
        if self.peek(0)? != '{' {
            return None;
        }
        let mut depth = 0;
        let start = self.at + 1;
        loop {
            match self.peek(0)? {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(self.chars[start..self.at - 1].iter().collect());
            }
        }
    }

    /// The character whose code follows: `\char"0003B1`, hexadecimal.
    fn character_code(&mut self) -> Option<char> {
        self.at += usize::from(self.peek(0)? == '"');
        let digits: String =
            self.chars[self.at..].iter().take_while(|c| c.is_ascii_hexdigit()).take(MAX_CODE_DIGITS).collect();
        // The last of them is read again as the character itself.
        self.at += digits.len().checked_sub(1)?;
        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)
    }

    fn text_command(&mut self) -> Option<()> {
        let content = self.braced()?;
        let word = content.trim().trim_matches(['(', ')']).trim().trim_end_matches('.');
        let lower = word.to_lowercase();
        match lower.as_str() {
            "" | "th" => {}
            "and" | "or" | "," => self.sign(","),
            _ if lower.len() == 1 && word.starts_with(|c: char| c.is_ascii_alphabetic()) => self.letter(word),
            _ if vocabulary::is_percent(&lower) => self.sign("%"),
            _ if vocabulary::is_bare_name(&lower) => self.command(&lower),
            _ if word.contains(['\\', '^', '{'])
                || word.bytes().all(|b| b.is_ascii_digit() || b"+-*/.,".contains(&b)) =>
            {
                let texts = self.texts + 1;
                let tokens = (texts <= MAX_TEXTS).then(|| tokenize_within(word, texts, self.work)).flatten()?;
                self.tokens.extend(tokens);
            }
            _ => self.tokens.push(Token::Word(lower.split_whitespace().collect())),
        }
        Some(())
    }

    fn letter(&mut self, letter: &str) {
        match letter {
            "e" | "i" => self.command(letter),
            _ => self.tokens.push(Token::Symbol(letter.to_lowercase())),
        }
    }

    /// A run of letters: a function, a connective, a unit, or one variable per letter.
    fn letters(&mut self) {
        let start = self.at;
        // `1orx=2`: a connective that lost its spaces.
        let after_digit = start > 0 && self.chars[start - 1].is_ascii_digit();
        if let Some(connective) = ["and", "or"].iter().find(|word| after_digit && self.starts_with(word)) {
            self.at += connective.len();
            self.sign(",");
            return;
        }
        while self.peek(0).is_some_and(|c| c.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let run: String = self.chars[start..self.at].iter().collect();
        let lower = run.to_lowercase();
        let after_number = matches!(self.tokens.last(), Some(Token::Number { .. } | Token::Sign("}" | ")")));
        match lower.as_str() {
            "and" | "or" => self.sign(","),
            "infinity" | "inf" => self.command("infty"),
            "frac" => self.command("frac"),
            _ if vocabulary::is_percent(&lower) => self.sign("%"),
            _ if vocabulary::is_bare_name(&lower) => self.command(&lower),
            _ if after_number && run.len() > 1 && vocabulary::is_unit(&lower) => self.tokens.push(Token::Word(lower)),
            _ => run.chars().for_each(|c| self.letter(c.encode_utf8(&mut [0; 4]))),
        }
    }

    /// Whether decimals follow a point: digits, or the bar over repeating ones.
    fn starts_decimals(&self) -> bool {
        let digit = self.peek(1).is_some_and(|c| c.is_ascii_digit());
        digit || self.starts_with(".\\overline{") || self.starts_with(".\\bar{")
    }

    fn digits(&mut self, into: &mut String) {
        while let Some(digit) = self.peek(0).filter(char::is_ascii_digit) {
            into.push(digit);
            self.at += 1;
        }
    }

    /// The separator of three more digits, where there is one: its length.
    fn thousands(&self, leading: &str) -> Option<usize> {
        let three_at = |ahead: usize| {
            let digit = |k: usize| self.peek(ahead + k).is_some_and(|c| c.is_ascii_digit());
            digit(0) && digit(1) && digit(2) && !digit(3)
        };
        if leading.len() > 3 || leading.starts_with('0') {
            return None;
        }
        // `{,}` and `,\!` were replaced by a control character.
        match self.peek(0)? {
            '\u{1}' => three_at(1).then_some(1),
            '\\' if self.peek(1) == Some(',') => three_at(2).then_some(2),
            ',' if three_at(1) && self.depth == 0 => Some(1),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        // `\frac12` takes one digit for each part.
        let short = match self.tokens.as_slice() {
            [.., Token::Command(name)] => name == "frac" || name == "binom",
            [.., Token::Command(name), Token::Number { .. }] => name == "frac" || name == "binom",
            _ => false,
        };
        if short && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(10)) {
            self.at += 1;
            self.tokens.push(Token::Number { value: BigRational::from_integer(digit.into()), decimal: false });
            return Some(());
        }
        let mut whole = String::new();
        self.digits(&mut whole);
        let leading = whole.clone();
        while let Some(length) = self.thousands(&leading) {
            self.at += length;
            self.digits(&mut whole);
        }
        let mut fraction = String::new();
        let mut decimal = false;
        let repeats = |lexer: &Self| lexer.starts_with("\\overline{") || lexer.starts_with("\\bar{");
        if self.peek(0) == Some('.') && self.starts_decimals() {
            decimal = true;
            self.at += 1;
            self.digits(&mut fraction);
        }
        if whole.len() + fraction.len() > MAX_DIGITS {
            return None;
        }
        let mut value = self.over_power_of_ten(&(whole + &fraction), fraction.len())?;
        if decimal && repeats(self) {
            while self.peek(0)? != '{' {
                self.at += 1;
            }
            let period = self.braced()?;
            if period.is_empty() || period.len() > MAX_PERIOD || !period.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let nines = BigInt::from(10).pow(period.len() as u32) - 1;
            let repeating = rational::product(
                [self.over_power_of_ten(&period, fraction.len()), rational::reduced(1.into(), nines, self.work)],
                self.work,
            );
            value = rational::sum([Some(value), repeating], self.work)?;
            decimal = false;
        }
        if let Some(exponent) = self.exponent() {
            let power = rational::power(&BigRational::from_integer(10.into()), exponent, self.work);
            value = rational::product([Some(value), power], self.work)?;
        }
        self.tokens.push(Token::Number { value, decimal });
        Some(())
    }

    /// The number with these digits, the last `num_decimals` of them behind the point.
    fn over_power_of_ten(&self, digits: &str, num_decimals: usize) -> Option<BigRational> {
        // Zeros at the end would be a factor to find and divide by.
        let zeros = digits.bytes().rev().take(num_decimals).take_while(|digit| *digit == b'0').count();
        let digits = &digits[..digits.len() - zeros];
        if digits.is_empty() {
            return Some(BigRational::zero());
        }
        let num_bits = BITS_PER_DIGIT * digits.len() as u64;
        rational::pay_product(num_bits, num_bits, self.work)?;
        let denominator = BigInt::from(10).pow((num_decimals - zeros) as u32);
        rational::reduced(digits.parse().ok()?, denominator, self.work)
    }

    /// The exponent of `1e3` or `21E-12`, where one follows.
    fn exponent(&mut self) -> Option<i32> {
        let sign = self.peek(1).filter(|c| matches!(c, '+' | '-'));
        let first = if sign.is_some() { 2 } else { 1 };
        let is_exponent =
            matches!(self.peek(0), Some('e' | 'E')) && self.peek(first).is_some_and(|c| c.is_ascii_digit());
        if !is_exponent {
            return None;
        }
        let back = self.at;
        self.at += first;
        let mut digits = String::new();
        self.digits(&mut digits);
        let exponent = digits.parse::<i32>().ok().filter(|exponent| *exponent <= MAX_DIGITS as i32);
        if exponent.is_none() {
            self.at = back;
        }
        exponent.map(|exponent| if sign == Some('-') { -exponent } else { exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Option<Vec<Token>> {
        tokenize(text, &Work::new())
    }

    fn number(text: &str) -> Option<(String, bool)> {
        match tokens(text)?.as_slice() {
            [Token::Number { value, decimal }] => Some((value.to_string(), *decimal)),
            _ => None,
        }
    }

    #[test]
    fn numbers_in_many_spellings() {
        for (text, value, decimal) in [
            ("1,234,567.5", "2469135/2", true),
            ("1{,}234", "1234", false),
            ("1\\,234", "1234", false),
            ("32,\\! 349", "32349", false),
            (".5", "1/2", true),
            ("007", "7", false),
            ("1500E-1", "150", false),
            ("0.\\overline{3}", "1/3", false),
            ("0.1\\overline{6}", "1/6", false),
            ("42.", "42", false),
        ] {
            assert_eq!(number(text), Some((value.to_owned(), decimal)), "{text}");
        }
        assert_eq!(number("12,34"), None, "two numbers");
        assert_eq!(tokens("0.999..."), None);
        assert_eq!(tokens("(0,100)").map(|tokens| tokens.len()), Some(5), "no thousands inside brackets");
        assert_eq!(tokens(&"9".repeat(MAX_DIGITS + 1)), None);
    }

    #[test]
    fn spellings_meet() {
        for (a, b) in [
            ("\\left( 6, -\\dfrac{3}{8} \\right)", "(6,-\\frac{3}{8})"),
            ("x \\leq 2", "x<=2"),
            ("\\{1\\}\\cup A", "\\{1\\} ∪ a"),
            ("45^{\\circ}", "45°"),
            ("2 \\text{ and } 3", "2,3"),
            ("28 percent", "28\\%"),
            ("\\text{E}", "E"),
            ("\\\\frac{1}{2}", "\\frac{1}{2}"),
        ] {
            assert_eq!(tokens(a), tokens(b), "{a}");
            assert!(tokens(a).is_some(), "{a}");
        }
    }
}
