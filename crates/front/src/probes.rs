//! What orchestrators ask the gateway about itself.

use axum::{Router, extract::State, response::Response as HttpResponse, routing::get};
use http::StatusCode;
use serde_json::json;

use crate::{front::Front, reply};

/// The probes. They answer at once and wait for no server; no check of the host, since orchestrators probe by address.
pub(crate) fn probes() -> Router<Front> {
    Router::new()
        .route(
            "/health/live",
            get(|| async { reply::json_body(StatusCode::OK, &json!({"status": "live"})) }),
        )
        .route(
            "/health/startup",
            get(|| async { reply::json_body(StatusCode::OK, &json!({"status": "started"})) }),
        )
        .route("/health/ready", get(ready))
        // As JSON, so that clients do not take the gateway for one that registers them.
        .route(
            "/.well-known/{*rest}",
            get(|| async {
                reply::failure(StatusCode::NOT_FOUND, "not_found", "there is nothing here")
            }),
        )
}

async fn ready(State(front): State<Front>) -> HttpResponse {
    if front.inner.draining.is_cancelled() {
        reply::json_body(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({"status": "draining"}),
        )
    } else {
        reply::json_body(StatusCode::OK, &json!({"status": "ready"}))
    }
}
