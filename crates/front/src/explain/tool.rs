//! The gates that ask what a configuration shows of a tool, and what it asks of a call.

use genlock_access::Decision;
use genlock_config::{Surface, Validator};
use genlock_mcp::error::escape_text;
use genlock_policy::{Gate, RuleRefusal, Stopped, ToolPlace, ToolVerdict, Walk};
use genlock_servers::{Server, Tool};

use crate::world::World;

/// How many names a remedy lists.
const NAMES: usize = 10;

/// The gateway's own tools go to no server.
pub(super) fn own_tool(
    walk: &mut Walk,
    world: &World,
    needed: Option<Decision>,
    order: &[Gate],
) -> Result<(), Stopped> {
    walk.follow(order);
    if let Some(Decision::Missing(missing)) = needed {
        return walk.stop(
            Gate::Permission,
            format!("no binding gives the permission `{missing}`, which this tool needs"),
            "bind the caller to a role that has it in `auth.role_assignments` and reload",
        );
    }
    walk.pass(Gate::Permission, "it needs no other one");
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
    pub(super) fn shown_place(&self, tool: &str) -> Option<ToolPlace> {
        let (server, tool) = self.catalog.named(tool)?;
        Some(place_at(server, &tool.name))
    }

    /// Returns the first tool that a server lists under its own name.
    pub(super) fn listed_place(&self, tool: &str) -> Option<ToolPlace> {
        let lists = |server: &&Server| {
            server
                .tools()
                .is_some_and(|tools| tools.get(tool).is_some())
        };
        let server = self.servers.iter().find(lists)?;
        Some(place_at(server, tool))
    }

    pub(super) fn walk_to_server(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
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

    pub(super) fn walk_rules(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
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

    pub(super) fn walk_name(
        &self,
        walk: &mut Walk,
        place: &ToolPlace,
        asked: &str,
    ) -> Result<(), Stopped> {
        let shown = self.catalog.name_of(&place.server, &place.tool);
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
        let by_place = format!("{}/{}", place.server, place.tool);
        if asked != shown && asked != by_place {
            return walk.stop(
                Gate::Name,
                format!(
                    "it is shown as `{shown}`, and not as `{}`",
                    escape_text(asked)
                ),
                format!("call it `{shown}`"),
            );
        }
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
    pub(super) fn walk_call(
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

fn place_at(server: &Server, tool: &str) -> ToolPlace {
    ToolPlace {
        server: server.name().to_owned(),
        tool: tool.to_owned(),
    }
}

/// Lists names, as far as anybody reads on.
pub(super) fn some_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown: Vec<&str> = names.iter().take(NAMES).copied().collect();
    let more = names.len().saturating_sub(NAMES);
    match (shown.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{}, and {more} more", shown.join(", ")),
    }
}
