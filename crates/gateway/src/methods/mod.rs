//! The control methods: what programs and people ask of a gateway, over the control socket and over `POST /api/rpc`.

mod acts;
mod audit;
mod desk;
mod explain;
mod generations;
mod http;
mod keys;
mod params;
mod reload_mcp;
mod revocations;
mod servers;
mod sessions;
mod turns;

use std::sync::{Arc, OnceLock};

use genlock_access::{Decision, Permission, Principal, Visitor};
use genlock_authority::{Authority, Caller};
use genlock_front::Front;
use genlock_mcp::{RawJson, Request, Response, RpcError, error::code};
use genlock_policy::Actor;
use serde_json::{Value, json};

use self::sessions::Access;
use crate::{
    audit::{Audit, Who},
    keys::KeyStore,
    pinned_doors::PinnedDoors,
    reload::Reloader,
    status::Status,
};

pub(crate) use {audit::answer_audit, keys::answer_keys};

/// What the methods work on.
#[derive(Clone)]
pub(crate) struct Methods {
    pub(crate) status: Status,
    /// None where the host commits no generations and so has no sessions.
    pub(crate) authority: Option<Authority>,
    /// The pinned views of sessions; none where there are no sessions.
    pub(crate) doors: Option<PinnedDoors>,
    /// Where HTTP is served, once it is.
    pub(crate) url: Arc<OnceLock<String>>,
    /// None where the host commits no generations.
    pub(crate) keys: Option<KeyStore>,
}

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The owner of the state directory, over the control socket: may do everything.
    Owner,
    /// Whoever may come in at the HTTP door while there is no authentication: may look, and ask for a reload.
    Local,
    /// Somebody who has said who they are: may do what their roles grant.
    Principal(Arc<Principal>),
}

/// The methods and what each needs. What is not here does not exist.
const METHODS: [(&str, Permission); 34] = [
    ("status", Permission::Read),
    ("explain", Permission::Read),
    ("server.list", Permission::Read),
    ("server.get", Permission::Read),
    ("server.logs", Permission::Read),
    ("server.probe", Permission::Operate),
    ("server.restart", Permission::Operate),
    ("config.reload", Permission::Reload),
    ("generation.list", Permission::Read),
    ("generation.get", Permission::Read),
    ("generation.diff", Permission::Read),
    ("generation.rollback", Permission::Operate),
    ("revoke", Permission::Operate),
    ("revoke.lift", Permission::Operate),
    ("revoke.list", Permission::Read),
    ("session.create", Permission::Operate),
    ("session.resume", Permission::Operate),
    ("session.get", Permission::Read),
    ("session.list", Permission::Read),
    ("session.close", Permission::Operate),
    ("session.rotate_token", Permission::Operate),
    ("turn.submit", Permission::Operate),
    ("prompt.submit", Permission::Operate),
    ("turn.receipt", Permission::Read),
    ("turn.wait", Permission::Read),
    ("turn.cancel", Permission::Operate),
    ("turn.interrupt", Permission::Operate),
    ("turn.resolve_unknown", Permission::Operate),
    ("reload.mcp", Permission::Reload),
    ("key.create", Permission::Keys),
    ("key.list", Permission::Keys),
    ("key.rotate", Permission::Keys),
    ("key.revoke", Permission::Keys),
    ("audit.list", Permission::Audit),
];

/// Returns what a method needs; `None` where there is no such method.
pub(crate) fn permission(method: &str) -> Option<Permission> {
    let known = METHODS.iter().find(|(name, _)| *name == method);
    known.map(|(_, permission)| *permission)
}

// === impl Peer ===

impl Peer {
    /// Returns who asks, as it is stored and logged.
    pub(crate) fn actor(&self) -> Actor {
        match self {
            Self::Owner => Actor::new(format!("uid:{}", rustix::process::geteuid().as_raw())),
            Self::Local => Actor::new("local:http"),
            Self::Principal(principal) => Actor::new(format!("key:{}", principal.subject)),
        }
    }

    /// Returns whom a record of the audit names.
    pub(crate) fn who(&self) -> Who {
        match self {
            Self::Owner | Self::Local => Who::new(self.actor()),
            Self::Principal(principal) => Who::principal(principal),
        }
    }

    fn caller(&self) -> Caller {
        Caller {
            actor: self.actor(),
            operator: true,
        }
    }

    /// Decides whether a peer may do something.
    fn may(&self, front: &Front, permission: Permission) -> Decision {
        match self {
            Self::Owner => Decision::Allowed,
            Self::Local => front.may(&Visitor::Local, permission),
            Self::Principal(principal) => {
                front.may(&Visitor::Known(Arc::clone(principal)), permission)
            }
        }
    }
}

impl From<Visitor> for Peer {
    fn from(visitor: Visitor) -> Self {
        match visitor {
            Visitor::Local => Self::Local,
            Visitor::Known(principal) => Self::Principal(principal),
        }
    }
}

// === impl Methods ===

impl Methods {
    /// Answers a request.
    pub(crate) async fn answer(&self, peer: &Peer, request: Request) -> Response {
        match self.call(peer, &request).await {
            Ok(value) => Response::result(request.id, value),
            Err(error) => Response::error(request.id, &error),
        }
    }

    /// Answers a request, and records it where it is an act or is refused.
    async fn call(&self, peer: &Peer, request: &Request) -> Result<RawJson, RpcError> {
        match permission(&request.method) {
            None | Some(Permission::Read | Permission::Audit) => {
                self.run_and_record(peer, request).await
            }
            Some(_) => {
                let Ok(audit) = self.audit() else {
                    return self.run(peer, request).await;
                };
                let (methods, peer, request) = (self.clone(), peer.clone(), request.clone());
                let act = async move { methods.run_and_record(&peer, &request).await };
                audit.to_its_end(act).await
            }
        }
    }

    async fn run_and_record(&self, peer: &Peer, request: &Request) -> Result<RawJson, RpcError> {
        let outcome = self.run(peer, request).await;
        let Ok(audit) = self.audit() else {
            return outcome;
        };
        acts::record(audit, peer, &request.method, &request.params, outcome).await
    }

    async fn run(&self, peer: &Peer, request: &Request) -> Result<RawJson, RpcError> {
        let (method, params) = (request.method.as_str(), &request.params);
        let permission = permission(method).ok_or_else(|| RpcError::method_not_found(method))?;
        if let Decision::Missing(missing) = peer.may(&self.status.front, permission) {
            return Err(denied(peer, missing));
        }
        if let Peer::Principal(principal) = peer {
            confined(principal, method)?;
        }
        if method == "status" {
            return Ok(RawJson::encode(&self.status.gateway().await));
        }
        if method == "explain" {
            return encoded(explain::answer(self, peer, params).await);
        }
        if method.starts_with("server.") {
            return encoded(servers::answer(&self.status, method, params).await);
        }
        if method.starts_with("key.") {
            let revoked = self.status.pool.revoked();
            let answered = keys::answer(self.keys()?, &revoked, peer, method, params).await;
            if matches!(method, "key.revoke" | "key.rotate") {
                // As where a generation revokes it; a key is not taken any more also where the disk failed.
                self.status.front.see_out();
            }
            return encoded(answered);
        }
        if method == "audit.list" {
            return encoded(audit::answer(self.audit()?, params).await);
        }
        let reloader = self.reloader()?;
        if method.starts_with("generation.") || method == "config.reload" {
            return encoded(generations::answer(reloader, peer, method, params).await);
        }
        if method == "revoke" || method.starts_with("revoke.") {
            let (keys, front) = (self.keys.as_ref(), &self.status.front);
            let answered = revocations::answer(reloader, keys, front, peer, method, params);
            return encoded(answered.await);
        }
        let authority = self.authority()?;
        if method == "reload.mcp" {
            return encoded(reload_mcp::answer(reloader, authority, peer, params).await);
        }
        if method.starts_with("session.") {
            let access = Access {
                key: self.doors.as_ref().map(PinnedDoors::key),
                url: self.url.get().map(String::as_str),
            };
            return encoded(
                sessions::answer(reloader, authority, access, peer, method, params).await,
            );
        }
        turns::answer(authority, peer, method, params).await
    }

    fn reloader(&self) -> Result<&Arc<Reloader>, RpcError> {
        let missing = || refusal("not_found", "this gateway commits no generations");
        self.status.reloader.as_ref().ok_or_else(missing)
    }

    pub(crate) fn audit(&self) -> Result<&Audit, RpcError> {
        self.reloader().map(|reloader| reloader.audit())
    }

    fn keys(&self) -> Result<&KeyStore, RpcError> {
        let missing = || refusal("not_found", "this gateway stores no keys");
        self.keys.as_ref().ok_or_else(missing)
    }

    fn authority(&self) -> Result<&Authority, RpcError> {
        let missing = || refusal("not_found", "this gateway has no sessions");
        self.authority.as_ref().ok_or_else(missing)
    }
}

/// Makes the refusal of what somebody has no permission for.
fn denied(peer: &Peer, missing: Permission) -> RpcError {
    let detail = match peer {
        Peer::Owner | Peer::Principal(_) => format!("this needs the permission `{missing}`"),
        Peer::Local => "only over the control socket while there is no authentication".to_owned(),
    };
    refusal("permission_denied", &detail)
}

/// Refuses what would let a principal out of what it is confined to.
fn confined(principal: &Principal, method: &str) -> Result<(), RpcError> {
    let deny = |detail| Err(refusal("permission_denied", detail));
    let runs = permission(method) == Some(Permission::Operate)
        && ["session.", "turn.", "prompt."]
            .iter()
            .any(|kind| method.starts_with(kind));
    if method == "audit.list" && principal.tenant.is_some() {
        return deny(
            "the audit is that of all tenants, so that a principal of one does not read it",
        );
    }
    if runs && principal.tenant.is_some() {
        return deny("sessions are not confined to a tenant, so that a principal of one has none");
    }
    if method == "session.create" {
        return deny(
            "over HTTP a session needs `session_roots`, which this version does not act upon: use the control socket",
        );
    }
    Ok(())
}

fn encoded(answer: Result<Value, RpcError>) -> Result<RawJson, RpcError> {
    answer.map(|value| RawJson::encode(&value))
}

/// Makes the refusal of a control method: its reason is the message, the detail is in the data.
pub(crate) fn refusal(reason: &str, detail: &str) -> RpcError {
    RpcError::new(code::GATEWAY, reason).with_data(&json!({"reason": reason, "detail": detail}))
}

/// Makes the refusal of what the authority does not do.
fn refused(error: &genlock_authority::Refusal) -> RpcError {
    let reason = error.code();
    let number = match reason {
        "storage_unavailable" => code::STORAGE,
        _ => code::GATEWAY,
    };
    RpcError::new(number, reason).with_data(&json!({"reason": reason, "detail": error.explain()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_needs_what_the_table_says() {
        let needing = |wanted: Permission| -> Vec<&str> {
            let rows = METHODS.iter().filter(|(_, needed)| *needed == wanted);
            rows.map(|(name, _)| *name).collect()
        };

        let read = [
            "status",
            "explain",
            "server.list",
            "server.get",
            "server.logs",
            "generation.list",
            "generation.get",
            "generation.diff",
            "revoke.list",
            "session.get",
            "session.list",
            "turn.receipt",
            "turn.wait",
        ];
        assert_eq!(needing(Permission::Read), read);
        assert_eq!(needing(Permission::Reload), ["config.reload", "reload.mcp"]);
        let keys = ["key.create", "key.list", "key.rotate", "key.revoke"];
        assert_eq!(needing(Permission::Keys), keys);
        assert_eq!(needing(Permission::Audit), ["audit.list"]);
        assert_eq!(needing(Permission::Operate).len(), METHODS.len() - 20);
    }

    #[test]
    fn a_principal_of_a_tenant_has_no_sessions_and_nobody_makes_one_over_http() {
        let of_tenant = Principal {
            tenant: Some("t".to_owned()),
            ..Principal::anonymous()
        };

        for (method, free, tenant) in [
            ("session.create", false, false),
            ("turn.submit", true, false),
            ("prompt.submit", true, false),
            ("session.list", true, true),
            ("server.restart", true, true),
            ("audit.list", true, false),
        ] {
            let found = (
                confined(&Principal::anonymous(), method).is_ok(),
                confined(&of_tenant, method).is_ok(),
            );
            assert_eq!(found, (free, tenant), "{method}");
        }
    }
}
