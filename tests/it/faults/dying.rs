//! Servers that die.

use futures_util::future::join_all;
use genlock_testkit::{
    clients::ModernClient,
    harness::{Control, starts},
};
use serde_json::json;

use super::{bare, refused};
use crate::stage::{self, Party, stdio};

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_it_once_and_the_next_call_works() {
    let scratch = stage::scratch();
    let log = scratch.join("starts");
    let flags = ["--start-log", log.to_str().unwrap()];
    // One for each client, since a server that dies often is started ever later.
    let gateway = stage::start(&json!({"mcp_servers": {
        "a": stdio(&[&["--era", "legacy", "--name", "a"], &flags[..]].concat()),
        "b": stdio(&[&["--era", "modern", "--name", "b"], &flags[..]].concat()),
        "c": stdio(&[&["--era", "legacy", "--name", "c"], &flags[..]].concat()),
        "d": stdio(&[&["--era", "modern", "--name", "d"], &flags[..]].concat()),
    }}));
    let clients = Party::one_of_each(&gateway).await;

    let runs = clients
        .iter()
        .zip(["a", "b", "c", "d"])
        .map(async |((client, party), server)| {
            let before = party
                .call(&format!("{server}__instance"), "{}")
                .await
                .text();
            let died = party.call(&format!("{server}__die"), "{}").await;
            let after = party
                .call(&format!("{server}__instance"), "{}")
                .await
                .text();
            let text = format!("server `{server}`: the connection ended");
            assert_eq!(
                bare(&died),
                refused(&text, "outcome_unknown", true),
                "{client}"
            );
            assert_ne!(before, after);
            if let Party::Pipe(pipe) = party {
                let id = died.id().unwrap().to_owned();
                let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
                let said = pipe.transcript().messages();
                let answers = said.iter().filter(|line| line.starts_with(&begin)).count();
                assert_eq!(answers, 1, "{client}: {said:?}");
            }
        });
    join_all(runs).await;

    let mut names: Vec<_> = starts(&log)
        .iter()
        .map(|start| start["name"].to_string())
        .collect();
    names.sort();
    let expected = ["a", "a", "b", "b", "c", "c", "d", "d"].map(|name| format!("\"{name}\""));
    assert_eq!(names, expected);
}

#[tokio::test]
async fn all_calls_in_flight_of_a_dead_server_fail_at_once_and_those_of_others_go_on() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let flags = ["--control", control.arg()];
    let gateway =
        stage::start(&json!({"mcp_servers": {"dead": stdio(&flags), "alive": stdio(&flags)}}));
    let client = ModernClient::new(gateway.url());
    let hold = async |server: &str, key: &str| {
        let arguments = json!({"key": key}).to_string();
        client.call(&format!("{server}__hold"), &arguments).await
    };
    let die = async {
        for key in ["one", "two", "other"] {
            control.wait_held(key).await;
        }
        let died = client.call("dead__die", "{}").await;
        control.release("other");
        died
    };

    let (one, two, other, died) = tokio::join!(
        hold("dead", "one"),
        hold("dead", "two"),
        hold("alive", "other"),
        die
    );

    let expected = refused(
        "server `dead`: the connection ended",
        "outcome_unknown",
        true,
    );
    for answer in [one, two, died] {
        assert_eq!(bare(&answer), expected);
    }
    assert_eq!(other.text(), "released");
}

#[tokio::test]
async fn a_server_that_is_killed_while_idle_is_started_again_without_a_call() {
    let gateway = stage::start(&json!({"mcp_servers": {"one": stdio(&["--crash-after", "1"])}}));
    let client = ModernClient::new(gateway.url());

    let first = client.call("one__instance", "{}").await.text();
    stage::wait_for_state(&gateway, "one", "reconnecting").await;
    let again = stage::wait_for_state(&gateway, "one", "ready").await;

    assert_eq!(
        (&again["restarts"], &again["last_error"]),
        (&json!(1), &json!("the connection ended"))
    );
    assert_ne!(client.call("one__instance", "{}").await.text(), first);
}
