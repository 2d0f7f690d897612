//! The routes of configuration: reload, export, generations.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::IF_MATCH},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use genlock_access::Visitor;
use genlock_policy::{Cause, GenerationNumber};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    audit::Act,
    methods::Peer,
    reload::{LIST, ReloadRequest, Reloader},
    report::{ReloadError, Report},
    status::failure,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadBody {
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    confirm_mass_removal: bool,
    wait_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
struct Page {
    before: Option<u64>,
    limit: Option<u32>,
}

pub(crate) fn routes(reloader: Arc<Reloader>) -> Router {
    Router::new()
        .route("/api/config/reload", post(reload))
        .route("/api/config/export", post(export))
        .route("/api/generations", get(list))
        .route("/api/generations/{number}", get(show))
        .route("/api/generations/{number}/diff/{other}", get(diff))
        .route("/api/generations/{number}/rollback", post(roll_back))
        .with_state(reloader)
}

async fn reload(
    State(reloader): State<Arc<Reloader>>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match request(visitor, &headers, &body, Cause::Api) {
        Ok(request) => {
            let audit = reloader.audit().clone();
            let reload = async move { reloader.reload(&request).await };
            answer(audit.to_its_end(reload).await)
        }
        Err(refused) => *refused,
    }
}

async fn roll_back(
    State(reloader): State<Arc<Reloader>>,
    Extension(visitor): Extension<Visitor>,
    Path(number): Path<u64>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match (
        GenerationNumber::new(number),
        request(visitor, &headers, &body, Cause::Rollback),
    ) {
        (Some(number), Ok(request)) => {
            let audit = reloader.audit().clone();
            let roll_back = async move { reloader.roll_back(number, &request).await };
            answer(audit.to_its_end(roll_back).await)
        }
        (None, Ok(_)) => no_such_generation(),
        (_, Err(refused)) => *refused,
    }
}

fn request(
    visitor: Visitor,
    headers: &HeaderMap,
    body: &[u8],
    cause: Cause,
) -> Result<ReloadRequest, Box<Response>> {
    let refuse =
        |code, message: &str| Box::new(failure(StatusCode::BAD_REQUEST, code, message, &json!({})));
    let body: ReloadBody = if body.is_empty() {
        ReloadBody::default()
    } else {
        serde_json::from_slice(body)
            .map_err(|error| refuse("invalid_params", &error.to_string()))?
    };
    let mut request = ReloadRequest::of(cause, Peer::from(visitor).who());
    request.dry_run = body.dry_run;
    request.confirm_mass_removal = body.confirm_mass_removal;
    if let Some(seconds) = body.wait_s {
        let wait = std::time::Duration::try_from_secs_f64(seconds.min(600.0));
        request.wait =
            wait.map_err(|_| refuse("invalid_params", "`wait_s` must be a number of seconds"))?;
    }
    if let Some(tag) = headers.get(IF_MATCH) {
        let number = tag
            .to_str()
            .ok()
            .and_then(|tag| tag.trim().trim_matches('"').parse().ok());
        let number = number.and_then(GenerationNumber::new);
        let message = "`If-Match` must be the number of a generation, such as \"7\"";
        request.expected = Some(number.ok_or_else(|| refuse("invalid_params", message))?);
    }
    Ok(request)
}

fn answer(outcome: Result<Report, ReloadError>) -> Response {
    match outcome {
        Ok(report) => Json(report).into_response(),
        Err(error) => refused(&error),
    }
}

/// The status that goes with a refusal.
fn status(error: &ReloadError) -> StatusCode {
    match error {
        ReloadError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ReloadError::Refused(_)
        | ReloadError::Conflict { .. }
        | ReloadError::PrivateValuesUnavailable { .. } => StatusCode::CONFLICT,
        ReloadError::NotFound(_) => StatusCode::NOT_FOUND,
        ReloadError::Restore(_) | ReloadError::Commit(_) | ReloadError::History(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

fn refused(error: &ReloadError) -> Response {
    failure(
        status(error),
        error.code(),
        &error.to_string(),
        &details(error),
    )
}

/// What programs want to know of a refusal.
pub(crate) fn details(error: &ReloadError) -> Value {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    json!({"findings": error.findings(), "causes": causes})
}

fn no_such_generation() -> Response {
    failure(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is no such generation",
        &json!({}),
    )
}

async fn export(
    State(reloader): State<Arc<Reloader>>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let head = reloader.head();
    let act = Act::new(Peer::from(visitor).who(), "config.export").under(Some(head.number));
    let kept = reloader.audit().done(act).await;
    let yaml = head.snapshot.redacted().to_yaml();
    let mut export = json!({"generation": head.number, "yaml": yaml});
    if let Some(word) = kept.word() {
        export["audit"] = json!(word);
    }
    Json(export).into_response()
}

async fn list(State(reloader): State<Arc<Reloader>>, Query(page): Query<Page>) -> Response {
    let before = page.before.and_then(GenerationNumber::new);
    match reloader
        .list(before, page.limit.unwrap_or(LIST).min(LIST))
        .await
    {
        Ok(list) => Json(list).into_response(),
        Err(error) => refused(&error),
    }
}

async fn show(State(reloader): State<Arc<Reloader>>, Path(number): Path<u64>) -> Response {
    let Some(number) = GenerationNumber::new(number) else {
        return no_such_generation();
    };
    match reloader.shown(number).await {
        Ok(shown) => Json(shown).into_response(),
        Err(error) => refused(&error),
    }
}

async fn diff(
    State(reloader): State<Arc<Reloader>>,
    Path((from, to)): Path<(u64, u64)>,
) -> Response {
    let (Some(from), Some(to)) = (GenerationNumber::new(from), GenerationNumber::new(to)) else {
        return no_such_generation();
    };
    match reloader.diff(from, to).await {
        Ok(changes) => Json(changes).into_response(),
        Err(error) => refused(&error),
    }
}
