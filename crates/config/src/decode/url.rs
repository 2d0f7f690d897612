//! URLs, hosts and origins.

use http::uri::{Authority, Uri};

/// Says what is wrong with `url` as the address of a server, if anything is.
pub(crate) fn fault(url: &str) -> Option<&'static str> {
    if url.contains('#') {
        return Some("has a fragment (`#…`), which is never sent");
    }
    let expected = Some("expected an absolute URL such as `https://example.com/mcp`");
    let Ok(uri) = url.parse::<Uri>() else {
        return expected;
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return expected;
    };
    match scheme {
        "http" | "https" if is_authority(authority) => None,
        "http" | "https" => Some("has no usable host or port"),
        _ => Some("expected a URL that starts with `http://` or `https://`"),
    }
}

/// Says whether `text` is `host` or `host:port`.
pub(crate) fn is_host(text: &str) -> bool {
    !text.contains(['*', '@'])
        && text
            .parse::<Authority>()
            .is_ok_and(|authority| is_authority(&authority))
}

/// Says whether `text` is `scheme://host` or `scheme://host:port`.
pub(crate) fn is_origin(text: &str) -> bool {
    let scheme_fits = |scheme: &str| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    };
    text.split_once("://")
        .is_some_and(|(scheme, host)| scheme_fits(scheme) && is_host(host))
}

fn is_authority(authority: &Authority) -> bool {
    let text = authority.as_str();
    let address = text.rsplit_once('@').map_or(text, |(_, address)| address);
    let host = authority.host();
    let port = address.strip_prefix(host);
    let port_fits = match port {
        Some("") => true,
        Some(port) => port
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok()),
        None => false,
    };
    !host.is_empty() && host != "[]" && port_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_http_urls_with_a_host_are_taken() {
        let good = [
            "http://127.0.0.1:9/mcp",
            "https://example.com",
            "https://[::1]:8443/x?y=z",
            "https://user:pass@example.com/",
            "HTTPS://EXAMPLE.com",
        ];
        let bad = [
            "",
            "/mcp",
            "example.com",
            "example.com:80",
            "ftp://example.com",
            "file:///x",
            "http://",
            "http:///mcp",
            "http://h:99999/",
            "http://:80/",
            "http://a b/",
            "http://h/#f",
            "http://u@/",
        ];

        for url in good {
            assert_eq!(fault(url), None, "{url}");
        }
        for url in bad {
            assert!(fault(url).is_some(), "{url}");
        }
    }

    #[test]
    fn hosts_and_origins_have_no_path_and_no_wildcard() {
        for host in ["localhost", "a.b:80", "[::1]", "[::1]:80", "10.0.0.1"] {
            assert!(is_host(host), "{host}");
            assert!(is_origin(&format!("https://{host}")), "{host}");
        }
        for host in [
            "", "*", "*.a", "a/b", "u@a", "a:x", "http://a", "a b", "a:99999",
        ] {
            assert!(!is_host(host), "{host}");
            assert!(!is_origin(&format!("https://{host}")), "{host}");
        }
        for origin in ["null", "*", "a.b", "https://a/", "://a", "1s://a"] {
            assert!(!is_origin(origin), "{origin}");
        }
        assert!(is_origin("vscode-file://vscode-app"));
    }
}
