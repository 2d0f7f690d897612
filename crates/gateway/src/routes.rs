//! The one table of the gateway's own routes and what each needs: what is not in it is served to nobody.
//!
//! Most routes stand for a control method and need what that needs.

use axum::http::Method;
use genlock_access::Permission;
use genlock_front::Need;

use crate::methods;

/// Why a route is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// As this control method.
    As(&'static str),
    /// With this permission.
    With(Permission),
    /// Any method; the route asks for each.
    Methods,
}

use Serves::{As, Methods, With};

/// The routes.
const ROUTES: [(&str, &str, Serves); 18] = [
    ("GET", "/api/status", As("status")),
    ("GET", "/api/servers", As("server.list")),
    ("GET", "/api/servers/{name}", As("server.get")),
    ("GET", "/api/servers/{name}/logs", As("server.logs")),
    ("POST", "/api/config/reload", As("config.reload")),
    ("POST", "/api/config/export", With(Permission::Read)),
    ("GET", "/api/generations", As("generation.list")),
    ("GET", "/api/generations/{number}", As("generation.get")),
    (
        "GET",
        "/api/generations/{number}/diff/{other}",
        As("generation.diff"),
    ),
    (
        "POST",
        "/api/generations/{number}/rollback",
        As("config.reload"),
    ),
    ("POST", "/api/rpc", Methods),
    ("GET", "/api/keys", As("key.list")),
    ("GET", "/api/audit", As("audit.list")),
    ("GET", "/api/sessions", As("session.list")),
    ("GET", "/api/sessions/{id}", As("session.get")),
    ("GET", "/api/turns/{id}", As("turn.receipt")),
    ("GET", "/api/events", With(Permission::Read)),
    ("GET", "/metrics", With(Permission::Read)),
];

/// Returns what a route needs; `None` where it is not served.
pub(crate) fn needs(method: &Method, path: &str) -> Option<Need> {
    // Whoever may read something may ask for its headers.
    let method = match *method {
        Method::HEAD => "GET",
        _ => method.as_str(),
    };
    let (_, _, serves) = ROUTES
        .iter()
        .find(|(known, route, _)| *known == method && *route == path)?;
    match serves {
        As(method) => methods::permission(method).map(Need::Permission),
        With(permission) => Some(Need::Permission(*permission)),
        Methods => Some(Need::FoundOut),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// Every `.route("…"` of this crate's source.
    fn routes_in(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                routes_in(&path, found);
            } else if !path.ends_with("routes.rs") {
                let text = fs::read_to_string(&path).unwrap();
                for (at, _) in text.match_indices(".route(") {
                    let route = text[at..].split('"').nth(1).unwrap();
                    found.insert(route.to_owned());
                }
            }
        }
    }

    #[test]
    fn every_route_is_in_the_table_and_every_row_is_a_route() {
        let mut found = BTreeSet::new();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        routes_in(Path::new(source), &mut found);

        let table = ROUTES.iter().map(|(_, path, _)| *path);
        // The pinned view of a session asks for the token of that session.
        let table = table.chain(["/mcp/{session_id}"]);
        let table: BTreeSet<String> = table.map(str::to_owned).collect();
        assert_eq!(found, table);
        assert!(found.len() > 10);
    }

    #[test]
    fn every_row_needs_something_that_there_is() {
        for (method, path, _) in ROUTES {
            let method = method.parse().unwrap();
            assert!(needs(&method, path).is_some(), "{method} {path}");
        }
        assert_eq!(needs(&Method::POST, "/api/status"), None);
        assert_eq!(needs(&Method::GET, "/api/unknown"), None);
        let read = Some(Need::Permission(Permission::Read));
        assert_eq!(needs(&Method::HEAD, "/api/status"), read);
    }
}
