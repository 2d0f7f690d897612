//! `reload.mcp`: brings the file into force, moves the calling session, and says what of it took effect.

use std::sync::Arc;

use genlock_authority::{
    Authority, Moved, ReloadFacts, ReloadOutcome, SessionPart, Transition, reload_outcome,
};
use genlock_mcp::{RawObject, RpcError, error::code};
use genlock_policy::{Cause, TransitionCause};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Peer, generations,
    params::{Wait, read},
    refusal, refused,
    sessions::{check_open, refused_message},
};
use crate::{
    reload::{Begun, Finished, ReloadRequest, Reloader, Removals, ready, unavailable},
    report::ReloadError,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadParams {
    session_id: Option<String>,
    #[serde(default)]
    confirm: bool,
    #[serde(default)]
    dry_run: bool,
    wait_s: Option<Wait>,
    #[serde(default)]
    confirm_mass_removal: bool,
}

/// Answers `reload.mcp`.
pub(super) async fn answer(
    reloader: &Arc<Reloader>,
    authority: &Authority,
    peer: &Peer,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let params: ReloadParams = read(params)?;
    if !params.confirm {
        let message = "a reload changes what sessions run with: ask again with `confirm: true`";
        return Ok(json!({"status": "confirm_required", "message": message}));
    }
    if params.session_id.is_some() && *peer != Peer::Owner {
        let detail = "a session is moved over the control socket only";
        return Err(refusal("permission_denied", detail));
    }
    let caller = peer.caller();
    if let Some(session) = &params.session_id {
        check_open(authority, &caller, session).await?;
    }
    let request = params.request(peer);
    let begun = match reloader.begin(&request).await {
        Ok(begun) => begun,
        Err(error) => return not_begun(reloader, &error, params.session_id.is_some()),
    };
    if params.dry_run {
        let report = reloader
            .finish(begun, request.wait, Removals::NotAwaited)
            .await
            .report;
        return Ok(json!({"status": "dry_run", "report": report}));
    }
    let session = match &params.session_id {
        None => None,
        Some(session) => {
            let (head, cause) = ((*reloader.head()).clone(), TransitionCause::ReloadMcp);
            let moved = authority.move_to(&caller, session, head, cause).await;
            Some(moved.map_err(|error| refused(&error))?)
        }
    };
    finish(reloader, begun, &request, session).await
}

/// Waits for what the reload started, and says what came of it.
async fn finish(
    reloader: &Reloader,
    begun: Begun,
    request: &ReloadRequest,
    moved: Option<Moved>,
) -> Result<Value, RpcError> {
    let finished = reloader
        .finish(begun, request.wait, Removals::Awaited)
        .await;
    let Finished {
        report,
        added,
        reconnected,
        removed,
        pending,
    } = finished;
    let details = &report.servers.unavailable;
    let facts = ReloadFacts {
        added,
        reconnected,
        removed,
        pending,
        not_connected: details.iter().map(|server| server.name.clone()).collect(),
        ready: ready(reloader),
        session: moved.as_ref().map(part),
    };
    let outcome = reload_outcome(&facts);
    let mut told = told(&outcome);
    let mut set = |name: &str, value: Value| {
        if let Some(told) = told.as_object_mut() {
            told.insert(name.to_owned(), value);
        }
    };
    set("generation", json!(report.generation));
    if let Some(moved) = &moved {
        set("policy_seq", json!(moved.policy_seq));
        if let Transition::Busy { blocked_by } = &moved.transition {
            let blocked_by = blocked_by
                .iter()
                .map(|turn| json!({"turn_id": turn.id.as_str(), "status": turn.status.as_str()}));
            set("blocked_by", blocked_by.collect());
        }
    }
    if !details.is_empty() {
        set("unavailable_details", json!(details));
    }
    if !report.restart_required.is_empty() {
        set("restart_required", json!(report.restart_required));
    }
    if outcome.refused {
        return Err(unavailable_refusal(told, &outcome.message));
    }
    set("status", json!("reloaded"));
    Ok(told)
}

fn told(outcome: &ReloadOutcome) -> Value {
    serde_json::to_value(outcome).unwrap_or_default()
}

/// The refusal of a reload that has committed the head all the same: what is enabled is not connected, and nothing was applied.
fn unavailable_refusal(mut told: Value, detail: &str) -> RpcError {
    let reason = "mcp_servers_unavailable";
    if let Some(told) = told.as_object_mut() {
        told.insert("reason".to_owned(), json!(reason));
        told.insert("detail".to_owned(), json!(detail));
    }
    RpcError::new(code::GATEWAY, reason).with_data(&told)
}

fn part(moved: &Moved) -> SessionPart {
    SessionPart {
        outcome: moved.transition.as_str(),
        message: moved.transition.message(),
        selected: moved.session.selection.servers.clone(),
    }
}

/// What a reload answers that put nothing in force: where a session called, that it was refused.
fn not_begun(
    reloader: &Reloader,
    error: &ReloadError,
    has_session: bool,
) -> Result<Value, RpcError> {
    if !matches!(error, ReloadError::Invalid(_)) {
        return Err(generations::refused(error));
    }
    let findings: Vec<String> = error.findings().iter().map(ToString::to_string).collect();
    let message = refused_message(error);
    if !has_session {
        let data = json!({"reason": "config_invalid", "detail": message, "findings": findings});
        return Err(RpcError::new(code::GATEWAY, "config_invalid").with_data(&data));
    }
    let names: Vec<String> = unavailable(reloader)
        .into_iter()
        .map(|server| server.name)
        .collect();
    let mut told = json!({
        "status": "refused", "session": "refused", "message": message, "findings": findings,
        "generation": reloader.head().number,
    });
    if let (Some(told), false) = (told.as_object_mut(), names.is_empty()) {
        told.insert("unavailable".to_owned(), json!(names));
    }
    Ok(told)
}

impl ReloadParams {
    fn request(&self, peer: &Peer) -> ReloadRequest {
        let mut request = ReloadRequest::of(Cause::ReloadMcp, peer.who());
        request.dry_run = self.dry_run;
        request.confirm_mass_removal = self.confirm_mass_removal;
        if let Some(Wait(wait)) = self.wait_s {
            request.wait = wait;
        }
        request
    }
}
