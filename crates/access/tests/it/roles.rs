use std::collections::BTreeSet;

use genlock_access::{Decision, Permission, Principal, Roles};
use genlock_config::{Role, RoleAssignment, RoleScope};
use proptest::prelude::*;

fn principal(subject: &str, tenant: Option<&str>, groups: &[&str]) -> Principal {
    Principal {
        subject: subject.to_owned(),
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        key: None,
        capabilities: None,
    }
}

fn binding(principal: &str, role: Role, scope: RoleScope) -> RoleAssignment {
    RoleAssignment {
        principal: principal.to_owned(),
        role,
        scope,
    }
}

#[test]
fn each_role_has_its_permissions_and_no_other() {
    let table = [
        (Role::Admin, Permission::ALL.to_vec()),
        (
            Role::Operator,
            vec![
                Permission::Read,
                Permission::Reload,
                Permission::Operate,
                Permission::Audit,
            ],
        ),
        (
            Role::ServiceAccount,
            vec![Permission::ToolList, Permission::ToolInvoke],
        ),
        (Role::Viewer, vec![Permission::Read]),
    ];

    for (role, expected) in table {
        let roles = Roles::new(vec![binding("svc:a", role, RoleScope::Global)]);
        let may = |permission: &Permission| {
            let decision = roles.may(&principal("svc:a", None, &[]), *permission, None);
            decision.is_allowed()
        };
        let found: Vec<_> = Permission::ALL.into_iter().filter(may).collect();
        assert_eq!(found, expected, "{role:?}");
    }
}

#[test]
fn a_binding_for_a_tenant_grants_nothing_outside_of_it() {
    let scope = RoleScope::from_text("tenant:a").unwrap();
    let roles = Roles::new(vec![binding("group:callers", Role::Admin, scope)]);
    let caller = principal("svc:a", Some("a"), &["callers"]);
    let spelled = principal("svc:a", Some("tenant:a"), &["callers"]);
    let nobody = principal("svc:n", None, &["callers"]);

    let may = |who: &Principal, tenant| roles.may(who, Permission::ToolInvoke, tenant).is_allowed();
    assert!(may(&caller, Some("a")));
    assert!(may(&spelled, Some("tenant:a")));
    assert!(!may(&caller, Some("b")));
    assert!(!may(&caller, None));
    assert!(!may(&nobody, None));
}

#[test]
fn a_principal_of_a_tenant_may_do_nothing_in_another() {
    let roles = Roles::new(vec![binding("svc:a", Role::Admin, RoleScope::Global)]);
    let caller = principal("svc:a", Some("a"), &[]);

    let refused = roles.may(&caller, Permission::ToolList, Some("b"));
    assert_eq!(refused, Decision::Missing(Permission::ToolList));
}

#[test]
fn a_group_is_no_principal_and_a_principal_no_group() {
    let roles = Roles::new(vec![
        binding("group:ops", Role::Admin, RoleScope::Global),
        binding("root", Role::Admin, RoleScope::Global),
    ]);

    for who in [
        principal("group:ops", None, &[]),
        principal("ops", None, &["root"]),
        principal("anonymous", None, &["group:ops"]),
    ] {
        assert!(
            !roles.may(&who, Permission::Read, None).is_allowed(),
            "{who:?}"
        );
    }
}

#[test]
fn a_credential_can_be_limited_below_its_roles() {
    let roles = Roles::new(vec![binding("svc:a", Role::Admin, RoleScope::Global)]);
    let limited = Principal {
        capabilities: Some(BTreeSet::from([Permission::Read])),
        ..principal("svc:a", None, &[])
    };

    assert!(roles.may(&limited, Permission::Read, None).is_allowed());
    assert!(!roles.may(&limited, Permission::Reload, None).is_allowed());
}

prop_compose! {
    fn any_binding()(
        who in prop::sample::select(vec!["a", "b", "group:x", "group:y"]),
        role in prop::sample::select(vec![Role::Admin, Role::Operator, Role::ServiceAccount, Role::Viewer]),
        scope in prop::sample::select(vec!["global", "tenant:s", "tenant:t"]),
    ) -> RoleAssignment {
        binding(who, role, RoleScope::from_text(scope).unwrap())
    }
}

proptest! {
    /// The decision, written a second time and the other way round: one binding alone has to grant it.
    #[test]
    fn nothing_is_granted_that_no_single_binding_grants(
        bindings in prop::collection::vec(any_binding(), 0..6),
        subject in prop::sample::select(vec!["a", "b", "c"]),
        groups in prop::sample::subsequence(vec!["x", "y"], 0..=2),
        own in prop::sample::select(vec![None, Some("s"), Some("t")]),
        tenant in prop::sample::select(vec![None, Some("s"), Some("t")]),
        permission in prop::sample::select(Permission::ALL.to_vec()),
    ) {
        let who = principal(subject, own, &groups);
        let of_him: Vec<String> = std::iter::once(subject.to_owned())
            .chain(groups.iter().map(|group| format!("group:{group}")))
            .collect();
        let expected = (own.is_none() || tenant.is_none() || own == tenant)
            && bindings.iter().any(|binding| {
                let here = match &binding.scope {
                    RoleScope::Global => true,
                    RoleScope::Tenant(scope) => Some(scope.as_str()) == tenant,
                };
                here && of_him.contains(&binding.principal) && permission.is_of(binding.role)
            });

        let decision = Roles::new(bindings).may(&who, permission, tenant);

        prop_assert_eq!(decision.is_allowed(), expected);
    }
}
