//! Why a caller has a tool, or not: the gates of the front, asked one after the other by the functions that decide.

use std::sync::Arc;

use genlock_access::{Principal, Visitor};
use genlock_config::{Surface, TenantLimits, Validator};
use genlock_mcp::error::escape_text;
use genlock_policy::{Explanation, Gate, RuleRefusal, Stopped, ToolPlace, ToolVerdict, Walk};
use genlock_servers::{Server, ServerSnapshot, Tool};

use crate::{
    front::Front,
    world::{Audience, NoView, TOOLS, World},
};

/// The gates between a caller and a tool.
const GATES: [Gate; 13] = [
    Gate::Credential,
    Gate::Role,
    Gate::Tenant,
    Gate::Server,
    Gate::Rules,
    Gate::TenantRules,
    Gate::Listing,
    Gate::Name,
    Gate::Surface,
    Gate::Arguments,
    Gate::Headers,
    Gate::Limits,
    Gate::Connection,
];

/// How many names a remedy lists.
const NAMES: usize = 10;

impl Front {
    /// Explains why the caller with a key has a tool, or not; `None` where there is no such key. Starts no server.
    pub fn explain_key(&self, id: &str, tool: &str) -> Option<Explanation> {
        let keys = &self.inner.keys;
        let (principal, fault) = keys.find(id)?;
        let mut walk = Walk::new(&GATES);
        let auth = &self.world().config.auth;
        let stopped = match fault {
            Some(fault) => walk.stop(
                Gate::Credential,
                format!("{fault} ({})", fault.code()),
                "make another key with `genlock keys create`",
            ),
            None if !auth.enabled => {
                walk.depends(
                    Gate::Credential,
                    "authentication is off: no key is looked at, who comes from this machine is trusted",
                );
                return Some(self.explained(walk, &Visitor::Local, tool));
            }
            None if !auth.api_key.enabled => walk.stop(
                Gate::Credential,
                "`auth.api_key.enabled` is false: no key is taken",
                "set `auth.api_key.enabled: true` and reload",
            ),
            None => {
                walk.pass(
                    Gate::Credential,
                    format!("the key of `{}` is taken", principal.subject),
                );
                Ok(())
            }
        };
        Some(match stopped {
            Ok(()) => self.explained(walk, &Visitor::Known(principal), tool),
            Err(Stopped) => walk.end(),
        })
    }

    /// Explains why a visitor has a tool, or not. Starts no server.
    ///
    /// A visitor of a tenant is told of what it is not shown no more than that.
    pub fn explain_to(&self, visitor: &Visitor, tool: &str) -> Explanation {
        let mut walk = Walk::new(&GATES);
        walk.pass(Gate::Credential, "this caller was let in");
        let explained = self.explained(walk, visitor, tool);
        let confined = match self.world_seen_by(visitor).audience {
            Audience::Everyone => false,
            Audience::Tenant(_) | Audience::Nobody => true,
        };
        match confined && !explained.listed && !explained.callable {
            true => hidden(tool),
            false => explained,
        }
    }

    fn explained(&self, mut walk: Walk, visitor: &Visitor, tool: &str) -> Explanation {
        // Whether it was stopped is in the walk.
        let _ = self.walk(&mut walk, visitor, tool);
        walk.end()
    }

    fn walk(&self, walk: &mut Walk, visitor: &Visitor, tool: &str) -> Result<(), Stopped> {
        let world = self.world_seen_by(visitor);
        grants(walk, &world, visitor, world.view_of(visitor).err())?;
        if world.catalog.is_own_tool(tool) {
            return own_tool(walk, &world);
        }
        let Some(place) = self.place_of(&world, tool) else {
            let known = world.config.servers.keys().map(|name| name.as_str());
            return walk.stop(
                Gate::Server,
                format!("no server goes with the name `{}`", escape_text(tool)),
                format!("name it as `server/tool`; servers: {}", some_of(known)),
            );
        };
        world.walk_to_server(walk, &place)?;
        let server = self.walk_tool(walk, &world, &place)?;
        walk_connection(walk, &server.snapshot())
    }

    /// Walks along the gates from the rules of a server to its connection, which is not asked, for a tool of a session's own
    /// view. Returns the server.
    ///
    /// # Errors
    /// Where a gate stops the tool.
    pub fn explain_pinned(&self, walk: &mut Walk, place: &ToolPlace) -> Result<Server, Stopped> {
        self.walk_tool(walk, &self.world(), place)
    }

    /// Returns the tool that is meant by a name that this front shows, or that one of its servers lists.
    pub fn place_of_shown(&self, tool: &str) -> Option<ToolPlace> {
        let world = self.world();
        world.shown_place(tool).or_else(|| world.listed_place(tool))
    }

    fn place_of(&self, world: &World, tool: &str) -> Option<ToolPlace> {
        let shown = world.shown_place(tool);
        let read = || ToolPlace::read(tool, &world.config);
        // A bare name may be one that is not shown to this caller.
        shown
            .or_else(read)
            .or_else(|| self.world().listed_place(tool))
    }

    fn walk_tool(
        &self,
        walk: &mut Walk,
        world: &World,
        place: &ToolPlace,
    ) -> Result<Server, Stopped> {
        world.walk_rules(walk, place)?;
        // A tenant reaches no server of which it may see no tool, so that only here there is one.
        let everyone = self.world();
        let server = world.servers.get(&place.server);
        let Some(server) = server.or_else(|| everyone.servers.get(&place.server)) else {
            return Err(walk.stopped(
                Gate::Listing,
                format!("server `{}` is not in this view", place.server),
                "ask again: a reload is under way",
            ));
        };
        let tool = listing(walk, server, &place.tool)?;
        match &tool {
            Some(_) => world.walk_name(walk, place)?,
            None => {
                walk.depends(Gate::Name, "it has a name once its server was listed");
                walk.depends(
                    Gate::Surface,
                    "and is on the surface then, where that lists tools of servers",
                );
            }
        }
        world.walk_call(walk, server, tool.as_deref())?;
        self.walk_limits(walk, world.audience.tenant());
        Ok(server.clone())
    }
}

impl Front {
    fn walk_limits(&self, walk: &mut Walk, tenant: Option<&str>) {
        let Some(tenant) = tenant else {
            return walk.pass(Gate::Limits, "only tenants have limits");
        };
        let TenantLimits {
            max_concurrency,
            rps,
            burst: _,
        } = self.inner.limits.of(tenant);
        let at_once = max_concurrency.map(|most| format!("{most} calls at once"));
        let rate = rps.map(|rps| format!("{rps} calls a second"));
        let limits: Vec<String> = at_once.into_iter().chain(rate).collect();
        match limits.is_empty() {
            true => walk.pass(Gate::Limits, format!("none for `{tenant}`")),
            false => walk.depends(
                Gate::Limits,
                format!(
                    "the callers of `{tenant}` make {} at most",
                    limits.join(" and ")
                ),
            ),
        }
    }
}

/// What somebody of a tenant is told of a tool that is hidden from them: the same as of one that does not exist.
fn hidden(tool: &str) -> Explanation {
    let mut walk = Walk::new(&[Gate::Name]);
    let _ = walk.stop(
        Gate::Name,
        format!("no tool is shown to you as `{}`", escape_text(tool)),
        "ask who runs this gateway: `genlock explain --key ID TOOL` tells them why",
    );
    walk.end()
}

// === the gates ===

fn grants(
    walk: &mut Walk,
    world: &World,
    visitor: &Visitor,
    missing: Option<NoView>,
) -> Result<(), Stopped> {
    let Visitor::Known(principal) = visitor else {
        return match missing {
            None => {
                walk.pass(Gate::Role, "who calls without a key here may use tools");
                walk.pass(Gate::Tenant, "needed in `front_door` alone");
                Ok(())
            }
            Some(nothing) => walk.stop(
                nothing.gate(),
                "in `front_door` who has not said who they are may use nothing",
                "use a key",
            ),
        };
    };
    if let Some(NoView::Missing(missing)) = missing {
        return walk.stop(
            Gate::Role,
            format!("no binding gives `{}` the permission `{missing}`{}", principal.subject, of_tenant(principal)),
            format!(
                "bind `{}`, or a group of it, to the role `service-account` in `auth.role_assignments` and reload",
                principal.subject
            ),
        );
    }
    walk.pass(Gate::Role, granted(world, principal));
    match (missing, &principal.tenant) {
        (Some(_), _) => walk.stop(
            Gate::Tenant,
            "in `front_door` a caller without a tenant is shown nothing",
            "make a key with `genlock keys create --tenant TENANT`",
        ),
        (None, Some(tenant)) => {
            walk.pass(Gate::Tenant, format!("of tenant `{tenant}`"));
            Ok(())
        }
        (None, None) => {
            walk.pass(
                Gate::Tenant,
                "of no tenant, which `front_door` alone asks for",
            );
            Ok(())
        }
    }
}

fn of_tenant(principal: &Principal) -> String {
    let tenant = principal.tenant.as_deref();
    tenant.map_or_else(String::new, |tenant| format!(" in tenant `{tenant}`"))
}

fn granted(world: &World, principal: &Principal) -> String {
    let tenant = principal.tenant.as_deref();
    let bindings = TOOLS
        .into_iter()
        .filter_map(|needed| world.roles.grants(principal, needed, tenant));
    let mut words: Vec<String> = bindings
        .map(|binding| format!("`{}` is `{}`", binding.principal, binding.role.as_str()))
        .collect();
    words.dedup();
    words.join(", ")
}

/// The gateway's own tools go to no server.
fn own_tool(walk: &mut Walk, world: &World) -> Result<(), Stopped> {
    walk.follow(&[
        Gate::Credential,
        Gate::Role,
        Gate::Tenant,
        Gate::Name,
        Gate::Surface,
    ]);
    walk.pass(Gate::Name, "a tool of the gateway itself");
    match world.catalog.surface(None) {
        Surface::Meta | Surface::Both => {
            walk.pass(Gate::Surface, "listed by `tool_access.surface`");
            Ok(())
        }
        Surface::Flat => walk.stop(
            Gate::Surface,
            "`tool_access.surface: flat` lists the tools of servers alone",
            "set `tool_access.surface` to `meta` or `both` and reload",
        ),
    }
}

impl World {
    fn shown_place(&self, tool: &str) -> Option<ToolPlace> {
        let mut entries = self.catalog.entries();
        let (_, server, tool) = entries.find(|(shown, ..)| *shown == tool)?;
        Some(place_at(server, &tool.name))
    }

    /// Returns the first tool that a server lists under its own name.
    fn listed_place(&self, tool: &str) -> Option<ToolPlace> {
        let lists = |server: &&Server| {
            server
                .tools()
                .is_some_and(|tools| tools.get(tool).is_some())
        };
        let server = self.servers.iter().find(lists)?;
        Some(place_at(server, tool))
    }

    fn walk_to_server(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
        let mut definitions = self.config.servers.values();
        let definition = definitions.find(|definition| definition.name.as_str() == place.server);
        match definition {
            None => {
                let known = self.config.servers.keys().map(|name| name.as_str());
                walk.stop(
                    Gate::Server,
                    format!("there is no server `{}`", escape_text(&place.server)),
                    format!(
                        "add it to `mcp_servers` and reload; servers: {}",
                        some_of(known)
                    ),
                )
            }
            Some(definition) if !definition.enabled => walk.stop(
                Gate::Server,
                format!("server `{}` is disabled", place.server),
                format!(
                    "set `mcp_servers.{}.enabled: true` and reload",
                    place.server
                ),
            ),
            Some(_) => {
                walk.pass(
                    Gate::Server,
                    format!("server `{}` is enabled", place.server),
                );
                Ok(())
            }
        }
    }

    fn walk_rules(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
        let ToolPlace { server, tool } = place;
        let tenant = self.audience.tenant();
        match self.gates.decide(server, tool, tenant) {
            ToolVerdict::Shown => {
                walk.pass(
                    Gate::Rules,
                    format!("`mcp_servers.{server}.tools` lets it through"),
                );
                let why = match tenant {
                    Some(tenant) => format!("so does what stands there for `{tenant}`"),
                    None => "the caller is of no tenant".to_owned(),
                };
                walk.pass(Gate::TenantRules, why);
                Ok(())
            }
            ToolVerdict::Hidden { of_tenant, why } => {
                let (gate, rules) = match (of_tenant, tenant) {
                    (true, Some(tenant)) => (
                        Gate::TenantRules,
                        format!("mcp_servers.{server}.tool_access.member.{tenant}"),
                    ),
                    (true, None) | (false, _) => {
                        (Gate::Rules, format!("mcp_servers.{server}.tools"))
                    }
                };
                if gate == Gate::TenantRules {
                    walk.pass(
                        Gate::Rules,
                        format!("`mcp_servers.{server}.tools` lets it through"),
                    );
                }
                let (why, remedy) = match why {
                    RuleRefusal::Denied { glob } => (
                        format!("`{rules}.deny` has `{glob}`"),
                        format!("take `{glob}` out of `{rules}.deny` and reload"),
                    ),
                    RuleRefusal::NotAllowed => (
                        format!(
                            "nothing in `{rules}.allow` goes with `{}`",
                            escape_text(tool)
                        ),
                        format!("add `{}` to `{rules}.allow` and reload", escape_text(tool)),
                    ),
                };
                walk.stop(gate, why, remedy)
            }
        }
    }

    fn walk_name(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
        let is_it = |(_, server, tool): &(&str, &Server, &Tool)| {
            server.name() == place.server && tool.name == place.tool
        };
        let shown = self
            .catalog
            .entries()
            .find(is_it)
            .map(|(shown, ..)| shown.to_owned());
        let surface = self.catalog.surface(None);
        let Some(shown) = shown else {
            let about = format!("`{}`", place.tool);
            let mut reports = self.catalog.reports().iter();
            let report = reports.find(|report| report.starts_with(&about));
            let why = report.map_or_else(|| "no name is free for it".to_owned(), Clone::clone);
            let remedy =
                "set `tool_access.names` to `always`, or give one of the servers another `prefix`";
            return match surface {
                Surface::Flat => walk.stop(Gate::Name, why, remedy),
                Surface::Meta | Surface::Both => {
                    walk.not_listed(Gate::Name, why, remedy);
                    Ok(())
                }
            };
        };
        walk.pass(Gate::Name, format!("shown as `{shown}`"));
        match surface {
            Surface::Flat | Surface::Both => {
                walk.pass(Gate::Surface, "`tool_access.surface` lists it");
            }
            Surface::Meta => walk.not_listed(
                Gate::Surface,
                "`tool_access.surface: meta` lists the gateway's own tools alone",
                format!(
                    "call it by `{}_call`, or set `tool_access.surface` to `flat` or `both`",
                    self.config.tool_access.meta_prefix
                ),
            ),
        }
        Ok(())
    }

    /// Walks along the gates that only a call comes to.
    fn walk_call(
        &self,
        walk: &mut Walk,
        server: &Server,
        tool: Option<&Tool>,
    ) -> Result<(), Stopped> {
        let limits = self
            .gates
            .validators()
            .iter()
            .map(|validator| match validator {
                Validator::PayloadSize { max_bytes } => {
                    format!("arguments have {max_bytes} bytes at most")
                }
            });
        let limits: Vec<String> = limits.collect();
        match limits.is_empty() {
            true => walk.pass(Gate::Arguments, "no validator looks at the arguments"),
            false => walk.depends(Gate::Arguments, limits.join(", ")),
        }
        if self.config.param_validation_required && server.is_stale() {
            return walk.stop(
                Gate::Headers,
                format!(
                    "the tools of server `{}` changed and were not listed since, so that headers cannot be checked",
                    server.name()
                ),
                "wait until it is listed again",
            );
        }
        match tool.is_some_and(|tool| !tool.params.is_empty()) {
            true => walk.depends(
                Gate::Headers,
                "the `Mcp-Param-*` headers have to agree with the arguments",
            ),
            false => walk.pass(Gate::Headers, "no argument of it travels in a header"),
        }
        Ok(())
    }
}

/// Asks whether a server lists a tool; returns it where it is known.
fn listing(walk: &mut Walk, server: &Server, name: &str) -> Result<Option<Arc<Tool>>, Stopped> {
    let snapshot = server.snapshot();
    let Some(tools) = server.tools() else {
        if snapshot.takes_calls() {
            walk.not_listed(
                Gate::Listing,
                format!(
                    "server `{}` was never listed: nobody knows whether it has the tool",
                    server.name()
                ),
                "call it once, or run `genlock warm`",
            );
            return Ok(None);
        }
        let (why, remedy) = state_of(&snapshot);
        return Err(walk.stopped(Gate::Listing, format!("never listed: {why}"), remedy));
    };
    match tools.get(name) {
        Some(tool) => {
            walk.pass(
                Gate::Listing,
                format!(
                    "one of {} that server `{}` lists",
                    tools.len(),
                    server.name()
                ),
            );
            Ok(Some(Arc::clone(tool)))
        }
        None => {
            let about = format!("`{}`", escape_text(name));
            let mut left_out = tools.left_out.iter();
            let why = match left_out.find(|reason| reason.starts_with(&about)) {
                Some(reason) => format!("left out of the list: {reason}"),
                None => format!(
                    "server `{}` lists {} tools and not this one",
                    server.name(),
                    tools.len()
                ),
            };
            Err(walk.stopped(
                Gate::Listing,
                why,
                format!(
                    "what a server lists is its own affair: see `genlock servers logs {}`",
                    server.name()
                ),
            ))
        }
    }
}

/// Asks whether a server can be called now.
///
/// # Errors
/// Where it cannot.
pub fn walk_connection(walk: &mut Walk, snapshot: &ServerSnapshot) -> Result<(), Stopped> {
    match (snapshot.ready, snapshot.takes_calls(), &snapshot.reason) {
        // Only the breaker gives a reason to one that is ready.
        (true, _, Some(_)) | (false, false, _) => {
            let (why, remedy) = state_of(snapshot);
            walk.stop(Gate::Connection, why, remedy)
        }
        (true, _, None) => {
            walk.pass(
                Gate::Connection,
                format!("server `{}` is {}", snapshot.name, snapshot.state),
            );
            Ok(())
        }
        (false, true, _) => {
            walk.depends(
                Gate::Connection,
                format!(
                    "server `{}` is {}: a call waits for it",
                    snapshot.name, snapshot.state
                ),
            );
            Ok(())
        }
    }
}

/// Says how a server is that cannot be called, and what helps.
fn state_of(snapshot: &ServerSnapshot) -> (String, String) {
    let ServerSnapshot { name, state, .. } = snapshot;
    let why = match &snapshot.reason {
        Some(reason) => format!("server `{name}` is {state}: {reason}"),
        None => format!("server `{name}` is {state}"),
    };
    let remedy = match snapshot.next_try() {
        Some(at) => {
            format!("it is tried again at {at}, and at once by `genlock servers probe {name}`")
        }
        None => format!("see `genlock servers logs {name}`, then `genlock servers probe {name}`"),
    };
    (why, remedy)
}

fn place_at(server: &Server, tool: &str) -> ToolPlace {
    ToolPlace {
        server: server.name().to_owned(),
        tool: tool.to_owned(),
    }
}

fn some_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown: Vec<&str> = names.iter().take(NAMES).copied().collect();
    let more = names.len().saturating_sub(NAMES);
    match (shown.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}
