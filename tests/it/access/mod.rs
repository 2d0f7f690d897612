//! Who may call, and what they see.

mod door;
mod keys;
mod limits;
mod reload;
mod revoked;
mod views;

use genlock_testkit::{
    clients::{ApiClient, LegacyClient, ModernClient},
    harness::{CommandOutput, GenlockProcess, eventually_async},
};
use serde_json::{Value, json};

use crate::stage::{self, DEADLINE};

pub(crate) const HEADER: &str = "X-API-Key";
const LEGACY: &str = "2025-06-18";
/// What a tool is answered with that is not there, in `front_door`.
const NOT_FOUND: i64 = -32601;

/// A file in which callers have to say who they are, with these servers.
pub(crate) fn config(mode: &str, servers: &Value) -> Value {
    json!({
        "config_reload": {"enabled": false},
        "tool_access": {"mode": mode},
        "auth": {
            "enabled": true,
            "role_assignments": [
                {"principal": "group:callers", "role": "service-account"},
                {"principal": "group:admins", "role": "admin"},
                {"principal": "svc:viewer", "role": "viewer"},
                {"principal": "svc:operator", "role": "operator"},
            ],
        },
        "mcp_servers": servers,
    })
}

/// Makes a key and gives it with its id.
pub(crate) fn make(gateway: &GenlockProcess, args: &[&str]) -> (String, String) {
    let made = ran(&gateway.run(&[&["keys", "create", "--format", "json"], args].concat()));
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key"), text("id"))
}

/// Makes the key of a caller of tools.
pub(crate) fn caller(gateway: &GenlockProcess, principal: &str, tenant: Option<&str>) -> String {
    let tenant = tenant.map_or(vec![], |tenant| vec!["--tenant", tenant]);
    let args = [
        &["--principal", principal, "--group", "callers"],
        &tenant[..],
    ]
    .concat();
    make(gateway, &args).0
}

pub(crate) fn admin(gateway: &GenlockProcess) -> String {
    make(gateway, &["--principal", "ops:admin", "--group", "admins"]).0
}

/// What a command printed that went well.
fn ran(output: &CommandOutput) -> Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

pub(crate) fn modern(gateway: &GenlockProcess, key: &str) -> ModernClient {
    ModernClient::new(gateway.url()).with_header(HEADER, key)
}

async fn legacy(gateway: &GenlockProcess, key: &str) -> LegacyClient {
    LegacyClient::connect_with(gateway.url(), LEGACY, "{}", &[(HEADER, key)]).await
}

pub(crate) fn api(gateway: &GenlockProcess, key: &str) -> ApiClient {
    ApiClient::new(gateway.url()).with_header(HEADER, key)
}

/// Waits until a caller is shown exactly these tools.
async fn wait_for_tools(client: &ModernClient, expected: &[&str]) {
    let what = format!("exactly {expected:?} are shown");
    eventually_async(DEADLINE, &what, async || {
        (client.tool_names().await == expected).then_some(())
    })
    .await;
}

/// Writes the file and brings it into force.
async fn apply(gateway: &GenlockProcess, config: &Value) -> Value {
    gateway.write_config(&config.to_string());
    ran(&gateway.run(&["reload", "--format", "json"]))
}

fn start(config: &Value) -> GenlockProcess {
    stage::start(config)
}
