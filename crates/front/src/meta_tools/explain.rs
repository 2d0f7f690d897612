//! `genlock_explain`.

use genlock_access::Visitor;
use genlock_mcp::{RawJson, RawObject, RpcError, error::escape_text};

use super::structured;
use crate::front::Front;

/// Answers `genlock_explain`.
///
/// # Errors
/// Where `tool` is missing, or another argument is given.
pub(crate) fn explain(
    front: &Front,
    visitor: &Visitor,
    arguments: &RawObject,
) -> Result<RawObject, RpcError> {
    if let Some((name, _)) = arguments.iter().find(|(name, _)| *name != b"tool") {
        let name = escape_text(&String::from_utf8_lossy(name));
        return Err(RpcError::invalid_params(format!(
            "unknown argument `{name}`"
        )));
    }
    let tool = arguments
        .get_string("tool")
        .ok_or_else(|| RpcError::invalid_params("`tool` must be a string"))?;
    let explanation = front.explain_to(visitor, &tool);
    Ok(structured(&RawJson::encode(&explanation), false))
}
