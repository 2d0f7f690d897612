//! [`Who`]: whom a record names.

use std::net::IpAddr;

use genlock_access::{Principal, Visitor};
use genlock_front::Refusal;
use genlock_policy::Actor;

/// Whom a record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) actor: Actor,
    /// The id of the key that was shown.
    pub(crate) key: Option<String>,
    pub(crate) tenant: Option<String>,
}

// === impl Who ===

impl Who {
    /// Names an actor that has no key.
    pub(crate) fn new(actor: Actor) -> Self {
        Self {
            actor,
            key: None,
            tenant: None,
        }
    }

    /// Names the gateway itself.
    pub(crate) fn system() -> Self {
        Self::new(Actor::system())
    }

    /// Names a principal.
    pub(crate) fn principal(principal: &Principal) -> Self {
        Self {
            actor: Actor::new(format!("key:{}", principal.subject)),
            key: principal.key.clone(),
            tenant: principal.tenant.clone(),
        }
    }

    /// Names who comes from an address, where nothing else is known of them.
    pub(crate) fn address(address: Option<IpAddr>) -> Self {
        Self::new(Actor::new(match address {
            Some(address) => format!("address:{address}"),
            None => "address:unknown".to_owned(),
        }))
    }

    /// Names whom a front refused.
    pub(super) fn at_the_door(refusal: &Refusal<'_>) -> Self {
        match refusal.visitor {
            Some(Visitor::Known(principal)) => Self::principal(principal),
            // Over HTTP or on a pipe: the front does not tell them apart.
            Some(Visitor::Local) => Self::new(Actor::new("local")),
            None => Self::address(refusal.address),
        }
    }
}
