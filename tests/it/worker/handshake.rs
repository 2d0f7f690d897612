//! How a worker and its gateway come to know each other.

use std::os::unix::net::UnixListener;

use genlock_frames::{Birth, Pid, Retire, ToGateway, ToWorker, encode};
use genlock_testkit::harness::{ProcessOptions, path};
use serde_json::{Value, json};

use super::hand::{bootstrap, listen, session, start, text};
use crate::stage::{DEADLINE, scratch, stdio, stdio_with, worker};

/// The code of the failure that the worker ends with.
fn failure(hand: &mut super::hand::Hand) -> (String, String) {
    match hand.next() {
        ToGateway::Failure(failure) => (failure.code, failure.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_worker_says_who_it_is() {
    let mut hand = start();
    assert_eq!(hand.hello.pid, Pid::new(hand.child.id()));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", hand.child.id())).unwrap();
    let known = genlock_frames::ProcessStat::parse(&stat).unwrap();
    assert_eq!(hand.hello.birth, known.birth);
    hand.send(ToWorker::Retire(Retire {}));
    assert_eq!(hand.wait_exit().code(), Some(0));
}

#[test]
fn a_bootstrap_for_somebody_else_is_refused() {
    type Lie = fn(&mut genlock_frames::Bootstrap);
    let lies: [(&str, Lie); 3] = [
        ("`pid`", |lie| lie.pid = Pid::new(1)),
        ("`birth`", |lie| lie.birth = Birth::new(1)),
        ("`profile_id`", |lie| lie.profile_id = "other".to_owned()),
    ];
    for (field, lie) in lies {
        let mut hand = start();
        let mut bootstrap = bootstrap(&hand.hello, &json!({"a": stdio(&[])}), &["a"], "/");
        lie(&mut bootstrap);
        hand.send(ToWorker::Bootstrap(Box::new(bootstrap)));
        let (code, message) = failure(&mut hand);
        assert_eq!(code, "bootstrap_refused");
        assert!(message.contains(field), "{message}");
        assert_eq!(hand.wait_exit().code(), Some(78));
    }
}

#[test]
fn a_gateway_that_sends_what_it_must_not_is_left() {
    let lines = [
        "no frame at all\n",
        "{\"v\":1,\"type\":\"hello\",\"pid\":1,\"birth\":1,\"version\":1}\n",
        "{\"v\":1,\"type\":\"finish\",\"execution_id\":\"e-1\"}\n",
    ];
    for line in lines {
        let mut hand = start();
        hand.raw(line.as_bytes());
        assert_eq!(hand.wait_exit().code(), Some(70), "{line}");

        let mut hand = session(&json!({}));
        hand.raw(line.as_bytes());
        assert_eq!(hand.wait_exit().code(), Some(70), "{line}");
    }
}

#[test]
fn a_worker_takes_one_bootstrap() {
    let mut hand = session(&json!({}));
    let second = bootstrap(&hand.hello, &json!({}), &[], "/");
    hand.send(ToWorker::Bootstrap(Box::new(second)));
    assert_eq!(hand.wait_exit().code(), Some(70));
}

#[test]
fn a_server_gets_its_private_values_and_the_sessions_directory_and_nothing_is_logged() {
    let canary = "s3cr3t-canary-value";
    let servers = json!({
        "a": stdio_with(&[], &json!({"env": {"TOKEN": canary}})),
        "b": stdio(&[]),
    });
    let mut hand = session(&servers);
    let call = |server: &str, tool: &str, arguments: &Value| json!({"server": server, "tool": tool, "arguments": arguments});
    let results = hand.calls(
        "e-1",
        &json!([
            call("a", "env", &json!({"name": "TOKEN"})),
            call("a", "cwd", &json!({})),
            call("b", "env_names", &json!({})),
        ]),
    );

    assert!(text(&results[0]).contains(canary));
    let cwd = hand.scratch.path().canonicalize().unwrap();
    assert!(
        text(&results[1]).contains(cwd.to_str().unwrap()),
        "{}",
        results[1]
    );
    assert!(!text(&results[2]).contains("TOKEN"));
    hand.send(ToWorker::Retire(Retire {}));
    assert!(hand.wait_exit().success());
    assert!(!hand.stderr().contains(canary));
    assert!(hand.stderr().contains("turn begins"), "{}", hand.stderr());
}

#[test]
fn only_selected_servers_are_started() {
    let scratch = scratch();
    let log = scratch.join("starts");
    let log = log.to_str().unwrap();
    let servers = json!({"a": stdio(&["--name", "a", "--start-log", log]), "b": stdio(&["--name", "b", "--start-log", log])});
    let mut hand = start();
    let bootstrap = bootstrap(&hand.hello, &servers, &["a"], "/");
    hand.send(ToWorker::Bootstrap(Box::new(bootstrap)));
    let servers = hand.servers(|servers| servers.iter().all(|server| server.ready));
    assert_eq!(
        servers
            .iter()
            .map(|server| server.name.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
    assert_eq!(scratch.read("starts").lines().count(), 1);
}

#[test]
fn a_worker_dials_in_where_it_is_told_to() {
    let scratch = scratch();
    let socket = scratch.join("w.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut process = ProcessOptions::new(worker())
        .args(["--connect", &format!("unix:{}", socket.display())])
        .env("PATH", path())
        .start(scratch.path(), "worker");

    let (mut stream, _) = listener.accept().unwrap();
    let frames = listen(stream.try_clone().unwrap());
    let Ok(ToGateway::Hello(hello)) = frames.recv_timeout(DEADLINE) else {
        panic!("no hello: {}", process.log());
    };

    assert_eq!(hello.pid, Pid::new(process.pid()));
    let retire = encode(&ToWorker::Retire(Retire {}), 0).unwrap().concat();
    std::io::Write::write_all(&mut stream, &retire).unwrap();
    assert!(process.wait_exit(DEADLINE).success());
    assert_eq!(process.stdout(), "");
}
