//! Why bytes are no frame.

use crate::{MAX_FRAME_BYTES, OLDEST_VERSION, chunk::ChunkError};

/// Why bytes are no frame. What was read is never quoted: it may be private.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A line is longer than [`MAX_FRAME_BYTES`].
    #[error("a frame is longer than {MAX_FRAME_BYTES} bytes")]
    TooLong,
    /// A line is no JSON object with a version and a tag, or its body is not that of its tag.
    #[error("{} is malformed{}", .tag.map_or("a frame", |tag| tag), at(*.column))]
    Malformed {
        /// The tag, where it is known.
        tag: Option<&'static str>,
        /// Where in the line, from 1; 0 where that is not known.
        column: usize,
    },
    /// The version is older than what is read.
    #[error("frames of version {found} are not read, only {OLDEST_VERSION} and newer")]
    Version {
        /// The version of the frame.
        found: u32,
    },
    /// There is no such tag, or this side may not send it.
    #[error("unknown frame `{tag}`")]
    UnknownTag {
        /// The tag, or `?` where it does not look like one.
        tag: String,
    },
    /// Chunks do not make a frame.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The bytes end within a frame.
    #[error("the frames end within one")]
    Truncated,
}

fn at(column: usize) -> String {
    match column {
        0 => String::new(),
        column => format!(" at column {column}"),
    }
}

// === impl FrameError ===

impl FrameError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "frame.too_long",
            Self::Malformed { .. } => "frame.malformed",
            Self::Version { .. } => "frame.version",
            Self::UnknownTag { .. } => "frame.unknown_tag",
            Self::Chunk(error) => error.code(),
            Self::Truncated => "frame.truncated",
        }
    }

    /// Keeps where a body is wrong and leaves out the words, which would quote it.
    pub(crate) fn malformed(tag: Option<&'static str>, error: &serde_json::Error) -> Self {
        let column = error.column();
        Self::Malformed { tag, column }
    }

    pub(crate) fn unknown_tag(tag: &str) -> Self {
        let looks_like_one = (1..=32).contains(&tag.len())
            && tag
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let tag = if looks_like_one { tag } else { "?" };
        Self::UnknownTag {
            tag: tag.to_owned(),
        }
    }
}
