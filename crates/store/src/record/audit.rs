//! Records of the audit, as values.

use genlock_policy::{Actor, GenerationNumber};

/// The number of a record: rises by 1 per profile from 1 and is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditNumber(u64);

/// What came of what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditOutcome {
    /// It was done.
    Done,
    /// It was refused.
    Refused,
}

/// A record to append: who did what, or was refused what.
///
/// Nothing in it is private: no argument of a call, no value of a header, nothing of a key but its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewAudit {
    /// When, in Unix milliseconds; of equal refusals the first.
    pub at_ms: i64,
    /// Who, such as `uid:1000`, `key:svc:a` or `address:10.0.0.7`.
    pub actor: Actor,
    /// The id of the key that was shown.
    pub key: Option<String>,
    /// The tenant of the actor.
    pub tenant: Option<String>,
    /// What was asked for: a stable word such as `key.create` or `call.refused`.
    pub action: String,
    /// What it was about: a server and a tool, a key, a session, a generation.
    pub target: Option<String>,
    /// The generation that it was decided under, or that it made.
    pub generation: Option<GenerationNumber>,
    /// The gate that refused.
    pub gate: Option<String>,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// The stable code of a refusal.
    pub code: Option<String>,
    /// How many equal refusals this record stands for, 1 or more.
    pub count: u64,
    /// More for people.
    pub detail: String,
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number.
    pub number: AuditNumber,
    /// What it says.
    pub entry: NewAudit,
}

/// Which records are wanted: those to which all of it applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Not before this time, in Unix milliseconds.
    pub since_ms: Option<i64>,
    /// Before this time, in Unix milliseconds.
    pub until_ms: Option<i64>,
    /// Of this actor; `svc:a` finds `key:svc:a` as well.
    pub subject: Option<String>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this action, or, by the part before the point, of this kind of action: `key` finds `key.create`.
    pub action: Option<String>,
    /// Of this outcome.
    pub outcome: Option<AuditOutcome>,
    /// Newer than this record.
    pub after: Option<AuditNumber>,
    /// Older than this record.
    pub before: Option<AuditNumber>,
}

// === impl AuditNumber ===

impl AuditNumber {
    /// Takes a number; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

// === impl AuditOutcome ===

impl AuditOutcome {
    /// All outcomes.
    pub const ALL: [Self; 2] = [Self::Done, Self::Refused];

    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }

    /// Reads a stored word back.
    ///
    /// ```
    /// use genlock_store::AuditOutcome;
    ///
    /// assert_eq!(AuditOutcome::from_word("refused"), Some(AuditOutcome::Refused));
    /// assert_eq!(AuditOutcome::from_word("lost"), None);
    /// ```
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == word)
    }
}
