//! Where in a text its answer stands.
//!
//! The whole text is the answer unless it says otherwise: with a box, with `answer is` or `answer:`, or by being a
//! sentence, whose last formula or number then counts. Once an answer is found, nothing inside it is searched again: a
//! formula that can't be read is never replaced by a number that happens to occur in it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::vocabulary::is_unit;

/// How far behind `answer:` the answer may begin, in bytes.
const ANCHOR_REACH: usize = 50;

/// How far behind `final answer` an `is` may stand, in characters, and the answer behind that, in bytes.
const IS_DISTANCE: usize = 100;
const IS_REACH: usize = 2;

/// Boxes this close, in bytes, make one answer; further apart only where a connective stands between them.
const BOX_GAP: usize = 10;
const BOX_GAP_CONNECTED: usize = 70;

/// The part of `text` that is its answer.
pub fn answer(text: &str) -> String {
    let text = text.trim();
    // The closing words of a widely used few-shot prompt; nothing binds more than they do.
    static CLOSING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)final answer is([^\n]+?)\.\s*I hope").expect("the pattern is a constant"));
    if let Some(closing) = CLOSING.captures_iter(text).last().and_then(|captures| captures.get(1))
        && !text[closing.end()..].contains("\\boxed")
    {
        return answer(closing.as_str());
    }
    if let Some(boxed) = boxed(text) {
        return boxed;
    }
    let formulas = formulas(text);
    if let [only] = formulas.as_slice()
        && only.span == (0..text.len())
    {
        // A comma is a decimal point in running text only: as a whole answer, `12,34` is two numbers.
        return if only.delimited || !text.contains(',') { only.content.clone() } else { text.to_owned() };
    }
    if !is_sentence(text) && formulas.iter().all(|formula| !formula.delimited) {
        return text.to_owned();
    }
    let chosen = anchored(text, &formulas).or_else(|| formulas.len().checked_sub(1));
    chosen.map_or_else(|| text.to_owned(), |index| joined(text, &formulas, index))
}

/// The content of the last box, or of several that belong together.
fn boxed(text: &str) -> Option<String> {
    static BOX: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\\(?:boxed|fbox)\s*").expect("the pattern is a constant"));
    static CONNECTIVE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(?:and|or)\b|[,;]").expect("the pattern is a constant"));
    let mut boxes: Vec<(Range<usize>, &str)> = Vec::new();
    let closing = OnceCell::new();
    for found in BOX.find_iter(text) {
        if boxes.last().is_some_and(|(span, _)| found.start() < span.end) {
            continue;
        }
        let rest = &text[found.end()..];
        let (content, length) = match rest.strip_prefix('{') {
            Some(inner) => match closing.get_or_init(|| closing_braces(text)).get(&found.end()) {
                Some(end) => (&text[found.end() + 1..*end], end + 1 - found.end()),
                None => {
                    let length = inner.find('$').unwrap_or(inner.len());
                    (&inner[..length], length + 1)
                }
            },
            None => {
                let length = rest.find('$').unwrap_or(rest.len());
                (&rest[..length], length)
            }
        };
        boxes.push((found.start()..found.end() + length, content));
    }
    let (mut span, last) = boxes.pop()?;
    let mut contents = vec![last];
    for (other, content) in boxes.into_iter().rev() {
        let between = &text[other.end..span.start];
        let connected = CONNECTIVE.is_match(between);
        if content == last || !(between.len() < BOX_GAP || (between.len() < BOX_GAP_CONNECTED && connected)) {
            break;
        }
        contents.push(content);
        span = other;
    }
    contents.reverse();
    Some(contents.join(","))
}

/// Where each opening brace of a text is closed; those that are not are left out.
fn closing_braces(text: &str) -> HashMap<usize, usize> {
    let mut open = Vec::new();
    let mut closing = HashMap::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => closing.extend(open.pop().map(|start| (start, at))),
            _ => {}
        }
    }
    closing
}

struct Formula {
    span: Range<usize>,
    content: String,
    /// Marked as LaTeX, as opposed to a number or expression in plain text.
    delimited: bool,
}

/// All formulas of a text, in order; a percent sign or word behind one belongs to it.
fn formulas(text: &str) -> Vec<Formula> {
    static PERCENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)^\s*(?:\\?%|percent(?:age)?\b|pct\b)").expect("the pattern is a constant"));
    let mut found = Vec::new();
    let mut delimiters = Delimiters::new(text);
    let (mut last, mut at) = (0, 0);
    while let Some(ahead) = text[at..].find(['$', '\\']) {
        let start = at + ahead;
        let Some(formula) = delimiters.formula(start) else {
            at = start + 1;
            continue;
        };
        numbers(text, last..start, &mut found);
        (last, at) = (formula.span.end, formula.span.end);
        found.push(formula);
    }
    numbers(text, last..text.len(), &mut found);
    for formula in &mut found {
        if let Some(percent) = PERCENT.find(&text[formula.span.end..]) {
            formula.span.end += percent.end();
            if !formula.content.trim_end().ends_with('%') {
                formula.content.push_str("\\%");
            }
        }
    }
    found
}

/// What may close a formula, each searched for once however many formulas it might close.
struct Delimiters<'t> {
    text: &'t str,
    dollars: Next<'t>,
    bracket: Next<'t>,
    parenthesis: Next<'t>,
    dollar: Next<'t>,
    newline: Next<'t>,
}

impl<'t> Delimiters<'t> {
    fn new(text: &'t str) -> Self {
        let [dollars, bracket, parenthesis, dollar, newline] =
            ["$$", "\\]", "\\)", "$", "\n"].map(|pattern| Next { text, pattern, found: Some(0), from: 0 });
        Self { text, dollars, bracket, parenthesis, dollar, newline }
    }

    /// The formula that begins at a dollar sign or backslash, which come in order: `$$…$$`, `\[…\]`, and on one line
    /// `\(…\)`, `$…$` or a bare fraction. None of them is empty.
    fn formula(&mut self, start: usize) -> Option<Formula> {
        static FRACTION: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\}").expect("the pattern is a constant"));
        let rest = &self.text[start..];
        let opening = rest.get(..2).unwrap_or("$");
        let inner = start + 2;
        // Behind the first character of what is inside.
        let behind = self.text.get(inner..).and_then(|inside| inside.chars().next()).map(|c| inner + c.len_utf8());
        let close = match opening {
            "$$" => self.dollars.at(behind?),
            "\\[" => self.bracket.at(behind?),
            "\\(" => {
                let end_of_line = self.newline.at(inner).unwrap_or(self.text.len());
                self.parenthesis.at(behind?).filter(|close| *close < end_of_line)
            }
            _ => None,
        };
        if let Some(close) = close {
            return Some(self.delimited(start..close + 2, inner..close));
        }
        if rest.starts_with('$') {
            let inner = start + 1;
            let close = self.dollar.at(inner).filter(|close| *close > inner)?;
            let is_one_line = self.newline.at(inner).is_none_or(|end_of_line| close < end_of_line);
            return is_one_line.then(|| self.delimited(start..close + 1, inner..close));
        }
        let fraction = FRACTION.find(rest)?.as_str();
        let span = start..start + fraction.len();
        Some(Formula { span, content: fraction.to_owned(), delimited: false })
    }

    fn delimited(&self, span: Range<usize>, inner: Range<usize>) -> Formula {
        Formula { span, content: self.text[inner].trim().to_owned(), delimited: true }
    }
}

/// The next place of a pattern, for questions that go forward through a text.
struct Next<'t> {
    text: &'t str,
    pattern: &'static str,
    /// The first place at or behind `from`.
    found: Option<usize>,
    from: usize,
}

impl Next<'_> {
    /// The first place at or behind `from`, which is never less than before.
    fn at(&mut self, from: usize) -> Option<usize> {
        if self.from == 0 || self.found? < from {
            self.found = self.text.get(from..)?.find(self.pattern).map(|ahead| from + ahead);
            self.from = from;
        }
        self.found
    }
}

/// Numbers and arithmetic in plain text.
fn numbers(text: &str, within: Range<usize>, found: &mut Vec<Formula>) {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?:^|[\s=(\[:,*$€£¥>])(?P<n>[-+]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?: \d{3})+(?:\.\d+)?",
            r"|\d+(?:[.,]\d+)?|\.\d+)(?:\s*[-+*/^÷×]\s*[-+(]*\d+(?:\.\d+)?\)*)*)",
        ))
        .expect("the pattern is a constant")
    });
    let part = &text[within.clone()];
    let mut from = 0;
    while let Some(captures) = NUMBER.captures_at(part, from) {
        let number = captures.name("n").expect("the group is in every match");
        from = number.end();
        let digits = number.as_str();
        // `2,74` in running text has a decimal comma, unless it groups thousands.
        let decimal_comma = !digits.contains('.')
            && digits.split_once(',').is_some_and(|(_, tail)| tail.len() != 3 && !tail.contains(','));
        let content = if decimal_comma { digits.replacen(',', ".", 1) } else { digits.replace(' ', "") };
        found.push(Formula {
            span: within.start + number.start()..within.start + number.end(),
            content: content.replace(['$', '€', '£', '¥'], ""),
            delimited: false,
        });
    }
}

/// The formula that an anchor points at: `final answer … is X`, then `answer: X`, then `answer … X`; the last of a kind.
fn anchored(text: &str, formulas: &[Formula]) -> Option<usize> {
    static ANCHORS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        ["(?i)final answer", r"(?i)answer\s*:[\s*]*", "(?i)answer"]
            .map(|pattern| Regex::new(pattern).expect("the pattern is a constant"))
    });
    let [final_answer, answer_colon, answer] = &*ANCHORS;
    let behind = |end: usize, reach: usize| {
        let first = formulas.partition_point(|formula| formula.span.start < end);
        (first < formulas.len() && formulas[first].span.start <= end + reach).then_some(first)
    };
    let last_behind =
        |anchor: &Regex| anchor.find_iter(text).filter_map(|found| behind(found.end(), ANCHOR_REACH)).last();
    let is = final_answer.find_iter(text).filter_map(|found| behind_is(text, found.end()));
    is.filter_map(|end| behind(end, IS_REACH))
        .last()
        .or_else(|| last_behind(answer_colon))
        .or_else(|| last_behind(answer))
}

/// Where what `is` announces begins, when that word stands on the same line not too far behind `from`.
fn behind_is(text: &str, from: usize) -> Option<usize> {
    static IS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\bis\b").expect("the pattern is a constant"));
    // Two letters and what follows them may stand behind the distance.
    let distance = text[from..].chars().take_while(|c| *c != '\n').take(IS_DISTANCE + 3);
    let mut limit = from + distance.map(char::len_utf8).sum::<usize>();
    limit += text[limit..].chars().next().map_or(0, char::len_utf8);
    let is = IS.find_at(&text[..limit], from)?;
    (text[from..is.start()].chars().count() <= IS_DISTANCE).then(|| {
        let rest = text[is.end()..].trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '*'));
        text.len() - rest.len()
    })
}

/// The formula at `index` together with those that `,`, `and` or `or` join to it.
fn joined(text: &str, formulas: &[Formula], index: usize) -> String {
    let joins = |left: &Formula, right: &Formula| {
        let between = text[left.span.end..right.span.start].trim();
        left.delimited && right.delimited && matches!(between, "," | "and" | "or" | ", and" | ", or")
    };
    let mut first = index;
    while first > 0 && joins(&formulas[first - 1], &formulas[first]) {
        first -= 1;
    }
    let mut last = index;
    while last + 1 < formulas.len() && joins(&formulas[last], &formulas[last + 1]) {
        last += 1;
    }
    let contents: Vec<&str> = formulas[first..=last].iter().map(|formula| formula.content.as_str()).collect();
    contents.join(",")
}

/// Whether a text holds words of a language besides formulas, functions, units and connectives.
fn is_sentence(text: &str) -> bool {
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:\\[a-zA-Z]+\s*\{[^{}]*\}|\\[a-zA-Z]+|\p{L}+)").expect("the pattern is a constant")
    });
    const SHORT_WORDS: [&str; 14] =
        ["is", "it", "so", "we", "to", "of", "by", "an", "as", "at", "be", "if", "he", "my"];
    const NAMES: [&str; 26] = [
        "and",
        "or",
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "log",
        "exp",
        "max",
        "min",
        "gcd",
        "lcm",
        "mod",
        "sqrt",
        "abs",
        "floor",
        "ceil",
        "frac",
        "inf",
        "infinity",
        "percent",
        "percentage",
        "pct",
        "arctan",
    ];
    WORD.find_iter(text).any(|word| {
        let word = word.as_str();
        let lower = word.to_lowercase();
        if word.starts_with('\\') || NAMES.contains(&lower.as_str()) || is_unit(&lower) {
            return false;
        }
        // `1orW(x)=2`: a connective that lost its spaces.
        let is_name = |rest: &str| rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_uppercase());
        if ["and", "or"].iter().any(|connective| word.strip_prefix(connective).is_some_and(is_name)) {
            return false;
        }
        let shout = word.chars().all(char::is_uppercase);
        !word.is_ascii() && word.chars().count() > 1
            || SHORT_WORDS.contains(&word)
            || (word.len() > 3 && !(shout && word.len() < 6))
            || (word.len() == 3 && !shout && word.contains(['a', 'e', 'i', 'o', 'u']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_answer() {
        for (text, expected) in [
            ("42", "42"),
            ("$28\\%$", "28\\%"),
            ("so \\boxed{3} or rather \\boxed{\\frac{1}{2}}", "3,\\frac{1}{2}"),
            ("\\boxed{1} no no no no no \\boxed{2}", "2"),
            ("\\boxed 7$", "7"),
            ("Answer: 41 was a wrong guess.\nAnswer: 42", "42"),
            ("The final answer is \\((-6, 10)\\). I hope it is correct.", "(-6, 10)"),
            ("Final Answer: The largest $n$ is 34.", "34"),
            ("it is 1,000.99m² big", "1,000.99"),
            ("Soucis : 2,74 $ a..", "2.74"),
            ("33.5 percent of them all", "33.5\\%"),
            ("the roots are $1$, $2$ and $3$", "1,2,3"),
            ("(1,2)", "(1,2)"),
            ("5 cm", "5 cm"),
            ("AZYUK2A is the plate", "AZYUK2A is the plate"),
        ] {
            assert_eq!(answer(text), expected, "{text}");
        }
    }
}
