//! `genlock_call`: a batch of calls and its report.

use genlock_testkit::{
    clients::{Answer, ModernClient},
    harness::{Control, Scratch},
};
use serde_json::{Value, json};

use crate::stage::{self, Party, stdio};

/// A gateway over three servers, and a client of it.
fn three(
    scratch: &Scratch,
) -> (
    genlock_testkit::harness::GenlockProcess,
    Control,
    ModernClient,
) {
    let control = Control::new(scratch, "control");
    let server = |name: &str| stdio(&["--name", name, "--control", control.arg()]);
    let gateway = stage::start(
        &json!({"mcp_servers": {"a": server("a"), "b": server("b"), "c": server("c")}}),
    );
    let client = ModernClient::new(gateway.url());
    (gateway, control, client)
}

fn call(server: &str, tool: &str, arguments: impl Into<Value>) -> Value {
    json!({"mcp_server": server, "tool": tool, "arguments": arguments.into()})
}

async fn batch(client: &ModernClient, arguments: &Value) -> Value {
    let answer = client.call("genlock_call", &arguments.to_string()).await;
    report(&answer)
}

/// The report of a batch, which stands in the text as well.
fn report(answer: &Answer) -> Value {
    let report = answer.structured();
    assert_eq!(
        serde_json::from_str::<Value>(&answer.text()).unwrap(),
        report
    );
    report
}

#[tokio::test]
async fn a_batch_of_twenty_calls_over_three_servers_keeps_its_order() {
    let scratch = stage::scratch();
    let (_gateway, _control, client) = three(&scratch);
    let calls: Vec<_> = (0..20)
        .map(|index| {
            // The first ones take longest.
            let (server, wait) = (["a", "b", "c"][index % 3], 20 - index);
            if index % 2 == 0 {
                call(server, "sleep", json!({"ms": wait * 10}))
            } else {
                call(server, "echo", json!({"text": format!("{server} {index}")}))
            }
        })
        .collect();

    let report = batch(&client, &json!({"calls": calls})).await;

    let id = report["batch_id"].as_str().unwrap().to_owned();
    let counts = ["success", "total", "succeeded", "failed"].map(|name| report[name].clone());
    assert_eq!(counts, [json!(true), json!(20), json!(20), json!(0)]);
    for (index, result) in report["results"].as_array().unwrap().iter().enumerate() {
        let text = if index % 2 == 0 {
            "slept".to_owned()
        } else {
            format!("{} {index}", ["a", "b", "c"][index % 3])
        };
        assert_eq!(result["result"]["content"][0]["text"], text);
        let expected = json!({
            "index": index, "call_id": format!("{id}-{index}"), "success": true,
            "result": result["result"], "error": null, "error_type": null, "elapsed_ms": result["elapsed_ms"],
        });
        assert_eq!(*result, expected);
    }
}

#[tokio::test]
async fn a_batch_runs_no_more_calls_at_once_than_it_says() {
    let scratch = stage::scratch();
    let (_gateway, control, client) = three(&scratch);
    let calls: Vec<_> = ["k0", "k1", "k2", "k3"]
        .map(|key| call("a", "hold", json!({"key": key})))
        .into();
    let watch = async {
        control.wait_held("k0").await;
        control.wait_held("k1").await;
        // One that began too early would be seen by the time that another call is answered.
        client.call("b__echo", "{}").await;
        let begun = ["k2", "k3"].map(|key| control.path().join(format!("held.{key}")).exists());
        control.release("k0");
        control.wait_held("k2").await;
        for key in ["k1", "k2", "k3"] {
            control.release(key);
        }
        begun
    };

    let arguments = json!({"calls": calls, "max_concurrency": 2});
    let (report, begun) = tokio::join!(batch(&client, &arguments), watch);

    assert_eq!(begun, [false, false]);
    assert_eq!(report["succeeded"], 4);
}

#[tokio::test]
async fn what_fails_in_a_batch_is_told_beside_what_did_not() {
    let scratch = stage::scratch();
    let (_gateway, _control, client) = three(&scratch);
    let mut slow = call("a", "hang", json!({}));
    slow["timeout"] = json!(1);
    let calls = json!([
        call("a", "echo", json!({"text": "fine"})),
        call("b", "fail", json!({})),
        call("a", "rpc_error", json!({"code": -7})),
        slow,
        call("c", "die", json!({})),
    ]);

    let report = batch(&client, &json!({"calls": calls})).await;

    let told: Vec<_> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| json!([result["success"], result["error_type"], result["error"]]))
        .collect();
    let expected = json!([
        [true, null, null],
        [false, "ToolInvocationError", "this tool always fails"],
        [false, "ToolInvocationError", "asked for"],
        [
            false,
            "TimeoutError",
            "server `a`: no answer within the deadline"
        ],
        [false, "OutcomeUnknown", "server `c`: the connection ended"],
    ]);
    assert_eq!(json!(told), expected);
    let kept = &report["results"][1]["result"];
    assert_eq!(kept["isError"], true);
    let counts = ["success", "total", "succeeded", "failed"].map(|name| report[name].clone());
    assert_eq!(counts, [json!(false), json!(5), json!(1), json!(4)]);
}

#[tokio::test]
async fn a_batch_ends_at_its_own_time_whatever_its_calls_do() {
    let scratch = stage::scratch();
    let (_gateway, _control, client) = three(&scratch);
    let calls = json!([
        call("a", "echo", json!({})),
        call("a", "hang", json!({})),
        call("b", "hang", json!({}))
    ]);

    let report = batch(&client, &json!({"calls": calls, "timeout": 1})).await;

    assert_eq!(
        (&report["succeeded"], &report["failed"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(report["results"][2]["error_type"], "TimeoutError");
}

#[tokio::test]
async fn a_batch_that_is_to_fail_fast_begins_nothing_after_a_failure() {
    let scratch = stage::scratch();
    let (_gateway, _control, client) = three(&scratch);
    let calls = json!([
        call("a", "echo", json!({})),
        call("a", "fail", json!({})),
        call("b", "echo", json!({})),
        call("b", "echo", json!({})),
    ]);
    for (fail_fast, expected) in [
        (true, [true, false, false, false]),
        (false, [true, false, true, true]),
    ] {
        let before = stage::count(&client, "b", "calls").await;

        let arguments = json!({"calls": calls, "max_concurrency": 1, "fail_fast": fail_fast});
        let report = batch(&client, &arguments).await;

        let results = report["results"].as_array().unwrap();
        let successes: Vec<_> = results
            .iter()
            .map(|result| result["success"].clone())
            .collect();
        assert_eq!(json!(successes), json!(expected));
        // Two questions for the count, and the calls that were begun.
        let begun = if fail_fast { 0 } else { 2 };
        assert_eq!(
            stage::count(&client, "b", "calls").await,
            before + 1 + begun
        );
        if fail_fast {
            let left = &results[3];
            assert_eq!(left["error_type"], "CancellationError");
            assert_eq!(
                left["error"],
                "not begun: an earlier call failed and `fail_fast` is set"
            );
        }
    }
}

#[tokio::test]
async fn a_batch_with_one_fault_runs_nothing_and_names_all_faults() {
    let scratch = stage::scratch();
    let (_gateway, _control, client) = three(&scratch);
    let before = stage::count(&client, "a", "calls").await;
    let calls = json!([
        call("a", "echo", json!({})),
        call("nobody", "echo", json!({})),
        call("a", "nothing", json!({})),
        {"mcp_server": "a", "tool": "echo", "arguments": 7, "timeout": 0, "more": 1},
        7,
        {},
    ]);

    let answer = client
        .call(
            "genlock_call",
            &json!({"calls": calls, "max_concurrency": 99, "fail_fast": 1, "other": 2}).to_string(),
        )
        .await;

    assert!(answer.is_tool_error());
    let found = &report(&answer)["validation_errors"];
    let mut found: Vec<String> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            format!(
                "{} {}: {}",
                entry["index"],
                entry["field"].as_str().unwrap(),
                entry["message"].as_str().unwrap()
            )
        })
        .collect();
    found.sort();
    let mut expected = [
        "1 mcp_server: no server is called `nobody`",
        "2 tool: server `a` has no tool `nothing`",
        "3 arguments: must be an object",
        "3 calls: unknown field `more`",
        "3 timeout: must be a number from 1 to 300",
        "4 calls: a call is an object",
        "5 mcp_server: the name of a server is required",
        "5 tool: the name of a tool is required",
        "null calls: unknown field `other`",
        "null fail_fast: must be true or false",
        "null max_concurrency: must be a number from 1 to 50",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(stage::count(&client, "a", "calls").await, before + 1);
    for (calls, message) in [
        (json!([]), "a batch has 1 to 100 calls"),
        (
            json!(vec![call("a", "echo", json!({})); 101]),
            "a batch has 1 to 100 calls",
        ),
        (json!("x"), "an array of calls is required"),
    ] {
        let found = batch(&client, &json!({"calls": calls})).await["validation_errors"].clone();
        assert_eq!(found, json!([{"field": "calls", "message": message}]));
    }
}

#[tokio::test]
async fn a_batch_tells_how_far_it_is() {
    let scratch = stage::scratch();
    let (gateway, _control, _) = three(&scratch);
    let calls = [10, 100, 200].map(|ms| call("a", "sleep", json!({"ms": ms})));
    for (client, party) in Party::one_of_each(&gateway).await {
        let token = json!(client);
        let answer = party
            .call_with_token(
                "genlock_call",
                &json!({"calls": calls}).to_string(),
                &token.to_string(),
            )
            .await;

        let told: Vec<Value> = answer
            .notifications
            .iter()
            .map(|text| serde_json::from_str::<Value>(text).unwrap()["params"].clone())
            .filter(|params| params["progressToken"] == token)
            .collect();
        let expected =
            [1, 2, 3].map(|done| json!({"progressToken": token, "progress": done, "total": 3}));
        // The last one may come together with the answer.
        assert!(
            told.len() >= 2 && expected.starts_with(&told),
            "{client}: {told:?}"
        );
    }
}
