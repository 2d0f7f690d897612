//! The pipe transport of the front door: one message per line, both eras.

use std::sync::Arc;

use bytes::Bytes;
use genlock_access::Visitor;
use genlock_mcp::{
    Era, Incoming, Message, ProtocolVersion, RawJson, RawObject, Request, Response, RpcError, Wire,
    error::code,
    lines::{Line, LineReader},
    message::ParseError,
    server::{Admitted, admit_pipe},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    exchange::Caller,
    front::Front,
    http::{cancelled, progress_of, take_notification},
    listen::Subscription,
    reply::Progress,
    sessions::Session,
    views::ViewWatch,
};

/// How many messages may wait for the client to read them.
const OUTGOING: usize = 256;

/// One client on a pipe.
#[derive(Clone)]
struct Pipe {
    front: Front,
    outgoing: mpsc::Sender<Vec<Bytes>>,
    /// The client's requests in flight, of either era.
    session: Arc<Session>,
    /// The revision of the `initialize` eras, once it was negotiated.
    version: Arc<Mutex<Option<ProtocolVersion>>>,
    /// Whether the client said that it is ready for what it did not ask for.
    announced: Arc<Mutex<bool>>,
    tasks: TaskTracker,
}

impl Front {
    /// Serves a client on a pipe until it closes its end or `stop` is cancelled. Requests in flight are answered before
    /// this returns where the client only closed its input.
    ///
    /// # Cancel safety
    /// A dropped serve cancels the client's requests.
    pub async fn serve_pipe<R, W>(&self, reader: R, writer: W, stop: CancellationToken)
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let _open = self.inner.pipes.token();
        let (outgoing, lines) = mpsc::channel(OUTGOING);
        let session = Arc::new(Session::new(Visitor::Local, ProtocolVersion::LEGACY, None));
        let _end = session.ended.clone().drop_guard();
        let pipe = Pipe {
            front: self.clone(),
            outgoing,
            session,
            version: Arc::default(),
            announced: Arc::default(),
            tasks: TaskTracker::new(),
        };
        let writing = self
            .inner
            .tasks
            .spawn(write(writer, lines, pipe.session.ended.clone()));
        pipe.read(reader, &stop).await;
        pipe.tasks.close();
        tokio::select! {
            () = pipe.tasks.wait() => {}
            () = stop.cancelled() => {}
        }
        // What listens for changes holds the pipe open until it is told.
        pipe.session.ended.cancel();
        drop(pipe);
        // The writer ends when all that waits for it is written.
        let _ = writing.await;
    }
}

impl Pipe {
    async fn read<R: AsyncRead + Unpin>(&self, reader: R, stop: &CancellationToken) {
        let mut lines = LineReader::new(reader, self.front.request_limit());
        let changes = self.announce_changes();
        tokio::pin!(changes);
        loop {
            let line = tokio::select! {
                () = stop.cancelled() => return,
                () = self.front.inner.stopped.cancelled() => return,
                () = &mut changes => return,
                line = lines.next() => line,
            };
            match line {
                Ok(Some(Line::Whole(line))) => self.take(line).await,
                Ok(Some(Line::TooLong(_))) => {
                    let error = RpcError::new(code::INVALID_REQUEST, "the message is too long");
                    self.send(Response::error(RawJson::NULL, &error).to_wire())
                        .await;
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Tells a client of the `initialize` eras when its lists change.
    async fn announce_changes(&self) {
        let mut view = ViewWatch::new(&self.front, Visitor::Local, None);
        while let Some(changed) = view.changed().await {
            if *self.announced.lock() {
                for list in changed {
                    self.send(list.changed(RawObject::default()).to_wire())
                        .await;
                }
            }
        }
    }

    async fn send(&self, wire: Wire) {
        // An error means that the client is gone, which the reader notices as well.
        let _ = self.outgoing.send(wire.into_line()).await;
    }

    async fn take(&self, line: Bytes) {
        match Incoming::parse(line) {
            Ok(Incoming::One(message)) => self.take_one(message).await,
            Ok(Incoming::Batch(items)) => self.take_batch(items).await,
            Err(error) => self.refuse(error).await,
        }
    }

    async fn take_batch(&self, items: Vec<Result<Message, ParseError>>) {
        if *self.version.lock() != Some(ProtocolVersion::V2025_03_26) {
            let error = RpcError::new(
                code::INVALID_REQUEST,
                "this protocol version has no batches",
            );
            return self
                .send(Response::error(RawJson::NULL, &error).to_wire())
                .await;
        }
        let (pipe, world) = (self.clone(), self.front.world_of(&Visitor::Local));
        self.tasks.spawn(async move {
            if let Some(answers) = pipe.front.answer_batch(&world, items, &pipe.session).await {
                pipe.send(answers).await;
            }
        });
    }

    async fn refuse(&self, error: ParseError) {
        let id = error.id.clone().unwrap_or(RawJson::NULL);
        self.send(Response::error(id, &error.to_rpc()).to_wire())
            .await;
    }

    async fn take_one(&self, message: Message) {
        let admitted = match admit_pipe(&message) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                let id = refusal.id.unwrap_or(RawJson::NULL);
                return self
                    .send(Response::error(id, &refusal.error).to_wire())
                    .await;
            }
        };
        match (message, admitted) {
            (Message::Request(request), Admitted::Legacy(_)) if request.method == "initialize" => {
                self.initialize(request).await;
            }
            (Message::Request(request), Admitted::Modern(_))
                if request.method == "subscriptions/listen" =>
            {
                self.listen(&request);
            }
            (Message::Request(request), Admitted::Modern(meta)) => {
                self.begin(request, Era::Modern, Some(meta.capabilities))
                    .await;
            }
            (Message::Request(request), Admitted::Legacy(_)) => {
                self.begin(request, Era::Legacy, None).await;
            }
            (Message::Notification(notification), _)
                if notification.method == "notifications/initialized" =>
            {
                *self.announced.lock() = true;
            }
            (Message::Notification(notification), _) => {
                take_notification(&self.session, &notification);
            }
            (Message::Response(_), _) => {}
        }
    }

    async fn initialize(&self, request: Request) {
        let response = match self
            .front
            .initialized(&self.front.world_of(&Visitor::Local), &request.params)
        {
            Ok((version, result)) => {
                *self.version.lock() = Some(version);
                Response::object(request.id, result)
            }
            Err(error) => Response::error(request.id, &error),
        };
        self.send(response.to_wire()).await;
    }

    async fn begin(&self, request: Request, era: Era, capabilities: Option<RawJson>) {
        let Some(in_flight) = self.session.begin(&request.id) else {
            let error = RpcError::new(code::INVALID_REQUEST, "a request with this id is in flight");
            return self
                .send(Response::error(request.id, &error).to_wire())
                .await;
        };
        let (events, mut progress) = progress_of(&request, era == Era::Modern);
        let caller = Caller {
            visitor: Visitor::Local,
            era,
            capabilities,
            surface: None,
            headers: None,
            events,
        };
        let (pipe, world) = (self.clone(), self.front.world_of(&Visitor::Local));
        self.tasks.spawn(async move {
            let id = request.id.clone();
            let handling = pipe.front.handle(world, request, caller);
            tokio::pin!(handling);
            loop {
                tokio::select! {
                    biased;
                    // The client has given the request up: nothing is sent for it any more.
                    () = in_flight.cancelled.cancelled() => {
                        drop(cancelled(id));
                        return;
                    }
                    notification = Progress::next(&mut progress) => pipe.send(notification.to_wire()).await,
                    answer = &mut handling => {
                        drop(in_flight);
                        return pipe.send(answer.response.to_wire()).await;
                    }
                }
            }
        });
    }

    fn listen(&self, request: &Request) {
        let Some(in_flight) = self.session.begin(&request.id) else {
            return;
        };
        let subscription = Subscription::new(request);
        let pipe = self.clone();
        // Not among the tasks that are waited for: it lasts until the client or the gateway ends it.
        self.front.inner.tasks.spawn(async move {
            let mut view = ViewWatch::new(&pipe.front, Visitor::Local, None);
            pipe.send(subscription.acknowledgement().to_wire()).await;
            loop {
                tokio::select! {
                    biased;
                    () = pipe.front.inner.stopped.cancelled() => break,
                    () = in_flight.cancelled.cancelled() => return,
                    changes = subscription.changes(&mut view) => match changes {
                        Some(changes) => for change in changes {
                            pipe.send(change.to_wire()).await;
                        },
                        None => break,
                    },
                }
            }
            pipe.send(subscription.end().to_wire()).await;
        });
    }
}

async fn write<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut lines: mpsc::Receiver<Vec<Bytes>>,
    ended: CancellationToken,
) {
    while let Some(line) = lines.recv().await {
        for part in &line {
            if writer.write_all(part).await.is_err() {
                return ended.cancel();
            }
        }
        if lines.is_empty() && writer.flush().await.is_err() {
            return ended.cancel();
        }
    }
}
