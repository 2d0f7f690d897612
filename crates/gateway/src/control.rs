//! The control socket: newline-delimited JSON-RPC for the owner of the state directory, and the way on which
//! `genlock serve --stdio` attaches an MCP client to a running gateway.

use std::io;

use bytes::Bytes;
use camino::Utf8Path;
use genlock_mcp::{
    Message, Notification, Outcome, RawJson, RawObject, Request, Response, RpcError, Wire,
    lines::{Line, LineReader},
};
use genlock_policy::{Actor, Gate};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::broadcast,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    audit::{Act, Who},
    events::{Events, Listening},
    methods::{Methods, Peer, refusal},
};

const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// Binds the control socket. Only the holder of the state directory's lock may call this: a file that is already there
/// was left behind by a gateway that is gone.
pub(crate) fn bind(path: &Utf8Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // The directory is 0700, so the socket is out of reach of others from its first moment on.
    UnixListener::bind(path)
}

/// What a control connection works on.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) methods: Methods,
    pub(crate) events: Events,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Control {
    /// Serves connections until the gateway stops.
    pub(crate) async fn serve(self, listener: UnixListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if self.is_of_a_server(&stream) => {
                    tracing::warn!("a control connection of a server was refused");
                    self.record_refusal(&stream, "control.of_a_server");
                }
                Ok((stream, _)) if is_owner(&stream) => {
                    let control = self.clone();
                    self.tasks
                        .spawn(async move { control.connection(stream).await });
                }
                Ok((stream, _)) => {
                    tracing::warn!("a control connection of another user was refused");
                    self.record_refusal(&stream, "control.other_user");
                }
                Err(error) => {
                    tracing::warn!(%error, "accept a control connection");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// A server must not direct the gateway that runs it.
    fn is_of_a_server(&self, stream: &UnixStream) -> bool {
        let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let peer = peer.and_then(|pid| u32::try_from(pid).ok());
        peer.is_some_and(|pid| self.methods.status.pool.is_of_a_server(pid))
    }

    fn record_refusal(&self, stream: &UnixStream, code: &str) {
        if let Ok(audit) = self.methods.audit() {
            let peer = stream.peer_cred().map(|peer| peer.uid());
            let actor = peer.map_or_else(|_| "uid:unknown".to_owned(), |uid| format!("uid:{uid}"));
            let act = Act::new(Who::new(Actor::new(actor)), "door.refused");
            audit.refused(act, Some(Gate::Local), code);
        }
    }

    async fn connection(self, stream: UnixStream) {
        let (reader, mut writer) = stream.into_split();
        let mut lines = LineReader::new(reader, LONGEST_LINE);
        let mut listening: Option<Listening> = None;
        loop {
            let line = tokio::select! {
                () = self.stop.cancelled() => return,
                event = next_event(listening.as_mut()) => {
                    if send(&mut writer, event.to_wire()).await.is_err() {
                        return;
                    }
                    continue;
                }
                line = lines.next() => line,
            };
            let request = match line {
                Ok(Some(Line::Whole(line))) => Message::parse(line),
                Ok(Some(Line::TooLong(_))) => {
                    let message = format!("a line has {LONGEST_LINE} bytes at most");
                    let error = Response::error(RawJson::NULL, &RpcError::invalid_params(message));
                    // What follows is the rest of the line.
                    let _ = send(&mut writer, error.to_wire()).await;
                    return;
                }
                Ok(None) | Err(_) => return,
            };
            let response = match request {
                Ok(Message::Request(request)) if request.method == "mcp.attach" => {
                    return self.attach(request, lines, writer).await;
                }
                Ok(Message::Request(request)) if request.method == "events.subscribe" => {
                    // From before the answer on, so that nothing that follows it is missed.
                    listening = Some(self.events.listen());
                    subscribed(request)
                }
                Ok(Message::Request(request)) => self.methods.answer(&Peer::Owner, request).await,
                Ok(Message::Notification(_) | Message::Response(_)) => continue,
                Err(error) => {
                    Response::error(error.id.clone().unwrap_or(RawJson::NULL), &error.to_rpc())
                }
            };
            if send(&mut writer, response.to_wire()).await.is_err() {
                return;
            }
        }
    }

    /// Turns the connection into a pipe that speaks MCP.
    async fn attach(
        self,
        request: Request,
        lines: LineReader<OwnedReadHalf>,
        mut writer: OwnedWriteHalf,
    ) {
        let attached = [("attached", RawJson::encode(&true))].into_iter().collect();
        let answer = Response::object(request.id, attached);
        if send(&mut writer, answer.to_wire()).await.is_ok() {
            let (read_already, reader) = lines.into_inner();
            let reader = io::Cursor::new(read_already).chain(reader);
            self.methods
                .status
                .front
                .serve_pipe(reader, writer, self.stop.clone())
                .await;
        }
    }
}

fn is_owner(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

/// Answers `events.subscribe`: from here on the connection is told what happens, as notifications.
fn subscribed(request: Request) -> Response {
    match request.params.is_empty() {
        true => {
            let subscribed = [("subscribed", RawJson::encode(&true))].into_iter();
            Response::object(request.id, subscribed.collect())
        }
        false => {
            let error = refusal("invalid_params", "`events.subscribe` takes no parameters");
            Response::error(request.id, &error)
        }
    }
}

/// Waits for the next event, as a notification; never where nobody listens.
async fn next_event(listening: Option<&mut Listening>) -> Notification {
    let Some(listening) = listening else {
        return std::future::pending().await;
    };
    let params = match listening.recv().await {
        Ok(event) => [
            ("kind", RawJson::string(event.kind)),
            ("data", RawJson::encode(&event.data)),
        ],
        Err(broadcast::error::RecvError::Lagged(missed)) => [
            ("kind", RawJson::string("events.missed")),
            ("data", RawJson::encode(&missed)),
        ],
        // The gateway ends, and the connection with it.
        Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
    };
    Notification::new("event", params.into_iter().collect())
}

async fn send(writer: &mut OwnedWriteHalf, message: Wire) -> io::Result<()> {
    for part in message.into_line() {
        writer.write_all(&part).await?;
    }
    writer.flush().await
}

/// A connection to the control socket of a running gateway.
pub struct ControlClient {
    lines: LineReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    next_id: u64,
}

/// Why a control method has no result.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is nobody at the socket.
    #[error("connect to {path}")]
    Connect {
        /// The socket.
        path: camino::Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection ended.
    #[error("the gateway closed the control connection")]
    Closed,
    /// The gateway refused.
    #[error("the gateway refused {method}: {message}")]
    Refused {
        /// The method.
        method: String,
        /// What it said.
        message: String,
        /// The stable code of the refusal, where there is one.
        reason: Option<String>,
        /// More for programs.
        detail: Option<RawJson>,
    },
}

impl ControlClient {
    /// Connects to the gateway that owns a state directory.
    ///
    /// # Errors
    /// Where nobody serves there.
    pub async fn connect(state_dir: &Utf8Path) -> Result<Self, ControlError> {
        let path = crate::StateDir::control_socket(state_dir);
        let stream = UnixStream::connect(&path)
            .await
            .map_err(|source| ControlError::Connect { path, source })?;
        let (reader, writer) = stream.into_split();
        Ok(Self {
            lines: LineReader::new(reader, usize::MAX / 2),
            writer,
            next_id: 1,
        })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// Where the gateway refuses or goes away.
    pub async fn call(&mut self, method: &str, params: RawObject) -> Result<RawJson, ControlError> {
        let id = RawJson::encode(&self.next_id);
        self.next_id += 1;
        let request = Request {
            id: id.clone(),
            method: method.to_owned(),
            params,
        };
        for part in request.to_wire().into_line() {
            self.writer
                .write_all(&part)
                .await
                .map_err(|_| ControlError::Closed)?;
        }
        loop {
            let line: Bytes = match self.lines.next().await {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::TooLong(_)) | None) | Err(_) => return Err(ControlError::Closed),
            };
            match Message::parse(line) {
                Ok(Message::Response(response)) if response.id == id => {
                    return outcome(method, response.outcome);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Makes the connection a pipe that speaks MCP.
    ///
    /// # Errors
    /// Where the gateway refuses or goes away.
    pub async fn attach(mut self) -> Result<crate::Backend, ControlError> {
        self.call("mcp.attach", RawObject::default()).await?;
        let (read_already, reader) = self.lines.into_inner();
        Ok(crate::Backend::new(
            io::Cursor::new(read_already).chain(reader),
            self.writer,
        ))
    }
}

pub(crate) fn outcome(method: &str, outcome: Outcome) -> Result<RawJson, ControlError> {
    match outcome {
        Outcome::Result(result) => Ok(result),
        Outcome::Object(result) => Ok(result.to_raw()),
        Outcome::Error(error) => {
            let error = RawObject::parse(&error).unwrap_or_default();
            let data = error.get_object("data").unwrap_or_default();
            Err(ControlError::Refused {
                method: method.to_owned(),
                message: error.get_string("message").unwrap_or_default(),
                reason: data.get_string("reason"),
                detail: data.get("detail").cloned(),
            })
        }
    }
}
