//! The control methods of revocations: `revoke`, `revoke.lift` and `revoke.list`.

use genlock_access::{Decision, Permission};
use genlock_front::Front;
use genlock_mcp::{RawObject, RpcError, error::code};
use genlock_policy::{GenerationNumber, Revocation, RevocationKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Peer, denied, params::read, refusal};
use crate::{
    audit::{Act, told},
    keys::KeyStore,
    reload::Reloader,
    revocations::{Done, RevokeError, Wanted},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeParams {
    kind: RevocationKind,
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LiftParams {
    number: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {}

/// Answers a method of revocations. What concerns a key needs the permission for keys as well.
pub(super) async fn answer(
    reloader: &Reloader,
    keys: Option<&KeyStore>,
    front: &Front,
    peer: &Peer,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    let (action, done) = match method {
        "revoke" => {
            let RevokeParams { kind, name, reason } = read(params)?;
            check(peer, front, kind)?;
            let wanted = Wanted { kind, name, reason };
            ("revoke", reloader.revoke(wanted, keys, &peer.actor()).await)
        }
        "revoke.lift" => {
            let LiftParams { number } = read(params)?;
            let invalid = || refusal("invalid_params", "the number of a revocation is 1 or more");
            let number = GenerationNumber::new(number).ok_or_else(invalid)?;
            let may = |kind| check(peer, front, kind).is_ok();
            let lifted = reloader.lift(number, &peer.actor(), may).await;
            ("revoke.lift", lifted)
        }
        "revoke.list" => {
            let ListParams {} = read(params)?;
            let head = reloader.head();
            return Ok(json!({"generation": head.number, "revoked": head.overlay.revoked}));
        }
        method => return Err(RpcError::method_not_found(method)),
    };
    let done = done.map_err(|error| refused(&error))?;
    let mut shown = done.shown();
    // What was so already was nobody's act.
    if done.changed {
        let kept = reloader.audit().done(act(peer, action, &done)).await;
        if let Some(word) = kept.word() {
            shown["audit"] = json!(word);
        }
    }
    Ok(shown)
}

fn act(peer: &Peer, action: &'static str, done: &Done) -> Act {
    let Revocation {
        kind,
        name,
        reason,
        number,
    } = &done.revocation;
    Act::new(peer.who(), action)
        .on(told(&format!("{} {name}", kind.as_str())))
        .under(Some(done.generation))
        .detail(told(&format!("revocation {number}: {reason}")))
}

fn check(peer: &Peer, front: &Front, kind: RevocationKind) -> Result<(), RpcError> {
    let decision = match kind {
        RevocationKind::Key => peer.may(front, Permission::Keys),
        RevocationKind::Server | RevocationKind::Tool | RevocationKind::Session => {
            Decision::Allowed
        }
    };
    match decision {
        Decision::Allowed => Ok(()),
        Decision::Missing(missing) => Err(denied(peer, missing)),
    }
}

fn refused(error: &RevokeError) -> RpcError {
    let reason = error.code();
    let number = match reason {
        "storage_unavailable" => code::STORAGE,
        _ => code::GATEWAY,
    };
    let data = json!({"reason": reason, "detail": error.to_string()});
    RpcError::new(number, reason).with_data(&data)
}
