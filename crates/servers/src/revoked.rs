//! What is revoked, for the servers of a pool: the one thing that holds for all of them at once, whatever configuration they
//! are of.
//!
//! Every request to a server passes [`Server::admit`] on its last step, whatever path it came on. So a revocation is in force
//! for everybody the moment that [`Pool::revoke`] returns; that connections are closed follows.

use std::{borrow::Cow, sync::Arc};

use genlock_mcp::client::Call;
use genlock_policy::{Overlay, Revocation};
use tokio::sync::watch;

use crate::{
    actor::Actor,
    pool::Pool,
    server::{Server, ServerError, is_lazy},
    state::{ServerEvent, ServerState},
};

/// Returns why a server does not serve, where it is revoked.
pub(crate) fn why(server: &str, revoked: &Overlay) -> Option<String> {
    let refusing = revoked.refuses(server, None)?;
    Some(format!("{}: {}", Revocation::CODE, refusing.reason))
}

/// Returns the tool that a request calls, where it calls one.
pub(crate) fn tool_of(call: &Call) -> Option<Cow<'_, str>> {
    if call.method != "tools/call" {
        return None;
    }
    match &call.name {
        Some(name) => Some(Cow::Borrowed(name)),
        None => call.params.get_string("name").map(Cow::Owned),
    }
}

impl Pool {
    /// Puts revocations in force, in the place of those before. When it returns, no request to what they name goes out any
    /// more, on any server of this pool: those of the configuration in force, those that are pinned, those of tenants and those
    /// that drain. Connections to a revoked server are closed then, and the calls in flight on them end.
    pub fn revoke(&self, revoked: Arc<Overlay>) {
        self.revoked.send_if_modified(|now| {
            let differs = *now != revoked;
            if differs {
                *now = revoked;
            }
            differs
        });
    }

    /// Returns what is revoked now.
    pub fn revoked(&self) -> Arc<Overlay> {
        Arc::clone(&self.revoked.borrow())
    }

    /// Watches what is revoked.
    pub fn watch_revoked(&self) -> watch::Receiver<Arc<Overlay>> {
        self.revoked.subscribe()
    }
}

impl Server {
    /// Checks whether a request may go out now, which is a call of `tool` where one is named. [`Server::call`] asks the same
    /// once more, so that this is only for those who would do something before.
    ///
    /// # Errors
    /// [`ServerError::Revoked`].
    pub fn admit(&self, tool: Option<&str>) -> Result<(), ServerError> {
        let revoked = self.lease().shared.revoked.borrow();
        match revoked.refuses(self.name(), tool) {
            None => Ok(()),
            Some(revocation) => Err(ServerError::Revoked {
                revocation: revocation.clone(),
                may_have_run: false,
            }),
        }
    }

    /// Tells whether the server as a whole is revoked.
    pub fn is_revoked(&self) -> bool {
        self.admit(None).is_err()
    }

    /// Completes with the refusal once a request must not go out any more.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn refused(&self, tool: Option<&str>) -> ServerError {
        let mut revoked = self.lease().shared.revoked.clone();
        loop {
            revoked.mark_unchanged();
            if let Err(error) = self.admit(tool) {
                return error;
            }
            if revoked.changed().await.is_err() {
                // The pool is gone, and nothing is revoked any more.
                return std::future::pending().await;
            }
        }
    }

    /// Gives a failure its true cause: what ended with the connection to a revoked server was revoked.
    pub(crate) fn because_revoked(&self, error: ServerError) -> ServerError {
        match self.admit(None) {
            Ok(()) => error,
            Err(ServerError::Revoked { revocation, .. }) => ServerError::Revoked {
                revocation,
                may_have_run: error.may_have_run(),
            },
            Err(other) => other,
        }
    }
}

impl Actor {
    /// Closes the connection of a server that is revoked, and lets it begin anew once that is lifted.
    pub(crate) async fn follow_revocations(&mut self) {
        let shared = &self.setting.shared;
        let before = match &self.state {
            ServerState::Disabled | ServerState::Closed => return,
            ServerState::Revoked(revoked) => Some(revoked.why.as_str()),
            ServerState::Lazy(_)
            | ServerState::Connecting(_)
            | ServerState::Ready(_)
            | ServerState::Reconnecting(_)
            | ServerState::Cooldown(_)
            | ServerState::Parked(_)
            | ServerState::Probing(_)
            | ServerState::Draining(_) => None,
        };
        let why = why(shared.definition.name.as_str(), &shared.revoked.borrow());
        if before == why.as_deref() {
            return;
        }
        let event = match why {
            Some(why) => ServerEvent::Revoke { why },
            None => ServerEvent::Lift {
                lazy: is_lazy(&shared.definition),
            },
        };
        self.step(event).await;
    }
}
