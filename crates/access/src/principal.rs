//! [`Principal`]: who calls.

use std::{collections::BTreeSet, sync::Arc};

use crate::permission::Permission;

/// Who calls, as their credential says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Who it is, such as `svc:a`.
    pub subject: String,
    /// The tenant it belongs to, where it belongs to one.
    pub tenant: Option<String>,
    /// The groups it is in, without `group:`.
    pub groups: BTreeSet<String>,
    /// The id of the key that says so; `None` for who calls without one.
    pub key: Option<String>,
    /// What its credential can be used for at most, whatever roles grant; `None` limits nothing.
    pub capabilities: Option<BTreeSet<Permission>>,
}

/// Who came in at the HTTP door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visitor {
    /// Somebody on this machine, while there is no authentication.
    Local,
    /// Somebody who has said who they are.
    Known(Arc<Principal>),
}

// === impl Principal ===

impl Principal {
    /// Returns who calls without a credential, where that is allowed. Like anybody it may do what bindings grant it.
    ///
    /// ```
    /// assert_eq!(genlock_access::Principal::anonymous().subject, "anonymous");
    /// ```
    pub fn anonymous() -> Self {
        Self {
            subject: "anonymous".to_owned(),
            tenant: None,
            groups: BTreeSet::new(),
            key: None,
            capabilities: None,
        }
    }
}
