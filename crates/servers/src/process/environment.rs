//! What a child process finds in its environment: a fixed base, what it asks for, and nothing else.

use std::collections::BTreeMap;

use genlock_config::StdioDefinition;

/// The variables that every server gets where the gateway has them.
const BASE: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "LANG",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "ALL_PROXY",
    "all_proxy",
];

/// The gateway's own environment, as its host passed it in.
#[derive(Clone, Default)]
pub struct HostEnvironment(BTreeMap<String, String>);

impl HostEnvironment {
    /// Makes the environment of one server: the base, the names it lists in `env_pass`, and what it declares.
    pub(crate) fn for_server(&self, definition: &StdioDefinition) -> BTreeMap<String, String> {
        let base = |name: &str| BASE.contains(&name) || name.starts_with("LC_");
        let passed = |name: &String| base(name) || definition.env_pass.contains(name);
        let mut variables: BTreeMap<_, _> = self
            .0
            .iter()
            .filter(|(name, _)| passed(name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect();
        variables.extend(
            definition
                .env
                .iter()
                .map(|(name, value)| (name.clone(), value.expose().to_owned())),
        );
        variables
    }
}

impl FromIterator<(String, String)> for HostEnvironment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl std::fmt::Debug for HostEnvironment {
    /// Shows the number of variables only: their values may be private.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostEnvironment({} variables)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use genlock_config::Text;

    use super::*;

    #[test]
    fn a_server_gets_the_base_what_it_asks_for_and_what_it_declares() {
        let host: HostEnvironment = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OTHER_TOKEN", "x"),
            ("ASKED", "y"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        let definition = StdioDefinition {
            command: Text::plain("server"),
            args: vec![],
            env: [
                ("OWN".to_owned(), Text::plain("z")),
                ("PATH".to_owned(), Text::plain("/opt")),
            ]
            .into(),
            env_pass: vec!["ASKED".to_owned()],
            cwd: None,
        };
        let expected = [
            ("ASKED", "y"),
            ("LC_ALL", "C"),
            ("OWN", "z"),
            ("PATH", "/opt"),
        ];
        assert_eq!(
            host.for_server(&definition),
            expected
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        );
    }
}
