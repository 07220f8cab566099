//! Reads the literals in which models write structured answers: JSON, and Python's spelling of the same data.
//!
//! Texts are borrowed where they have no escapes. Nothing is evaluated, numbers and bare words stay as written, and
//! nesting past [`MAX_DEPTH`] is no literal, so the work is bounded on any input.

use std::borrow::Cow;

/// Answers nest four levels deep; what nests deeper than this was not meant as one.
const MAX_DEPTH: usize = 32;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal<'a> {
    /// A quoted text, without its quotes and escapes.
    Text(Cow<'a, str>),
    /// A number or a bare word, as written.
    Atom(&'a str),
    /// `[…]` or `(…)`.
    List(Vec<Literal<'a>>),
    /// `{…}`, in written order.
    Map(Map<'a>),
}

/// The entries of a `{…}`, in written order.
pub type Map<'a> = Vec<(Cow<'a, str>, Literal<'a>)>;

/// The literal that a whole text is; none when anything else stands around it.
pub fn read(text: &str) -> Option<Literal<'_>> {
    let mut reader = Reader { text, at: 0 };
    let literal = reader.value(0)?;
    reader.skip_whitespace();
    (reader.at == text.len()).then_some(literal)
}

/// Every map in a text that does not lie inside another one, in order.
pub fn maps(text: &str) -> Vec<Map<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find('{') {
        at += offset;
        let mut reader = Reader { text, at };
        match reader.value(0) {
            Some(Literal::Map(map)) => {
                found.push(map);
                at = reader.at;
            }
            _ => at += 1,
        }
    }
    found
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_whitespace(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Steps over `c` and the whitespace before it, if `c` comes next.
    fn take(&mut self, c: char) -> bool {
        self.skip_whitespace();
        let taken = self.rest().starts_with(c);
        if taken {
            self.at += c.len_utf8();
        }
        taken
    }

    fn value(&mut self, depth: usize) -> Option<Literal<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_whitespace();
        match self.rest().chars().next()? {
            '{' => self.map(depth).map(Literal::Map),
            '[' => self.list('[', ']', depth).map(Literal::List),
            '(' => self.list('(', ')', depth).map(Literal::List),
            quote @ ('"' | '\'') => self.quoted(quote).map(Literal::Text),
            _ => self.atom().map(Literal::Atom),
        }
    }

    fn map(&mut self, depth: usize) -> Option<Map<'a>> {
        self.take('{');
        let mut entries = Vec::new();
        while !self.take('}') {
            self.skip_whitespace();
            let key = match self.rest().chars().next()? {
                quote @ ('"' | '\'') => self.quoted(quote)?,
                _ => Cow::Borrowed(self.atom()?),
            };
            if !self.take(':') {
                return None;
            }
            entries.push((key, self.value(depth + 1)?));
            if !self.take(',') {
                return self.take('}').then_some(entries);
            }
        }
        Some(entries)
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Vec<Literal<'a>>> {
        self.take(open);
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value(depth + 1)?);
            if !self.take(',') {
                return self.take(close).then_some(items);
            }
        }
        Some(items)
    }

    fn atom(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    fn quoted(&mut self, quote: char) -> Option<Cow<'a, str>> {
        self.at += quote.len_utf8();
        let rest = self.rest();
        let end = rest.find([quote, '\\'])?;
        if rest[end..].starts_with(quote) {
            self.at += end + quote.len_utf8();
            return Some(Cow::Borrowed(&rest[..end]));
        }
        let mut unescaped = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find([quote, '\\'])?;
            unescaped.push_str(&rest[..end]);
            self.at += end + 1;
            if rest[end..].starts_with(quote) {
                return Some(Cow::Owned(unescaped));
            }
            self.escape(&mut unescaped)?;
        }
    }

    /// Reads what follows a backslash. An escape of neither language stands for itself, as Python has it.
    fn escape(&mut self, into: &mut String) -> Option<()> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        match c {
            'n' => into.push('\n'),
            't' => into.push('\t'),
            'r' => into.push('\r'),
            'b' => into.push('\u{8}'),
            'f' => into.push('\u{c}'),
            '"' | '\'' | '\\' | '/' => into.push(c),
            'u' => into.push(self.code_point()?),
            _ => into.extend(['\\', c]),
        }
        Some(())
    }

    /// The character of a `\u` escape, or of two that are a surrogate pair; a lone surrogate is a replacement character.
    fn code_point(&mut self) -> Option<char> {
        let first = self.hex_unit()?;
        let mut units = [first, 0];
        let mut num_units = 1;
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            units[1] = self.hex_unit()?;
            num_units = 2;
        }
        let decoded = char::decode_utf16(units[..num_units].iter().copied()).next()?;
        Some(decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex_unit(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Literal<'_> {
        Literal::Text(text.into())
    }

    #[test]
    fn json_and_python_spell_the_same_data() {
        let json = r#" {"a": [1, -2.5, true, null], "b": {"c": "d"}} "#;
        let python = "{'a': [1, -2.5, true, null,], 'b': {'c': 'd'},}";
        assert!(read(json).is_some());
        assert_eq!(read(json), read(python));
        assert_eq!(read("(1, 'x')"), Some(Literal::List(vec![Literal::Atom("1"), text("x")])));
    }

    #[test]
    fn escapes() {
        assert_eq!(read(r#""a\"b\u00e9\ud83d\ude00\n\/\q""#), Some(text("a\"bé😀\n/\\q")));
        assert_eq!(read(r"'it\'s'"), Some(text("it's")));
        assert_eq!(read(r#""\ud83d""#), Some(text("\u{fffd}")));
        for broken in [r#""\u12"#, r#""\"#, "\"a", r#""\u+123""#] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn maps_are_found_in_prose() {
        let found = maps(r#"the set {x}, then {"a": {"b": 1}} and {broken: {'c': 2}} {"d": "}"}"#);
        let keys: Vec<&str> = found.iter().map(|map| &*map[0].0).collect();
        assert_eq!(keys, ["a", "broken", "d"]);
        assert_eq!(maps(r#"{"a": {"b": 1}"#).len(), 1, "of an unclosed map the closed ones inside");
    }

    #[test]
    fn deep_nesting_is_no_literal_and_costs_little() {
        assert_eq!(read(&"[".repeat(10_000)), None);
        assert_eq!(maps(&r#"{"a":"#.repeat(2_000)).len(), 0);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[\\[\\]{}(),:'\"\\\\u0d83a é\n-]{0,60}") {
            let _ = (read(&text), maps(&text));
        }
    }
}
