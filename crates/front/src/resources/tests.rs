//! What callers of different tenants are shown, and what they reach, through the whole dispatcher.

mod revoked;

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use genlock_access::{KeyHasher, KeyRing, Principal, Visitor};
use genlock_config::{
    Config, Mode, Role, RoleAssignment, RoleScope, ServerDefinition, ServerName,
    TransportDefinition,
};
use genlock_mcp::{Era, RawJson, Request};
use genlock_servers::{Pool, PoolBuilder, Servers};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::task::TaskTracker;

use crate::{
    exchange::Caller,
    front::{Front, FrontParts},
    views::{List, ViewWatch},
    visit::Keys,
};

const LINKS: [u32; 3] = [1, 2, 3];

/// An MCP server with panels, notes, a template, a prompt and a tool that hands out links.
async fn serve(stream: DuplexStream, notes: usize) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"].is_null() {
            continue;
        }
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        match result(&message, notes) {
            Some(result) => answer["result"] = result,
            None => answer["error"] = json!({"code": -32601, "message": "no"}),
        }
        let line = format!("{answer}\n");
        writer.write_all(line.as_bytes()).await.unwrap();
    }
}

fn result(message: &Value, notes: usize) -> Option<Value> {
    let params = &message["params"];
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "peer", "version": "1"},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        }),
        "tools/list" => json!({"tools": [{"name": "links", "inputSchema": {}}]}),
        "tools/call" => {
            let link = |number| json!({"type": "resource_link", "uri": format!("link://{number}"), "name": "l"});
            json!({"content": LINKS.map(link)})
        }
        "resources/list" => {
            let ui = ["ui://panels/main", "ui://secret/main", "UI://panels/odd"];
            let notes = (0..notes).map(|number| format!("note://{number}"));
            let all: Vec<_> = ui.map(str::to_owned).into_iter().chain(notes).collect();
            let all: Vec<_> = all
                .iter()
                .map(|uri| json!({"uri": uri, "name": "n"}))
                .collect();
            json!({ "resources": all })
        }
        "resources/templates/list" => json!({"resourceTemplates": [
            {"uriTemplate": "made://{x}", "name": "m"}, {"uriTemplate": "ui://secret/{x}", "name": "s"},
            {"uriTemplate": "ui://panels/{x}", "name": "p"},
        ]}),
        "prompts/list" => json!({"prompts": [{"name": "p"}]}),
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "read"}]}),
        _ => return None,
    })
}

struct Stage {
    front: Front,
    servers: Servers,
    pool: Arc<Pool>,
}

/// A caller of a tenant, that may use tools; whoever comes in without saying who it is, where there is none.
fn visitor(tenant: Option<&str>) -> Visitor {
    match tenant {
        None => Visitor::Local,
        Some(tenant) => Visitor::Known(Arc::new(Principal {
            subject: format!("svc:{tenant}"),
            tenant: Some(tenant.to_owned()),
            ..Principal::anonymous()
        })),
    }
}

fn config(mode: Mode, allowed: &[&str]) -> Config {
    let name = ServerName::new("one").unwrap();
    let definition = ServerDefinition::new(name.clone(), TransportDefinition::Builtin);
    let mut config = Config {
        servers: BTreeMap::from([(name, definition)]),
        max_resource_links: 2,
        ..Config::default()
    };
    config.tool_access.mode = mode;
    config.auth.role_assignments = ["svc:a", "svc:b"]
        .map(|principal| RoleAssignment {
            principal: principal.to_owned(),
            role: Role::ServiceAccount,
            scope: RoleScope::Global,
        })
        .into();
    let allowed = allowed.iter().map(|prefix| (*prefix).to_owned()).collect();
    config.ui_allowlists.insert("a".to_owned(), allowed);
    config
}

impl Stage {
    async fn new(mode: Mode, allowed: &[&str], notes: usize) -> Self {
        let tasks = TaskTracker::new();
        let pool = PoolBuilder::new(|| SystemTime::UNIX_EPOCH, || 0.0)
            .builtin(Arc::new(move || {
                let (ours, its) = tokio::io::duplex(1 << 20);
                tasks.spawn(serve(its, notes));
                ours
            }))
            .build();
        let config = Arc::new(config(mode, allowed));
        let (servers, _) = pool.reconcile(&config, &Servers::default());
        let pool = Arc::new(pool);
        let ring = KeyRing::new(KeyHasher::new(&[7; 32]));
        let front = Front::new(FrontParts {
            generation: None,
            config,
            servers: servers.clone(),
            pool: Arc::clone(&pool),
            keys: Keys::new(ring, Arc::new(|| SystemTime::UNIX_EPOCH)),
            entropy: Arc::new(|| [7; 16]),
            pinned: None,
            witness: None,
        });
        let stage = Self {
            front,
            servers,
            pool,
        };
        stage.ask(None, "resources/list", json!({})).await;
        stage
    }

    fn publish(&self, mode: Mode, allowed: &[&str]) {
        let config = Arc::new(config(mode, allowed));
        self.front.publish(None, config, self.servers.clone());
    }

    async fn ask(&self, tenant: Option<&str>, method: &str, params: Value) -> Value {
        let request = Request {
            id: RawJson::encode(&1),
            method: method.to_owned(),
            params: genlock_mcp::RawObject::parse(&RawJson::encode(&params)).unwrap(),
        };
        let visitor = visitor(tenant);
        let world = self.front.world_of(&visitor);
        let caller = Caller {
            visitor,
            era: Era::Modern,
            capabilities: None,
            surface: None,
            headers: None,
            events: None,
        };
        let answer = self.front.handle(world, request, caller).await;
        let wire = answer.response.to_wire().into_bytes();
        serde_json::from_slice(&wire).unwrap()
    }

    async fn uris(&self, tenant: Option<&str>) -> Vec<String> {
        let listed = self.ask(tenant, "resources/list", json!({})).await;
        let listed = listed["result"]["resources"].as_array().unwrap().iter();
        listed
            .map(|entry| entry["uri"].as_str().unwrap().to_owned())
            .map(|uri| uri.trim_start_matches("genlock://one/").to_owned())
            .collect()
    }

    /// Whether a URI can be read, as shown and as the server's own.
    async fn reads(&self, tenant: Option<&str>, uri: &str) -> [bool; 2] {
        let mut read = [false; 2];
        let shown = [format!("genlock://one/{uri}"), uri.to_owned()];
        for (read, uri) in read.iter_mut().zip(shown) {
            let answer = self
                .ask(tenant, "resources/read", json!({"uri": uri}))
                .await;
            *read = answer["result"]["contents"][0]["text"] == "read";
            let code = &answer["error"]["code"];
            assert!(*read || *code == -32602, "{answer}");
        }
        read
    }
}

#[tokio::test]
async fn a_tenant_is_shown_and_reads_what_of_ui_its_allowlist_names() {
    let stage = Stage::new(Mode::Egress, &["ui://panels/"], 1).await;
    assert_eq!(
        stage.uris(Some("a")).await,
        ["ui://panels/main", "note://0"]
    );
    assert_eq!(stage.uris(Some("b")).await, ["note://0"]);
    let all = [
        "ui://panels/main",
        "ui://secret/main",
        "UI://panels/odd",
        "note://0",
    ];
    assert_eq!(stage.uris(None).await, all);

    for (uri, a, b) in [
        ("ui://panels/main", true, false),
        ("ui://panels/x", true, false),
        ("ui://secret/main", false, false),
        ("ui://panels/../secret/main", false, false),
        ("ui://panels/%2e%2e/secret/main", false, false),
        ("UI://panels/odd", false, false),
        ("Ui://secret/main", false, false),
        ("%75i://secret/main", false, false),
        ("note://0", true, true),
    ] {
        assert_eq!(stage.reads(Some("a"), uri).await, [a; 2], "{uri}");
        assert_eq!(stage.reads(Some("b"), uri).await, [b; 2], "{uri}");
    }
    let templates = stage
        .ask(Some("a"), "resources/templates/list", json!({}))
        .await;
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
    let made: Vec<_> = templates
        .iter()
        .map(|entry| &entry["uriTemplate"])
        .collect();
    assert_eq!(
        made,
        ["genlock://one/made://{x}", "genlock://one/ui://panels/{x}"]
    );
}

#[tokio::test]
async fn an_edited_allowlist_is_in_force_at_once_and_told_to_the_tenant_alone() {
    let stage = Stage::new(Mode::Egress, &["ui://none/"], 1).await;
    let mut a = ViewWatch::new(&stage.front, visitor(Some("a")), None);
    let mut b = ViewWatch::new(&stage.front, visitor(Some("b")), None);
    assert_eq!(stage.uris(Some("a")).await, ["note://0"]);

    stage.publish(Mode::Egress, &["ui://panels/"]);

    assert_eq!(a.changed().await, Some(vec![List::Resources]));
    assert_eq!(
        stage.uris(Some("a")).await,
        ["ui://panels/main", "note://0"]
    );
    stage.publish(Mode::Egress, &[]);
    assert_eq!(a.changed().await, Some(vec![List::Resources]));
    assert_eq!(stage.uris(Some("a")).await, ["note://0"]);
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(1), b.changed()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn links_belong_to_the_tenant_that_they_were_handed_to() {
    let stage = Stage::new(Mode::FrontDoor, &["ui://panels/"], 1).await;
    stage
        .ask(Some("a"), "tools/call", json!({"name": "one__links"}))
        .await;

    assert_eq!(
        stage.uris(Some("a")).await,
        ["ui://panels/main", "note://0", "link://2", "link://3"]
    );
    assert_eq!(stage.uris(Some("b")).await, ["note://0"]);
    // Where callers are not trusted, only what was shown or handed out leads anywhere.
    for (uri, a, b) in [
        ("link://1", false, false),
        ("link://2", true, false),
        ("link://3", true, false),
        ("note://0", true, true),
        ("made://x", true, true),
        ("made://x/y", false, false),
        ("other://x", false, false),
        ("ui://panels/x", true, false),
    ] {
        assert_eq!(stage.reads(Some("a"), uri).await, [a; 2], "{uri}");
        assert_eq!(stage.reads(Some("b"), uri).await, [b; 2], "{uri}");
    }
    // A configuration that leaves the server as it is leaves them too.
    stage.publish(Mode::FrontDoor, &[]);
    assert_eq!(
        stage.uris(Some("a")).await,
        ["note://0", "link://2", "link://3"]
    );
}

#[tokio::test]
async fn who_has_no_tenant_where_callers_are_not_trusted_is_shown_nothing() {
    let stage = Stage::new(Mode::FrontDoor, &["ui://panels/"], 1).await;
    stage.ask(Some("a"), "resources/list", json!({})).await;
    assert_eq!(stage.uris(None).await, [""; 0]);
    assert_eq!(stage.reads(None, "note://0").await, [false; 2]);
    for (method, field) in [
        ("prompts/list", "prompts"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let answer = stage.ask(None, method, json!({})).await;
        assert_eq!(answer["result"][field], json!([]), "{method}");
        assert_eq!(
            answer["result"]
                .get("_meta")
                .unwrap()
                .get("genlock/unavailable"),
            None
        );
    }
    let answer = stage
        .ask(None, "prompts/get", json!({"name": "one__p"}))
        .await;
    assert_eq!(answer["error"]["code"], -32602);
    let reference = json!({"ref": {"type": "ref/prompt", "name": "one__p"}});
    let answer = stage.ask(None, "completion/complete", reference).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn what_is_hidden_answers_exactly_as_what_is_not_there() {
    let stage = Stage::new(Mode::FrontDoor, &["ui://panels/"], 1).await;
    let answer = async |uri: &str| {
        let answer = stage
            .ask(Some("a"), "resources/read", json!({"uri": uri}))
            .await;
        answer.to_string().replace(uri, "URI")
    };
    let hidden = answer("genlock://one/ui://secret/main").await;
    assert_eq!(hidden, answer("genlock://one/ui://secret/none").await);
    assert_eq!(hidden, answer("genlock://two/note://0").await);
    assert_eq!(hidden, answer("nothing:at-all").await);
}

#[tokio::test]
async fn a_long_list_comes_in_pages_that_belong_to_the_caller_and_to_the_list() {
    let stage = Stage::new(Mode::Egress, &[], 5_000).await;
    let first = stage.ask(Some("a"), "resources/list", json!({})).await["result"].clone();
    assert_eq!(first.get("nextCursor"), None, "5,000 are one page");
    stage
        .ask(Some("a"), "tools/call", json!({"name": "one__links"}))
        .await;

    let first = stage.ask(Some("a"), "resources/list", json!({})).await["result"].clone();
    let second = json!({"cursor": first["nextCursor"]});
    let rest = stage.ask(Some("a"), "resources/list", second.clone()).await["result"].clone();

    assert_eq!(first["resources"].as_array().unwrap().len(), 5_000);
    let rest: Vec<_> = rest["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["uri"])
        .collect();
    assert_eq!(rest, ["genlock://one/link://2", "genlock://one/link://3"]);
    let foreign = stage.ask(Some("b"), "resources/list", second.clone()).await;
    assert_eq!(foreign["error"]["message"], "invalid cursor");
    stage.publish(Mode::Egress, &["ui://panels/"]);
    let stale = stage.ask(Some("a"), "resources/list", second).await;
    assert_eq!(stale["error"]["data"]["reason"], "cursor_stale");
}
