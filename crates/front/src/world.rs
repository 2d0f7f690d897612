//! [`World`]: what one request sees, from its admission to its last byte.

use std::{collections::BTreeMap, sync::Arc};

use genlock_access::{Decision, Permission, Roles, Visitor};
use genlock_config::{Config, Mode, Surface, ToolAccess};
use genlock_mcp::error::code;
use genlock_policy::{Gate, Gates, GenerationNumber, Overlay};
use genlock_servers::{Server, Servers};
use tokio::time::Instant;

use crate::{
    catalog::{Catalog, Terms},
    meta_tools::MetaTool,
    naming::SEPARATOR,
    resources::shelf::Shelf,
    tenant::{Sight, Tenant},
};

/// Whose view a world is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Callers that are trusted: the owner, and in `egress` whoever may use tools and is of no tenant.
    Everyone,
    /// The callers of a tenant that may use tools.
    Tenant(Arc<str>),
    /// Callers that may use no tool: nothing is shown to them.
    Nobody,
}

/// Why a visitor is shown nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoView {
    /// Nobody has said who they are, where callers are not trusted.
    Unnamed,
    /// No role grants this.
    Missing(Permission),
    /// The caller belongs to no tenant, where callers are not trusted.
    NoTenant,
}

/// What whoever is shown tools has to be granted.
pub(crate) const TOOLS: [Permission; 2] = [Permission::ToolInvoke, Permission::ToolList];

/// One committed configuration, its servers, and the catalog compiled from both, as one audience sees them.
///
/// A request holds the `World` of its admission and has no way to ask for a newer one, so that it cannot see two
/// configurations. Holding it also keeps its servers running.
pub(crate) struct World {
    pub(crate) audience: Audience,
    /// The generation of the configuration; `None` where the host commits none.
    pub(crate) generation: Option<GenerationNumber>,
    pub(crate) config: Arc<Config>,
    pub(crate) roles: Arc<Roles>,
    /// The servers that this audience can reach, and no other.
    pub(crate) servers: Servers,
    pub(crate) catalog: Catalog,
    /// What is served beside tools.
    pub(crate) shelf: Arc<Shelf>,
    /// What each call has to pass before it reaches a server.
    pub(crate) gates: Arc<Gates>,
    /// What was revoked when this was compiled, and so is not listed. Calls ask what is revoked now.
    revoked: Arc<Overlay>,
    /// Rises each time clients are shown other tools; cursors belong to it.
    pub(crate) version: u64,
    /// Rises each time some client may be shown other resources or prompts.
    pub(crate) shelf_version: u64,
    /// Until when a list waits for servers that were never listed.
    pub(crate) first_lists: Instant,
    /// Which prefix owns a bare name, as far as that is settled.
    owners: BTreeMap<String, String>,
    /// The same for prompts.
    prompt_owners: BTreeMap<String, String>,
    /// The gateway's own tools that are shown.
    pub(crate) own_tools: &'static [MetaTool],
}

/// What all worlds of one configuration have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) generation: Option<GenerationNumber>,
    pub(crate) config: Arc<Config>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) revoked: Arc<Overlay>,
    pub(crate) own_tools: &'static [MetaTool],
}

impl Common {
    pub(crate) fn new(
        generation: Option<GenerationNumber>,
        config: Arc<Config>,
        revoked: Arc<Overlay>,
        own_tools: &'static [MetaTool],
    ) -> Self {
        Self {
            own_tools,
            generation,
            roles: Arc::new(Roles::new(config.auth.role_assignments.clone())),
            gates: Arc::new(Gates::of(&config)),
            revoked,
            config,
        }
    }
}

impl Audience {
    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Everyone | Self::Nobody => None,
        }
    }

    /// Compiles what this audience is shown.
    fn catalog(
        &self,
        common: &Common,
        servers: &Servers,
        owners: &BTreeMap<String, String>,
        before: Option<&Catalog>,
    ) -> Catalog {
        let terms = Terms {
            access: common.config.tool_access.clone(),
            gates: Arc::clone(&common.gates),
            revoked: Arc::clone(&common.revoked),
            tenant: None,
            own_tools: common.own_tools,
            owners: owners.clone(),
        };
        match self {
            Self::Everyone => Catalog::compile(servers, terms, before),
            Self::Tenant(tenant) => {
                let tenant = Some(Arc::clone(tenant));
                Catalog::compile(servers, Terms { tenant, ..terms }, before)
            }
            Self::Nobody => {
                // The gateway's own tools are tools as well.
                let access = ToolAccess {
                    surface: Surface::Flat,
                    ..terms.access
                };
                Catalog::compile(&Servers::default(), Terms { access, ..terms }, before)
            }
        }
    }
}

impl NoView {
    /// Returns the gate that decides so.
    pub(crate) fn gate(self) -> Gate {
        match self {
            Self::Unnamed => Gate::Credential,
            Self::Missing(_) => Gate::Role,
            Self::NoTenant => Gate::Tenant,
        }
    }

    /// Returns the stable code.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Unnamed => "auth.required",
            Self::Missing(_) => "permission_denied",
            Self::NoTenant => "no_tenant",
        }
    }

    /// Returns the permission that is missing.
    pub(crate) fn missing(self) -> Option<Permission> {
        match self {
            Self::Missing(missing) => Some(missing),
            Self::Unnamed | Self::NoTenant => None,
        }
    }
}

impl World {
    /// Compiles a configuration that takes the place of another.
    pub(crate) fn compile(
        common: Common,
        audience: Audience,
        servers: Servers,
        before: Option<&Self>,
    ) -> Self {
        let owners = before
            .map(|before| before.owners.clone())
            .unwrap_or_default();
        let catalog = audience.catalog(
            &common,
            &servers,
            &owners,
            before.map(|before| &before.catalog),
        );
        let prompt_owners = before
            .map(|before| before.prompt_owners.clone())
            .unwrap_or_default();
        let shelf = Shelf::compile(&servers, &common.config, &prompt_owners, &common.revoked);
        let first_lists = Instant::now() + common.config.first_list_wait;
        let version = before.map_or(0, |before| before.version_of(&catalog));
        let shelf_version =
            before.map_or(0, |before| before.shelf_version_of(&shelf, &common.config));
        let world = Self {
            audience,
            generation: common.generation,
            config: common.config,
            roles: common.roles,
            gates: common.gates,
            revoked: common.revoked,
            servers,
            catalog,
            shelf: Arc::new(shelf),
            version,
            shelf_version,
            first_lists,
            owners,
            own_tools: common.own_tools,
            prompt_owners,
        };
        world.with_settled_owners()
    }

    /// Compiles the same configuration anew, after servers were listed or something was revoked.
    pub(crate) fn recompiled(&self, revoked: &Arc<Overlay>) -> Self {
        let common = Common {
            revoked: Arc::clone(revoked),
            ..self.common()
        };
        let catalog =
            self.audience
                .catalog(&common, &self.servers, &self.owners, Some(&self.catalog));
        let shelf = match self.shelf.is_of_now(&self.servers, revoked) {
            true => Arc::clone(&self.shelf),
            false => Arc::new(Shelf::compile(
                &self.servers,
                &self.config,
                &self.prompt_owners,
                revoked,
            )),
        };
        let world = Self {
            audience: self.audience.clone(),
            generation: common.generation,
            config: common.config,
            roles: common.roles,
            gates: common.gates,
            revoked: common.revoked,
            shelf_version: self.shelf_version_of(&shelf, &self.config),
            shelf,
            servers: self.servers.clone(),
            version: self.version_of(&catalog),
            catalog,
            first_lists: self.first_lists,
            owners: self.owners.clone(),
            own_tools: self.own_tools,
            prompt_owners: self.prompt_owners.clone(),
        };
        world.with_settled_owners()
    }

    pub(crate) fn common(&self) -> Common {
        Common {
            generation: self.generation,
            config: Arc::clone(&self.config),
            roles: Arc::clone(&self.roles),
            gates: Arc::clone(&self.gates),
            revoked: Arc::clone(&self.revoked),
            own_tools: self.own_tools,
        }
    }

    /// Tells whose view a visitor has under this configuration.
    pub(crate) fn audience_of(&self, visitor: &Visitor) -> Audience {
        self.view_of(visitor).unwrap_or(Audience::Nobody)
    }

    /// Decides whose view a visitor has, or why none: the one decision behind every list and every call.
    pub(crate) fn view_of(&self, visitor: &Visitor) -> Result<Audience, NoView> {
        let front_door = match self.config.tool_access.mode {
            Mode::FrontDoor => true,
            Mode::Egress => false,
        };
        let Visitor::Known(principal) = visitor else {
            return match front_door {
                true => Err(NoView::Unnamed),
                false => Ok(Audience::Everyone),
            };
        };
        let tenant = principal.tenant.as_deref();
        for needed in TOOLS {
            if let Decision::Missing(missing) = self.roles.may(principal, needed, tenant) {
                return Err(NoView::Missing(missing));
            }
        }
        match tenant {
            Some(tenant) => Ok(Audience::Tenant(tenant.into())),
            None if !front_door => Ok(Audience::Everyone),
            None => Err(NoView::NoTenant),
        }
    }

    /// Returns what this audience may see beside tools.
    pub(crate) fn sight(&self) -> Sight<'_> {
        Sight::of(&self.audience, &self.config)
    }

    /// Returns whose links this audience is shown.
    pub(crate) fn tenant(&self) -> Option<Tenant> {
        self.audience.tenant().map(Tenant::new)
    }

    /// Tells what a tool is answered with that is not there: in `front_door` as if there were no tools at all.
    pub(crate) fn unknown_tool(&self) -> i64 {
        match self.config.tool_access.mode {
            Mode::FrontDoor => code::METHOD_NOT_FOUND,
            Mode::Egress => code::INVALID_PARAMS,
        }
    }

    /// Tells why a visitor of this audience is refused a tool: for want of a permission, of a tenant, or of the tool.
    pub(crate) fn why_nothing(
        &self,
        visitor: &Visitor,
    ) -> (Gate, &'static str, Option<Permission>) {
        match self.view_of(visitor) {
            Err(nothing) => (nothing.gate(), nothing.code(), nothing.missing()),
            Ok(_) => (Gate::Tool, "unknown_tool", None),
        }
    }

    /// Returns the server and the tool that a name stands for, where the rules hide it from this audience, whether there is
    /// such a tool or not.
    pub(crate) fn hidden<'a>(&'a self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let definitions = self.config.servers.values();
        let named = definitions.filter_map(|definition| {
            let rest = name.strip_prefix(definition.prefix.as_str())?;
            Some((definition.name.as_str(), rest.strip_prefix(SEPARATOR)?))
        });
        let mut hidden = named.filter(|(server, tool)| !self.shows(server, tool));
        hidden.next()
    }

    /// Tells whether a server has a tool for this audience.
    pub(crate) fn shows(&self, server: &str, tool: &str) -> bool {
        self.gates.shows(server, tool, self.audience.tenant())
    }

    /// Returns the code of why a tool of a server is refused; `None` where it is not, or nobody knows yet.
    pub(crate) fn refuses(&self, server: &Server, tool: &str) -> Option<&'static str> {
        if !self.shows(server.name(), tool) {
            return Some("tool_not_allowed");
        }
        let tools = server.tools().filter(|_| server.is_listed())?;
        tools.get(tool).is_none().then_some("unknown_tool")
    }

    /// Settles who owns a bare name, once every server was listed or the wait for that is over. Nobody is shown a list
    /// before, so that the order in which servers are listed after a start decides nothing.
    fn with_settled_owners(mut self) -> Self {
        let missing = |server: &Server| server.definition().enabled && server.tools().is_none();
        if Instant::now() >= self.first_lists || !self.servers.iter().any(missing) {
            self.owners.clone_from(self.catalog.owners());
        }
        let unknown = |server: &Server| server.definition().enabled && server.offers().is_none();
        if Instant::now() >= self.first_lists || !self.servers.iter().any(unknown) {
            self.prompt_owners.clone_from(&self.shelf.owners);
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

    fn shelf_version_of(&self, next: &Shelf, config: &Config) -> u64 {
        let same = next.shows_the_same_as(&self.shelf)
            && config.ui_allowlists == self.config.ui_allowlists;
        self.shelf_version + u64::from(!same)
    }

    /// Identifies the list that a client is shown which asked to narrow its view so.
    pub(crate) fn view(&self, wish: Option<Surface>) -> blake3::Hash {
        self.catalog.view(self.catalog.surface(wish))
    }

    /// Tells whether it was compiled from what its servers list now, and without what is revoked now.
    pub(crate) fn is_of_now(&self, revoked: &Arc<Overlay>) -> bool {
        Arc::ptr_eq(&self.revoked, revoked)
            && self.catalog.is_of_now(&self.servers)
            && self.shelf.is_of_now(&self.servers, revoked)
    }

    /// Returns what is not shown under its own name, and why.
    pub(crate) fn reports(&self) -> Vec<String> {
        let prompts = self.shelf.reports.iter();
        let tools = self.catalog.reports().iter();
        tools.chain(prompts).cloned().collect()
    }

    /// Tells a model what is served here.
    pub(crate) fn instructions(&self) -> Option<String> {
        let described = self
            .servers
            .iter()
            .filter(|server| server.definition().enabled)
            .filter(|server| self.revoked.refuses(server.name(), None).is_none())
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
