//! From a frame to lines.

use std::io::Write;

use serde::Serialize;

use crate::{
    MAX_FRAME_BYTES, MAX_MESSAGE_BYTES, VERSION,
    chunk::{self, Chunk},
    frame::Frame,
};

/// Why a frame cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It is larger than [`MAX_MESSAGE_BYTES`].
    #[error("`{tag}` is {bytes} bytes, more than {MAX_MESSAGE_BYTES}")]
    TooLarge {
        /// Its tag.
        tag: &'static str,
        /// How large it is.
        bytes: usize,
    },
    /// It has no JSON form.
    #[error("`{tag}` has no JSON form")]
    Json {
        /// Its tag.
        tag: &'static str,
    },
}

impl EncodeError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "frame.too_large",
            Self::Json { .. } => "frame.not_json",
        }
    }
}

/// Writes a frame as lines, each with its end: one, or where that would be too long, its chunks. `stream` names the
/// frame among those in chunks on the same connection and must rise from frame to frame.
///
/// # Errors
/// Where it is too large even in chunks.
pub fn encode<F: Frame>(frame: &F, stream: u64) -> Result<Vec<Vec<u8>>, EncodeError> {
    let tag = frame.tag();
    let json = |_| EncodeError::Json { tag };
    let body = frame.write().map_err(json)?;
    let line = line(tag, &body);
    if line.len() <= MAX_FRAME_BYTES {
        return Ok(vec![ended(line)]);
    }
    if line.len() > MAX_MESSAGE_BYTES {
        let bytes = line.len();
        return Err(EncodeError::TooLarge { tag, bytes });
    }
    let text = String::from_utf8(line).map_err(|_| EncodeError::Json { tag })?;
    let mut pieces = chunk::pieces(&text).zip(0..).peekable();
    let mut lines = Vec::new();
    while let Some((data, index)) = pieces.next() {
        let chunk = Chunk {
            stream,
            index,
            last: pieces.peek().is_none(),
            data: data.to_owned(),
        };
        lines.push(ended(chunk_line(&chunk).map_err(json)?));
    }
    Ok(lines)
}

fn chunk_line(chunk: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    Ok(line(chunk::TAG, &serde_json::to_vec(chunk)?))
}

/// Puts the version and the tag before the fields of a body, which is an object.
fn line(tag: &str, body: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(body.len() + 40);
    // Writing into memory does not fail.
    let _ = write!(line, r#"{{"v":{VERSION},"type":"{tag}""#);
    let fields = body.get(1..).unwrap_or(b"}");
    if fields != b"}" {
        line.push(b',');
    }
    // A payload is as it was written, and may stand on several lines. Inside of a string JSON has no end of a line, so
    // that these are white space.
    let one_line = fields.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        byte => *byte,
    });
    line.extend(one_line);
    line
}

fn ended(mut line: Vec<u8>) -> Vec<u8> {
    line.push(b'\n');
    line
}
