//! The gates in the order in which a call passes them, and why a caller has a tool, or not.

use serde::Serialize;

/// A gate on the way of a call. The order of the variants is the order in which they are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// The request names a host of the gateway.
    Host,
    /// The request comes from no page of another origin.
    Origin,
    /// The request comes from this machine, where nobody has to say who they are.
    Local,
    /// It is known who asks: the key is taken.
    Credential,
    /// A role lets the caller use tools.
    Role,
    /// The caller belongs to a tenant, where that is needed.
    Tenant,
    /// A role lets the caller do what is asked for, where that is not to use tools of servers.
    Permission,
    /// The session is open.
    Session,
    /// The generation has the server, and it is enabled.
    Server,
    /// The session's policy selects the server.
    Selection,
    /// The private values of the server that the session pins are there.
    PrivateValues,
    /// The server's own rules let the tool through.
    Rules,
    /// The rules for the tenant let it through.
    TenantRules,
    /// The server lists the tool.
    Listing,
    /// A name shows it.
    Name,
    /// The surface lists it by itself.
    Surface,
    /// The caller is shown the tool: all gates from the server to the surface as one, where it is not asked which.
    Tool,
    /// Neither the server nor the tool is revoked. What is revoked is not listed and keeps its name, so that a call says so.
    Revocation,
    /// The arguments pass the validators.
    Arguments,
    /// The headers agree with the arguments.
    Headers,
    /// The tenant makes not too many calls.
    Limits,
    /// The server can be called now.
    Connection,
}

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It lets the tool through.
    Pass,
    /// It stops it.
    Refuse,
    /// It stops the list alone: the tool can be called.
    NotListed,
    /// It depends on the call.
    Depends,
    /// An earlier gate stopped the tool.
    NotAsked,
}

/// What one gate says, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateVerdict {
    /// The gate.
    pub gate: Gate,
    /// What it says.
    pub verdict: Verdict,
    /// Why, for people.
    pub why: String,
}

/// Why a caller has a tool, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whether the tool is in the caller's list.
    pub listed: bool,
    /// Whether a call of it would reach its server.
    pub callable: bool,
    /// All gates on this way, in their order.
    pub gates: Vec<GateVerdict>,
    /// The gate that stopped it, where one did.
    pub decided_by: Option<Gate>,
    /// What would change that.
    pub remedy: Option<String>,
}

/// A gate has stopped the tool: nothing after it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// A walk along the gates.
///
/// ```
/// use genlock_policy::{Gate, Verdict, Walk};
///
/// let mut walk = Walk::new(&[Gate::Role, Gate::Rules, Gate::Connection]);
/// walk.pass(Gate::Role, "bound to `service-account`");
/// let stopped = walk.stop(Gate::Rules, "denied by `delete_*`", "take `delete_*` out of `tools.deny`");
/// let explanation = walk.end();
///
/// assert!(stopped.is_err());
/// assert_eq!((explanation.listed, explanation.callable), (false, false));
/// assert_eq!(explanation.decided_by, Some(Gate::Rules));
/// assert_eq!(explanation.gates[2].verdict, Verdict::NotAsked);
/// ```
#[derive(Debug, Clone)]
pub struct Walk {
    order: Vec<Gate>,
    gates: Vec<GateVerdict>,
    decided: Option<(Gate, String)>,
}

// === impl Gate ===

impl Gate {
    /// Tells whether what it stops is not listed either. What can be stopped only once a call is made is listed.
    fn hides(self) -> bool {
        match self {
            Self::Host
            | Self::Origin
            | Self::Local
            | Self::Credential
            | Self::Permission
            | Self::Role
            | Self::Tenant
            | Self::Session
            | Self::Server
            | Self::Selection
            | Self::Revocation
            | Self::Rules
            | Self::TenantRules
            | Self::Listing
            | Self::Name
            | Self::Surface
            | Self::Tool => true,
            Self::PrivateValues
            | Self::Arguments
            | Self::Headers
            | Self::Limits
            | Self::Connection => false,
        }
    }

    /// Returns the word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Local => "local",
            Self::Credential => "credential",
            Self::Permission => "permission",
            Self::Role => "role",
            Self::Tenant => "tenant",
            Self::Session => "session",
            Self::Server => "server",
            Self::Selection => "selection",
            Self::PrivateValues => "private_values",
            Self::Revocation => "revocation",
            Self::Rules => "rules",
            Self::TenantRules => "tenant_rules",
            Self::Listing => "listing",
            Self::Name => "name",
            Self::Surface => "surface",
            Self::Tool => "tool",
            Self::Arguments => "arguments",
            Self::Headers => "headers",
            Self::Limits => "limits",
            Self::Connection => "connection",
        }
    }
}

// === impl Walk ===

impl Walk {
    /// Begins a walk along these gates.
    pub fn new(order: &[Gate]) -> Self {
        Self {
            order: order.to_vec(),
            gates: Vec::new(),
            decided: None,
        }
    }

    /// Goes on along these gates alone: the others are not on the way of this tool.
    pub fn follow(&mut self, order: &[Gate]) {
        self.order = order.to_vec();
    }

    /// Notes that a gate lets the tool through.
    pub fn pass(&mut self, gate: Gate, why: impl Into<String>) {
        self.note(gate, Verdict::Pass, why.into());
    }

    /// Notes that what a gate says depends on the call.
    pub fn depends(&mut self, gate: Gate, why: impl Into<String>) {
        self.note(gate, Verdict::Depends, why.into());
    }

    /// Notes that a gate keeps the tool from the list and lets it be called.
    pub fn not_listed(&mut self, gate: Gate, why: impl Into<String>, remedy: impl Into<String>) {
        self.note(gate, Verdict::NotListed, why.into());
        self.decided.get_or_insert((gate, remedy.into()));
    }

    /// Notes that a gate stops the tool.
    ///
    /// # Errors
    /// Always, so that a walk ends here with `?`.
    pub fn stop(
        &mut self,
        gate: Gate,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<(), Stopped> {
        Err(self.stopped(gate, why, remedy))
    }

    /// Does the same, for walks that lead to something.
    pub fn stopped(
        &mut self,
        gate: Gate,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Stopped {
        self.note(gate, Verdict::Refuse, why.into());
        // Who can call it needs no list: what stops the call is the answer.
        self.decided = Some((gate, remedy.into()));
        Stopped
    }

    fn note(&mut self, gate: Gate, verdict: Verdict, why: String) {
        self.gates.push(GateVerdict { gate, verdict, why });
    }

    /// Ends the walk: gates that nobody came to are told as such.
    pub fn end(self) -> Explanation {
        let Self {
            order,
            mut gates,
            decided,
        } = self;
        for gate in order {
            if !gates.iter().any(|asked| asked.gate == gate) {
                gates.push(GateVerdict {
                    gate,
                    verdict: Verdict::NotAsked,
                    why: String::new(),
                });
            }
        }
        gates.sort_by_key(|said| said.gate);
        let keeps_from_list = |said: &GateVerdict| match said.verdict {
            Verdict::Refuse => said.gate.hides(),
            Verdict::NotListed => true,
            Verdict::Pass | Verdict::Depends | Verdict::NotAsked => false,
        };
        let (decided_by, remedy) = decided.unzip();
        Explanation {
            listed: !gates.iter().any(keeps_from_list),
            callable: !gates.iter().any(|said| said.verdict == Verdict::Refuse),
            gates,
            decided_by,
            remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: [Gate; 3] = [Gate::Listing, Gate::Surface, Gate::Connection];

    #[test]
    fn a_tool_that_every_gate_lets_through_is_listed_and_callable() {
        let mut walk = Walk::new(&ORDER);
        walk.pass(Gate::Listing, "listed");
        walk.pass(Gate::Surface, "flat");
        walk.depends(Gate::Connection, "lazy");

        let told = walk.end();

        let none = (told.decided_by, told.remedy);
        assert_eq!(
            (told.listed, told.callable, none),
            (true, true, (None, None))
        );
    }

    #[test]
    fn what_stops_a_call_alone_is_listed() {
        let mut walk = Walk::new(&ORDER);
        walk.pass(Gate::Listing, "listed");
        walk.pass(Gate::Surface, "flat");
        assert_eq!(walk.stop(Gate::Connection, "parked", "probe"), Err(Stopped));

        let told = walk.end();

        assert_eq!((told.listed, told.callable), (true, false));
        assert_eq!(told.decided_by, Some(Gate::Connection));
        assert_eq!(told.remedy.as_deref(), Some("probe"));
    }

    #[test]
    fn what_stops_the_call_decides_before_what_keeps_from_the_list() {
        let mut walk = Walk::new(&ORDER);
        walk.pass(Gate::Listing, "listed");
        walk.not_listed(Gate::Surface, "meta", "call it by `genlock_call`");
        let callable = walk.clone().end();
        let _ = walk.stop(Gate::Connection, "parked", "probe");
        let stopped = walk.end();

        let of = |told: &Explanation| (told.listed, told.callable, told.decided_by);
        assert_eq!(of(&callable), (false, true, Some(Gate::Surface)));
        assert_eq!(of(&stopped), (false, false, Some(Gate::Connection)));
    }

    #[test]
    fn the_word_of_a_gate_is_the_one_that_is_encoded() {
        for gate in [Gate::PrivateValues, Gate::TenantRules, Gate::Credential] {
            assert_eq!(serde_json::to_value(gate).unwrap(), gate.as_str());
        }
    }
}
