//! A client of the era without handshakes, over HTTP.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::Method;
use http_body_util::Full;
use serde_json::value::RawValue;

use super::{
    META, MODERN,
    answer::Answer,
    call_params, every_tool_name,
    exchange::{ClientError, Http, Pending, http_client, open},
    message, quote, with_meta,
};
use crate::header_value;

/// A 2026-07-28 client. Clones share the connection pool and the ids.
///
/// ```no_run
/// # async fn example() {
/// use genlock_testkit::clients::ModernClient;
///
/// let client = ModernClient::new("http://127.0.0.1:8717/mcp").with_header("authorization", "Bearer key");
/// assert_eq!(client.call("echo", r#"{"text":"hello"}"#).await.text(), "hello");
///
/// let refused = client.prepare("tools/list", "{}").without_header("mcp-method").send().await;
/// assert_eq!((refused.status, refused.error().code), (400, -32020));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ModernClient {
    url: String,
    http: Http,
    headers: Vec<(String, String)>,
    next_id: Arc<AtomicU64>,
}

/// A request that can be changed before it is sent.
#[derive(Debug, Clone)]
pub struct Request {
    client: ModernClient,
    id: Option<String>,
    method: String,
    params: String,
    headers: Vec<(String, String)>,
    meta: Vec<(String, String)>,
    body: Option<String>,
}

// === impl ModernClient ===

impl ModernClient {
    /// A client of this endpoint. Nothing is sent.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            http: http_client(),
            headers: Vec::new(),
            next_id: Arc::default(),
        }
    }

    /// Sends this header with every request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A request with everything that the revision asks for; `params` is a JSON object.
    #[must_use]
    pub fn prepare(&self, method: &str, params: &str) -> Request {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut headers = self.headers.clone();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        headers.push((
            "accept".to_owned(),
            "application/json, text/event-stream".to_owned(),
        ));
        headers.push(("mcp-protocol-version".to_owned(), MODERN.to_owned()));
        headers.push(("mcp-method".to_owned(), method.to_owned()));
        if let Some(name) = name_of(method, params) {
            headers.push(("mcp-name".to_owned(), header_value::encode(&name)));
        }
        let meta = vec![
            (format!("{META}protocolVersion"), quote(MODERN)),
            (format!("{META}clientCapabilities"), "{}".to_owned()),
            (
                format!("{META}clientInfo"),
                r#"{"name":"testkit","version":"1.0.0"}"#.to_owned(),
            ),
        ];
        Request {
            client: self.clone(),
            id: Some(id.to_string()),
            method: method.to_owned(),
            params: params.to_owned(),
            headers,
            meta,
            body: None,
        }
    }

    /// A call of a tool; `arguments` is JSON text.
    #[must_use]
    pub fn prepare_call(&self, tool: &str, arguments: &str) -> Request {
        self.prepare("tools/call", &call_params(tool, arguments))
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: &str, params: &str) -> Answer {
        self.prepare(method, params).send().await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: &str) -> Answer {
        self.prepare_call(tool, arguments).send().await
    }

    /// The names of all tools, page by page.
    pub async fn tool_names(&self) -> Vec<String> {
        every_tool_name(async |params: String| self.request("tools/list", &params).await).await
    }

    /// Opens `subscriptions/listen` with this filter and waits for the acknowledgement.
    pub async fn listen(&self, filter: &str) -> Pending {
        let pending = self
            .prepare(
                "subscriptions/listen",
                &format!(r#"{{"notifications":{filter}}}"#),
            )
            .open()
            .await;
        assert_eq!(pending.status(), 200, "listen: {:?}", pending.headers());
        pending
            .transcript()
            .wait_for("notifications/subscriptions/acknowledged")
            .await;
        pending
    }
}

// === impl Request ===

impl Request {
    /// Sets a header, in place of the one that would be sent.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.without_header(name).extra_header(name, value)
    }

    /// Adds a header beside those of the same name.
    #[must_use]
    pub fn extra_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a header out.
    #[must_use]
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sets a member of `_meta`; `value` is JSON text. Short names of the reserved keys (`logLevel`) are not expanded.
    #[must_use]
    pub fn meta(mut self, key: &str, value: &str) -> Self {
        self = self.without_meta(key);
        self.meta.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a member of `_meta` out.
    #[must_use]
    pub fn without_meta(mut self, key: &str) -> Self {
        self.meta.retain(|(known, _)| known != key);
        self
    }

    /// Sets the id; JSON text.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Makes it a notification.
    #[must_use]
    pub fn without_id(mut self) -> Self {
        self.id = None;
        self
    }

    /// Sends this body, whatever it is.
    #[must_use]
    pub fn body(mut self, body: &str) -> Self {
        self.body = Some(body.to_owned());
        self
    }

    /// Sends it and waits for the whole answer.
    ///
    /// # Errors
    /// Where no whole answer comes.
    pub async fn try_send(self) -> Result<Answer, ClientError> {
        self.try_open().await?.try_finish().await
    }

    /// Sends it and waits for the whole answer.
    ///
    /// # Panics
    /// Where no whole answer comes.
    pub async fn send(self) -> Answer {
        self.try_send().await.expect("the request is answered")
    }

    /// Sends it and waits for the headers of the answer.
    ///
    /// # Errors
    /// Where none come.
    pub async fn try_open(self) -> Result<Pending, ClientError> {
        let id = self.id.clone().unwrap_or_else(|| "null".to_owned());
        let body = match self.body {
            Some(body) => body,
            None => message(
                self.id.as_deref(),
                &self.method,
                &with_meta(&self.params, &self.meta),
            ),
        };
        let request = http_request(Method::POST, &self.client.url, &self.headers, body);
        open(&self.client.http, &id, request).await
    }

    /// Sends it and waits for the headers of the answer.
    ///
    /// # Panics
    /// Where none come.
    pub async fn open(self) -> Pending {
        self.try_open().await.expect("the request is answered")
    }
}

pub(crate) fn http_request(
    method: Method,
    url: &str,
    headers: &[(String, String)],
    body: String,
) -> http::Request<Full<Bytes>> {
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request
        .body(Full::new(Bytes::from(body)))
        .expect("the test wrote a valid URL and valid headers")
}

/// What `Mcp-Name` must say.
fn name_of(method: &str, params: &str) -> Option<String> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    // Only this member is decoded: not every JSON value beside it has a type here.
    let params: BTreeMap<String, &RawValue> = serde_json::from_str(params).ok()?;
    serde_json::from_str(params.get(member)?.get()).ok()
}
