//! What passes through keeps its bytes.

use futures_util::future::join_all;
use genlock_testkit::{
    clients::{LegacyClient, ModernClient, StdioClient},
    harness::{FakeServer, GenlockProcess, Scratch},
    raw::{ARGUMENTS, CONTENT_FIELDS, RESULT_FIELDS},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::json;

use crate::stage::{self, Party, stdio, stdio_command};

/// The upstreams: name, era, whether behind a pipe.
const UPSTREAMS: [(&str, &str, bool); 5] = [
    ("pipeold", "legacy", true),
    ("pipenew", "modern", true),
    ("webold", "legacy", false),
    ("webnew", "modern", false),
    ("webstream", "modern", false),
];

struct Scene {
    gateway: GenlockProcess,
    _web: Vec<FakeServer>,
    _scratch: Scratch,
}

fn scene() -> Scene {
    let scratch = stage::scratch();
    let mut servers = serde_json::Map::new();
    let mut web = Vec::new();
    for (name, era, pipe) in UPSTREAMS {
        let definition = if pipe {
            stdio(&["--name", name, "--era", era])
        } else {
            let flags = ["--era", era, "--sse"];
            let flags = if name == "webstream" {
                &flags[..]
            } else {
                &flags[..2]
            };
            let server = FakeServer::http(&scratch, name, flags);
            let definition = json!({"url": server.url()});
            web.push(server);
            definition
        };
        servers.insert(name.to_owned(), definition);
    }
    let gateway = stage::start(&json!({"mcp_servers": servers}));
    Scene {
        gateway,
        _web: web,
        _scratch: scratch,
    }
}

/// A line break between tokens cannot travel through a pipe as it is.
fn flat(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// The whole result of the tool `raw` as a client must see it.
fn expected(client: &str, server: &str, era: &str, arguments: &str) -> String {
    let quoted = json!(arguments);
    let own = format!(
        r#"{RESULT_FIELDS},"content":[{{{CONTENT_FIELDS},"text":{quoted}}}],"structuredContent":{arguments}"#
    );
    let info = format!(
        r#""_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"{server}","version":"1.0.0"}}}}"#
    );
    let complete = r#""resultType":"complete""#;
    match (client.starts_with("modern"), era == "modern") {
        (true, true) => format!("{{{own},{complete},{info}}}"),
        (true, false) => format!("{{{own},{complete}}}"),
        (false, true) => format!("{{{own},{info}}}"),
        (false, false) => format!("{{{own}}}"),
    }
}

type Clients = [(&'static str, Party); 4];

/// Every client with every upstream.
fn all_pairs() -> Vec<(usize, usize)> {
    (0..4)
        .flat_map(|client| (0..UPSTREAMS.len()).map(move |upstream| (client, upstream)))
        .collect()
}

/// Calls `raw` for each pair of a client and an upstream, and compares every byte.
async fn passes(
    clients: &Clients,
    pairs: Vec<(usize, usize)>,
    arguments: &str,
) -> Result<(), String> {
    let calls = pairs.into_iter().map(async |(client, upstream)| {
        let (client, party) = &clients[client];
        let (server, era, pipe) = UPSTREAMS[upstream];
        let narrow = matches!(party, Party::Pipe(_));
        let sent = if narrow {
            flat(arguments)
        } else {
            arguments.to_owned()
        };
        let arrived = if narrow || pipe {
            flat(arguments)
        } else {
            arguments.to_owned()
        };
        let answer = party.call(&format!("{server}__raw"), &sent).await;
        let expected = expected(client, server, era, &arrived);
        if answer.result_raw() == expected {
            Ok(())
        } else {
            Err(format!(
                "{client} to {server}:\n{}\n{expected}",
                answer.result_raw()
            ))
        }
    });
    join_all(calls).await.into_iter().collect()
}

// === what JSON can look like ===

fn space() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", "", " ", "  ", "\t", "\n", "\n  \t"])
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?",
        "[1-9][0-9]{39}",
        "-?[1-9]\\.[0-9]{40}",
        Just("1.0".to_owned()),
        Just("1E400".to_owned()),
        Just("-0".to_owned()),
        Just("-1e-999".to_owned()),
    ]
}

/// A string with its quotes, each character written in one of the ways JSON has for it.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ !#-\\[\\]-~]{1,6}",
        "[à-ÿ𝄞你]{1,2}",
        prop::sample::select(vec![
            "\\u0041",
            "\\u00e9",
            "\\u00E9",
            "\\/",
            "\\n",
            "\\r",
            "\\\"",
            "\\\\",
            "\\ud834\\udd1e",
            "\\ud800",
            "\\u0000",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        number(),
        string(),
        prop::sample::select(vec!["null", "true", "false"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = (
            prop::collection::vec((space(), inner.clone(), space()), 0..4),
            space(),
        );
        let list = list.prop_map(|(items, rest)| {
            let items: Vec<_> = items
                .iter()
                .map(|(a, item, b)| format!("{a}{item}{b}"))
                .collect();
            format!("[{rest}{}]", items.join(","))
        });
        prop_oneof![list, object(inner)]
    })
}

fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (space(), string(), space(), inner, space());
    (prop::collection::vec(member, 0..4), space()).prop_map(|(members, rest)| {
        let members: Vec<_> = members
            .iter()
            .enumerate()
            .map(|(index, (a, key, b, value, c))| {
                // Numbered, so that no key comes twice.
                let key = key.replacen('"', &format!("\"{index}"), 1);
                format!("{a}{key}{b}:{value}{c}")
            })
            .collect();
        format!("{{{rest}{}}}", members.join(","))
    })
}

#[test]
fn any_arguments_and_any_result_arrive_byte_for_byte_over_every_pair_of_eras_and_transports() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = scene();
    let clients = runtime.block_on(Party::one_of_each(&scene.gateway));
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(200)
    };

    // Each case takes one upstream per client; over all cases, each pair has its turn dozens of times.
    let cases = (object(value()), 0..UPSTREAMS.len());

    let outcome = TestRunner::new_with_rng(config, rng).run(&cases, |(arguments, turn)| {
        let pairs = (0..4)
            .map(|client| (client, (client + turn) % UPSTREAMS.len()))
            .collect();
        runtime
            .block_on(passes(&clients, pairs, &arguments))
            .map_err(TestCaseError::fail)
    });

    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn arguments_that_only_a_careful_program_carries_arrive_everywhere() {
    let scene = scene();
    let clients = Party::one_of_each(&scene.gateway).await;
    let large = format!(r#"{{"large": "{}", "n":1.0 }}"#, "é\\u0041 ".repeat(50_000));

    for arguments in [ARGUMENTS, "{ }", &large] {
        passes(&clients, all_pairs(), arguments).await.unwrap();
    }
}

#[tokio::test]
async fn an_error_of_a_server_arrives_byte_for_byte() {
    let scene = scene();
    let error =
        format!(r#""error":{{"code":-7,"message":"asked for","data":{{{RESULT_FIELDS}}}}}"#);

    for (client, party) in Party::one_of_each(&scene.gateway).await {
        for (server, ..) in UPSTREAMS {
            let answer = party
                .call(&format!("{server}__rpc_error"), r#"{"code":-7}"#)
                .await;
            let body = answer.message.as_deref().unwrap();
            assert!(
                body.ends_with(&format!(",{error}}}")),
                "{client} to {server}: {body}"
            );
            assert_eq!(answer.status, 200);
        }
    }
}

#[tokio::test]
async fn an_id_of_any_type_comes_back_as_it_was_written() {
    let scene = scene();
    let command = stdio_command(&scene.gateway);
    let pipes = [
        StdioClient::modern(&command),
        StdioClient::legacy(&command, "2025-11-25").await,
    ];
    let modern = ModernClient::new(scene.gateway.url());
    let legacy = LegacyClient::connect(scene.gateway.url(), "2025-06-18").await;
    let ids = [
        "\"text\"",
        r#""\u0041\/é""#,
        "\"1\"",
        "1",
        "-0",
        "1.0",
        "1E400",
        "1234567890123456789012345678901234567890",
        "true",
        "[1, \"x\"]",
        r#"{"a": 1.0}"#,
    ];

    for id in ids {
        let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        let answer = modern
            .prepare_call("pipenew__echo", "{}")
            .id(id)
            .send()
            .await;
        assert!(
            answer.body_text().starts_with(&begin),
            "{id}: {}",
            answer.body_text()
        );
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"webold__echo"}}}}"#
        );
        let answer = legacy.post(call.clone()).await;
        assert!(
            answer.body_text().starts_with(&begin),
            "{id}: {}",
            answer.body_text()
        );
        for pipe in &pipes {
            pipe.send_line(&call).await;
            let answer = pipe.answer(id).await.body_text();
            assert!(answer.starts_with(&begin), "{id}: {answer}");
        }
    }
}

/// The comparison can fail: a program that decodes and encodes again is found out.
#[test]
fn a_decoder_in_between_would_be_noticed() {
    let decoded: serde_json::Value = serde_json::from_str(ARGUMENTS).unwrap();
    let ours = expected("modern", "s", "modern", ARGUMENTS);
    let theirs = expected("modern", "s", "modern", &decoded.to_string());
    assert_ne!(ours, theirs);
    assert_ne!(flat("{\"a\":\n1}"), "{\"a\":\n1}");
}
