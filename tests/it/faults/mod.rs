//! Servers that do not start, do not answer, die or answer nonsense: each is named with its reason, none harms another.

mod dying;
mod expiring;
mod nonsense;
mod starting;
mod too_large;

use genlock_testkit::{
    clients::{Answer, ModernClient},
    harness::GenlockProcess,
};
use serde_json::{Value, json};

/// The result of a call that its server did not answer, as a modern client sees it.
pub(super) fn refused(text: &str, reason: &str, may_have_run: bool) -> Value {
    json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
        "_meta": {"genlock/reason": reason, "genlock/may_have_run": may_have_run},
    })
}

/// The result without what the modern era adds to it.
pub(super) fn bare(answer: &Answer) -> Value {
    let mut result = answer.result();
    let object = result.as_object_mut().unwrap();
    object.remove("resultType");
    object["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/serverInfo");
    result
}

/// What a list says of missing servers.
pub(super) async fn missing(gateway: &GenlockProcess) -> Value {
    let list = ModernClient::new(gateway.url())
        .request("tools/list", "{}")
        .await
        .result();
    list["_meta"]["genlock/unavailable"].clone()
}
