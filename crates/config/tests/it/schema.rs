//! Every key, its default and its range.

use std::{collections::BTreeMap, time::Duration};

use genlock_config::{
    ApiKeyAuth, Auth, AuthStorage, Config, ConfigReload, Containment, Execution, Free,
    HttpDefinition, LogLevel, Logging, Mode, NameRule, Observability, Oidc, ProfileId,
    ProtocolChoice, ResourceUris, Retention, Role, RoleAssignment, RoleScope, Scope,
    ServerDefinition, ServerName, Shutdown, StdioDefinition, StorageDriver, Surface, TenantLimits,
    Text, Tls, ToolAccess, ToolRules, TransportDefinition, Validator, Worker, WorkerMode,
};
use serde_json::json;

use crate::{config, parsed, schema_only, short};

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn private(value: &str) -> Text {
    Text::private(value.into(), "")
}

fn stdio(server: &str, definition: StdioDefinition) -> ServerDefinition {
    ServerDefinition::new(name(server), TransportDefinition::Stdio(definition))
}

#[test]
fn an_empty_mapping_means_every_default() {
    let defaults = Config {
        profile: ProfileId::new("default").unwrap(),
        listen: "127.0.0.1:8717".parse().unwrap(),
        servers: BTreeMap::new(),
        store_url: None,
        platform_toolsets: BTreeMap::new(),
        model: None,
        terminal: None,
        agent: None,
        tool_access: ToolAccess {
            mode: Mode::Egress,
            surface: Surface::Both,
            meta_prefix: "genlock".to_owned(),
            names: NameRule::Always,
        },
        auth: Auth {
            enabled: false,
            allow_anonymous: false,
            api_key: ApiKeyAuth {
                enabled: true,
                header_name: "X-API-Key".to_owned(),
            },
            storage: None,
            role_assignments: Vec::new(),
            oidc: None,
        },
        execution: Execution {
            max_concurrency: 50,
            default_mcp_server_concurrency: 10,
            max_response_bytes: 32 * 1024 * 1024,
            turn_result_bytes: 1024 * 1024,
            tenant_limits: BTreeMap::new(),
        },
        validators: Vec::new(),
        param_validation_required: false,
        ui_allowlists: BTreeMap::new(),
        max_resource_links: 4096,
        resource_uris: ResourceUris::Rewrite,
        config_reload: ConfigReload {
            enabled: true,
            use_watchdog: true,
            interval: Duration::from_secs(5),
            debounce: Duration::from_millis(500),
        },
        worker: Worker {
            mode: WorkerMode::Managed,
            idle_ttl: Duration::from_secs(300),
            max: None,
        },
        shutdown: Shutdown {
            drain: Duration::from_secs(20),
        },
        drain: Duration::from_secs(300),
        first_list_wait: Duration::from_secs(5),
        retention: Retention {
            turns_days: 30,
            generations: 1000,
            audit_days: 365,
        },
        logging: Logging {
            level: LogLevel::Info,
            json: false,
        },
        observability: Observability {
            otlp_endpoint: None,
            otlp_headers: BTreeMap::new(),
        },
        session_roots: Vec::new(),
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
    };

    assert_eq!(config("{}"), defaults);
    assert_eq!(
        config("mcp_servers:\nexecution:\nallowed_hosts:\n"),
        defaults
    );
}

#[test]
fn a_server_of_which_only_the_command_is_said_has_every_default() {
    let defaults = ServerDefinition {
        name: name("a"),
        enabled: true,
        prefix: "a".to_owned(),
        transport: TransportDefinition::Stdio(StdioDefinition::new(Text::plain("x"))),
        connect_timeout: Duration::from_secs(60),
        timeout: Duration::from_secs(300),
        protocol: ProtocolChoice::Auto,
        max_concurrency: None,
        max_response_bytes: None,
        description: None,
        env_files: Vec::new(),
        auth: None,
        tls: None,
        lazy: false,
        idle_ttl: Duration::ZERO,
        keepalive_interval: Duration::from_secs(180),
        scope: Scope::Shared,
        containment: Containment::Auto,
        tools: ToolRules {
            allow: None,
            deny: Vec::new(),
        },
        tool_definitions: Vec::new(),
        tenant_tools: BTreeMap::new(),
        mask: true,
        trust: false,
        unavailable: None,
    };

    let read = config("mcp_servers: { a: { command: x } }").servers;

    assert_eq!(read, BTreeMap::from([(name("a"), defaults)]));
}

/// Every key of the top level, with a value that is not its default.
pub(crate) const EVERY_SECTION: &str = "
profile: work
listen: '[::1]:9000'
store: { url: 'postgres://u:${TOKEN}@h/db' }
mcp_servers: {}
platform_toolsets: { cli: [terminal, github], empty: [] }
model: { default: m1, api_key: s3cret-key, max_tokens: 4096, temperature: 0.5, nothing: ~ }
terminal: { backend: local, deep: [{ token: [t0ken-in-list] }, 2.0, true] }
agent: { name: '${HOST}' }
tool_access: { mode: front_door, surface: meta, meta_prefix: hangar, names: auto }
auth:
  enabled: true
  allow_anonymous: true
  api_key: { enabled: false, header_name: X-Key }
  storage: { driver: sqlite, path: /var/auth.db }
  role_assignments:
    - { principal: 'group:a', role: service-account, scope: 'tenant:a:b' }
    - { principal: u, role: admin }
  oidc: { issuer: 'https://id.example.com', audience: a, client_id: c, jwks_uri: 'https://k/', subject_claim: s, groups_claim: g, tenant_claim: t, enabled: false }
execution:
  max_concurrency: 7
  default_mcp_server_concurrency: 3
  max_response_bytes: 64KiB
  turn_result_bytes: 2048
  tenant_limits: { '*': { max_concurrency: 1 }, 'tenant:a': { rps: 2, burst: 3 } }
interceptors: { validators: [{ type: payload_size, max_bytes: 4096 }, { type: payload_size, max_bytes: 1MiB }] }
headers: { param_validation: { required: true } }
ui_resources: { tenants: { 'tenant:a': { allowlist: ['ui://none/'] }, b: {} } }
resource_links: { max_per_tenant: 2 }
resources: { uris: raw }
config_reload: { enabled: false, use_watchdog: false, interval_s: 1.5, debounce_ms: 100 }
worker: { mode: supervised, idle_ttl_s: 1m, max: 4 }
shutdown: { drain_s: 1.5 }
drain_s: 1m
first_list_wait_s: 250ms
retention: { turns_days: 1, generations: 10, audit_days: 2 }
logging: { level: debug, json: true }
observability: { otlp_endpoint: 'https://u:pass-word@h/v1', otlp_headers: { X-Token: t0ken-of-otlp } }
session_roots: [/srv, /home]
allowed_hosts: [gateway.local, 'gateway.local:8717']
allowed_origins: ['https://app.example.com']
";

fn map<const N: usize>(entries: [(&str, Free); N]) -> Free {
    let entries = entries.map(|(key, value)| (key.to_owned(), value));
    Free::Map(entries.into_iter().collect())
}

fn open(text: &str) -> Free {
    Free::Text(Text::plain(text))
}

#[test]
fn every_top_level_key_is_read() {
    let expected = Config {
        profile: ProfileId::new("work").unwrap(),
        listen: "[::1]:9000".parse().unwrap(),
        servers: BTreeMap::new(),
        store_url: Some(Text::private(
            "postgres://u:t0ken-value@h/db".into(),
            "postgres://[private]:${TOKEN}@h/db",
        )),
        platform_toolsets: BTreeMap::from([
            (
                "cli".to_owned(),
                vec!["terminal".to_owned(), "github".to_owned()],
            ),
            ("empty".to_owned(), Vec::new()),
        ]),
        model: Some(map([
            ("default", open("m1")),
            ("api_key", Free::Text(private("s3cret-key"))),
            ("max_tokens", Free::Number(4096.into())),
            (
                "temperature",
                Free::Number(serde_json::Number::from_f64(0.5).unwrap()),
            ),
            ("nothing", Free::Null),
        ])),
        terminal: Some(map([
            ("backend", open("local")),
            (
                "deep",
                Free::List(vec![
                    map([(
                        "token",
                        Free::List(vec![Free::Text(private("t0ken-in-list"))]),
                    )]),
                    Free::Number(2.into()),
                    Free::Bool(true),
                ]),
            ),
        ])),
        agent: Some(map([(
            "name",
            Free::Text(Text::private("example.com".into(), "${HOST}")),
        )])),
        tool_access: ToolAccess {
            mode: Mode::FrontDoor,
            surface: Surface::Meta,
            meta_prefix: "hangar".to_owned(),
            names: NameRule::Auto,
        },
        auth: every_key_of_auth(),
        execution: Execution {
            max_concurrency: 7,
            default_mcp_server_concurrency: 3,
            max_response_bytes: 65536,
            turn_result_bytes: 2048,
            tenant_limits: BTreeMap::from([
                (
                    "*".to_owned(),
                    TenantLimits {
                        max_concurrency: Some(1),
                        rps: None,
                        burst: None,
                    },
                ),
                (
                    "tenant:a".to_owned(),
                    TenantLimits {
                        max_concurrency: None,
                        rps: Some(2),
                        burst: Some(3),
                    },
                ),
            ]),
        },
        validators: vec![
            Validator::PayloadSize { max_bytes: 4096 },
            Validator::PayloadSize { max_bytes: 1 << 20 },
        ],
        param_validation_required: true,
        ui_allowlists: BTreeMap::from([
            ("tenant:a".to_owned(), vec!["ui://none/".to_owned()]),
            ("b".to_owned(), Vec::new()),
        ]),
        max_resource_links: 2,
        resource_uris: ResourceUris::Raw,
        config_reload: ConfigReload {
            enabled: false,
            use_watchdog: false,
            interval: Duration::from_millis(1500),
            debounce: Duration::from_millis(100),
        },
        worker: Worker {
            mode: WorkerMode::Supervised,
            idle_ttl: Duration::from_secs(60),
            max: Some(4),
        },
        shutdown: Shutdown {
            drain: Duration::from_millis(1500),
        },
        drain: Duration::from_secs(60),
        first_list_wait: Duration::from_millis(250),
        retention: Retention {
            turns_days: 1,
            generations: 10,
            audit_days: 2,
        },
        logging: Logging {
            level: LogLevel::Debug,
            json: true,
        },
        observability: Observability {
            otlp_endpoint: Some(Text::private(
                "https://u:pass-word@h/v1".into(),
                "https://[private]:[private]@h/v1",
            )),
            otlp_headers: BTreeMap::from([("x-token".to_owned(), private("t0ken-of-otlp"))]),
        },
        session_roots: vec!["/srv".to_owned(), "/home".to_owned()],
        allowed_hosts: vec!["gateway.local".to_owned(), "gateway.local:8717".to_owned()],
        allowed_origins: vec!["https://app.example.com".to_owned()],
    };

    assert_eq!(schema_only(EVERY_SECTION), expected);
}

fn every_key_of_auth() -> Auth {
    Auth {
        enabled: true,
        allow_anonymous: true,
        api_key: ApiKeyAuth {
            enabled: false,
            header_name: "X-Key".to_owned(),
        },
        storage: Some(AuthStorage {
            driver: StorageDriver::Sqlite,
            path: Some("/var/auth.db".to_owned()),
        }),
        role_assignments: vec![
            RoleAssignment {
                principal: "group:a".to_owned(),
                role: Role::ServiceAccount,
                scope: RoleScope::Tenant("a:b".to_owned()),
            },
            RoleAssignment {
                principal: "u".to_owned(),
                role: Role::Admin,
                scope: RoleScope::Global,
            },
        ],
        oidc: Some(Oidc {
            enabled: false,
            issuer: "https://id.example.com".to_owned(),
            audience: Some("a".to_owned()),
            client_id: Some("c".to_owned()),
            jwks_uri: Some("https://k/".to_owned()),
            subject_claim: "s".to_owned(),
            groups_claim: "g".to_owned(),
            tenant_claim: "t".to_owned(),
        }),
    }
}

#[test]
fn the_mode_decides_what_is_shown_and_shared() {
    let servers = "mcp_servers: { a: { command: x }, b: { command: x, scope: session } }";
    let open = schema_only(servers);
    let closed = schema_only(&format!(
        "{servers}\nauth: {{ enabled: true }}\ntool_access: {{ mode: front_door }}"
    ));
    let flat = schema_only("tool_access: { surface: flat }");

    let seen = |config: &Config| {
        let scopes: Vec<_> = config.servers.values().map(|server| server.scope).collect();
        (config.tool_access.surface, scopes)
    };
    assert_eq!(
        seen(&open),
        (Surface::Both, vec![Scope::Shared, Scope::Session])
    );
    assert_eq!(
        seen(&closed),
        (Surface::Flat, vec![Scope::Tenant, Scope::Session])
    );
    assert_eq!(seen(&flat), (Surface::Flat, vec![]));
}

#[test]
fn every_key_of_a_child_process_is_read() {
    let text = "
mcp_servers:
  com.acme/Files:
    command: [files, --root]
    args: [/data]
    env: { LEVEL: 'high' }
    env_pass: [LANG, DISPLAY, LANG]
    cwd: /srv
    transport: stdio
    mode: subprocess
    enabled: false
    connect_timeout: 0.1
    timeout: 1h
    protocol: legacy
    max_concurrency: 1
    max_response_bytes: 1GiB
    prefix: files
    description: For people.
";

    let mut expected = stdio(
        "com.acme/Files",
        StdioDefinition {
            command: Text::plain("files"),
            args: vec![Text::plain("--root"), Text::plain("/data")],
            env: BTreeMap::from([("LEVEL".to_owned(), private("high"))]),
            env_pass: vec!["DISPLAY".to_owned(), "LANG".to_owned()],
            cwd: Some(Text::plain("/srv")),
        },
    );
    expected.enabled = false;
    expected.connect_timeout = Duration::from_millis(100);
    expected.timeout = Duration::from_secs(3600);
    expected.protocol = ProtocolChoice::Legacy;
    expected.max_concurrency = Some(1);
    expected.max_response_bytes = Some(1 << 30);
    expected.prefix = "files".to_owned();
    expected.description = Some("For people.".to_owned());

    assert_eq!(
        config(text).servers,
        BTreeMap::from([(name("com.acme/Files"), expected)])
    );
}

#[test]
fn every_key_that_servers_share_is_read() {
    let text = "
mcp_servers:
  a:
    url: https://example.com/sse
    transport: sse
    auth: { type: oauth, client_secret: '${TOKEN}' }
    tls: { ca_file: /ca.pem, cert_file: '${HOST}.pem', key_file: k.pem }
    lazy: true
    idle_ttl_s: 600
    keepalive_interval: 0
    scope: principal
    containment: namespace
    tools: { include: [read_*], exclude: [read_secret] }
    tool_access: { member: { 'tenant:a': { deny: ['*'] }, b: { allow: [] } } }
    mask: false
    trust: true
  b: { command: x, tools: [{ name: t, inputSchema: { b: 1, a: [1.5, ~, { token: x }] } }] }
  c: { url: 'http://h', auth: oauth }
";
    let rules = |allow: Option<&[&str]>, deny: &[&str]| {
        let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
        ToolRules {
            allow: allow.map(owned),
            deny: owned(deny),
        }
    };
    let http = |url: &str, sse| {
        TransportDefinition::Http(HttpDefinition {
            url: Text::plain(url),
            headers: BTreeMap::new(),
            sse,
        })
    };
    let mut a = ServerDefinition::new(name("a"), http("https://example.com/sse", true));
    a.auth = Some(map([
        ("type", open("oauth")),
        (
            "client_secret",
            Free::Text(Text::private("t0ken-value".into(), "${TOKEN}")),
        ),
    ]));
    a.tls = Some(Tls {
        ca_file: Some(Text::plain("/ca.pem")),
        cert_file: Some(Text::private("example.com.pem".into(), "${HOST}.pem")),
        key_file: Some(Text::plain("k.pem")),
    });
    a.lazy = true;
    a.idle_ttl = Duration::from_secs(600);
    a.keepalive_interval = Duration::ZERO;
    a.scope = Scope::Principal;
    a.containment = Containment::Namespace;
    a.tools = rules(Some(&["read_*"]), &["read_secret"]);
    a.tenant_tools = BTreeMap::from([
        ("tenant:a".to_owned(), rules(None, &["*"])),
        ("b".to_owned(), rules(Some(&[]), &[])),
    ]);
    a.mask = false;
    a.trust = true;
    let mut b = stdio("b", StdioDefinition::new(Text::plain("x")));
    b.tool_definitions =
        vec![json!({"name": "t", "inputSchema": {"a": [1.5, null, {"token": "x"}], "b": 1}})];
    let mut c = ServerDefinition::new(name("c"), http("http://h", false));
    c.auth = Some(open("oauth"));

    let found: Vec<_> = schema_only(text).servers.into_values().collect();

    assert_eq!(found, [a, b, c]);
}

#[test]
fn every_key_of_an_endpoint_is_read() {
    let text = "
mcp_servers:
  a: { endpoint: 'https://example.com/mcp', type: http, mode: remote, headers: { X-Api-Key: k3y-value } }
";

    let http = HttpDefinition {
        url: Text::plain("https://example.com/mcp"),
        headers: BTreeMap::from([("x-api-key".to_owned(), private("k3y-value"))]),
        sse: false,
    };
    let expected = ServerDefinition::new(name("a"), TransportDefinition::Http(http));

    assert_eq!(
        config(text).servers,
        BTreeMap::from([(name("a"), expected)])
    );
}

#[test]
fn a_client_config_in_json_is_read_as_it_is() {
    let text = r#"{
	"mcpServers": {
		"memory": { "type": "stdio", "command": "npx", "args": ["-y", "memory"], "env": {} }
	}
}"#;

    let mut memory = StdioDefinition::new(Text::plain("npx"));
    memory.args = vec![Text::plain("-y"), Text::plain("memory")];

    let expected = BTreeMap::from([(name("memory"), stdio("memory", memory))]);
    assert_eq!(config(text).servers, expected);
}

#[test]
fn anchors_and_aliases_stand_for_their_values() {
    let text = "
mcp_servers:
  a: { command: x, env: &env { K: v }, args: &args [1s] }
  b: { command: x, env: *env, args: *args }
";

    let mut servers = config(text).servers;
    let (mut a, b) = (
        servers.remove(&name("a")).unwrap(),
        servers.remove(&name("b")).unwrap(),
    );
    a.name = name("b");
    a.prefix = "b".to_owned();

    assert_eq!(a, b);
}

#[test]
fn the_default_without_a_file_has_the_demo_server() {
    let config = Config::embedded_default();

    let mut demo = ServerDefinition::new(name("demo"), TransportDefinition::Builtin);
    demo.description
        .clone_from(&config.servers[&name("demo")].description);
    assert_eq!(
        config,
        Config {
            servers: BTreeMap::from([(name("demo"), demo)]),
            ..Config::default()
        }
    );
}

#[test]
fn a_command_line_in_one_string_is_warned_about() {
    let loaded = parsed("mcp_servers: { a: { command: npx -y memory } }");

    let found: Vec<_> = loaded.warnings.iter().map(short).collect();
    assert_eq!(found, ["1:30 config.command_line mcp_servers.a.command"]);
}
