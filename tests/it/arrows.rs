//! The direction of dependencies, as `cargo metadata` tells it.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

/// The layers: a crate knows those of lower layers only. What is not here is no part of the product.
const LAYERS: [(&str, u32); 13] = [
    ("genlock-frames", 0),
    ("genlock-mcp", 0),
    ("genlock-config", 0),
    ("genlock-policy", 1),
    ("genlock-store", 2),
    ("genlock-servers", 2),
    ("genlock-access", 2),
    ("genlock-authority", 3),
    ("genlock-front", 3),
    ("genlock-gateway", 4),
    ("genlock", 5),
    ("genlock-worker", 5),
    // What tests are made with stands beside, and knows none of them.
    ("genlock-testkit", 0),
];

/// Who is outside of the layers and may know all of them.
const OUTSIDE: [&str; 2] = ["genlock-tests", "genlock-bench"];

/// What a crate must not know, whatever its layer.
const NEVER: [(&str, &[&str]); 5] = [
    ("genlock-frames", &["tokio", "sqlx"]),
    ("genlock-config", &["tokio", "hyper", "reqwest"]),
    ("genlock-authority", &["sqlx", "hyper", "axum", "http"]),
    ("genlock-mcp", &["sqlx", "axum"]),
    (
        "genlock-worker",
        &["sqlx", "axum", "genlock-store", "genlock-gateway"],
    ),
];

/// All that a crate may know, where that is little.
const ONLY: [(&str, &[&str]); 1] = [(
    "genlock-frames",
    &["secrecy", "serde", "serde_json", "thiserror"],
)];

/// What only programs know.
const PROGRAMS_ONLY: [&str; 3] = ["anyhow", "clap", "tracing-subscriber"];
const PROGRAMS: [&str; 3] = ["genlock", "genlock-worker", "genlock-testkit"];

/// The one file that may be unsafe.
const UNSAFE: &str = "crates/servers/src/process/sys.rs";

#[test]
fn one_file_is_unsafe() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let mut found = Vec::new();
    let mut open = ["crates", "bins", "tests"]
        .map(|dir| root.unwrap().join(dir))
        .to_vec();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                // The lint is denied, so that whoever is unsafe has to name it.
                let lint = ["unsafe", "_code"].concat();
                if text.contains(&lint) {
                    found.push(path.strip_prefix(root.unwrap()).unwrap().to_owned());
                }
            }
        }
    }
    assert_eq!(found, [std::path::Path::new(UNSAFE)]);
}

fn metadata() -> Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
            manifest,
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The crates that each package depends on, but for its tests.
fn arrows(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let real = all.filter(|dependency| dependency["kind"] != "dev");
            (
                text(&package["name"]),
                real.map(|dependency| text(&dependency["name"])).collect(),
            )
        })
        .collect()
}

/// Every arrow that should not be there.
fn wrong(arrows: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let layer = |name: &str| {
        LAYERS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, layer)| *layer)
    };
    let mut found = Vec::new();
    for (package, dependencies) in arrows {
        if OUTSIDE.contains(&package.as_str()) {
            continue;
        }
        let Some(own) = layer(package) else {
            found.push(format!("{package} is in no layer"));
            continue;
        };
        for dependency in dependencies {
            let upwards = dependency.starts_with("genlock")
                && (layer(dependency).is_none_or(|other| other >= own)
                    || dependency == "genlock-testkit");
            let never = NEVER
                .iter()
                .any(|(name, list)| name == package && list.contains(&dependency.as_str()));
            let only = ONLY
                .iter()
                .any(|(name, list)| name == package && !list.contains(&dependency.as_str()));
            let program = PROGRAMS_ONLY.contains(&dependency.as_str())
                && !PROGRAMS.contains(&package.as_str());
            if upwards || never || only || program {
                found.push(format!("{package} -> {dependency}"));
            }
        }
    }
    found
}

#[test]
fn arrows_go_one_way() {
    assert_eq!(wrong(&arrows(&metadata())), [""; 0]);
}

#[test]
fn an_arrow_the_other_way_would_be_noticed() {
    let planted = [
        ("genlock-mcp", "genlock-config"),
        ("genlock-config", "tokio"),
        ("genlock-frames", "tokio"),
        ("genlock-frames", "rustix"),
        ("genlock-servers", "genlock-front"),
        ("genlock-front", "anyhow"),
        ("genlock-gateway", "genlock-testkit"),
        ("genlock-gateway", "genlock-gateway-extra"),
        ("genlock-worker", "genlock-store"),
    ];
    for (package, dependency) in planted {
        let mut arrows = arrows(&metadata());
        arrows.get_mut(package).unwrap().push(dependency.to_owned());
        assert_eq!(wrong(&arrows), [format!("{package} -> {dependency}")]);
    }
    let stranger = BTreeMap::from([("genlock-utils".to_owned(), Vec::new())]);
    assert_eq!(wrong(&stranger), ["genlock-utils is in no layer"]);
}
