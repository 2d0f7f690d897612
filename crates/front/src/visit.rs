//! Who comes in at the HTTP door: the check of the host, then of the credential.
//!
//! Nobody is served by being unclear: a credential that is there twice, in the URL or unreadable is refused.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::SystemTime,
};

use axum::response::Response as HttpResponse;
use genlock_access::{Attempts, Decision, KeyFault, KeyRing, Permission, Principal, Visitor};
use genlock_config::Auth;
use genlock_policy::{Gate, Revocation, RevocationKind};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use serde_json::json;

use crate::{
    front::Front,
    guard, reply,
    witness::{Refusal, Target},
    world::World,
};

/// What clients are told that have to say who they are.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"genlock\"");
/// What a key begins with, wherever it stands.
const KEY: &str = "glk_";

/// What is answered to an address that is locked out.
const TOO_MANY: &str = "auth.too_many_attempts";

/// The address that a request came from, as the host knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress(pub IpAddr);

/// What verifies credentials.
pub struct Keys {
    ring: KeyRing,
    attempts: Attempts,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// What is asked of a visitor before anything of a request is read.
#[derive(Clone, Copy)]
pub(crate) struct Asks<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) uri: &'a Uri,
    pub(crate) remote: Option<IpAddr>,
}

/// A visitor who was let in, and under what.
pub(crate) struct Visit {
    pub(crate) world: Arc<World>,
    pub(crate) visitor: Visitor,
}

/// Why nobody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unclear {
    /// There is no credential.
    Missing,
    /// There is more than one.
    Ambiguous,
    /// One stands in the URL, where logs and histories keep it.
    InUrl,
    /// It is not taken.
    Refused(&'static str),
}

type Refused = Box<HttpResponse>;

// === impl Keys ===

impl Keys {
    /// Verifies by these keys, at the time of this clock.
    pub fn new(ring: KeyRing, clock: Arc<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        Self {
            ring,
            attempts: Attempts::default(),
            clock,
        }
    }

    fn now_ms(&self) -> i64 {
        let since = (self.clock)().duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns who the key with this id is of, and why it is not taken now, where it is not.
    pub(crate) fn find(&self, id: &str) -> Option<(Arc<Principal>, Option<KeyFault>)> {
        self.ring.find(id, self.now_ms())
    }

    /// Returns who a request is of.
    fn principal(&self, auth: &Auth, asks: &Asks<'_>) -> Result<Arc<Principal>, Unclear> {
        match credential(asks, &auth.api_key.header_name)? {
            Some(_) if !auth.api_key.enabled => Err(Unclear::Refused("auth.keys_disabled")),
            Some(key) => self
                .ring
                .verify(key, self.now_ms())
                .map_err(|fault| Unclear::Refused(fault.code())),
            None if auth.allow_anonymous => Ok(Arc::new(Principal::anonymous())),
            None => Err(Unclear::Missing),
        }
    }

    /// Returns whose key a refused request shows, where it shows one that was good once.
    fn owner(&self, auth: &Auth, asks: &Asks<'_>) -> Option<Arc<Principal>> {
        let key = credential(asks, &auth.api_key.header_name).ok()??;
        self.ring.owner(key)
    }

    /// Answers who is not let in. What a wrong credential was wrong about, which is the code, is not for the answer.
    fn refuse(&self, unclear: Unclear, remote: Option<IpAddr>) -> (&'static str, Refused) {
        let (status, code, text) = match unclear {
            Unclear::Missing => (
                StatusCode::UNAUTHORIZED,
                "auth.required",
                "say who you are: an API key in its header, or `Authorization: Bearer`",
            ),
            Unclear::Ambiguous => (
                StatusCode::BAD_REQUEST,
                "auth.ambiguous",
                "the credential is there more than once",
            ),
            Unclear::InUrl => (
                StatusCode::BAD_REQUEST,
                "auth.key_in_url",
                "a credential in the URL is refused: send it in a header, and revoke it, as logs may hold it",
            ),
            Unclear::Refused(why) => {
                let address = remote.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                let now = self.now_ms();
                self.attempts.failed(address, now);
                // Who is locked out does not fill the log either.
                if let Some(wait) = self.attempts.wait_s(address, now) {
                    return (TOO_MANY, too_many(wait));
                }
                tracing::warn!(why, %address, "a credential was refused");
                (
                    StatusCode::UNAUTHORIZED,
                    "auth.refused",
                    "the credential is not taken",
                )
            }
        };
        let mut response = reply::failure(status, code, text);
        if status == StatusCode::UNAUTHORIZED {
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        let code = match unclear {
            Unclear::Refused(why) => why,
            Unclear::Missing | Unclear::Ambiguous | Unclear::InUrl => code,
        };
        (code, Box::new(response))
    }
}

fn too_many(wait: u64) -> Refused {
    let mut response = reply::failure(
        StatusCode::TOO_MANY_REQUESTS,
        TOO_MANY,
        "too many wrong credentials came from this address",
    );
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(wait));
    Box::new(response)
}

/// Returns the credential of a request, where there is one.
fn credential<'a>(asks: &Asks<'a>, header_name: &str) -> Result<Option<&'a str>, Unclear> {
    if asks.uri.query().is_some_and(names_a_credential) {
        return Err(Unclear::InUrl);
    }
    let own = HeaderName::from_bytes(header_name.as_bytes()).ok();
    let own = own.filter(|name| *name != header::AUTHORIZATION);
    let own = own.map(|name| asks.headers.get_all(name));
    let mut keys = own.into_iter().flatten();
    let mut bearers = asks.headers.get_all(header::AUTHORIZATION).iter();
    match (keys.next(), bearers.next(), keys.next().or(bearers.next())) {
        (None, None, _) => Ok(None),
        (Some(key), None, None) => text(key).map(Some),
        (None, Some(bearer), None) => {
            let (scheme, token) = text(bearer)?
                .split_once(' ')
                .ok_or(Unclear::Refused("auth.malformed_key"))?;
            match scheme.eq_ignore_ascii_case("bearer") {
                true => Ok(Some(token.trim())),
                false => Err(Unclear::Refused("auth.malformed_key")),
            }
        }
        (Some(_), Some(_), _) | (_, _, Some(_)) => Err(Unclear::Ambiguous),
    }
}

fn text(value: &HeaderValue) -> Result<&str, Unclear> {
    value
        .to_str()
        .map_err(|_| Unclear::Refused("auth.malformed_key"))
}

/// Tells whether a query holds a key, or a parameter that others put credentials in.
fn names_a_credential(query: &str) -> bool {
    const NAMES: [&str; 7] = [
        "access_token",
        "api_key",
        "api-key",
        "apikey",
        "key",
        "token",
        "x-api-key",
    ];
    let named = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    query.contains(KEY) || query.split('&').any(named)
}

/// Returns where a request came from.
pub(crate) fn remote(extensions: &Extensions) -> Option<IpAddr> {
    let RemoteAddress(address) = extensions.get()?;
    Some(*address)
}

/// Answers who is let in and may not do this.
pub(crate) fn forbidden(missing: Permission) -> HttpResponse {
    let message = format!("this needs the permission `{missing}`");
    let details = json!({"permission": missing.name()});
    reply::json_body(
        StatusCode::FORBIDDEN,
        &json!({"error": {"code": "permission_denied", "message": message, "details": details}}),
    )
}

impl Front {
    /// Refuses what comes from a stranger, before anything of it is read.
    pub(crate) fn check_door(&self, asks: &Asks<'_>) -> Result<Visit, Refused> {
        let world = self.world();
        let config = &world.config;
        guard::check(asks, config).map_err(|stranger| {
            self.tell_stranger(asks, &world, stranger.gate(), stranger.code(), None);
            Box::new(reply::failure(
                guard::Stranger::STATUS,
                stranger.code(),
                stranger.message(),
            ))
        })?;
        let visitor = match config.auth.enabled {
            false => Visitor::Local,
            true => {
                let keys = &self.inner.keys;
                let principal = keys
                    .principal(&config.auth, asks)
                    .and_then(|principal| match self.is_revoked(&principal) {
                        true => Err(Unclear::Refused(KeyFault::Revoked.code())),
                        false => Ok(principal),
                    });
                Visitor::Known(principal.map_err(|unclear| {
                    let (code, refused) = keys.refuse(unclear, asks.remote);
                    let of = keys.owner(&config.auth, asks).map(Visitor::Known);
                    self.tell_stranger(asks, &world, Gate::Credential, code, of.as_ref());
                    refused
                })?)
            }
        };
        Ok(Visit { world, visitor })
    }

    /// Tells of a request that was refused at the door.
    fn tell_stranger(
        &self,
        asks: &Asks<'_>,
        world: &World,
        gate: Gate,
        code: &str,
        of: Option<&Visitor>,
    ) {
        self.tell_refused(&Refusal {
            gate,
            code,
            visitor: of,
            address: asks.remote,
            generation: world.generation,
            target: Target::Unseen,
            missing: None,
        });
    }

    /// Admits a request whose body has arrived: returns what it sees from here on, and who asks.
    ///
    /// A body may take long. Where another configuration came into force meanwhile, or the credential ended, the request is
    /// under that, so that nobody keeps an older one by being slow.
    pub(crate) fn admit(
        &self,
        let_in: Visit,
        asks: &Asks<'_>,
    ) -> Result<(Arc<World>, Visitor), Refused> {
        let same = self.world().is_of_the_same_config(&let_in.world);
        let visit = match (&let_in.visitor, same) {
            (Visitor::Local, true) => let_in,
            (Visitor::Local | Visitor::Known(_), _) => self.check_door(asks)?,
        };
        if let Some(session) = &self.inner.pinned
            && let Some(revocation) = self.revoked().denies(RevocationKind::Session, session)
        {
            let refused = reply::failure(
                StatusCode::FORBIDDEN,
                Revocation::CODE,
                &revocation.to_string(),
            );
            return Err(Box::new(refused));
        }
        Ok((self.world_of(&visit.visitor), visit.visitor))
    }

    /// Tells whether a visitor who was let in would be let in again, for streams that stay open.
    pub fn would_let_in(&self, visitor: &Visitor) -> bool {
        let auth = &self.world().config.auth;
        match visitor {
            _ if !auth.enabled => true,
            Visitor::Local => false,
            Visitor::Known(principal) => match &principal.key {
                None => auth.allow_anonymous,
                Some(id) => {
                    let keys = &self.inner.keys;
                    auth.api_key.enabled
                        && !self.is_revoked(principal)
                        && keys.ring.takes(id, keys.now_ms())
                }
            },
        }
    }

    /// Tells whether the key of a principal is revoked by the generation in force: refused as one that the store has revoked.
    fn is_revoked(&self, principal: &Principal) -> bool {
        let revoked = self.revoked();
        let key = principal.key.as_deref();
        key.is_some_and(|id| revoked.denies(RevocationKind::Key, id).is_some())
    }

    /// Decides whether a visitor may do something in the whole gateway, under the configuration in force.
    ///
    /// While there is no authentication, a local caller may look, and ask for a reload.
    pub fn may(&self, visitor: &Visitor, permission: Permission) -> Decision {
        match (visitor, permission) {
            (Visitor::Local, Permission::Read | Permission::Reload) => Decision::Allowed,
            (
                Visitor::Local,
                Permission::ToolList
                | Permission::ToolInvoke
                | Permission::Operate
                | Permission::Keys
                | Permission::Audit,
            ) => Decision::Missing(permission),
            (Visitor::Known(principal), _) => self.world().roles.may(principal, permission, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        uri: &'static str,
        pairs: &[(&'static str, &'static str)],
    ) -> Result<Option<String>, Unclear> {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect();
        let asks = Asks {
            headers: &headers,
            uri: &Uri::from_static(uri),
            remote: None,
        };
        credential(&asks, "X-API-Key").map(|found| found.map(str::to_owned))
    }

    #[test]
    fn a_credential_stands_in_one_header_once() {
        let malformed = Err(Unclear::Refused("auth.malformed_key"));
        type Row<'a> = (
            &'a [(&'static str, &'static str)],
            Result<Option<String>, Unclear>,
        );
        let one = || Ok(Some("k".to_owned()));
        let table: [Row<'_>; 10] = [
            (&[], Ok(None)),
            (&[("x-api-key", "k")], one()),
            (&[("authorization", "Bearer k")], one()),
            (&[("authorization", "bearer  k")], one()),
            (&[("authorization", "k")], malformed.clone()),
            (&[("authorization", "Basic k")], malformed),
            (
                &[("x-api-key", "k"), ("x-api-key", "k")],
                Err(Unclear::Ambiguous),
            ),
            (
                &[("x-api-key", "k"), ("authorization", "Bearer k")],
                Err(Unclear::Ambiguous),
            ),
            (
                &[("authorization", "Bearer k"), ("authorization", "Bearer k")],
                Err(Unclear::Ambiguous),
            ),
            (&[("x-other", "k")], Ok(None)),
        ];
        for (headers, expected) in table {
            // `FromIterator` of a header map replaces, so that doubles are appended by hand.
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            let asks = Asks {
                headers: &map,
                uri: &Uri::from_static("/mcp?surface=flat"),
                remote: None,
            };
            let found = credential(&asks, "X-API-Key").map(|found| found.map(str::to_owned));
            assert_eq!(found, expected, "{headers:?}");
        }
    }

    #[test]
    fn a_credential_in_the_url_is_refused_also_beside_a_good_one() {
        for uri in [
            "/mcp?api_key=k",
            "/mcp?a=1&TOKEN=k",
            "/mcp?x=glk_abc",
            "/mcp?access_token",
        ] {
            assert_eq!(
                judged(uri, &[("x-api-key", "k")]),
                Err(Unclear::InUrl),
                "{uri}"
            );
        }
        assert_eq!(judged("/mcp?surface=flat", &[]), Ok(None));
    }
}
