//! The control methods of API keys: `key.create`, `key.list`, `key.rotate` and `key.revoke`.

use std::time::Duration;

use genlock_mcp::{RawObject, RpcError, error::code};
use genlock_policy::{Overlay, RevocationKind};
use genlock_store::{Fault, WriteFault};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Peer, params::read, refusal};
use crate::keys::{KeyRequest, KeyStore, Rotated};

/// How long a key that is replaced is taken unless it is asked for otherwise, in seconds.
const GRACE_S: u64 = 86_400;
/// The longest name of a principal, a tenant or a group, in bytes.
const LONGEST: usize = 256;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateParams {
    principal: String,
    tenant: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    expires_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeParams {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RotateParams {
    id: String,
    grace_s: Option<u64>,
}

/// Answers a method of keys for the owner of the state directory.
pub(crate) async fn answer_keys(
    keys: &KeyStore,
    revoked: &Overlay,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    answer(keys, revoked, &Peer::Owner, method, params).await
}

/// Answers a method of keys. `revoked` is what the generation in force revokes.
pub(super) async fn answer(
    keys: &KeyStore,
    revoked: &Overlay,
    peer: &Peer,
    method: &str,
    params: &RawObject,
) -> Result<Value, RpcError> {
    match method {
        "key.create" => {
            let request = read::<CreateParams>(params)?.request()?;
            let made = keys.create(request, peer.who()).await;
            made.map_err(|error| not_written(&error))
        }
        "key.list" => {
            let ListParams {} = read(params)?;
            let mut listed = keys.list().await.map_err(|fault| failed(&fault))?;
            let all = listed["keys"].as_array_mut();
            for key in all.into_iter().flatten() {
                let id = key["id"].as_str().unwrap_or_default();
                let revocation = revoked.denies(RevocationKind::Key, id);
                key["revocation"] = json!(revocation.map(|revocation| revocation.number));
            }
            Ok(listed)
        }
        "key.rotate" => {
            let RotateParams { id, grace_s } = read(params)?;
            if revoked.denies(RevocationKind::Key, &id).is_some() {
                return Err(refusal(
                    "conflict",
                    "it is revoked: lift that, or make another with `genlock keys create`",
                ));
            }
            let grace = Duration::from_secs(grace_s.unwrap_or(GRACE_S));
            let rotated = keys.rotate(&id, grace, peer.who()).await;
            match rotated.map_err(|error| not_written(&error))? {
                Rotated::Done(answer) => Ok(answer),
                Rotated::Over(why) => Err(refusal("conflict", why)),
                Rotated::Unknown => Err(refusal("not_found", "there is no key with this id")),
            }
        }
        "key.revoke" => {
            let RevokeParams { id } = read(params)?;
            let revoked = keys.revoke(&id, peer.who()).await;
            let revoked = revoked.map_err(|error| not_written(&error))?;
            revoked.ok_or_else(|| refusal("not_found", "there is no key with this id"))
        }
        method => Err(RpcError::method_not_found(method)),
    }
}

impl CreateParams {
    fn request(self) -> Result<KeyRequest, RpcError> {
        let invalid = |what: &str| refusal("invalid_params", what);
        if !is_name(&self.principal) || self.principal == "anonymous" {
            let what = "`principal` is a name without spaces, such as `svc:a`; `anonymous` and `group:…` are taken";
            return Err(invalid(what));
        }
        if !self.tenant.as_deref().is_none_or(is_name) {
            return Err(invalid(
                "`tenant` is a name without spaces, such as `tenant:a`",
            ));
        }
        if !self.groups.iter().all(|group| is_name(group)) {
            return Err(invalid(
                "a group is a name without spaces and without `group:`",
            ));
        }
        if self.expires_s == Some(0) {
            return Err(invalid(
                "`expires_s` is a number of seconds from now on, 1 or more",
            ));
        }
        Ok(KeyRequest {
            principal: self.principal,
            tenant: self.tenant,
            groups: self.groups.into_iter().collect(),
            lasts: self.expires_s.map(Duration::from_secs),
        })
    }
}

fn is_name(text: &str) -> bool {
    let clear = |c: char| !c.is_whitespace() && !c.is_control();
    (1..=LONGEST).contains(&text.len()) && text.chars().all(clear) && !text.starts_with("group:")
}

fn not_written(error: &WriteFault) -> RpcError {
    match error {
        WriteFault::Fault(fault) => failed(fault),
        WriteFault::StaleEpoch { .. } | WriteFault::InDoubt { .. } => {
            unavailable(&error.to_string())
        }
    }
}

fn failed(fault: &Fault) -> RpcError {
    unavailable(&fault.to_string())
}

fn unavailable(detail: &str) -> RpcError {
    let reason = "storage_unavailable";
    RpcError::new(code::STORAGE, reason).with_data(&json!({"reason": reason, "detail": detail}))
}
