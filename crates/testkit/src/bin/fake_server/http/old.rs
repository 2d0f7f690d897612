//! The transport of 2024-11-05: answers come on one GET stream at `/sse`, messages go to `/messages?session=…`.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::answers::{Answer, empty, events_after, plain};
use crate::{
    protocol,
    script::{Effect, play},
    server::{Origin, Server, Transport},
    state::Session,
};

const QUERY: &str = "session=";

/// Opens a stream, whose first event tells where to send messages.
pub(super) fn open(server: &Server) -> Answer {
    let (out, outgoing) = mpsc::channel(64);
    let name = server.state.mint("stream");
    server.state.open_stream(&name, out);
    events_after(
        format!("event: endpoint\ndata: /messages?{QUERY}{name}\n\n"),
        outgoing,
    )
}

/// Takes a message; its answer goes to the stream.
pub(super) fn take(
    server: &Arc<Server>,
    tasks: &TaskTracker,
    headers: Vec<(String, String)>,
    query: &str,
    text: &str,
) -> Answer {
    let name = query.strip_prefix(QUERY).unwrap_or_default();
    let Some(out) = server.state.stream(name) else {
        return plain(StatusCode::NOT_FOUND, "no such stream");
    };
    let session = Some(name.to_owned());
    let origin = Origin {
        headers: Some(headers),
        session: session.clone(),
        transport: Transport::Old,
    };
    let script = protocol::receive(server, &origin, text);
    match &script.effect {
        Effect::Nothing | Effect::Listen { .. } => {}
        Effect::Open {
            version,
            capabilities,
        } => {
            let (version, capabilities) = (version.clone(), capabilities.clone());
            server.state.open_session(
                name,
                Session {
                    version,
                    capabilities,
                },
            );
        }
        Effect::Ready => server.state.listen_legacy(name, out.clone()),
        Effect::Cancel { id } => server.state.cancel(Some(name), id),
        Effect::Respond { id, response } => server.state.respond(id, response.clone()),
    }
    tasks.spawn(play(Arc::clone(server), session, script, out));
    empty(StatusCode::ACCEPTED)
}
