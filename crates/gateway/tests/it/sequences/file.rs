//! What a config file means, and the many ways to write it.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};

use crate::random::Random;

const NAMES: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
/// What `drain_s` is where the file does not say.
const DRAIN: u64 = 300;

/// What a file means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The servers, each with something that makes its definition another.
    pub(crate) servers: BTreeMap<String, u64>,
    pub(crate) drain: u64,
}

impl Default for Meaning {
    fn default() -> Self {
        Self {
            servers: BTreeMap::new(),
            drain: DRAIN,
        }
    }
}

impl Meaning {
    /// Another meaning, with one server at least.
    pub(crate) fn edited(&self, random: &mut Random) -> Self {
        let mut edited = self.clone();
        while edited == *self || edited.servers.is_empty() {
            for _ in 0..=random.below(2) {
                let name = random.pick(&NAMES);
                match random.below(5) {
                    0 => edited.drain = random.pick(&[DRAIN, 100, 200]),
                    1 => drop(edited.servers.remove(name)),
                    _ => drop(
                        edited
                            .servers
                            .insert(name.to_owned(), random.below(1000) as u64),
                    ),
                }
            }
        }
        edited
    }

    pub(crate) fn without_servers(&self) -> Self {
        Self {
            servers: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Writes it down in one of many ways.
    pub(crate) fn text(&self, random: &mut Random) -> String {
        if random.one_in(2) {
            return self.json().to_string();
        }
        let mut text = String::new();
        let mut line = |random: &mut Random, line: &str| {
            if random.one_in(3) {
                writeln!(text, "\n# Remark {}.", random.below(1000)).unwrap();
            }
            writeln!(text, "{line}").unwrap();
        };
        let spells_drain = self.drain != DRAIN || random.one_in(2);
        if spells_drain && random.one_in(2) {
            line(random, &format!("drain_s: {}s", self.drain));
        } else if spells_drain {
            line(random, &format!("drain_s: {}", self.drain));
        }
        line(random, "config_reload: { enabled: false }");
        if self.servers.is_empty() {
            line(random, "mcp_servers: {}");
            return text;
        }
        line(random, "mcp_servers:");
        let mut servers: Vec<_> = self.servers.iter().collect();
        if random.one_in(2) {
            servers.reverse();
        }
        for (name, value) in servers {
            line(random, &format!("  {name}:"));
            let mut keys = vec![
                format!("headers: {{ X-Value: 'v{value}' }}"),
                "url: http://127.0.0.1:1/mcp".to_owned(),
                format!("description: \"v{value}\""),
            ];
            if random.one_in(2) {
                keys.extend(["enabled: true".to_owned(), "mask: true".to_owned()]);
            }
            if random.one_in(2) {
                keys.reverse();
            }
            for key in keys {
                line(random, &format!("    {key}"));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let servers: serde_json::Map<_, _> = self
            .servers
            .iter()
            .map(|(name, value)| {
                let value = format!("v{value}");
                let server = json!({
                    "url": "http://127.0.0.1:1/mcp", "description": value,
                    "headers": {"X-Value": value},
                });
                (name.clone(), server)
            })
            .collect();
        json!({"config_reload": {"enabled": false}, "drain_s": self.drain, "mcp_servers": servers})
    }

    /// Reads it out of a stored generation.
    pub(crate) fn of_stored(config: &Value) -> Self {
        let servers = config["mcp_servers"].as_object().unwrap().iter();
        let servers = servers.map(|(name, server)| {
            let value = server["description"]
                .as_str()
                .unwrap()
                .strip_prefix('v')
                .unwrap();
            (name.clone(), value.parse().unwrap())
        });
        Self {
            servers: servers.collect(),
            drain: config["drain_s"].as_u64().unwrap(),
        }
    }
}

/// A text that is no config.
pub(crate) fn invalid(meaning: &Meaning, random: &mut Random) -> String {
    let text = meaning.text(&mut Random::new(0));
    let wrong = [
        "drain: 7",
        "mcp_servers: []",
        "drain_s: [1]",
        "execution: { max_concurrency: 0 }",
        "model: 'not closed",
        "mcp_servers: { alpha: { command: a, url: b } }",
    ];
    match random.below(2) {
        0 => format!(
            "config_reload: {{ enabled: false }}\n{}\n",
            random.pick(&wrong)
        ),
        _ => format!("{text}\n\0"),
    }
}

/// The beginning of a text, as a reader finds it in the middle of a save.
pub(crate) fn torn(meaning: &Meaning, random: &mut Random) -> String {
    let mut text = meaning.json().to_string();
    text.truncate(random.below(text.len()));
    text
}
