//! Plain Python values as Rust holds them, and Python's equality on them.
//!
//! They are what may cross from an answer's process: no value here has behaviour of its own, so none can claim to equal
//! everything. Expected values are read from JSON with integers of any size.

use num_bigint::BigInt;
use num_traits::FromPrimitive;

/// Values nest at most this deep.
pub const MAX_DEPTH: usize = 64;

/// A value of a built-in Python type that can be written as a literal.
#[derive(Debug, Clone, PartialEq)]
pub enum PlainValue {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer of any size.
    Int(BigInt),
    /// A float, not-a-number and infinities included.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// Text without lone surrogates.
    Str(String),
    /// `bytes` or `bytearray`.
    Bytes(Vec<u8>),
    /// `list`.
    List(Vec<PlainValue>),
    /// `tuple`.
    Tuple(Vec<PlainValue>),
    /// `set` or `frozenset`, in any order.
    Set(Vec<PlainValue>),
    /// Keys and values in insertion order.
    Dict(Vec<(PlainValue, PlainValue)>),
}

impl PlainValue {
    /// The value of a JSON text; none when it is not JSON or nests too deep.
    pub fn from_json(text: &str) -> Option<Self> {
        let mut reader = JsonReader { text, depth: 0 };
        let value = reader.value()?;
        reader.skip_space();
        reader.text.is_empty().then_some(value)
    }

    /// A tuple as a list, as graders that expect JSON read it; nested ones stay as they are.
    pub fn with_list_for_tuple(self) -> Self {
        match self {
            Self::Tuple(items) => Self::List(items),
            other => other,
        }
    }

    /// Python's `==`: numbers by value whatever their type, sequences of one type item by item, mappings and sets
    /// without order.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
            }
            (Self::Set(a), Self::Set(b)) => a.len() == b.len() && a.iter().all(|a| b.iter().any(|b| a.equals(b))),
            (Self::Dict(a), Self::Dict(b)) => a.len() == b.len() && a.iter().all(|entry| holds(b, entry)),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.equals(&b),
                _ => false,
            },
        }
    }

    fn number(&self) -> Option<Number> {
        Some(match self {
            Self::Bool(flag) => Number { integer: Some(BigInt::from(u8::from(*flag))), real: 0.0, imaginary: 0.0 },
            Self::Int(integer) => Number { integer: Some(integer.clone()), real: 0.0, imaginary: 0.0 },
            Self::Float(real) => Number::of(*real, 0.0),
            Self::Complex(real, imaginary) => Number::of(*real, *imaginary),
            _ => return None,
        })
    }
}

fn holds(entries: &[(PlainValue, PlainValue)], (key, value): &(PlainValue, PlainValue)) -> bool {
    entries.iter().any(|(k, v)| k.equals(key) && v.equals(value))
}

/// A number whose real part is exact where it is whole, so that 2⁵³ + 1 is not the float 2⁵³.
struct Number {
    integer: Option<BigInt>,
    /// Counts where there is no integer.
    real: f64,
    imaginary: f64,
}

impl Number {
    fn of(real: f64, imaginary: f64) -> Self {
        let integer = (real.fract() == 0.0).then(|| BigInt::from_f64(real)).flatten();
        Self { integer, real, imaginary }
    }

    fn equals(&self, other: &Self) -> bool {
        let same_real = match (&self.integer, &other.integer) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.real == other.real,
            _ => false,
        };
        same_real && self.imaginary == other.imaginary
    }
}

struct JsonReader<'a> {
    /// What is left.
    text: &'a str,
    depth: usize,
}

impl<'a> JsonReader<'a> {
    fn value(&mut self) -> Option<PlainValue> {
        self.skip_space();
        match self.text.bytes().next()? {
            b'"' => self.string().map(PlainValue::Str),
            b'[' => self.nested(|reader| {
                let mut items = Vec::new();
                reader.entries(']', |reader| {
                    items.push(reader.value()?);
                    Some(())
                })?;
                Some(PlainValue::List(items))
            }),
            b'{' => self.nested(|reader| {
                let mut entries: Vec<(PlainValue, PlainValue)> = Vec::new();
                reader.entries('}', |reader| {
                    reader.skip_space();
                    let key = PlainValue::Str(reader.string()?);
                    reader.take(':')?;
                    let value = reader.value()?;
                    entries.retain(|(known, _)| *known != key);
                    entries.push((key, value));
                    Some(())
                })?;
                Some(PlainValue::Dict(entries))
            }),
            _ => self.word(),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<PlainValue>) -> Option<PlainValue> {
        self.text = &self.text[1..];
        self.depth += 1;
        let value = (self.depth <= MAX_DEPTH).then(|| read(self)).flatten()?;
        self.depth -= 1;
        Some(value)
    }

    /// Entries separated by commas up to `close`.
    fn entries(&mut self, close: char, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            read(self)?;
            if self.take(',').is_none() {
                return self.take(close);
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.text.bytes().enumerate().skip(1).find_map(|(index, byte)| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes.then_some(index)
        })?;
        let (literal, rest) = (self.text.get(..=end)?, self.text.get(end + 1..)?);
        self.text = rest;
        serde_json::from_str(literal).ok()
    }

    /// A number or a name; the names for floats that are no numbers are Python's.
    fn word(&mut self) -> Option<PlainValue> {
        let end = self.text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
        let (word, rest) = self.text.split_at(end.unwrap_or(self.text.len()));
        self.text = rest;
        Some(match word {
            "null" => PlainValue::None,
            "true" => PlainValue::Bool(true),
            "false" => PlainValue::Bool(false),
            "NaN" => PlainValue::Float(f64::NAN),
            "Infinity" => PlainValue::Float(f64::INFINITY),
            "-Infinity" => PlainValue::Float(f64::NEG_INFINITY),
            _ => {
                let digits = word.strip_prefix('-').unwrap_or(word);
                if !digits.starts_with(|c: char| c.is_ascii_digit()) {
                    return None;
                }
                match digits.bytes().all(|b| b.is_ascii_digit()) {
                    true => PlainValue::Int(word.parse().ok()?),
                    false => PlainValue::Float(word.parse().ok()?),
                }
            }
        })
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.skip_space();
        self.text = self.text.strip_prefix(wanted)?;
        Some(())
    }

    fn skip_space(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t', '\r', '\n']);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> PlainValue {
        PlainValue::from_json(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn reads_json() {
        assert_eq!(json(" [1, -2.5, \"a\\\"b\", null, true, {}] "), {
            use PlainValue as V;
            let list = vec![V::Int(1.into()), V::Float(-2.5), V::Str("a\"b".into()), V::None, V::Bool(true)];
            V::List(list.into_iter().chain([V::Dict(vec![])]).collect())
        });
        assert_eq!(json("{\"a\": 1, \"a\": 2}"), json("{\"a\": 2}"));
        assert_eq!(json("100000000000000000000001"), PlainValue::Int("100000000000000000000001".parse().unwrap()));
        for bad in ["", "[", "[1,]", "{1: 2}", "\"a", "1 2", "nope", "'a'", "-", "--1", &"[".repeat(100_000)] {
            assert_eq!(PlainValue::from_json(bad), None, "{bad:.10}");
        }
    }

    #[test]
    fn equality_is_pythons() {
        use PlainValue as V;
        assert!(json("[1, {\"a\": 2}]").equals(&json("[1.0, {\"a\": 2.0}]")));
        assert!(V::Bool(true).equals(&json("1")) && V::Complex(1.0, 0.0).equals(&json("1")));
        assert!(!json("9007199254740993").equals(&V::Float(9_007_199_254_740_992.0)));
        assert!(!V::Float(f64::NAN).equals(&V::Float(f64::NAN)) && V::Float(-0.0).equals(&json("0")));
        assert!(!V::Tuple(vec![]).equals(&V::List(vec![])) && !json("\"1\"").equals(&json("1")));
        assert!(V::Set(vec![json("1"), json("2")]).equals(&V::Set(vec![json("2.0"), json("1")])));
        assert!(json("{\"a\": 1, \"b\": 2}").equals(&json("{\"b\": 2, \"a\": 1}")));
        assert!(!V::None.equals(&V::Bool(false)) && !json("0.30000000000000004").equals(&json("0.3")));
        assert!(V::Float(f64::INFINITY).equals(&json("Infinity")));
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[\\[\\]{}:,\"\\\\0-9a-z. é-]{0,40}") {
            if let Some(value) = PlainValue::from_json(&text) {
                prop_assert!(value.equals(&value));
            }
        }

        #[test]
        fn reads_what_serde_writes(numbers in proptest::collection::vec(any::<i64>(), 0..4), text in "\\PC{0,8}") {
            let written = serde_json::json!([numbers, text, {"k": null}]).to_string();
            prop_assert!(PlainValue::from_json(&written).is_some());
        }
    }
}
