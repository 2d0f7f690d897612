//! Revocations and their lifts: generations that change nothing but what is denied.
//!
//! They wait for no file, no server and no drain. A revocation is based on nothing that its caller has seen, so that it takes
//! its turn behind whatever is being committed and never conflicts with it.

use std::sync::Arc;

use genlock_access::Permission;
use genlock_frames::SessionId;
use genlock_policy::{
    Actor, Cause, Generation, GenerationNumber, Overlay, Revocation, RevocationKind,
};
use genlock_store::Fault;
use serde_json::{Value, json};

use crate::{history::Draft, keys::KeyStore, reload::Reloader, report::ReloadError};

/// The longest reason, in bytes.
const LONGEST: usize = 1024;

/// What is to be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: RevocationKind,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// What a revocation, or the lift of one, came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) revocation: Revocation,
    /// The generation in force.
    pub(crate) generation: GenerationNumber,
    /// Whether that is a new one; what is revoked already is not revoked again.
    pub(crate) changed: bool,
}

/// Why nothing is revoked or lifted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RevokeError {
    /// There is no reason, or one that cannot be shown.
    #[error(
        "`reason` must be 1 to {LONGEST} bytes without control characters: whoever is refused is told it"
    )]
    Reason,
    /// The name cannot be one.
    #[error("`name` has at most {LONGEST} bytes and no control characters")]
    Name,
    /// Who asks may not lift that.
    #[error("this needs the permission `{}`", Permission::Keys)]
    NotAllowed,
    /// There is nothing of this name.
    #[error("{}", nothing(*.kind, .name))]
    NotFound {
        /// The kind.
        kind: RevocationKind,
        /// The name.
        name: String,
    },
    /// The generation revokes nothing now.
    #[error("there is no revocation {0}: `genlock revoke list` shows those in force")]
    NotRevoked(GenerationNumber),
    /// The generation was not committed.
    #[error(transparent)]
    Commit(ReloadError),
    /// The store failed.
    #[error("read the store")]
    Store(#[from] Fault),
}

/// Says what there is not, and what there would have to be.
fn nothing(kind: RevocationKind, name: &str) -> String {
    let name = genlock_mcp::error::escape_text(name);
    match kind {
        RevocationKind::Server => {
            format!("no generation has a server `{name}`; `genlock servers` lists those of now")
        }
        RevocationKind::Tool => format!(
            "`{name}` is no tool of a server that any generation has; it is named as `server/tool`"
        ),
        RevocationKind::Key => format!("there is no key `{name}`; `genlock keys list` lists them"),
        RevocationKind::Session => {
            format!("there is no session `{name}`; `genlock sessions` lists them")
        }
    }
}

impl RevokeError {
    /// Returns the stable code of the error.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Reason | Self::Name => "invalid_params",
            Self::NotAllowed => "permission_denied",
            Self::NotFound { .. } | Self::NotRevoked(_) => "not_found",
            Self::Commit(error) => error.code(),
            Self::Store(_) => "storage_unavailable",
        }
    }
}

impl Done {
    /// Returns what programs are told of it.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!(self.revocation);
        shown["generation"] = json!(self.generation);
        shown["changed"] = json!(self.changed);
        shown
    }
}

impl Reloader {
    /// Revokes something for everybody. When this returns this process refuses it, whatever a session pins; workers follow within
    /// moments. What is revoked already stays so, under the number that it has.
    ///
    /// # Errors
    /// Where there is no such thing, or the generation is not committed; nothing is revoked then.
    ///
    /// # Cancel safety
    /// A dropped call has revoked it or not; call again.
    pub(crate) async fn revoke(
        &self,
        wanted: Wanted,
        keys: Option<&KeyStore>,
        actor: &Actor,
    ) -> Result<Done, RevokeError> {
        let Wanted { kind, name, reason } = wanted;
        let reason = reason.trim().to_owned();
        if reason.is_empty() || reason.len() > LONGEST || reason.chars().any(char::is_control) {
            return Err(RevokeError::Reason);
        }
        if name.len() > LONGEST || name.chars().any(char::is_control) {
            return Err(RevokeError::Name);
        }
        if !self.is_known(kind, &name, keys).await? {
            return Err(RevokeError::NotFound { kind, name });
        }
        let mut head = self.head.lock().await;
        if let Some(standing) = head.overlay.denies(kind, &name) {
            return Ok(Done {
                revocation: standing.clone(),
                generation: head.number,
                changed: false,
            });
        }
        let revocation = Revocation {
            kind,
            name,
            reason,
            number: head.number.next(),
        };
        let overlay = head.overlay.with(revocation.clone());
        let why = format!(
            "{} `{}`: {}",
            kind.as_str(),
            revocation.name,
            revocation.reason
        );
        self.put_in_force(&mut head, overlay, why, actor).await?;
        Ok(self.tell_done("revoked", revocation, &head))
    }

    /// Lifts what a generation revoked, where `may` allows that for its kind: asked under the lock, of what is lifted.
    ///
    /// # Errors
    /// Where that revokes nothing now, or the generation is not committed; nothing is lifted then.
    ///
    /// # Cancel safety
    /// A dropped call has lifted it or not; call again.
    pub(crate) async fn lift(
        &self,
        number: GenerationNumber,
        actor: &Actor,
        may: impl FnOnce(RevocationKind) -> bool,
    ) -> Result<Done, RevokeError> {
        let mut head = self.head.lock().await;
        let missing = || RevokeError::NotRevoked(number);
        let lifted = head.overlay.of(number).cloned().ok_or_else(missing)?;
        if !may(lifted.kind) {
            return Err(RevokeError::NotAllowed);
        }
        let overlay = head.overlay.without(number).ok_or_else(missing)?;
        let kind = lifted.kind.as_str();
        let why = format!("lift of revocation {number}: {kind} `{}`", lifted.name);
        self.put_in_force(&mut head, overlay, why, actor).await?;
        Ok(self.tell_done("lifted", lifted, &head))
    }

    /// Tells whether there is, or ever was, something of this name.
    async fn is_known(
        &self,
        kind: RevocationKind,
        name: &str,
        keys: Option<&KeyStore>,
    ) -> Result<bool, Fault> {
        let (store, profile, _) = self.history().authority();
        Ok(match kind {
            RevocationKind::Server => store.server_names(&profile).await?.contains(name),
            RevocationKind::Tool => {
                let servers = store.server_names(&profile).await?;
                // Which tools a server has nobody knows for certain: it may not run, and may list others tomorrow.
                let is_tool = |at: usize| servers.contains(&name[..at]) && at + 1 < name.len();
                name.match_indices('/').any(|(at, _)| is_tool(at))
            }
            RevocationKind::Key => match keys {
                Some(keys) => keys.has(name).await?,
                None => false,
            },
            RevocationKind::Session => match SessionId::new(name) {
                Ok(id) => store.session(&profile, &id).await?.is_some(),
                Err(_) => false,
            },
        })
    }

    /// Commits another overlay over what is in force, and puts it in force.
    async fn put_in_force(
        &self,
        head: &mut Generation,
        overlay: Overlay,
        why: String,
        actor: &Actor,
    ) -> Result<(), RevokeError> {
        let draft = Draft {
            snapshot: Arc::clone(&head.snapshot),
            overlay: Arc::new(overlay),
            config: Arc::clone(&head.config),
            cause: Cause::Revoke,
            actor: actor.clone(),
            reason: Some(why),
            at_ms: self.now_ms(),
        };
        let committed = self.commit(head.number, draft).await;
        *head = committed.map_err(RevokeError::Commit)?;
        // Its servers are those of before, so that nothing leaves.
        self.publish(head);
        self.pins().keep(self.head(), self.history()).await;
        Ok(())
    }

    /// Tells listeners and the log what was done.
    fn tell_done(&self, what: &'static str, revocation: Revocation, head: &Generation) -> Done {
        let (generation, cause) = (head.number, head.cause.as_str());
        let (kind, name) = (revocation.kind.as_str(), &revocation.name);
        let (reason, number) = (&revocation.reason, revocation.number);
        let by = head.actor.as_str();
        tracing::info!(%generation, cause, "generation committed");
        tracing::warn!(kind, name, reason, revocation = %number, by, "{what}");
        let events = self.events();
        events.tell(
            "generation.committed",
            json!({"generation": generation, "cause": cause}),
        );
        let done = Done {
            revocation,
            generation,
            changed: true,
        };
        let mut told = done.shown();
        told["actor"] = json!(head.actor);
        events.tell(what, told);
        done
    }
}
