//! Random files, and what each of them grants: an evaluator of its own, which shares nothing with the one of the gateway.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::random::Random;

pub(crate) const SERVERS: [&str; 3] = ["a", "b", "c"];
pub(crate) const TOOLS: [&str; 5] = ["read_x", "read_y", "write_x", "list", "go"];
const GLOBS: [&str; 8] = [
    "*", "read_*", "*_x", "write_x", "list", "g?", "r*d_?", "nothing",
];
const TENANTS: [&str; 3] = ["t", "u", "tenant:t"];
const BOUND: [&str; 7] = ["p1", "p2", "p3", "p4", "p5", "group:g", "group:h"];
const ROLES: [&str; 5] = [
    "service-account",
    "service-account",
    "admin",
    "operator",
    "viewer",
];
const SCOPES: [&str; 4] = ["global", "global", "tenant:t", "tenant:u"];

/// Who may reload, whatever the file says beside.
pub(crate) const OPERATOR: &str = "ops";

/// A caller that has a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) name: &'static str,
    pub(crate) tenant: Option<&'static str>,
    pub(crate) groups: &'static [&'static str],
}

pub(crate) const CALLERS: [Caller; 5] = [
    Caller {
        name: "p1",
        tenant: Some("t"),
        groups: &["g"],
    },
    Caller {
        name: "p2",
        tenant: Some("u"),
        groups: &[],
    },
    Caller {
        name: "p3",
        tenant: Some("tenant:t"),
        groups: &["g"],
    },
    Caller {
        name: "p4",
        tenant: None,
        groups: &["g", "h"],
    },
    Caller {
        name: "p5",
        tenant: Some("u"),
        groups: &["h"],
    },
];

/// Writes a random file over these upstreams.
pub(crate) fn random(random: &mut Random, upstream: &str) -> Value {
    let mut servers = json!({});
    for name in SERVERS {
        if random.one_in(5) {
            continue;
        }
        let mut server = json!({
            "url": format!("http://{upstream}/{name}"),
            "enabled": !random.one_in(6),
            "tools": rules(random),
        });
        if random.one_in(2) {
            server["scope"] = "shared".into();
        }
        let mut members = json!({});
        for tenant in TENANTS {
            if random.one_in(2) {
                members[tenant] = rules(random);
            }
        }
        server["tool_access"] = json!({ "member": members });
        servers[name] = server;
    }
    let bindings = (0..random.below(5)).map(|_| {
        json!({
            "principal": random.pick(&BOUND), "role": random.pick(&ROLES), "scope": random.pick(&SCOPES),
        })
    });
    let mut bindings: Vec<Value> = bindings.collect();
    bindings.push(json!({"principal": OPERATOR, "role": "operator"}));
    json!({
        "config_reload": {"enabled": false},
        "tool_access": {"mode": "front_door", "surface": random.pick(&["flat", "both", "meta"])},
        "auth": {"enabled": true, "role_assignments": bindings},
        "mcp_servers": servers,
    })
}

fn rules(random: &mut Random) -> Value {
    let mut rules = json!({});
    let mut globs = |most: usize| -> Vec<&str> {
        (0..random.below(most + 1))
            .map(|_| random.pick(&GLOBS))
            .collect()
    };
    let (allow, deny) = (globs(3), globs(2));
    if !allow.is_empty() {
        rules["allow"] = json!(allow);
    }
    if !deny.is_empty() {
        rules["deny"] = json!(deny);
    }
    rules
}

/// Returns what a file grants a caller, as `server/tool`.
pub(crate) fn granted(text: &Value, caller: Caller) -> BTreeSet<String> {
    let Some(tenant) = caller.tenant else {
        return BTreeSet::new();
    };
    let bindings = text["auth"]["role_assignments"].as_array().unwrap();
    if !bindings
        .iter()
        .any(|binding| uses_tools(binding, caller, tenant))
    {
        return BTreeSet::new();
    }
    let mut granted = BTreeSet::new();
    for (name, server) in text["mcp_servers"].as_object().unwrap() {
        let own = &server["tool_access"]["member"][tenant];
        for tool in TOOLS {
            if server["enabled"] == true && lets(&server["tools"], tool) && lets(own, tool) {
                granted.insert(format!("{name}/{tool}"));
            }
        }
    }
    granted
}

fn uses_tools(binding: &Value, caller: Caller, tenant: &str) -> bool {
    let who = binding["principal"].as_str().unwrap();
    let named = match who.split_once(':') {
        Some((_, group)) => caller.groups.contains(&group),
        None => who == caller.name,
    };
    let here = match binding["scope"].as_str() {
        None | Some("global") => true,
        Some(scope) => scope == tenant || scope == format!("tenant:{tenant}"),
    };
    let role = binding["role"].as_str().unwrap();
    named && here && (role == "admin" || role == "service-account")
}

/// Rules that are not there let everything through.
fn lets(rules: &Value, tool: &str) -> bool {
    let any = |key: &str| {
        let globs = rules[key].as_array()?;
        Some(globs.iter().any(|glob| fits(glob.as_str().unwrap(), tool)))
    };
    any("allow").unwrap_or(true) && !any("deny").unwrap_or(false)
}

fn fits(glob: &str, text: &str) -> bool {
    let mut rest = glob.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|from| fits(rest.as_str(), &text[from..])),
        Some(letter) => {
            let first = text.chars().next();
            first.is_some_and(|own| {
                (letter == '?' || letter == own) && fits(rest.as_str(), &text[1..])
            })
        }
    }
}
