//! The configuration of a Genlock gateway: read, interpolated, validated and redacted.
//!
//! Owns the schema of the config file, the place (`file:line:column`) and dotted path of
//! every finding, what counts as private, the form that may be shown, the fingerprints of what
//! may not, and the digests of both.
//!
//! Invariants, above all the absences:
//! - Reads no environment, no `$HOME`, no clock and no network, and prints nothing. The host
//!   passes what interpolation may read as [`Sources`]; besides the config itself only files
//!   below the config's directory and the secret directories of the host are read.
//! - `serde_yaml` alone decides what a document means (for a file named `*.json`,
//!   `serde_json` does). A second, position-only reader says where each node stands; where the
//!   two disagree, a finding falls back to the place of the surrounding node.
//! - All findings are collected, not the first. None ever quotes a value of the file.
//! - A key that this version does not act upon is never silently accepted: see [`Effect`].
//! - A private value leaves this crate only through [`Text::expose`], [`Free::expose`] and
//!   [`PrivateValues`]. What may be shown comes from one walk, [`Config::redacted`].

mod access;
mod canonical;
mod decode;
mod digest;
mod env_file;
mod finding;
mod fingerprint;
mod free;
mod keyword;
mod load;
mod model;
mod privacy;
mod private;
mod redacted;
mod restore;
mod schema;
mod sections;
mod server;
mod sources;
mod template;
mod text;
mod tree;
mod variables;

pub use self::{
    access::{ApiKeyAuth, Auth, AuthStorage, Oidc, Role, RoleAssignment, RoleScope, StorageDriver},
    digest::{DefinitionDigest, snapshot_digest},
    finding::{Finding, Findings, Severity},
    fingerprint::{Fingerprint, FingerprintKey, Fingerprints, fingerprints},
    free::Free,
    load::{
        LoadError, Loaded, MAX_FILE_BYTES, load, load_with, parse, parse_schema, parse_with,
        private_values_in,
    },
    model::{Config, InvalidProfileId, ProfileId},
    private::{MIN_SECRET_BYTES, PrivateValue, PrivateValues},
    redacted::{InvalidRedacted, RedactedConfig, RestoreError},
    schema::{Effect, effect_of, json_schema, section_names, sections_markdown},
    sections::{
        ConfigReload, Execution, LogLevel, Logging, Mode, NameRule, Observability, ResourceUris,
        Retention, Shutdown, Surface, TenantLimits, ToolAccess, Validator, Worker, WorkerMode,
    },
    server::{
        Containment, HttpDefinition, InvalidServerName, ProtocolChoice, Scope, ServerDefinition,
        ServerName, StdioDefinition, Tls, ToolRules, TransportDefinition,
    },
    sources::Sources,
    text::Text,
    variables::Variables,
};
