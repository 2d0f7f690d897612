//! What is wrong with a config, and where.

use std::fmt;

use camino::Utf8PathBuf;
use serde::Serialize;

/// One thing that is wrong with a config, or should be known about it.
///
/// Never holds a value of the file. `Display` is one line without the hint:
/// ``genlock.yaml:12:7 mcp_servers.github.timeout: expected a duration such as `30s` ``.
///
/// The codes, all after `config.`:
///
/// | about | codes |
/// |---|---|
/// | the document | `empty`, `syntax`, `several_documents`, `too_deep`, `too_large` |
/// | keys | `unknown_key`, `duplicate_key`, `conflicting_keys`, `misplaced_key`, `missing_key`, `merge_key`, `key_not_text` |
/// | types and tags | `wrong_type`, `unknown_tag`, `private_not_allowed` |
/// | values | `out_of_range`, `unknown_value`, `empty_value`, `invalid_address`, `invalid_duration`, `invalid_header`, `invalid_host`, `invalid_name`, `invalid_origin`, `invalid_path`, `invalid_size`, `invalid_text`, `invalid_url`, `needs_auth` |
/// | names of servers | `needs_prefix`, `duplicate_prefix` |
/// | interpolation | `missing_variable`, `missing_file`, `bad_reference`, `unknown_source`, `interpolation_not_allowed`, `file_not_allowed`, `file_unreadable`, `bad_env_file` |
/// | what this version does | `not_served` (a warning, or an error where ignoring the key would grant more) |
/// | the report itself | `too_many_findings` |
/// | warnings | `private_in_argv`, `command_line`, `short_secret` |
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of finding this is, such as `config.unknown_key`. Stable.
    pub code: &'static str,
    /// Whether the config can be used all the same.
    pub severity: Severity,
    /// The file, as it was named to the loader.
    pub file: Utf8PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The dotted path, such as `mcp_servers.github.timeout`. Empty for the whole document.
    pub path: String,
    /// What is wrong: a fragment without a value in it.
    pub message: String,
    /// What would help.
    pub hint: Option<String>,
}

/// Whether a config with this finding can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can.
    Warning,
}

/// All findings of one file, in the order of their places.
///
/// `Display` is one line each, without hints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Findings(Vec<Finding>);

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

// === impl Findings ===

impl Findings {
    pub(crate) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| (finding.line, finding.column));
        Self(findings)
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        Self::new(self.0)
    }

    /// Returns the findings one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    /// Returns the findings as a slice.
    pub fn as_slice(&self) -> &[Finding] {
        &self.0
    }

    /// Returns the findings themselves.
    pub fn into_vec(self) -> Vec<Finding> {
        self.0
    }

    /// Says whether one of the findings is an error.
    pub fn has_errors(&self) -> bool {
        self.0
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        Ok(())
    }
}

impl IntoIterator for Findings {
    type Item = Finding;
    type IntoIter = std::vec::IntoIter<Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
