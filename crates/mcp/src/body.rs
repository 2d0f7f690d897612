//! HTTP bodies: [`WireBody`] writes a message, [`collect`] reads one.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::wire::Wire;

/// An HTTP body made of the pieces of a message, its length known.
#[derive(Debug, Default)]
pub struct WireBody {
    parts: VecDeque<Bytes>,
}

impl From<Wire> for WireBody {
    fn from(wire: Wire) -> Self {
        Self {
            parts: wire.into_parts().into(),
        }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.parts.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

/// Why a body could not be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CollectError {
    /// It is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It ended early.
    #[error("the body ended early")]
    Broken,
}

/// Reads a body whole. One that arrives in a single piece is not copied.
///
/// # Errors
/// Where it is larger than `limit` bytes or ends early.
///
/// # Cancel safety
/// What was read is lost.
pub async fn collect<B>(body: B, limit: usize) -> Result<Bytes, CollectError>
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    let expected = body.size_hint().exact().unwrap_or(0);
    if expected > limit as u64 {
        return Err(CollectError::TooLarge { limit });
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| CollectError::Broken)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            if whole.is_empty() {
                whole.reserve(
                    usize::try_from(expected)
                        .unwrap_or(0)
                        .max(first.len() + data.len()),
                );
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&data);
        }
        if first.len() + whole.len() > limit {
            return Err(CollectError::TooLarge { limit });
        }
    }
    Ok(if whole.is_empty() {
        first
    } else {
        whole.freeze()
    })
}
