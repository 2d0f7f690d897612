//! Why a caller has a tool or not: what is explained is what happens.

mod keys;
mod session;

use genlock_testkit::harness::{GenlockProcess, eventually};
use serde_json::Value;

use crate::stage::DEADLINE;

/// No gate has decided against it.
const NONE: Option<&str> = None;

/// Waits until these servers are ready, whoever may ask over HTTP.
fn wait_ready(gateway: &GenlockProcess, names: &[&str]) {
    let is_ready =
        |server: &Value, name: &str| server["name"] == name && server["state"] == "ready";
    eventually(DEADLINE, "the servers are ready", || {
        let shown = gateway.run(&["servers", "--format", "json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).ok()?;
        let all = shown["servers"].as_array()?;
        let ready = |name: &&str| all.iter().any(|server| is_ready(server, name));
        names.iter().all(ready).then_some(())
    });
}

/// Asks the command line.
fn explain(gateway: &GenlockProcess, whose: [&str; 2], tool: &str) -> Value {
    let args = ["explain", whose[0], whose[1], tool, "--format", "json"];
    let output = gateway.run(&args);
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// What was explained, in short: the gate that decided, whether the tool is listed, whether it can be called.
fn told(explained: &Value) -> (Option<&str>, bool, bool) {
    let flag = |name: &str| explained[name].as_bool().unwrap();
    (
        explained["decided_by"].as_str(),
        flag("listed"),
        flag("callable"),
    )
}

/// Checks that the gates are walked in order up to the one that decided, and says why and what helps.
fn check_walk(explained: &Value) {
    let gates = explained["gates"].as_array().unwrap();
    let decided = explained["decided_by"].as_str();
    let stopped = gates.iter().position(|gate| gate["verdict"] == "refuse");
    for (index, gate) in gates.iter().enumerate() {
        let asked = gate["verdict"] != "not_asked";
        assert_eq!(gate["why"] != "", asked, "{gate}");
        // What comes before the one that refused was asked, what comes after was not.
        if let Some(stopped) = stopped {
            assert_eq!(asked, index <= stopped, "{explained}");
        }
    }
    assert_eq!(
        decided.is_some(),
        explained["remedy"].is_string(),
        "{explained}"
    );
    let by_refusal = stopped.map(|index| gates[index]["gate"].as_str().unwrap());
    if by_refusal.is_some() {
        assert_eq!(decided, by_refusal, "{explained}");
    }
}
