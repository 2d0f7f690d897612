//! What a revocation does to a session: it takes no turn, and what waits is rejected.

use genlock_policy::{Revocation, RevocationKind};
use genlock_store::{Fault, TurnRecord, TurnStatus};

use super::Actor;
use crate::refusal::Refusal;

impl Actor {
    /// Returns the revocation that the session is under, where it is.
    pub(super) fn revocation(&self) -> Option<Revocation> {
        let revoked = self.core.revoked.borrow();
        let id = self.session.id.as_str();
        revoked.denies(RevocationKind::Session, id).cloned()
    }

    pub(super) fn check_revoked(&self) -> Result<(), Refusal> {
        match self.revocation() {
            None => Ok(()),
            Some(revocation) => Err(Refusal::Revoked(revocation)),
        }
    }

    /// Rejects all that is queued where the session is revoked, and lets an idle runner go. What runs is refused its next call by
    /// the runner itself.
    pub(super) async fn follow_revocations(&mut self) {
        let Err(refusal) = self.check_revoked() else {
            return;
        };
        match self.queued().await {
            Ok(queued) => {
                for turn in queued {
                    // One that is not taken here is rejected when it is claimed.
                    self.reject(&turn, &refusal).await;
                }
            }
            Err(error) => {
                tracing::error!(session = %self.session.id, %error, "the queue was not read");
            }
        }
        if self.running.is_none() {
            self.claim().await;
        }
    }

    /// Returns the turns that wait, in their order; one that was claimed waits no more.
    pub(super) async fn queued(&self) -> Result<Vec<TurnRecord>, Fault> {
        let (store, profile) = (&self.core.store, &self.core.profile);
        let open = store.open_turns(profile, &self.session.id).await?;
        let mut queued = Vec::new();
        for turn in open {
            if turn.status == TurnStatus::Queued && !self.is_running(&turn.id) {
                queued.extend(store.turn(profile, &turn.id).await?);
            }
        }
        Ok(queued)
    }
}
