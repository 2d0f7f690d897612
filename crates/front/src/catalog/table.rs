//! [`Table`]: which name shows which tool, and the pages of the lists. It depends on nothing but what servers list and on
//! [`Terms`], so that it serves as long as both are the same, whatever instances of the servers there are.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use genlock_config::ToolAccess;
use genlock_mcp::{RawJson, RawObject, Wire};
use genlock_policy::{Gates, Overlay};
use genlock_servers::{Server, Tool, ToolSet};

use crate::{
    meta_tools::MetaTool,
    naming::{Listing, name_tools},
};

/// How many tools one page of a list holds.
pub(crate) const PAGE: usize = 5_000;

/// What decides what of the lists is shown, and under which name.
#[derive(Clone, PartialEq)]
pub(crate) struct Terms {
    pub(crate) access: ToolAccess,
    /// What lets a tool through.
    pub(crate) gates: Arc<Gates>,
    /// What is revoked, and so is not listed.
    pub(crate) revoked: Arc<Overlay>,
    /// Whose view it is, where it is a tenant's.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) own_tools: &'static [MetaTool],
    /// Which prefix owned a bare name so far.
    pub(crate) owners: BTreeMap<String, String>,
}

/// A server and what it listed when it was looked at.
pub(super) struct Source {
    pub(super) server: Server,
    tools: Option<Arc<ToolSet>>,
}

/// What is shown of some lists on some terms.
pub(super) struct Table {
    pub(super) rows: BTreeMap<String, Row>,
    pub(super) metas: HashMap<String, MetaTool>,
    pub(super) flat: Pages,
    pub(super) meta: Pages,
    pub(super) both: Pages,
    pub(super) reports: Vec<String>,
    pub(super) owners: BTreeMap<String, String>,
}

/// A tool under the name that it is shown by.
pub(super) struct Row {
    /// The place of its server among the sources.
    pub(super) source: usize,
    pub(super) tool: Arc<Tool>,
    /// What clients list: its definition under that name.
    listed: RawJson,
    /// Whether it is revoked: not listed any more. Its name stays its own, so that a call says what became of it, and no other
    /// tool is called in its place.
    pub(super) revoked: bool,
}

/// The pages of one list, ready to be sent.
pub(super) struct Pages {
    pub(super) pages: Vec<RawJson>,
    /// The same for the same tools, whatever was compiled in between.
    pub(super) id: blake3::Hash,
}

// === impl Source ===

impl Source {
    pub(super) fn of(server: &Server) -> Self {
        Self {
            tools: server.tools(),
            server: server.clone(),
        }
    }

    /// Returns what may be shown of it.
    pub(super) fn shown(&self) -> Option<&Arc<ToolSet>> {
        self.tools
            .as_ref()
            .filter(|_| self.server.definition().enabled)
    }

    /// Tells whether it should be listed and is not, since it was never listed.
    pub(super) fn is_missing(&self) -> bool {
        self.server.definition().enabled && self.tools.is_none()
    }

    pub(super) fn lists_the_same_as(&self, tools: Option<&Arc<ToolSet>>) -> bool {
        match (&self.tools, tools) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Tells whether a table cannot tell it from another, which may be another instance of the server.
    fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (self.server.definition(), other.server.definition());
        self.lists_the_same_as(other.tools.as_ref())
            && (&own.name, &own.prefix, own.enabled)
                == (&others.name, &others.prefix, others.enabled)
    }
}

/// Tells whether a table comes out the same from either, on the same terms.
pub(super) fn alike(one: &[Source], other: &[Source]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_like(other))
}

// === impl Table ===

impl Table {
    /// Compiles what of the lists may be shown. What was shown `before` in the same way is taken from there.
    pub(super) fn compile(sources: &[Source], terms: &Terms, before: Option<&Self>) -> Self {
        let prefix = &terms.access.meta_prefix;
        let metas: HashMap<String, MetaTool> = terms
            .own_tools
            .iter()
            .map(|tool| (tool.name(prefix), *tool))
            .collect();
        let listed: Vec<(usize, &Source, &ToolSet)> = sources
            .iter()
            .enumerate()
            .filter_map(|(index, source)| Some((index, source, &**source.shown()?)))
            .collect();
        let tool_names: Vec<Vec<&str>> = listed
            .iter()
            .map(|(_, source, tools)| terms.names(source.server.name(), tools))
            .collect();
        let listings: Vec<_> = listed
            .iter()
            .zip(&tool_names)
            .map(|((_, source, _), tools)| Listing {
                prefix: &source.server.definition().prefix,
                tools,
            })
            .collect();
        let reserved: BTreeSet<String> = metas.keys().cloned().collect();
        let names = name_tools(&listings, terms.access.names, &terms.owners, &reserved);

        let row_of = |shown: &str, (index, name): &(usize, String)| {
            let (source, _, tools) = *listed.get(*index)?;
            let tool = Arc::clone(tools.get(name)?);
            let before = before.and_then(|before| before.rows.get(shown));
            let same = before.filter(|before| Arc::ptr_eq(&before.tool, &tool));
            let listed = same.map_or_else(|| definition(shown, &tool), |same| same.listed.clone());
            let server = sources.get(source)?.server.name();
            Some(Row {
                source,
                tool,
                listed,
                revoked: terms.revoked.refuses(server, Some(name)).is_some(),
            })
        };
        let rows: BTreeMap<String, Row> = names
            .shown
            .iter()
            .filter_map(|(shown, place)| Some((shown.clone(), row_of(shown, place)?)))
            .collect();
        let shown = rows.values().filter(|row| !row.revoked);
        let flat: Vec<RawJson> = shown.map(|row| row.listed.clone()).collect();
        let own = terms.own_tools.iter();
        let meta: Vec<RawJson> = own.map(|tool| tool.definition(prefix)).collect();
        let both: Vec<RawJson> = meta.iter().chain(&flat).cloned().collect();
        Self {
            rows,
            metas,
            flat: Pages::new(&flat),
            meta: Pages::new(&meta),
            both: Pages::new(&both),
            reports: names.reports,
            owners: names.owners,
        }
    }
}

impl Terms {
    /// Returns which tools of a server are shown.
    fn names<'t>(&self, server: &str, tools: &'t ToolSet) -> Vec<&'t str> {
        let names = tools.iter().map(|tool| tool.name.as_str());
        let shown = |tool: &&str| self.gates.shows(server, tool, self.tenant.as_deref());
        names.filter(shown).collect()
    }
}

// === impl Pages ===

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
            id: hasher.finalize(),
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
