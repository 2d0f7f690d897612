//! The typed frames between a gateway and its workers.
//!
//! A frame is one line of JSON with a version `v`, a tag `type` and the fields of its body. [`ToWorker`] and
//! [`ToGateway`] are what each side may send; [`encode`] writes a frame, [`Decoder`] reads frames out of bytes. See
//! `docs/design/004-frames-and-workers.md`.
//!
//! ```
//! use genlock_frames::{Decoder, Heartbeat, ToWorker, encode};
//!
//! let lines = encode(&ToWorker::Heartbeat(Heartbeat { sequence: 7 }), 0)?;
//! assert_eq!(lines, [b"{\"v\":2,\"type\":\"heartbeat\",\"sequence\":7}\n".to_vec()]);
//!
//! let mut decoder = Decoder::<ToWorker>::new();
//! decoder.push(&lines[0]);
//! assert!(matches!(decoder.next(), Ok(Some(ToWorker::Heartbeat(Heartbeat { sequence: 7 })))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants, above all the absences:
//! - Nothing here reads or writes: no tokio, no clock, no process, no database.
//! - A frame of unbounded length cannot be made a reader hold: a line is at most [`MAX_FRAME_BYTES`], what travels in
//!   chunks at most [`MAX_MESSAGE_BYTES`].
//! - Unknown fields are tolerated, unknown tags are refused, and a reader that refused once reads no more.
//! - An error never quotes what was read: it may be private.
//! - Private values and the secret of a turn have no `Debug`, no `Display` and no `Serialize` of their own: they leave
//!   only as a part of the frame that carries them.

mod body;
mod chunk;
mod decode;
mod encode;
mod error;
mod frame;
mod ids;
mod process;
mod schema;
mod secret;

pub use self::{
    body::{
        Adopt, Adopted, Bootstrap, Event, EventKind, Failure, Fault, Finish, Finished, Heartbeat,
        Hello, Interrupt, Policy, Ready, Refused, Retire, Revocations, Revoked, RevokedKind,
        SelectedServer, ServerView, ServersChanged, Stop, Turn, TurnOutcome, TurnResult,
    },
    chunk::{CHUNK_BYTES, ChunkError, MAX_OPEN_STREAMS},
    decode::Decoder,
    encode::{EncodeError, encode},
    error::FrameError,
    frame::{Frame, ToGateway, ToWorker},
    ids::{Birth, Epoch, ExecutionId, InvalidId, Pid, PolicySeq, SessionId},
    process::ProcessStat,
    schema::json_schema,
    secret::{ExecutionSecret, PrivateValue, PrivateValues},
};

/// The version of the frames that this crate writes.
pub const VERSION: u32 = 2;
/// The first version in which a worker can be told of [`Revocations`]. One that cannot is given no session.
pub const REVOCATIONS_SINCE: u32 = 2;
/// The oldest version that it reads.
pub const OLDEST_VERSION: u32 = 1;
/// The longest line, without its end, in bytes.
pub const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;
/// The largest frame that travels in chunks, in bytes; all that are under way at once count.
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024 * 1024;

/// Returns the version that two sides speak with each other, the other one naming the newest that it knows.
///
/// Frames of a newer version are read as far as this one knows them, so that either side may be the newer one; `None`
/// where the other side is older than what is still read.
pub fn common_version(newest_of_peer: u32) -> Option<u32> {
    (newest_of_peer >= OLDEST_VERSION).then(|| newest_of_peer.min(VERSION))
}
