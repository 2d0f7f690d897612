//! The control methods: what programs and people ask of a gateway, over the control socket and over `POST /api/rpc`.

mod desk;
mod generations;
mod http;
mod params;
mod reload_mcp;
mod servers;
mod sessions;
mod turns;

use std::sync::{Arc, OnceLock};

use genlock_authority::{Authority, Caller};
use genlock_mcp::{RawJson, Request, Response, RpcError, error::code};
use genlock_policy::Actor;
use serde_json::{Value, json};

use self::sessions::Access;
use crate::{pinned_doors::PinnedDoors, reload::Reloader, status::Status};

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
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The owner of the state directory, over the control socket: may do everything.
    Owner,
    /// Whoever may come in at the HTTP door while there is no authentication: may look, and ask for a reload.
    Local,
}

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// To look at what is shown redacted.
    Read,
    /// To bring the file into force.
    Reload,
    /// To work on sessions, servers and generations.
    Operate,
}

/// The methods and what each needs. What is not here does not exist.
const METHODS: [(&str, Permission); 25] = [
    ("status", Permission::Read),
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
];

// === impl Peer ===

impl Peer {
    /// Returns who asks, as it is stored and logged.
    pub(crate) fn actor(self) -> Actor {
        match self {
            Self::Owner => Actor::new(format!("uid:{}", rustix::process::geteuid().as_raw())),
            Self::Local => Actor::new("local:http"),
        }
    }

    fn caller(self) -> Caller {
        Caller {
            actor: self.actor(),
            operator: true,
        }
    }

    fn may(self, permission: Permission) -> bool {
        match (self, permission) {
            (Self::Owner, _) | (Self::Local, Permission::Read | Permission::Reload) => true,
            (Self::Local, Permission::Operate) => false,
        }
    }
}

// === impl Methods ===

impl Methods {
    /// Answers a request.
    pub(crate) async fn answer(&self, peer: Peer, request: Request) -> Response {
        match self.call(peer, &request).await {
            Ok(value) => Response::result(request.id, RawJson::encode(&value)),
            Err(error) => Response::error(request.id, &error),
        }
    }

    async fn call(&self, peer: Peer, request: &Request) -> Result<Value, RpcError> {
        let (method, params) = (request.method.as_str(), &request.params);
        let known = METHODS.iter().find(|(name, _)| *name == method);
        let (_, permission) = known.ok_or_else(|| RpcError::method_not_found(method))?;
        if !peer.may(*permission) {
            let detail = "only over the control socket while there is no authentication";
            return Err(refusal("permission_denied", detail));
        }
        if method == "status" {
            return Ok(self.status.gateway().await);
        }
        if method.starts_with("server.") {
            return servers::answer(&self.status, method, params).await;
        }
        let reloader = self.reloader()?;
        if method.starts_with("generation.") || method == "config.reload" {
            return generations::answer(reloader, peer, method, params).await;
        }
        let authority = self.authority()?;
        if method == "reload.mcp" {
            return reload_mcp::answer(reloader, authority, peer, params).await;
        }
        if method.starts_with("session.") {
            let access = Access {
                key: self.doors.as_ref().map(PinnedDoors::key),
                url: self.url.get().map(String::as_str),
            };
            return sessions::answer(reloader, authority, access, peer, method, params).await;
        }
        turns::answer(authority, peer, method, params).await
    }

    fn reloader(&self) -> Result<&Arc<Reloader>, RpcError> {
        let missing = || refusal("not_found", "this gateway commits no generations");
        self.status.reloader.as_ref().ok_or_else(missing)
    }

    fn authority(&self) -> Result<&Authority, RpcError> {
        let missing = || refusal("not_found", "this gateway has no sessions");
        self.authority.as_ref().ok_or_else(missing)
    }
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
    fn a_local_caller_looks_and_reloads_and_does_nothing_else() {
        let allowed: Vec<&str> = METHODS
            .iter()
            .filter(|(_, permission)| Peer::Local.may(*permission))
            .map(|(name, _)| *name)
            .collect();

        let expected = [
            "status",
            "server.list",
            "server.get",
            "server.logs",
            "config.reload",
            "generation.list",
            "generation.get",
            "generation.diff",
            "session.get",
            "session.list",
            "turn.receipt",
            "turn.wait",
            "reload.mcp",
        ];
        assert_eq!(allowed, expected);
        assert!(
            METHODS
                .iter()
                .all(|(_, permission)| Peer::Owner.may(*permission))
        );
    }
}
