//! The control methods over HTTP: `POST /api/rpc`, and sessions and turns to look at.

use axum::{
    Extension, Router,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response as HttpResponse},
    routing::{get, post},
};
use genlock_access::Visitor;
use genlock_mcp::{Message, RawJson, RawObject, Request, Response, RpcError};
use serde_json::{Value, json};

use super::Methods;
use crate::status::failure;

impl Methods {
    /// Returns the routes.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/api/rpc", post(rpc))
            .route("/api/keys", get(keys))
            .route("/api/audit", get(super::audit::serve))
            .route("/api/sessions", get(sessions))
            .route("/api/sessions/{id}", get(session))
            .route("/api/turns/{id}", get(turn))
            .with_state(self)
    }
}

async fn rpc(
    State(methods): State<Methods>,
    Extension(visitor): Extension<Visitor>,
    body: Bytes,
) -> HttpResponse {
    let response = match Message::parse(body) {
        Ok(Message::Request(request)) => methods.answer(&visitor.into(), request).await,
        Ok(Message::Notification(_) | Message::Response(_)) => {
            let error = RpcError::invalid_params("a request with an `id` is required");
            Response::error(RawJson::NULL, &error)
        }
        Err(error) => Response::error(error.id.clone().unwrap_or(RawJson::NULL), &error.to_rpc()),
    };
    let mut body = Vec::new();
    for part in response.to_wire().into_line() {
        body.extend_from_slice(&part);
    }
    ([("content-type", "application/json")], body).into_response()
}

async fn keys(
    Extension(visitor): Extension<Visitor>,
    State(methods): State<Methods>,
) -> HttpResponse {
    look((&methods, visitor), "key.list", &[]).await
}

async fn sessions(
    Extension(visitor): Extension<Visitor>,
    State(methods): State<Methods>,
) -> HttpResponse {
    look((&methods, visitor), "session.list", &[]).await
}

async fn session(
    Extension(visitor): Extension<Visitor>,
    State(methods): State<Methods>,
    Path(id): Path<String>,
) -> HttpResponse {
    look((&methods, visitor), "session.get", &[("session_id", &id)]).await
}

async fn turn(
    Extension(visitor): Extension<Visitor>,
    State(methods): State<Methods>,
    Path(id): Path<String>,
) -> HttpResponse {
    look((&methods, visitor), "turn.receipt", &[("turn_id", &id)]).await
}

/// Answers a route by the method that it stands for, so that both say the same.
async fn look(
    (methods, visitor): (&Methods, Visitor),
    method: &str,
    params: &[(&str, &str)],
) -> HttpResponse {
    let params = params
        .iter()
        .map(|(name, value)| (*name, RawJson::string(value)));
    let request = Request {
        id: RawJson::NULL,
        method: method.to_owned(),
        params: params.collect::<RawObject>(),
    };
    match methods.call(&visitor.into(), &request).await {
        Ok(answer) => {
            let headers = [("content-type", "application/json")];
            (headers, answer.bytes().clone()).into_response()
        }
        Err(error) => refused(&error),
    }
}

pub(super) fn refused(error: &RpcError) -> HttpResponse {
    let error: Value = serde_json::from_slice(error.to_raw().as_bytes()).unwrap_or_default();
    let reason = error["data"]["reason"]
        .as_str()
        .unwrap_or("refused")
        .to_owned();
    let status = match reason.as_str() {
        "not_found" => StatusCode::NOT_FOUND,
        "permission_denied" => StatusCode::FORBIDDEN,
        "invalid_params" => StatusCode::BAD_REQUEST,
        "storage_unavailable" | "draining" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    };
    let detail = error["data"]["detail"]
        .as_str()
        .unwrap_or(&reason)
        .to_owned();
    failure(status, &reason, &detail, &json!({}))
}
