//! MCP on the wire: raw JSON-RPC envelopes, protocol eras, header rules, client and server transports.
//!
//! Payloads pass through untouched: a [`RawJson`] is the bytes that arrived, and only what a hop must look at is taken
//! apart. This crate owns framing and the rules of the protocol's revisions. It knows nothing of configuration, of
//! names of servers or of who calls, and it starts no process. See `docs/architecture.md`.

pub mod body;
pub mod client;
pub mod error;
pub mod headers;
pub mod lines;
pub mod message;
pub mod meta;
pub mod server;
pub mod sse;

mod limit;
mod object;
mod params;
mod raw;
mod scan;
mod version;
mod wire;

pub use body::WireBody;
pub use error::RpcError;
pub use limit::ByteLimit;
pub use message::{Incoming, Message, Notification, Outcome, Request, RequestId, Response};
pub use object::RawObject;
pub use params::{AnnotationError, ParamHeaders};
pub use raw::RawJson;
pub use scan::{JsonError, MAX_DEPTH};
pub use version::{Era, ProtocolVersion};
pub use wire::Wire;
