//! Frames that are too long for a line travel in pieces.

use serde::{Deserialize, Serialize};

use crate::MAX_MESSAGE_BYTES;

/// The tag of a piece. It is no frame of its own and never reaches a reader.
pub(crate) const TAG: &str = "chunk";
/// How long a piece is at most, in bytes. Escaped as a JSON string it is at most twice as long: the text of a frame is
/// JSON itself, in which only quotes, backslashes and white space have to be escaped once more.
pub const CHUNK_BYTES: usize = 1024 * 1024;
/// How many frames may be under way in pieces at once.
pub const MAX_OPEN_STREAMS: usize = 4;

/// A piece of a frame.
#[derive(Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Which frame it is a piece of: a number that rises with each frame that is begun.
    pub(crate) stream: u64,
    /// The place of the piece, from 0.
    pub(crate) index: u32,
    /// Whether it is the last one.
    pub(crate) last: bool,
    /// A part of the frame's text.
    pub(crate) data: String,
}

/// Why chunks do not make a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A chunk is missing, or stands out of its order.
    #[error("a chunk stands out of its order")]
    OutOfOrder,
    /// Too many frames are under way at once.
    #[error("more than {MAX_OPEN_STREAMS} frames travel in chunks at once")]
    TooManyStreams,
    /// What travels is larger than allowed.
    #[error("frames in chunks are larger than {MAX_MESSAGE_BYTES} bytes")]
    TooLarge,
    /// Chunks made a chunk.
    #[error("chunks within chunks")]
    Nested,
}

impl ChunkError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OutOfOrder => "frame.chunk_order",
            Self::TooManyStreams => "frame.chunk_streams",
            Self::TooLarge => "frame.chunk_too_large",
            Self::Nested => "frame.chunk_nested",
        }
    }
}

/// Puts frames together again. What it holds is bounded.
#[derive(Default)]
pub(crate) struct Assembler {
    open: Vec<Stream>,
    /// The first number that a new stream may have.
    next_stream: u64,
    held: usize,
}

struct Stream {
    number: u64,
    next_index: u32,
    text: String,
}

// === impl Assembler ===

impl Assembler {
    /// Takes a piece; returns the whole text with the last one.
    pub(crate) fn push(&mut self, chunk: &Chunk) -> Result<Option<String>, ChunkError> {
        let at = self
            .open
            .iter()
            .position(|stream| stream.number == chunk.stream);
        let at = match at {
            Some(at) => at,
            None => self.begin(chunk)?,
        };
        self.held += chunk.data.len();
        if self.held > MAX_MESSAGE_BYTES {
            return Err(ChunkError::TooLarge);
        }
        let stream = &mut self.open[at];
        if stream.next_index != chunk.index {
            return Err(ChunkError::OutOfOrder);
        }
        stream.next_index += 1;
        stream.text.push_str(&chunk.data);
        if !chunk.last {
            return Ok(None);
        }
        let text = self.open.swap_remove(at).text;
        self.held -= text.len();
        Ok(Some(text))
    }

    fn begin(&mut self, chunk: &Chunk) -> Result<usize, ChunkError> {
        if chunk.stream < self.next_stream || chunk.stream == u64::MAX {
            return Err(ChunkError::OutOfOrder);
        }
        if self.open.len() == MAX_OPEN_STREAMS {
            return Err(ChunkError::TooManyStreams);
        }
        self.next_stream = chunk.stream + 1;
        self.open.push(Stream {
            number: chunk.stream,
            next_index: 0,
            text: String::new(),
        });
        Ok(self.open.len() - 1)
    }

    /// Tells whether no frame is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Cuts a text into pieces between characters.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.floor_char_boundary(CHUNK_BYTES.min(rest.len()));
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
