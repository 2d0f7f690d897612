//! A client of the eras with `initialize`, over HTTP.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::Method;

use super::{
    LEGACY,
    answer::Answer,
    call_params, every_tool_name,
    exchange::{ClientError, Http, Pending, http_client, open},
    message,
    modern::http_request,
    quote,
};

/// A connected client with its session. Clones share session, connection pool and ids.
///
/// ```no_run
/// # async fn example() {
/// use genlock_testkit::clients::LegacyClient;
///
/// let client = LegacyClient::connect("http://127.0.0.1:8717/mcp", "2025-06-18").await;
/// let stream = client.listen().await;
/// assert_eq!(client.call("echo", r#"{"text":"hello"}"#).await.text(), "hello");
/// stream.transcript().wait_for("notifications/tools/list_changed").await;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LegacyClient {
    url: String,
    http: Http,
    headers: Vec<(String, String)>,
    version: String,
    session: Option<String>,
    initialized: Arc<Answer>,
    next_id: Arc<AtomicU64>,
}

// === impl LegacyClient ===

impl LegacyClient {
    /// Does the handshake.
    ///
    /// # Panics
    /// Where it is refused.
    pub async fn connect(url: &str, version: &str) -> Self {
        Self::connect_with(url, version, "{}", &[]).await
    }

    /// Does the handshake with these capabilities (a JSON object) and these headers on every request.
    ///
    /// # Panics
    /// Where it is refused.
    pub async fn connect_with(
        url: &str,
        version: &str,
        capabilities: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (http, answer) = initialize(url, version, capabilities, &headers)
            .await
            .expect("initialize is answered");
        assert_eq!(answer.status, 200, "initialize: {answer:?}");
        let version = answer.result()["protocolVersion"]
            .as_str()
            .expect("a protocol version")
            .to_owned();
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let initialized = Arc::new(answer);
        let next_id = Arc::new(AtomicU64::new(0));
        let client = Self {
            url: url.to_owned(),
            http,
            headers,
            version,
            session,
            initialized,
            next_id,
        };
        let accepted = client.notify("notifications/initialized", "{}").await;
        assert_eq!(accepted.status, 202, "initialized: {accepted:?}");
        client
    }

    /// The negotiated version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The session's id, where the server gave one.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The answer to `initialize`.
    #[must_use]
    pub fn initialized(&self) -> &Answer {
        &self.initialized
    }

    /// The same client under another session id, or under none.
    #[must_use]
    pub fn with_session(mut self, session: Option<&str>) -> Self {
        self.session = session.map(str::to_owned);
        self
    }

    /// The same client saying another protocol version in its header.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        self.version = version.to_owned();
        self
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// Where none comes.
    pub async fn request(&self, method: &str, params: &str) -> Answer {
        self.open(method, params).await.finish().await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: &str) -> Answer {
        self.request("tools/call", &call_params(tool, arguments))
            .await
    }

    /// The names of all tools, page by page.
    pub async fn tool_names(&self) -> Vec<String> {
        every_tool_name(async |params: String| self.request("tools/list", &params).await).await
    }

    /// Sends a request and waits for the headers of its answer.
    ///
    /// # Panics
    /// Where none come.
    pub async fn open(&self, method: &str, params: &str) -> Pending {
        let id = self.mint_id();
        self.post_open(&id, message(Some(&id), method, params))
            .await
            .expect("the request is answered")
    }

    /// The id of a request that is sent with [`start`](Self::start).
    #[must_use]
    pub fn mint_id(&self) -> String {
        (self.next_id.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    /// Sends a request under an id of [`mint_id`](Self::mint_id), so that it can be cancelled before its headers come.
    ///
    /// # Errors
    /// Where no whole answer comes.
    pub async fn start(&self, id: &str, method: &str, params: &str) -> Result<Answer, ClientError> {
        self.post_open(id, message(Some(id), method, params))
            .await?
            .try_finish()
            .await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &str) -> Answer {
        self.post(message(None, method, params)).await
    }

    /// Cancels a request by its id as written.
    pub async fn cancel(&self, id: &str) -> Answer {
        self.notify(
            "notifications/cancelled",
            &format!(r#"{{"requestId":{id},"reason":"the test says so"}}"#),
        )
        .await
    }

    /// Answers a request of the server; `id` and `result` are JSON text.
    pub async fn respond(&self, id: &str, result: &str) -> Answer {
        self.post(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ))
        .await
    }

    /// Posts any body.
    ///
    /// # Panics
    /// Where no whole answer comes.
    pub async fn post(&self, body: String) -> Answer {
        self.post_open("null", body)
            .await
            .expect("the request is answered")
            .finish()
            .await
    }

    /// Opens the GET stream.
    ///
    /// # Panics
    /// Where it is refused.
    pub async fn listen(&self) -> Pending {
        let stream = self.bare(Method::GET).await;
        assert_eq!(stream.status(), 200, "GET: {:?}", stream.headers());
        assert!(stream.is_event_stream(), "GET: {:?}", stream.headers());
        stream
    }

    /// Ends the session.
    pub async fn delete(&self) -> Answer {
        self.bare(Method::DELETE).await.finish().await
    }

    /// Sends a request without a body: GET or DELETE.
    ///
    /// # Panics
    /// Where no answer comes.
    pub async fn bare(&self, method: Method) -> Pending {
        let mut headers = self.session_headers();
        headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
        let request = http_request(method, &self.url, &headers, String::new());
        open(&self.http, "null", request)
            .await
            .expect("the request is answered")
    }

    async fn post_open(&self, id: &str, body: String) -> Result<Pending, ClientError> {
        let mut headers = self.session_headers();
        headers.extend(content_headers());
        open(
            &self.http,
            id,
            http_request(Method::POST, &self.url, &headers, body),
        )
        .await
    }

    fn session_headers(&self) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        headers.extend(
            self.session
                .iter()
                .map(|session| ("mcp-session-id".to_owned(), session.clone())),
        );
        // The oldest of the three revisions has no such header.
        if self.version != LEGACY[2] {
            headers.push(("mcp-protocol-version".to_owned(), self.version.clone()));
        }
        headers
    }
}

fn content_headers() -> [(String, String); 2] {
    [
        ("content-type".to_owned(), "application/json".to_owned()),
        (
            "accept".to_owned(),
            "application/json, text/event-stream".to_owned(),
        ),
    ]
}

pub(crate) fn initialize_params(version: &str, capabilities: &str) -> String {
    let info = r#"{"name":"testkit","version":"1.0.0"}"#;
    format!(
        r#"{{"protocolVersion":{},"capabilities":{capabilities},"clientInfo":{info}}}"#,
        quote(version)
    )
}

async fn initialize(
    url: &str,
    version: &str,
    capabilities: &str,
    headers: &[(String, String)],
) -> Result<(Http, Answer), ClientError> {
    let http = http_client();
    let mut headers = headers.to_vec();
    headers.extend(content_headers());
    let body = message(
        Some("0"),
        "initialize",
        &initialize_params(version, capabilities),
    );
    let answer = open(&http, "0", http_request(Method::POST, url, &headers, body))
        .await?
        .try_finish()
        .await?;
    Ok((http, answer))
}
