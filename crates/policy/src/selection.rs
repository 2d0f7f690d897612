//! What a session may use under a generation: its pick, resolved.

use std::collections::BTreeSet;

use genlock_config::{Config, ServerDefinition};
use serde::{Deserialize, Serialize};

use crate::pick::{Pick, PickMember};

/// The servers and toolsets of a session under one generation.
///
/// ```
/// use genlock_config::{Variables, parse};
/// use genlock_policy::{Known, Pick, resolve};
///
/// let config = |text| parse(text, "genlock.yaml".into(), &Variables::empty()).map(|loaded| loaded.config);
/// let known = Known { servers: ["a", "b"].map(str::to_owned).into(), ..Known::default() };
/// let pick = Pick::of(["a"], &known).ok();
///
/// let both = config("mcp_servers: { a: { command: a }, b: { command: b } }")?;
/// assert_eq!(resolve(pick.as_ref(), "cli", &both, &known.servers).servers, ["a".to_owned()].into());
///
/// // The picked server is gone: the session is left without one, never with another.
/// let other = config("mcp_servers: { b: { command: b } }")?;
/// assert!(resolve(pick.as_ref(), "cli", &other, &known.servers).servers.is_empty());
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Selection {
    /// The servers, all of them enabled in the generation.
    pub servers: BTreeSet<String>,
    /// The toolsets, and the servers by their names: a server is a toolset of its own.
    pub toolsets: BTreeSet<String>,
    /// What decided upon the servers.
    pub rule: SelectionRule,
}

/// What decided upon the servers of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectionRule {
    /// The pick names servers: those of them that are enabled.
    Pick,
    /// The pick says `no_mcp`: none.
    PickNoMcp,
    /// The platform's list names servers: those of them that are enabled.
    Platform,
    /// The platform's list says `no_mcp`: none.
    PlatformNoMcp,
    /// Neither names a server: every enabled one.
    All,
}

/// Why a session may use a server, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerVerdict {
    /// It may.
    Selected,
    /// The generation has no server of this name.
    NotConfigured,
    /// Its definition says `enabled: false`.
    Disabled,
    /// The rule of the selection leaves it out.
    LeftOut(SelectionRule),
}

/// Resolves what a session may use: a pure function of its pick, its source, and a generation's config.
///
/// `ever` has the servers of this and of every earlier generation: a name in a platform's list is a server if it ever was
/// one, so that the list of a removed server stays an allowlist.
pub fn resolve(
    pick: Option<&Pick>,
    source: &str,
    config: &Config,
    ever: &BTreeSet<String>,
) -> Selection {
    let none = Vec::new();
    let listed = config.platform_toolsets.get(source).unwrap_or(&none);
    let mut known = ever.clone();
    known.extend(config.servers.keys().map(|name| name.as_str().to_owned()));
    let platform = Pick::of_platform(listed, &known);
    let enabled = enabled(config);

    let of_pick = pick.and_then(|pick| named(pick, SelectionRule::Pick, SelectionRule::PickNoMcp));
    let decided = of_pick.or_else(|| {
        named(
            &platform,
            SelectionRule::Platform,
            SelectionRule::PlatformNoMcp,
        )
    });
    let (servers, rule) = match decided {
        Some((named, rule)) => (named.intersection(&enabled).cloned().collect(), rule),
        None => (enabled, SelectionRule::All),
    };
    let toolsets = pick.unwrap_or(&platform).members().iter();
    let toolsets = toolsets.filter_map(|member| match member {
        PickMember::Toolset(name) => Some(name.clone()),
        PickMember::Server(_) | PickMember::NoMcp => None,
    });
    Selection {
        toolsets: toolsets.chain(servers.iter().cloned()).collect(),
        servers,
        rule,
    }
}

/// Returns the servers that a pick names, and the rule that they make; `None` where it says nothing about servers.
fn named(
    pick: &Pick,
    allowlist: SelectionRule,
    no_mcp: SelectionRule,
) -> Option<(BTreeSet<String>, SelectionRule)> {
    if pick.members().contains(&PickMember::NoMcp) {
        return Some((BTreeSet::new(), no_mcp));
    }
    let servers = pick.members().iter().filter_map(|member| match member {
        PickMember::Server(name) => Some(name.clone()),
        PickMember::Toolset(_) | PickMember::NoMcp => None,
    });
    let servers: BTreeSet<String> = servers.collect();
    (!servers.is_empty()).then_some((servers, allowlist))
}

fn enabled(config: &Config) -> BTreeSet<String> {
    let enabled = config.servers.values().filter(|server| server.enabled);
    enabled
        .map(|server| server.name.as_str().to_owned())
        .collect()
}

// === impl Selection ===

impl Selection {
    /// Says why the session may use a server, or not. `config` is that of the generation that this was resolved with.
    pub fn explain(&self, server: &str, config: &Config) -> ServerVerdict {
        if self.servers.contains(server) {
            return ServerVerdict::Selected;
        }
        let named = |definition: &&ServerDefinition| definition.name.as_str() == server;
        match config.servers.values().find(named) {
            None => ServerVerdict::NotConfigured,
            Some(definition) if !definition.enabled => ServerVerdict::Disabled,
            Some(_) => ServerVerdict::LeftOut(self.rule),
        }
    }
}
