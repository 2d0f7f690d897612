//! How a gateway ends, what it leaves behind, and what its servers are born with.

use std::{path::PathBuf, time::Instant};

use genlock_testkit::{
    clients::{Answer, ClientError, LEGACY, LegacyClient, ModernClient, StdioClient},
    harness::{
        Control, GenlockOptions, GenlockProcess, Scratch, descendants, eventually,
        eventually_async, is_alive, is_locked,
    },
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE, Party, stdio, stdio_command, stdio_with};

/// A gateway over one server with a control directory.
fn scene(more: &Value) -> (GenlockProcess, Control, Scratch) {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let mut config = json!({"mcp_servers": {"one": stdio(&["--control", control.arg()])}});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    (stage::start(&config), control, scratch)
}

/// Waits until no new connection is taken.
fn wait_draining(gateway: &GenlockProcess) {
    let address = gateway.url().strip_prefix("http://").unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    eventually(DEADLINE, "the listener is closed", || {
        std::net::TcpStream::connect(&address)
            .is_err()
            .then_some(())
    });
}

async fn a_running_call_is_finished(
    party: &Party,
    gateway: &mut GenlockProcess,
    control: &Control,
) {
    let end = async {
        control.wait_held("k").await;
        gateway.process().terminate();
        wait_draining(gateway);
        control.release("k");
    };

    let (answer, ()) = tokio::join!(party.call("one__hold", r#"{"key":"k"}"#), end);

    assert_eq!(answer.text(), "released");
    assert!(gateway.process().wait_exit(DEADLINE).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_runs_is_finished_before_the_end() {
    let (mut gateway, control, _scratch) = scene(&json!({}));
    let party = Party::Modern(ModernClient::new(gateway.url()));
    a_running_call_is_finished(&party, &mut gateway, &control).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_session_that_runs_is_finished_before_the_end() {
    let (mut gateway, control, _scratch) = scene(&json!({}));
    let party = Party::Legacy(LegacyClient::connect(gateway.url(), LEGACY[0]).await);
    a_running_call_is_finished(&party, &mut gateway, &control).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_attached_window_that_runs_is_finished_before_the_end() {
    let (mut gateway, control, _scratch) = scene(&json!({}));
    let party = Party::Pipe(StdioClient::legacy(&stdio_command(&gateway), LEGACY[0]).await);
    a_running_call_is_finished(&party, &mut gateway, &control).await;
}

#[tokio::test]
async fn a_call_of_the_window_that_is_the_gateway_is_finished_before_the_end() {
    let (scratch, control) = window_scene();
    let mut window = StdioClient::legacy(&stage::stdio_command_in(&scratch), LEGACY[0]).await;
    let id = window.start_call("one__hold", r#"{"key":"k"}"#).await;
    control.wait_held("k").await;

    terminate(window.pid().unwrap());
    control.release("k");

    assert_eq!(window.answer(&id).await.text(), "released");
    assert!(window.wait_exit(DEADLINE).await.success());
}

#[tokio::test]
async fn a_second_signal_ends_a_window_that_waits_for_a_call() {
    let (scratch, control) = window_scene();
    let mut window = StdioClient::modern(&stage::stdio_command_in(&scratch));
    window.start_call("one__hold", r#"{"key":"k"}"#).await;
    control.wait_held("k").await;
    let pid = window.pid().unwrap();

    let began = Instant::now();
    terminate(pid);
    eventually_async(DEADLINE, "it drains", async || {
        window.stderr().contains("draining").then_some(())
    })
    .await;
    terminate(pid);

    assert!(window.wait_exit(DEADLINE).await.success());
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
}

/// A directory for windows, with a server that has a control directory.
fn window_scene() -> (Scratch, Control) {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let config = json!({"mcp_servers": {"one": stdio(&["--control", control.arg()])}});
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");
    (scratch, control)
}

fn terminate(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[tokio::test]
async fn streams_end_in_the_way_of_their_era() {
    let (mut gateway, ..) = scene(&json!({}));
    let modern = ModernClient::new(gateway.url())
        .listen(r#"{"toolsListChanged":true}"#)
        .await;
    let client = LegacyClient::connect(gateway.url(), LEGACY[0]).await;
    let legacy = client.listen().await;

    let began = Instant::now();
    assert!(gateway.stop().success());

    let id: u64 = modern.id.parse().unwrap();
    let answer = modern.finish().await;
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(
        answer.result(),
        json!({"resultType": "complete", "_meta": {key: id}})
    );
    assert_eq!(legacy.finish().await.message, None);
    // Open streams are no work that is waited for.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// A call that is given up is cut off, or its client hears that it may have run.
fn assert_given_up(answer: Result<Answer, ClientError>) {
    if let Ok(answer) = answer {
        assert_eq!(
            answer.result()["_meta"]["genlock/reason"],
            "outcome_unknown"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_does_not_wait_for_what_runs() {
    let (mut gateway, control, _scratch) = scene(&json!({}));
    let client = ModernClient::new(gateway.url());
    let end = async {
        control.wait_held("k").await;
        gateway.process().terminate();
        wait_draining(&gateway);
        let began = Instant::now();
        gateway.process().terminate();
        let status = gateway.process().wait_exit(DEADLINE);
        (status, began.elapsed())
    };

    let (answer, (status, took)) = tokio::join!(
        client
            .prepare_call("one__hold", r#"{"key":"k"}"#)
            .try_send(),
        end
    );

    assert_given_up(answer);
    assert!(status.success());
    assert!(took.as_secs() < 10, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_too_long_is_cut_off_at_the_end_of_the_drain() {
    let (mut gateway, control, _scratch) = scene(&json!({"shutdown": {"drain_s": 1}}));
    let client = ModernClient::new(gateway.url());
    let end = async {
        control.wait_held("k").await;
        gateway.stop()
    };

    let (answer, status) = tokio::join!(
        client
            .prepare_call("one__hold", r#"{"key":"k"}"#)
            .try_send(),
        end
    );

    assert_given_up(answer);
    assert!(status.success());
    assert!(
        gateway
            .log()
            .contains("calls were still running at the end of the drain"),
        "{}",
        gateway.log()
    );
}

// === nothing is left ===

/// Servers of every stubbornness, each holding a lock while it lives.
fn stubborn(scratch: &Scratch) -> (Value, Vec<PathBuf>) {
    let lock = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let (plain, deaf, parent) = (lock("plain"), lock("deaf"), lock("parent"));
    let config = json!({"mcp_servers": {
        "plain": stdio(&["--alive-lock", &plain]),
        "deaf": stdio(&["--ignore-term", "--alive-lock", &deaf]),
        "parent": stdio(&["--spawn-grandchild", "--alive-lock", &parent]),
    }});
    let grandchild = format!("{parent}.grandchild");
    (
        config,
        [plain, deaf, parent, grandchild].map(PathBuf::from).into(),
    )
}

fn alive(locks: &[PathBuf]) -> Vec<&PathBuf> {
    locks.iter().filter(|lock| is_locked(lock)).collect()
}

#[tokio::test]
async fn no_process_outlives_a_gateway_that_ends() {
    let scratch = stage::scratch();
    let (config, locks) = stubborn(&scratch);
    let mut gateway = stage::start(&config);
    stage::wait_ready(&gateway).await;
    // They are there, so that the check below can fail.
    assert_eq!(alive(&locks).len(), 4);
    let processes = descendants(gateway.pid());
    assert!(processes.len() >= 4, "{processes:?}");

    assert!(gateway.stop().success());

    assert_eq!(alive(&locks), Vec::<&PathBuf>::new());
    // The keepers as well.
    let left: Vec<u32> = processes.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert_eq!(left, Vec::<u32>::new());
}

#[tokio::test]
async fn no_process_outlives_a_window_that_closes() {
    let scratch = stage::scratch();
    let (config, locks) = stubborn(&scratch);
    scratch.write("genlock.yaml", &config.to_string());
    scratch.dir("state");
    let window = StdioClient::modern(&stage::stdio_command_in(&scratch));
    for server in ["plain", "deaf", "parent"] {
        window.call(&format!("{server}__echo"), "{}").await;
    }
    assert_eq!(alive(&locks).len(), 4);

    assert!(window.close(DEADLINE).await.success());

    assert_eq!(alive(&locks), Vec::<&PathBuf>::new());
}

#[tokio::test]
async fn a_server_that_reads_its_input_ends_with_a_gateway_that_is_killed() {
    let scratch = stage::scratch();
    let lock = scratch.join("plain");
    let mut gateway = stage::start(&json!({"mcp_servers": {
        "plain": stdio(&["--alive-lock", lock.to_str().unwrap()]),
    }}));
    stage::wait_ready(&gateway).await;
    assert!(is_locked(&lock));

    gateway.kill9();

    eventually(DEADLINE, "the server ends", || {
        (!is_locked(&lock)).then_some(())
    });
}

#[tokio::test]
async fn a_hang_up_ends_nothing() {
    let (mut gateway, ..) = scene(&json!({}));

    gateway.process().hang_up();

    eventually(DEADLINE, "the signal is noticed", || {
        gateway
            .log()
            .contains("configuration unchanged")
            .then_some(())
    });
    let client = ModernClient::new(gateway.url());
    assert_eq!(
        client.call("one__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );
}

// === the environment of a server ===

#[tokio::test]
async fn a_server_gets_the_base_what_it_asks_for_and_what_it_declares_and_nothing_else() {
    let config = json!({"mcp_servers": {
        "one": stdio_with(&[], &json!({"env": {"DECLARED": "${SOURCE}-x"}, "env_pass": ["PASSED"]})),
        "two": stdio_with(&[], &json!({"env": {"OTHER": "y"}})),
    }});
    let gateway = GenlockOptions::new(config.to_string())
        .env("SOURCE", "from-outside")
        .env("PASSED", "passed-on")
        .env("LC_ALL", "C")
        .env("AWS_SECRET_ACCESS_KEY", "CANARY")
        .env("GENLOCK_LOG", "info")
        .start();
    let client = ModernClient::new(gateway.url());
    let names = async |server: &str| {
        client
            .call(&format!("{server}__env_names"), "{}")
            .await
            .structured()
    };

    assert_eq!(
        names("one").await,
        json!({"names": ["DECLARED", "HOME", "LC_ALL", "PASSED", "PATH"]})
    );
    assert_eq!(
        names("two").await,
        json!({"names": ["HOME", "LC_ALL", "OTHER", "PATH"]})
    );
    let declared = client.call("one__env", r#"{"name":"DECLARED"}"#).await;
    assert_eq!(declared.structured()["value"], "from-outside-x");
}
