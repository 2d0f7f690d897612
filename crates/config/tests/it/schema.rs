//! Every key, its default and its range.

use std::{collections::BTreeMap, time::Duration};

use genlock_config::{
    Config, Execution, HttpDefinition, LogLevel, Logging, NameRule, ProfileId, ProtocolChoice,
    ServerDefinition, ServerName, Shutdown, StdioDefinition, Surface, Text, ToolAccess,
    TransportDefinition,
};

use crate::{config, parsed, short};

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
        tool_access: ToolAccess {
            surface: Surface::Both,
            meta_prefix: "genlock".to_owned(),
            names: NameRule::Always,
        },
        execution: Execution {
            max_concurrency: 50,
            default_mcp_server_concurrency: 10,
            max_response_bytes: 32 * 1024 * 1024,
        },
        shutdown: Shutdown {
            drain: Duration::from_secs(20),
        },
        first_list_wait: Duration::from_secs(5),
        logging: Logging {
            level: LogLevel::Info,
            json: false,
        },
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
fn every_top_level_key_is_read() {
    let text = "
profile: work
listen: '[::1]:9000'
mcp_servers: {}
tool_access: { mode: egress, surface: meta, meta_prefix: hangar, names: auto }
execution: { max_concurrency: 7, default_mcp_server_concurrency: 3, max_response_bytes: 64KiB }
shutdown: { drain_s: 1.5 }
first_list_wait_s: 250ms
logging: { level: debug, json: true }
allowed_hosts: [gateway.local, 'gateway.local:8717']
allowed_origins: ['https://app.example.com']
";

    let expected = Config {
        profile: ProfileId::new("work").unwrap(),
        listen: "[::1]:9000".parse().unwrap(),
        servers: BTreeMap::new(),
        tool_access: ToolAccess {
            surface: Surface::Meta,
            meta_prefix: "hangar".to_owned(),
            names: NameRule::Auto,
        },
        execution: Execution {
            max_concurrency: 7,
            default_mcp_server_concurrency: 3,
            max_response_bytes: 65536,
        },
        shutdown: Shutdown {
            drain: Duration::from_millis(1500),
        },
        first_list_wait: Duration::from_millis(250),
        logging: Logging {
            level: LogLevel::Debug,
            json: true,
        },
        allowed_hosts: vec!["gateway.local".to_owned(), "gateway.local:8717".to_owned()],
        allowed_origins: vec!["https://app.example.com".to_owned()],
    };

    assert_eq!(config(text), expected);
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
fn every_key_of_an_endpoint_is_read() {
    let text = "
mcp_servers:
  a: { endpoint: 'https://example.com/mcp', type: http, mode: remote, headers: { X-Api-Key: k } }
";

    let http = HttpDefinition {
        url: Text::plain("https://example.com/mcp"),
        headers: BTreeMap::from([("x-api-key".to_owned(), private("k"))]),
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
