//! The control methods of turns.

use std::time::Duration;

use genlock_authority::Authority;
use genlock_mcp::{RawJson, RawObject, RpcError};
use genlock_store::{TurnId, TurnOutcome, TurnRecord};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Peer,
    params::{Wait, read},
    refusal, refused,
};
use crate::reload::timestamp;

/// How long `turn.wait` waits unless it is asked for otherwise.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmitParams {
    session_id: String,
    submission_id: String,
    payload: Option<Box<RawValue>>,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnParams {
    turn_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitParams {
    turn_id: String,
    timeout_s: Option<Wait>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveParams {
    turn_id: String,
    outcome: Option<String>,
}

/// Answers a method of turns.
pub(super) async fn answer(
    authority: &Authority,
    peer: &Peer,
    method: &str,
    params: &RawObject,
) -> Result<RawJson, RpcError> {
    let caller = peer.caller();
    let turn = match method {
        "turn.submit" | "prompt.submit" => {
            let params: SubmitParams = read(params)?;
            let payload = params.payload()?;
            authority
                .submit(&caller, &params.session_id, params.submission_id, payload)
                .await
        }
        "turn.receipt" => authority.turn(&caller, &turn_id(params)?).await,
        "turn.wait" => {
            let params: WaitParams = read(params)?;
            let patience = params.timeout_s.map_or(WAIT, |Wait(wait)| wait);
            authority
                .wait(&caller, &TurnId::new(params.turn_id), patience)
                .await
        }
        "turn.cancel" => authority.cancel(&caller, &turn_id(params)?).await,
        "turn.interrupt" => authority.interrupt(&caller, &turn_id(params)?).await,
        "turn.resolve_unknown" => {
            let params: ResolveParams = read(params)?;
            let outcome = params.outcome()?;
            authority
                .resolve_unknown(&caller, &TurnId::new(params.turn_id), outcome)
                .await
        }
        method => return Err(RpcError::method_not_found(method)),
    };
    turn.map(|turn| receipt(&turn).to_raw())
        .map_err(|error| refused(&error))
}

fn turn_id(params: &RawObject) -> Result<TurnId, RpcError> {
    let params: TurnParams = read(params)?;
    Ok(TurnId::new(params.turn_id))
}

/// Returns a turn in the form that is shown. Its result is not decoded: it is what the servers said.
fn receipt(turn: &TurnRecord) -> RawObject {
    let mut receipt = RawObject::default();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            receipt.set(name, RawJson::encode(&value));
        }
    };
    set("turn_id", json!(turn.id.as_str()));
    set("session_id", json!(turn.session));
    set("submission_id", json!(turn.submission));
    set("sequence", json!(turn.sequence));
    set("status", json!(turn.status.as_str()));
    set(
        "outcome",
        json!(turn.status.outcome().map(TurnOutcome::as_str)),
    );
    set("policy_seq", json!(turn.policy_seq));
    set("generation", json!(turn.generation));
    set("actor", json!(turn.actor));
    set("submitted_at", json!(timestamp(turn.submitted_ms)));
    let started = turn
        .reservation
        .as_ref()
        .map(|reservation| reservation.started_ms);
    set("started_at", json!(started.map(timestamp)));
    set("ended_at", json!(turn.ended_ms.map(timestamp)));
    let error = turn.error.as_ref();
    set(
        "error",
        error.map_or(
            Value::Null,
            |error| json!({"code": error.code, "message": error.message}),
        ),
    );
    if let Some(text) = &turn.result {
        // What a worker says is JSON; what is not would be its fault, and is shown as text.
        let result = RawJson::parse(text.clone()).unwrap_or_else(|_| RawJson::string(text));
        receipt.set("result", result);
    }
    receipt
}

impl SubmitParams {
    /// Returns the payload as it was sent; `text` is short for a payload of text.
    fn payload(&self) -> Result<String, RpcError> {
        match (&self.payload, &self.text) {
            (Some(payload), None) => Ok(payload.get().to_owned()),
            (None, Some(text)) => Ok(json!({ "text": text }).to_string()),
            (Some(_), Some(_)) | (None, None) => Err(refusal(
                "invalid_params",
                "either `payload` or `text` is required",
            )),
        }
    }
}

impl ResolveParams {
    /// Returns what is known of the turn; that it was interrupted, where nothing is said.
    fn outcome(&self) -> Result<TurnOutcome, RpcError> {
        let word = self.outcome.as_deref().unwrap_or("interrupted");
        let ran = [
            TurnOutcome::Completed,
            TurnOutcome::Failed,
            TurnOutcome::Interrupted,
        ];
        let outcome = TurnOutcome::from_word(word).filter(|outcome| ran.contains(outcome));
        let known = "`outcome` is `completed`, `failed` or `interrupted`";
        outcome.ok_or_else(|| refusal("invalid_params", known))
    }
}
