//! The section `auth`.

use ::http::HeaderName;

use super::{
    context::Report,
    section::{Field, Section},
    top::list,
    url,
};
use crate::{
    access::{ApiKeyAuth, Auth, AuthStorage, Oidc, Role, RoleAssignment, RoleScope, StorageDriver},
    schema::{api_key, auth as keys, auth_storage, oidc, role_assignment},
};

/// Decodes the section.
pub(crate) fn decode(field: &Field<'_>) -> Auth {
    let section = field.section(keys::ALL);
    let mut auth = Auth::default();
    section.set(keys::ENABLED, &mut auth.enabled, |field| field.boolean());
    section.set(keys::ALLOW_ANONYMOUS, &mut auth.allow_anonymous, |field| {
        field.boolean()
    });
    section.with(keys::API_KEY, |field| {
        decode_api_key(&field.section(api_key::ALL), &mut auth.api_key);
    });
    auth.storage = section.with(keys::STORAGE, |field| storage(&field));
    section.with(keys::ROLE_ASSIGNMENTS, |field| {
        auth.role_assignments = list(field, "a list of bindings", |item| assignment(&item));
    });
    auth.oidc = section.get(keys::OIDC, |field| provider(&field));
    auth
}

fn decode_api_key(section: &Section<'_>, api_key: &mut ApiKeyAuth) {
    section.set(api_key::ENABLED, &mut api_key.enabled, |field| {
        field.boolean()
    });
    section.set(api_key::HEADER_NAME, &mut api_key.header_name, |field| {
        let name = field.label("a header's name")?;
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            let message = "expected a header's name: letters, digits and `-`";
            field.error("config.invalid_header", message);
            return None;
        }
        Some(name.to_owned())
    });
}

fn storage(field: &Field<'_>) -> AuthStorage {
    let section = field.section(auth_storage::ALL);
    let mut driver = StorageDriver::Store;
    section.set(auth_storage::DRIVER, &mut driver, |field| {
        field.word(StorageDriver::WORDS, StorageDriver::from_word)
    });
    let path = section.get(auth_storage::PATH, |field| field.name("a path"));
    AuthStorage { driver, path }
}

fn assignment(field: &Field<'_>) -> Option<RoleAssignment> {
    let section = field.section(role_assignment::ALL);
    let principal = section.get(role_assignment::PRINCIPAL, |field| {
        field.name("a principal, or `group:` and a group")
    });
    let role = section.get(role_assignment::ROLE, |field| {
        field.word(Role::WORDS, Role::from_word)
    });
    let mut scope = RoleScope::Global;
    section.set(role_assignment::SCOPE, &mut scope, |field| {
        let expected = "`global`, or `tenant:` and a tenant";
        let scope = RoleScope::from_text(field.label(expected)?);
        if scope.is_none() {
            field.error("config.unknown_value", format!("expected {expected}"));
        }
        scope
    });
    for key in [role_assignment::PRINCIPAL, role_assignment::ROLE] {
        if !section.has(key) {
            missing(field, key.name);
        }
    }
    Some(RoleAssignment {
        principal: principal?,
        role: role?,
        scope,
    })
}

fn provider(field: &Field<'_>) -> Option<Oidc> {
    let section = field.section(oidc::ALL);
    if !section.has(oidc::ISSUER) {
        missing(field, oidc::ISSUER.name);
    }
    let address = |field: Field<'_>| {
        let address = field.open_text("a URL")?;
        if let Some(fault) = url::fault(address) {
            field.error("config.invalid_url", fault);
            return None;
        }
        Some(address.to_owned())
    };
    let name = |field: Field<'_>| field.name("text");
    let mut provider = Oidc::new(section.get(oidc::ISSUER, address).unwrap_or_default());
    section.set(oidc::ENABLED, &mut provider.enabled, |field| {
        field.boolean()
    });
    provider.audience = section.get(oidc::AUDIENCE, name);
    provider.client_id = section.get(oidc::CLIENT_ID, name);
    provider.jwks_uri = section.get(oidc::JWKS_URI, address);
    section.set(oidc::SUBJECT_CLAIM, &mut provider.subject_claim, name);
    section.set(oidc::GROUPS_CLAIM, &mut provider.groups_claim, name);
    section.set(oidc::TENANT_CLAIM, &mut provider.tenant_claim, name);
    (!provider.issuer.is_empty()).then_some(provider)
}

fn missing(field: &Field<'_>, key: &str) {
    let message = format!("needs `{key}`");
    field.context.report(Report::error(
        "config.missing_key",
        field.node.place,
        field.path,
        message,
    ));
}
