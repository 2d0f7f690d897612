//! A gateway in this process, on a state directory and a config file of its own.

use std::fs;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use camino::Utf8PathBuf;
use genlock_config::Sources;
use genlock_gateway::{ConfigSource, Gateway, Home, Host, Offline, StateDir};
use genlock_mcp::{RawJson, RawObject};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::widening::Caller;

/// The largest answer that is read.
const MOST_BYTES: usize = 16 << 20;

pub(crate) struct Stage {
    pub(crate) gateway: Gateway,
    pub(crate) router: Router,
    file: Utf8PathBuf,
    _state_dir: StateDir,
    _dir: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Stage {
    /// Boots on this text, in a file of this name.
    pub(crate) async fn boot(name: &str, text: &str) -> Self {
        Self::prepare(name, text).boot().await
    }

    /// Boots on this text with a key for each of these callers, which it returns in their order.
    pub(crate) async fn boot_with_keys(text: &str, callers: &[Caller]) -> (Self, Vec<String>) {
        let place = Self::prepare("genlock.json", text);
        let claimed = StateDir::claim(&place.root.join("state")).unwrap();
        let (source, host) = (place.source(), Host::system());
        let offline = Offline::open(claimed, &source, &host).await.unwrap();
        let mut keys = Vec::new();
        for caller in callers {
            let params = json!({
                "principal": caller.name, "tenant": caller.tenant, "groups": caller.groups,
            });
            let params = RawObject::parse(&RawJson::encode(&params)).unwrap();
            let made = offline.call("key.create", &params).await.unwrap();
            let made: Value = made.decode().unwrap();
            keys.push(made["key"].as_str().unwrap().to_owned());
        }
        offline.close().await;
        (place.boot().await, keys)
    }

    fn prepare(name: &str, text: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        let file = root.join(name);
        fs::write(&file, text).unwrap();
        Place { dir, root, file }
    }

    /// Asks for a reload that waits for no server, as the holder of a key.
    pub(crate) async fn reload_as(&self, key: &str) -> Answer {
        let request = Request::post("/api/config/reload")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("x-api-key", key);
        let body = Body::from(json!({"wait_s": 0, "confirm_mass_removal": true}).to_string());
        send(&self.router, request.body(body).unwrap()).await
    }
}

/// Where a gateway is to be booted.
struct Place {
    dir: TempDir,
    root: Utf8PathBuf,
    file: Utf8PathBuf,
}

impl Place {
    fn source(&self) -> ConfigSource {
        ConfigSource {
            file: Some(self.file.clone()),
            sources: Sources::default(),
        }
    }

    async fn boot(self) -> Stage {
        let state_dir = StateDir::claim(&self.root.join("state")).unwrap();
        let home = Home {
            state_dir: &state_dir,
            source: self.source(),
            environment: Vec::new(),
            strict_boot: true,
            worker: None,
        };
        let gateway = Gateway::boot(home, &Host::system()).await.unwrap();
        Stage {
            router: gateway.router(),
            gateway,
            file: self.file,
            _state_dir: state_dir,
            _dir: self.dir,
        }
    }
}

impl Stage {
    /// Writes the config file.
    pub(crate) fn write(&self, text: &str) {
        fs::write(&self.file, text).unwrap();
    }

    /// Asks for a reload that waits for no server, beside what `body` asks for.
    pub(crate) async fn reload(&self, body: &Value, if_match: Option<u64>) -> Answer {
        let mut body = body.clone();
        body["wait_s"] = 0.into();
        let mut request = Request::post("/api/config/reload")
            .header("host", "localhost")
            .header("content-type", "application/json");
        if let Some(number) = if_match {
            request = request.header("if-match", format!("\"{number}\""));
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        send(&self.router, request).await
    }

    /// Reads a route of the API.
    pub(crate) async fn get(&self, route: &str) -> Value {
        let request = Request::get(route).header("host", "localhost");
        let answer = send(&self.router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{route}");
        answer.body
    }

    /// The generation in force.
    pub(crate) fn head(&self) -> u64 {
        self.gateway.front().in_force().0.unwrap().get()
    }
}

/// Sends a request through the routes, as a connection would.
pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, MOST_BYTES).await.unwrap();
    let body = if bytes.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&bytes).unwrap()
    };
    Answer {
        status: parts.status,
        headers: parts.headers,
        body,
    }
}
