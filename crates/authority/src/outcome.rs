//! What a `reload.mcp` says of itself: only what happened.

use std::collections::BTreeSet;

use serde::Serialize;

/// What is known once a reload has done what it could.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReloadFacts {
    /// New servers that became ready.
    pub added: Vec<String>,
    /// Servers with another definition, or woken, that became ready.
    pub reconnected: Vec<String>,
    /// Servers that are gone, with nothing left of them.
    pub removed: Vec<String>,
    /// Removed servers that calls still hold.
    pub pending: Vec<String>,
    /// Enabled servers that are not connected.
    pub not_connected: Vec<String>,
    /// The servers that are ready.
    pub ready: BTreeSet<String>,
    /// What became of the calling session; `None` where none calls.
    pub session: Option<SessionPart>,
}

/// What became of the calling session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPart {
    /// `applied`, `unchanged`, `busy` or `refused`.
    pub outcome: &'static str,
    /// What is to be told of it, for people.
    pub message: Option<String>,
    /// The servers that its policy selects.
    pub selected: BTreeSet<String>,
}

/// What a reload answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadOutcome {
    /// Whether it is an answer or a refusal: something that is enabled is not connected, and nothing was applied.
    #[serde(skip)]
    pub refused: bool,
    /// What happened, for people.
    pub message: String,
    /// What became of the calling session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'static str>,
    /// The servers that the calling session selects and that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_servers: Option<Vec<String>>,
    /// The enabled servers that are not connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<String>,
}

/// Says what a reload did. An applied change is a server that became ready, a completed removal, or an applied transition;
/// what was attempted or is pending is none.
///
/// ```
/// use genlock_authority::{ReloadFacts, reload_outcome};
///
/// let facts = ReloadFacts { not_connected: vec!["broken".to_owned()], ..ReloadFacts::default() };
/// let outcome = reload_outcome(&facts);
/// assert!(outcome.refused);
/// assert_eq!(outcome.message, "did not connect: broken");
/// ```
pub fn reload_outcome(facts: &ReloadFacts) -> ReloadOutcome {
    let transition = facts.session.as_ref().map(|session| session.outcome);
    let applied = !facts.added.is_empty()
        || !facts.reconnected.is_empty()
        || !facts.removed.is_empty()
        || transition == Some("applied");
    let told = facts
        .session
        .iter()
        .filter_map(|session| session.message.clone());
    let lists = [
        ("added", &facts.added),
        ("reconnected", &facts.reconnected),
        ("removed", &facts.removed),
        ("still in use", &facts.pending),
        ("did not connect", &facts.not_connected),
    ];
    let listed = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")));
    let parts: Vec<String> = told.chain(listed).collect();
    let servers = facts.session.as_ref().map(|session| {
        let ready = session.selected.intersection(&facts.ready);
        ready.cloned().collect()
    });
    ReloadOutcome {
        refused: !facts.not_connected.is_empty() && !applied,
        message: match (parts.is_empty(), transition) {
            (true, Some("applied")) => "the session runs what is in force now".to_owned(),
            (true, _) => "nothing changed".to_owned(),
            (false, _) => parts.join("; "),
        },
        session: transition,
        session_servers: servers,
        unavailable: facts.not_connected.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn session(outcome: &'static str) -> Option<SessionPart> {
        Some(SessionPart {
            outcome,
            message: (outcome == "busy").then(|| "later".to_owned()),
            selected: names(&["a", "broken"]).into_iter().collect(),
        })
    }

    #[test]
    fn only_what_took_effect_counts() {
        let broken = || ReloadFacts {
            not_connected: names(&["broken"]),
            ready: names(&["a", "b"]).into_iter().collect(),
            ..ReloadFacts::default()
        };
        let cases = [
            (broken(), true, "did not connect: broken"),
            (
                ReloadFacts {
                    pending: names(&["old"]),
                    ..broken()
                },
                true,
                "still in use: old; did not connect: broken",
            ),
            (
                ReloadFacts {
                    added: names(&["b"]),
                    ..broken()
                },
                false,
                "added: b; did not connect: broken",
            ),
            (
                ReloadFacts {
                    reconnected: names(&["a"]),
                    ..broken()
                },
                false,
                "reconnected: a; did not connect: broken",
            ),
            (
                ReloadFacts {
                    removed: names(&["old"]),
                    ..broken()
                },
                false,
                "removed: old; did not connect: broken",
            ),
            (
                ReloadFacts {
                    session: session("applied"),
                    ..broken()
                },
                false,
                "did not connect: broken",
            ),
            (
                ReloadFacts {
                    session: session("unchanged"),
                    ..broken()
                },
                true,
                "did not connect: broken",
            ),
            (
                ReloadFacts {
                    session: session("busy"),
                    ..broken()
                },
                true,
                "later; did not connect: broken",
            ),
            (ReloadFacts::default(), false, "nothing changed"),
            (
                ReloadFacts {
                    session: session("applied"),
                    ready: names(&["a"]).into_iter().collect(),
                    ..ReloadFacts::default()
                },
                false,
                "the session runs what is in force now",
            ),
        ];
        for (facts, refused, message) in cases {
            let outcome = reload_outcome(&facts);

            assert_eq!((outcome.refused, &*outcome.message), (refused, message));
            let servers = facts.session.is_some().then(|| names(&["a"]));
            assert_eq!(outcome.session_servers, servers, "{message}");
            assert_eq!(outcome.unavailable, facts.not_connected);
        }
    }
}
