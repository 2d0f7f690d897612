//! Plain HTTP, for the routes beside `/mcp`.

use http::Method;

use super::{
    answer::Answer,
    exchange::{ClientError, Http, Pending, http_client, open},
    modern::http_request,
};

/// A client of one listener's routes. Clones share the connection pool.
///
/// ```no_run
/// # async fn example() {
/// use genlock_testkit::clients::ApiClient;
///
/// let api = ApiClient::new("http://127.0.0.1:8717").with_header("authorization", "Bearer key");
/// assert_eq!(api.get("/health/live").await.status, 200);
///
/// let report = api.post("/api/config/reload", r#"{"dry_run":true}"#).await;
/// assert_eq!(report.json()["changed"], false);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ApiClient {
    base: String,
    http: Http,
    headers: Vec<(String, String)>,
}

// === impl ApiClient ===

impl ApiClient {
    /// A client of `http://ADDRESS:PORT`; a route behind it, such as `/mcp`, is cut off.
    ///
    /// # Panics
    /// Where it is no `http://` URL.
    #[must_use]
    pub fn new(url: &str) -> Self {
        let host = url.strip_prefix("http://").expect("an http URL");
        let host = host.split('/').next().unwrap_or(host);
        Self {
            base: format!("http://{host}"),
            http: http_client(),
            headers: Vec::new(),
        }
    }

    /// Sends this header with every request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gets a route.
    pub async fn get(&self, route: &str) -> Answer {
        self.request(Method::GET, route, &[], "").await
    }

    /// Posts JSON to a route.
    pub async fn post(&self, route: &str, body: &str) -> Answer {
        self.request(
            Method::POST,
            route,
            &[("content-type", "application/json")],
            body,
        )
        .await
    }

    /// Sends a request and waits for the whole answer.
    ///
    /// # Panics
    /// Where none comes.
    pub async fn request(
        &self,
        method: Method,
        route: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.open(method, route, headers, body)
            .await
            .expect("the request is answered")
            .finish()
            .await
    }

    /// Sends a request and waits for the headers of its answer, as for a stream of events.
    ///
    /// # Errors
    /// Where none come.
    pub async fn open(
        &self,
        method: Method,
        route: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Pending, ClientError> {
        let mut all = self.headers.clone();
        all.extend(
            headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let url = format!("{}{route}", self.base);
        open(
            &self.http,
            "null",
            http_request(method, &url, &all, body.to_owned()),
        )
        .await
    }
}
