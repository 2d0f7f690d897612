//! `genlock_status` and `genlock_reload`: what the host of the front does.

use genlock_mcp::{RawJson, RawObject, RpcError, error::escape_text};

use super::structured;
use crate::front::Front;

/// Answers `genlock_status`.
///
/// # Errors
/// Where an argument is given.
pub(crate) async fn status(front: &Front, arguments: &RawObject) -> Result<RawObject, RpcError> {
    takes_none(arguments)?;
    Ok(match front.desk() {
        Some(desk) => structured(&RawJson::encode(&desk.status().await), false),
        None => starting(),
    })
}

/// Answers `genlock_reload`.
///
/// # Errors
/// Where an argument is given.
pub(crate) async fn reload(front: &Front, arguments: &RawObject) -> Result<RawObject, RpcError> {
    takes_none(arguments)?;
    Ok(match front.desk() {
        Some(desk) => match desk.reload().await {
            Ok(done) => structured(&RawJson::encode(&done), false),
            Err(refused) => structured(&RawJson::encode(&refused), true),
        },
        None => starting(),
    })
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
