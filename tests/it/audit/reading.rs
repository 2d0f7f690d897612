use genlock_testkit::clients::{ApiClient, ControlClient};
use http::Method;
use serde_json::{Value, json};

use super::{boot, recorded, wait_for};
use crate::{
    access::{admin, api, caller, config, make},
    stage::{self, stdio},
};

const LINES: [(&str, &str); 1] = [("accept", "application/x-ndjson")];

#[tokio::test]
async fn only_who_may_read_the_audit_reads_it_and_nobody_of_a_tenant() {
    let gateway = stage::start(&config("egress", &json!({})));
    let keys = [
        (admin(&gateway), 200),
        (make(&gateway, &["--principal", "svc:operator"]).0, 200),
        (make(&gateway, &["--principal", "svc:viewer"]).0, 403),
        (caller(&gateway, "svc:a", None), 403),
        (
            make(
                &gateway,
                &["--principal", "svc:operator", "--tenant", "red"],
            )
            .0,
            403,
        ),
        (
            make(
                &gateway,
                &[
                    "--principal",
                    "ops:b",
                    "--group",
                    "admins",
                    "--tenant",
                    "red",
                ],
            )
            .0,
            403,
        ),
    ];
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"audit.list","params":{}}"#;
    for (index, (key, status)) in keys.iter().enumerate() {
        let api = api(&gateway, key);
        assert_eq!(api.get("/api/audit").await.status, *status, "{index}");
        let lines = api.request(Method::GET, "/api/audit", &LINES, "").await;
        assert_eq!(lines.status, *status, "{index}");
        let answer = api.post("/api/rpc", list).await.json();
        assert_eq!(
            answer["result"]["records"].is_array(),
            *status == 200,
            "{index} {answer}"
        );
    }

    let open = stage::start(&json!({"mcp_servers": {}}));
    let local = ApiClient::new(open.url()).get("/api/audit").await;
    assert_eq!(local.status, 403);
}

#[tokio::test]
async fn the_audit_is_filtered_and_paged_alike_everywhere() {
    let gateway = stage::start(&config("egress", &json!({"one": stdio(&[])})));
    let admin = admin(&gateway);
    // More than one answer has, of many callers: what one of them is refused beyond a few dozen names is one record.
    for number in 0..21 {
        let subject = format!("svc:{number}");
        let client = crate::access::modern(&gateway, &caller(&gateway, &subject, Some("red")));
        let calls: Vec<Value> = (0..60)
            .map(|call| json!({"mcp_server": "one", "tool": format!("none_{call}")}))
            .collect();
        client
            .call("genlock_call", &json!({ "calls": calls }).to_string())
            .await;
        let of_caller = json!({"action": "call.refused", "subject": subject});
        wait_for(&gateway, &of_caller, 60).await;
    }

    let api = api(&gateway, &admin);
    let lines = api.request(Method::GET, "/api/audit", &LINES, "").await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let printed = gateway.run(&["audit", "--jsonl"]).stdout;
    assert_eq!(lines.body_text(), printed);
    assert_eq!(recorded(&gateway).len(), printed.lines().count());
    assert!(printed.lines().count() > 1200);
    let some = api
        .request(Method::GET, "/api/audit?limit=1100&tenant=red", &LINES, "")
        .await;
    assert_eq!(some.body_text().lines().count(), 1100);

    let page = api
        .get("/api/audit?tenant=red&outcome=refused&limit=3")
        .await
        .json();
    let next = page["next"].as_u64().unwrap();
    assert_eq!(page["records"][2]["number"], next);
    let after = api
        .get(&format!("/api/audit?action=call&before={next}&limit=1"))
        .await
        .json();
    assert_eq!(after["records"][0]["number"], next - 1);
    let made = gateway.run(&[
        "audit", "--action", "key", "--since", "1h", "--format", "json",
    ]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(made["records"].as_array().map(Vec::len), Some(22));
    let future = gateway.run(&["audit", "--since", "2100-01-01T00:00:00Z", "--jsonl"]);
    assert_eq!((future.code, future.stdout.as_str()), (Some(0), ""));
    let table = gateway.run(&["audit", "--outcome", "done"]).stdout;
    assert!(
        table.starts_with("NUMBER  AT") && table.contains("gateway.boot"),
        "{table}"
    );
}

#[tokio::test]
async fn what_is_no_question_is_refused() {
    let gateway = stage::start(&config("egress", &json!({})));
    let api = api(&gateway, &admin(&gateway));
    for query in [
        "since=yesterday",
        "outcome=lost",
        "limit=x",
        "who=me",
        "before=-1",
    ] {
        for headers in [&LINES[..], &[]] {
            let route = format!("/api/audit?{query}");
            let refused = api.request(Method::GET, &route, headers, "").await;
            assert_eq!(refused.status, 400, "{query}");
            assert_eq!(refused.json()["error"]["code"], "invalid_params", "{query}");
        }
    }
    let wrong = gateway.run(&["audit", "--since", "yesterday"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(64), ""));
}

#[tokio::test]
async fn a_restart_keeps_the_audit_and_a_stop_writes_what_waits() {
    let mut gateway =
        stage::start(&json!({"config_reload": {"enabled": false}, "mcp_servers": {}}));
    let control = ControlClient::connect(&gateway.socket()).await.unwrap();
    control.request("server.probe", r#"{"name":"none"}"#).await;
    gateway.stop();
    gateway.start_again();

    let refused = super::record(
        &gateway,
        "server.probe",
        &json!({
            "target": "none", "outcome": "refused", "code": "not_found",
        }),
    );
    let all = [boot(&gateway), refused, boot(&gateway)];
    assert_eq!(recorded(&gateway), all);
    let status = crate::stage::status(&gateway).await;
    assert_eq!(
        status["audit"],
        json!({"written": 1, "unwritten": 0, "lost": 0})
    );
    let metrics = ApiClient::new(gateway.url())
        .get("/metrics")
        .await
        .body_text();
    for line in [
        "genlock_audit_written_total 1\n",
        "genlock_audit_unwritten 0\n",
        "genlock_audit_lost_total 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}
