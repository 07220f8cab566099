//! Makes inputs: token soup of a grammar, mutated seeds, repetitions, numbers and raw bytes.
//!
//! An input is a pure function of (seed, target, index), so a finding is named by three numbers and a campaign can be
//! taken up anywhere. Inputs follow a grammar's tokens and not its rules: most are nonsense with a familiar look, which
//! is what reaches the odd corners of hand-written parsers.

use skein_core::random::Stream;

/// Divides the two texts of an input that has two, for instance a gold answer and an answer.
pub const SEPARATOR: char = '\u{1f}';

/// What a parser's inputs are made of.
pub struct Grammar {
    /// Pieces that mean something to the parser, in lists that grammars share.
    pub tokens: &'static [&'static [&'static str]],
    /// Whole inputs that a parser accepts, to be damaged.
    pub seeds: &'static [&'static str],
}

/// Pieces that no grammar expects and every parser meets.
const JUNK: &[&str] = &[
    "\0",
    "\u{feff}",
    "\u{200b}",
    "\u{202e}",
    "e\u{301}",
    "ﬁ",
    "İ",
    "ß",
    "١٢٣",
    "½",
    "²",
    "−",
    "–",
    "’",
    "“",
    "🦀",
    "👩‍👩‍👧",
    "\u{10ffff}",
    "\r\n",
    "\t",
    "\u{a0}",
    "\u{2028}",
    "答案",
    "，",
    "．",
    "<",
    ">",
    "&amp;",
    "%n",
    "\\",
    "\"",
    "'",
    "`",
    "NaN",
    "inf",
    "-0",
    "null",
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "\\boxed{",
    "}",
    "{",
    "[",
    "]",
];

/// Longest input, in bytes: somewhat more than the longest answer a scorer looks at.
pub const MAX_BYTES: usize = 16_384;

/// The input number `index` of `target`.
pub fn input(seed: u64, target: &str, index: u64, grammar: &Grammar, extra: &[String], num_texts: usize) -> Vec<u8> {
    let mut maker = Maker { stream: Stream::new(seed, target, index), grammar, extra };
    let mut bytes = maker.text();
    for _ in 1..num_texts {
        let next = maker.related(&bytes);
        bytes.extend(SEPARATOR.to_string().bytes());
        bytes.extend(next);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

struct Maker<'a> {
    stream: Stream,
    grammar: &'a Grammar,
    extra: &'a [String],
}

impl Maker<'_> {
    fn text(&mut self) -> Vec<u8> {
        match self.stream.below(100) {
            0..45 => self.soup(),
            45..85 => {
                let seed = self.seed();
                self.mutated(seed)
            }
            85..90 => self.repetition(),
            90..95 => self.number().into_bytes(),
            _ => self.raw(),
        }
    }

    /// A text to be held against `first`: a relative of it, so that comparisons get past their first step, or any other.
    fn related(&mut self, first: &[u8]) -> Vec<u8> {
        match self.stream.below(10) {
            0 => first.to_vec(),
            1..5 => self.mutated(first.to_vec()),
            5 => [b"The answer is \\boxed{", first, b"}."].concat(),
            _ => self.text(),
        }
    }

    fn token(&mut self) -> String {
        match self.stream.below(20) {
            0 => (*self.stream.choose(JUNK)).to_owned(),
            1 => self.number(),
            _ => {
                let num_tokens: usize = self.grammar.tokens.iter().map(|list| list.len()).sum();
                let drawn = self.stream.below(num_tokens as u64) as usize;
                (*self.grammar.tokens.iter().copied().flatten().nth(drawn).expect("one of them is drawn")).to_owned()
            }
        }
    }

    fn soup(&mut self) -> Vec<u8> {
        let length = self.length();
        let spaced = self.stream.below(3) == 0;
        let mut text = String::new();
        for _ in 0..length {
            text.push_str(&self.token());
            if spaced {
                text.push(' ');
            }
        }
        text.into_bytes()
    }

    /// Mostly a handful of tokens, now and then as many as fit.
    fn length(&mut self) -> u64 {
        let most = match self.stream.below(200) {
            0 => 3000,
            1..10 => 200,
            10..60 => 30,
            _ => 10,
        };
        1 + self.stream.below(most)
    }

    fn seed(&mut self) -> Vec<u8> {
        let own = self.grammar.seeds.len() as u64;
        let drawn = self.stream.below(own + self.extra.len() as u64);
        match drawn.checked_sub(own) {
            Some(extra) => self.extra[extra as usize].clone().into_bytes(),
            None => self.grammar.seeds[drawn as usize].into(),
        }
    }

    fn mutated(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..=self.stream.below(4) {
            bytes.truncate(MAX_BYTES);
            let (from, to) = (self.place(&bytes), self.place(&bytes));
            let span = from.min(to)..from.max(to);
            match self.stream.below(8) {
                0 => drop(bytes.drain(span)),
                1 => {
                    let copied = bytes[span.clone()].to_vec();
                    drop(bytes.splice(span.end..span.end, copied));
                }
                2 => bytes.truncate(from),
                3 => {
                    let token = self.token();
                    drop(bytes.splice(span, token.into_bytes()));
                }
                4 if !bytes.is_empty() => {
                    let at = self.stream.below(bytes.len() as u64) as usize;
                    bytes[at] = self.stream.next_u64() as u8;
                }
                _ => {
                    let token = self.token();
                    drop(bytes.splice(from..from, token.into_bytes()));
                }
            }
        }
        bytes
    }

    /// A place to cut, mostly between characters.
    fn place(&mut self, bytes: &[u8]) -> usize {
        let mut at = self.stream.below(bytes.len() as u64 + 1) as usize;
        while self.stream.below(16) != 0 && bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80) {
            at += 1;
        }
        at
    }

    /// A few tokens over and over: deep nesting, long lists, long numbers.
    fn repetition(&mut self) -> Vec<u8> {
        let unit: String = (0..=self.stream.below(3)).map(|_| self.token()).collect();
        let most = if self.stream.below(10) == 0 { MAX_BYTES / unit.len().max(1) } else { 60 };
        let mut text = if self.stream.below(2) == 0 { self.token() } else { String::new() };
        text.push_str(&unit.repeat(1 + self.stream.below(most as u64 + 1) as usize));
        if self.stream.below(2) == 0 {
            text.push_str(&self.token());
        }
        text.into_bytes()
    }

    fn number(&mut self) -> String {
        let most = if self.stream.below(20) == 0 { 400 } else { 6 };
        let count = 1 + self.stream.below(most);
        let digits: String = (0..count).map(|_| char::from(b'0' + self.stream.below(10) as u8)).collect();
        let bits = self.stream.next_u64();
        match self.stream.below(10) {
            0 => format!("{}", f64::from_bits(bits)),
            1 => format!("{:e}", f64::from_bits(bits)),
            2 => format!("-{digits}"),
            3 => format!("{digits}.{digits}"),
            4 => format!("{digits}e{}", self.stream.between(-400, 400)),
            5 => format!("{digits}/{}", self.stream.below(30)),
            6 => format!("{},{digits}", self.stream.below(1000)),
            7 => format!("{digits}%"),
            8 => bits.to_string(),
            _ => digits,
        }
    }

    fn raw(&mut self) -> Vec<u8> {
        (0..self.length() * 2).map(|_| self.stream.next_u64() as u8).collect()
    }
}
