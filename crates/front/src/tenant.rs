//! [`Tenant`]: the scope that allowlists of `ui://` resources and handed-out links are kept by.

use std::sync::Arc;

use genlock_config::Config;

use crate::{resources::ui, world::Audience};

/// The tenant of a caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tenant(Arc<str>);

impl Tenant {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a caller may see beside tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight<'a> {
    /// Nothing, as no tool either.
    Nothing,
    /// All that is offered: who is trusted is bound by nothing that holds for tenants.
    Everything,
    /// All that is offered, but of `ui://` only what begins with one of these.
    Tenant(&'a [String]),
}

impl<'a> Sight<'a> {
    pub(crate) fn of(audience: &Audience, config: &'a Config) -> Self {
        match audience {
            Audience::Everyone => Self::Everything,
            Audience::Nobody => Self::Nothing,
            Audience::Tenant(tenant) => {
                let allowed = config.ui_allowlists.get(&**tenant);
                Self::Tenant(allowed.map_or(&[], Vec::as_slice))
            }
        }
    }

    /// Tells whether a resource of this URI, as its server calls it, may be listed and read.
    pub(crate) fn sees(self, uri: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Tenant(allowed) => !ui::is_ui(uri) || ui::is_allowed(uri, allowed),
        }
    }

    /// Tells whether anything is there at all.
    pub(crate) fn is_open(self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything | Self::Tenant(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_trusted_sees_all_a_tenant_what_its_list_allows_and_nobody_nothing() {
        let mut config = Config::default();
        config
            .ui_allowlists
            .insert("a".to_owned(), vec!["ui://panels/".to_owned()]);
        let audiences = [
            Audience::Everyone,
            Audience::Nobody,
            Audience::Tenant("a".into()),
            Audience::Tenant("b".into()),
        ];

        let seen = audiences.map(|audience| {
            let sight = Sight::of(&audience, &config);
            let uris = ["note://1", "ui://panels/x", "ui://other/x"];
            (sight.is_open(), uris.map(|uri| sight.sees(uri)))
        });

        let expected = [
            (true, [true; 3]),
            (false, [false; 3]),
            (true, [true, true, false]),
            (true, [true, false, false]),
        ];
        assert_eq!(seen, expected);
    }
}
