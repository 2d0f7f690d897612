//! Who may call: the section `auth`, as far as it stands in the config file.

use std::fmt;

use serde::Serialize;

use crate::keyword::keywords;

/// Who may call. Key `auth`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Auth {
    /// Whether callers have to say who they are. Default false.
    pub enabled: bool,
    /// Whether a caller without a credential is served. Default false.
    pub allow_anonymous: bool,
    /// Keys made by `genlock keys create`.
    pub api_key: ApiKeyAuth,
    /// Where keys are stored, where the file says so.
    pub storage: Option<AuthStorage>,
    /// Who may do what, in the order of the file.
    pub role_assignments: Vec<RoleAssignment>,
    /// Tokens of an OpenID provider.
    pub oidc: Option<Oidc>,
}

/// Keys made by `genlock keys create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyAuth {
    /// Whether they are taken. Default true.
    pub enabled: bool,
    /// The header that carries one, beside a bearer token. Default `X-API-Key`.
    pub header_name: String,
}

/// Where keys are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthStorage {
    /// The kind of storage. Default [`StorageDriver::Store`].
    pub driver: StorageDriver,
    /// The file, for [`StorageDriver::Sqlite`].
    pub path: Option<String>,
}

keywords! {
    /// A kind of storage for keys.
    StorageDriver {
        /// The profile's own store.
        Store = "store",
        /// A SQLite file.
        Sqlite = "sqlite",
        /// Nothing that outlives the process.
        Memory = "memory",
    }
}

/// One binding of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAssignment {
    /// A principal, or `group:` and a group.
    pub principal: String,
    /// What it may do.
    pub role: Role,
    /// Where. Default [`RoleScope::Global`].
    pub scope: RoleScope,
}

keywords! {
    /// What a caller may do.
    Role {
        /// Everything.
        Admin = "admin",
        /// Reload, servers and sessions.
        Operator = "operator",
        /// List and call tools.
        ServiceAccount = "service-account",
        /// Read.
        Viewer = "viewer",
    }
}

/// Where a role holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoleScope {
    /// Everywhere.
    Global,
    /// For one tenant.
    Tenant(String),
}

/// Tokens of an OpenID provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// Whether they are taken. Default true, where the section stands.
    pub enabled: bool,
    /// The URL of the provider.
    pub issuer: String,
    /// Whom a token has to be made for.
    pub audience: Option<String>,
    /// The client's id at the provider.
    pub client_id: Option<String>,
    /// Where the provider's keys are, if it does not say so itself.
    pub jwks_uri: Option<String>,
    /// The claim that holds the principal. Default `sub`.
    pub subject_claim: String,
    /// The claim that holds the groups. Default `groups`.
    pub groups_claim: String,
    /// The claim that holds the tenant. Default `tenant_id`.
    pub tenant_claim: String,
}

// === impl ApiKeyAuth, Oidc ===

impl Default for ApiKeyAuth {
    fn default() -> Self {
        Self {
            enabled: true,
            header_name: "X-API-Key".to_owned(),
        }
    }
}

impl Oidc {
    /// Returns the section with every default, for the provider `issuer`.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self {
            enabled: true,
            issuer: issuer.into(),
            audience: None,
            client_id: None,
            jwks_uri: None,
            subject_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            tenant_claim: "tenant_id".to_owned(),
        }
    }
}

// === impl RoleScope ===

impl RoleScope {
    /// Reads `global`, or `tenant:` and a tenant.
    pub fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("tenant:") {
            Some("") => None,
            Some(tenant) => Some(Self::Tenant(tenant.to_owned())),
            None => (text == "global").then_some(Self::Global),
        }
    }
}

impl fmt::Display for RoleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Tenant(tenant) => write!(f, "tenant:{tenant}"),
        }
    }
}

impl Serialize for RoleScope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
