//! The gateway as a library: several in one process, each with its own servers.

use genlock_config::{Config, Variables};
use genlock_gateway::{Gateway, Host};
use genlock_testkit::{clients::ModernClient, harness::path};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};

use crate::stage::stdio;

fn config(value: &Value) -> Config {
    let loaded = genlock_config::parse(
        &value.to_string(),
        "genlock.yaml".into(),
        &Variables::empty(),
    );
    loaded.unwrap().config
}

/// A gateway that serves on a port of the system's choice until told to stop.
async fn serve(value: &Value, tasks: &mut JoinSet<()>) -> (String, oneshot::Sender<()>) {
    let variables = [("PATH".to_owned(), path().into_string().unwrap())];
    let gateway = Gateway::builder(config(value), Host::system())
        .environment(variables)
        .start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    tasks.spawn(async move {
        let router = gateway.router();
        let stop = async {
            // A test that is over stops as well.
            let _ = stopped.await;
        };
        gateway
            .serve(listener, router, stop, std::future::pending())
            .await;
        gateway.stop().await;
    });
    (url, stop)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_in_one_process_know_nothing_of_each_other() {
    let mut tasks = JoinSet::new();
    let one = json!({"tool_access": {"surface": "flat"}, "mcp_servers": {"one": stdio(&["--tools-only"])}});
    let two = json!({"tool_access": {"meta_prefix": "second"}, "mcp_servers": {"two": stdio(&["--tools-only"])}});
    let (first_url, stop_first) = serve(&one, &mut tasks).await;
    let (second_url, stop_second) = serve(&two, &mut tasks).await;
    let (first, second) = (
        ModernClient::new(&first_url),
        ModernClient::new(&second_url),
    );

    let (first_names, second_names) = tokio::join!(first.tool_names(), second.tool_names());
    assert!(
        first_names.iter().all(|name| name.starts_with("one__")),
        "{first_names:?}"
    );
    assert!(
        second_names
            .iter()
            .all(|name| name.starts_with("two__") || name.starts_with("second_"))
    );
    assert_eq!(first.call("two__echo", "{}").await.error().code, -32602);

    stop_first.send(()).unwrap();
    tasks.join_next().await.unwrap().unwrap();

    assert!(first.prepare("tools/list", "{}").try_send().await.is_err());
    assert_eq!(
        second.call("two__echo", r#"{"text":"on"}"#).await.text(),
        "on"
    );
    stop_second.send(()).unwrap();
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_server_runs_inside_the_process() {
    let gateway = Gateway::builder(Config::embedded_default(), Host::system()).start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = gateway.serve(
        listener,
        gateway.router(),
        std::future::pending(),
        std::future::pending(),
    );
    let names = async { ModernClient::new(&url).tool_names().await };

    let names = tokio::select! {
        () = serving => panic!("it serves for ever"),
        names = names => names,
    };

    assert!(names.contains(&"demo__time".to_owned()), "{names:?}");
    gateway.stop().await;
}
