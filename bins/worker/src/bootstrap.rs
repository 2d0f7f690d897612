//! Checks every field of a bootstrap, and makes of it what the session runs.

use std::{collections::BTreeSet, time::Duration};

use camino::Utf8Path;
use genlock_config::{
    Config, PrivateValue, PrivateValues, RedactedConfig, Text, TransportDefinition,
};
use genlock_frames::{Bootstrap, Epoch, OLDEST_VERSION, Policy, SessionId, VERSION};
use genlock_policy::Overlay;

use crate::{containment::Identity, revocations};

/// The bounds of how often a heartbeat is sent.
const HEARTBEATS: std::ops::RangeInclusive<u64> = 10..=60_000;
/// The longest silence.
const LONGEST_SILENCE_MS: u64 = 600_000;

/// What a session runs: the config holds its servers and no other.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) config: Config,
    /// What is revoked as it begins.
    pub(crate) revoked: Overlay,
    pub(crate) epoch: Epoch,
    pub(crate) heartbeat: Duration,
    pub(crate) silence: Duration,
}

/// Why a bootstrap is not taken. Shows no private value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BootstrapError {
    /// A field is not what it has to be.
    #[error("bootstrap: `{field}` {what}")]
    Field {
        field: &'static str,
        what: &'static str,
    },
    /// The config with its private values is none.
    #[error("bootstrap: the policy's config: {0}")]
    Config(String),
}

impl BootstrapError {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Field { .. } => "bootstrap_refused",
            Self::Config(_) => "config_invalid",
        }
    }
}

fn check(holds: bool, field: &'static str, what: &'static str) -> Result<(), BootstrapError> {
    if holds {
        Ok(())
    } else {
        Err(BootstrapError::Field { field, what })
    }
}

/// Takes a bootstrap for this process.
pub(crate) fn accept(bootstrap: Bootstrap, own: Identity) -> Result<Session, BootstrapError> {
    let versions = OLDEST_VERSION..=VERSION;
    check(
        versions.contains(&bootstrap.version),
        "version",
        "is not spoken by this worker",
    )?;
    check(bootstrap.pid == own.pid, "pid", "is another process")?;
    check(
        bootstrap.birth == own.birth,
        "birth",
        "is that of another process",
    )?;
    check(bootstrap.generation > 0, "generation", "begins at 1")?;
    check(bootstrap.policy_seq.get() > 0, "policy_seq", "begins at 1")?;
    check(
        HEARTBEATS.contains(&bootstrap.heartbeat_ms),
        "heartbeat_ms",
        "is out of bounds",
    )?;
    let silences = bootstrap.heartbeat_ms..=LONGEST_SILENCE_MS;
    check(
        silences.contains(&bootstrap.silence_ms),
        "silence_ms",
        "is out of bounds",
    )?;
    check(
        Utf8Path::new(&bootstrap.policy.cwd).is_absolute(),
        "policy.cwd",
        "is not absolute",
    )?;
    let revoked = revocations::overlay(&bootstrap.revoked);
    let revoked = revoked.ok_or(BootstrapError::Field {
        field: "revoked",
        what: "has a number below 1",
    })?;
    let (config, missing) = restore(&bootstrap.policy, bootstrap.private)?;
    check(
        config.profile.as_str() == bootstrap.profile_id,
        "profile_id",
        "is not the one of the config",
    )?;
    Ok(Session {
        id: bootstrap.session_id,
        revoked,
        config: selected(config, &bootstrap.policy, &missing)?,
        epoch: bootstrap.epoch,
        heartbeat: Duration::from_millis(bootstrap.heartbeat_ms),
        silence: Duration::from_millis(bootstrap.silence_ms),
    })
}

/// Puts the config together with its private values. Returns the pointers of those that are missing as well.
fn restore(
    policy: &Policy,
    private: genlock_frames::PrivateValues,
) -> Result<(Config, PrivateValues), BootstrapError> {
    let invalid = |error: &dyn std::fmt::Display| BootstrapError::Config(error.to_string());
    let form = serde_json::from_str(policy.config.get())
        .map_err(|_| BootstrapError::Config("not JSON".to_owned()))?;
    let values: PrivateValues = private
        .into_iter()
        .map(|(pointer, private)| {
            let value = match private.value {
                None => PrivateValue::missing(),
                Some(value) => PrivateValue::with_secrets(value, private.secrets),
            };
            (pointer, value)
        })
        .collect();
    let form = RedactedConfig::from_stored(form, values.pointers()).map_err(|e| invalid(&e))?;
    let config = Config::from_redacted(&form, &values).map_err(|e| invalid(&e))?;
    let missing = values
        .iter()
        .filter(|(_, value)| value.is_missing())
        .map(|(pointer, value)| (pointer.to_owned(), value.clone()));
    Ok((config, missing.collect()))
}

/// Leaves the servers that were selected and are enabled, each in the session's directory.
fn selected(
    mut config: Config,
    policy: &Policy,
    missing: &PrivateValues,
) -> Result<Config, BootstrapError> {
    let wanted: BTreeSet<_> = policy
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    let known = wanted
        .iter()
        .all(|name| config.servers.keys().any(|known| known.as_str() == *name));
    check(
        known,
        "policy.servers",
        "names a server that the config does not have",
    )?;
    config
        .servers
        .retain(|name, server| server.enabled && wanted.contains(name.as_str()));
    for (name, server) in &mut config.servers {
        if let TransportDefinition::Stdio(stdio) = &mut server.transport {
            let cwd = || Text::plain(policy.cwd.clone());
            stdio.cwd.get_or_insert_with(cwd);
        }
        let missing = missing.of_server(name);
        if !missing.is_empty() {
            let pointers: Vec<_> = missing.pointers().collect();
            let reason = format!("private_values_unavailable: {}", pointers.join(", "));
            server.unavailable = Some(reason);
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use genlock_config::{Variables, parse};
    use genlock_frames::{
        Birth, Pid, PolicySeq, PrivateValue as FramedValue, Revoked, RevokedKind, SelectedServer,
    };
    use secrecy::SecretString;
    use serde_json::value::to_raw_value;

    use super::*;

    const YAML: &str = "
        mcp_servers:
          a: { command: a, env: { TOKEN: s3cr3t-canary } }
          b: { command: b, cwd: /own }
          off: { command: c, enabled: false }
          rest: { command: d }
    ";

    fn own() -> Identity {
        Identity {
            pid: Pid::new(71),
            birth: Birth::new(9001),
        }
    }

    fn bootstrap() -> Bootstrap {
        let config = parse(YAML, "genlock.yaml".into(), &Variables::empty())
            .unwrap()
            .config;
        let (form, _) = config.split();
        let value = FramedValue {
            value: Some(SecretString::from("s3cr3t-canary")),
            secrets: Vec::new(),
        };
        let servers = ["a", "b", "off"].map(|name| SelectedServer {
            name: name.to_owned(),
        });
        Bootstrap {
            version: VERSION,
            profile_id: "default".to_owned(),
            session_id: SessionId::new("s-1").unwrap(),
            generation: 3,
            policy_seq: PolicySeq::new(2),
            pid: own().pid,
            birth: own().birth,
            epoch: Epoch::new(5),
            heartbeat_ms: 5_000,
            silence_ms: 30_000,
            policy: Policy {
                config: to_raw_value(&form).unwrap(),
                servers: servers.into(),
                cwd: "/work".to_owned(),
            },
            private: [("/mcp_servers/a/env/TOKEN".to_owned(), value)]
                .into_iter()
                .collect(),
            revoked: vec![revoked(7)],
        }
    }

    fn revoked(number: u64) -> Revoked {
        Revoked {
            kind: RevokedKind::Server,
            name: "a".to_owned(),
            reason: "leaked".to_owned(),
            number,
        }
    }

    #[test]
    fn a_session_has_the_selected_servers_that_are_enabled_and_runs_in_its_directory() {
        let session = accept(bootstrap(), own()).unwrap();

        let cwd = |name: &str| {
            let server = session
                .config
                .servers
                .values()
                .find(|server| server.name.as_str() == name);
            match &server.unwrap().transport {
                TransportDefinition::Stdio(stdio) => {
                    stdio.cwd.as_ref().unwrap().expose().to_owned()
                }
                TransportDefinition::Http(_) | TransportDefinition::Builtin => unreachable!(),
            }
        };
        let names: Vec<_> = session
            .config
            .servers
            .keys()
            .map(|name| name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((cwd("a").as_str(), cwd("b").as_str()), ("/work", "/own"));
        assert_eq!(session.config.private_values().len(), 1);
        let refusing = session.revoked.refuses("a", None).unwrap();
        assert_eq!((&*refusing.reason, refusing.number.get()), ("leaked", 7));
        assert!(!format!("{session:?}").contains("canary"));
    }

    #[test]
    fn a_lie_in_any_field_is_refused_by_its_name() {
        type Lie = fn(&mut Bootstrap);
        let lies: [(&str, Lie); 14] = [
            ("version", |lie| lie.version = VERSION + 1),
            ("version", |lie| lie.version = 0),
            ("pid", |lie| lie.pid = Pid::new(72)),
            ("birth", |lie| lie.birth = Birth::new(9002)),
            ("generation", |lie| lie.generation = 0),
            ("policy_seq", |lie| lie.policy_seq = PolicySeq::new(0)),
            ("heartbeat_ms", |lie| lie.heartbeat_ms = 0),
            ("silence_ms", |lie| lie.silence_ms = 1),
            ("silence_ms", |lie| lie.silence_ms = u64::MAX),
            ("policy.cwd", |lie| lie.policy.cwd = "here".to_owned()),
            ("policy.servers", |lie| lie.policy.servers[0].name.clear()),
            ("revoked", |lie| lie.revoked.push(revoked(0))),
            ("profile_id", |lie| lie.profile_id = "other".to_owned()),
            ("profile_id", |lie| lie.profile_id = String::new()),
        ];
        for (field, lie) in lies {
            let mut bootstrap = bootstrap();
            lie(&mut bootstrap);
            match accept(bootstrap, own()) {
                Err(BootstrapError::Field { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_config_that_is_none_or_misses_its_private_values_is_refused() {
        type Lie = fn(&mut Bootstrap);
        let lies: [Lie; 3] = [
            |lie| lie.policy.config = to_raw_value(&[7]).unwrap(),
            |lie| lie.policy.config = to_raw_value(&serde_json::json!({"mcp_servers": 7})).unwrap(),
            |lie| {
                lie.private = [(
                    "/no/such/place".to_owned(),
                    FramedValue {
                        value: None,
                        secrets: vec![],
                    },
                )]
                .into_iter()
                .collect();
            },
        ];
        for lie in lies {
            let mut bootstrap = bootstrap();
            lie(&mut bootstrap);
            let refused = accept(bootstrap, own()).unwrap_err();
            assert_eq!(refused.code(), "config_invalid", "{refused}");
            assert!(!format!("{refused} {refused:?}").contains("canary"));
        }
    }

    #[test]
    fn a_missing_private_value_keeps_its_own_server_down_and_no_other() {
        let mut bootstrap = bootstrap();
        let gone = FramedValue {
            value: None,
            secrets: vec![],
        };
        bootstrap.private = [("/mcp_servers/a/env/TOKEN".to_owned(), gone)]
            .into_iter()
            .collect();

        let session = accept(bootstrap, own()).unwrap();

        let reasons: Vec<_> = session
            .config
            .servers
            .values()
            .map(|server| server.unavailable.clone())
            .collect();
        let reason = "private_values_unavailable: /mcp_servers/a/env/TOKEN".to_owned();
        assert_eq!(reasons, [Some(reason), None]);
    }
}
