//! The pipe transport: one message per line, many requests in flight.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Announced, CallError, Exchange};
use crate::{
    error::RpcError,
    limit::ByteLimit,
    lines::{Line, LineReader},
    message::{Message, Notification, Outcome, Request, Response},
    meta,
    object::RawObject,
    raw::RawJson,
    scan,
};

/// How many lines may wait for the upstream to read them.
const OUTGOING: usize = 64;

#[derive(Clone)]
pub(super) struct PipeTransport {
    shared: Arc<Shared>,
}

struct Shared {
    outgoing: mpsc::Sender<Vec<Bytes>>,
    /// The requests in flight by their id; `None` once the connection has ended.
    waiting: Mutex<Option<HashMap<u64, Waiting>>>,
    next_id: AtomicU64,
    garbage: AtomicU64,
    announced: watch::Sender<Announced>,
    stopped: CancellationToken,
    limit: ByteLimit,
}

struct Waiting {
    reply: oneshot::Sender<Result<Outcome, CallError>>,
    events: Option<mpsc::Sender<Notification>>,
}

// === impl PipeTransport ===

impl PipeTransport {
    pub(super) fn start<R, W>(
        reader: R,
        writer: W,
        limit: &ByteLimit,
        announced: watch::Sender<Announced>,
        tasks: &TaskTracker,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (outgoing, lines) = mpsc::channel(OUTGOING);
        let shared = Arc::new(Shared {
            outgoing,
            waiting: Mutex::new(Some(HashMap::new())),
            next_id: AtomicU64::new(1),
            garbage: AtomicU64::new(0),
            announced,
            stopped: CancellationToken::new(),
            limit: limit.clone(),
        });
        tasks.spawn(write_lines(writer, lines, shared.stopped.clone()));
        tasks.spawn(read_lines(
            LineReader::new(reader, limit.clone()),
            Arc::clone(&shared),
        ));
        Self { shared }
    }

    pub(super) async fn closed(&self) {
        self.shared.stopped.cancelled().await;
    }

    pub(super) fn close(&self) {
        self.shared.end();
    }

    pub(super) fn stopped(&self) -> CancellationToken {
        self.shared.stopped.clone()
    }

    pub(super) fn garbage(&self) -> u64 {
        self.shared.garbage.load(Ordering::Relaxed)
    }

    pub(super) async fn notify(
        &self,
        notification: &Notification,
        deadline: Instant,
    ) -> Result<(), CallError> {
        self.send(notification.to_wire().into_line(), deadline)
            .await
    }

    pub(super) async fn exchange(
        &self,
        mut exchange: Exchange,
        deadline: Instant,
    ) -> Result<Outcome, CallError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let params = exchange.take_params(id);
        let (reply, answer) = oneshot::channel();
        self.shared.register(
            id,
            Waiting {
                reply,
                events: exchange.events.take(),
            },
        )?;
        let mut in_flight = InFlight {
            shared: &self.shared,
            id,
            sent: false,
            answered: false,
        };

        let request = Request {
            id: RawJson::encode(&id),
            method: exchange.method,
            params,
        };
        self.send(request.to_wire().into_line(), deadline).await?;
        in_flight.sent = true;
        let answered = timeout_at(deadline, answer).await;
        match answered {
            Ok(outcome) => {
                in_flight.answered = true;
                outcome.unwrap_or(Err(CallError::Closed { sent: true }))
            }
            Err(_) => Err(CallError::DeadlineExceeded { sent: true }),
        }
    }

    /// Hands a line to the writer.
    async fn send(&self, line: Vec<Bytes>, deadline: Instant) -> Result<(), CallError> {
        match timeout_at(deadline, self.shared.outgoing.send(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CallError::Closed { sent: false }),
            Err(_) => Err(CallError::DeadlineExceeded { sent: false }),
        }
    }
}

/// A request in flight: dropped without an answer, it is forgotten here and cancelled at the upstream.
struct InFlight<'a> {
    shared: &'a Shared,
    id: u64,
    sent: bool,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let was_waiting = self.shared.forget(self.id);
        if was_waiting && self.sent {
            let params = [("requestId", RawJson::encode(&self.id))]
                .into_iter()
                .collect();
            let cancelled = Notification::new("notifications/cancelled", params);
            // Where the upstream does not even read, the cancellation could not reach it either.
            let _ = self
                .shared
                .outgoing
                .try_send(cancelled.to_wire().into_line());
        }
    }
}

// === impl Shared ===

impl Shared {
    fn register(&self, id: u64, waiting: Waiting) -> Result<(), CallError> {
        match self.waiting.lock().as_mut() {
            Some(map) => {
                map.insert(id, waiting);
                Ok(())
            }
            None => Err(CallError::Closed { sent: false }),
        }
    }

    fn forget(&self, id: u64) -> bool {
        self.waiting
            .lock()
            .as_mut()
            .is_some_and(|map| map.remove(&id).is_some())
    }

    fn answer(&self, id: u64, outcome: Result<Outcome, CallError>) -> bool {
        let waiting = self.waiting.lock().as_mut().and_then(|map| map.remove(&id));
        // A caller that has gone meanwhile needs no answer.
        waiting.is_some_and(|waiting| waiting.reply.send(outcome).is_ok())
    }

    /// Ends the connection: every request in flight is answered.
    fn end(&self) {
        let waiting = self.waiting.lock().take();
        self.stopped.cancel();
        for (_, waiting) in waiting.into_iter().flatten() {
            let _ = waiting.reply.send(Err(CallError::Closed { sent: true }));
        }
    }

    fn take(&self, line: Line) {
        match line {
            Line::TooLong(head) => self.take_overlong(&head),
            Line::Whole(bytes) => match Message::parse(bytes.clone()) {
                Ok(Message::Response(response)) => self.take_response(response),
                Ok(Message::Notification(notification)) => self.take_notification(notification),
                Ok(Message::Request(request)) => self.take_request(request),
                Err(error) => self.take_unreadable(&bytes, &error.to_string()),
            },
        }
    }

    /// A line that is no message may still say which call it was meant for: that one fails at once.
    fn take_unreadable(&self, line: &[u8], what: &str) {
        let what = what.to_owned();
        let known =
            leading_id(line).is_some_and(|id| self.answer(id, Err(CallError::BadAnswer { what })));
        if !known {
            self.skip();
        }
    }

    fn skip(&self) {
        self.garbage.fetch_add(1, Ordering::Relaxed);
    }

    fn take_response(&self, response: Response) {
        let known = response
            .id
            .decode::<u64>()
            .is_ok_and(|id| self.answer(id, Ok(response.outcome)));
        if !known {
            // An answer to nobody: never asked, asked and cancelled, or answered twice.
            tracing::debug!("an answer with an id that is not in flight was dropped");
        }
    }

    fn take_overlong(&self, head: &[u8]) {
        let limit = self.limit.get();
        match leading_id(head) {
            Some(id) => {
                self.answer(id, Err(CallError::TooLarge { limit }));
            }
            None => {
                let ids: Vec<u64> = self
                    .waiting
                    .lock()
                    .iter()
                    .flat_map(HashMap::keys)
                    .copied()
                    .collect();
                for id in ids {
                    self.answer(id, Err(CallError::Unassigned { limit }));
                }
            }
        }
    }

    fn take_notification(&self, notification: Notification) {
        match notification.method.as_str() {
            method if Announced::note(&self.announced, method) => {}
            "notifications/progress" => {
                let token = notification
                    .params
                    .get(meta::PROGRESS_TOKEN)
                    .and_then(|token| token.decode().ok());
                self.pass_on(token, notification);
            }
            _ => {
                let listen = notification.params.get_object("_meta");
                let id = listen.and_then(|meta| meta.get(meta::SUBSCRIPTION_ID)?.decode().ok());
                self.pass_on(id, notification);
            }
        }
    }

    fn pass_on(&self, id: Option<u64>, notification: Notification) {
        let waiting = self.waiting.lock();
        let events = id.and_then(|id| waiting.as_ref()?.get(&id)?.events.as_ref());
        if let Some(events) = events {
            // Progress is advice: a caller that does not keep up misses some.
            let _ = events.try_send(notification);
        }
    }

    /// Answers a request of the upstream: this connection offers nothing but `ping`.
    fn take_request(&self, request: Request) {
        let line = answer_to(request).to_wire().into_line();
        if self.outgoing.try_send(line).is_err() {
            tracing::debug!("the upstream does not read: the answer to its request was dropped");
        }
    }
}

/// Answers what an upstream asks of its client: `ping`, and nothing else is offered.
pub(super) fn answer_to(request: Request) -> Response {
    match request.method.as_str() {
        "ping" => Response::object(request.id, RawObject::default()),
        method => Response::error(request.id, &RpcError::method_not_found(method)),
    }
}

/// Finds the id of a message of which only the beginning is there.
fn leading_id(head: &[u8]) -> Option<u64> {
    let mut at = scan::skip_space(head, 0);
    while matches!(head.get(at), Some(b'{' | b',')) {
        let key = scan::skip_space(head, at + 1);
        let key_end = scan::string_end(head, key).ok()?;
        let value = scan::skip_space(head, scan::skip_space(head, key_end) + 1);
        let value_end = scan::value_end(head, value).ok()?;
        if head.get(key..key_end) == Some(b"\"id\"") {
            return serde_json::from_slice(head.get(value..value_end)?).ok();
        }
        at = scan::skip_space(head, value_end);
    }
    None
}

async fn read_lines<R: AsyncRead + Unpin>(mut reader: LineReader<R>, shared: Arc<Shared>) {
    loop {
        let line = tokio::select! {
            biased;
            () = shared.stopped.cancelled() => break,
            line = reader.next() => line,
        };
        match line {
            Ok(Some(line)) => shared.take(line),
            Ok(None) | Err(_) => break,
        }
    }
    shared.end();
}

/// Writes lines until the connection ends; dropping the writer closes the upstream's input.
async fn write_lines<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut lines: mpsc::Receiver<Vec<Bytes>>,
    stopped: CancellationToken,
) {
    loop {
        let line = tokio::select! {
            biased;
            () = stopped.cancelled() => break,
            line = lines.recv() => line,
        };
        let Some(line) = line else { break };
        let written = tokio::select! {
            () = stopped.cancelled() => break,
            written = write_line(&mut writer, &line) => written,
        };
        if written.is_err() {
            // The reader sees the end of the upstream and tells the callers.
            break;
        }
    }
}

async fn write_line<W: AsyncWrite + Unpin>(writer: &mut W, parts: &[Bytes]) -> std::io::Result<()> {
    for part in parts {
        writer.write_all(part).await?;
    }
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_truncated_answer_is_found_where_it_leads() {
        assert_eq!(
            leading_id(br#"{"jsonrpc":"2.0","id":42,"result":{"x":"aaaa"#),
            Some(42)
        );
        assert_eq!(leading_id(br#"{"jsonrpc":"2.0","result":{"x":"aaaa"#), None);
        assert_eq!(leading_id(b"garbage"), None);
    }
}
