//! What a received message leads to, as a list of steps: the protocol writes scripts, the transports play them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::mpsc::Sender;

use crate::{
    message::{Filter, result_message},
    server::Server,
    state::Running,
    tools::answered,
};

/// How often a file that a step waits for is looked for.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends a message.
    Send(String),
    /// Sends bytes that are no message.
    Junk(Vec<u8>),
    /// Sends a line that does not end.
    Endless,
    Pause(Duration),
    /// Creates the first file and waits for the second.
    Hold {
        held: PathBuf,
        release: PathBuf,
    },
    /// Counts an answered call, and ends the process where `--crash-after` says so.
    CallAnswered,
    /// Sends a request of the server's own, and answers the call with what the client answers.
    Ask {
        id: String,
        question: String,
        call: String,
    },
    /// Waits for ever.
    Hang,
    Exit(u8),
    /// Ends once what was sent before is written.
    Leave,
}

/// What a message leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// The request's id as written; `None` for a notification.
    pub(crate) id: Option<String>,
    /// HTTP status of the answer.
    pub(crate) status: u16,
    pub(crate) modern: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) effect: Effect,
}

/// What else a message changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// A legacy session begins, with this protocol version.
    Open {
        version: String,
        capabilities: String,
    },
    /// The client answers a request of the server.
    Respond {
        id: String,
        response: String,
    },
    /// The legacy client is ready for notifications.
    Ready,
    Cancel {
        id: String,
    },
    /// The stream stays open for what the filter names.
    Listen {
        filter: Filter,
    },
}

/// What a transport is told to write.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Message(String),
    Junk(Vec<u8>),
    Endless,
    Exit(u8),
}

// === impl Script ===

impl Script {
    pub(crate) fn silent(modern: bool) -> Self {
        Self {
            id: None,
            status: 202,
            modern,
            steps: Vec::new(),
            effect: Effect::Nothing,
        }
    }

    /// Whether playing it takes no time.
    pub(crate) fn is_instant(&self) -> bool {
        !self.steps.iter().any(|step| {
            matches!(
                step,
                Step::Pause(_) | Step::Hold { .. } | Step::Ask { .. } | Step::Hang
            )
        })
    }

    /// Whether more than the one answer may be sent.
    pub(crate) fn needs_stream(&self) -> bool {
        let sends = |step: &&Step| matches!(step, Step::Send(_));
        let asks = |step: &Step| matches!(step, Step::Ask { .. });
        self.steps.iter().filter(sends).count() > 1
            || self.steps.iter().any(asks)
            || matches!(self.effect, Effect::Listen { .. })
    }
}

/// Plays a script until it ends, is cancelled or nobody hears it any more.
///
/// The request is registered at once, before the future is polled, so that no cancellation comes too early for it.
pub(crate) fn play(
    server: Arc<Server>,
    session: Option<String>,
    script: Script,
    out: Sender<Outgoing>,
) -> impl Future<Output = ()> + Send {
    let running = script
        .id
        .as_ref()
        .map(|id| Running::begin(Arc::clone(&server), session, id));
    async move {
        let Some(running) = running else {
            return perform(&server, script.steps, &out).await;
        };
        let listens = matches!(script.effect, Effect::Listen { .. });
        tokio::select! {
            biased;
            () = running.token.cancelled() => {}
            // In the modern era a client that goes away has cancelled; in the legacy ones it has not.
            () = out.closed(), if script.modern => if !listens {
                server.state.record_cancelled(running.id());
            },
            () = perform(&server, script.steps, &out) => {}
        }
    }
}

async fn perform(server: &Server, steps: Vec<Step>, out: &Sender<Outgoing>) {
    for step in steps {
        // A client that went away is noticed by `play`; what it would have got is lost.
        match step {
            Step::Send(message) => drop(out.send(Outgoing::Message(message)).await),
            Step::Junk(bytes) => drop(out.send(Outgoing::Junk(bytes)).await),
            Step::Endless => drop(out.send(Outgoing::Endless).await),
            Step::Pause(span) => tokio::time::sleep(span).await,
            Step::Hold { held, release } => hold(&held, &release).await,
            Step::CallAnswered => {
                let answered = server.state.count_answered();
                if server
                    .flags
                    .crash_after
                    .is_some_and(|limit| answered >= limit)
                {
                    drop(out.send(Outgoing::Exit(3)).await);
                }
            }
            Step::Ask { id, question, call } => {
                let response = server.state.expect(&id);
                drop(out.send(Outgoing::Message(question)).await);
                // The sender lives as long as the server does.
                let response = response.await.unwrap_or_else(|_| "null".to_owned());
                let answer = result_message(&call, &answered(&response));
                drop(out.send(Outgoing::Message(answer)).await);
            }
            Step::Hang => std::future::pending().await,
            Step::Exit(code) => crate::life::end(code),
            Step::Leave => drop(out.send(Outgoing::Exit(0)).await),
        }
    }
}

async fn hold(held: &std::path::Path, release: &std::path::Path) {
    if let Err(error) = std::fs::write(held, b"") {
        crate::life::complain(&format!("cannot write {}: {error}", held.display()));
    }
    while !release.exists() {
        tokio::time::sleep(POLL).await;
    }
}
