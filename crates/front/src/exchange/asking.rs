//! [`Asking`]: a request on its way to one server, and what becomes of the answer.

use genlock_mcp::{
    Era, Outcome, ProtocolVersion, RawJson, RawObject, RpcError, client::Call, error::code,
};
use genlock_servers::{Server, ServerError};
use serde_json::json;

use super::{Caller, Receiver};
use crate::{
    era::{answerable, bridged},
    resources::{rewrite::Rewrite, shelf::Place},
};

/// The code of the `initialize` eras for a resource that is not there.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// What is needed of a request once it is clear which server it goes to.
pub(super) struct Asking {
    pub(super) caller: Caller,
    pub(super) receiver: Receiver,
}

impl Asking {
    /// Gets a prompt, by the server's own name for it.
    pub(super) async fn prompt(
        &self,
        server: &Server,
        name: String,
        params: RawObject,
    ) -> Result<Outcome, RpcError> {
        let mut call = self.call("prompts/get", params);
        call.name = Some(name);
        let outcome = ask(server, call).await?;
        let shown = self.receiver.of_prompt(server, outcome);
        Ok(bridged(shown, self.caller.era))
    }

    /// Reads a resource that the caller calls `wanted`.
    pub(super) async fn resource(
        &self,
        wanted: &str,
        place: &Place,
        params: RawObject,
    ) -> Result<Outcome, RpcError> {
        let mut call = self.call("resources/read", params);
        call.name = Some(place.uri.clone());
        match ask(&place.server, call).await? {
            Outcome::Error(error) => Err(self.read_error(wanted, place, &error)),
            Outcome::Result(result) => Ok(self.read_result(&place.server, result)),
            Outcome::Object(result) => Ok(self.read_result(&place.server, result.to_raw())),
        }
    }

    /// Completes an argument.
    pub(super) async fn completion(
        &self,
        server: &Server,
        params: RawObject,
    ) -> Result<Outcome, RpcError> {
        let call = self.call("completion/complete", params);
        Ok(bridged(ask(server, call).await?, self.caller.era))
    }

    fn call(&self, method: &str, params: RawObject) -> Call {
        Call {
            method: method.to_owned(),
            log_level: self.caller.log_level(&params),
            params,
            capabilities: self.caller.capabilities.as_ref().map(answerable),
            events: self.caller.events.clone(),
            ..Call::default()
        }
    }

    /// Gives the error of a server the code of the caller's era, and the URI that the caller knows.
    fn read_error(&self, wanted: &str, place: &Place, error: &RawJson) -> RpcError {
        let mut found = RpcError::of_peer(error);
        // The modern era has no code of its own for it.
        let modern = ProtocolVersion::MODERN.as_str();
        let is_modern = place.server.snapshot().protocol == Some(modern);
        if found.code == RESOURCE_NOT_FOUND || (is_modern && found.code == code::INVALID_PARAMS) {
            found.code = not_found_code(self.caller.era);
        }
        let data = RawObject::parse(error)
            .ok()
            .and_then(|error| error.get("data").cloned());
        let named = data.as_ref().and_then(|data| RawObject::parse(data).ok());
        found.data = match named {
            Some(mut named) if named.get_string("uri").as_deref() == Some(&place.uri) => {
                named.set("uri", RawJson::string(wanted));
                Some(named.to_raw())
            }
            Some(_) | None => data,
        };
        found
    }

    fn read_result(&self, server: &Server, result: RawJson) -> Outcome {
        let shown = Rewrite::of(server, &self.receiver.config).contents(&result);
        let outcome = bridged(Outcome::Result(shown.unwrap_or(result)), self.caller.era);
        match (self.caller.era, outcome) {
            (Era::Modern, Outcome::Result(result)) => match RawObject::parse(&result) {
                Ok(result) => Outcome::Object(self.with_cache_hints(result)),
                Err(_) => Outcome::Result(result),
            },
            (Era::Modern, Outcome::Object(result)) => {
                Outcome::Object(self.with_cache_hints(result))
            }
            // It comes from a server of the modern era; the older ones know nothing of caches.
            (Era::Legacy, Outcome::Object(mut result)) => {
                result.remove("ttlMs");
                result.remove("cacheScope");
                Outcome::Object(result)
            }
            (Era::Modern | Era::Legacy, outcome) => outcome,
        }
    }

    /// A server of the older eras says nothing of how long its answer lasts; where callers differ, nobody's answer is for
    /// everybody.
    fn with_cache_hints(&self, mut result: RawObject) -> RawObject {
        if result.get_string("resultType").as_deref() == Some("complete") {
            result.set_default("ttlMs", || RawJson::encode(&0));
            let is_public = result.get_string("cacheScope").as_deref() == Some("public");
            if !is_public || self.receiver.config.auth.enabled {
                result.set("cacheScope", RawJson::string("private"));
            }
        }
        result
    }
}

async fn ask(server: &Server, call: Call) -> Result<Outcome, RpcError> {
    let answer = server.call(call, None).await;
    answer.map_err(|error| not_answered(&error))
}

/// Makes the error of a request that a server did not answer.
pub(super) fn not_answered(error: &ServerError) -> RpcError {
    let data = json!({"reason": error.code(), "may_have_run": error.may_have_run()});
    RpcError::new(code::GATEWAY, error.to_string()).with_data(&data)
}

/// Makes the error of a request that is refused here.
pub(super) fn refused(reason: &str, message: String) -> RpcError {
    RpcError::new(code::GATEWAY, message).with_data(&json!({ "reason": reason }))
}

/// Returns the code of an era for a resource that is not there.
pub(super) fn not_found_code(era: Era) -> i64 {
    match era {
        Era::Modern => code::INVALID_PARAMS,
        Era::Legacy => RESOURCE_NOT_FOUND,
    }
}
