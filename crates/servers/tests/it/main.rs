//! The actor of a server over a transport in memory, with time that passes only when nothing else happens.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod calls;
mod life;
mod peer;
mod quiet;
mod revoked;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use genlock_config::{Config, ServerDefinition, ServerName, TransportDefinition};
use genlock_mcp::{Outcome, RawJson, RawObject, client::Call};
use genlock_servers::{Pool, PoolBuilder, Server, ServerError, ServerSnapshot, Servers};
use tokio::time::Instant;

use self::peer::Peer;

const S: fn(u64) -> Duration = Duration::from_secs;

/// One server over a peer, and what it takes to change its configuration.
struct Stage {
    pool: Pool,
    servers: Servers,
    peer: Arc<Peer>,
    began: Instant,
}

impl Stage {
    fn new(peer: Peer, edit: impl FnOnce(&mut ServerDefinition)) -> Self {
        let peer = Arc::new(peer);
        let connects = Arc::clone(&peer);
        let pool = PoolBuilder::new(|| SystemTime::UNIX_EPOCH, || 0.0)
            .builtin(Arc::new(move || connects.connect()))
            .build();
        let (servers, _) = pool.reconcile(&config(edit), &Servers::default());
        Self {
            pool,
            servers,
            peer,
            began: Instant::now(),
        }
    }

    /// Takes another definition in; gives the server that it replaces.
    fn change(&mut self, edit: impl FnOnce(&mut ServerDefinition)) -> Server {
        let (servers, _) = self.pool.reconcile(&config(edit), &self.servers);
        let before = std::mem::replace(&mut self.servers, servers);
        self.pool.retire(&before, &self.servers, S(300));
        before.get("one").unwrap().clone()
    }

    fn server(&self) -> &Server {
        self.servers.get("one").unwrap()
    }

    fn state(&self) -> &'static str {
        self.server().snapshot().state
    }

    /// Waits until the server is as wanted, and says when that was, in seconds.
    async fn until(&self, is: impl Fn(&ServerSnapshot) -> bool) -> f64 {
        let mut watched = self.server().watch();
        watched.wait_for(|snapshot| is(snapshot)).await.unwrap();
        self.now()
    }

    async fn until_state(&self, state: &str) -> f64 {
        self.until(|snapshot| snapshot.state == state).await
    }

    /// How long the stage is there, in seconds, to a tenth.
    fn now(&self) -> f64 {
        tenths(self.began.elapsed())
    }

    async fn call(&self) -> Result<String, ServerError> {
        call(self.server(), "echo").await
    }
}

fn tenths(span: Duration) -> f64 {
    (span.as_secs_f64() * 10.0).round() / 10.0
}

async fn call(server: &Server, tool: &str) -> Result<String, ServerError> {
    let params = [("name", RawJson::string(tool))].into_iter().collect();
    let call = Call {
        method: "tools/call".to_owned(),
        params,
        ..Call::default()
    };
    let outcome = server.call(call, None).await?;
    let result = match outcome {
        Outcome::Object(result) => result,
        Outcome::Result(result) => RawObject::parse(&result).unwrap(),
        Outcome::Error(error) => panic!("{error:?}"),
    };
    Ok(result.get_string("said").unwrap())
}

fn config(edit: impl FnOnce(&mut ServerDefinition)) -> Config {
    let name = ServerName::new("one").unwrap();
    let mut definition = ServerDefinition::new(name.clone(), TransportDefinition::Builtin);
    definition.connect_timeout = S(1);
    edit(&mut definition);
    Config {
        servers: BTreeMap::from([(name, definition)]),
        ..Config::default()
    }
}

fn not_connected(error: &ServerError) -> (&str, Option<&str>) {
    match error {
        ServerError::NotConnected { state, reason, .. } => (state, reason.as_deref()),
        ServerError::Revoked { .. }
        | ServerError::BreakerOpen { .. }
        | ServerError::Busy { .. }
        | ServerError::Call { .. } => panic!("{error:?}"),
    }
}
