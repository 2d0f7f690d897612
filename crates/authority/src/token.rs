//! The token that opens the pinned view of a session to any client.

use std::time::Duration;

use genlock_frames::SessionId;
use genlock_store::SessionRecord;
use secrecy::{ExposeSecret, SecretBox, SecretString};

/// How long a token is valid.
const VALID: Duration = Duration::from_secs(30 * 24 * 3600);
/// What a token begins with, so that one that was leaked is found by search.
const PREFIX: &str = "gls_";

/// The key that tokens are derived with. Has no `Debug`.
pub struct TokenKey(SecretBox<[u8; 32]>);

// === impl TokenKey ===

impl TokenKey {
    /// Takes a key that is used for nothing else.
    pub fn new(key: [u8; 32]) -> Self {
        Self(SecretBox::new(Box::new(key)))
    }

    /// Derives the token of a session: always the same until its counter is raised, so that nothing of it is stored.
    pub fn token(&self, session: &SessionRecord) -> SecretString {
        let hash = self.hash(&session.id, session.token);
        SecretString::from(format!("{PREFIX}{}", hash.to_hex()))
    }

    /// Tells whether `presented` is the token of an open session, and valid at `now_ms`.
    pub fn opens(&self, session: &SessionRecord, presented: &str, now_ms: i64) -> bool {
        let valid_ms = i64::try_from(VALID.as_millis()).unwrap_or(i64::MAX);
        let is_valid = now_ms < session.token_ms.saturating_add(valid_ms);
        // Hashes compare in constant time.
        let expected = self.token(session);
        let is_same =
            blake3::hash(expected.expose_secret().as_bytes()) == blake3::hash(presented.as_bytes());
        is_same && is_valid && session.closed_ms.is_none()
    }

    fn hash(&self, session: &SessionId, counter: u64) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.0.expose_secret());
        hasher.update(&counter.to_le_bytes());
        hasher.update(session.as_str().as_bytes());
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use genlock_config::ProfileId;
    use genlock_frames::PolicySeq;
    use genlock_policy::{Actor, GenerationNumber, Selection, SelectionRule};

    use super::*;

    fn session(id: &str) -> SessionRecord {
        SessionRecord {
            profile: ProfileId::default(),
            id: SessionId::new(id).unwrap(),
            owner: Actor::system(),
            request_id: "r".to_owned(),
            source: "cli".to_owned(),
            cwd: "/".into(),
            title: None,
            pick: None,
            created_ms: 0,
            policy_seq: PolicySeq::new(1),
            generation: GenerationNumber::FIRST,
            selection: Selection {
                servers: Default::default(),
                toolsets: Default::default(),
                rule: SelectionRule::All,
            },
            token: 1,
            token_ms: 1_000,
            closed_ms: None,
        }
    }

    #[test]
    fn a_token_opens_its_own_open_session_for_a_while() {
        let key = TokenKey::new([7; 32]);
        let a = session("a");
        let token = key.token(&a);
        let token = token.expose_secret();
        let month = i64::try_from(VALID.as_millis()).unwrap();
        let rotated = SessionRecord {
            token: 2,
            ..a.clone()
        };
        let closed = SessionRecord {
            closed_ms: Some(1),
            ..a.clone()
        };

        let opens = [
            key.opens(&a, token, 1_000),
            key.opens(&a, token, 999 + month),
            key.opens(&a, token, 1_000 + month),
            key.opens(&session("b"), token, 1_000),
            key.opens(&rotated, token, 1_000),
            key.opens(&closed, token, 1_000),
            key.opens(&a, "", 1_000),
            key.opens(&a, &token[..token.len() - 1], 1_000),
            TokenKey::new([8; 32]).opens(&a, token, 1_000),
        ];

        assert_eq!(
            opens,
            [true, true, false, false, false, false, false, false, false]
        );
        assert!(
            token.starts_with("gls_") && token.len() == 68,
            "{}",
            token.len()
        );
        assert_eq!(key.token(&a).expose_secret(), token);
    }
}
