//! Rust's side of the codec in `python/codec.py`: requests out, replies in.
//!
//! Bytes come from an answer's process, so reading is strict, bounded by the frame and never builds anything but plain
//! values.

use num_bigint::BigInt;
use skein_core::reward::scorers::coding::value::{MAX_DEPTH, PlainValue};

/// Why bytes are no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// A live object stands where a value should.
    Live,
    /// Not the codec's form.
    Malformed,
}

/// A value as the codec writes it.
pub fn encode(value: &PlainValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(value, &mut bytes);
    bytes
}

/// A frame around a value: what one message over a channel is.
pub fn frame(value: &PlainValue) -> Vec<u8> {
    let body = encode(value);
    let mut bytes = format!("{}\n", body.len()).into_bytes();
    bytes.extend(body);
    bytes
}

/// The body of the first frame of `bytes`.
pub fn unframe(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let size: usize = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    bytes[end + 1..].get(..size)
}

fn put(value: &PlainValue, bytes: &mut Vec<u8>) {
    match value {
        PlainValue::None => bytes.push(b'N'),
        PlainValue::Bool(flag) => bytes.push(if *flag { b'T' } else { b'F' }),
        PlainValue::Int(integer) => bytes.extend(format!("I{};", integer.to_str_radix(16)).into_bytes()),
        PlainValue::Float(real) => bytes.extend(format!("R{real:e};").into_bytes()),
        PlainValue::Complex(real, imaginary) => bytes.extend(format!("C{real:e};{imaginary:e};").into_bytes()),
        PlainValue::Str(text) => put_run(b'S', text.as_bytes(), bytes),
        PlainValue::Bytes(run) => put_run(b'B', run, bytes),
        PlainValue::List(items) => put_items('L', items, bytes),
        PlainValue::Tuple(items) => put_items('U', items, bytes),
        PlainValue::Set(items) => put_items('E', items, bytes),
        PlainValue::Dict(entries) => {
            bytes.extend(format!("D{}:", entries.len()).into_bytes());
            for (key, value) in entries {
                put(key, bytes);
                put(value, bytes);
            }
        }
    }
}

fn put_run(tag: u8, run: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(tag);
    bytes.extend(format!("{}:", run.len()).into_bytes());
    bytes.extend_from_slice(run);
}

fn put_items(tag: char, items: &[PlainValue], bytes: &mut Vec<u8>) {
    bytes.extend(format!("{tag}{}:", items.len()).into_bytes());
    items.iter().for_each(|item| put(item, bytes));
}

/// The value that `bytes` are, all of them.
pub fn decode(bytes: &[u8]) -> Result<PlainValue, DecodeError> {
    let mut reader = Reader { bytes };
    let value = reader.value(MAX_DEPTH)?;
    if reader.bytes.is_empty() { Ok(value) } else { Err(DecodeError::Malformed) }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<PlainValue, DecodeError> {
        let (&tag, rest) = self.bytes.split_first().ok_or(DecodeError::Malformed)?;
        let inner = depth.checked_sub(1).ok_or(DecodeError::Malformed)?;
        self.bytes = rest;
        Ok(match tag {
            b'N' => PlainValue::None,
            b'T' => PlainValue::Bool(true),
            b'F' => PlainValue::Bool(false),
            b'I' => {
                let digits = self.until(b';')?.as_bytes();
                PlainValue::Int(BigInt::parse_bytes(digits, 16).ok_or(DecodeError::Malformed)?)
            }
            b'R' => PlainValue::Float(self.float()?),
            b'C' => PlainValue::Complex(self.float()?, self.float()?),
            b'S' => {
                let text = String::from_utf8(self.run()?.to_vec()).map_err(|_| DecodeError::Malformed)?;
                PlainValue::Str(text)
            }
            b'B' => PlainValue::Bytes(self.run()?.to_vec()),
            b'L' => PlainValue::List(self.items(inner)?),
            b'U' => PlainValue::Tuple(self.items(inner)?),
            b'E' | b'Z' => PlainValue::Set(self.items(inner)?),
            b'D' => {
                let count = self.count()?;
                let entries = (0..count).map(|_| Ok((self.value(inner)?, self.value(inner)?)));
                PlainValue::Dict(entries.collect::<Result<_, DecodeError>>()?)
            }
            b'H' => return Err(DecodeError::Live),
            _ => return Err(DecodeError::Malformed),
        })
    }

    fn items(&mut self, depth: usize) -> Result<Vec<PlainValue>, DecodeError> {
        let count = self.count()?;
        (0..count).map(|_| self.value(depth)).collect()
    }

    fn float(&mut self) -> Result<f64, DecodeError> {
        self.until(b';')?.parse().map_err(|_| DecodeError::Malformed)
    }

    fn until(&mut self, mark: u8) -> Result<&'a str, DecodeError> {
        let end = self.bytes.iter().position(|&byte| byte == mark).ok_or(DecodeError::Malformed)?;
        let text = std::str::from_utf8(&self.bytes[..end]).map_err(|_| DecodeError::Malformed)?;
        self.bytes = &self.bytes[end + 1..];
        Ok(text)
    }

    fn count(&mut self) -> Result<usize, DecodeError> {
        self.until(b':')?.parse().map_err(|_| DecodeError::Malformed)
    }

    fn run(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        let run = self.bytes.get(..count).ok_or(DecodeError::Malformed)?;
        self.bytes = &self.bytes[count..];
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain() -> impl Strategy<Value = PlainValue> {
        let leaf = prop_oneof![
            Just(PlainValue::None),
            any::<bool>().prop_map(PlainValue::Bool),
            any::<i128>().prop_map(|n| PlainValue::Int(n.into())),
            any::<f64>().prop_filter("equal to itself", |x| !x.is_nan()).prop_map(PlainValue::Float),
            "\\PC{0,6}".prop_map(PlainValue::Str),
            proptest::collection::vec(any::<u8>(), 0..4).prop_map(PlainValue::Bytes),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let items = proptest::collection::vec(inner.clone(), 0..3);
            prop_oneof![
                items.clone().prop_map(PlainValue::List),
                items.clone().prop_map(PlainValue::Tuple),
                items.prop_map(PlainValue::Set),
                proptest::collection::vec((inner.clone(), inner), 0..3).prop_map(PlainValue::Dict),
            ]
        })
    }

    #[test]
    fn what_is_no_value_is_refused() {
        assert_eq!(decode(b"L1:H0;"), Err(DecodeError::Live));
        for bytes in [&b""[..], b"X", b"I1", b"Ixyz;", b"S5:abc", b"L99999999999:", b"NN", b"S1:\xff", b"D1:N"] {
            assert_eq!(decode(bytes), Err(DecodeError::Malformed), "{bytes:?}");
        }
        assert_eq!(decode(&b"L1:".repeat(100_000)), Err(DecodeError::Malformed));
        assert_eq!(unframe(b"2\nTF"), Some(&b"TF"[..]));
        assert_eq!((unframe(b"3\nTF"), unframe(b"x\nTF"), unframe(b"")), (None, None, None));
    }

    proptest! {
        #[test]
        fn values_survive(value in plain()) {
            prop_assert_eq!(unframe(&frame(&value)).map(decode), Some(Ok(value)));
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes);
        }
    }
}
