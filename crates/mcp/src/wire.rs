//! [`Wire`]: an encoded message as a few shared pieces of bytes, so that a large payload is never copied.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{object::RawObject, raw::RawJson};

/// Payloads from this size on are shared instead of copied, in bytes.
const SHARE_FROM: usize = 8 * 1024;

/// A message ready to be written: its pieces in order.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    parts: Vec<Bytes>,
    tail: BytesMut,
}

impl Wire {
    /// Begins an empty message.
    pub fn new() -> Self {
        Self {
            parts: Vec::new(),
            tail: BytesMut::with_capacity(512),
        }
    }

    /// Appends text of this program.
    pub fn push_text(&mut self, text: &str) -> &mut Self {
        self.tail.put_slice(text.as_bytes());
        self
    }

    /// Appends a value as it is.
    pub fn push(&mut self, raw: &RawJson) -> &mut Self {
        if raw.as_bytes().len() < SHARE_FROM {
            self.tail.put_slice(raw.as_bytes());
        } else {
            self.flush_tail();
            self.parts.push(raw.bytes().clone());
        }
        self
    }

    /// Appends an object, each of its values as it is.
    pub fn push_object(&mut self, object: &RawObject) -> &mut Self {
        object.write(self);
        self
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.parts.push(self.tail.split().freeze());
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// Tells whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pieces in order.
    pub fn into_parts(mut self) -> Vec<Bytes> {
        self.flush_tail();
        self.parts
    }

    /// Returns the message as one piece; copies only where there are several.
    pub fn into_bytes(self) -> Bytes {
        let len = self.len();
        let mut parts = self.into_parts();
        if parts.len() <= 1 {
            return parts.pop().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(len);
        for part in parts {
            whole.put_slice(&part);
        }
        whole.freeze()
    }

    /// Returns the pieces of one line, newline included.
    ///
    /// A line break inside the message can only be white space between tokens, since a JSON string cannot hold one, so
    /// it becomes a space.
    pub fn into_line(mut self) -> Vec<Bytes> {
        self.push_text("\n");
        let mut parts = self.into_parts();
        let last = parts.len().saturating_sub(1);
        for (index, part) in parts.iter_mut().enumerate() {
            let text_len = part.len() - usize::from(index == last);
            if memchr::memchr2(b'\n', b'\r', &part[..text_len]).is_some() {
                let mut flat = part.to_vec();
                for byte in &mut flat[..text_len] {
                    if matches!(byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                *part = flat.into();
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_payload_is_shared_and_a_small_one_copied() {
        let large = RawJson::string(&"x".repeat(SHARE_FROM));
        let mut wire = Wire::new();
        wire.push_text("{\"a\":")
            .push(&RawJson::NULL)
            .push_text(",\"b\":")
            .push(&large)
            .push_text("}");

        let parts = wire.into_parts();

        assert_eq!(parts.len(), 3);
        assert_eq!(parts[1].as_ptr(), large.as_bytes().as_ptr());
        assert_eq!(parts[0], "{\"a\":null,\"b\":");
    }

    #[test]
    fn a_message_over_several_lines_becomes_one_line_of_the_same_meaning() {
        let mut wire = Wire::new();
        wire.push(&RawJson::parse("{\"a\":\r\n [1,\n\"\\n\"]}").unwrap());
        assert_eq!(wire.into_line().concat(), b"{\"a\":   [1, \"\\n\"]}\n");
    }
}
