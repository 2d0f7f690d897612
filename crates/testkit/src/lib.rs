//! Test support for Genlock: a fake MCP server, raw MCP clients, and a harness for whole-process tests.
//!
//! It knows no other crate of the workspace: it is the independent peer that the others are held against.
//!
//! - Binary `genlock-fake-server`: every trait and every fault of an MCP server, by flag (`--help`).
//!   With `--control DIR` a test steers it while it runs, by files in that directory:
//!   `extra_tool` (the list has one tool more while it exists), `fail_list` (listings fail while it exists),
//!   `extra_resource`, `extra_prompt` (one more while it exists), `fail_offers` (lists other than tools fail while it exists),
//!   `no_tools` (the list is empty while it exists), `fail_http` (every POST is answered with 503 while it exists),
//!   `lock` (every request is answered with 401 while it exists),
//!   `announce`, `announce_prompts`, `announce_resources` (sends the notification, then removes the file),
//!   `updated` (holds the URI of a changed resource), `drop_sessions` (forgets all legacy sessions),
//!   `end_listens` (ends the modern listen streams with their result); the tool `hold {key}` creates `held.KEY`
//!   and answers once `release.KEY` exists. [`harness::Control`] has a method for each.
//! - Binary `genlock-rmcp-server` and module `rmcp_client`, with the feature `rmcp-peer`: the same jobs done by the
//!   official SDK.
//! - [`clients`]: MCP clients of both eras that keep every byte.
//! - [`harness`]: processes, scratch directories and waiting.
//!
//! Everything here panics where an expectation fails, with what was seen.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: an expectation that fails is a test that fails"
)]

pub mod clients;
pub mod harness;
pub mod header_value;
pub mod raw;
#[cfg(feature = "rmcp-peer")]
pub mod rmcp_client;
