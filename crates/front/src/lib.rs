//! The MCP surface of Genlock: one dispatcher behind HTTP and pipes, for both protocol eras.
//!
//! A request is admitted by its transport, answered by [`Front`] from the compiled catalog and the servers, and leaves in
//! the form of its era. This crate owns sessions of the `initialize` eras, tool names, lists, meta tools, the checks at
//! the door and the status routes. It starts no process and reads no file. See `docs/architecture.md`.

mod batch;
mod catalog;
mod cursor;
mod desk;
mod era;
mod exchange;
mod explain;
mod front;
mod guard;
mod http;
mod limits;
mod listen;
mod meta_tools;
mod naming;
mod pipe;
mod probes;
mod reply;
mod resources;
mod sessions;
mod tenant;
mod views;
mod visit;
mod witness;
mod world;
mod worlds;

pub use desk::Desk;
pub use explain::walk_connection;
pub use front::{Entropy, Front, FrontParts};
pub use http::{Need, Needs};
pub use visit::{Keys, RemoteAddress};
pub use witness::{Refusal, Target, Witness};
