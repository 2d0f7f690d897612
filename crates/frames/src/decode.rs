//! From bytes to frames, without reading any.

use std::{borrow::Cow, marker::PhantomData};

use serde::Deserialize;

use crate::{
    MAX_FRAME_BYTES, OLDEST_VERSION,
    chunk::{self, Assembler, Chunk, ChunkError},
    error::FrameError,
    frame::Frame,
};

/// Reads frames out of bytes, however these are cut.
///
/// After an error it reads no more and returns the same error again: what follows could be anything.
pub struct Decoder<F> {
    buffer: Vec<u8>,
    /// Where the first frame that was not returned yet begins.
    start: usize,
    /// Up to where no end of a line was found.
    scanned: usize,
    assembler: Assembler,
    failed: Option<FrameError>,
    frames: PhantomData<fn() -> F>,
}

/// What every line has.
#[derive(Deserialize)]
struct Head<'a> {
    v: u32,
    #[serde(borrow, rename = "type")]
    tag: Cow<'a, str>,
}

impl<F: Frame> Default for Decoder<F> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Decoder ===

impl<F: Frame> Decoder<F> {
    /// Begins to read.
    pub fn new() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            assembler: Assembler::default(),
            failed: None,
            frames: PhantomData,
        }
    }

    /// Takes bytes. To keep memory bounded, call [`Decoder::next`] until it has nothing before taking more.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame, or `None` where more bytes are needed.
    ///
    /// # Errors
    /// Where the bytes are no frame. The same error comes again from then on.
    #[expect(
        clippy::should_implement_trait,
        reason = "`None` is not the end, but the wish for more"
    )]
    pub fn next(&mut self) -> Result<Option<F>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.step().inspect_err(|error| {
            self.failed = Some(error.clone());
            self.buffer = Vec::new();
            self.assembler = Assembler::default();
        })
    }

    /// Says whether the bytes may end here.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] within a frame, or the error of before.
    pub fn end(&self) -> Result<(), FrameError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.start == self.buffer.len() && self.assembler.is_empty() => Ok(()),
            None => Err(FrameError::Truncated),
        }
    }

    fn step(&mut self) -> Result<Option<F>, FrameError> {
        loop {
            let unseen = self.buffer[self.scanned..].iter();
            let Some(end) = unseen.copied().position(|byte| byte == b'\n') else {
                self.scanned = self.buffer.len();
                let waiting = self.buffer.len() - self.start;
                return if waiting > MAX_FRAME_BYTES {
                    Err(FrameError::TooLong)
                } else {
                    Ok(None)
                };
            };
            let line = self.start..self.scanned + end;
            self.start = line.end + 1;
            self.scanned = self.start;
            if line.len() > MAX_FRAME_BYTES {
                return Err(FrameError::TooLong);
            }
            if let Some(frame) = self.line(line)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Reads one line; `None` where it is a chunk and not the last one.
    fn line(&mut self, line: std::ops::Range<usize>) -> Result<Option<F>, FrameError> {
        let text = &self.buffer[line];
        let tag = head(text)?;
        if tag != chunk::TAG {
            return frame(&tag, text).map(Some);
        }
        let chunk: Chunk = serde_json::from_slice(text)
            .map_err(|error| FrameError::malformed(Some(chunk::TAG), &error))?;
        let Some(whole) = self.assembler.push(&chunk)? else {
            return Ok(None);
        };
        let tag = head(whole.as_bytes())?;
        if tag == chunk::TAG {
            return Err(ChunkError::Nested.into());
        }
        frame(&tag, whole.as_bytes()).map(Some)
    }
}

/// Reads the tag of a frame and checks its version.
fn head(text: &[u8]) -> Result<Cow<'_, str>, FrameError> {
    let head: Head<'_> =
        serde_json::from_slice(text).map_err(|error| FrameError::malformed(None, &error))?;
    if head.v < OLDEST_VERSION {
        return Err(FrameError::Version { found: head.v });
    }
    Ok(head.tag)
}

fn frame<F: Frame>(tag: &str, text: &[u8]) -> Result<F, FrameError> {
    let known = F::TAGS.iter().find(|known| **known == tag).copied();
    match F::read(tag, text) {
        Some(read) => read.map_err(|error| FrameError::malformed(known, &error)),
        None => Err(FrameError::unknown_tag(tag)),
    }
}
