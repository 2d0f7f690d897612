//! Gives what passes between the eras the form of the other side.

use genlock_mcp::{Era, Outcome, RawJson, RawObject, RpcError, error::code};

/// Keeps of a client's capabilities what a server may use over this gateway: answers travel with a retried call, the
/// follow-up requests of extensions would not find their way.
pub(crate) fn answerable(capabilities: &RawJson) -> RawJson {
    match RawObject::parse(capabilities) {
        Ok(mut object) if object.get("extensions").is_some() => {
            object.remove("extensions");
            object.to_raw()
        }
        Ok(_) | Err(_) => capabilities.clone(),
    }
}

/// Gives a server's answer the form of the caller's era. An answer that has it already passes through as it is.
pub(crate) fn bridged(outcome: Outcome, era: Era) -> Outcome {
    let Outcome::Result(result) = outcome else {
        return outcome;
    };
    if !result.is_object() {
        return refused_by_gateway("bad_answer", "the server's result is no object");
    }
    let kind =
        RawObject::peek(&result, "resultType").map(|kind| kind.as_string().unwrap_or_default());
    match (era, kind.as_deref()) {
        (Era::Modern, Some(_)) | (Era::Legacy, None) => Outcome::Result(result),
        (Era::Modern, None) => changed(&result, |object| {
            object.set("resultType", RawJson::string("complete"));
        }),
        (Era::Legacy, Some("complete")) => changed(&result, |object| {
            object.remove("resultType");
        }),
        (Era::Legacy, Some(_)) => refused_by_gateway(
            "input_required",
            "the tool needs input that this protocol version cannot carry here",
        ),
    }
}

fn changed(result: &RawJson, change: impl FnOnce(&mut RawObject)) -> Outcome {
    match RawObject::parse(result) {
        Ok(mut object) => {
            change(&mut object);
            Outcome::Object(object)
        }
        Err(_) => refused_by_gateway("bad_answer", "the server's result has a key twice"),
    }
}

fn refused_by_gateway(reason: &str, message: &str) -> Outcome {
    let error =
        RpcError::new(code::GATEWAY, message).with_data(&serde_json::json!({ "reason": reason }));
    Outcome::Error(error.to_raw())
}

#[cfg(test)]
mod tests {
    use genlock_mcp::Response;

    use super::*;

    fn bridge(text: &'static str, era: Era) -> String {
        let outcome = bridged(Outcome::Result(RawJson::parse(text).unwrap()), era);
        let wire = Response {
            id: RawJson::NULL,
            outcome,
        }
        .to_wire()
        .into_bytes();
        String::from_utf8(wire.to_vec()).unwrap()
    }

    #[test]
    fn a_result_that_has_the_form_of_the_era_keeps_every_byte() {
        let modern = r#"{ "resultType":"complete", "n": 1.0 }"#;
        assert_eq!(
            bridge(modern, Era::Modern),
            format!(r#"{{"jsonrpc":"2.0","id":null,"result":{modern}}}"#)
        );
        let legacy = r#"{ "content" : [ ] }"#;
        assert_eq!(
            bridge(legacy, Era::Legacy),
            format!(r#"{{"jsonrpc":"2.0","id":null,"result":{legacy}}}"#)
        );
    }

    #[test]
    fn a_result_of_the_other_era_is_given_its_form_and_keeps_its_values() {
        assert!(
            bridge(r#"{"n": 1.0}"#, Era::Modern).contains(r#"{"n":1.0,"resultType":"complete"}"#)
        );
        assert!(
            bridge(r#"{"resultType":"complete","n": 1.0}"#, Era::Legacy)
                .contains(r#""result":{"n":1.0}"#)
        );
        assert!(
            bridge(r#"{"resultType":"input_required"}"#, Era::Legacy)
                .contains(r#""reason":"input_required""#)
        );
        assert!(bridge("7", Era::Modern).contains(r#""reason":"bad_answer""#));
    }

    #[test]
    fn only_what_a_retried_call_can_answer_is_declared_to_a_server() {
        let declared = RawJson::parse(r#"{"sampling":{},"extensions":{"x":{}}}"#).unwrap();
        assert_eq!(answerable(&declared).as_bytes(), br#"{"sampling":{}}"#);
    }
}
