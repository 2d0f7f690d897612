//! `headers.param_validation.required`: calls whose headers cannot be checked.

use genlock_testkit::harness::Control;

use super::*;

fn required(required: bool) -> Value {
    json!({"headers": {"param_validation": {"required": required}}})
}

/// The code of the error of a call, or 0.
async fn verdict(client: &Party) -> i64 {
    let answer = client.call("one__echo", r#"{"text":"hi"}"#).await;
    match answer.is_result() {
        true => 0,
        false => answer.error().code,
    }
}

async fn eventually_refused(client: &Party, code: i64) {
    let what = format!("a call answers {code}");
    eventually_async(DEADLINE, &what, async || {
        (verdict(client).await == code).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_call_is_refused_while_its_schema_may_have_changed_where_the_file_asks_for_it() {
    let scratch = stage::scratch();
    let control = Control::new(&scratch, "control");
    let servers = json!({"one": stdio(&["--control", control.arg()])});
    let gateway = gateway(&servers, &required(true)).await;
    let [(_, modern), (_, legacy), (_, pipe), _] = Party::one_of_each(&gateway).await;
    assert_eq!(verdict(&modern).await, 0);

    control.on("fail_list");
    control.pulse("announce").await;
    eventually_refused(&modern, -32020).await;
    // Nothing mirrors arguments there.
    assert_eq!((verdict(&legacy).await, verdict(&pipe).await), (0, 0));
    let Party::Modern(client) = &modern else {
        panic!("the first is the modern one");
    };
    let status = client.call("one__echo", r#"{"text":"hi"}"#).await.status;
    assert_eq!(status, 400);

    // It follows the file, and touches no server.
    for (sections, code) in [
        (required(false), 0),
        (required(true), -32020),
        (json!({}), 0),
    ] {
        let report = apply(&gateway, &config(&servers, &sections)).await;
        assert_eq!(report["servers"]["unchanged"], 1, "{sections}");
        assert_eq!(verdict(&modern).await, code, "{sections}");
    }
    apply(&gateway, &config(&servers, &required(true))).await;
    control.off("fail_list");
    control.pulse("announce").await;
    eventually_refused(&modern, 0).await;
}
