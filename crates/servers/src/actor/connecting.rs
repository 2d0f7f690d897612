//! Making connections, and ending them.

use std::sync::Arc;

use genlock_mcp::client::{Announced, Protocol};
use genlock_policy::Overlay;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{Actor, DRAIN, Live};
use crate::{
    link::{Link, LinkError, connect, protocol_of},
    relist::Relist,
    server::{Connection, Shared},
    starts::{Urgency, within_turn},
    state::ServerEvent,
};

impl Actor {
    pub(super) fn connect(&mut self, urgency: Urgency) {
        self.starts += 1;
        let (shared, context) = (
            Arc::clone(&self.setting.shared),
            self.setting.context.clone(),
        );
        let (protocol, first) = (self.protocol, !self.has_run);
        self.under_way.connecting = Some(Box::pin(async move {
            let Shared {
                definition, log, ..
            } = &*shared;
            let turn = context.starts.admit(definition, first, urgency).await;
            let limit = &shared.max_message_bytes;
            within_turn(turn, connect(definition, protocol, &context, limit, log)).await
        }));
    }

    pub(super) async fn take_attempt(&mut self, result: Result<Link, LinkError>) {
        let event = match result {
            Ok(link) => return self.take_in(link).await,
            Err(error) => self.failure(&error),
        };
        self.step(event).await;
    }

    fn failure(&mut self, error: &LinkError) -> ServerEvent {
        match (error, self.protocol) {
            // Some servers of the `initialize` eras end themselves when another request comes first.
            (LinkError::Exited { .. }, Protocol::Auto) if !self.has_run => {
                self.protocol = Protocol::Legacy;
                ServerEvent::EndedOnProbe {
                    error: error.to_string(),
                }
            }
            (error, _) => {
                if error.is_refusal() {
                    // It may have been wrong to ask for the older eras only.
                    self.protocol = protocol_of(&self.setting.shared.definition);
                }
                ServerEvent::ConnectFailed {
                    permanent: error.is_permanent(),
                    error: error.to_string(),
                }
            }
        }
    }

    /// Makes a new connection the one that calls go to.
    async fn take_in(&mut self, link: Link) {
        let Link {
            client,
            child,
            tools,
        } = link;
        let now = Instant::now();
        self.has_run = true;
        let announced = client.announced();
        let noted = Announced::default();
        let connection = Arc::new(Connection::new(client));
        let mut relist = Relist::new(now);
        self.judge_list(&mut relist, Ok(tools));
        self.live = Some(Live {
            announced,
            noted,
            child,
            connection: Arc::clone(&connection),
            relist,
            offers_relist: Relist::new(now),
            made_at: now,
            tried_at: now,
        });
        self.setting.shared.connection.store(Some(connection));
        self.list_offers();
        self.step(ServerEvent::Connected).await;
    }

    pub(super) fn serves(&self, connection: &Arc<Connection>) -> bool {
        self.live
            .as_ref()
            .is_some_and(|live| Arc::ptr_eq(&live.connection, connection))
    }

    pub(super) async fn disconnect(&mut self) {
        let Some(Live {
            connection, child, ..
        }) = self.let_go()
        else {
            return;
        };
        let stop = self.setting.stop.clone();
        let (revoked, name) = (
            self.setting.shared.revoked.clone(),
            self.setting.shared.definition.name.clone(),
        );
        // Calls in flight and the close sequence of a process take long; a new connection may start meanwhile.
        self.end_with(async move {
            tokio::select! {
                () = drain(connection.client.drained(), stop.cancelled()) => {}
                () = is_revoked(revoked, name.as_str()) => connection.client.close(),
            }
            connection.client.end().await;
            if let Some(child) = child {
                child.end().await;
            }
        })
        .await;
    }

    /// Ends the connection whatever calls are under way on it, and then the process behind it.
    pub(super) async fn cut(&mut self) {
        let Some(Live {
            connection, child, ..
        }) = self.let_go()
        else {
            return;
        };
        connection.client.close();
        self.end_with(async move {
            if let Some(child) = child {
                child.end().await;
            }
        })
        .await;
    }

    /// Takes the connection out of use.
    fn let_go(&mut self) -> Option<Live> {
        self.setting.shared.connection.store(None);
        self.under_way.listing = None;
        self.under_way.offering = None;
        self.under_way.trying = None;
        self.live.take()
    }

    async fn end_with(&mut self, ending: impl Future<Output = ()> + Send + 'static) {
        if self.setting.stop.is_cancelled() {
            ending.await;
        } else {
            self.setting.context.tasks.spawn(ending);
        }
        self.publish();
    }
}

/// Completes when a server is revoked.
async fn is_revoked(mut revoked: watch::Receiver<Arc<Overlay>>, server: &str) {
    let waited = revoked.wait_for(|revoked| revoked.refuses(server, None).is_some());
    if waited.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Lets the calls in flight on a connection that was replaced go on until they have ended, or all servers are stopped.
async fn drain(ended: impl Future<Output = ()>, stopped: impl Future<Output = ()>) {
    tokio::select! {
        () = stopped => {}
        () = sleep(DRAIN) => {}
        () = ended => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        time::Duration,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_replaced_has_300_s_for_its_calls() {
        let began = Instant::now();
        drain(ready(()), pending()).await;
        drain(pending(), ready(())).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        drain(pending(), pending()).await;
        assert_eq!(began.elapsed(), Duration::from_secs(300));
    }
}
