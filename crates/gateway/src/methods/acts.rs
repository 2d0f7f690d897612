//! What of the control methods is recorded, and how: an act by what it answers, a refusal by its code.
//!
//! Reloads, rollbacks and keys are recorded where they are done, since other doors lead there as well.

use genlock_mcp::{RawJson, RawObject, RpcError};
use genlock_policy::{Gate, GenerationNumber};
use serde_json::json;

use super::{Peer, permission};
use crate::audit::{Act, Audit, Kept, told};

/// Where the thing is named that an act is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// In this parameter.
    Param(&'static str),
    /// In this member of the answer.
    Answer(&'static str),
}

use About::{Answer, Param};

/// The methods that are acts.
const ACTS: [(&str, About); 9] = [
    ("server.probe", Param("name")),
    ("server.restart", Param("name")),
    ("session.create", Answer("session_id")),
    ("session.resume", Param("session_id")),
    ("session.close", Param("session_id")),
    ("session.rotate_token", Param("session_id")),
    ("turn.cancel", Param("turn_id")),
    ("turn.interrupt", Param("turn_id")),
    ("turn.resolve_unknown", Param("turn_id")),
];

/// Records what a method has answered, and says in the answer where the record is not on the disk.
pub(super) async fn record(
    audit: &Audit,
    peer: &Peer,
    method: &str,
    params: &RawObject,
    outcome: Result<RawJson, RpcError>,
) -> Result<RawJson, RpcError> {
    match outcome {
        Ok(answer) => Ok(done(audit, peer, method, params, answer).await),
        Err(error) => {
            refused(audit, peer, method, params, &error);
            Err(error)
        }
    }
}

async fn done(
    audit: &Audit,
    peer: &Peer,
    method: &str,
    params: &RawObject,
    answer: RawJson,
) -> RawJson {
    let own = ACTS.iter().find(|(name, _)| *name == method);
    if own.is_none() && method != "reload.mcp" {
        return answer;
    }
    let mut shown = RawObject::parse(&answer).unwrap_or_default();
    let own = own.map(|(action, about)| {
        let target = match about {
            Param(name) => params.get_string(name),
            Answer(name) => shown.get_string(name),
        };
        let act = Act::new(peer.who(), action).detail(detail(method, params, &shown));
        (act, target)
    });
    let applied = shown.get_string("session").as_deref() == Some("applied");
    let transition = applied.then(|| {
        let detail = format!("by {method}, policy {}", number(&shown, "policy_seq"));
        let act = Act::new(peer.who(), "session.transition").detail(detail);
        (act, params.get_string("session_id"))
    });
    let mut kept = Kept::OnDisk;
    for (mut act, target) in own.into_iter().chain(transition) {
        act.target = target.as_deref().map(told);
        kept = kept.and(audit.done(act.under(generation(&shown))).await);
    }
    if let Some(word) = kept.word() {
        shown.set("audit", RawJson::encode(&json!(word)));
        return shown.to_raw();
    }
    answer
}

fn refused(audit: &Audit, peer: &Peer, method: &str, params: &RawObject, error: &RpcError) {
    let Some(permission) = permission(method) else {
        return;
    };
    let code = error.message.as_str();
    if code == "permission_denied" {
        let act = Act::new(peer.who(), "permission.refused")
            .on(method)
            .detail(format!("needs {permission}"));
        audit.refused(act, Some(Gate::Permission), code);
        return;
    }
    if let Some((action, about)) = ACTS.iter().find(|(name, _)| *name == method) {
        let mut act = Act::new(peer.who(), action);
        if let Param(name) = about {
            act.target = params.get_string(name).as_deref().map(told);
        }
        audit.refused(act, None, code);
    }
}

fn generation(answer: &RawObject) -> Option<GenerationNumber> {
    GenerationNumber::new(number(answer, "generation"))
}

fn number(answer: &RawObject, name: &str) -> u64 {
    let number = answer.get(name).and_then(|number| number.decode().ok());
    number.unwrap_or_default()
}

/// Says more of an act, of what is the gateway's own in the answer.
fn detail(method: &str, params: &RawObject, answer: &RawObject) -> String {
    let text = |name: &str| answer.get_string(name).unwrap_or_default();
    match method {
        "server.probe" | "server.restart" => match params.get_string("tenant") {
            Some(tenant) => format!("of tenant {}: {}", told(&tenant), text("state")),
            None => text("state"),
        },
        "session.create" => format!("policy {}", number(answer, "policy_seq")),
        "session.resume" => {
            let policy = number(answer, "policy_seq");
            format!("{}, policy {policy}", text("session"))
        }
        "turn.cancel" | "turn.interrupt" | "turn.resolve_unknown" => {
            let outcome = answer.get("outcome").and_then(RawJson::as_string);
            let outcome = outcome.unwrap_or_else(|| text("status"));
            format!("of session {}: {outcome}", text("session_id"))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::METHODS;
    use super::*;
    use genlock_access::Permission;

    #[test]
    fn every_method_that_does_something_is_recorded() {
        // Those that are recorded where they are done, and turns, which have records of their own.
        let elsewhere = [
            "config.reload",
            "reload.mcp",
            "generation.rollback",
            "revoke",
            "revoke.lift",
            "key.create",
            "key.rotate",
            "key.revoke",
            "turn.submit",
            "prompt.submit",
        ];
        let reads = |name: &str, needed: Permission| {
            matches!(needed, Permission::Read | Permission::Audit) || name == "key.list"
        };

        let does = METHODS
            .iter()
            .filter(|(name, needed)| !reads(name, *needed));
        let missing: Vec<&str> = does
            .map(|(name, _)| *name)
            .filter(|name| !elsewhere.contains(name) && !ACTS.iter().any(|(act, _)| act == name))
            .collect();
        assert_eq!(missing, [""; 0]);
    }
}
