//! Calls: who waits for a connection, what is made again, and what a breaker keeps back.

use std::sync::{Arc, atomic::Ordering};

use genlock_mcp::{
    Outcome,
    client::{Call, CallError, Client},
};
use tokio::time::{Instant, timeout_at};

use super::{Command, Connection, PATIENCE, Server, ServerError};
use crate::{
    breaker::{Breaker, Refused, Verdict},
    revoked::tool_of,
};

impl Server {
    /// Calls the server and waits for the answer, within the definition's `timeout` and the deadline.
    ///
    /// What is revoked is refused, also where the call had begun to wait before; one in flight ends with its connection.
    ///
    /// A server that is lazy or being connected is waited for; one that is parked or cools down refuses at once, and so does
    /// one whose transport failed too often. A call is made again only where it certainly did not run.
    ///
    /// # Errors
    /// Where there is no answer; an error object of the server is an answer.
    ///
    /// # Cancel safety
    /// A dropped call is cancelled at the server.
    pub async fn call(
        &self,
        call: Call,
        deadline: Option<Instant>,
    ) -> Result<Outcome, ServerError> {
        self.admit(tool_of(&call).as_deref())?;
        let (now, timeout) = (Instant::now(), self.lease.shared.definition.timeout);
        let own = now + timeout;
        let deadline = deadline.map_or(own, |deadline| deadline.min(own));
        // Most of its time is as good as all of it: the rest went by while it waited for its turn.
        let patient = deadline.saturating_duration_since(now) >= timeout.mul_f64(0.9);
        let answer = self.call_within(call, deadline, patient).await;
        answer.map_err(|error| self.because_revoked(error))
    }

    async fn call_within(
        &self,
        call: Call,
        deadline: Instant,
        patient: bool,
    ) -> Result<Outcome, ServerError> {
        let shared = &self.lease.shared;
        let _in_use = shared.usage.begin();
        let again = call.clone();
        let tool = tool_of(&again);
        let tool = tool.as_deref();
        let (_slots, connection) = tokio::select! {
            biased;
            ready = self.turn(deadline) => ready?,
            refused = self.refused(tool) => return Err(refused),
        };
        // From here on only the transport is waited for: a full pipe, or a connection over HTTP.
        self.admit(tool)?;
        let error = match self.call_on(&connection, call, deadline, patient).await {
            Err(ServerError::Call {
                source: source @ (CallError::SessionExpired | CallError::Closed { sent: false }),
                ..
            }) => source,
            ended => {
                self.doubt(&connection, &ended);
                return ended;
            }
        };
        // Whoever comes first has the connection renewed; all wait for the same new one.
        let renew = Command::Renew(Arc::clone(&connection));
        if shared.commands.send(renew).await.is_err() {
            return Err(self.failed(error));
        }
        let renewed = tokio::select! {
            biased;
            renewed = self.connection_after(&connection, deadline) => renewed?,
            refused = self.refused(tool) => return Err(refused),
        };
        self.admit(tool)?;
        self.call_on(&renewed, again.clone(), deadline, patient)
            .await
    }

    /// Waits until the call may begin: for its slots, and for a connection.
    async fn turn(
        &self,
        deadline: Instant,
    ) -> Result<(impl Sized + use<>, Arc<Connection>), ServerError> {
        let slots = self.slots(deadline).await?;
        self.lease.shared.calls.fetch_add(1, Ordering::Relaxed);
        Ok((slots, self.connection(deadline).await?))
    }

    async fn call_on(
        &self,
        connection: &Connection,
        call: Call,
        deadline: Instant,
        patient: bool,
    ) -> Result<Outcome, ServerError> {
        let pass =
            connection
                .breaker
                .admit()
                .map_err(|Refused { .. }| ServerError::BreakerOpen {
                    server: self.name().to_owned(),
                })?;
        let ended = connection.client.call(call, deadline).await;
        pass.ended(connection.verdict(&ended, patient));
        ended.map_err(|error| self.failed(error))
    }

    /// Has the connection tried where a call's credentials were refused: a key that was withdrawn parks the server, one that
    /// only lacks the right to one tool does not.
    fn doubt(&self, connection: &Arc<Connection>, ended: &Result<Outcome, ServerError>) {
        if let Err(ServerError::Call {
            source: CallError::Unauthorized { .. },
            ..
        }) = ended
        {
            let doubt = Command::Doubt(Arc::clone(connection));
            // A full queue is worked off soon, and the next such call asks again.
            let _ = self.lease.shared.commands.try_send(doubt);
        }
    }

    fn failed(&self, source: CallError) -> ServerError {
        ServerError::Call {
            server: self.name().to_owned(),
            source,
        }
    }

    async fn slots(&self, deadline: Instant) -> Result<impl Sized + use<>, ServerError> {
        let both = async {
            // The server's own slot first, so that waiting for a slow server takes no slot from the others.
            let own = self.lease.shared.slots.take().await;
            (own, self.lease.shared.all_slots.take().await)
        };
        timeout_at(deadline, both)
            .await
            .map_err(|_| ServerError::Busy {
                server: self.name().to_owned(),
            })
    }

    async fn connection(&self, deadline: Instant) -> Result<Arc<Connection>, ServerError> {
        match self.lease.shared.connection.load_full() {
            Some(connection) => Ok(connection),
            None => self.wait_for(|_| true, deadline).await,
        }
    }

    async fn connection_after(
        &self,
        old: &Arc<Connection>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, ServerError> {
        self.wait_for(|connection| !Arc::ptr_eq(connection, old), deadline)
            .await
    }

    async fn wait_for(
        &self,
        wanted: impl Fn(&Arc<Connection>) -> bool,
        deadline: Instant,
    ) -> Result<Arc<Connection>, ServerError> {
        let shared = &self.lease.shared;
        // One whole attempt and what comes before it, so that a caller is not held for a ladder of attempts.
        let patience = Instant::now() + shared.definition.connect_timeout + PATIENCE;
        let mut watched = shared.snapshot.subscribe();
        let mut needed = "";
        let waited = timeout_at(deadline.min(patience), async {
            loop {
                let (takes_calls, state) = {
                    let snapshot = watched.borrow_and_update();
                    (snapshot.takes_calls(), snapshot.state)
                };
                if let Some(connection) = shared.connection.load_full().filter(&wanted) {
                    return Some(connection);
                }
                if !takes_calls {
                    return None;
                }
                // Once for each state: what the actor does not do at once it does in its time.
                if std::mem::replace(&mut needed, state) != state {
                    self.need(state).await;
                }
                if watched.changed().await.is_err() {
                    return None;
                }
            }
        });
        waited.await.ok().flatten().ok_or_else(|| {
            let snapshot = self.snapshot();
            ServerError::NotConnected {
                server: snapshot.name,
                state: snapshot.state,
                reason: snapshot.reason,
            }
        })
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            breaker: Breaker::default(),
        }
    }

    /// Says what the end of a call tells of the transport. `patient` is whether the call had the time that its server's
    /// definition gives it.
    fn verdict(&self, ended: &Result<Outcome, CallError>, patient: bool) -> Verdict {
        let Err(error) = ended else {
            return Verdict::Answered;
        };
        match error {
            // A connection that has ended is replaced, and its breaker with it.
            CallError::Closed { .. } if self.client.is_closed() => Verdict::Nothing,
            CallError::Closed { .. } | CallError::Connect { .. } | CallError::BadAnswer { .. } => {
                Verdict::Failed
            }
            CallError::DeadlineExceeded { .. } if patient => Verdict::Failed,
            CallError::DeadlineExceeded { .. }
            | CallError::SessionExpired
            | CallError::Unauthorized { .. }
            | CallError::Unassigned { .. } => Verdict::Nothing,
            CallError::Status { status, .. } if status.is_server_error() => Verdict::Failed,
            CallError::Status { .. } | CallError::TooLarge { .. } => Verdict::Answered,
        }
    }
}
