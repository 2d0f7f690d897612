//! [`RawObject`]: a JSON object as its fields in order, each value as the bytes it arrived in.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    raw::RawJson,
    scan::{self, JsonError},
    wire::Wire,
};

/// A JSON object split into its fields: order, unknown fields and the bytes of every value are kept.
///
/// ```
/// use genlock_mcp::{RawJson, RawObject};
///
/// let mut params = RawObject::parse(&RawJson::parse(r#"{"name":"a__b","x": 1.0}"#)?)?;
/// params.set("name", RawJson::string("b"));
/// assert_eq!(params.to_raw().as_bytes(), br#"{"name":"b","x":1.0}"#);
/// # Ok::<(), genlock_mcp::JsonError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawObject {
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// The key as it was written, quotes included.
    key: RawJson,
    /// The decoded key, where the written one has escapes.
    decoded: Option<String>,
    value: RawJson,
}

impl Field {
    fn is_called(&self, name: &str) -> bool {
        self.name() == name.as_bytes()
    }

    fn name(&self) -> &[u8] {
        match (&self.decoded, self.key.as_bytes()) {
            (Some(decoded), _) => decoded.as_bytes(),
            (None, [_, inner @ .., _]) => inner,
            (None, short) => short,
        }
    }
}

impl RawObject {
    /// Splits an object into its fields.
    ///
    /// # Errors
    /// [`JsonError::WrongType`] where the value is no object, [`JsonError::DuplicateKey`] where it has a key twice (also
    /// where one of the two is written with escapes).
    pub fn parse(raw: &RawJson) -> Result<Self, JsonError> {
        if !raw.is_object() {
            return Err(JsonError::WrongType { expected: "object" });
        }
        Self::scan(raw.bytes(), 0).map(|(object, _)| object)
    }

    /// Checks and splits the object that begins at `start` in one pass; returns the offset behind it as well.
    pub(crate) fn scan(bytes: &Bytes, start: usize) -> Result<(Self, usize), JsonError> {
        let mut object = Self::default();
        let mut cursor = FieldCursor::new(bytes, start)?;
        while let Some((key, value)) = cursor.next_field()? {
            let slice = |range: Range<usize>| RawJson::from_scanned(bytes.slice(range));
            object.append(slice(key), slice(value))?;
        }
        Ok((object, cursor.at))
    }

    /// Returns the value of a field without looking at the fields behind it.
    ///
    /// ```
    /// use genlock_mcp::{RawJson, RawObject};
    ///
    /// let result = RawJson::parse(r#"{"resultType":"complete","content":[]}"#)?;
    /// assert_eq!(RawObject::peek(&result, "resultType").unwrap().as_bytes(), b"\"complete\"");
    /// # Ok::<(), genlock_mcp::JsonError>(())
    /// ```
    pub fn peek(raw: &RawJson, name: &str) -> Option<RawJson> {
        let bytes = raw.bytes();
        let mut cursor = FieldCursor::new(bytes, 0).ok()?;
        while let Ok(Some((key, value))) = cursor.next_field() {
            let key = RawJson::from_scanned(bytes.slice(key));
            if key.as_string().is_some_and(|key| key == name) {
                return Some(RawJson::from_scanned(bytes.slice(value)));
            }
        }
        None
    }

    fn append(&mut self, key: RawJson, value: RawJson) -> Result<(), JsonError> {
        let decoded = key
            .as_bytes()
            .contains(&b'\\')
            .then(|| key.as_string().unwrap_or_default());
        let field = Field {
            key,
            decoded,
            value,
        };
        if self.fields.iter().any(|other| other.name() == field.name()) {
            return Err(JsonError::DuplicateKey);
        }
        self.fields.push(field);
        Ok(())
    }

    /// Returns the value of a field.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.fields
            .iter()
            .find(|field| field.is_called(name))
            .map(|field| &field.value)
    }

    /// Returns the text of a field that is a string.
    pub fn get_string(&self, name: &str) -> Option<String> {
        self.get(name).and_then(RawJson::as_string)
    }

    /// Returns the fields of a field that is an object.
    pub fn get_object(&self, name: &str) -> Option<RawObject> {
        self.get(name).and_then(|value| Self::parse(value).ok())
    }

    /// Replaces the value of a field where it stands, or adds the field at the end.
    pub fn set(&mut self, name: &str, value: RawJson) {
        match self.fields.iter_mut().find(|field| field.is_called(name)) {
            Some(field) => field.value = value,
            None => {
                let key = RawJson::string(name);
                let decoded = key.as_bytes().contains(&b'\\').then(|| name.to_owned());
                self.fields.push(Field {
                    key,
                    decoded,
                    value,
                });
            }
        }
    }

    /// Adds a field where there is none of that name.
    pub fn set_default(&mut self, name: &str, value: impl FnOnce() -> RawJson) {
        if self.get(name).is_none() {
            self.set(name, value());
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, name: &str) -> Option<RawJson> {
        let at = self.fields.iter().position(|field| field.is_called(name))?;
        Some(self.fields.remove(at).value)
    }

    /// Keeps the fields whose name satisfies the predicate.
    pub fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        self.fields.retain(|field| keep(field.name()));
    }

    /// Tells whether the object has no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Walks over the fields in order: decoded key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &RawJson)> {
        self.fields.iter().map(|field| (field.name(), &field.value))
    }

    /// Returns the object as one value. Keys and values keep their bytes; white space between them is not written.
    pub fn to_raw(&self) -> RawJson {
        let mut wire = Wire::new();
        self.write(&mut wire);
        RawJson::from_scanned(wire.into_bytes())
    }

    pub(crate) fn write(&self, wire: &mut Wire) {
        wire.push_text("{");
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                wire.push_text(",");
            }
            wire.push(&field.key).push_text(":").push(&field.value);
        }
        wire.push_text("}");
    }
}

/// Where the key (quotes included) and the value of a field stand in the text.
type FieldPlace = (Range<usize>, Range<usize>);

/// Walks over the fields of an object in the text, checking the grammar on the way.
struct FieldCursor<'a> {
    bytes: &'a [u8],
    at: usize,
    ended: bool,
}

impl<'a> FieldCursor<'a> {
    fn new(bytes: &'a [u8], start: usize) -> Result<Self, JsonError> {
        scan::expect_byte(bytes, start, b'{')?;
        let at = scan::skip_space(bytes, start + 1);
        let ended = bytes.get(at) == Some(&b'}');
        Ok(Self {
            bytes,
            at: at + usize::from(ended),
            ended,
        })
    }

    /// Returns where the next key (quotes included) and its value stand.
    fn next_field(&mut self) -> Result<Option<FieldPlace>, JsonError> {
        if self.ended {
            return Ok(None);
        }
        let key = self.at..scan::string_end(self.bytes, self.at)?;
        let colon = scan::skip_space(self.bytes, key.end);
        scan::expect_byte(self.bytes, colon, b':')?;
        let start = scan::skip_space(self.bytes, colon + 1);
        let value = start..scan::value_end(self.bytes, start)?;
        let after = scan::skip_space(self.bytes, value.end);
        match self.bytes.get(after) {
            Some(b',') => self.at = scan::skip_space(self.bytes, after + 1),
            Some(b'}') => (self.at, self.ended) = (after + 1, true),
            Some(_) => return Err(JsonError::Invalid { at: after }),
            None => return Err(JsonError::UnexpectedEnd),
        }
        Ok(Some((key, value)))
    }
}

impl<'a> FromIterator<(&'a str, RawJson)> for RawObject {
    fn from_iter<T: IntoIterator<Item = (&'a str, RawJson)>>(fields: T) -> Self {
        let mut object = Self::default();
        for (name, value) in fields {
            object.set(name, value);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &'static str) -> Result<RawObject, JsonError> {
        RawObject::parse(&RawJson::parse(text)?)
    }

    #[test]
    fn fields_keep_order_and_bytes() {
        let parsed = object("{ \"z\" : 1.0, \"a\":{ \"k\": [1 ,2]},\"\\u006e\":40e400 }").unwrap();
        assert_eq!(
            parsed.to_raw().as_bytes(),
            b"{\"z\":1.0,\"a\":{ \"k\": [1 ,2]},\"\\u006e\":40e400}"
        );
    }

    #[test]
    fn a_key_written_with_escapes_is_found_and_cannot_hide_a_duplicate() {
        assert_eq!(
            object("{\"\\u006eame\":\"x\"}")
                .unwrap()
                .get_string("name")
                .as_deref(),
            Some("x")
        );
        assert_eq!(
            object("{\"name\":1,\"n\\u0061me\":2}"),
            Err(JsonError::DuplicateKey)
        );
    }

    #[test]
    fn setting_replaces_in_place_and_adds_at_the_end() {
        let mut parsed = object("{\"name\":\"a\",\"x\":1}").unwrap();
        parsed.set("name", RawJson::string("b"));
        parsed.set("y", RawJson::NULL);
        assert_eq!(parsed.remove("x").unwrap().as_bytes(), b"1");
        assert_eq!(parsed.to_raw().as_bytes(), b"{\"name\":\"b\",\"y\":null}");
    }

    #[test]
    fn only_an_object_has_fields() {
        assert_eq!(
            object("[1]"),
            Err(JsonError::WrongType { expected: "object" })
        );
        assert!(object("{}").unwrap().is_empty());
    }
}
