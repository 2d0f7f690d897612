//! [`LineReader`]: newline-delimited messages from a pipe, each of bounded length.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limit::ByteLimit;

/// How much of an overlong line is kept, so that the id of its message may still be found, in bytes.
const HEAD: usize = 4 * 1024;
/// How much room a read is given, in bytes.
const READ: usize = 32 * 1024;

/// A line without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit.
    Whole(Bytes),
    /// The beginning of a line that was longer than the limit; the rest was thrown away.
    TooLong(Bytes),
}

/// Reads lines from a pipe and never holds more than the limit and one read.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    buffer: BytesMut,
    searched: usize,
    limit: ByteLimit,
    /// The line whose end is not yet seen was found too long already.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(reader: R, limit: impl Into<ByteLimit>) -> Self {
        Self {
            reader,
            buffer: BytesMut::new(),
            searched: 0,
            limit: limit.into(),
            skipping: false,
        }
    }

    /// Returns what was read ahead, and the pipe.
    pub fn into_inner(self) -> (Bytes, R) {
        (self.buffer.freeze(), self.reader)
    }

    /// Returns the next line that is not blank, or `None` at the end of the input.
    ///
    /// # Errors
    /// Where the pipe cannot be read.
    ///
    /// # Cancel safety
    /// Nothing that was read is lost.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.cut() {
                return Ok(Some(line));
            }
            self.buffer.reserve(READ);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.rest());
            }
        }
    }

    fn cut(&mut self) -> Option<Line> {
        while let Some(found) = self
            .buffer
            .get(self.searched..)
            .and_then(|new| memchr::memchr(b'\n', new))
        {
            let line = self.buffer.split_to(self.searched + found).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(line) = self.finish(line) {
                return Some(line);
            }
        }
        self.searched = self.buffer.len();
        if self.buffer.len() <= self.limit.get() && !self.skipping {
            return None;
        }
        // Told at once: who waits for this line need not wait for its end, which may never come.
        let head = Bytes::copy_from_slice(self.buffer.get(..HEAD).unwrap_or(&self.buffer));
        self.buffer.clear();
        self.searched = 0;
        let first = !std::mem::replace(&mut self.skipping, true);
        first.then_some(Line::TooLong(head))
    }

    fn finish(&mut self, line: Bytes) -> Option<Line> {
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        if line.len() > self.limit.get() {
            return Some(Line::TooLong(line.slice(..HEAD.min(line.len()))));
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then_some(Line::Whole(line))
    }

    /// Returns the last line, which no newline ends.
    fn rest(&mut self) -> Option<Line> {
        self.searched = 0;
        let line = self.buffer.split().freeze();
        self.finish(line)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn read(input: &[u8], limit: usize) -> Vec<Line> {
        let mut reader = LineReader::new(input, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        lines
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn lines_are_cut_at_newlines_and_blank_ones_passed_over() {
        assert_eq!(
            read(b"a\n\n \r\nb\nlast", 10).await,
            [whole("a"), whole("b"), whole("last")]
        );
    }

    #[tokio::test]
    async fn an_overlong_line_is_named_and_its_neighbours_are_delivered() {
        let endless = "x".repeat(200_000);
        let input = format!("a\n{endless}\nb\n{endless}");
        let lines = read(input.as_bytes(), 1000).await;
        assert_eq!(lines.len(), 4);
        assert_eq!((&lines[0], &lines[2]), (&whole("a"), &whole("b")));
        assert!(matches!(&lines[1], Line::TooLong(head) if head.len() <= HEAD));
        assert!(matches!(&lines[3], Line::TooLong(_)));
    }

    #[tokio::test]
    async fn an_overlong_line_is_named_before_its_end_and_once() {
        let (mut far, near) = tokio::io::duplex(1 << 20);
        let mut reader = LineReader::new(near, 1000);
        far.write_all(&[b'x'; 100_000]).await.unwrap();
        assert!(matches!(
            reader.next().await.unwrap(),
            Some(Line::TooLong(_))
        ));

        far.write_all(&[b'x'; 100_000]).await.unwrap();
        far.write_all(b"\nnext\n").await.unwrap();

        assert_eq!(reader.next().await.unwrap(), Some(whole("next")));
    }
}
