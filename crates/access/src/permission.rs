//! [`Permission`]: what a caller may do.

use std::fmt;

use genlock_config::Role;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// List tools.
    ToolList,
    /// Call tools.
    ToolInvoke,
    /// Look at what is shown redacted: status, servers, generations, sessions, the config.
    Read,
    /// Bring the file into force.
    Reload,
    /// Work on servers, sessions and generations.
    Operate,
    /// Make, list and revoke keys.
    Keys,
    /// Read who did what, and who was refused what.
    Audit,
}

// === impl Permission ===

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 7] = [
        Self::ToolList,
        Self::ToolInvoke,
        Self::Read,
        Self::Reload,
        Self::Operate,
        Self::Keys,
        Self::Audit,
    ];

    /// Returns its name, as refusals say it.
    ///
    /// ```
    /// assert_eq!(genlock_access::Permission::Reload.name(), "config:reload");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolList => "tool:list",
            Self::ToolInvoke => "tool:invoke",
            Self::Read => "gateway:read",
            Self::Reload => "config:reload",
            Self::Operate => "gateway:operate",
            Self::Keys => "key:manage",
            Self::Audit => "audit:read",
        }
    }

    /// Tells whether a role has it.
    pub const fn is_of(self, role: Role) -> bool {
        match (role, self) {
            (Role::Admin, _)
            | (Role::Operator, Self::Read | Self::Reload | Self::Operate | Self::Audit)
            | (Role::ServiceAccount, Self::ToolList | Self::ToolInvoke)
            | (Role::Viewer, Self::Read) => true,
            (Role::Operator, Self::ToolList | Self::ToolInvoke | Self::Keys)
            | (
                Role::ServiceAccount,
                Self::Read | Self::Reload | Self::Operate | Self::Keys | Self::Audit,
            )
            | (
                Role::Viewer,
                Self::ToolList
                | Self::ToolInvoke
                | Self::Reload
                | Self::Operate
                | Self::Keys
                | Self::Audit,
            ) => false,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
