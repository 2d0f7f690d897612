//! The metadata of a request: `params._meta`.

use crate::{
    error::{RpcError, code},
    object::RawObject,
    raw::RawJson,
    version::{Era, ProtocolVersion},
};

/// Key of the revision a request is made under.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of the client's capabilities for one request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of the client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of the level from which a request wants log messages.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key of the server's name and version, on results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the listen request that a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key of the token under which a request wants progress.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// Prefix of the keys that the protocol reserves for one hop.
const RESERVED: &[u8] = b"io.modelcontextprotocol/";

/// What a request of the modern era says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModernMeta {
    /// The revision, one that is served.
    pub version: ProtocolVersion,
    /// The client's capabilities, an object.
    pub capabilities: RawJson,
}

/// Says which era a request belongs to, by its own metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It names a revision of the modern era.
    Modern(ModernMeta),
    /// It names none.
    Legacy,
}

/// Returns the revision that a request names, whether or not it is served.
pub fn named_version(params: &RawObject) -> Option<String> {
    RawObject::peek(params.get("_meta")?, PROTOCOL_VERSION)?.as_string()
}

/// Reads the era that a request claims.
///
/// # Errors
/// -32022 where the revision is not served, -32602 where a required key is missing or of the wrong type.
pub fn claim(params: &RawObject) -> Result<Claim, RpcError> {
    let Some(meta) = params.get("_meta") else {
        return Ok(Claim::Legacy);
    };
    let meta = RawObject::parse(meta)
        .map_err(|error| RpcError::invalid_params(format!("`_meta`: {error}")))?;
    let Some(version) = meta.get(PROTOCOL_VERSION) else {
        return Ok(Claim::Legacy);
    };
    let version = version.as_string().ok_or_else(|| {
        RpcError::invalid_params(format!("`_meta[\"{PROTOCOL_VERSION}\"]` must be a string"))
    })?;
    let known = ProtocolVersion::from_date(&version).filter(|version| version.era() == Era::Modern);
    let Some(version) = known else {
        return Err(unsupported_version(&version));
    };
    match meta.get(CLIENT_CAPABILITIES) {
        Some(capabilities) if capabilities.is_object() => Ok(Claim::Modern(ModernMeta {
            version,
            capabilities: capabilities.clone(),
        })),
        Some(_) => Err(RpcError::invalid_params(format!(
            "`_meta[\"{CLIENT_CAPABILITIES}\"]` must be an object"
        ))),
        None => Err(missing_key(CLIENT_CAPABILITIES)),
    }
}

/// Makes the error of a modern request that lacks a required key.
pub fn missing_key(key: &str) -> RpcError {
    RpcError::invalid_params(format!("`_meta[\"{key}\"]` is required"))
}

/// Makes the error of a revision that is not served.
pub fn unsupported_version(requested: &str) -> RpcError {
    let supported: Vec<_> = ProtocolVersion::SERVED
        .iter()
        .map(|version| version.as_str())
        .collect();
    RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
        .with_data(&serde_json::json!({"supported": supported, "requested": requested}))
}

/// Returns the token under which a request wants progress.
pub fn progress_token(params: &RawObject) -> Option<RawJson> {
    params.get_object("_meta")?.get(PROGRESS_TOKEN).cloned()
}

/// What the gateway says of a request to an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hop {
    /// Replaces the caller's progress token; `None` takes it out.
    pub progress_token: Option<RawJson>,
    /// For an upstream of the modern era: what to put in the place of the reserved keys.
    pub modern: Option<RawObject>,
}

/// Rewrites the metadata of a request for the next hop.
///
/// Keys that the protocol reserves belong to one hop, so the caller's are dropped. All other keys, trace context
/// included, pass through as they are.
pub fn rewrite(params: &mut RawObject, hop: &Hop) {
    let mut meta = params.get_object("_meta").unwrap_or_default();
    meta.retain(|key| !key.starts_with(RESERVED) && key != PROGRESS_TOKEN.as_bytes());
    for (key, value) in hop.modern.iter().flat_map(RawObject::iter) {
        if let Ok(key) = std::str::from_utf8(key) {
            meta.set(key, value.clone());
        }
    }
    if let Some(token) = &hop.progress_token {
        meta.set(PROGRESS_TOKEN, token.clone());
    }
    if meta.is_empty() {
        params.remove("_meta");
    } else {
        params.set("_meta", meta.to_raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> RawObject {
        RawObject::parse(&RawJson::parse(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_request_claims_the_era_of_its_own_metadata() {
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}"#;
        let capabilities = RawJson::parse(r#"{"sampling":{}}"#).unwrap();
        let meta = ModernMeta {
            version: ProtocolVersion::V2026_07_28,
            capabilities,
        };
        assert_eq!(claim(&params(modern)), Ok(Claim::Modern(meta)));
        assert_eq!(claim(&params("{}")), Ok(Claim::Legacy));
        assert_eq!(
            claim(&params(r#"{"_meta":{"progressToken":1}}"#)),
            Ok(Claim::Legacy)
        );
    }

    #[test]
    fn missing_and_malformed_keys_have_their_codes() {
        let table = [
            (r#"{"_meta":7}"#, code::INVALID_PARAMS),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#,
                code::INVALID_PARAMS,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
                code::INVALID_PARAMS,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}"#,
                code::INVALID_PARAMS,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}"#,
                code::UNSUPPORTED_VERSION,
            ),
        ];
        for (text, code) in table {
            assert_eq!(claim(&params(text)).unwrap_err().code, code, "{text}");
        }
    }

    #[test]
    fn only_the_keys_of_one_hop_are_rewritten() {
        let mut rewritten = params(
            r#"{"name":"x","_meta":{"traceparent":"00-1","io.modelcontextprotocol/clientInfo":{},"progressToken":"a","own":1.0}}"#,
        );
        let hop = Hop {
            progress_token: Some(RawJson::parse("7").unwrap()),
            modern: None,
        };
        rewrite(&mut rewritten, &hop);
        assert_eq!(
            rewritten.to_raw().as_bytes(),
            br#"{"name":"x","_meta":{"traceparent":"00-1","own":1.0,"progressToken":7}}"#
        );

        rewrite(&mut rewritten, &Hop::default());
        assert_eq!(
            rewritten.to_raw().as_bytes(),
            br#"{"name":"x","_meta":{"traceparent":"00-1","own":1.0}}"#
        );

        let mut bare = params(r#"{"_meta":{"progressToken":1}}"#);
        rewrite(&mut bare, &Hop::default());
        assert!(bare.is_empty());
    }
}
