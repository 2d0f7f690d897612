//! The echo server over HTTP: a bare hyper server on one thread.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::{Echo, Message, Reply};
use crate::serve;

/// A body of a known length whose parts are sent without being joined.
struct Parts(VecDeque<Bytes>);

/// Serves until the process is ended.
///
/// # Errors
/// No port can be bound.
pub(crate) async fn run(tools: usize) -> anyhow::Result<()> {
    let echo = Arc::new(Echo::new(tools));
    let handler = move |request| answer(Arc::clone(&echo), request);
    serve::serve(serve::bind().await?, handler).await
}

/// Answers one HTTP request.
async fn answer(
    echo: Arc<Echo>,
    request: Request<Incoming>,
) -> Result<Response<Parts>, hyper::Error> {
    if request.method() != Method::POST {
        return Ok(respond(StatusCode::METHOD_NOT_ALLOWED, Vec::new()));
    }
    let body = request.into_body().collect().await?.to_bytes();
    Ok(match echo.answer(&body) {
        Reply::Answer(body) => respond(StatusCode::OK, body),
        Reply::UnknownMethod(body) => respond(StatusCode::NOT_FOUND, body),
        Reply::Malformed(body) => respond(StatusCode::BAD_REQUEST, body),
        Reply::None => respond(StatusCode::ACCEPTED, Vec::new()),
    })
}

/// Makes an HTTP response; an empty body has no type.
fn respond(status: StatusCode, body: Message) -> Response<Parts> {
    let typed = !body.is_empty();
    let mut response = Response::new(Parts(body.into()));
    *response.status_mut() = status;
    if typed {
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

// === impl Body for Parts ===

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}
