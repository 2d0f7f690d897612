//! Why a caller has a tool, or not: the gates of the front, asked one after the other by the functions that decide.

mod grants;
mod server;
mod tool;

use genlock_access::Visitor;
use genlock_config::TenantLimits;
use genlock_mcp::error::escape_text;
use genlock_policy::{Explanation, Gate, Revocation, RevocationKind, Stopped, ToolPlace, Walk};
use genlock_servers::Server;

pub use self::server::walk_connection;
use self::{
    grants::grants,
    server::listing,
    tool::{own_tool, some_of},
};
use crate::{
    front::Front,
    world::{Audience, World},
};

/// The gates between a caller and a tool.
const GATES: [Gate; 14] = [
    Gate::Credential,
    Gate::Role,
    Gate::Tenant,
    Gate::Server,
    Gate::Rules,
    Gate::TenantRules,
    Gate::Listing,
    Gate::Name,
    Gate::Surface,
    Gate::Revocation,
    Gate::Arguments,
    Gate::Headers,
    Gate::Limits,
    Gate::Connection,
];

/// Those between a caller and a tool of the gateway itself.
const OWN_GATES: [Gate; 6] = [
    Gate::Credential,
    Gate::Role,
    Gate::Tenant,
    Gate::Permission,
    Gate::Name,
    Gate::Surface,
];

impl Front {
    /// Explains why the caller with a key has a tool, or not; `None` where there is no such key. Starts no server.
    pub fn explain_key(&self, id: &str, tool: &str) -> Option<Explanation> {
        let keys = &self.inner.keys;
        let (principal, fault) = keys.find(id)?;
        let mut walk = Walk::new(&GATES);
        let auth = &self.world().config.auth;
        let revoked = self.revoked();
        let revocation = revoked.denies(RevocationKind::Key, id);
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
            None if let Some(revocation) = revocation => {
                walk.stop(Gate::Credential, revocation.to_string(), lift(revocation))
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
        if let Some(own) = world.catalog.own_tool(tool) {
            let missing = own.needs().map(|needed| self.may(visitor, needed));
            return own_tool(walk, &world, missing, &OWN_GATES);
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
        let server = self.walk_tool(walk, &world, &place, tool)?;
        walk_connection(walk, &server.snapshot())
    }

    /// Walks along the gates of a tool of the gateway itself, where the name is that of one.
    pub fn explain_own(&self, walk: &mut Walk, tool: &str) -> Option<Result<(), Stopped>> {
        let world = self.world();
        world.catalog.own_tool(tool)?;
        let order = [Gate::Session, Gate::Permission, Gate::Name, Gate::Surface];
        Some(own_tool(walk, &world, None, &order))
    }

    /// Walks along the gates from the rules of a server to its connection, which is not asked, for a tool of a session's own
    /// view. `asked` is how it was named. Returns the server.
    ///
    /// # Errors
    /// Where a gate stops the tool.
    pub fn explain_pinned(
        &self,
        walk: &mut Walk,
        place: &ToolPlace,
        asked: &str,
    ) -> Result<Server, Stopped> {
        self.walk_tool(walk, &self.world(), place, asked)
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
        asked: &str,
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
        // Of a server that was never listed a call asks this first: what is revoked is not listed either.
        let ToolPlace { server: name, tool } = place;
        if server.tools().is_none() && self.revoked().refuses(name, Some(tool)).is_some() {
            self.walk_revocation(walk, place)?;
        }
        let tool = listing(walk, server, &place.tool)?;
        match &tool {
            Some(_) => world.walk_name(walk, place, asked)?,
            None => {
                walk.depends(Gate::Name, "it has a name once its server was listed");
                walk.depends(
                    Gate::Surface,
                    "and is on the surface then, where that lists tools of servers",
                );
            }
        }
        self.walk_revocation(walk, place)?;
        world.walk_call(walk, server, tool.as_deref())?;
        self.walk_limits(walk, world.audience.tenant());
        Ok(server.clone())
    }

    fn walk_revocation(&self, walk: &mut Walk, place: &ToolPlace) -> Result<(), Stopped> {
        let ToolPlace { server, tool } = place;
        match self.revoked().refuses(server, Some(tool)) {
            Some(revocation) => {
                walk.stop(Gate::Revocation, revocation.to_string(), lift(revocation))
            }
            None => {
                walk.pass(
                    Gate::Revocation,
                    "neither the server nor the tool is revoked",
                );
                Ok(())
            }
        }
    }

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

/// Says what ends a revocation.
fn lift(revocation: &Revocation) -> String {
    format!("`genlock revoke --lift {}`", revocation.number)
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
