//! `genlock client-config`: what to paste into a client.

use std::process::ExitCode;

use genlock_config::Config;
use genlock_gateway::StateDir;
use serde_json::{Value, json};

use crate::{
    args::{Client, ClientConfigArgs},
    failure::Failure,
    place::Place,
};

pub(super) fn run(place: &Place, args: &ClientConfigArgs) -> Result<ExitCode, Failure> {
    let running = place
        .state_dir()
        .ok()
        .and_then(|dir| StateDir::holder(&dir))
        .and_then(|holder| holder.url);
    let url = match running {
        Some(url) => url,
        None => format!("http://{}/mcp", place.load()?.0.listen),
    };
    // Whether a running gateway asks for keys is in its config as well; one that cannot be read is no reason to say nothing.
    let key = place
        .source()
        .load()
        .ok()
        .and_then(|loaded| key_header(&loaded.config));
    // Claude Desktop starts local servers and takes no local URL.
    let stdio = args.stdio || args.client == Client::ClaudeDesktop;
    let way = if stdio {
        Way::Stdio {
            config: place.config_file().map(absolute),
        }
    } else {
        Way::Http { url, key }
    };
    println!("{}", snippet(args.client, &way));
    Ok(ExitCode::SUCCESS)
}

/// The variable that clients take a key from, so that none stands in their files.
const KEY: &str = "GENLOCK_API_KEY";

/// Returns the header that carries a key, where callers have to say who they are.
pub(super) fn key_header(config: &Config) -> Option<String> {
    let auth = &config.auth;
    (auth.enabled && auth.api_key.enabled).then(|| auth.api_key.header_name.clone())
}

fn absolute(path: camino::Utf8PathBuf) -> String {
    camino::absolute_utf8(&path).unwrap_or(path).into_string()
}

/// How a client reaches the gateway.
pub(super) enum Way {
    /// It connects by URL, and sends a key in this header, where it has to.
    Http { url: String, key: Option<String> },
    /// It starts the gateway, or a bridge to the one that runs.
    Stdio { config: Option<String> },
}

impl Way {
    fn arguments(config: Option<&String>) -> Vec<&str> {
        let named = config.map(|file| ["--config", file.as_str()]);
        named
            .into_iter()
            .flatten()
            .chain(["serve", "--stdio"])
            .collect()
    }
}

/// Returns what to paste, with a comment or a path that says where.
pub(super) fn snippet(client: Client, way: &Way) -> String {
    match (client, way) {
        (Client::ClaudeCode, Way::Http { url, key: None }) => {
            format!("claude mcp add --transport http genlock {url}")
        }
        // Not in double quotes: the client puts the key in, and not the shell.
        (
            Client::ClaudeCode,
            Way::Http {
                url,
                key: Some(header),
            },
        ) => {
            format!("claude mcp add --transport http genlock {url} --header '{header}: ${{{KEY}}}'")
        }
        (Client::ClaudeCode, Way::Stdio { config }) => {
            let words = Way::arguments(config.as_ref())
                .into_iter()
                .map(shell_word)
                .collect::<Vec<_>>()
                .join(" ");
            format!("claude mcp add genlock -- genlock {words}")
        }
        (Client::ClaudeDesktop, way) => {
            pretty(&json!({"mcpServers": {"genlock": entry(way, None, KEY)}}))
        }
        (Client::Cursor, way) => {
            let key = format!("${{env:{KEY}}}");
            pretty(&json!({"mcpServers": {"genlock": entry(way, None, &key)}}))
        }
        (Client::Vscode, way) => vscode(way),
        (Client::Codex, Way::Http { url, key }) => {
            let headers = key
                .as_ref()
                .map(|header| format!("\nenv_http_headers = {{ {} = \"{KEY}\" }}", json!(header)));
            let headers = headers.unwrap_or_default();
            format!("[mcp_servers.genlock]\nurl = {}{headers}", json!(url))
        }
        (Client::Codex, Way::Stdio { config }) => {
            format!(
                "[mcp_servers.genlock]\ncommand = \"genlock\"\nargs = {}",
                json!(Way::arguments(config.as_ref()))
            )
        }
    }
}

/// VS Code asks for the key once and keeps it.
fn vscode(way: &Way) -> String {
    let asks = matches!(way, Way::Http { key: Some(_), .. });
    let kind = match way {
        Way::Http { .. } => "http",
        Way::Stdio { .. } => "stdio",
    };
    let entry = entry(way, Some(kind), "${input:genlock-api-key}");
    let mut whole = json!({"servers": {"genlock": entry}});
    if asks {
        let input = json!({
            "id": "genlock-api-key",
            "type": "promptString",
            "description": "API key of Genlock",
            "password": true,
        });
        whole["inputs"] = json!([input]);
    }
    pretty(&whole)
}

/// Returns how a client reaches the gateway, with `key` in the place of the key.
fn entry(way: &Way, kind: Option<&str>, key: &str) -> Value {
    let mut entry = match way {
        Way::Http { url, key: None } => json!({ "url": url }),
        Way::Http {
            url,
            key: Some(header),
        } => json!({"url": url, "headers": {header.as_str(): key}}),
        Way::Stdio { config } => {
            json!({"command": "genlock", "args": Way::arguments(config.as_ref())})
        }
    };
    if let (Some(kind), Some(object)) = (kind, entry.as_object_mut()) {
        object.insert("type".to_owned(), json!(kind));
    }
    entry
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn shell_word(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Way {
        Way::Http {
            url: "http://127.0.0.1:8717/mcp".to_owned(),
            key: None,
        }
    }

    #[test]
    fn a_key_is_a_reference_wherever_it_is_pasted() {
        let way = Way::Http {
            url: "http://h/mcp".to_owned(),
            key: Some("X-API-Key".to_owned()),
        };
        let parsed = |client| serde_json::from_str::<Value>(&snippet(client, &way)).unwrap();

        assert_eq!(
            snippet(Client::ClaudeCode, &way),
            "claude mcp add --transport http genlock http://h/mcp --header 'X-API-Key: ${GENLOCK_API_KEY}'"
        );
        assert_eq!(
            parsed(Client::Cursor)["mcpServers"]["genlock"]["headers"],
            json!({"X-API-Key": "${env:GENLOCK_API_KEY}"})
        );
        let vscode = parsed(Client::Vscode);
        assert_eq!(
            vscode["servers"]["genlock"]["headers"],
            json!({"X-API-Key": "${input:genlock-api-key}"})
        );
        assert_eq!(vscode["inputs"][0]["password"], true);
        assert_eq!(
            snippet(Client::Codex, &way),
            "[mcp_servers.genlock]\nurl = \"http://h/mcp\"\nenv_http_headers = { \"X-API-Key\" = \"GENLOCK_API_KEY\" }"
        );
    }

    #[test]
    fn each_client_gets_its_own_form() {
        assert_eq!(
            snippet(Client::ClaudeCode, &http()),
            "claude mcp add --transport http genlock http://127.0.0.1:8717/mcp"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&snippet(Client::Vscode, &http())).unwrap(),
            json!({"servers": {"genlock": {"type": "http", "url": "http://127.0.0.1:8717/mcp"}}})
        );
        assert_eq!(
            serde_json::from_str::<Value>(&snippet(Client::Cursor, &http())).unwrap(),
            json!({"mcpServers": {"genlock": {"url": "http://127.0.0.1:8717/mcp"}}})
        );
        let stdio = Way::Stdio {
            config: Some("/a b/genlock.yaml".to_owned()),
        };
        assert_eq!(
            snippet(Client::ClaudeCode, &stdio),
            "claude mcp add genlock -- genlock --config '/a b/genlock.yaml' serve --stdio"
        );
        assert_eq!(
            snippet(Client::Codex, &stdio),
            "[mcp_servers.genlock]\ncommand = \"genlock\"\nargs = [\"--config\",\"/a b/genlock.yaml\",\"serve\",\"--stdio\"]"
        );
    }
}
