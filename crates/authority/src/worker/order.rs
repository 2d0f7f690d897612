//! What a worker is started for, what it is given to do, and what comes of it.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use genlock_config::{PrivateValues, ProfileId, ServerName};
use genlock_frames::{
    Bootstrap, Epoch, ExecutionId, ExecutionSecret, Policy, PolicySeq, PrivateValue, Revoked,
    RevokedKind, SelectedServer, SessionId,
};
use genlock_policy::{Generation, Overlay, Revocation, RevocationKind, Selection};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use tokio::time::Instant;

use super::{error::Loss, process::Identity};

/// The sections of a config that a worker has a use for; it gets no other, and no private value of any other.
const SECTIONS: [&str; 2] = ["execution", "interceptors"];

/// What a worker is started for: one session under one policy.
#[derive(Clone)]
pub struct WorkerOrder {
    /// The profile that runs, whatever profile the config names.
    pub profile: ProfileId,
    /// The session.
    pub session: SessionId,
    /// The number of its policy.
    pub policy_seq: PolicySeq,
    /// The authority's epoch.
    pub epoch: Epoch,
    /// The generation that the policy pins, private values included.
    pub generation: Arc<Generation>,
    /// What the policy selects.
    pub selection: Selection,
    /// The directory that the session works in, absolute.
    pub cwd: Utf8PathBuf,
}

/// A turn that was reserved.
pub struct TurnOrder {
    /// What was reserved.
    pub execution_id: ExecutionId,
    /// What the worker proves itself with; only its digest is stored, see [`secret_digest`].
    pub secret: ExecutionSecret,
    /// The authority's epoch, never lower than one before.
    pub epoch: Epoch,
    /// What to do, as it was submitted.
    pub payload: Box<RawValue>,
    /// When it has to be over.
    pub deadline: Option<Instant>,
}

/// The digest of a turn's secret. Compares in constant time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest(blake3::Hash);

/// Returns what is stored of a turn's secret.
pub fn secret_digest(secret: &ExecutionSecret) -> SecretDigest {
    SecretDigest(blake3::hash(secret.expose().as_bytes()))
}

impl SecretDigest {
    /// Returns the bytes, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// What happens in a turn while it runs.
#[derive(Debug)]
pub enum TurnEvent {
    /// The worker proved that the turn was given to it, and begins.
    Adopted,
    /// A call began.
    CallStarted {
        /// Its place in the payload, from 0.
        call: u32,
        /// The server that is called.
        server: String,
        /// The tool that is called.
        tool: String,
    },
    /// A server reports progress of a call.
    Progress {
        /// The place of the call in the payload.
        call: u32,
        /// What the server sent.
        data: Box<RawValue>,
    },
    /// A call ended.
    CallEnded {
        /// Its place in the payload.
        call: u32,
        /// The code of its error, where it ended with one.
        code: Option<String>,
        /// How long it took.
        elapsed: Duration,
    },
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// It ran to its end.
    Completed {
        /// What it led to.
        result: Box<RawValue>,
    },
    /// It failed as a whole.
    Failed {
        /// The stable code.
        code: String,
        /// What went wrong.
        message: String,
        /// What there is of a result.
        result: Option<Box<RawValue>>,
    },
    /// It was interrupted, or the worker stopped.
    Interrupted {
        /// What there is of a result.
        result: Option<Box<RawValue>>,
    },
    /// The worker did not take it: nothing of it ran.
    Rejected {
        /// The stable code.
        code: String,
        /// Why.
        message: String,
    },
    /// The worker was lost.
    Lost {
        /// Whether the worker may have got the turn. Where it may, nobody knows how far the turn came: it is `unknown`,
        /// and is never run again. Where it may not, nothing of it ran.
        reserved: bool,
        /// What happened to the worker.
        loss: Loss,
    },
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It was retired.
    Retired,
    /// It was stopped, or its last handle was dropped.
    Stopped,
    /// It was lost.
    Lost(Loss),
}

// === impl WorkerOrder ===

impl WorkerOrder {
    /// Makes the bootstrap for a process. It has the servers that are selected and what a worker needs beside them.
    pub(crate) fn bootstrap(
        &self,
        process: Identity,
        version: u32,
        beats: (Duration, Duration),
        revoked: &Overlay,
    ) -> Result<Bootstrap, serde_json::Error> {
        let (form, private) = self.generation.config.split();
        let selected = &self.selection.servers;
        let form = reduced(form.as_json(), &self.profile, selected);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Ok(Bootstrap {
            version,
            profile_id: self.profile.as_str().to_owned(),
            session_id: self.session.clone(),
            generation: self.generation.number.get(),
            policy_seq: self.policy_seq,
            pid: process.pid,
            birth: process.birth,
            epoch: self.epoch,
            heartbeat_ms: millis(beats.0),
            silence_ms: millis(beats.1),
            policy: Policy {
                config: to_raw_value(&form)?,
                servers: selected
                    .iter()
                    .map(|name| SelectedServer { name: name.clone() })
                    .collect(),
                cwd: self.cwd.to_string(),
            },
            private: framed(&private, selected),
            revoked: self.binding(revoked),
        })
    }

    /// Returns what of the revocations binds the session.
    pub(crate) fn binding(&self, revoked: &Overlay) -> Vec<Revoked> {
        let is_selected = |server: &str| self.selection.servers.contains(server);
        let binds = |revocation: &&Revocation| match revocation.kind {
            RevocationKind::Server => is_selected(&revocation.name),
            // A server's name may have a slash as well.
            RevocationKind::Tool => {
                let mut slashes = revocation.name.match_indices('/');
                slashes.any(|(at, _)| is_selected(&revocation.name[..at]))
            }
            RevocationKind::Session => revocation.name == self.session.as_str(),
            RevocationKind::Key => false,
        };
        let binding = revoked.revoked.iter().filter(binds);
        binding.filter_map(framed_revocation).collect()
    }

    /// Returns the names of the gateway's variables that the selected servers ask for.
    pub(crate) fn passed_variables(&self) -> BTreeSet<String> {
        let selected = self.generation.config.servers.values();
        selected
            .filter(|server| self.selection.servers.contains(server.name.as_str()))
            .filter_map(|server| match &server.transport {
                genlock_config::TransportDefinition::Stdio(stdio) => Some(&stdio.env_pass),
                genlock_config::TransportDefinition::Http(_)
                | genlock_config::TransportDefinition::Builtin => None,
            })
            .flatten()
            .cloned()
            .collect()
    }
}

impl fmt::Debug for WorkerOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOrder")
            .field("session", &self.session)
            .field("policy_seq", &self.policy_seq)
            .field("generation", &self.generation.number)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TurnOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnOrder")
            .field("execution_id", &self.execution_id)
            .finish_non_exhaustive()
    }
}

fn framed_revocation(revocation: &Revocation) -> Option<Revoked> {
    let kind = match revocation.kind {
        RevocationKind::Server => RevokedKind::Server,
        RevocationKind::Tool => RevokedKind::Tool,
        RevocationKind::Session => RevokedKind::Session,
        // Keys are for those who call, and no worker is called.
        RevocationKind::Key => return None,
    };
    Some(Revoked {
        kind,
        name: revocation.name.clone(),
        reason: revocation.reason.clone(),
        number: revocation.number.get(),
    })
}

/// Leaves what a worker needs of a config: the selected servers, and the sections it has a use for.
fn reduced(form: &Value, profile: &ProfileId, selected: &BTreeSet<String>) -> Value {
    let mut kept = Map::new();
    kept.insert("profile".to_owned(), profile.as_str().into());
    for section in SECTIONS {
        if let Some(value) = form.get(section) {
            kept.insert(section.to_owned(), value.clone());
        }
    }
    let servers = form.get("mcp_servers").and_then(Value::as_object);
    let servers: Map<_, _> = servers
        .into_iter()
        .flatten()
        .filter(|(name, _)| selected.contains(*name))
        .map(|(name, server)| (name.clone(), server.clone()))
        .collect();
    kept.insert("mcp_servers".to_owned(), Value::Object(servers));
    Value::Object(kept)
}

/// Puts the private values of the selected servers into a bootstrap.
fn framed(private: &PrivateValues, selected: &BTreeSet<String>) -> genlock_frames::PrivateValues {
    let names = selected
        .iter()
        .filter_map(|name| ServerName::new(name.clone()).ok());
    let own = names.map(|name| private.of_server(&name));
    let mut values = Vec::new();
    for own in own {
        values.extend(own.iter().map(|(pointer, value)| {
            let framed = PrivateValue {
                value: value.value().cloned(),
                secrets: value.secrets().to_vec(),
            };
            (pointer.to_owned(), framed)
        }));
    }
    values.into_iter().collect()
}
