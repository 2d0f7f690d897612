//! Configs of the two systems that this one comes after: they load as they are.

use genlock_config::{Mode, Validator};
use serde_json::json;

use crate::{parsed, schema_only, short};

const SESSIONS: &str = r#"model: {default: m1, provider: custom, base_url: "http://127.0.0.1:9/v1"}
platform_toolsets: {cli: [terminal]}
terminal: {backend: local}
mcp_servers: {old: {command: old-mcp}, fixt: {command: fixt-mcp, env: {FIXT_TOKEN: sekret}}, dormant: {command: dormant-mcp, enabled: false}}
"#;

#[test]
fn a_config_of_sessions_loads_with_warnings_only() {
    let loaded = parsed(SESSIONS);

    let found: Vec<_> = loaded.warnings.iter().map(short).collect();
    assert_eq!(
        found,
        [
            "1:1 config.not_served model",
            "3:1 config.not_served terminal",
            "4:84 config.short_secret mcp_servers.fixt.env.FIXT_TOKEN",
        ]
    );
    let redacted = loaded.config.redacted();
    assert_eq!(
        redacted.get("/model").unwrap(),
        &json!({"base_url": "http://127.0.0.1:9/v1", "default": "m1", "provider": "custom"})
    );
    assert_eq!(redacted.get("/mcp_servers/dormant/enabled").unwrap(), false);
    assert_eq!(
        redacted.get("/mcp_servers/fixt/env/FIXT_TOKEN").unwrap(),
        "[private]"
    );
}

fn front_door(sections: &str) -> String {
    format!(
        r#"{{
"tool_access": {{"mode": "front_door"}},
"config_reload": {{"enabled": false}},
"auth": {{
    "enabled": true, "allow_anonymous": false,
    "api_key": {{"enabled": true, "header_name": "X-API-Key"}},
    "storage": {{"driver": "sqlite", "path": "/x/auth.db"}},
    "role_assignments": [
        {{"principal": "group:svc-callers", "role": "service-account", "scope": "global"}},
        {{"principal": "group:admins", "role": "admin", "scope": "global"}}]}},
"mcp_servers": {{"stub": {{"mode": "subprocess", "command": ["python3", "upstream.py"], "env": {{}}, "idle_ttl_s": 600}}}}
{sections}}}"#
    )
}

const BOOT: &str = r#",
"ui_resources": {"tenants": {"tenant:a": {"allowlist": ["ui://none/"]}}},
"resource_links": {"max_per_tenant": 2},
"headers": {"param_validation": {"required": true}},
"interceptors": {"validators": [{"type": "payload_size", "max_bytes": 4096}]}"#;

#[test]
fn a_config_of_tenants_is_understood() {
    for sections in ["", BOOT] {
        let config = schema_only(&front_door(sections));

        assert_eq!(config.tool_access.mode, Mode::FrontDoor);
        assert!(config.auth.enabled);
    }
    let config = schema_only(&front_door(BOOT));
    assert_eq!(
        config.validators,
        [Validator::PayloadSize { max_bytes: 4096 }]
    );
    assert_eq!(config.ui_allowlists["tenant:a"], ["ui://none/"]);
}

#[test]
fn a_config_of_tenants_is_served_whole() {
    for sections in ["", BOOT] {
        assert_eq!(parsed(&front_door(sections)).warnings, []);
    }
}
