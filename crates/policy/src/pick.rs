//! What a session chose at its creation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The word that picks no server at all.
pub const NO_MCP: &str = "no_mcp";

/// The toolset that every platform has; its settings are the section `terminal` of the config.
pub const TERMINAL: &str = "terminal";

/// One member of a pick. It stays what it was when it was picked: a server that is removed later is a server still.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum PickMember {
    /// A server, by its name in the config.
    Server(String),
    /// A toolset of the platform.
    Toolset(String),
    /// No server at all; wins over every other member.
    NoMcp,
}

/// What a session chose: typed members, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pick {
    members: Vec<PickMember>,
}

/// The names that a pick, or a platform's list, may hold.
///
/// ```
/// use genlock_policy::{Known, Pick, PickMember};
///
/// let known = Known {
///     servers: ["github".to_owned()].into(),
///     toolsets: ["terminal".to_owned()].into(),
/// };
///
/// let pick = Pick::of(["terminal", "github"], &known)?;
///
/// assert_eq!(
///     pick.members(),
///     [PickMember::Toolset("terminal".to_owned()), PickMember::Server("github".to_owned())]
/// );
/// assert_eq!(Pick::of(["gihub"], &known).unwrap_err().name, "gihub");
/// # Ok::<(), genlock_policy::UnknownMember>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The servers of this and of every earlier generation of the profile.
    pub servers: BTreeSet<String>,
    /// The names in the platforms' lists that are no servers.
    pub toolsets: BTreeSet<String>,
}

/// A name that is neither a server nor a toolset. To take it for a toolset would let a misspelt server widen the pick.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is neither a server nor a toolset; known: {}", known.join(", "))]
pub struct UnknownMember {
    /// The name.
    pub name: String,
    /// What could have been named.
    pub known: Vec<String>,
}

// === impl Pick ===

impl Pick {
    /// Types the names of a pick. A name that is both is a server.
    ///
    /// # Errors
    /// [`UnknownMember`] for the first name that is neither.
    pub fn of<'n>(
        names: impl IntoIterator<Item = &'n str>,
        known: &Known,
    ) -> Result<Self, UnknownMember> {
        let mut members = Vec::new();
        for name in names {
            let member = known.member(name).ok_or_else(|| UnknownMember {
                name: name.to_owned(),
                known: known.names(),
            })?;
            if !members.contains(&member) {
                members.push(member);
            }
        }
        Ok(Self { members })
    }

    /// Types the names of a platform's list, in which a name that is no server is only a name.
    pub(crate) fn of_platform(names: &[String], servers: &BTreeSet<String>) -> Self {
        let member = |name: &String| match name.as_str() {
            NO_MCP => PickMember::NoMcp,
            _ if servers.contains(name) => PickMember::Server(name.clone()),
            _ => PickMember::Toolset(name.clone()),
        };
        Self {
            members: names.iter().map(member).collect(),
        }
    }

    /// Returns the members.
    pub fn members(&self) -> &[PickMember] {
        &self.members
    }

    /// Returns the names of the members, as they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(PickMember::name)
    }
}

// === impl PickMember ===

impl PickMember {
    /// Returns the name that was given.
    pub fn name(&self) -> &str {
        match self {
            Self::Server(name) | Self::Toolset(name) => name,
            Self::NoMcp => NO_MCP,
        }
    }
}

// === impl Known ===

impl Known {
    fn member(&self, name: &str) -> Option<PickMember> {
        match name {
            NO_MCP => Some(PickMember::NoMcp),
            _ if self.servers.contains(name) => Some(PickMember::Server(name.to_owned())),
            _ if self.toolsets.contains(name) => Some(PickMember::Toolset(name.to_owned())),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        let names = self.servers.iter().chain(&self.toolsets);
        names.cloned().chain([NO_MCP.to_owned()]).collect()
    }
}
