//! The gates that ask who calls.

use genlock_access::{Principal, Visitor};
use genlock_policy::{Gate, Stopped, Walk};

use crate::world::{NoView, TOOLS, World};

/// Asks whether a visitor is shown anything at all.
pub(super) fn grants(
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
