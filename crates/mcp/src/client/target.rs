//! [`HttpTarget`]: where an HTTP upstream is, and what every request to it carries.

use ::http::{HeaderMap, HeaderValue, Uri, header::AUTHORIZATION};
use base64::{Engine, engine::general_purpose::STANDARD};

/// Where an HTTP upstream is and what every request to it carries.
#[derive(Clone)]
pub struct HttpTarget {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
}

impl HttpTarget {
    /// Names an upstream by its URL and the headers of every request; the values are kept out of logs.
    ///
    /// # Errors
    /// Where the URL is no absolute `http` or `https` URL, or a header cannot be sent. Neither is quoted.
    pub fn new<'a>(
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InvalidTarget> {
        let mut uri: Uri = url.parse().map_err(|_| InvalidTarget::Url)?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidTarget::Url);
        }
        let mut map = HeaderMap::new();
        if let Some((bare, credentials)) = take_userinfo(&uri) {
            uri = bare.ok_or(InvalidTarget::Url)?;
            map.insert(AUTHORIZATION, credentials.ok_or(InvalidTarget::Url)?);
        }
        for (name, value) in headers {
            let refuse = || InvalidTarget::Header {
                name: name.to_owned(),
            };
            let name = ::http::HeaderName::try_from(name).map_err(|_| refuse())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| refuse())?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(Self { uri, headers: map })
    }
}

/// Splits `user:password@` off a URL: what is left, and the header that carries it. `None` where there is none.
fn take_userinfo(uri: &Uri) -> Option<(Option<Uri>, Option<HeaderValue>)> {
    let (userinfo, host) = uri.authority()?.as_str().rsplit_once('@')?;
    let mut parts = uri.clone().into_parts();
    parts.authority = host.parse().ok();
    let plain = percent_decode(userinfo)?;
    let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(plain))).ok();
    if let Some(value) = &mut header {
        value.set_sensitive(true);
    }
    Some((Uri::from_parts(parts).ok(), header))
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        decoded.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    Some(decoded)
}

/// A target that no request can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// The URL is no absolute `http` or `https` URL.
    #[error("not an absolute http or https URL")]
    Url,
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_of_a_url_travels_in_a_header() {
        let target = HttpTarget::new("https://me:p%40ss@host.example:8443/mcp?x=1", []).unwrap();
        assert_eq!(target.uri, "https://host.example:8443/mcp?x=1");
        assert_eq!(
            target.headers.get(AUTHORIZATION).unwrap(),
            "Basic bWU6cEBzcw=="
        );
        assert!(target.headers.get(AUTHORIZATION).unwrap().is_sensitive());
    }

    #[test]
    fn only_absolute_http_urls_are_targets() {
        for url in ["", "/mcp", "host:80", "ftp://host/", "http:///x"] {
            assert_eq!(
                HttpTarget::new(url, []).err(),
                Some(InvalidTarget::Url),
                "{url}"
            );
        }
    }
}
