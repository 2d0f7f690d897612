//! A gateway in this process, on a state directory and a config file of its own.

use std::fs;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use camino::Utf8PathBuf;
use genlock_config::Sources;
use genlock_gateway::{ConfigSource, Gateway, Home, Host, StateDir};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

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
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        let file = root.join(name);
        fs::write(&file, text).unwrap();
        let state_dir = StateDir::claim(&root.join("state")).unwrap();
        let home = Home {
            state_dir: &state_dir,
            source: ConfigSource {
                file: Some(file.clone()),
                sources: Sources::default(),
            },
            environment: Vec::new(),
            strict_boot: true,
            worker: None,
        };
        let gateway = Gateway::boot(home, &Host::system()).await.unwrap();
        Self {
            router: gateway.router(),
            gateway,
            file,
            _state_dir: state_dir,
            _dir: dir,
        }
    }

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
