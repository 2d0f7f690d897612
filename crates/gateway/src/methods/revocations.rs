//! The control methods of revocations: `revoke`, `revoke.lift` and `revoke.list`.

use genlock_access::{Decision, Permission};
use genlock_front::Front;
use genlock_mcp::{RawObject, RpcError, error::code};
use genlock_policy::{GenerationNumber, RevocationKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Peer, denied, params::read, refusal};
use crate::{
    keys::KeyStore,
    reload::Reloader,
    revocations::{RevokeError, Wanted},
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
    let done = match method {
        "revoke" => {
            let RevokeParams { kind, name, reason } = read(params)?;
            check(peer, front, Some(kind))?;
            let wanted = Wanted { kind, name, reason };
            reloader.revoke(wanted, keys, &peer.actor()).await
        }
        "revoke.lift" => {
            let LiftParams { number } = read(params)?;
            let invalid = || refusal("invalid_params", "the number of a revocation is 1 or more");
            let number = GenerationNumber::new(number).ok_or_else(invalid)?;
            let head = reloader.head();
            let kind = head.overlay.of(number).map(|revocation| revocation.kind);
            check(peer, front, kind)?;
            reloader.lift(number, &peer.actor()).await
        }
        "revoke.list" => {
            let ListParams {} = read(params)?;
            let head = reloader.head();
            return Ok(json!({"generation": head.number, "revoked": head.overlay.revoked}));
        }
        method => return Err(RpcError::method_not_found(method)),
    };
    done.map(|done| done.shown())
        .map_err(|error| refused(&error))
}

fn check(peer: &Peer, front: &Front, kind: Option<RevocationKind>) -> Result<(), RpcError> {
    let decision = match kind {
        Some(RevocationKind::Key) => peer.may(front, Permission::Keys),
        Some(RevocationKind::Server | RevocationKind::Tool | RevocationKind::Session) | None => {
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
