//! Server-sent events: what is read from an upstream and written to a client.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::wire::Wire;

/// A comment that keeps a silent stream alive.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Returns the bytes of an event that carries a message.
pub fn event(message: Wire) -> Vec<Bytes> {
    let mut wire = Wire::new();
    wire.push_text("event: message\ndata: ");
    let mut parts = wire.into_parts();
    parts.extend(message.into_line());
    parts.push(Bytes::from_static(b"\n"));
    parts
}

/// Puts the data of events together from pieces of a stream.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Where in the buffer the search for a line end goes on.
    searched: usize,
    data: Vec<Bytes>,
    data_len: usize,
    limit: usize,
    at_start: bool,
    last_id: Option<Bytes>,
    retry: Option<Duration>,
}

/// An event is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct TooLong {
    /// The limit, in bytes.
    pub limit: usize,
}

impl Decoder {
    /// Begins a stream whose events hold at most `limit` bytes of data.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            data: Vec::new(),
            data_len: 0,
            limit,
            at_start: true,
            last_id: None,
            retry: None,
        }
    }

    /// Takes in a piece of the stream.
    pub fn feed(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the data of the next whole event that has some.
    ///
    /// # Errors
    /// [`TooLong`], after which the stream cannot be read on.
    pub fn next_data(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            let Some(line) = self.next_line() else {
                let held = self.buffer.len() + self.data_len;
                return if held > self.limit {
                    Err(TooLong { limit: self.limit })
                } else {
                    Ok(None)
                };
            };
            if !line.is_empty() {
                self.take_field(&line);
                if self.data_len > self.limit {
                    return Err(TooLong { limit: self.limit });
                }
            } else if let Some(data) = self.finish_event() {
                return Ok(Some(data));
            }
        }
    }

    fn take_field(&mut self, line: &Bytes) {
        let value_of = |name: &[u8]| {
            let value = line.strip_prefix(name)?;
            let skipped = line.len() - value.len() + usize::from(value.first() == Some(&b' '));
            Some(line.slice(skipped..))
        };
        if let Some(data) = value_of(b"data:") {
            self.data_len += data.len() + 1;
            self.data.push(data);
        } else if let Some(id) = value_of(b"id:") {
            self.last_id = (!id.contains(&0)).then_some(id);
        } else if let Some(retry) = value_of(b"retry:") {
            let millis = std::str::from_utf8(&retry)
                .ok()
                .and_then(|text| text.parse().ok());
            self.retry = millis.map(Duration::from_millis).or(self.retry);
        }
    }

    /// Returns the id of the last event that had one: a stream that ends early can be taken up again behind it.
    pub fn last_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref().filter(|id| !id.is_empty())
    }

    /// Begins where another stream ended, for one that brings nothing new before it ends as well.
    pub(crate) fn go_on_from(&mut self, ended: &Self) {
        self.last_id.clone_from(&ended.last_id);
        self.retry = ended.retry;
    }

    /// Returns how long the sender asks to wait before the stream is taken up again.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn finish_event(&mut self) -> Option<Bytes> {
        self.data_len = 0;
        let mut lines = std::mem::take(&mut self.data);
        let data = match lines.len() {
            0 | 1 => lines.pop()?,
            _ => lines.join(&b'\n').into(),
        };
        // The priming event of the 2025-11-25 revision carries an id and no data.
        (!data.is_empty()).then_some(data)
    }

    /// Cuts the next line off the buffer; it ends with CR, LF or both.
    fn next_line(&mut self) -> Option<Bytes> {
        if self.at_start && self.buffer.len() >= 3 {
            self.at_start = false;
            if self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.advance(3);
            }
        }
        let Some(found) = memchr::memchr2(b'\n', b'\r', self.buffer.get(self.searched..)?) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + found;
        if self.buffer.get(end) == Some(&b'\r') && end + 1 == self.buffer.len() {
            // A LF may still follow in the next piece and belongs to this line end.
            self.searched = end;
            return None;
        }
        let both = self.buffer.get(end..end + 2) == Some(b"\r\n");
        let line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1 + usize::from(both));
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{message::Response, raw::RawJson};

    fn decode(pieces: &[&[u8]]) -> Vec<Bytes> {
        let mut decoder = Decoder::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            while let Some(data) = decoder.next_data().unwrap() {
                events.push(data);
            }
        }
        events
    }

    #[test]
    fn events_are_put_together_whatever_ends_their_lines() {
        let stream = b": hello\r\nid: 1\r\ndata: \r\n\r\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\rretry: 5\n\n";
        assert_eq!(
            decode(&[stream]),
            [Bytes::from_static(b"{\"a\":\n1}"), Bytes::from_static(b"x")]
        );
    }

    #[test]
    fn where_and_when_a_stream_can_be_taken_up_again_is_remembered() {
        let mut decoder = Decoder::new(1000);
        decoder.feed(b"id: 7\nretry: 250\ndata:\n\ndata: {}\n\n");
        assert_eq!(decoder.next_data(), Ok(Some(Bytes::from_static(b"{}"))));
        assert_eq!(decoder.last_id(), Some(&Bytes::from_static(b"7")));
        assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::new(100);
        decoder.feed(&[b'x'; 101]);
        assert_eq!(decoder.next_data(), Err(TooLong { limit: 100 }));

        let mut decoder = Decoder::new(100);
        decoder.feed(&b"data: 0123456789\n".repeat(10));
        assert_eq!(decoder.next_data(), Err(TooLong { limit: 100 }));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_stream_is_cut(
            lines in prop::collection::vec("(data: ?[a-z]{0,5}|:c|id: 1|)(\n|\r\n)", 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let stream = lines.concat().into_bytes();
            let at = cut.index(stream.len() + 1);
            let (head, tail) = stream.split_at(at);
            prop_assert_eq!(decode(&[head, tail]), decode(&[&stream]));
        }

        #[test]
        fn a_message_written_as_an_event_is_read_back(text in ".{0,40}") {
            let wire = Response::result(RawJson::NULL, RawJson::string(&text)).to_wire();
            let written = wire.clone().into_bytes();
            let read = decode(&[&event(wire).concat()]);
            prop_assert_eq!(read, vec![written]);
        }
    }
}
