//! What a revocation leaves of each list, and what each request for what it names is answered.

use std::time::Duration;

use genlock_policy::{GenerationNumber, Overlay, Revocation, RevocationKind};
use tokio::time::timeout;

use super::*;

const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

impl Stage {
    fn revoke(&self, kind: RevocationKind, name: &str) {
        let overlay = Overlay::default().with(Revocation {
            kind,
            name: name.to_owned(),
            reason: "leaked".to_owned(),
            number: GenerationNumber::FIRST,
        });
        self.pool.revoke(Arc::new(overlay));
    }

    /// How many entries each list has, the gateway's own tools left out.
    async fn counts(&self, tenant: Option<&str>) -> [usize; 4] {
        let mut counts = [0; 4];
        for (count, (method, field)) in counts.iter_mut().zip(LISTS) {
            let answer = self.ask(tenant, method, json!({})).await;
            let entries = answer["result"][field].as_array().unwrap().iter();
            let own = |entry: &&Value| entry["name"].as_str().unwrap().starts_with("genlock_");
            *count = entries.filter(|entry| !own(entry)).count();
        }
        counts
    }

    async fn call(&self, tenant: Option<&str>) -> Value {
        let params = json!({"name": "one__links", "arguments": {}});
        self.ask(tenant, "tools/call", params).await
    }

    /// Waits until the catalogs have followed the revocation; calls follow it without.
    async fn until_followed(&self) {
        while !self.front.world().is_of_now(&self.pool.revoked()) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_call_of_what_is_revoked_is_refused_at_once_with_the_reason() {
    for (kind, name) in [
        (RevocationKind::Server, "one"),
        (RevocationKind::Tool, "one/links"),
    ] {
        let stage = Stage::new(Mode::Egress, &[], 1).await;
        let before = stage.call(None).await;
        // Nothing is waited for: no catalog has followed yet.
        stage.revoke(kind, name);
        let refused = stage.call(None).await["result"].clone();
        let calls = json!({"calls": [{"mcp_server": "one", "tool": "links"}]});
        let params = json!({"name": "genlock_call", "arguments": calls});
        let batch = stage.ask(None, "tools/call", params).await;

        assert_eq!(before["result"].get("isError"), None, "{before}");
        let kind = kind.as_str();
        let text =
            format!("{kind} `{name}` is revoked: leaked (an operator can lift revocation 1)");
        assert_eq!(refused["content"][0]["text"], *text);
        let meta = &refused["_meta"];
        assert_eq!(
            (
                &refused["isError"],
                &meta["genlock/reason"],
                &meta["genlock/may_have_run"]
            ),
            (&json!(true), &json!("revoked"), &json!(false))
        );
        let one = &batch["result"]["structuredContent"]["results"][0];
        assert_eq!(
            (&one["success"], &one["error_type"], &one["error"]),
            (&json!(false), &json!("Revoked"), &json!(text))
        );
    }
}

#[tokio::test]
async fn a_revoked_server_is_listed_nowhere_and_each_request_for_it_is_refused() {
    let stage = Stage::new(Mode::Egress, &[], 1).await;
    let before = stage.counts(None).await;

    stage.revoke(RevocationKind::Server, "one");
    stage.until_followed().await;

    assert_eq!((before, stage.counts(None).await), ([1, 4, 3, 1], [0; 4]));
    let prompt = json!({"type": "ref/prompt", "name": "one__p"});
    let argument = json!({"name": "x", "value": ""});
    for (method, params) in [
        ("resources/read", json!({"uri": "genlock://one/note://0"})),
        ("resources/read", json!({"uri": "note://0"})),
        ("resources/read", json!({"uri": "made://x"})),
        ("prompts/get", json!({"name": "one__p"})),
        (
            "completion/complete",
            json!({"ref": prompt, "argument": argument}),
        ),
    ] {
        let error = stage.ask(None, method, params).await["error"].clone();
        let data = json!({"reason": "revoked", "may_have_run": false});
        assert_eq!(
            (&error["code"], &error["data"]),
            (&json!(4001), &data),
            "{error}"
        );
    }
    let called = stage.call(None).await;
    assert_eq!(called["result"]["_meta"]["genlock/reason"], "revoked");

    stage.pool.revoke(Arc::default());
    stage.until_followed().await;
    assert_eq!(stage.counts(None).await, before);
}

#[tokio::test]
async fn a_revoked_tool_leaves_all_else_of_its_server() {
    let stage = Stage::new(Mode::Egress, &[], 1).await;
    stage.revoke(RevocationKind::Tool, "one/links");
    stage.until_followed().await;

    assert_eq!(stage.counts(None).await, [0, 4, 3, 1]);
    assert_eq!(stage.reads(None, "note://0").await, [true; 2]);
}

#[tokio::test]
async fn who_may_not_see_what_is_revoked_is_answered_as_before() {
    let stage = Stage::new(Mode::FrontDoor, &[], 1).await;
    stage.ask(Some("a"), "resources/list", json!({})).await;
    let answers = async || {
        let read = json!({"uri": "genlock://one/note://0"});
        [
            stage.call(None).await,
            stage.ask(None, "resources/read", read).await,
            stage
                .ask(None, "prompts/get", json!({"name": "one__p"}))
                .await,
            stage
                .ask(Some("a"), "tools/call", json!({"name": "one__none"}))
                .await,
        ]
    };
    let before = answers().await;

    stage.revoke(RevocationKind::Server, "one");
    stage.until_followed().await;

    assert_eq!(answers().await, before);
    let tenant = stage.call(Some("a")).await;
    assert_eq!(tenant["result"]["_meta"]["genlock/reason"], "revoked");
}

#[tokio::test]
async fn clients_are_told_once_of_a_revocation_and_once_of_its_end() {
    let stage = Stage::new(Mode::Egress, &[], 1).await;
    let mut watch = ViewWatch::new(&stage.front, visitor(None), None);

    for overlay in [true, false] {
        match overlay {
            true => stage.revoke(RevocationKind::Tool, "one/links"),
            false => stage.pool.revoke(Arc::default()),
        }
        assert_eq!(watch.changed().await, Some(vec![List::Tools]), "{overlay}");
        let more = timeout(Duration::from_millis(20), watch.changed()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
