//! `genlock client-config`: what to paste into a client.

use std::process::ExitCode;

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
    // Claude Desktop starts local servers and takes no local URL.
    let stdio = args.stdio || args.client == Client::ClaudeDesktop;
    let way = if stdio {
        Way::Stdio {
            config: place.config_file().map(absolute),
        }
    } else {
        Way::Http { url }
    };
    println!("{}", snippet(args.client, &way));
    Ok(ExitCode::SUCCESS)
}

fn absolute(path: camino::Utf8PathBuf) -> String {
    camino::absolute_utf8(&path).unwrap_or(path).into_string()
}

/// How a client reaches the gateway.
pub(super) enum Way {
    /// It connects by URL.
    Http { url: String },
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
        (Client::ClaudeCode, Way::Http { url }) => {
            format!("claude mcp add --transport http genlock {url}")
        }
        (Client::ClaudeCode, Way::Stdio { config }) => {
            let words = Way::arguments(config.as_ref())
                .into_iter()
                .map(shell_word)
                .collect::<Vec<_>>()
                .join(" ");
            format!("claude mcp add genlock -- genlock {words}")
        }
        (Client::ClaudeDesktop | Client::Cursor, way) => {
            pretty(&json!({"mcpServers": {"genlock": entry(way, false)}}))
        }
        (Client::Vscode, way) => pretty(&json!({"servers": {"genlock": entry(way, true)}})),
        (Client::Codex, Way::Http { url }) => {
            format!("[mcp_servers.genlock]\nurl = {}", json!(url))
        }
        (Client::Codex, Way::Stdio { config }) => {
            format!(
                "[mcp_servers.genlock]\ncommand = \"genlock\"\nargs = {}",
                json!(Way::arguments(config.as_ref()))
            )
        }
    }
}

fn entry(way: &Way, typed: bool) -> Value {
    let mut entry = match way {
        Way::Http { url } => json!({ "url": url }),
        Way::Stdio { config } => {
            json!({"command": "genlock", "args": Way::arguments(config.as_ref())})
        }
    };
    if let (true, Some(object)) = (typed, entry.as_object_mut()) {
        let kind = if matches!(way, Way::Http { .. }) {
            "http"
        } else {
            "stdio"
        };
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
        }
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
