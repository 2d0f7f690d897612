//! [`Roles`]: the bindings of a configuration, and the one decision over them.

use genlock_config::{RoleAssignment, RoleScope};

use crate::{permission::Permission, principal::Principal};

/// What a principal that a binding names by a group begins with.
const GROUP: &str = "group:";

/// The bindings of one configuration.
///
/// ```
/// use genlock_access::{Decision, Permission, Principal, Roles};
/// use genlock_config::{Role, RoleAssignment, RoleScope};
///
/// let roles = Roles::new(vec![RoleAssignment {
///     principal: "group:ops".to_owned(),
///     role: Role::Operator,
///     scope: RoleScope::Global,
/// }]);
/// let ops = Principal { groups: ["ops".to_owned()].into(), ..Principal::anonymous() };
///
/// assert_eq!(roles.may(&ops, Permission::Reload, None), Decision::Allowed);
/// assert_eq!(roles.may(&ops, Permission::Keys, None), Decision::Missing(Permission::Keys));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles(Vec<RoleAssignment>);

/// Whether something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// It may not, for want of this.
    Missing(Permission),
}

// === impl Decision ===

impl Decision {
    /// Tells whether it may be done.
    pub fn is_allowed(self) -> bool {
        match self {
            Self::Allowed => true,
            Self::Missing(_) => false,
        }
    }
}

// === impl Roles ===

impl Roles {
    /// Takes the bindings of a configuration.
    pub fn new(bindings: Vec<RoleAssignment>) -> Self {
        Self(bindings)
    }

    /// Decides whether a principal may do something in `tenant`, or, without one, in the whole gateway.
    ///
    /// A binding for a tenant grants nothing outside of it, and a principal of a tenant may do nothing in another.
    pub fn may(
        &self,
        principal: &Principal,
        permission: Permission,
        tenant: Option<&str>,
    ) -> Decision {
        let foreign =
            tenant.is_some() && principal.tenant.is_some() && principal.tenant.as_deref() != tenant;
        let capable = principal
            .capabilities
            .as_ref()
            .is_none_or(|limit| limit.contains(&permission));
        let granted = self.grants(principal, permission, tenant).is_some();
        match granted && capable && !foreign {
            true => Decision::Allowed,
            false => Decision::Missing(permission),
        }
    }

    /// Returns the first binding that grants a principal something, for people to see.
    pub fn grants(
        &self,
        principal: &Principal,
        permission: Permission,
        tenant: Option<&str>,
    ) -> Option<&RoleAssignment> {
        self.0.iter().find(|binding| {
            names(binding, principal)
                && covers(&binding.scope, tenant)
                && permission.is_of(binding.role)
        })
    }
}

fn names(binding: &RoleAssignment, principal: &Principal) -> bool {
    match binding.principal.strip_prefix(GROUP) {
        Some(group) => principal.groups.contains(group),
        None => binding.principal == principal.subject,
    }
}

fn covers(scope: &RoleScope, tenant: Option<&str>) -> bool {
    match scope {
        RoleScope::Global => true,
        RoleScope::Tenant(own) => is_tenant(own, tenant),
    }
}

/// A scope is written `tenant:` and the tenant, and many call their tenants `tenant:a` as well.
fn is_tenant(own: &str, tenant: Option<&str>) -> bool {
    tenant.is_some_and(|tenant| tenant == own || tenant.strip_prefix("tenant:") == Some(own))
}
