//! What a call has to pass on its way to a server, whatever path it takes.

use std::collections::BTreeMap;

use genlock_config::{Config, Validator};

use crate::tools::{ServerTools, ToolVerdict};

/// The checks that a generation's config asks of each call, in a fixed order.
///
/// Every path to a server asks the same gates: a call by a flat name, a call in a batch, a call of a turn.
///
/// ```
/// use genlock_config::{Variables, parse};
/// use genlock_policy::Gates;
///
/// let text = "interceptors: { validators: [{ type: payload_size, max_bytes: 8 }] }";
/// let config = parse(text, "genlock.yaml".into(), &Variables::empty())?.config;
///
/// let gates = Gates::of(&config);
///
/// assert_eq!(gates.admit(br#"{"a":1}"#), Ok(()));
/// assert_eq!(gates.admit(br#"{"a":"12"}"#).unwrap_err().code(), "validator_denied");
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gates {
    validators: Vec<Validator>,
    /// By server, where it has rules.
    tools: BTreeMap<String, ServerTools>,
}

/// Why a call does not reach its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Its arguments are larger than `interceptors.validators` allow.
    #[error("the arguments have {bytes} bytes, at most {max_bytes} are allowed")]
    PayloadSize {
        /// The size of the arguments as JSON, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        max_bytes: u64,
    },
}

// === impl Gates ===

impl Gates {
    /// Takes the checks out of a config.
    pub fn of(config: &Config) -> Self {
        Self {
            validators: config.validators.clone(),
            tools: config
                .servers
                .iter()
                .filter_map(|(name, server)| {
                    Some((name.as_str().to_owned(), ServerTools::of(server)?))
                })
                .collect(),
        }
    }

    /// Tells whether a server has a tool, for a caller of `tenant`: the one decision behind the list and the call.
    pub fn shows(&self, server: &str, tool: &str, tenant: Option<&str>) -> bool {
        self.decide(server, tool, tenant).is_shown()
    }

    /// Decides the same, and says why.
    pub fn decide(&self, server: &str, tool: &str, tenant: Option<&str>) -> ToolVerdict {
        let rules = self.tools.get(server);
        rules.map_or(ToolVerdict::Shown, |rules| rules.decide(tool, tenant))
    }

    /// Returns the checks of a call's arguments.
    pub fn validators(&self) -> &[Validator] {
        &self.validators
    }

    /// Tells whether a server can have any tool for a caller of `tenant`.
    pub fn shows_any(&self, server: &str, tenant: Option<&str>) -> bool {
        let rules = self.tools.get(server);
        rules.is_none_or(|rules| rules.shows_any(tenant))
    }

    /// Checks a call. `arguments` are those of the call as JSON, as its caller wrote them.
    ///
    /// # Errors
    /// The first check, in the order of the file, that denies the call.
    pub fn admit(&self, arguments: &[u8]) -> Result<(), Denied> {
        let bytes = u64::try_from(arguments.len()).unwrap_or(u64::MAX);
        for validator in &self.validators {
            match *validator {
                Validator::PayloadSize { max_bytes } if bytes > max_bytes => {
                    return Err(Denied::PayloadSize { bytes, max_bytes });
                }
                Validator::PayloadSize { .. } => {}
            }
        }
        Ok(())
    }
}

// === impl Denied ===

impl Denied {
    /// Returns the stable code of the refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::PayloadSize { .. } => "validator_denied",
        }
    }
}
