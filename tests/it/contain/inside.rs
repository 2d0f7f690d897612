//! What a server sees from inside its containment.

use std::{collections::BTreeMap, fs, time::Duration};

use genlock_testkit::harness::{GenlockProcess, Scratch, eventually, fake_server, is_locked};
use serde_json::{Value, json};

use super::{RUNGS, has_namespaces};
use crate::stage::{self, DEADLINE};

/// How often a config is saved while a server looks on.
const SAVES: usize = 200;

/// A server that first writes down what these shell commands say, by name, and then serves.
fn observer(scratch: &Scratch, containment: &str, looks: &[(&str, &str)]) -> Value {
    let report = scratch.join("report");
    let mut script = String::new();
    for (name, look) in looks {
        script += &format!("echo \"{name}=$( {look} 2>&1 | tr '\\n' ' ')\" >> report.new\n");
    }
    script += &format!("mv report.new {}\n", report.display());
    script += &format!("exec {}", fake_server().display());
    json!({
        "command": ["/bin/sh", "-c", script],
        "containment": containment,
        "cwd": scratch.path(),
        "env": {"OWN": "x"},
    })
}

fn report(scratch: &Scratch) -> BTreeMap<String, String> {
    let text = eventually(DEADLINE, "the server reports", || {
        fs::read_to_string(scratch.join("report")).ok()
    });
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

async fn observe(
    containment: &str,
    looks: &[(&str, &str)],
) -> (BTreeMap<String, String>, GenlockProcess) {
    let scratch = stage::scratch();
    let config = json!({"mcp_servers": {"one": observer(&scratch, containment, looks)}});
    let gateway = genlock_testkit::harness::GenlockOptions::new(config.to_string())
        .scratch(scratch)
        .start();
    stage::wait_for_state(&gateway, "one", "ready").await;
    (report(gateway.scratch()), gateway)
}

#[tokio::test]
async fn a_server_has_a_clean_slate_on_either_rung() {
    let looks = [
        // `ls` itself has opened the directory.
        ("descriptors", "ls /proc/self/fd"),
        ("blocked", "grep SigBlk /proc/self/status | cut -f2"),
        // Without the two that are the C library's own.
        (
            "ignored",
            "grep SigIgn /proc/self/status | cut -f2 | cut -c10-16",
        ),
        ("uid", "id -u"),
        ("gid", "id -g"),
        ("umask", "umask"),
        ("cwd", "pwd"),
        ("core", "ulimit -c"),
    ];
    for (containment, rung) in RUNGS {
        let (seen, gateway) = observe(containment, &looks).await;
        if rung == 2 && !has_namespaces(&gateway, "a clean slate on rung 2").await {
            continue;
        }

        let own = |name: &str, args: &[&str]| {
            let output = std::process::Command::new(name).args(args).output();
            String::from_utf8(output.unwrap().stdout)
                .unwrap()
                .trim()
                .to_owned()
        };
        let expected = [
            ("blocked", "0000000000000000".to_owned()),
            ("core", own("/bin/sh", &["-c", "ulimit -c"])),
            ("cwd", gateway.scratch().path().to_str().unwrap().to_owned()),
            ("descriptors", "0 1 2 3".to_owned()),
            ("gid", own("id", &["-g"])),
            ("ignored", "0000000".to_owned()),
            ("uid", own("id", &["-u"])),
            ("umask", own("/bin/sh", &["-c", "umask"])),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(seen, expected.into(), "{containment}");
        let shown = stage::servers(&gateway).await[0].clone();
        assert_eq!(shown["rung"], rung);
    }
}

#[tokio::test]
async fn a_server_in_namespaces_sees_neither_others_nor_what_is_the_gateways() {
    let looks = [
        ("processes", "ls /proc | grep -c '^[0-9]'"),
        ("first", "cat /proc/1/comm"),
        ("parent", "grep PPid /proc/2/status | cut -f2"),
        ("state", "ls -A state | wc -l"),
        ("config", "wc -c < genlock.yaml"),
        ("other", "wc -c < other"),
        (
            "uncover",
            "umount state genlock.yaml; unshare -Urm umount -l state; ls -A state | wc -l",
        ),
        ("write", "touch state/x || echo refused"),
        ("scratch", "touch written && echo written"),
    ];
    let scratch = stage::scratch();
    scratch.write("other", "12345");
    let config = json!({"mcp_servers": {"one": observer(&scratch, "namespace", &looks)}});
    let gateway = genlock_testkit::harness::GenlockOptions::new(config.to_string())
        .scratch(scratch)
        .start();
    if !has_namespaces(&gateway, "inside the namespaces").await {
        return;
    }
    stage::wait_for_state(&gateway, "one", "ready").await;

    let seen = report(gateway.scratch());

    assert!(!gateway.state_files().is_empty());
    let own_proc = stage::status(&gateway).await["containment"]["own_proc"].clone();
    if own_proc == true {
        let processes: usize = seen["processes"].parse().unwrap();
        assert!(processes < 10, "{processes}");
        assert_eq!(seen["first"], "genlock-keeper");
        assert_eq!(seen["parent"], "1");
    }
    assert_eq!(seen["state"], "0");
    assert_eq!(seen["config"], "0");
    assert_eq!(seen["other"], "5");
    assert!(seen["uncover"].ends_with('0'), "{}", seen["uncover"]);
    assert!(seen["write"].ends_with("refused"), "{}", seen["write"]);
    assert_eq!(seen["scratch"], "written");

    // An editor that saves puts another file into its place.
    let server = stage::servers(&gateway).await[0]["pid"].clone();
    let text = gateway.scratch().read("genlock.yaml");
    for number in 0..SAVES {
        gateway.write_config(&format!("{text}\n# {number}\n"));
    }
    let path = gateway.config_path();
    let inside = format!("/proc/{server}/root{}", path.display());
    eventually(DEADLINE, "the new file is covered as well", || {
        fs::read(&inside)
            .is_ok_and(|text| text.is_empty())
            .then_some(())
    });
    assert_eq!(stage::servers(&gateway).await[0]["pid"], server);
}

#[tokio::test]
async fn a_server_in_namespaces_cannot_touch_what_holds_it() {
    let looks = [("attack", "kill -9 1; kill -STOP 1; kill -9 $PPID; echo on")];
    let (seen, gateway) = observe("namespace", &looks).await;
    if !has_namespaces(&gateway, "an attack on rung 2").await {
        return;
    }
    assert!(seen["attack"].ends_with("on"), "{}", seen["attack"]);
    assert_eq!(stage::servers(&gateway).await[0]["restarts"], 0);
}

#[tokio::test]
async fn a_server_in_a_group_that_kills_its_keeper_ends_with_it_and_is_started_again() {
    let scratch = stage::scratch();
    let once = scratch.join("once");
    let script = format!(
        "if mkdir {}; then kill -9 $PPID; exec sleep 100; fi; exec {}",
        once.display(),
        fake_server().display()
    );
    let config = json!({"mcp_servers": {"one": {
        "command": ["/bin/sh", "-c", script], "containment": "group",
    }}});

    let gateway = stage::start(&config);

    stage::wait_for_state(&gateway, "one", "ready").await;
    assert!(once.exists());
}

#[test]
fn a_server_in_a_group_that_stops_its_keeper_does_not_outlive_the_gateway() {
    let scratch = stage::scratch();
    let (stopped, lock) = (scratch.join("stopped"), scratch.join("alive"));
    let script = format!(
        "kill -STOP $PPID; mkdir {}; {} --ignore-term --alive-lock {}; true",
        stopped.display(),
        fake_server().display(),
        lock.display()
    );
    let mut gateway = stage::start(&json!({"mcp_servers": {"one": {
        "command": ["/bin/sh", "-c", script], "containment": "group",
    }}}));
    eventually(DEADLINE, "it has stopped its keeper and runs", || {
        (stopped.exists() && is_locked(&lock)).then_some(())
    });

    gateway.kill9();

    eventually(Duration::from_secs(1), "it ends", || {
        (!is_locked(&lock)).then_some(())
    });
}

#[tokio::test]
async fn a_server_that_ends_before_it_answers_is_told_at_once_whoever_holds_its_output() {
    let script = "sleep 100 & exit 7";
    let gateway =
        stage::start(&json!({"mcp_servers": {"one": {"command": ["/bin/sh", "-c", script]}}}));
    let began = std::time::Instant::now();

    let reason = stage::eventually_reason(&gateway, "one").await;

    assert!(reason.contains("exit status: 7"), "{reason}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn the_control_socket_refuses_servers_and_what_they_have_detached() {
    let genlock = stage::genlock();
    let ask = |detach: &str| {
        format!(
            "until test -S state/control.sock; do :; done; {detach} sh -c '{} --config genlock.yaml --state-dir state status; echo code $?'",
            genlock.display()
        )
    };
    // The second is asked by a process whose parents are gone.
    let detached = format!(
        "({} > asked 2>&1 &); until grep -s code asked; do :; done",
        ask("setsid")
    );
    let looks = [("itself", ask("")), ("detached", detached)];
    let looks: Vec<_> = looks
        .iter()
        .map(|(name, look)| (*name, look.as_str()))
        .collect();

    let (seen, gateway) = observe("group", &looks).await;

    for name in ["itself", "detached"] {
        assert!(seen[name].ends_with("code 69"), "{name}: {}", seen[name]);
    }
    let refused = "a control connection of a server was refused";
    assert_eq!(gateway.log().matches(refused).count(), 2);
    let recorded = eventually(DEADLINE, "both refusals are recorded", || {
        let printed = gateway
            .run(&["audit", "--action", "door", "--jsonl"])
            .stdout;
        let lines = printed.lines();
        let records: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let times: u64 = records
            .iter()
            .filter_map(|record| record["count"].as_u64())
            .sum();
        (times == 2).then_some(records)
    });
    for record in recorded {
        assert_eq!(
            (&record["gate"], &record["code"]),
            (&json!("local"), &json!("control.of_a_server"))
        );
    }
    // Whoever is no server's is answered.
    assert_eq!(gateway.run(&["status"]).code, Some(0));
}
