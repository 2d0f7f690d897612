//! [`World`]: what one request sees, from its admission to its last byte.

use std::{collections::BTreeMap, sync::Arc};

use genlock_config::{Config, Surface};
use genlock_policy::{Gates, GenerationNumber};
use genlock_servers::{Server, Servers};
use tokio::time::Instant;

use crate::{catalog::Catalog, meta_tools::MetaTool};

/// One committed configuration, its servers, and the catalog compiled from both.
///
/// A request holds the `World` of its admission and has no way to ask for a newer one, so that it cannot see two
/// configurations. Holding it also keeps its servers running.
pub(crate) struct World {
    /// The generation of the configuration; `None` where the host commits none.
    pub(crate) generation: Option<GenerationNumber>,
    pub(crate) config: Arc<Config>,
    pub(crate) servers: Servers,
    pub(crate) catalog: Catalog,
    /// What each call has to pass before it reaches a server.
    pub(crate) gates: Arc<Gates>,
    /// Rises each time clients are shown other tools; cursors belong to it.
    pub(crate) version: u64,
    /// Until when a list waits for servers that were never listed.
    pub(crate) first_lists: Instant,
    /// Which prefix owns a bare name, as far as that is settled.
    owners: BTreeMap<String, String>,
    /// The gateway's own tools that are shown.
    pub(crate) own_tools: &'static [MetaTool],
}

impl World {
    /// Compiles a configuration that takes the place of another.
    pub(crate) fn compile(
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        servers: Servers,
        own_tools: &'static [MetaTool],
        before: Option<&Self>,
    ) -> Self {
        let owners = before
            .map(|before| before.owners.clone())
            .unwrap_or_default();
        let catalog = Catalog::compile(
            &servers,
            &config.tool_access,
            &owners,
            own_tools,
            before.map(|before| &before.catalog),
        );
        let first_lists = Instant::now() + config.first_list_wait;
        let version = before.map_or(0, |before| before.version_of(&catalog));
        let world = Self {
            generation,
            gates: Arc::new(Gates::of(&config)),
            config,
            servers,
            catalog,
            version,
            first_lists,
            owners,
            own_tools,
        };
        world.with_settled_owners()
    }

    /// Compiles the same configuration anew, after servers were listed.
    pub(crate) fn recompiled(&self) -> Self {
        let catalog = Catalog::compile(
            &self.servers,
            &self.config.tool_access,
            &self.owners,
            self.own_tools,
            Some(&self.catalog),
        );
        let world = Self {
            generation: self.generation,
            config: Arc::clone(&self.config),
            servers: self.servers.clone(),
            version: self.version_of(&catalog),
            catalog,
            gates: Arc::clone(&self.gates),
            first_lists: self.first_lists,
            owners: self.owners.clone(),
            own_tools: self.own_tools,
        };
        world.with_settled_owners()
    }

    /// Settles who owns a bare name, once every server was listed or the wait for that is over. Nobody is shown a list
    /// before, so that the order in which servers are listed after a start decides nothing.
    fn with_settled_owners(mut self) -> Self {
        let missing = |server: &Server| server.definition().enabled && server.tools().is_none();
        if Instant::now() >= self.first_lists || !self.servers.iter().any(missing) {
            self.owners.clone_from(&self.catalog.owners);
        }
        self
    }

    /// Tells whether another world is of the same configuration.
    pub(crate) fn is_of_the_same_config(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }

    fn version_of(&self, next: &Catalog) -> u64 {
        self.version + u64::from(!next.shows_the_same_as(&self.catalog))
    }

    /// Identifies the list that a client is shown which asked to narrow its view so.
    pub(crate) fn view(&self, wish: Option<Surface>) -> blake3::Hash {
        self.catalog.view(self.catalog.surface(wish))
    }

    /// Tells whether its catalog was compiled from what its servers list now.
    pub(crate) fn is_of_now(&self) -> bool {
        self.catalog.is_of_now(&self.servers)
    }

    /// Tells a model what is served here.
    pub(crate) fn instructions(&self) -> Option<String> {
        let described = self
            .servers
            .iter()
            .filter(|server| server.definition().enabled)
            .map(|server| match &server.definition().description {
                Some(description) => format!("- {}: {description}", server.name()),
                None => format!("- {}", server.name()),
            });
        let lines: Vec<_> = described.collect();
        (!lines.is_empty()).then(|| {
            format!(
                "Genlock serves the tools of these MCP servers:\n{}",
                lines.join("\n")
            )
        })
    }
}
