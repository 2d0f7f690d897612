//! What every HTTP request must be before it is looked at: from a host and an origin that are ours, and not relayed.
//!
//! A browser page on any site can send requests to a loopback address, also under a name of its own that resolves there
//! (DNS rebinding). The `Host` and `Origin` headers tell.

use genlock_config::Config;
use genlock_policy::Gate;
use http::{HeaderName, StatusCode, header};

use crate::visit::Asks;

/// Why a request is refused at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    Host,
    Origin,
    Relayed,
    Remote,
}

const RELAYED: [HeaderName; 4] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
];

impl Stranger {
    pub(crate) const STATUS: StatusCode = StatusCode::FORBIDDEN;

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Host => "http.host_not_allowed",
            Self::Origin => "http.origin_not_allowed",
            Self::Relayed => "http.relayed",
            Self::Remote => "http.not_local",
        }
    }

    /// Returns what refuses them, for whoever keeps a record of it.
    pub(crate) fn gate(self) -> Gate {
        match self {
            Self::Host => Gate::Host,
            Self::Origin => Gate::Origin,
            Self::Relayed | Self::Remote => Gate::Local,
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => {
                "the `Host` header names no host of this gateway; list it under `allowed_hosts`"
            }
            Self::Origin => {
                "requests from this origin are not allowed; list it under `allowed_origins`"
            }
            Self::Relayed => {
                "a relayed request is not a local one, and only local callers are served without auth"
            }
            Self::Remote => "only callers on this machine are served without auth",
        }
    }
}

/// Checks the headers of a request.
///
/// Who has to say who they are may come from anywhere, also by way of a proxy. All others are on this machine.
pub(crate) fn check(asks: &Asks<'_>, config: &Config) -> Result<(), Stranger> {
    let Asks {
        headers,
        uri,
        remote,
    } = *asks;
    let (hosts, origins) = (&config.allowed_hosts, &config.allowed_origins);
    if !config.auth.enabled {
        if remote.is_some_and(|address| !address.to_canonical().is_loopback()) {
            return Err(Stranger::Remote);
        }
        if RELAYED.iter().any(|name| headers.contains_key(name)) {
            return Err(Stranger::Relayed);
        }
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(http::uri::Authority::as_str));
    if !host.is_some_and(|host| is_loopback(host) || listed(host, hosts)) {
        return Err(Stranger::Host);
    }
    match headers.get(header::ORIGIN).map(|origin| origin.to_str()) {
        None => Ok(()),
        Some(Ok(origin))
            if is_own_origin(origin)
                || origins.iter().any(|own| own.eq_ignore_ascii_case(origin)) =>
        {
            Ok(())
        }
        Some(_) => Err(Stranger::Origin),
    }
}

/// Tells whether `host[:port]` is a loopback name.
fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || name == "[::1]" || is_loopback_v4(name)
}

fn is_loopback_v4(name: &str) -> bool {
    name.parse::<std::net::Ipv4Addr>()
        .is_ok_and(|address| address.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            name
        }
        _ => host,
    }
}

/// An entry with a port allows that port, one without allows every port.
fn listed(host: &str, hosts: &[String]) -> bool {
    hosts
        .iter()
        .any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(without_port(host)))
}

fn is_own_origin(origin: &str) -> bool {
    let rest = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http::{HeaderMap, HeaderValue, Uri};

    use super::*;

    fn config(auth: bool) -> Config {
        let mut config = Config {
            allowed_hosts: vec!["gate.example".to_owned()],
            allowed_origins: vec!["https://app.example".to_owned()],
            ..Config::default()
        };
        config.auth.enabled = auth;
        config
    }

    #[test]
    fn without_auth_only_callers_on_this_machine_come_in() {
        let headers = HeaderMap::from_iter([
            (header::HOST, HeaderValue::from_static("gate.example")),
            (header::FORWARDED, HeaderValue::from_static("for=10.0.0.1")),
        ]);
        let from = |address, auth| {
            let asks = Asks {
                headers: &headers,
                uri: &Uri::from_static("/mcp"),
                remote: Some(IpAddr::V4(address)),
            };
            check(&asks, &config(auth))
        };

        let (far, near) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::LOCALHOST);
        assert_eq!(from(far, false), Err(Stranger::Remote));
        assert_eq!(from(near, false), Err(Stranger::Relayed));
        assert_eq!((from(far, true), from(near, true)), (Ok(()), Ok(())));
    }

    fn judged(pairs: &[(&'static str, &'static str)]) -> Result<(), Stranger> {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect();
        let asks = Asks {
            headers: &headers,
            uri: &Uri::from_static("/mcp"),
            remote: None,
        };
        check(&asks, &config(false))
    }

    #[test]
    fn only_own_hosts_and_origins_come_in() {
        type Row<'a> = (&'a [(&'static str, &'static str)], Result<(), Stranger>);
        let table: [Row<'_>; 13] = [
            (&[("host", "localhost:8717")], Ok(())),
            (&[("host", "127.0.0.1")], Ok(())),
            (&[("host", "[::1]:8717")], Ok(())),
            (&[("host", "gate.example:443")], Ok(())),
            (&[("host", "evil.example")], Err(Stranger::Host)),
            (&[("host", "127.0.0.1.evil.example")], Err(Stranger::Host)),
            (
                &[("host", "localhost.evil.example:80")],
                Err(Stranger::Host),
            ),
            (&[], Err(Stranger::Host)),
            (
                &[("host", "localhost"), ("origin", "http://localhost:3000")],
                Ok(()),
            ),
            (
                &[("host", "localhost"), ("origin", "https://app.example")],
                Ok(()),
            ),
            (
                &[("host", "localhost"), ("origin", "null")],
                Err(Stranger::Origin),
            ),
            (
                &[("host", "localhost"), ("origin", "http://evil.example")],
                Err(Stranger::Origin),
            ),
            (
                &[("host", "localhost"), ("x-forwarded-for", "10.0.0.1")],
                Err(Stranger::Relayed),
            ),
        ];
        for (headers, expected) in table {
            assert_eq!(judged(headers), expected, "{headers:?}");
        }
    }
}
