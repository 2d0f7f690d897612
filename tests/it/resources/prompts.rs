//! Prompts and completion.

use super::*;

#[tokio::test]
async fn a_prompt_is_got_by_its_shown_name_in_every_era() {
    let gateway = gateway(&two(&[], &[]), &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        for server in ["old", "new"] {
            let params = json!({"name": format!("{server}__greet"), "arguments": {"who": "Ada"}});
            let result = client
                .request("prompts/get", &params.to_string())
                .await
                .result();
            let content = &result["messages"][0]["content"];
            assert_eq!(content["text"], "Hello, Ada!", "{name} {server}");

            let params = json!({"name": format!("{server}__note")}).to_string();
            let result = client.request("prompts/get", &params).await.result();
            let embedded = &result["messages"][0]["content"]["resource"];
            assert_eq!(
                embedded["uri"],
                format!("genlock://{server}/note://1"),
                "{name}"
            );
        }
        for params in [r#"{"name":"old__none"}"#, r#"{"name":"greet"}"#, "{}"] {
            let error = client.request("prompts/get", params).await.error();
            assert_eq!(error.code, -32602, "{name}: {params}");
        }
    }
}

#[tokio::test]
async fn prompts_follow_the_rule_for_names_as_tools_do() {
    let more = json!({"tool_access": {"names": "auto"}});
    let gateway = gateway(&two(&[], &["--tools-only"]), &more).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;
    assert_eq!(prompts(&client).await, ["greet", "note"]);
    let params = r#"{"name":"greet","arguments":{"who":"Ada"}}"#;
    assert!(client.request("prompts/get", params).await.is_result());
}

#[tokio::test]
async fn the_arguments_of_a_prompt_pass_the_gates_of_calls() {
    let more = json!({"interceptors": {"validators": [{"type": "payload_size", "max_bytes": 20}]}});
    let gateway = gateway(&two(&[], &[]), &more).await;
    let [(_, client), ..] = Party::one_of_each(&gateway).await;
    let params = r#"{"name":"old__greet","arguments":{"who":"somebody with a long name"}}"#;

    let answer = client.request("prompts/get", params).await;

    assert_eq!(answer.error().code, 4001);
    assert!(
        answer
            .body_text()
            .contains(r#""reason":"validator_denied""#)
    );
}

#[tokio::test]
async fn an_argument_is_completed_by_the_server_that_is_referred_to() {
    let servers = json!({"one": stdio(&[]), "bare": stdio(&["--tools-only"])});
    let gateway = gateway(&servers, &json!({})).await;
    for (name, client) in Party::one_of_each(&gateway).await {
        for reference in [
            r#"{"type":"ref/prompt","name":"one__greet"}"#,
            r#"{"type":"ref/resource","uri":"genlock://one/note://{number}"}"#,
            r#"{"type":"ref/resource","uri":"note://{number}"}"#,
        ] {
            let params =
                format!(r#"{{"ref":{reference},"argument":{{"name":"who","value":"a"}}}}"#);
            let result = client
                .request("completion/complete", &params)
                .await
                .result();
            assert_eq!(
                result["completion"]["values"],
                json!(["alpha", "beta"]),
                "{name} {reference}"
            );
        }
        for reference in [
            r#"{"type":"ref/prompt","name":"one__none"}"#,
            r#"{"type":"ref/other"}"#,
            "7",
        ] {
            let params =
                format!(r#"{{"ref":{reference},"argument":{{"name":"who","value":"a"}}}}"#);
            let error = client.request("completion/complete", &params).await.error();
            assert_eq!(error.code, -32602, "{name} {reference}");
        }
    }
}
