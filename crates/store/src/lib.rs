//! The policy-generation store: the durable half of "nothing without a commit".
//!
//! Owns the stored form of profiles, their epochs and their generations, the transactions over
//! them, and what a damaged, full or missing store looks like to its callers. [`open`] gives a
//! [`Store`]; each group of rows has a trait of its own ([`Epochs`], [`Generations`], [`Sessions`], [`Turns`],
//! [`Keys`], [`Audits`]), which any
//! backend implements and one suite of tests (`tests/it/conformance`) holds to the same meaning.
//!
//! Invariants, above all the absences:
//! - Reads no clock, no environment and no configuration: times, paths and limits are passed in.
//! - Knows no private value: it takes the redacted config and fingerprints, as they are stored.
//! - A number is given once: generations are added at the head, never changed, and deleted by
//!   [`Generations::prune`] alone, which spares the head and what is pinned.
//! - Every write compares the writer's [`Epoch`] inside its transaction.
//! - Every row read is checked against its own seal, since SQLite does not checksum its pages:
//!   a damaged row is [`Fault::Corrupt`], never a policy.
//! - A store that should be there and is not is an error. It is never created anew in silence.
//!
//! # Examples
//! ```
//! use genlock_config::ProfileId;
//! use genlock_policy::{Actor, Cause, GenerationDigest, GenerationNumber};
//! use genlock_store::{Location, NewGeneration, Options, open};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().to_str().ok_or("not UTF-8")?;
//! let location: Location = format!("sqlite:{path}/genlock.db").parse()?;
//! let store = open(&location, &Options::default()).await?;
//! let profile = ProfileId::default();
//!
//! let epoch = store.take_epoch(&profile).await?;
//! let config = r#"{"mcp_servers":{}}"#;
//! let new = NewGeneration {
//!     profile: profile.clone(),
//!     digest: GenerationDigest::new(blake3::hash(config.as_bytes())),
//!     config: config.to_owned(),
//!     fingerprints: Default::default(),
//!     overlay: "{}".to_owned(),
//!     servers: Default::default(),
//!     cause: Cause::Boot,
//!     actor: Actor::system(),
//!     reason: None,
//!     at_ms: 1_795_000_000_000,
//! };
//! let committed = store.commit_generation(epoch, None, new).await?;
//!
//! assert_eq!(committed.number, GenerationNumber::FIRST);
//! assert_eq!(store.head(&profile).await?, Some(committed));
//! store.close().await?;
//! # Ok(())
//! # }
//! ```

mod fault;
mod location;
mod record;
mod repository;
mod seal;
mod sqlite;

pub use self::{
    fault::{
        AdmitError, BackendError, CloseError, CommitError, CreateError, Fault, MoveError,
        OpenError, PruneError, TransitionError, WriteFault,
    },
    location::{Access, InvalidLocation, Location, Options, open},
    record::{
        AuditFilter, AuditNumber, AuditOutcome, AuditRecord, Epoch, GenerationRecord,
        GenerationSummary, KeyRecord, NewAudit, NewGeneration, NewKey, NewSession, NewTransition,
        NewTurn, OpenTurn, PrivateFingerprint, Replaced, Reservation, Rotation, SessionRecord,
        TransitionRecord, TurnEnd, TurnError, TurnId, TurnMove, TurnOutcome, TurnRecord,
        TurnStatus,
    },
    repository::{Audits, Epochs, Generations, Keys, Pending, Sessions, Store, Turns, Verified},
};
