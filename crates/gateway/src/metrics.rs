//! `GET /metrics`: how the gateway is, in the text format of Prometheus.

use std::fmt::Write;

use axum::{
    Router,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};
use genlock_servers::{Server, ServerSnapshot};

use crate::{audit::Audit, status::Status};

/// Writes metrics, each family with its help and its type.
#[derive(Default)]
struct Page(String);

/// The route of the metrics.
pub(crate) fn routes(status: Status) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(status)
}

async fn metrics(State(status): State<Status>) -> Response {
    let format = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (format, page(&status)).into_response()
}

fn page(status: &Status) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.family("genlock_build_info", "gauge", "The version that runs.");
    page.sample("genlock_build_info", &[("version", version)], 1);
    let (generation, _) = status.front.in_force();
    if let Some(generation) = generation {
        page.family(
            "genlock_generation",
            "gauge",
            "The number of the generation in force.",
        );
        page.sample("genlock_generation", &[], generation.get());
    }
    if let Some(reloader) = &status.reloader {
        let degraded = u64::from(reloader.degraded().is_some());
        page.family(
            "genlock_degraded",
            "gauge",
            "Whether the last wish for a configuration was refused.",
        );
        page.sample("genlock_degraded", &[], degraded);
    }
    if let Some(reloader) = &status.reloader {
        page.audit(reloader.audit());
    }
    page.family("genlock_tools", "gauge", "The tools that are shown.");
    page.sample("genlock_tools", &[], status.front.tools_shown().0 as u64);
    page.family(
        "genlock_clients",
        "gauge",
        "The clients of the eras with a handshake.",
    );
    page.sample("genlock_clients", &[], status.front.sessions() as u64);
    let servers = status.front.servers();
    let snapshots: Vec<ServerSnapshot> = servers.iter().map(Server::snapshot).collect();
    page.servers(&snapshots);
    let draining = status.pool.draining(&status.front.all_servers());
    page.family(
        "genlock_draining_calls",
        "gauge",
        "Calls that hold a server which is removed or was replaced.",
    );
    for held in draining {
        page.sample(
            "genlock_draining_calls",
            &[("server", &held.name)],
            held.holders as u64,
        );
    }
    page.0
}

// === impl Page ===

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn audit(&mut self, audit: &Audit) {
        let families = [
            (
                "written_total",
                "counter",
                "Audit records that were written.",
                audit.written(),
            ),
            (
                "unwritten",
                "gauge",
                "Audit records that the store has not taken yet.",
                audit.unwritten(),
            ),
            (
                "lost_total",
                "counter",
                "Audit records that were lost for want of room.",
                audit.lost(),
            ),
        ];
        for (name, kind, help, value) in families {
            let name = format!("genlock_audit_{name}");
            self.family(&name, kind, help);
            self.sample(&name, &[], value);
        }
    }

    fn servers(&mut self, servers: &[ServerSnapshot]) {
        self.each(
            servers,
            "genlock_server_ready",
            "gauge",
            "Whether a server serves, or would at its first use.",
            |server| u64::from(server.ready),
        );
        self.each(
            servers,
            "genlock_server_tools",
            "gauge",
            "The tools that a server lists.",
            |server| server.tools as u64,
        );
        self.each(
            servers,
            "genlock_server_calls_total",
            "counter",
            "Calls that were made to a server.",
            |server| server.calls,
        );
        self.each(
            servers,
            "genlock_server_restarts_total",
            "counter",
            "How often a server was started again.",
            |server| server.restarts,
        );
        self.family(
            "genlock_server_state",
            "gauge",
            "The state that a server is in.",
        );
        for server in servers {
            let labels = [("server", server.name.as_str()), ("state", server.state)];
            self.sample("genlock_server_state", &labels, 1);
        }
    }

    fn each(
        &mut self,
        servers: &[ServerSnapshot],
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&ServerSnapshot) -> u64,
    ) {
        self.family(name, kind, help);
        for server in servers {
            self.sample(name, &[("server", &server.name)], value(server));
        }
    }
}

/// Writes a label's value as the format demands.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_the_format_of_prometheus() {
        let mut page = Page::default();
        page.family("genlock_draining_calls", "gauge", "Calls.");
        page.sample("genlock_draining_calls", &[("server", "a\"b\\c\nd")], 7);
        page.sample("genlock_generation", &[], 2);

        let expected = "# HELP genlock_draining_calls Calls.\n# TYPE genlock_draining_calls gauge\n\
             genlock_draining_calls{server=\"a\\\"b\\\\c\\nd\"} 7\ngenlock_generation 2\n";
        assert_eq!(page.0, expected);
    }
}
