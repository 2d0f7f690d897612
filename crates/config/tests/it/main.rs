//! The config crate from outside: text in, a config or findings out.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

mod canonical;
mod digests;
mod documents;
mod files;
mod findings;
mod fingerprint;
mod generated;
mod missing;
mod not_served;
mod private;
mod random;
mod redacted;
mod refusals;
mod schema;
mod secret_files;
mod seeds;

use genlock_config::{Config, Finding, LoadError, Loaded, Sources, Variables, parse, parse_schema};

/// Variables that the tests' texts refer to.
fn variables() -> Variables {
    let pairs = [
        ("TOKEN", "t0ken-value"),
        ("HOME", "/home/u"),
        ("EMPTY", ""),
        ("HOST", "example.com"),
    ];
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect()
}

fn parsed(text: &str) -> Loaded {
    parse(text, "genlock.yaml".into(), &variables())
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn config(text: &str) -> Config {
    let loaded = parsed(text);
    assert_eq!(loaded.warnings, [], "{text}");
    loaded.config
}

/// A config by the schema alone, whatever of it is served.
fn schema_only(text: &str) -> Config {
    let loaded = parse_schema(text, "genlock.yaml".into(), &Sources::new(variables()));
    loaded
        .unwrap_or_else(|error| panic!("{text}\n{error} {:?}", error.findings()))
        .config
}

fn refused(text: &str) -> Vec<Finding> {
    refused_in("genlock.yaml", text)
}

fn refused_in(file: &str, text: &str) -> Vec<Finding> {
    match parse(text, file.into(), &variables()) {
        Err(LoadError::Invalid(findings)) => findings.into_vec(),
        other => panic!("{text}\n{other:?}"),
    }
}

/// One finding in short: `line:column code path`.
fn short(finding: &Finding) -> String {
    format!(
        "{}:{} {} {}",
        finding.line, finding.column, finding.code, finding.path
    )
    .trim_end()
    .to_owned()
}

fn all_short(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(short).collect()
}
