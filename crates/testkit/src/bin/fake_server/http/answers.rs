//! HTTP answers, from nothing to streams of events.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::{life, script::Outgoing};

type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Answer = Response<Body>;

/// How long an answer has to leave before the process ends behind it.
const LAST_WORDS: Duration = Duration::from_millis(100);
const ENDLESS_CHUNKS: usize = 4096;

fn with_body(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(full(String::new()));
    *answer.status_mut() = status;
    answer
}

pub(super) fn plain(status: StatusCode, text: &str) -> Answer {
    with_body(status, "text/plain", full(text.to_owned()))
}

pub(super) fn html(code: u16) -> Answer {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_body(
        status,
        "text/html",
        full(format!("<html><body><h1>{code}</h1></body></html>")),
    )
}

/// Waits for the one answer.
pub(super) async fn json(status: StatusCode, mut outgoing: mpsc::Receiver<Outgoing>) -> Answer {
    loop {
        match outgoing.recv().await {
            Some(Outgoing::Message(message)) => {
                return with_body(status, "application/json", rest(message, outgoing));
            }
            Some(Outgoing::Junk(_)) => {}
            Some(Outgoing::Endless) => return with_body(status, "application/json", endless()),
            Some(Outgoing::Exit(code)) => life::end(code),
            // A cancelled request: its stream ends without an answer.
            None => return with_body(status, "text/event-stream", full(String::new())),
        }
    }
}

/// The answer, and behind it the end of the process where that is asked for.
fn rest(message: String, mut outgoing: mpsc::Receiver<Outgoing>) -> Body {
    TaskTracker::new().spawn(async move {
        while let Some(item) = outgoing.recv().await {
            if let Outgoing::Exit(code) = item {
                tokio::time::sleep(LAST_WORDS).await;
                life::end(code);
            }
        }
    });
    full(message)
}

fn endless() -> Body {
    let chunk = Bytes::from(vec![b'x'; 65_536]);
    let chunks = stream::iter((0..ENDLESS_CHUNKS).map(move |_| Ok(Frame::data(chunk.clone()))));
    StreamBody::new(chunks).boxed_unsync()
}

/// Server-sent events, until the script has ended or the client goes.
pub(super) fn events(outgoing: mpsc::Receiver<Outgoing>) -> Answer {
    // A comment first, so that the headers leave at once.
    events_after(": open\n\n".to_owned(), outgoing)
}

/// The same, behind this text.
pub(super) fn events_after(opening: String, outgoing: mpsc::Receiver<Outgoing>) -> Answer {
    let opening = Bytes::from(opening);
    let chunks = stream::unfold(
        (outgoing, Some(opening)),
        |(mut outgoing, opening)| async move {
            if let Some(opening) = opening {
                return Some((Ok(Frame::data(opening)), (outgoing, None)));
            }
            let text = match outgoing.recv().await? {
                Outgoing::Message(message) => event(&message),
                Outgoing::Junk(_) => ": junk\n\n".to_owned(),
                Outgoing::Endless => format!("data: {}", "x".repeat(65_536 * ENDLESS_CHUNKS)),
                Outgoing::Exit(code) => {
                    tokio::time::sleep(LAST_WORDS).await;
                    life::end(code)
                }
            };
            Some((Ok(Frame::data(Bytes::from(text))), (outgoing, None)))
        },
    );
    with_body(
        StatusCode::OK,
        "text/event-stream",
        StreamBody::new(chunks).boxed_unsync(),
    )
}

fn event(message: &str) -> String {
    let data: Vec<String> = message
        .lines()
        .map(|line| format!("data: {line}\n"))
        .collect();
    format!("event: message\n{}\n", data.concat())
}
