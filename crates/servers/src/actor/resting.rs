//! Connections that nobody uses: tried now and then, stopped after a while.

use std::sync::{
    Arc,
    atomic::{Ordering, fence},
};

use genlock_mcp::client::CallError;
use tokio::time::Instant;

use super::{Actor, KEEPALIVE_WAIT, lost};
use crate::{
    quiet::{self, Quiet, Usage},
    state::{ServerEvent, ServerState},
};

impl Actor {
    pub(super) fn quiet(&self) -> Option<(Instant, Quiet)> {
        let (ServerState::Ready(_), Some(live)) = (&self.state, &self.live) else {
            return None;
        };
        let shared = &self.setting.shared;
        let usage = Usage {
            busy: shared.usage.is_busy() || self.under_way.trying.is_some(),
            used_at: shared.usage.last().max(live.made_at),
            tried_at: live.tried_at,
        };
        let definition = &shared.definition;
        quiet::due(
            usage,
            definition.idle_ttl,
            definition.keepalive_interval,
            Instant::now(),
        )
    }

    /// Does what is due, looked at anew: calls may have come since the time was set.
    pub(super) async fn take_quiet(&mut self) {
        match self.quiet() {
            Some((at, what)) if at <= Instant::now() => match what {
                Quiet::Stop => self.stop_idle().await,
                Quiet::Try => self.try_connection(),
                Quiet::Look => {}
            },
            Some(_) | None => {}
        }
    }

    /// Stops the server, unless a call begins at this very moment.
    async fn stop_idle(&mut self) {
        let shared = &self.setting.shared;
        let connection = shared.connection.swap(None);
        // Whoever comes after this finds no connection; whoever came before is counted.
        fence(Ordering::SeqCst);
        if shared.usage.is_busy() {
            shared.connection.store(connection);
            // For a call that found none meanwhile.
            shared.snapshot.send_modify(|_| {});
            return;
        }
        self.step(ServerEvent::Idle).await;
    }

    pub(super) fn try_connection(&mut self) {
        let Some(live) = &self.live else { return };
        let connection = Arc::clone(&live.connection);
        self.under_way.trying = Some(Box::pin(async move {
            let began_at = Instant::now();
            let result = connection.client.ping(began_at + KEEPALIVE_WAIT).await;
            (began_at, result)
        }));
    }

    pub(super) async fn take_try(&mut self, began_at: Instant, result: Result<(), CallError>) {
        let usage = &self.setting.shared.usage;
        // Calls that came meanwhile find out by themselves how the server is.
        let was_used = usage.is_busy() || usage.last() >= began_at;
        if let Some(live) = &mut self.live {
            live.tried_at = Instant::now();
        }
        let event = match result {
            Ok(()) => return,
            Err(CallError::SessionExpired) => ServerEvent::Expired,
            // What refuses the credentials here refuses those of calls as well.
            Err(error @ CallError::Unauthorized { .. }) => lost(&error.to_string()),
            Err(_) if was_used => return,
            Err(error) => lost(&format!("the keepalive failed: {error}")),
        };
        self.step(event).await;
    }
}
