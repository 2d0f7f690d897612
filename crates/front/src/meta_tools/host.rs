//! `genlock_status` and `genlock_reload`: what the host of the front does.

use genlock_access::{Decision, Permission, Visitor};
use genlock_mcp::{RawJson, RawObject, RpcError, error::escape_text};
use genlock_policy::Gate;

use super::structured;
use crate::{
    front::Front,
    witness::{Refusal, Target},
};

/// Answers `genlock_status`.
///
/// # Errors
/// Where an argument is given.
pub(crate) async fn status(
    front: &Front,
    visitor: &Visitor,
    arguments: &RawObject,
) -> Result<RawObject, RpcError> {
    takes_none(arguments)?;
    if let Some(refused) = missing(front, visitor, Permission::Read, "genlock_status") {
        return Ok(refused);
    }
    Ok(match front.desk() {
        Some(desk) => structured(&RawJson::encode(&desk.status().await), false),
        None => starting(),
    })
}

/// Answers `genlock_reload`.
///
/// # Errors
/// Where an argument is given.
pub(crate) async fn reload(
    front: &Front,
    visitor: &Visitor,
    arguments: &RawObject,
) -> Result<RawObject, RpcError> {
    takes_none(arguments)?;
    if let Some(refused) = missing(front, visitor, Permission::Reload, "genlock_reload") {
        return Ok(refused);
    }
    Ok(match front.desk() {
        Some(desk) => match desk.reload(visitor).await {
            Ok(done) => structured(&RawJson::encode(&done), false),
            Err(refused) => structured(&RawJson::encode(&refused), true),
        },
        None => starting(),
    })
}

/// Returns the refusal of a caller that lacks a permission.
fn missing(
    front: &Front,
    visitor: &Visitor,
    permission: Permission,
    tool: &str,
) -> Option<RawObject> {
    match front.may(visitor, permission) {
        Decision::Allowed => None,
        Decision::Missing(permission) => {
            front.tell_refused(&Refusal {
                gate: Gate::Permission,
                code: "permission_denied",
                visitor: Some(visitor),
                address: None,
                generation: front.in_force().0,
                target: Target::Name(tool),
                missing: Some(permission),
            });
            let message = format!("this needs the permission `{permission}`");
            let error = serde_json::json!({
                "reason": "permission_denied", "message": message, "permission": permission.name(),
            });
            Some(structured(&RawJson::encode(&error), true))
        }
    }
}

fn takes_none(arguments: &RawObject) -> Result<(), RpcError> {
    match arguments.iter().next() {
        None => Ok(()),
        Some((name, _)) => {
            let name = escape_text(&String::from_utf8_lossy(name));
            let text = format!("unknown argument `{name}`: this tool takes none");
            Err(RpcError::invalid_params(text))
        }
    }
}

/// The answer between the first request and the end of the gateway's start.
fn starting() -> RawObject {
    let error = serde_json::json!({"message": "the gateway is starting: try again"});
    structured(&RawJson::encode(&error), true)
}
