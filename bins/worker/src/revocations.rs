//! What the gateway says is revoked, as the worker heeds it.

use genlock_frames::{Revoked, RevokedKind};
use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};

/// Reads revocations; `None` where the number of one is none.
pub(crate) fn overlay(revoked: &[Revoked]) -> Option<Overlay> {
    let revoked = revoked.iter().map(revocation).collect::<Option<_>>()?;
    Some(Overlay { revoked })
}

fn revocation(revoked: &Revoked) -> Option<Revocation> {
    Some(Revocation {
        kind: match revoked.kind {
            RevokedKind::Server => RevocationKind::Server,
            RevokedKind::Tool => RevocationKind::Tool,
            RevokedKind::Session => RevocationKind::Session,
        },
        name: revoked.name.clone(),
        reason: revoked.reason.clone(),
        number: GenerationNumber::new(revoked.number)?,
    })
}
