//! [`WireBody`]: a message as an HTTP body.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::wire::Wire;

/// An HTTP body made of the pieces of a message, its length known.
#[derive(Debug, Default)]
pub struct WireBody {
    parts: VecDeque<Bytes>,
}

impl From<Wire> for WireBody {
    fn from(wire: Wire) -> Self {
        Self { parts: wire.into_parts().into() }
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.parts.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}
