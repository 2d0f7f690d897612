//! A number of clients that work off calls together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::http::Connection;
use super::template::Template;
use super::{Sample, nanoseconds};

/// Clients with one keep-alive connection each, which last as long as the fleet.
pub(crate) struct Fleet {
    connections: Vec<Connection>,
    template: Arc<Template>,
    /// The next request's id, which no two requests of a fleet share.
    next_id: u64,
    /// The connections' tasks; they end with the fleet.
    _drivers: JoinSet<()>,
}

// === impl Fleet ===

impl Fleet {
    /// Connects `clients` clients that all make the calls of `template`.
    ///
    /// # Errors
    /// A connection is refused.
    pub(crate) async fn open(
        address: SocketAddr,
        clients: u16,
        template: Template,
    ) -> anyhow::Result<Self> {
        let (mut connections, mut drivers) = (Vec::new(), JoinSet::new());
        for _ in 0..clients {
            connections.push(Connection::open(address, &mut drivers).await?);
        }
        // Ids of one width keep all requests of one length.
        Ok(Self {
            connections,
            template: Arc::new(template),
            next_id: 100_000_000,
            _drivers: drivers,
        })
    }

    /// Makes `calls` calls, each client the next one as soon as it has its answer.
    ///
    /// # Errors
    /// Any call fails or is answered wrongly.
    pub(crate) async fn run(&mut self, calls: u64) -> anyhow::Result<Sample> {
        let ids = self.next_id..self.next_id + calls;
        self.next_id = ids.end;
        let start = Instant::now();
        let latencies = match self.connections.as_mut_slice() {
            [only] => run_alone(only, &self.template, ids).await?,
            _ => self.run_together(ids).await?,
        };
        Ok(Sample {
            latencies,
            elapsed: start.elapsed(),
        })
    }

    /// Lets all clients draw ids from one counter, so that they end together.
    async fn run_together(&mut self, ids: std::ops::Range<u64>) -> anyhow::Result<Vec<u64>> {
        let calls = usize::try_from(ids.end - ids.start)?;
        let next = Arc::new(AtomicU64::new(ids.start));
        let mut clients = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let (template, next) = (Arc::clone(&self.template), Arc::clone(&next));
            clients.spawn(async move {
                let mut latencies = Vec::with_capacity(calls);
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= ids.end {
                        return anyhow::Ok((connection, latencies));
                    }
                    latencies.push(nanoseconds(connection.call(&template, id).await?));
                }
            });
        }
        let mut all = Vec::with_capacity(calls);
        while let Some(client) = clients.join_next().await {
            let (connection, latencies) = client.context("a client panicked")??;
            self.connections.push(connection);
            all.extend(latencies);
        }
        Ok(all)
    }
}

/// Makes the calls on one connection, one after another.
async fn run_alone(
    connection: &mut Connection,
    template: &Template,
    ids: std::ops::Range<u64>,
) -> anyhow::Result<Vec<u64>> {
    let mut latencies = Vec::with_capacity(usize::try_from(ids.end - ids.start)?);
    for id in ids {
        latencies.push(nanoseconds(connection.call(template, id).await?));
    }
    Ok(latencies)
}
