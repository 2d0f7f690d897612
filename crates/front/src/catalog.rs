//! [`Catalog`]: what is listed and what may be called, compiled once from the servers' tools and read by every request.
//!
//! Listing and calling read the same table, so that what is listed is callable and nothing else is.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use genlock_config::{Surface, ToolAccess};
use genlock_mcp::{RawJson, RawObject, Wire};
use genlock_servers::{Server, Servers, Tool, ToolSet};
use serde::Serialize;

use crate::{
    meta_tools::MetaTool,
    naming::{Listing, name_tools},
};

/// How many tools one page of a list holds.
pub(crate) const PAGE: usize = 5_000;
/// How long a client may keep a list, in milliseconds, unless a server says less.
const TTL_MS: u64 = 5_000;

/// A tool of a server, as it is shown.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) server: Server,
    pub(crate) tool: Arc<Tool>,
    /// What clients list: its definition under the name that it is shown by.
    listed: RawJson,
}

/// What a name leads to.
#[derive(Clone)]
pub(crate) enum Target {
    Tool(Entry),
    Meta(MetaTool),
}

/// A server whose tools are missing, or that cannot be called now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Unavailable {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// One compiled picture of all tools.
#[derive(Default)]
pub(crate) struct Catalog {
    /// The lists that it was compiled from, in the order of the servers.
    seen: Vec<Option<Arc<ToolSet>>>,
    entries: BTreeMap<String, Entry>,
    metas: HashMap<String, MetaTool>,
    surface: Option<Surface>,
    flat: Pages,
    meta: Pages,
    both: Pages,
    unavailable: Option<RawJson>,
    ttl_ms: u64,
    pub(crate) reports: Vec<String>,
    pub(crate) owners: BTreeMap<String, String>,
}

/// The pages of one list, ready to be sent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pages: Vec<RawJson>,
    /// The same for the same tools, whatever was compiled in between.
    id: Option<blake3::Hash>,
}

impl Catalog {
    /// Compiles what the servers list now and `shows` lets through. What was shown `before` in the same way is taken from
    /// there: most of it.
    pub(crate) fn compile(
        servers: &Servers,
        access: &ToolAccess,
        owners: &BTreeMap<String, String>,
        shows: &dyn Fn(&str, &str) -> bool,
        own_tools: &[MetaTool],
        before: Option<&Self>,
    ) -> Self {
        let seen: Vec<Option<Arc<ToolSet>>> = servers.iter().map(Server::tools).collect();
        let listed: Vec<(&Server, Arc<ToolSet>)> = servers
            .iter()
            .zip(&seen)
            .filter(|(server, _)| server.definition().enabled)
            .filter_map(|(server, tools)| Some((server, tools.clone()?)))
            .collect();
        let metas: HashMap<String, MetaTool> = own_tools
            .iter()
            .map(|tool| (tool.name(&access.meta_prefix), *tool))
            .collect();
        let tool_names: Vec<Vec<&str>> = listed
            .iter()
            .map(|(server, tools)| {
                let names = tools.iter().map(|tool| tool.name.as_str());
                names.filter(|tool| shows(server.name(), tool)).collect()
            })
            .collect();
        let listings: Vec<_> = listed
            .iter()
            .zip(&tool_names)
            .map(|((server, _), tools)| Listing {
                prefix: &server.definition().prefix,
                tools,
            })
            .collect();
        let reserved: BTreeSet<String> = metas.keys().cloned().collect();
        let names = name_tools(&listings, access.names, owners, &reserved);

        let entry_of = |shown: &str, (index, name): &(usize, String)| {
            let (server, tools) = listed.get(*index)?;
            let tool = Arc::clone(tools.get(name)?);
            let before = before.and_then(|before| before.entries.get(shown));
            let same = before.filter(|before| Arc::ptr_eq(&before.tool, &tool));
            Some(Entry {
                server: (*server).clone(),
                listed: same.map_or_else(|| definition(shown, &tool), |same| same.listed.clone()),
                tool,
            })
        };
        let entries: BTreeMap<String, Entry> = names
            .shown
            .iter()
            .filter_map(|(shown, place)| Some((shown.clone(), entry_of(shown, place)?)))
            .collect();
        let unavailable = unavailable(servers);
        let own_ttl = listed
            .iter()
            .filter_map(|(_, tools)| tools.ttl_ms)
            .filter(|ttl| *ttl > 0)
            .min();
        let ttl_ms = if servers.iter().any(is_missing) {
            0
        } else {
            own_ttl.unwrap_or(TTL_MS).min(TTL_MS)
        };

        let flat: Vec<RawJson> = entries.values().map(|entry| entry.listed.clone()).collect();
        let meta: Vec<RawJson> = own_tools
            .iter()
            .map(|tool| tool.definition(&access.meta_prefix))
            .collect();
        let both: Vec<RawJson> = meta.iter().chain(&flat).cloned().collect();
        Self {
            seen,
            entries,
            metas,
            surface: Some(access.surface),
            flat: Pages::new(&flat),
            meta: Pages::new(&meta),
            both: Pages::new(&both),
            unavailable: (!unavailable.is_empty()).then(|| RawJson::encode(&unavailable)),
            ttl_ms,
            reports: names.reports,
            owners: names.owners,
        }
    }

    /// Tells whether it was compiled from what the servers list now.
    pub(crate) fn is_of_now(&self, servers: &Servers) -> bool {
        let now = servers.iter().map(Server::tools);
        self.seen.len() == servers.iter().count()
            && now.zip(&self.seen).all(|(now, seen)| match (&now, seen) {
                (Some(now), Some(seen)) => Arc::ptr_eq(now, seen),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            })
    }

    /// Returns what a client sees that asked to narrow its view; a wish can only narrow.
    pub(crate) fn surface(&self, wish: Option<Surface>) -> Surface {
        match (self.surface.unwrap_or(Surface::Both), wish) {
            (Surface::Both, Some(wish)) => wish,
            (own, _) => own,
        }
    }

    /// Returns what a name leads to on a surface: the one decision behind the list and the call.
    pub(crate) fn target(&self, name: &str, surface: Surface) -> Option<Target> {
        let flat = || self.entries.get(name).cloned().map(Target::Tool);
        let meta = || self.metas.get(name).copied().map(Target::Meta);
        match surface {
            Surface::Flat => flat(),
            Surface::Meta => meta(),
            Surface::Both => meta().or_else(flat),
        }
    }

    /// Walks over the tools of servers by the name they are shown under.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    /// Returns one page of the list.
    pub(crate) fn page(&self, surface: Surface, number: usize) -> Option<&RawJson> {
        self.pages(surface).pages.get(number)
    }

    /// Tells whether a page follows.
    pub(crate) fn has_page(&self, surface: Surface, number: usize) -> bool {
        number < self.pages(surface).pages.len()
    }

    fn pages(&self, surface: Surface) -> &Pages {
        match surface {
            Surface::Flat => &self.flat,
            Surface::Meta => &self.meta,
            Surface::Both => &self.both,
        }
    }

    /// Identifies what is listed on a surface.
    pub(crate) fn view(&self, surface: Surface) -> blake3::Hash {
        self.pages(surface).id.unwrap_or_else(|| blake3::hash(&[]))
    }

    /// Tells whether clients are shown the same tools.
    pub(crate) fn shows_the_same_as(&self, other: &Self) -> bool {
        self.surface == other.surface
            && self.both.id == other.both.id
            && self.meta.id == other.meta.id
    }

    /// Returns the servers whose tools are missing or cannot be called, encoded; `None` where there are none.
    pub(crate) fn unavailable(&self) -> Option<&RawJson> {
        self.unavailable.as_ref()
    }

    /// Returns how long a client may keep a list, in milliseconds.
    pub(crate) fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }
}

impl Pages {
    fn new(tools: &[RawJson]) -> Self {
        let pages: Vec<RawJson> = if tools.is_empty() {
            vec![page_of(&[])]
        } else {
            tools.chunks(PAGE).map(page_of).collect()
        };
        let mut hasher = blake3::Hasher::new();
        for page in &pages {
            hasher.update(page.as_bytes());
        }
        Self {
            pages,
            id: Some(hasher.finalize()),
        }
    }
}

/// Writes entries as one page.
pub(crate) fn page_of(entries: &[RawJson]) -> RawJson {
    let mut wire = Wire::new();
    wire.push_text("[");
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            wire.push_text(",");
        }
        wire.push(entry);
    }
    wire.push_text("]");
    RawJson::parse(wire.into_bytes()).unwrap_or(RawJson::NULL)
}

/// Returns a tool's definition under the name it is shown by; all else stays as the server wrote it.
fn definition(shown: &str, tool: &Tool) -> RawJson {
    let mut definition: RawObject = tool.definition.clone();
    definition.set("name", RawJson::string(shown));
    definition.to_raw()
}

/// Tells whether a server should be listed and is not, since it was never listed.
fn is_missing(server: &Server) -> bool {
    server.definition().enabled && server.tools().is_none()
}

fn unavailable(servers: &Servers) -> Vec<Unavailable> {
    let enabled = servers.iter().filter(|server| server.definition().enabled);
    let snapshots = enabled
        .map(Server::snapshot)
        .filter(|snapshot| !snapshot.ready);
    snapshots
        .map(|snapshot| {
            let reason = match snapshot.reason {
                Some(reason) => format!("{}: {reason}", snapshot.state),
                None => snapshot.state.to_owned(),
            };
            Unavailable {
                name: snapshot.name,
                reason,
            }
        })
        .collect()
}
