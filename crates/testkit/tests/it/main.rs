//! The testkit against itself: its clients, its harness and its fake server.

mod http;
mod life;
#[cfg(feature = "rmcp-peer")]
mod rmcp_peer;
mod stdio;
