//! `audit.list`, and `GET /api/audit`: who did what, and who was refused what.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use axum::{
    Extension,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response as HttpResponse},
};
use bytes::Bytes;
use futures_util::stream;
use genlock_access::Visitor;
use genlock_mcp::{RawJson, RawObject, Request, RpcError, error::code};
use genlock_store::{AuditFilter, AuditNumber, AuditOutcome, AuditRecord};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Methods, Peer, http::refused, params::read, refusal};
use crate::{audit::Audit, reload::timestamp};

/// How many records one list has, unless it is asked for otherwise.
const LIST: u32 = 100;
/// How many it has at most.
const MOST: u32 = 1000;
/// What a client accepts that wants a record a line.
const LINES: &str = "application/x-ndjson";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    since: Option<String>,
    until: Option<String>,
    subject: Option<String>,
    tenant: Option<String>,
    action: Option<String>,
    outcome: Option<String>,
    limit: Option<u32>,
    before: Option<u64>,
    after: Option<u64>,
}

/// Answers `audit.list` for the owner of the state directory.
pub(crate) async fn answer_audit(audit: &Audit, params: &RawObject) -> Result<Value, RpcError> {
    answer(audit, params).await
}

/// Answers `audit.list`: `{records: […], next?}`, newest first; `next` is the `before` of the next page.
pub(super) async fn answer(audit: &Audit, params: &RawObject) -> Result<Value, RpcError> {
    let params: ListParams = read(params)?;
    let limit = params.limit.unwrap_or(LIST).clamp(1, MOST);
    let filter = params.filter(audit.now_ms())?;
    let records = audit.list(&filter, limit).await.map_err(|fault| {
        let data = json!({"reason": "storage_unavailable", "detail": fault.to_string()});
        RpcError::new(code::STORAGE, "storage_unavailable").with_data(&data)
    })?;
    let mut answer = json!({"records": records.iter().map(shown).collect::<Vec<_>>()});
    if let (Some(last), true) = (records.last(), records.len() >= limit as usize) {
        answer["next"] = json!(last.number.get());
    }
    Ok(answer)
}

fn shown(record: &AuditRecord) -> Value {
    let entry = &record.entry;
    json!({
        "number": record.number.get(),
        "at": timestamp(entry.at_ms),
        "actor": entry.actor,
        "key": entry.key,
        "tenant": entry.tenant,
        "action": entry.action,
        "target": entry.target,
        "generation": entry.generation,
        "gate": entry.gate,
        "outcome": entry.outcome.as_str(),
        "code": entry.code,
        "count": entry.count,
        "detail": entry.detail,
    })
}

impl ListParams {
    fn filter(self, now_ms: i64) -> Result<AuditFilter, RpcError> {
        let time = |text: Option<String>, name: &str| {
            let read = |text: String| {
                let invalid = || refusal("invalid_params", &not_a_time(name));
                time(&text, now_ms).ok_or_else(invalid)
            };
            text.map(read).transpose()
        };
        let outcome = self.outcome.map(|word| {
            let known = "`outcome` is `done` or `refused`";
            AuditOutcome::from_word(&word).ok_or_else(|| refusal("invalid_params", known))
        });
        Ok(AuditFilter {
            since_ms: time(self.since, "since")?,
            until_ms: time(self.until, "until")?,
            subject: self.subject,
            tenant: self.tenant,
            action: self.action,
            outcome: outcome.transpose()?,
            after: self.after.and_then(AuditNumber::new),
            before: self.before.and_then(AuditNumber::new),
        })
    }
}

fn not_a_time(name: &str) -> String {
    format!("`{name}` is a time such as `2026-07-01T12:00:00Z`, or how long ago, such as `24h`")
}

/// Reads a time, or how long ago it was, as Unix milliseconds.
fn time(text: &str, now_ms: i64) -> Option<i64> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let ago = Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?);
    now_ms.checked_sub(i64::try_from(ago.as_millis()).ok()?)
}

// === over HTTP ===

/// Serves `GET /api/audit`: one page as JSON, or, where that is what the client accepts, every record that is asked for as JSON
/// lines.
pub(super) async fn serve(
    Extension(visitor): Extension<Visitor>,
    State(methods): State<Methods>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> HttpResponse {
    let peer = Peer::from(visitor);
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let lines = accepts.is_some_and(|accept| accept.contains(LINES));
    let pages = Pages::new(methods, peer, &query, lines);
    let answered = match pages {
        Err(error) => Err(error),
        Ok(mut pages) => match lines {
            false => pages.ask().await.map(|page| {
                let headers = [(header::CONTENT_TYPE, "application/json")];
                (headers, page.to_string()).into_response()
            }),
            true => pages.next().await.map(|first| pages.stream(first)),
        },
    };
    answered.unwrap_or_else(|error| refused(&error))
}

/// The pages of one question. Each is asked for as the method, so that who may not any more gets no further one.
struct Pages {
    methods: Methods,
    peer: Peer,
    params: Value,
    /// How many records are still wanted; `None` for all.
    left: Option<u64>,
}

impl Pages {
    fn new(
        methods: Methods,
        peer: Peer,
        query: &HashMap<String, String>,
        lines: bool,
    ) -> Result<Self, RpcError> {
        let mut params = json!({});
        for (name, value) in query {
            params[name] = match name.as_str() {
                "limit" | "before" | "after" => {
                    let invalid = || refusal("invalid_params", &format!("`{name}` is a number"));
                    json!(value.parse::<u64>().map_err(|_| invalid())?)
                }
                _ => json!(value),
            };
        }
        let left = params["limit"].as_u64().filter(|_| lines);
        if let (true, Some(params)) = (lines, params.as_object_mut()) {
            params.remove("limit");
        }
        Ok(Self {
            methods,
            peer,
            params,
            left,
        })
    }

    async fn ask(&self) -> Result<Value, RpcError> {
        let request = Request {
            id: RawJson::NULL,
            method: "audit.list".to_owned(),
            params: RawObject::parse(&RawJson::encode(&self.params)).unwrap_or_default(),
        };
        let answer = self.methods.call(&self.peer, &request).await?;
        Ok(answer.decode().unwrap_or_default())
    }

    /// Returns the next page as lines; none where there are no more.
    async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        self.params["limit"] = json!(self.left.unwrap_or(MOST.into()).min(MOST.into()));
        let page = self.ask().await?;
        let records = page["records"].as_array().cloned().unwrap_or_default();
        let Some(last) = records.last() else {
            return Ok(None);
        };
        self.params["before"] = last["number"].clone();
        self.left = match page["next"].is_null() {
            true => Some(0),
            false => self.left.map(|left| left - records.len() as u64),
        };
        let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
        Ok(Some(lines.into()))
    }

    fn stream(self, first: Option<Bytes>) -> HttpResponse {
        let lines = stream::unfold((self, first), |(mut pages, ready)| async move {
            let lines = ready?;
            // The end of the body is all that a client can be told of by then.
            let next = pages.next().await.unwrap_or_default();
            Some((Ok::<_, Infallible>(lines), (pages, next)))
        });
        let headers = [(header::CONTENT_TYPE, LINES)];
        (headers, Body::from_stream(lines)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_or_how_long_ago() {
        let now = 1_795_000_000_000;
        for (text, expected) in [
            ("24h", Some(now - 86_400_000)),
            ("90s", Some(now - 90_000)),
            ("7d", Some(now - 604_800_000)),
            ("2026-11-18T00:00:00Z", Some(1_794_960_000_000)),
            ("1970-01-01T00:00:00.5Z", Some(500)),
            ("", None),
            ("24", None),
            ("h", None),
            ("-1h", None),
            ("24 h", None),
            ("99999999999999999999d", None),
            ("yesterday", None),
        ] {
            assert_eq!(time(text, now), expected, "{text}");
        }
    }
}
