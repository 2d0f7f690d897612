//! The gates that ask a server: what it lists, and whether it can be called.

use std::sync::Arc;

use genlock_mcp::error::escape_text;
use genlock_policy::{Gate, Stopped, Walk};
use genlock_servers::{Server, ServerSnapshot, Tool};

/// Asks whether a server lists a tool; returns it where it is known.
pub(super) fn listing(
    walk: &mut Walk,
    server: &Server,
    name: &str,
) -> Result<Option<Arc<Tool>>, Stopped> {
    let snapshot = server.snapshot();
    let Some(tools) = server.tools() else {
        if snapshot.takes_calls() {
            walk.not_listed(
                Gate::Listing,
                format!(
                    "server `{}` was never listed: nobody knows whether it has the tool",
                    server.name()
                ),
                "call it once, or run `genlock warm`",
            );
            return Ok(None);
        }
        let (why, remedy) = state_of(&snapshot);
        return Err(walk.stopped(Gate::Listing, format!("never listed: {why}"), remedy));
    };
    match tools.get(name) {
        Some(tool) => {
            walk.pass(
                Gate::Listing,
                format!(
                    "one of {} that server `{}` lists",
                    tools.len(),
                    server.name()
                ),
            );
            Ok(Some(Arc::clone(tool)))
        }
        None => {
            let about = format!("`{}`", escape_text(name));
            let mut left_out = tools.left_out.iter();
            let why = match left_out.find(|reason| reason.starts_with(&about)) {
                Some(reason) => format!("left out of the list: {reason}"),
                None => format!(
                    "server `{}` lists {} tools and not this one",
                    server.name(),
                    tools.len()
                ),
            };
            Err(walk.stopped(
                Gate::Listing,
                why,
                format!(
                    "what a server lists is its own affair: see `genlock servers logs {}`",
                    server.name()
                ),
            ))
        }
    }
}

/// Asks whether a server can be called now.
///
/// # Errors
/// Where it cannot.
pub fn walk_connection(walk: &mut Walk, snapshot: &ServerSnapshot) -> Result<(), Stopped> {
    match (snapshot.ready, snapshot.takes_calls(), &snapshot.reason) {
        // Only the breaker gives a reason to one that is ready.
        (true, _, Some(_)) | (false, false, _) => {
            let (why, remedy) = state_of(snapshot);
            walk.stop(Gate::Connection, why, remedy)
        }
        (true, _, None) => {
            walk.pass(
                Gate::Connection,
                format!("server `{}` is {}", snapshot.name, snapshot.state),
            );
            Ok(())
        }
        (false, true, _) => {
            walk.depends(
                Gate::Connection,
                format!(
                    "server `{}` is {}: a call waits for it",
                    snapshot.name, snapshot.state
                ),
            );
            Ok(())
        }
    }
}

/// Says how a server is that cannot be called, and what helps.
fn state_of(snapshot: &ServerSnapshot) -> (String, String) {
    let ServerSnapshot { name, state, .. } = snapshot;
    let why = match &snapshot.reason {
        Some(reason) => format!("server `{name}` is {state}: {reason}"),
        None => format!("server `{name}` is {state}"),
    };
    let remedy = match snapshot.next_try() {
        Some(at) => {
            format!("it is tried again at {at}, and at once by `genlock servers probe {name}`")
        }
        None => format!("see `genlock servers logs {name}`, then `genlock servers probe {name}`"),
    };
    (why, remedy)
}
