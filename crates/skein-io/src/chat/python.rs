//! What templates expect of Python: how values print, `json.dumps`, the string methods minijinja lacks.
//!
//! A chat template's output is the model's input, so a float printed `1e-6` instead of `1e-06` is a wrong prompt.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Python's `str(value)`: strings as they are, anything else as [`repr`].
pub(super) fn str(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => repr(value),
    }
}

/// Python's `repr(value)`.
fn repr(value: &Value) -> Result<String, Error> {
    let items = |value: &Value| -> Result<Vec<String>, Error> { value.try_iter()?.map(|item| repr(&item)).collect() };
    Ok(match value.kind() {
        ValueKind::String => quote(value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => float(f64::try_from(value.clone())?),
        ValueKind::Seq if value.is_tuple() => match items(value)?.as_slice() {
            [one] => format!("({one},)"),
            items => format!("({})", items.join(", ")),
        },
        ValueKind::Seq => format!("[{}]", items(value)?.join(", ")),
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push(format!("{}: {}", repr(&key)?, repr(&value.get_item(&key)?)?));
            }
            format!("{{{}}}", entries.join(", "))
        }
        _ => value.to_string(),
    })
}

fn quote(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            c if c == quote => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\u{2028}' | '\u{2029}' => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

/// Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".into()
        } else if value > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("Rust writes an exponent for {:e}");
    let exponent: i32 = exponent.parse().expect("Rust writes the exponent as an integer");
    if value == 0.0 || (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

/// The filter `tojson` as transformers defines it: `json.dumps` with `ensure_ascii=False` unless asked.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent = match options.get::<Option<Value>>("indent")? {
        Some(indent) if indent.is_integer() => Some(" ".repeat(indent.as_usize().unwrap_or(0))),
        Some(indent) if indent.as_str().is_some() => indent.as_str().map(str::to_owned),
        _ => None,
    };
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be a pair of strings")),
        None => (if indent.is_some() { "," } else { ", " }.into(), ": ".into()),
    };
    let mut writer = JsonWriter {
        out: String::new(),
        indent,
        item_separator,
        key_separator,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        depth: 0,
    };
    options.assert_all_used()?;
    writer.value(value)?;
    Ok(Value::from(writer.out))
}

struct JsonWriter {
    out: String,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    ensure_ascii: bool,
    depth: usize,
}

impl JsonWriter {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::None | ValueKind::Bool | ValueKind::Number => self.out.push_str(&scalar(value)?),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.container('[', ']', items.len(), |writer, index| writer.value(&items[index]))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.container('{', '}', keys.len(), |writer, index| {
                    let key = &keys[index];
                    writer.string(&match key.as_str() {
                        Some(text) => text.to_owned(),
                        None => scalar(key)?,
                    });
                    writer.out.push_str(&writer.key_separator.clone());
                    writer.value(&value.get_item(key)?)
                })?;
            }
            kind => {
                let message = format!("tojson: a value of kind {kind} has no JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn container(
        &mut self,
        open: char,
        close: char,
        len: usize,
        item: impl Fn(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        self.depth += 1;
        for index in 0..len {
            if index > 0 {
                self.out.push_str(&self.item_separator.clone());
            }
            self.line_break();
            item(self, index)?;
        }
        self.depth -= 1;
        if len > 0 {
            self.line_break();
        }
        self.out.push(close);
        Ok(())
    }

    fn line_break(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(self.depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A number, boolean or none as JSON, also where it is a key.
fn scalar(value: &Value) -> Result<String, Error> {
    Ok(match value.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.into(),
        ValueKind::Number if value.is_integer() => value.to_string(),
        ValueKind::Number => match f64::try_from(value.clone())? {
            value if value.is_nan() => "NaN".into(),
            value if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.into(),
            value => float(value),
        },
        kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: a key of kind {kind}"))),
    })
}

/// Methods of Python's values that minijinja leaves to its host.
pub(super) fn method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args);
    };
    let one_string = || from_args::<(String,)>(args).map(|(argument,)| argument);
    let list = |parts: Vec<&str>| parts.into_iter().map(Value::from).collect::<Value>();
    match method {
        "partition" => {
            let separator = one_string()?;
            let separator = separator.as_str();
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = if text.contains(separator) { separator } else { "" };
            Ok(list(vec![before, found, after]))
        }
        "rpartition" => {
            let separator = one_string()?;
            let separator = separator.as_str();
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = if text.contains(separator) { separator } else { "" };
            Ok(list(vec![before, found, after]))
        }
        "removeprefix" => Ok(Value::from(text.strip_prefix(one_string()?.as_str()).unwrap_or(text))),
        "removesuffix" => Ok(Value::from(text.strip_suffix(one_string()?.as_str()).unwrap_or(text))),
        "rsplit" => {
            let (separator, max_splits): (Option<&str>, Option<i64>) = from_args(args)?;
            let limit = max_splits.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
            Ok(list(rsplit(text, separator, limit)))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// Python's `str.rsplit`: at most `limit` splits from the right, at runs of white space without a separator.
fn rsplit<'a>(text: &'a str, separator: Option<&str>, limit: usize) -> Vec<&'a str> {
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while parts.len() < limit
                && let Some((before, last)) = rest.rsplit_once(char::is_whitespace)
            {
                parts.push(last);
                rest = before.trim_end();
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    parts.reverse();
    parts
}

/// The function `dict`: a mapping's entries, if one is given, and the keyword arguments.
pub(super) fn dict(entries: Option<Value>, keywords: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(entries) = entries {
        for key in entries.try_iter()? {
            pairs.push((key.clone(), entries.get_item(&key)?));
        }
    }
    for key in keywords.args() {
        pairs.push((Value::from(key), keywords.get::<Value>(key)?));
    }
    Ok(Value::from_pairs(pairs))
}

/// The filter `int`: what does not read as an integer is the default, 0 unless given.
pub(super) fn int(
    state: &State,
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    keywords: Kwargs,
) -> Result<Value, Error> {
    let default = default.or_else(|| (!keywords.has("default")).then(|| Value::from(0)));
    minijinja::filters::int(state, value, default, base, keywords)
}

/// The filter `float`: what does not read as a number is the default, 0.0 unless given.
pub(super) fn to_float(state: &State, value: &Value, default: Option<Value>, keywords: Kwargs) -> Result<Value, Error> {
    let default = default.or_else(|| (!keywords.has("default")).then(|| Value::from(0.0)));
    minijinja::filters::float(state, value, default, keywords)
}

/// The test `sequence`: what has a length and items, strings and mappings included.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}
