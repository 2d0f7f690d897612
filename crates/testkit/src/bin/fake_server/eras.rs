//! What only one era has: handshake, discovery, subscriptions.

use std::time::Duration;

use crate::{
    http_rules::{check_legacy, check_modern},
    message::{META, RpcError, notification, object, quote},
    protocol::{LEGACY, MODERN, Reply, Request},
    script::{Effect, Step},
};

impl Request<'_> {
    pub(crate) fn answer_modern(&self) -> Result<Reply, RpcError> {
        if self.method == "initialize" {
            let asked = self.params.protocol_version.as_deref().unwrap_or_default();
            return Err(unsupported(asked));
        }
        if self.origin.is_http() {
            check_modern(self)?;
        }
        self.check_meta()?;
        match self.method {
            "server/discover" => Ok(self.delayed(self.discover())),
            "subscriptions/listen" => Ok(self.listen()),
            _ => self.answer_common(),
        }
    }

    fn check_meta(&self) -> Result<(), RpcError> {
        let version = self
            .meta
            .version
            .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let has_capabilities = self
            .meta
            .capabilities
            .is_some_and(|raw| raw.get().starts_with('{'));
        let (Some(version), true) = (version, has_capabilities) else {
            let needs = format!("_meta needs {META}protocolVersion and {META}clientCapabilities");
            return Err(RpcError::invalid(&needs).with_status(400));
        };
        if version == MODERN {
            Ok(())
        } else {
            Err(unsupported(&version))
        }
    }

    pub(crate) fn answer_legacy(&self) -> Result<Reply, RpcError> {
        // Before the session is looked for: a legacy server does not know the method, wherever it is asked.
        if self.method == "server/discover" {
            let status = if self.origin.is_http() { 400 } else { 200 };
            return Err(
                RpcError::new(-32601, "Method not found: server/discover").with_status(status)
            );
        }
        if self.method == "initialize" {
            return Ok(self.initialize());
        }
        if self.origin.is_http() {
            check_legacy(self)?;
        } else if self.session_version().is_none() && self.method != "ping" {
            return Err(RpcError::new(-32600, "initialize comes first"));
        }
        match self.method {
            "ping" | "logging/setLevel" => Ok(Reply::now("{}".to_owned())),
            "resources/subscribe" | "resources/unsubscribe" if !self.server.flags.tools_only => {
                Ok(self.subscribe())
            }
            _ => self.answer_common(),
        }
    }

    fn initialize(&self) -> Reply {
        let asked = self.params.protocol_version.as_deref().unwrap_or_default();
        let version = LEGACY
            .into_iter()
            .find(|known| *known == asked)
            .unwrap_or(LEGACY[0]);
        let result = object([
            ("protocolVersion", quote(version)),
            ("capabilities", self.capabilities()),
            ("serverInfo", self.server_info()),
            (
                "instructions",
                quote(&format!("{} is made for tests", self.server.flags.name)),
            ),
        ]);
        let capabilities = self
            .params
            .capabilities
            .map_or("{}", |raw| raw.get())
            .to_owned();
        let effect = Effect::Open {
            version: version.to_owned(),
            capabilities,
        };
        Reply {
            effect,
            ..self.delayed(result)
        }
    }

    fn discover(&self) -> String {
        object([
            ("supportedVersions", format!("[{}]", quote(MODERN))),
            ("capabilities", self.capabilities()),
            (
                "instructions",
                quote(&format!("{} is made for tests", self.server.flags.name)),
            ),
        ])
    }

    fn delayed(&self, result: String) -> Reply {
        let delay = self.server.flags.start_delay_ms;
        let before = if delay > 0 {
            vec![Step::Pause(Duration::from_millis(delay))]
        } else {
            Vec::new()
        };
        Reply::after(before, result)
    }

    fn capabilities(&self) -> String {
        if self.server.flags.tools_only {
            return r#"{"tools":{"listChanged":true}}"#.to_owned();
        }
        concat!(
            r#"{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"#,
            r#""prompts":{"listChanged":true},"completions":{},"logging":{}}"#
        )
        .to_owned()
    }

    pub(crate) fn server_info(&self) -> String {
        object([
            ("name", quote(&self.server.flags.name)),
            ("version", quote("1.0.0")),
        ])
    }

    fn listen(&self) -> Reply {
        let filter = self.params.notifications.clone();
        let mut honoured: Vec<(&str, String)> = [
            ("toolsListChanged", filter.tools_list_changed),
            ("promptsListChanged", filter.prompts_list_changed),
            ("resourcesListChanged", filter.resources_list_changed),
        ]
        .into_iter()
        .filter(|(_, wanted)| *wanted)
        .map(|(name, _)| (name, "true".to_owned()))
        .collect();
        if !filter.resource_subscriptions.is_empty() {
            let uris: Vec<String> = filter
                .resource_subscriptions
                .iter()
                .map(|uri| quote(uri))
                .collect();
            honoured.push(("resourceSubscriptions", format!("[{}]", uris.join(","))));
        }
        let params = object([
            (
                "_meta",
                format!(r#"{{"{META}subscriptionId":{}}}"#, self.id),
            ),
            ("notifications", object(honoured)),
        ]);
        let acknowledged = notification("notifications/subscriptions/acknowledged", Some(&params));
        Reply {
            effect: Effect::Listen { filter },
            ..Reply::never(vec![Step::Send(acknowledged), Step::Hang])
        }
    }

    fn subscribe(&self) -> Reply {
        if let (Some(session), Some(uri)) = (&self.origin.session, &self.params.uri) {
            self.server
                .state
                .subscribe(session, uri, self.method == "resources/subscribe");
        }
        Reply::now("{}".to_owned())
    }
}

fn unsupported(asked: &str) -> RpcError {
    let data = format!(
        r#"{{"supported":[{}],"requested":{}}}"#,
        quote(MODERN),
        quote(asked)
    );
    RpcError::new(-32022, "Unsupported protocol version")
        .with_status(400)
        .with_data(data)
}
