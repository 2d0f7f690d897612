//! MCP server lifecycle: connections, the processes behind them, tool lists and calls.
//!
//! Every server has an actor of its own that performs what the pure machine in [`state`] decides; status, logs and
//! reports read the one snapshot it publishes. This crate owns child processes and connections. It knows nothing of who
//! calls or of what a caller may see, reads no environment (the host passes it), and talks to no database. See
//! `docs/architecture.md`.

mod actor;
mod breaker;
mod cache;
mod link;
mod offers;
mod pool;
mod process;
mod quiet;
mod relist;
mod revoked;
mod server;
mod slots;
mod snapshot;
mod starts;
pub mod state;
mod tools;
mod usage;

pub use cache::SchemaCache;
pub use link::{Builtin, LinkError};
pub use offers::{Offer, Offers};
pub use pool::{Draining, Pool, PoolBuilder, Reconciled, Servers};
pub use process::{ContainmentReport, HostEnvironment, Keeper, Role, Rung, SpawnError, role};
pub use server::{Server, ServerError};
pub use slots::{Slot, Slots};
pub use snapshot::{ServerSnapshot, StateChange};
pub use tools::{Tool, ToolSet};
