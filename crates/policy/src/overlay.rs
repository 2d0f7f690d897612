//! What is denied, whatever the config says.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::identity::GenerationNumber;

/// The deny overlay: the second part of a generation.
///
/// It only narrows. A reload and a rollback copy it from the head; only a revocation, and the lift of one, change it.
///
/// ```
/// use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};
///
/// let leaked = Revocation {
///     kind: RevocationKind::Server,
///     name: "github".to_owned(),
///     reason: "its token leaked".to_owned(),
///     number: GenerationNumber::FIRST.next(),
/// };
///
/// let overlay = Overlay::default().with(leaked);
///
/// assert!(overlay.denies(RevocationKind::Server, "github").is_some());
/// assert!(overlay.denies(RevocationKind::Tool, "github").is_none());
/// assert_eq!(overlay.without(GenerationNumber::FIRST.next()), Some(Overlay::default()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// What is revoked.
    pub revoked: BTreeSet<Revocation>,
}

/// One revocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// What kind of thing is revoked.
    pub kind: RevocationKind,
    /// Its name: a server's, a tool's as `server/tool`, a key's id or a session's id.
    pub name: String,
    /// Why, for people.
    pub reason: String,
    /// The generation that was committed for it: what it is lifted by.
    pub number: GenerationNumber,
}

/// A kind of thing that can be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationKind {
    /// A server, with all that it offers.
    Server,
    /// One tool of a server.
    Tool,
    /// An API key.
    Key,
    /// A session.
    Session,
}

// === impl Overlay ===

impl Overlay {
    /// Returns the revocation of a thing, if it is revoked: the earliest, where there are several.
    pub fn denies(&self, kind: RevocationKind, name: &str) -> Option<&Revocation> {
        let of = |revocation: &&Revocation| revocation.kind == kind && revocation.name == name;
        self.revoked
            .iter()
            .filter(of)
            .min_by_key(|revocation| revocation.number)
    }

    /// Returns what refuses a request to a server, which is a call of `tool` where one is named: the revocation of the
    /// server, else that of the tool. The one decision behind what is listed and what is called, on every path.
    pub fn refuses(&self, server: &str, tool: Option<&str>) -> Option<&Revocation> {
        let of_tool = |name: &str| {
            let rest = name.strip_prefix(server);
            tool.is_some() && rest.and_then(|rest| rest.strip_prefix('/')) == tool
        };
        let of = |revocation: &&Revocation| match revocation.kind {
            RevocationKind::Server => revocation.name == server,
            RevocationKind::Tool => of_tool(&revocation.name),
            RevocationKind::Key | RevocationKind::Session => false,
        };
        let refusing = self.revoked.iter().filter(of);
        refusing.min_by_key(|revocation| (revocation.kind, revocation.number))
    }

    /// Returns what the generation `number` revoked, where it still is.
    pub fn of(&self, number: GenerationNumber) -> Option<&Revocation> {
        let mut revoked = self.revoked.iter();
        revoked.find(|revocation| revocation.number == number)
    }

    /// Returns this overlay and one revocation more.
    #[must_use]
    pub fn with(&self, revocation: Revocation) -> Self {
        let mut revoked = self.revoked.clone();
        revoked.insert(revocation);
        Self { revoked }
    }

    /// Returns this overlay without what the generation `number` revoked; `None` where it revoked nothing.
    pub fn without(&self, number: GenerationNumber) -> Option<Self> {
        let (lifted, revoked): (BTreeSet<_>, BTreeSet<_>) = self
            .revoked
            .iter()
            .cloned()
            .partition(|revocation| revocation.number == number);
        (!lifted.is_empty()).then_some(Self { revoked })
    }

    /// Says whether nothing is revoked.
    pub fn is_empty(&self) -> bool {
        self.revoked.is_empty()
    }
}

// === impl Revocation ===

impl Revocation {
    /// The stable code of every refusal that a revocation leads to.
    pub const CODE: &str = "revoked";
}

impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            name,
            reason,
            number,
        } = self;
        let kind = kind.as_str();
        write!(
            f,
            "{kind} `{name}` is revoked: {reason} (an operator can lift revocation {number})"
        )
    }
}

// === impl RevocationKind ===

impl RevocationKind {
    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Key => "key",
            Self::Session => "session",
        }
    }

    /// Reads a word back.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Server, Self::Tool, Self::Key, Self::Session];
        all.into_iter().find(|kind| kind.as_str() == word)
    }
}
