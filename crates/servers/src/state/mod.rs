//! The life of one server as a pure machine: `step(state, event, now, chance)` gives the next state and what to do.
//!
//! Time and chance are passed in. The actor in `actor.rs` performs the effects and feeds their results back as events. What
//! status, reports and lists say of a server are functions of its state. The numbers and the predicates are those of the
//! guide, `docs/guide/servers.md`.

mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

/// Pauses before the second, third and fourth attempt of a first connect.
pub const FIRST_CONNECT_PAUSES: [Duration; 3] = [secs(1), secs(2), secs(4)];
/// Pauses before the attempts of a reconnect.
pub const RECONNECT_PAUSES: [Duration; 5] = [secs(1), secs(2), secs(4), secs(8), secs(16)];
/// The first cooldown after a ladder of attempts failed; it doubles each time.
pub const COOLDOWN_FIRST: Duration = secs(30);
/// The longest cooldown.
pub const COOLDOWN_LONGEST: Duration = secs(600);
/// How long a parked server waits for its first self-probe; it doubles each time.
pub const PROBE_FIRST: Duration = secs(30);
/// The longest pause between self-probes.
pub const PROBE_LONGEST: Duration = secs(300);
/// A server that was up this long starts its ladder anew: uptime resets it, not a handshake.
pub const STABLE_AFTER: Duration = secs(600);
/// A session that lasted this long may be renewed at once; one that is shorter counts as a failure, so that sessions that
/// only ever end are not renewed in a circle.
pub const SESSION_LASTED: Duration = secs(10);
/// How much chance may lengthen a pause.
pub const JITTER: f64 = 0.25;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    /// Its definition says `enabled: false`; it is never started.
    Disabled,
    /// It is registered and not running; its first use starts it.
    Lazy(Troubles),
    /// It has not been connected yet; an attempt runs, or the pause before the next one.
    Connecting(Attempt),
    /// It serves.
    Ready(Up),
    /// Its connection ended; an attempt runs, or the pause before the next one.
    Reconnecting(Attempt),
    /// A ladder of attempts failed; one attempt follows at the end.
    Cooldown(Rest),
    /// It failed in a way that waiting does not mend, such as a missing executable. It probes itself now and then.
    Parked(Rest),
    /// The one attempt after a cooldown, or a probe of a parked server, runs.
    Probing(Probe),
    /// It is revoked: it has no connection and is given none, whoever asks, until that is lifted.
    Revoked(Revoked),
    /// No configuration has it any more; calls that began before still hold it.
    Draining(Up),
    /// It has ended for good.
    Closed,
}

/// What went wrong lately. Only a long uptime makes it forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// How many attempts and connections failed.
    pub failures: u32,
    /// How many cooldowns and parkings there were.
    pub rests: u32,
}

/// A connection that serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Up {
    /// Since when.
    pub since: Instant,
    /// What went wrong before.
    pub troubles: Troubles,
}

/// A place on a ladder of attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// What went wrong before.
    pub troubles: Troubles,
    /// Whether the attempt runs.
    pub phase: Phase,
    /// Why the one before failed.
    pub error: Option<String>,
}

/// Whether an attempt runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// It runs.
    Running,
    /// It begins then.
    Waiting {
        /// When.
        until: Instant,
    },
}

/// A time in which nothing is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// When the next attempt is made.
    pub until: Instant,
    /// What went wrong before, this rest included.
    pub troubles: Troubles,
    /// Why.
    pub error: String,
}

/// One attempt outside a ladder.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Which rest it ended.
    pub after: Resting,
    /// What went wrong before.
    pub troubles: Troubles,
    /// Why the server rested.
    pub error: String,
}

/// A revocation that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// What went wrong before.
    pub troubles: Troubles,
    /// Why the server does not serve, in the words that are shown.
    pub why: String,
}

/// The two kinds of rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resting {
    /// [`ServerState::Cooldown`].
    Cooldown,
    /// [`ServerState::Parked`].
    Parked,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// An attempt led to a connection whose tools are listed.
    Connected,
    /// An attempt failed.
    ConnectFailed {
        /// Why.
        error: String,
        /// Whether waiting cannot mend it.
        permanent: bool,
    },
    /// An attempt failed since the server ended itself when it was asked for its era. The next one does not ask.
    EndedOnProbe {
        /// Why.
        error: String,
    },
    /// The connection ended.
    Lost {
        /// Why.
        error: String,
    },
    /// The server ended the session that the connection belonged to, as it may at any time.
    Expired,
    /// The time that the state waits for has come.
    Due,
    /// A call or a listing needs the server.
    Use,
    /// Nobody has needed the server for `idle_ttl_s`.
    Idle,
    /// Somebody asks for an attempt now.
    Probe,
    /// The configuration was read again.
    Wake,
    /// Somebody asks for a new connection, and for a new process where there is one.
    Restart,
    /// No configuration has the server any more.
    Retire,
    /// A configuration has the server again.
    Keep,
    /// The server was revoked.
    Revoke {
        /// Why it does not serve, in the words that are shown.
        why: String,
    },
    /// The revocation was lifted.
    Lift {
        /// Whether nothing but its first use starts it.
        lazy: bool,
    },
    /// Nobody holds the server any more, or the gateway ends.
    Close,
}

/// What the actor has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEffect {
    /// Begin an attempt to connect.
    Connect,
    /// Give up the attempt that runs.
    Abandon,
    /// End the connection and the process behind it, after the calls in flight where they need no process.
    Disconnect,
    /// End the connection at once, with all calls in flight, and the process behind it.
    Cut,
}

// === impl ServerState ===

impl ServerState {
    /// Returns the state of a server when its definition is taken in, and what to do.
    ///
    /// Nothing starts a lazy server but its first use.
    pub fn initial(enabled: bool, lazy: bool) -> (Self, Vec<ServerEffect>) {
        match (enabled, lazy) {
            (false, _) => (Self::Disabled, vec![]),
            (true, true) => (Self::Lazy(Troubles::default()), vec![]),
            (true, false) => (
                Self::Connecting(Attempt::first(Troubles::default())),
                vec![ServerEffect::Connect],
            ),
        }
    }

    /// Returns when [`ServerEvent::Due`] is to be sent.
    pub fn due_at(&self) -> Option<Instant> {
        match self {
            Self::Connecting(attempt) | Self::Reconnecting(attempt) => match attempt.phase {
                Phase::Running => None,
                Phase::Waiting { until } => Some(until),
            },
            Self::Cooldown(rest) | Self::Parked(rest) => Some(rest.until),
            Self::Disabled
            | Self::Lazy(_)
            | Self::Ready(_)
            | Self::Probing(_)
            | Self::Revoked(_)
            | Self::Draining(_)
            | Self::Closed => None,
        }
    }

    /// Returns the word for the state in status, logs and events. The pauses of a ladder are part of the connecting.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Lazy(_) => "lazy",
            Self::Connecting(_) | Self::Probing(_) => "connecting",
            Self::Ready(_) => "ready",
            Self::Reconnecting(_) => "reconnecting",
            Self::Cooldown(_) => "cooldown",
            Self::Parked(_) | Self::Revoked(_) => "parked",
            Self::Draining(_) => "draining",
            Self::Closed => "closed",
        }
    }

    /// Tells whether the server can be counted on: it serves, or its first use will start it and none has failed yet.
    ///
    /// A lazy server that has failed is in one of the states below, and back in [`ServerState::Lazy`] only after it served.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Lazy(_) | Self::Ready(_) => true,
            Self::Disabled
            | Self::Connecting(_)
            | Self::Reconnecting(_)
            | Self::Cooldown(_)
            | Self::Parked(_)
            | Self::Probing(_)
            | Self::Revoked(_)
            | Self::Draining(_)
            | Self::Closed => false,
        }
    }

    /// Tells whether the server is enabled and cannot be counted on.
    pub fn is_not_connected(&self) -> bool {
        match self {
            Self::Connecting(_)
            | Self::Reconnecting(_)
            | Self::Cooldown(_)
            | Self::Parked(_)
            | Self::Probing(_)
            | Self::Revoked(_) => true,
            Self::Disabled | Self::Lazy(_) | Self::Ready(_) | Self::Draining(_) | Self::Closed => {
                false
            }
        }
    }

    /// Tells whether the server is not connected, does not cool down, and nothing is in progress: an attempt now is what it
    /// needs.
    pub fn awaits_connect(&self) -> bool {
        match self {
            Self::Parked(_) => true,
            Self::Disabled
            | Self::Lazy(_)
            | Self::Connecting(_)
            | Self::Ready(_)
            | Self::Reconnecting(_)
            | Self::Cooldown(_)
            | Self::Probing(_)
            | Self::Revoked(_)
            | Self::Draining(_)
            | Self::Closed => false,
        }
    }

    /// Tells whether a call may wait for the server: an attempt runs or follows within a ladder.
    pub fn is_on_its_way(&self) -> bool {
        match self {
            Self::Connecting(_) | Self::Reconnecting(_) | Self::Probing(_) => true,
            Self::Disabled
            | Self::Lazy(_)
            | Self::Ready(_)
            | Self::Cooldown(_)
            | Self::Parked(_)
            | Self::Revoked(_)
            | Self::Draining(_)
            | Self::Closed => false,
        }
    }

    /// Returns the connection that calls go to, where there is one.
    pub fn up(&self) -> Option<&Up> {
        match self {
            Self::Ready(up) | Self::Draining(up) => Some(up),
            Self::Disabled
            | Self::Lazy(_)
            | Self::Connecting(_)
            | Self::Reconnecting(_)
            | Self::Cooldown(_)
            | Self::Parked(_)
            | Self::Probing(_)
            | Self::Revoked(_)
            | Self::Closed => None,
        }
    }

    /// Returns why the server does not serve, where something failed.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Connecting(attempt) | Self::Reconnecting(attempt) => attempt.error.as_deref(),
            Self::Cooldown(rest) | Self::Parked(rest) => Some(&rest.error),
            Self::Probing(probe) => Some(&probe.error),
            Self::Revoked(revoked) => Some(&revoked.why),
            Self::Disabled | Self::Lazy(_) | Self::Ready(_) | Self::Draining(_) | Self::Closed => {
                None
            }
        }
    }
}

// === impl Attempt ===

impl Attempt {
    /// Returns an attempt that runs, of a server that has not failed now.
    fn first(troubles: Troubles) -> Self {
        Self {
            troubles,
            phase: Phase::Running,
            error: None,
        }
    }
}
