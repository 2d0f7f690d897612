//! The floor: a bare pass-through proxy on the stack that the gateway stands on.
//!
//! A hyper server, a pooled hyper-util client, a header copy and the body's bytes. It parses no
//! JSON, checks nothing and decides nothing, so that what it adds is what a hop costs at the least.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use http_body_util::{Either, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{self, Runtime};

use crate::serve;

/// The body of an answer: the upstream's, or nothing where there was none.
type Body = Either<Incoming, Empty<Bytes>>;

/// Headers that belong to one hop.
const HOP: [HeaderName; 3] = [CONNECTION, HOST, TRANSFER_ENCODING];

/// Builds the runtime: `Some(0)` is single-threaded, `None` has one worker per core.
///
/// # Errors
/// The operating system refuses a thread or a descriptor.
pub(crate) fn runtime(workers: Option<usize>) -> io::Result<Runtime> {
    let mut builder = match workers {
        Some(0) => runtime::Builder::new_current_thread(),
        Some(_) | None => runtime::Builder::new_multi_thread(),
    };
    if let Some(workers @ 1..) = workers {
        builder.worker_threads(workers);
    }
    builder.enable_all().build()
}

/// Forwards every request to `upstream`, until the process is ended.
///
/// # Errors
/// No port can be bound.
pub(crate) async fn run(upstream: SocketAddr) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(connector);
    let target: Uri = format!("http://{upstream}/mcp").parse()?;
    let handler = move |request| forward(client.clone(), target.clone(), request);
    serve::serve(serve::bind().await?, handler).await
}

/// Forwards one request and hands the answer's body on as it comes.
async fn forward(
    client: Client<HttpConnector, Incoming>,
    target: Uri,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut onward = Request::new(body);
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = target;
    copy_headers(&parts.headers, onward.headers_mut());
    Ok(match client.request(onward).await {
        Ok(answer) => {
            let (parts, body) = answer.into_parts();
            let mut back = Response::new(Either::Left(body));
            *back.status_mut() = parts.status;
            copy_headers(&parts.headers, back.headers_mut());
            back
        }
        Err(_) => bad_gateway(),
    })
}

/// Copies the end-to-end headers.
fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    to.reserve(from.len());
    for (name, value) in from {
        if !HOP.contains(name) {
            to.append(name, value.clone());
        }
    }
}

/// Answers for an upstream that cannot be reached.
fn bad_gateway() -> Response<Body> {
    let mut answer = Response::new(Either::Right(Empty::new()));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer
}
