//! [`Catalog`]: what is listed and what may be called, compiled once from the servers' tools and read by every request.
//!
//! Listing and calling read the same table, so that what is listed is callable and nothing else is.

mod table;

use std::{collections::BTreeMap, sync::Arc};

use genlock_config::Surface;
use genlock_mcp::RawJson;
use genlock_servers::{Server, Servers, Tool};
use serde::Serialize;

pub(crate) use self::table::{PAGE, Terms, page_of};
use self::table::{Pages, Row, Source, Table, alike};
use crate::meta_tools::MetaTool;

/// How long a client may keep a list, in milliseconds, unless a server says less.
const TTL_MS: u64 = 5_000;

/// A tool of a server, as it is shown.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) server: Server,
    pub(crate) tool: Arc<Tool>,
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
pub(crate) struct Catalog {
    terms: Terms,
    /// The servers and the lists that it was compiled from.
    sources: Vec<Source>,
    table: Arc<Table>,
    unavailable: Option<RawJson>,
    ttl_ms: u64,
}

impl Catalog {
    /// Compiles what the servers list now, on terms. The table of `before` is taken over where it comes to the same, as after
    /// most changes of a configuration and all of a server's state.
    pub(crate) fn compile(servers: &Servers, terms: Terms, before: Option<&Self>) -> Self {
        let sources: Vec<Source> = servers.iter().map(Source::of).collect();
        let same =
            before.filter(|before| before.terms == terms && alike(&before.sources, &sources));
        let table = match same {
            Some(before) => Arc::clone(&before.table),
            None => Arc::new(Table::compile(
                &sources,
                &terms,
                before.map(|before| &*before.table),
            )),
        };
        let unavailable = unavailable(servers);
        let own_ttl = sources
            .iter()
            .filter_map(|source| source.shown()?.ttl_ms)
            .filter(|ttl| *ttl > 0)
            .min();
        let ttl_ms = match sources.iter().any(Source::is_missing) {
            true => 0,
            false => own_ttl.unwrap_or(TTL_MS).min(TTL_MS),
        };
        Self {
            terms,
            sources,
            table,
            unavailable: (!unavailable.is_empty()).then(|| RawJson::encode(&unavailable)),
            ttl_ms,
        }
    }

    /// Tells whether it was compiled from what the servers list now.
    pub(crate) fn is_of_now(&self, servers: &Servers) -> bool {
        let mut now = servers.iter().zip(&self.sources);
        self.sources.len() == servers.len()
            && now.all(|(now, source)| source.lists_the_same_as(now.tools().as_ref()))
    }

    /// Returns what a client sees that asked to narrow its view; a wish can only narrow.
    pub(crate) fn surface(&self, wish: Option<Surface>) -> Surface {
        match (self.terms.access.surface, wish) {
            (Surface::Both, Some(wish)) => wish,
            (own, _) => own,
        }
    }

    /// Returns what a name leads to on a surface: the one decision behind the list and the call. What is revoked is found as
    /// well, and refuses the call itself.
    pub(crate) fn target(&self, name: &str, surface: Surface) -> Option<Target> {
        let flat = || self.entry(self.table.rows.get(name)?).map(Target::Tool);
        let meta = || self.table.metas.get(name).copied().map(Target::Meta);
        match surface {
            Surface::Flat => flat(),
            Surface::Meta => meta(),
            Surface::Both => meta().or_else(flat),
        }
    }

    fn entry(&self, row: &Row) -> Option<Entry> {
        Some(Entry {
            server: self.sources.get(row.source)?.server.clone(),
            tool: Arc::clone(&row.tool),
        })
    }

    /// Walks over the tools of servers that are listed, by the name they are shown under.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Server, &Tool)> {
        let listed = self.table.rows.iter().filter(|(_, row)| !row.revoked);
        listed.filter_map(|(shown, row)| {
            let source = self.sources.get(row.source)?;
            Some((shown.as_str(), &source.server, &*row.tool))
        })
    }

    /// Returns the tool of a server that a name belongs to, listed or revoked.
    pub(crate) fn named(&self, name: &str) -> Option<(&Server, &Tool)> {
        let row = self.table.rows.get(name)?;
        Some((&self.sources.get(row.source)?.server, &row.tool))
    }

    /// Returns the name that belongs to a tool of a server, listed or revoked.
    pub(crate) fn name_of(&self, server: &str, tool: &str) -> Option<&str> {
        let mut rows = self.table.rows.iter();
        let is_it = |row: &Row| {
            let source = self.sources.get(row.source);
            source.is_some_and(|source| source.server.name() == server) && row.tool.name == tool
        };
        let (name, _) = rows.find(|(_, row)| is_it(row))?;
        Some(name)
    }

    /// Returns the tool of the gateway itself that has a name, whether the surface lists it or not.
    pub(crate) fn own_tool(&self, name: &str) -> Option<MetaTool> {
        self.table.metas.get(name).copied()
    }

    /// Returns what is not shown under its own name, and why; for people.
    pub(crate) fn reports(&self) -> &[String] {
        &self.table.reports
    }

    /// Returns which prefix owns a bare name.
    pub(crate) fn owners(&self) -> &BTreeMap<String, String> {
        &self.table.owners
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
            Surface::Flat => &self.table.flat,
            Surface::Meta => &self.table.meta,
            Surface::Both => &self.table.both,
        }
    }

    /// Identifies what is listed on a surface.
    pub(crate) fn view(&self, surface: Surface) -> blake3::Hash {
        self.pages(surface).id
    }

    /// Tells whether clients are shown the same tools.
    pub(crate) fn shows_the_same_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.table, &other.table);
        self.terms.access.surface == other.terms.access.surface
            && own.both.id == others.both.id
            && own.meta.id == others.meta.id
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

fn unavailable(servers: &Servers) -> Vec<Unavailable> {
    let enabled = servers.iter().filter(|server| server.definition().enabled);
    enabled
        .filter_map(Server::snapshot_unless_ready)
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

#[cfg(test)]
mod tests;
