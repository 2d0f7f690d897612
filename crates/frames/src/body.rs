//! The bodies of the frames.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    ids::{Birth, Epoch, ExecutionId, Pid, PolicySeq, SessionId},
    secret::{self, ExecutionSecret, PrivateValues},
};

/// What a worker says first: who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its process.
    pub pid: Pid,
    /// When that was started.
    pub birth: Birth,
    /// The newest version of the frames that it knows.
    pub version: u32,
}

/// What a worker is to be: all that it may run comes from here. Each field is checked by the worker.
#[derive(Serialize, Deserialize)]
pub struct Bootstrap {
    /// The version that both sides speak from here on.
    pub version: u32,
    /// The profile.
    pub profile_id: String,
    /// The session.
    pub session_id: SessionId,
    /// The number of the pinned generation, at least 1.
    pub generation: u64,
    /// The number of the session's policy, at least 1.
    pub policy_seq: PolicySeq,
    /// The process that is meant: the worker's own.
    pub pid: Pid,
    /// When that was started.
    pub birth: Birth,
    /// The authority's epoch.
    pub epoch: Epoch,
    /// How often each side sends a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// How long a side may be silent before it counts as lost, in milliseconds.
    pub silence_ms: u64,
    /// What the session runs.
    pub policy: Policy,
    /// The private values of the config in the policy.
    #[serde(with = "secret::values")]
    pub private: PrivateValues,
    /// What is revoked now, as far as it binds the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<Revoked>,
}

/// Something was revoked, or lifted. It binds the worker from here on, a turn that runs included, and takes the place of what
/// was said before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocations {
    /// All that is revoked now, as far as it binds the session.
    pub revoked: Vec<Revoked>,
}

/// One revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// What kind of thing is revoked.
    pub kind: RevokedKind,
    /// Its name: a server's, a tool's as `server/tool`, or the session's id.
    pub name: String,
    /// Why, for people.
    pub reason: String,
    /// The number of the generation that revoked it, at least 1.
    pub number: u64,
}

/// A kind of thing whose revocation binds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevokedKind {
    /// A server, with all that it offers.
    Server,
    /// One tool of a server.
    Tool,
    /// The session itself.
    Session,
}

/// What a session runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Policy {
    /// The redacted config of the pinned generation, an object.
    pub config: Box<RawValue>,
    /// The servers that were selected; no other is ever started.
    pub servers: Vec<SelectedServer>,
    /// The directory that the session works in, absolute.
    pub cwd: String,
}

/// A server that a session may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedServer {
    /// Its name in the config.
    pub name: String,
}

/// A worker has taken its bootstrap and takes turns; its servers may still be connecting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Its servers as they are.
    pub servers: Vec<ServerView>,
}

/// Servers of a worker changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServersChanged {
    /// All its servers as they are now.
    pub servers: Vec<ServerView>,
}

/// A server as a worker sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerView {
    /// Its name in the config.
    pub name: String,
    /// The word for its state.
    pub state: String,
    /// Whether it serves.
    pub ready: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last failure, kept while it serves again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// How many tools it lists.
    #[serde(default)]
    pub tools: u64,
    /// The process behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u64,
}

/// Gives a turn to a worker.
#[derive(Serialize, Deserialize)]
pub struct Turn {
    /// What was reserved for it.
    pub execution_id: ExecutionId,
    /// What the worker adopts it with.
    #[serde(with = "secret::execution")]
    pub secret: ExecutionSecret,
    /// The authority's epoch, never lower than one before.
    pub epoch: Epoch,
    /// What to do, as it was submitted.
    pub payload: Box<RawValue>,
    /// How long it may take from now, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// A worker takes a turn: it proves that it was given to it, and does nothing before this is answered.
#[derive(Serialize, Deserialize)]
pub struct Adopt {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its secret. The pipe that this goes over has just carried it the other way, so that a hash of it would prove no
    /// more; what is stored is only its digest.
    #[serde(with = "secret::execution")]
    pub secret: ExecutionSecret,
}

/// The turn is the worker's: it may begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// The execution.
    pub execution_id: ExecutionId,
}

/// The turn is not the worker's: it must not begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The stable code of the reason.
    pub code: String,
    /// The reason.
    pub message: String,
}

/// What happens in a turn, while it runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Event {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The number of the event in its execution: 1 and up, without a gap.
    pub sequence: u64,
    /// What happened.
    pub kind: EventKind,
    /// The place of the call in the turn's payload, from 0.
    pub call: u32,
    /// The server that is called; where a call started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool that is called; where a call started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The code of its error; where a call ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took, in milliseconds; where a call ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// What the server sent; where it reports progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A call was begun.
    CallStarted,
    /// A server reports progress of a call.
    Progress,
    /// A call ended.
    CallEnded,
}

/// How a turn ended, the last thing said about it. It is the worker's until `finish`.
#[derive(Debug, Serialize, Deserialize)]
pub struct TurnResult {
    /// The execution.
    pub execution_id: ExecutionId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What it led to; also what there is of it where it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Fault>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// It ran to its end; calls in it may have failed.
    Completed,
    /// It did not.
    Failed,
    /// It was interrupted or stopped.
    Interrupted,
}

/// A stable code, and words for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The stable code.
    pub code: String,
    /// What went wrong; shows no private value.
    pub message: String,
}

/// The result is taken: the worker may forget the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The execution.
    pub execution_id: ExecutionId,
}

/// The worker has forgotten the turn and takes the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The execution.
    pub execution_id: ExecutionId,
}

/// Asks for the end of one turn; it is answered by its `result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The execution.
    pub execution_id: ExecutionId,
}

/// Asks for the end of the worker now: a turn that runs is interrupted, the servers are ended, the worker exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {}

/// Asks for the end of the worker between turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retire {}

/// Says that the other side is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Counts up.
    pub sequence: u64,
}

/// A worker cannot go on, or, where it names an execution, does not take that turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What went wrong; shows no private value.
    pub message: String,
    /// The turn that is not taken; nothing of it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
}
