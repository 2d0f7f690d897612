//! The Genlock MCP gateway as a library.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use genlock_config::{Variables, load};
//! use genlock_gateway::{Gateway, Host};
//!
//! let variables: Variables = std::env::vars().collect();
//! let config = load("genlock.yaml".into(), &variables)?.config;
//! let gateway = Gateway::builder(config, Host::system()).environment(std::env::vars()).start();
//! let app = axum::Router::new().merge(gateway.router());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8717").await?;
//! gateway.serve(listener, app, std::future::pending(), std::future::pending()).await;
//! # Ok(()) }
//! ```
//!
//! This crate composes the others and owns start, stop, the state directory with its lock, and the control socket. It
//! reads no environment and no arguments, installs no logger, and ends no process, so that several gateways can run in
//! one. See `docs/architecture.md`.

mod api;
mod audit;
mod boot;
mod bridge;
mod control;
mod demo;
mod events;
mod gateway;
mod history;
mod keys;
mod methods;
mod metrics;
mod pinned_doors;
mod pins;
mod reload;
mod reload_request;
mod report;
mod revocations;
mod routes;
mod runners;
mod source;
mod state_dir;
mod status;
mod watch;

pub use boot::BootError;
pub use bridge::{Backend, bridge};
pub use control::{ControlClient, ControlError};
pub use demo::serve as serve_demo;
pub use events::Event;
pub use gateway::{Gateway, GatewayBuilder, Home, Host, ReloadTrigger};
pub use history::{HistoryError, RestoreFault};
pub use keys::{KeysError, Offline};
pub use reload::ReloadRequest;
pub use report::{Phases, ReloadError, Report, ServersReport};
pub use source::ConfigSource;
pub use state_dir::{ClaimError, Holder, StateDir};
