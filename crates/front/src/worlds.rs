//! [`Worlds`]: what each audience of one configuration sees, and the watches on the servers behind it.

use std::{collections::BTreeMap, sync::Arc};

use genlock_config::Mode;
use genlock_policy::Overlay;
use genlock_servers::{Offers, Server, ServerSnapshot, Servers, ToolSet};
use tokio::sync::{Notify, watch};

use crate::world::{Audience, Common, World};

/// All worlds of one configuration, replaced as one.
pub(crate) struct Worlds {
    pub(crate) everyone: Arc<World>,
    pub(crate) nobody: Arc<World>,
    pub(crate) tenants: BTreeMap<Arc<str>, Arc<World>>,
}

/// What tells of a server's tools and of its state.
pub(crate) type ServerWatch = (
    watch::Receiver<Option<Arc<ToolSet>>>,
    watch::Receiver<Option<Arc<Offers>>>,
    watch::Receiver<ServerSnapshot>,
);

/// Watches servers from now on: begun before a catalog is compiled, so that it misses no change that the catalog misses.
pub(crate) fn watch<'s>(servers: impl Iterator<Item = &'s Server>) -> Vec<ServerWatch> {
    servers
        .map(|server| (server.watch_tools(), server.watch_offers(), server.watch()))
        .collect()
}

/// Returns the servers of a tenant that are neither those it had nor shared with others.
pub(crate) fn new_of_tenant<'s>(
    servers: &'s Servers,
    before: &'s Servers,
    shared: &'s Servers,
) -> impl Iterator<Item = &'s Server> {
    let is_own = |server: &&Server| {
        let same_name = shared.get(server.name());
        same_name.is_none_or(|shared| !shared.is(server))
    };
    servers.not_in(before).filter(is_own)
}

/// Notes every change of a server, until it is gone.
pub(crate) async fn note_changes(watch: ServerWatch, noted: Arc<Notify>) {
    let (mut tools, mut offers, mut states) = watch;
    loop {
        let gone = tokio::select! {
            changed = tools.changed() => changed.is_err(),
            changed = offers.changed() => changed.is_err(),
            changed = states.changed() => changed.is_err(),
        };
        if gone {
            return;
        }
        noted.notify_one();
    }
}

// === impl Worlds ===

impl Worlds {
    pub(crate) fn compile(
        common: &Common,
        servers: Servers,
        tenants: Vec<(Arc<str>, Servers)>,
        before: Option<&Self>,
    ) -> Self {
        let of = |audience, servers, before: Option<&Arc<World>>| {
            let before = before.map(|before| &**before);
            Arc::new(World::compile(common.clone(), audience, servers, before))
        };
        let tenants = tenants.into_iter().map(|(tenant, servers)| {
            let before = before.and_then(|before| before.tenants.get(&tenant));
            let audience = Audience::Tenant(Arc::clone(&tenant));
            (tenant, of(audience, servers, before))
        });
        Self {
            tenants: tenants.collect(),
            nobody: of(
                Audience::Nobody,
                Servers::default(),
                before.map(|before| &before.nobody),
            ),
            everyone: of(
                Audience::Everyone,
                servers,
                before.map(|before| &before.everyone),
            ),
        }
    }

    pub(crate) fn recompiled(&self, revoked: &Arc<Overlay>) -> Self {
        let anew = |world: &Arc<World>| Arc::new(world.recompiled(revoked));
        Self {
            everyone: anew(&self.everyone),
            // No server is listed there.
            nobody: Arc::clone(&self.nobody),
            tenants: self
                .tenants
                .iter()
                .map(|(tenant, world)| (Arc::clone(tenant), anew(world)))
                .collect(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<World>> {
        [&self.everyone, &self.nobody]
            .into_iter()
            .chain(self.tenants.values())
    }

    /// Returns the worlds in which something is shown.
    pub(crate) fn shown(&self) -> Vec<&Arc<World>> {
        match self.everyone.config.tool_access.mode {
            Mode::Egress => vec![&self.everyone],
            Mode::FrontDoor => self.tenants.values().collect(),
        }
    }

    pub(crate) fn of(&self, audience: &Audience) -> Option<&Arc<World>> {
        match audience {
            Audience::Everyone => Some(&self.everyone),
            Audience::Nobody => Some(&self.nobody),
            Audience::Tenant(tenant) => self.tenants.get(tenant),
        }
    }

    /// Tells whether some client is shown something else than under `before`. A tenant that was not there was shown nothing.
    pub(crate) fn shows_more_than(&self, before: &Self) -> bool {
        self.all().any(|world| {
            let old = before.of(&world.audience);
            old.is_some_and(|old| {
                (old.version, old.shelf_version) != (world.version, world.shelf_version)
            })
        })
    }
}
