//! A validating JSON scanner: one pass over the bytes, no recursion, no allocation.
//!
//! The gateway passes payloads through untouched, so it must know that they are JSON and where a value ends, and
//! nothing more. `serde_json` would look at every byte of a string one by one; here whole blocks without a special byte
//! are skipped at once, so that a megabyte of text costs about as much as copying it.

/// How deep arrays and objects may nest, `serde_json`'s own limit.
pub const MAX_DEPTH: u32 = 128;

/// Why bytes are not acceptable JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The bytes are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// The text ends inside a value.
    #[error("unexpected end of JSON")]
    UnexpectedEnd,
    /// A byte that the grammar does not allow there.
    #[error("invalid JSON at byte {at}")]
    Invalid {
        /// Offset of the byte, from 0.
        at: usize,
    },
    /// Arrays and objects nest deeper than [`MAX_DEPTH`].
    #[error("JSON nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// An object has the same key twice, so that two readers could understand it differently.
    #[error("duplicate key in an object")]
    DuplicateKey,
    /// A value of another type was expected.
    #[error("expected a JSON {expected}")]
    WrongType {
        /// The type that was expected, such as `object`.
        expected: &'static str,
    },
}

/// Returns the offset behind the white space that begins at `at`.
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Returns the offset behind the value that begins at `at` (no white space before it).
pub(crate) fn value_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let mut nesting = Nesting::default();
    let mut at = at;
    loop {
        at = match bytes.get(at) {
            None => return Err(JsonError::UnexpectedEnd),
            Some(b'{') => match open(bytes, at, b'}', &mut nesting)? {
                Opened::Empty(end) => end,
                Opened::Filled(first) => {
                    at = key_end(bytes, first)?;
                    continue;
                }
            },
            Some(b'[') => match open(bytes, at, b']', &mut nesting)? {
                Opened::Empty(end) => end,
                Opened::Filled(first) => {
                    at = first;
                    continue;
                }
            },
            Some(_) => scalar_end(bytes, at)?,
        };
        match after_value(bytes, at, &mut nesting)? {
            After::Done(end) => return Ok(end),
            After::NextValue(next) => at = next,
        }
    }
}

/// The kinds of the open containers: one bit each, set for an object.
#[derive(Default)]
struct Nesting {
    kinds: u128,
    depth: u32,
}

impl Nesting {
    fn push(&mut self, object: bool) -> Result<(), JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.kinds = (self.kinds << 1) | u128::from(object);
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.kinds >>= 1;
        self.depth -= 1;
    }

    fn in_object(&self) -> bool {
        self.kinds & 1 == 1
    }
}

enum Opened {
    Empty(usize),
    Filled(usize),
}

fn open(bytes: &[u8], at: usize, close: u8, nesting: &mut Nesting) -> Result<Opened, JsonError> {
    let first = skip_space(bytes, at + 1);
    if nesting.depth == MAX_DEPTH {
        return Err(JsonError::TooDeep);
    }
    if bytes.get(first) == Some(&close) {
        return Ok(Opened::Empty(first + 1));
    }
    nesting.push(close == b'}')?;
    Ok(Opened::Filled(first))
}

enum After {
    Done(usize),
    NextValue(usize),
}

fn after_value(bytes: &[u8], mut at: usize, nesting: &mut Nesting) -> Result<After, JsonError> {
    while nesting.depth > 0 {
        at = skip_space(bytes, at);
        match (bytes.get(at), nesting.in_object()) {
            (None, _) => return Err(JsonError::UnexpectedEnd),
            (Some(b','), true) => {
                let key = skip_space(bytes, at + 1);
                return Ok(After::NextValue(key_end(bytes, key)?));
            }
            (Some(b','), false) => return Ok(After::NextValue(skip_space(bytes, at + 1))),
            (Some(b'}'), true) | (Some(b']'), false) => {
                nesting.pop();
                at += 1;
            }
            (Some(_), _) => return Err(JsonError::Invalid { at }),
        }
    }
    Ok(After::Done(at))
}

/// Returns the offset of the value that belongs to the key at `at`.
fn key_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let colon = skip_space(bytes, string_end(bytes, at)?);
    expect_byte(bytes, colon, b':')?;
    Ok(skip_space(bytes, colon + 1))
}

pub(crate) fn expect_byte(bytes: &[u8], at: usize, wanted: u8) -> Result<(), JsonError> {
    match bytes.get(at) {
        Some(found) if *found == wanted => Ok(()),
        Some(_) => Err(JsonError::Invalid { at }),
        None => Err(JsonError::UnexpectedEnd),
    }
}

fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b't') => literal_end(bytes, at, b"true"),
        Some(b'f') => literal_end(bytes, at, b"false"),
        Some(b'n') => literal_end(bytes, at, b"null"),
        Some(b'-' | b'0'..=b'9') => number_end(bytes, at),
        Some(_) => Err(JsonError::Invalid { at }),
        None => Err(JsonError::UnexpectedEnd),
    }
}

fn literal_end(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, JsonError> {
    for (offset, wanted) in word.iter().enumerate() {
        expect_byte(bytes, at + offset, *wanted)?;
    }
    Ok(at + word.len())
}

fn number_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let start = if bytes.get(at) == Some(&b'-') {
        at + 1
    } else {
        at
    };
    let mut end = match bytes.get(start) {
        Some(b'0') => start + 1,
        _ => digits_end(bytes, start)?,
    };
    if bytes.get(end) == Some(&b'.') {
        end = digits_end(bytes, end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        end = digits_end(bytes, end + 1 + usize::from(sign))?;
    }
    Ok(end)
}

fn digits_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    let mut end = at;
    while let Some(b'0'..=b'9') = bytes.get(end) {
        end += 1;
    }
    match (end > at, bytes.get(at)) {
        (true, _) => Ok(end),
        (false, Some(_)) => Err(JsonError::Invalid { at }),
        (false, None) => Err(JsonError::UnexpectedEnd),
    }
}

fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// Returns the offset behind the string whose opening quote is at `at`.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    expect_byte(bytes, at, b'"')?;
    let mut at = at + 1;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            None => return Err(JsonError::UnexpectedEnd),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(bytes, at)?,
            Some(_) => return Err(JsonError::Invalid { at }),
        }
    }
}

/// Returns the offset of the first byte that is special in a string: eight bytes are looked at together.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| is_special(*byte))
        .unwrap_or(rest.len())
}

/// Sets the high bit of the first byte that is a quote, a backslash or a control character.
///
/// Bytes behind that one may be marked wrongly, since a borrow runs upwards; the lowest mark is always right.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
    zero_bytes(word ^ (ONES * u64::from(b'"')))
        | zero_bytes(word ^ (ONES * u64::from(b'\\')))
        | controls
}

fn escape_end(bytes: &[u8], at: usize) -> Result<usize, JsonError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            for offset in 2..6 {
                match bytes.get(at + offset) {
                    Some(digit) if digit.is_ascii_hexdigit() => {}
                    Some(_) => return Err(JsonError::Invalid { at: at + offset }),
                    None => return Err(JsonError::UnexpectedEnd),
                }
            }
            Ok(at + 6)
        }
        Some(_) => Err(JsonError::Invalid { at: at + 1 }),
        None => Err(JsonError::UnexpectedEnd),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn accepts(text: &[u8]) -> bool {
        let start = skip_space(text, 0);
        std::str::from_utf8(text).is_ok()
            && value_end(text, start).is_ok_and(|end| skip_space(text, end) == text.len())
    }

    fn serde_accepts(text: &[u8]) -> bool {
        std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
    }

    #[test]
    fn value_ends_where_its_grammar_ends() {
        let table: [(&str, usize); 8] = [
            ("1 ", 1),
            ("-0.5e+10,", 8),
            ("\"a\\\"b\"x", 6),
            ("[1,[2],{}] ", 10),
            ("{\"a\":{\"b\":[]}}}", 14),
            ("null,", 4),
            ("{ } ", 3),
            ("1234567890123456789012345678901234567890]", 40),
        ];
        for (text, end) in table {
            assert_eq!(value_end(text.as_bytes(), 0), Ok(end), "{text}");
        }
    }

    #[test]
    fn nesting_is_accepted_up_to_the_limit_and_refused_beyond() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(value_end(nested(128).as_bytes(), 0), Ok(256));
        assert_eq!(
            value_end(nested(129).as_bytes(), 0),
            Err(JsonError::TooDeep)
        );
        assert_eq!(
            value_end("{\"a\":".repeat(100_000).as_bytes(), 0),
            Err(JsonError::TooDeep)
        );
    }

    #[test]
    fn a_special_byte_is_found_at_every_offset_of_a_block() {
        for length in 0..100 {
            let text = format!("\"{}\"", "x".repeat(length));
            assert_eq!(string_end(text.as_bytes(), 0), Ok(length + 2));
            let control = format!("\"{}\u{1}\"", "x".repeat(length));
            assert_eq!(
                string_end(control.as_bytes(), 0),
                Err(JsonError::Invalid { at: length + 1 })
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn scanner_and_serde_json_accept_the_same_texts(text in json_like()) {
            prop_assert_eq!(accepts(text.as_bytes()), serde_accepts(text.as_bytes()));
        }

        #[test]
        fn scanner_and_serde_json_agree_on_junk(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(accepts(&bytes), serde_accepts(&bytes));
        }
    }

    /// Texts that are JSON or nearly so: tokens of the grammar in random order, and valid documents with one byte gone.
    fn json_like() -> impl Strategy<Value = String> {
        let tokens = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\u00e9\"",
            "\"\\ud800\"",
            "\"\\x\"",
            "1",
            "-",
            "0",
            "01",
            "1.0",
            "1e5",
            "1.",
            "true",
            "nul",
            "null",
            " ",
            "\n",
            "\"",
            "\\",
            "é",
        ]);
        let soup = prop::collection::vec(tokens, 0..12).prop_map(|parts| parts.concat());
        let document = (valid_json(), any::<prop::sample::Index>()).prop_map(|(text, index)| {
            let cut = index.index(text.len() + 1);
            text.char_indices()
                .filter(|(at, _)| *at != cut)
                .map(|(_, c)| c)
                .collect()
        });
        prop_oneof![soup, valid_json(), document]
    }

    fn valid_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f32>()
                .prop_filter("finite", |n| n.is_finite())
                .prop_map(|n| format!("{n:e}")),
            ".*".prop_map(|s| serde_json::to_string(&s).unwrap()),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5)
                    .prop_map(|items| format!("[{}]", items.join(" ,"))),
                prop::collection::vec(("[a-z\\\\\"]{0,4}", inner), 0..5).prop_map(|fields| {
                    let fields: Vec<_> = fields
                        .iter()
                        .map(|(key, value)| {
                            format!("{}: {value}", serde_json::to_string(key).unwrap())
                        })
                        .collect();
                    format!("{{{}}}", fields.join(","))
                }),
            ]
        })
    }
}
