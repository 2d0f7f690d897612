//! Which tools of a server there are, and for whom: pure matching of globs.

use std::collections::BTreeMap;

use genlock_config::{ServerDefinition, ToolRules};

/// The rules of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerTools {
    all: ToolRules,
    by_tenant: BTreeMap<String, ToolRules>,
}

/// Whether rules let a tool through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolVerdict {
    /// They do.
    Shown,
    /// They do not.
    Hidden {
        /// Whether it is the rules for the caller's tenant that hide it, and not the server's own.
        of_tenant: bool,
        /// Why.
        why: RuleRefusal,
    },
}

/// Why a list of globs lets a tool not through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleRefusal {
    /// `deny` has a glob for it.
    Denied {
        /// The first such glob.
        glob: String,
    },
    /// `allow` is there and has none.
    NotAllowed,
}

// === impl ToolVerdict ===

impl ToolVerdict {
    /// Tells whether the tool is there.
    pub fn is_shown(&self) -> bool {
        match self {
            Self::Shown => true,
            Self::Hidden { .. } => false,
        }
    }
}

// === impl ServerTools ===

impl ServerTools {
    /// Takes the rules out of a definition; `None` where it has none.
    pub(crate) fn of(definition: &ServerDefinition) -> Option<Self> {
        let rules = Self {
            all: definition.tools.clone(),
            by_tenant: definition.tenant_tools.clone(),
        };
        (rules != Self::default()).then_some(rules)
    }

    /// Decides whether there is a tool, for a caller of this tenant.
    pub(crate) fn decide(&self, tool: &str, tenant: Option<&str>) -> ToolVerdict {
        let mut hidden = self.rules_for(tenant).filter_map(|(of_tenant, rules)| {
            let why = refusal(rules, tool)?;
            Some(ToolVerdict::Hidden { of_tenant, why })
        });
        hidden.next().unwrap_or(ToolVerdict::Shown)
    }

    /// Tells whether there can be any tool.
    pub(crate) fn shows_any(&self, tenant: Option<&str>) -> bool {
        self.rules_for(tenant)
            .all(|(_, rules)| rules.allow.as_ref().is_none_or(|allow| !allow.is_empty()))
    }

    /// The rules of a tenant narrow those of all: both have to let a tool through. Tells of each whether it is the tenant's.
    fn rules_for(&self, tenant: Option<&str>) -> impl Iterator<Item = (bool, &ToolRules)> {
        let own = tenant.and_then(|tenant| self.by_tenant.get(tenant));
        let own = own.map(|rules| (true, rules));
        std::iter::once((false, &self.all)).chain(own)
    }
}

/// Returns why rules let a tool not through, where they do not.
fn refusal(rules: &ToolRules, tool: &str) -> Option<RuleRefusal> {
    let found = |globs: &[String]| globs.iter().find(|glob| matches(glob, tool)).cloned();
    if let Some(glob) = found(&rules.deny) {
        return Some(RuleRefusal::Denied { glob });
    }
    let allowed = rules
        .allow
        .as_deref()
        .is_none_or(|globs| found(globs).is_some());
    (!allowed).then_some(RuleRefusal::NotAllowed)
}

/// Tells whether a text is of the form of a glob: `*` is any text, `?` any one character, all else is itself.
///
/// Goes back to the last `*` alone, so that no glob takes longer than the product of both lengths.
fn matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while seen < text.len() {
        match glob.get(at) {
            Some('*') => {
                back = Some((at, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || text.get(seen) == Some(wanted) => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => match &mut back {
                Some((star, from)) => {
                    *from += 1;
                    at = *star + 1;
                    seen = *from;
                }
                None => return false,
            },
        }
    }
    glob.get(at..)
        .is_some_and(|rest| rest.iter().all(|c| *c == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_matches_the_whole_name() {
        let table = [
            ("echo", "echo", true),
            ("echo", "echo2", false),
            ("ech", "echo", false),
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("read_*", "write_file", false),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("*a*b", "xaxaxb", true),
            ("*a*b", "xaxaxbx", false),
            ("r?ad", "read", true),
            ("r?ad", "rad", false),
            ("?", "ä", true),
            ("**", "a", true),
        ];
        for (glob, text, expected) in table {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    fn rules(allow: Option<&[&str]>, deny: &[&str]) -> ToolRules {
        let texts = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        ToolRules {
            allow: allow.map(texts),
            deny: texts(deny),
        }
    }

    #[test]
    fn what_is_denied_is_denied_and_a_tenant_only_narrows() {
        let server = ServerTools {
            all: rules(Some(&["read_*", "list"]), &["read_secret"]),
            by_tenant: [
                (
                    "a".to_owned(),
                    rules(Some(&["read_*", "write"]), &["read_log"]),
                ),
                ("none".to_owned(), rules(Some(&[]), &[])),
            ]
            .into(),
        };
        let shown = |tenant| {
            let all = ["read_file", "read_secret", "read_log", "list", "write"];
            all.into_iter()
                .filter(|tool| server.decide(tool, tenant).is_shown())
                .collect::<Vec<_>>()
        };

        assert_eq!(shown(None), ["read_file", "read_log", "list"]);
        assert_eq!(shown(Some("b")), ["read_file", "read_log", "list"]);
        assert_eq!(shown(Some("a")), ["read_file"]);
        assert_eq!(shown(Some("none")), [""; 0]);
        assert!(server.shows_any(Some("a")) && !server.shows_any(Some("none")));
    }

    #[test]
    fn what_hides_a_tool_is_named() {
        let server = ServerTools {
            all: rules(Some(&["read_*", "list"]), &["x*", "read_s*"]),
            by_tenant: [("a".to_owned(), rules(Some(&["read_*"]), &["read_log"]))].into(),
        };
        let hidden = |of_tenant, why| ToolVerdict::Hidden { of_tenant, why };
        let denied = |glob: &str| RuleRefusal::Denied {
            glob: glob.to_owned(),
        };

        let table = [
            ("read_file", Some("a"), ToolVerdict::Shown),
            ("read_secret", None, hidden(false, denied("read_s*"))),
            ("write", Some("a"), hidden(false, RuleRefusal::NotAllowed)),
            ("read_log", None, ToolVerdict::Shown),
            ("read_log", Some("a"), hidden(true, denied("read_log"))),
            ("list", Some("a"), hidden(true, RuleRefusal::NotAllowed)),
        ];
        for (tool, tenant, expected) in table {
            assert_eq!(server.decide(tool, tenant), expected, "{tool} {tenant:?}");
        }
    }
}
