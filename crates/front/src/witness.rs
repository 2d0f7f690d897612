//! [`Witness`]: who is told what a front refused.

use std::net::IpAddr;

use genlock_access::{Permission, Visitor};
use genlock_policy::{Gate, GenerationNumber};

/// Is told of every refusal of a front, on the path of the request: it must not wait.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use genlock_front::{Refusal, Witness};
///
/// #[derive(Default)]
/// struct Counted(AtomicU64);
///
/// impl Witness for Counted {
///     fn refused(&self, _: &Refusal<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Witness: Send + Sync {
    /// Takes note of a refusal.
    fn refused(&self, refusal: &Refusal<'_>);
}

/// A refusal, borrowed from the request that it is of. Nothing in it is an argument, the value of a header, or a key.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// What refused.
    pub gate: Gate,
    /// The stable code.
    pub code: &'a str,
    /// Who asked, where that is known.
    pub visitor: Option<&'a Visitor>,
    /// Where the request came from, where it was refused at the door.
    pub address: Option<IpAddr>,
    /// The generation that it was refused under.
    pub generation: Option<GenerationNumber>,
    /// What was asked for.
    pub target: Target<'a>,
    /// The permission that is missing.
    pub missing: Option<Permission>,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// Nobody looked at it.
    Unseen,
    /// A route: its HTTP method and its own path.
    Route(&'a str, &'a str),
    /// A name, as the caller wrote it.
    Name(&'a str),
    /// A tool of a server, either as the caller may have written it.
    Tool {
        /// The server.
        server: &'a str,
        /// The tool, by the server's own name.
        tool: &'a str,
    },
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc, time::SystemTime};

    use genlock_access::{ApiKey, KeyHasher, KeyRing, Principal, StoredKey};
    use genlock_config::{Variables, parse};
    use genlock_mcp::{Era, RawJson, RawObject, Request};
    use genlock_servers::{PoolBuilder, Servers};
    use http::{HeaderMap, HeaderValue, Uri, header};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Front, FrontParts, Keys, exchange::Caller, visit::Asks};

    const CONFIG: &str = "
auth:
  enabled: true
  role_assignments: [{ principal: 'svc:a', role: service-account }]
tool_access: { mode: front_door }
mcp_servers:
  one: { command: none, enabled: false, tools: { deny: ['secret_*'] }, tool_access: { member: { red: { allow: [time] } } } }
";

    /// Keeps what it is told, as text.
    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Witness for Kept {
        fn refused(&self, refusal: &Refusal<'_>) {
            let who = match refusal.visitor {
                Some(Visitor::Known(principal)) => principal.subject.clone(),
                Some(Visitor::Local) => "local".to_owned(),
                None => "nobody".to_owned(),
            };
            let told = format!(
                "{who} {:?} {} {} {:?} {:?}",
                refusal.address,
                refusal.gate.as_str(),
                refusal.code,
                refusal.target,
                refusal.missing
            );
            self.0.lock().push(told);
        }
    }

    struct Stage {
        front: Front,
        kept: Arc<Kept>,
        revoked: ApiKey,
    }

    fn principal(subject: &str, tenant: Option<&str>) -> Arc<Principal> {
        Arc::new(Principal {
            subject: subject.to_owned(),
            tenant: tenant.map(str::to_owned),
            ..Principal::anonymous()
        })
    }

    fn stage() -> Stage {
        let config = parse(CONFIG, "genlock.yaml".into(), &Variables::empty());
        let ring = KeyRing::new(KeyHasher::new(&[7; 32]));
        let revoked = ApiKey::new(&[1; 32]);
        ring.add(&StoredKey {
            id: "key_1".to_owned(),
            hash: ring.hasher().hash(&revoked),
            principal: principal("svc:old", None),
            expires_ms: None,
            revoked: true,
        });
        let kept = Arc::new(Kept::default());
        let front = Front::new(FrontParts {
            generation: None,
            config: Arc::new(config.unwrap().config),
            servers: Servers::default(),
            pool: Arc::new(PoolBuilder::new(|| SystemTime::UNIX_EPOCH, || 0.0).build()),
            keys: Keys::new(ring, Arc::new(|| SystemTime::UNIX_EPOCH)),
            entropy: Arc::new(|| [7; 16]),
            pinned: None,
            witness: Some(Arc::clone(&kept) as Arc<dyn Witness>),
        });
        Stage {
            front,
            kept,
            revoked,
        }
    }

    impl Stage {
        async fn call(&self, visitor: Visitor, name: &str, arguments: &Value) {
            let params = json!({"name": name, "arguments": arguments});
            let request = Request {
                id: RawJson::encode(&1),
                method: "tools/call".to_owned(),
                params: RawObject::parse(&RawJson::encode(&params)).unwrap(),
            };
            let world = self.front.world_of(&visitor);
            let caller = Caller {
                visitor,
                era: Era::Modern,
                capabilities: None,
                surface: None,
                headers: None,
                events: None,
            };
            self.front.handle(world, request, caller).await;
        }

        fn knock(&self, host: &str, key: Option<&str>) {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            if let Some(key) = key {
                headers.insert("x-api-key", HeaderValue::from_str(key).unwrap());
            }
            let asks = Asks {
                headers: &headers,
                uri: &Uri::from_static("/mcp"),
                remote: Some(Ipv4Addr::LOCALHOST.into()),
            };
            assert!(self.front.check_door(&asks).is_err());
        }

        fn told(&self) -> Vec<String> {
            std::mem::take(&mut *self.kept.0.lock())
        }
    }

    #[tokio::test]
    async fn a_refused_tool_is_told_with_why() {
        let stage = stage();
        let of = |tenant| Visitor::Known(principal("svc:a", tenant));
        let arguments = json!({"token": "canary-of-an-argument"});

        stage.call(of(Some("red")), "one__other", &arguments).await;
        stage.call(of(Some("red")), "one__time", &arguments).await;
        stage
            .call(of(Some("blue")), "one__secret_a", &arguments)
            .await;
        stage.call(of(None), "one__time", &arguments).await;
        let stranger = Visitor::Known(principal("svc:b", Some("red")));
        stage.call(stranger, "one__time", &arguments).await;
        stage.call(Visitor::Local, "one__time", &arguments).await;

        let tool = |tool| Target::Tool {
            server: "one",
            tool,
        };
        let name = Target::Name("one__time");
        let expected = [
            format!("svc:a None tool tool_not_allowed {:?} None", tool("other")),
            // It may be there; it is the server that is not.
            format!("svc:a None tool unknown_tool {name:?} None"),
            format!(
                "svc:a None tool tool_not_allowed {:?} None",
                tool("secret_a")
            ),
            format!("svc:a None tenant no_tenant {name:?} None"),
            format!("svc:b None role permission_denied {name:?} Some(ToolInvoke)"),
            format!("local None credential auth.required {name:?} None"),
        ];
        assert_eq!(stage.told(), expected);
    }

    #[tokio::test]
    async fn who_is_not_let_in_is_told_once_each_without_the_credential() {
        let stage = stage();
        let revoked = stage.revoked.expose().to_owned();

        stage.knock("evil.example", Some(&revoked));
        stage.knock("localhost", None);
        stage.knock("localhost", Some("glk_nonsense"));
        stage.knock("localhost", Some(&revoked));
        for _ in 0..9 {
            stage.knock("localhost", Some("glk_nonsense"));
        }

        let at_home = |rest: &str| format!("Some(127.0.0.1) {rest} Unseen None");
        let malformed = || format!("nobody {}", at_home("credential auth.malformed_key"));
        let too_many = || format!("nobody {}", at_home("credential auth.too_many_attempts"));
        let mut expected = vec![
            format!("nobody {}", at_home("host http.host_not_allowed")),
            format!("nobody {}", at_home("credential auth.required")),
            malformed(),
            format!("svc:old {}", at_home("credential auth.revoked_key")),
        ];
        expected.extend(std::iter::repeat_with(malformed).take(7));
        expected.extend(std::iter::repeat_with(too_many).take(2));
        assert_eq!(stage.told(), expected);
    }
}
