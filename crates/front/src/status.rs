//! What people and probes ask the gateway about itself.

use axum::{
    Router,
    extract::{Path, State},
    response::Response as HttpResponse,
    routing::get,
};
use http::StatusCode;
use serde_json::{Value, json};

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

/// The status routes.
pub(crate) fn routes() -> Router<Front> {
    Router::new()
        .route(
            "/api/status",
            get(|State(front): State<Front>| async move {
                reply::json_body(StatusCode::OK, &front.status())
            }),
        )
        .route(
            "/api/servers",
            get(|State(front): State<Front>| async move {
                reply::json_body(StatusCode::OK, &front.server_list())
            }),
        )
        .route("/api/servers/{name}", get(server))
        .route("/api/servers/{name}/logs", get(logs))
}

async fn server(State(front): State<Front>, Path(name): Path<String>) -> HttpResponse {
    match front.inner.servers.get(&name) {
        Some(server) => reply::json_body(StatusCode::OK, &server.snapshot()),
        None => no_such_server(),
    }
}

async fn logs(State(front): State<Front>, Path(name): Path<String>) -> HttpResponse {
    match front.inner.servers.get(&name) {
        Some(server) => reply::json_body(
            StatusCode::OK,
            &json!({"name": name, "lines": server.log()}),
        ),
        None => no_such_server(),
    }
}

fn no_such_server() -> HttpResponse {
    reply::failure(
        StatusCode::NOT_FOUND,
        "server.not_found",
        "no server of this name is configured",
    )
}

impl Front {
    /// Returns all servers as they are now: `{servers: [{name, state, ready, …}]}`.
    pub fn server_list(&self) -> Value {
        let servers: Vec<_> = self
            .inner
            .servers
            .iter()
            .map(|server| server.snapshot())
            .collect();
        json!({ "servers": servers })
    }

    /// Returns how the gateway is now.
    pub fn status(&self) -> Value {
        let catalog = self.catalog();
        let servers: Vec<_> = self
            .inner
            .servers
            .iter()
            .map(|server| server.snapshot())
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": if self.inner.draining.is_cancelled() { "draining" } else { "serving" },
            "tools": catalog.entries().count(),
            "names": catalog.reports,
            "sessions": self.inner.sessions.len(),
            "servers": servers,
        })
    }
}
