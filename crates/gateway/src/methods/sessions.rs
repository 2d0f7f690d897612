//! The control methods of sessions.

use std::{sync::Arc, time::Duration};

use genlock_authority::{
    Authority, Caller, Moved, NewSessionRequest, Refusal, SessionView, TokenKey,
};
use genlock_frames::SessionId;
use genlock_mcp::{RawObject, RpcError};
use genlock_policy::{Cause, TransitionCause};
use genlock_store::{OpenTurn, SessionRecord, TurnStatus};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Peer, params::read, refusal, refused};
use crate::{
    reload::{ReloadRequest, Reloader, timestamp, unavailable},
    report::{ReloadError, message},
};

/// How many sessions one list holds at most.
const LIST: u32 = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateParams {
    request_id: String,
    source: String,
    cwd: String,
    toolsets: Option<Vec<String>>,
    title: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionParams {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    before: Option<String>,
    limit: Option<u32>,
}

/// Answers a method of sessions.
pub(super) async fn answer(
    reloader: &Arc<Reloader>,
    authority: &Authority,
    access: Access<'_>,
    peer: &Peer,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let caller = peer.caller();
    match method {
        "session.create" => {
            let request = read::<CreateParams>(params)?.request();
            let created = authority.create(&caller, request, &reloader.head()).await;
            created
                .map(|session| access.created(&session))
                .map_err(|error| refused(&error))
        }
        "session.rotate_token" => {
            let params: SessionParams = read(params)?;
            let rotated = authority.rotate_token(&caller, &params.session_id).await;
            let rotated = rotated.map_err(|error| refused(&error))?;
            let mut answer = json!({"session_id": rotated.id});
            access.add_to(&mut answer, &rotated);
            Ok(answer)
        }
        "session.resume" => resume(reloader, authority, peer, params).await,
        "session.get" => {
            let params: SessionParams = read(params)?;
            let view = authority.view(&caller, &params.session_id).await;
            view.map(|view| shown(&view))
                .map_err(|error| refused(&error))
        }
        "session.list" => list(authority, peer, params).await,
        "session.close" => {
            let params: SessionParams = read(params)?;
            let closed = authority.close(&caller, &params.session_id).await;
            closed
                .map(|session| summary(&session))
                .map_err(|error| refused(&error))
        }
        method => Err(RpcError::method_not_found(method)),
    }
}

async fn list(authority: &Authority, peer: &Peer, params: &RawObject) -> Result<Value, RpcError> {
    let params: ListParams = read(params)?;
    let before = params.before.map(SessionId::new).transpose();
    let before = before.map_err(|error| refusal("invalid_params", &error.to_string()))?;
    let limit = params.limit.unwrap_or(LIST).min(LIST);
    let sessions = authority.list(&peer.caller(), before.as_ref(), limit).await;
    let sessions = sessions.map_err(|error| refused(&error))?;
    let sessions: Vec<Value> = sessions.iter().map(summary).collect();
    Ok(json!({ "sessions": sessions }))
}

/// Attaches to a session: brings the file into force, and moves the session to the head. A file that is not valid refuses the
/// move and not the attach.
async fn resume(
    reloader: &Arc<Reloader>,
    authority: &Authority,
    peer: &Peer,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let params: SessionParams = read(params)?;
    let (caller, id) = (peer.caller(), params.session_id);
    check_open(authority, &caller, &id).await?;
    let mut request = ReloadRequest::of(Cause::Resume, peer.who());
    // An attach waits for no server.
    request.wait = Duration::ZERO;
    if let Err(error) = reloader.begin(&request).await {
        let view = authority
            .view(&caller, &id)
            .await
            .map_err(|error| refused(&error))?;
        return Ok(resumed(
            reloader,
            &view,
            "refused",
            Some(refused_message(&error)),
        ));
    }
    let head = reloader.head();
    let moved = authority
        .move_to(&caller, &id, (*head).clone(), TransitionCause::Resume)
        .await;
    let Moved { transition, .. } = moved.map_err(|error| refused(&error))?;
    let view = authority
        .view(&caller, &id)
        .await
        .map_err(|error| refused(&error))?;
    Ok(resumed(
        reloader,
        &view,
        transition.as_str(),
        transition.message(),
    ))
}

/// Refuses a session that is not there, is closed or is revoked, before anything moves a head for it.
pub(super) async fn check_open(
    authority: &Authority,
    caller: &Caller,
    session: &str,
) -> Result<(), RpcError> {
    let view = authority.view(caller, session).await;
    let SessionView {
        session, revoked, ..
    } = view.map_err(|error| refused(&error))?;
    match (session.closed_ms, revoked) {
        (None, None) => Ok(()),
        (Some(_), _) => Err(refused(&Refusal::Closed(session.id))),
        (None, Some(revocation)) => Err(refused(&Refusal::Revoked(revocation))),
    }
}

/// Says why a session was not moved: what is wrong with the file, or what else refused it.
pub(super) fn refused_message(error: &ReloadError) -> String {
    let findings: Vec<String> = error.findings().iter().map(ToString::to_string).collect();
    match findings.is_empty() {
        true => message(error),
        false => format!("{}: {}", message(error), findings.join("; ")),
    }
}

fn resumed(reloader: &Reloader, view: &SessionView, outcome: &str, why: Option<String>) -> Value {
    let session = &view.session;
    let missing: Vec<String> = unavailable(reloader)
        .into_iter()
        .map(|server| server.name)
        .filter(|name| session.selection.servers.contains(name))
        .collect();
    let running = view
        .open
        .iter()
        .find(|turn| turn.status == TurnStatus::Running);
    let pending = view
        .open
        .iter()
        .filter(|turn| turn.status != TurnStatus::Running);
    let pending: Vec<&str> = pending.map(|turn| turn.id.as_str()).collect();
    let message = why.unwrap_or_else(|| match outcome {
        "applied" => format!("the session runs policy {} now", session.policy_seq),
        _ => "the session runs what is in force".to_owned(),
    });
    let mut resumed = json!({
        "session_id": session.id,
        "session": outcome,
        "generation": session.generation,
        "policy_seq": session.policy_seq,
        "running": running.map(|turn| turn.id.as_str()),
        "pending": pending,
        "message": message,
    });
    if let (false, Some(object)) = (missing.is_empty(), resumed.as_object_mut()) {
        object.insert("unavailable".to_owned(), json!(missing));
    }
    resumed
}

/// What opens the pinned view of a session to any client.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// What derives tokens; none where no view is served.
    pub(super) key: Option<&'a TokenKey>,
    /// Where HTTP is served, where it is.
    pub(super) url: Option<&'a str>,
}

impl Access<'_> {
    fn created(self, session: &SessionRecord) -> Value {
        let mut created = json!({
            "session_id": session.id,
            "generation": session.generation,
            "policy_seq": session.policy_seq,
            "toolsets": session.selection.toolsets,
            "servers": session.selection.servers,
        });
        self.add_to(&mut created, session);
        created
    }

    /// Adds the URL and the token of the pinned view. Without HTTP there is none.
    fn add_to(self, answer: &mut Value, session: &SessionRecord) {
        if let (Some(key), Some(url), Some(answer)) = (self.key, self.url, answer.as_object_mut()) {
            let token = key.token(session);
            answer.insert(
                "mcp_url".to_owned(),
                json!(format!("{url}/mcp/{}", session.id)),
            );
            answer.insert("token".to_owned(), json!(token.expose_secret()));
        }
    }
}

/// Returns a session without its config.
fn summary(session: &SessionRecord) -> Value {
    json!({
        "session_id": session.id,
        "owner": session.owner,
        "source": session.source,
        "cwd": session.cwd,
        "title": session.title,
        "created_at": timestamp(session.created_ms),
        "closed_at": session.closed_ms.map(timestamp),
        "policy_seq": session.policy_seq,
        "generation": session.generation,
        "servers": session.selection.servers,
        "toolsets": session.selection.toolsets,
    })
}

/// Returns a session with the policy that it runs.
pub(crate) fn shown(view: &SessionView) -> Value {
    let session = &view.session;
    let mut shown = summary(session);
    if let Some(object) = shown.as_object_mut() {
        let names: Option<Vec<&str>> = session.pick.as_ref().map(|pick| pick.names().collect());
        object.insert("pick".to_owned(), json!(names));
        let policy = json!({
            "config": view.generation.snapshot.redacted().as_json(),
            "selection": session.selection,
        });
        object.insert("policy".to_owned(), policy);
        let turns: Vec<Value> = view.open.iter().map(open_turn).collect();
        object.insert("turns".to_owned(), json!(turns));
        object.insert("worker".to_owned(), json!(view.servers));
        object.insert("revoked".to_owned(), json!(view.revoked));
    }
    shown
}

fn open_turn(turn: &OpenTurn) -> Value {
    json!({"turn_id": turn.id.as_str(), "status": turn.status.as_str()})
}

impl CreateParams {
    fn request(self) -> NewSessionRequest {
        NewSessionRequest {
            request_id: self.request_id,
            source: self.source,
            cwd: self.cwd.into(),
            toolsets: self.toolsets,
            title: self.title,
        }
    }
}
