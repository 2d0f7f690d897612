//! [`RawJson`]: one JSON value as the bytes it arrived in.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::scan::{self, JsonError};

/// One valid JSON value, kept as the bytes it arrived in.
///
/// A clone shares the bytes. Numbers, key order, escapes and white space stay exactly as the sender wrote them. The
/// value is UTF-8, nests at most [`crate::MAX_DEPTH`] levels, and has no white space around it.
///
/// ```
/// use genlock_mcp::RawJson;
///
/// let raw = RawJson::parse(" {\"n\": 1.0} ")?;
/// assert_eq!(raw.as_bytes(), b"{\"n\": 1.0}");
/// # Ok::<(), genlock_mcp::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

impl RawJson {
    /// The empty object.
    pub const EMPTY_OBJECT: Self = Self(Bytes::from_static(b"{}"));
    /// The `null` value.
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// Takes bytes that hold exactly one JSON value, white space around it allowed.
    ///
    /// # Errors
    /// Says what is wrong with the text; the text itself is never quoted.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, JsonError> {
        let bytes = text.into();
        std::str::from_utf8(&bytes).map_err(|_| JsonError::NotUtf8)?;
        let start = scan::skip_space(&bytes, 0);
        let end = scan::value_end(&bytes, start)?;
        let rest = scan::skip_space(&bytes, end);
        if rest != bytes.len() {
            return Err(JsonError::Invalid { at: rest });
        }
        Ok(Self(bytes.slice(start..end)))
    }

    /// Encodes a value of this program.
    ///
    /// A value that has no JSON form (a map with keys that are no strings) becomes `null`.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::to_vec(value).map_or(Self::NULL, |bytes| Self(bytes.into()))
    }

    /// Encodes a text as a JSON string.
    pub fn string(text: &str) -> Self {
        Self::encode(text)
    }

    /// Wraps bytes that a scan has just found to be one value.
    pub(crate) fn from_scanned(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the value.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the shared bytes of the value.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Copies the value out of the buffer it shares, so that keeping it does not keep the whole buffer alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Decodes the value into a type of this program.
    ///
    /// # Errors
    /// Where the value does not have the type's form.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Returns the text of a JSON string, or `None` for any other type.
    pub fn as_string(&self) -> Option<String> {
        match self.0.as_ref() {
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
                std::str::from_utf8(inner).ok().map(str::to_owned)
            }
            [b'"', ..] => self.decode().ok(),
            _ => None,
        }
    }

    /// Tells whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Tells whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// Tells whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }

    /// Splits an array into its items.
    ///
    /// # Errors
    /// [`JsonError::WrongType`] where the value is no array.
    pub fn items(&self) -> Result<Vec<RawJson>, JsonError> {
        let bytes = self.as_bytes();
        if !self.is_array() {
            return Err(JsonError::WrongType { expected: "array" });
        }
        let mut items = Vec::new();
        let mut at = scan::skip_space(bytes, 1);
        while bytes.get(at).is_some_and(|byte| *byte != b']') {
            let end = scan::value_end(bytes, at)?;
            items.push(Self(self.0.slice(at..end)));
            at = scan::skip_space(bytes, end);
            if bytes.get(at) == Some(&b',') {
                at = scan::skip_space(bytes, at + 1);
            }
        }
        Ok(items)
    }
}

impl fmt::Debug for RawJson {
    /// Shows the size only: a payload may hold private values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

impl Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        let raw: &serde_json::value::RawValue =
            serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        let text: Box<str> = raw.into();
        Self::parse(text.into_string()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_value_is_not_part_of_it() {
        assert_eq!(RawJson::parse("\n [1, 2]\t").unwrap().as_bytes(), b"[1, 2]");
        assert_eq!(RawJson::parse("1 2"), Err(JsonError::Invalid { at: 2 }));
        assert_eq!(RawJson::parse(""), Err(JsonError::UnexpectedEnd));
        assert_eq!(
            RawJson::parse(vec![b'"', 0xff, b'"']),
            Err(JsonError::NotUtf8)
        );
    }

    #[test]
    fn items_of_an_array_keep_their_bytes() {
        let items = RawJson::parse("[ 1.0 , {\"b\" :2}, [ ],\"\\u0041\" ]")
            .unwrap()
            .items()
            .unwrap();
        let texts: Vec<_> = items.iter().map(|item| item.as_bytes().to_vec()).collect();
        assert_eq!(
            texts,
            [
                b"1.0".to_vec(),
                b"{\"b\" :2}".to_vec(),
                b"[ ]".to_vec(),
                b"\"\\u0041\"".to_vec()
            ]
        );
        assert_eq!(RawJson::parse("[ ]").unwrap().items(), Ok(vec![]));
    }

    #[test]
    fn serialising_a_value_inside_another_keeps_its_bytes() {
        let raw =
            RawJson::parse("{\"n\":1.0,\"big\":1234567890123456789012345678901234567890}").unwrap();
        assert_eq!(
            RawJson::encode(&[&raw]).as_bytes(),
            [b"[", raw.as_bytes(), b"]"].concat()
        );
        assert_eq!(raw.decode::<RawJson>().unwrap(), raw);
    }

    #[test]
    fn debug_shows_no_payload() {
        assert_eq!(
            format!("{:?}", RawJson::string("canary")),
            "RawJson(8 bytes)"
        );
    }
}
