//! The configuration of a Genlock gateway: read, interpolated and validated.
//!
//! Owns the schema of the config file, the place (`file:line:column`) and dotted path of
//! every finding, what counts as private, and the digest of a server's definition.
//!
//! Invariants, above all the absences:
//! - Reads no environment, no `$HOME`, no clock and no network, and prints nothing. The host
//!   passes what `${VAR}` may read as [`Variables`]; only [`load()`] touches the disk.
//! - `serde_yaml` alone decides what a document means (for a file named `*.json`,
//!   `serde_json` does). A second, position-only reader says where each node stands; where the
//!   two disagree, a finding falls back to the place of the surrounding node.
//! - All findings are collected, not the first. None ever quotes a value of the file.
//! - A private value leaves this crate only through [`Text::expose`].

mod decode;
mod digest;
mod finding;
mod keyword;
mod load;
mod model;
mod privacy;
mod server;
mod template;
mod text;
mod tree;
mod variables;

pub use self::{
    finding::{Finding, Findings, Severity},
    load::{LoadError, Loaded, MAX_FILE_BYTES, load, parse},
    model::{
        Config, Execution, InvalidProfileId, LogLevel, Logging, NameRule, ProfileId, Shutdown,
        Surface, ToolAccess,
    },
    server::{
        HttpDefinition, InvalidServerName, ProtocolChoice, ServerDefinition, ServerName,
        StdioDefinition, TransportDefinition,
    },
    text::Text,
    variables::Variables,
};
