//! One client: one keep-alive connection, one call at a time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::answer;
use super::template::Template;

/// A keep-alive connection to an MCP endpoint.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

/// An answer, as it came.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    /// In pieces: joining them is not what is measured.
    body: Collected<Bytes>,
}

// === impl Connection ===

impl Connection {
    /// Connects; `drivers` holds the task that moves the connection's bytes.
    ///
    /// # Errors
    /// Nothing listens at `address`.
    pub(crate) async fn open(
        address: SocketAddr,
        drivers: &mut JoinSet<()>,
    ) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its error is also the error of the call that waits for an answer.
        drivers.spawn(async move { drop(connection.await) });
        Ok(Self { sender })
    }

    /// Makes one call and returns its time; the answer is checked after the clock has stopped.
    ///
    /// # Errors
    /// The connection breaks, or the answer is not the expected one.
    pub(crate) async fn call(&mut self, template: &Template, id: u64) -> anyhow::Result<Duration> {
        let request = request(template, id);
        let start = Instant::now();
        let answer = self.exchange(request).await?;
        let taken = start.elapsed();

        verify(answer, template, id)?;
        Ok(taken)
    }

    /// Asks for `path` and returns the status.
    ///
    /// # Errors
    /// The connection breaks.
    pub(crate) async fn get(&mut self, host: &str, path: &str) -> anyhow::Result<StatusCode> {
        let request = Request::get(path)
            .header(HOST, host)
            .body(Full::default())?;
        Ok(self.exchange(request).await?.status)
    }

    /// Makes one call, whatever comes of it: the status and the message.
    ///
    /// # Errors
    /// The connection breaks, or the answer is no JSON.
    pub(crate) async fn outcome(
        &mut self,
        template: &Template,
        id: u64,
    ) -> anyhow::Result<(StatusCode, Value)> {
        decoded(self.exchange(request(template, id)).await?)
    }

    /// Makes one call, and returns every response that came for it.
    ///
    /// # Errors
    /// The connection breaks, or an answer is no JSON.
    pub(crate) async fn responses(
        &mut self,
        template: &Template,
        id: u64,
    ) -> anyhow::Result<Vec<Value>> {
        let body = self.exchange(request(template, id)).await?.body.to_bytes();
        answer::responses(&body)
    }

    /// Sends a request, whatever it is, and returns the response with its body unread.
    ///
    /// # Errors
    /// The connection breaks.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Incoming>> {
        self.sender
            .ready()
            .await
            .context("the connection was closed")?;
        let response = self.sender.send_request(request).await;
        response.context("send a request")
    }

    /// As [`Self::outcome`], on the pinned view of a session.
    ///
    /// # Errors
    /// As [`Self::outcome`], or the token fits into no header.
    pub(crate) async fn outcome_of_view(
        &mut self,
        template: &Template,
        id: u64,
        (path, token): (&Uri, &str),
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = request(template, id);
        *request.uri_mut() = path.clone();
        let token = HeaderValue::from_str(&format!("Bearer {token}"))?;
        request.headers_mut().insert(AUTHORIZATION, token);
        decoded(self.exchange(request).await?)
    }

    /// Asks a route that speaks JSON.
    ///
    /// # Errors
    /// The connection breaks, or the answer is no JSON.
    pub(crate) async fn json(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body.to_owned()))?;
        decoded(self.exchange(request).await?)
    }

    /// Sends a request and reads the answer to its last byte.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let (parts, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.context("read an answer")?;
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

/// Makes the request `id` of a template.
fn request(template: &Template, id: u64) -> Request<Full<Bytes>> {
    let mut body = Vec::with_capacity(512);
    template.write_body(id, &mut body);
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static("/mcp");
    *request.headers_mut() = template.headers().clone();
    request
}

/// Returns the status and the message, be it JSON or the last of a stream of events.
fn decoded(answer: Answer) -> anyhow::Result<(StatusCode, Value)> {
    let body = answer.body.to_bytes();
    let message = serde_json::from_slice(&body).or_else(|error| {
        let last = answer::last_event(&body).ok_or(error)?;
        serde_json::from_slice(&last)
    });
    Ok((answer.status, message.context("read an answer as JSON")?))
}

/// Checks the answer, be it JSON or a stream of events.
fn verify(answer: Answer, template: &Template, id: u64) -> anyhow::Result<()> {
    let expected = template.expected(id);
    let body = answer.body.to_bytes();
    let kind = answer
        .headers
        .get(CONTENT_TYPE)
        .map_or(&[][..], HeaderValue::as_bytes);
    if kind.starts_with(b"text/event-stream") {
        let message = answer::last_event(&body).context("the stream held no message")?;
        answer::check(&message, id, &expected)?;
    } else {
        answer::check(&body, id, &expected).with_context(|| format!("HTTP {}", answer.status))?;
    }
    ensure!(answer.status == StatusCode::OK, "HTTP {}", answer.status);
    Ok(())
}
