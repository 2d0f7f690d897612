//! How a session moves from one policy to the next.

use serde::Serialize;

use crate::{identity::GenerationDigest, selection::Selection};

/// What asked for a transition. An edit of the file and a submission never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionCause {
    /// The session was created.
    Create,
    /// A client attached to it.
    Resume,
    /// It asked by `reload.mcp`.
    ReloadMcp,
}

impl TransitionCause {
    const ALL: [Self; 3] = [Self::Create, Self::Resume, Self::ReloadMcp];

    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Resume => "resume",
            Self::ReloadMcp => "reload_mcp",
        }
    }

    /// Reads a stored word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// Tells whether a session that runs `pinned` has to move to run `candidate`: where the snapshot means something else, also
/// outside its selection, or where its selection is another one.
pub fn needs_transition(
    pinned: (GenerationDigest, &Selection),
    candidate: (GenerationDigest, &Selection),
) -> bool {
    pinned != candidate
}
