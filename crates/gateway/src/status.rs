//! What people and programs ask the gateway about itself: `/api/status`, `/api/servers`, and the same for the control
//! socket.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use genlock_config::Scope;
use genlock_front::Front;
use genlock_servers::{Pool, Server};
use serde_json::{Value, json};

use crate::reload::Reloader;

/// What is looked at.
#[derive(Clone)]
pub(crate) struct Status {
    pub(crate) front: Front,
    pub(crate) pool: Arc<Pool>,
    pub(crate) reloader: Option<Arc<Reloader>>,
}

impl Status {
    /// Returns all servers of the configuration in force: `{servers: [{name, state, ready, …}]}`.
    pub(crate) fn servers(&self) -> Value {
        let servers = self.front.servers();
        let snapshots: Vec<_> = servers.iter().map(|server| server.snapshot()).collect();
        let mut shown = json!({ "servers": snapshots });
        self.add_tenants(&mut shown);
        shown
    }

    /// Adds the servers that tenants have for themselves, where there are any: `{tenants: {tenant: [{name, state, …}]}}`.
    fn add_tenants(&self, shown: &mut Value) {
        let tenants = self.front.servers_of_tenants();
        let own = tenants.iter().map(|(tenant, servers)| {
            let own = servers.iter().filter(|server| is_own(server));
            let snapshots: Vec<_> = own.map(Server::snapshot).collect();
            (tenant.clone(), json!(snapshots))
        });
        if !tenants.is_empty() {
            shown["tenants"] = own.collect::<serde_json::Map<_, _>>().into();
        }
    }

    /// Finds a server: that of a tenant, where one is named and has it for itself, else that of all.
    pub(crate) fn find(&self, name: &str, tenant: Option<&str>) -> Option<Server> {
        let Some(tenant) = tenant else {
            return self.front.servers().get(name).cloned();
        };
        let tenants = self.front.servers_of_tenants();
        let (_, servers) = tenants.into_iter().find(|(found, _)| found == tenant)?;
        servers.get(name).cloned()
    }

    /// Returns how the gateway is now.
    pub(crate) async fn gateway(&self) -> Value {
        let servers = self.front.servers();
        let snapshots: Vec<_> = servers.iter().map(|server| server.snapshot()).collect();
        let draining: Vec<_> = self
            .pool
            .draining(&self.front.all_servers())
            .into_iter()
            .map(|server| json!({"name": server.name, "holders": server.holders}))
            .collect();
        let (tools, names) = self.front.tools_shown();
        let (generation, _) = self.front.in_force();
        let restart_required = match &self.reloader {
            Some(reloader) => reloader.restart_required(),
            None => Vec::new(),
        };
        let degraded = self
            .reloader
            .as_ref()
            .and_then(|reloader| reloader.degraded());
        let mut shown = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "state": if self.front.is_draining() { "draining" } else { "serving" },
            "generation": generation,
            "degraded": degraded,
            "restart_required": restart_required,
            "revoked": self.pool.revoked().revoked,
            "tools": tools,
            "names": names,
            "sessions": self.front.sessions(),
            "servers": snapshots,
            "draining": draining,
            "containment": self.pool.containment().await,
        });
        if let Some(reloader) = &self.reloader {
            shown["audit"] = reloader.audit().status();
        }
        self.add_tenants(&mut shown);
        shown
    }

    /// The status routes.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route(
                "/api/status",
                get(|State(status): State<Self>| async move { Json(status.gateway().await) }),
            )
            .route(
                "/api/servers",
                get(|State(status): State<Self>| async move { Json(status.servers()) }),
            )
            .route("/api/servers/{name}", get(server))
            .route("/api/servers/{name}/logs", get(logs))
            .with_state(self)
    }
}

/// Tells whether a tenant has a server for itself.
fn is_own(server: &Server) -> bool {
    server.definition().scope == Scope::Tenant
}

async fn server(State(status): State<Status>, Path(name): Path<String>) -> Response {
    match status.front.servers().get(&name) {
        Some(server) => Json(server.snapshot()).into_response(),
        None => no_such_server(),
    }
}

async fn logs(State(status): State<Status>, Path(name): Path<String>) -> Response {
    match status.front.servers().get(&name) {
        Some(server) => Json(json!({"name": name, "lines": server.log()})).into_response(),
        None => no_such_server(),
    }
}

fn no_such_server() -> Response {
    failure(
        StatusCode::NOT_FOUND,
        "server.not_found",
        "no server of this name is configured",
        &json!({}),
    )
}

/// Answers with an error outside MCP.
pub(crate) fn failure(status: StatusCode, code: &str, message: &str, details: &Value) -> Response {
    let error = json!({"error": {"code": code, "message": message, "details": details}});
    (status, Json(error)).into_response()
}
