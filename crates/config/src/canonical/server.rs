//! The walk over the definition of a server.

use serde_json::Value;

use super::{Entries, Walk, seconds, sorted};
use crate::{
    schema::{server as keys, server_access, tls, tool_rules},
    server::{
        HttpDefinition, ServerDefinition, StdioDefinition, Tls, ToolRules, TransportDefinition,
    },
};

/// The key that says why a server cannot be started. It stands in the canonical form only.
pub(crate) const UNAVAILABLE: &str = "unavailable";

// === impl Walk ===

impl Walk {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    /// Writes the definition of a server, without its name.
    pub(crate) fn server(&mut self, server: &ServerDefinition) -> Value {
        let ServerDefinition {
            name: _,
            enabled,
            prefix,
            transport,
            connect_timeout,
            timeout,
            protocol,
            max_concurrency,
            max_response_bytes,
            description,
            env_files,
            auth,
            tls,
            lazy,
            idle_ttl,
            keepalive_interval,
            scope,
            containment,
            tools,
            tool_definitions,
            tenant_tools,
            mask,
            trust,
            unavailable,
        } = server;
        self.map(|map| {
            write_transport(map, transport, env_files);
            map.set(keys::ENABLED, *enabled);
            map.set(keys::PREFIX, prefix.as_str());
            map.set(keys::CONNECT_TIMEOUT, seconds(*connect_timeout));
            map.set(keys::TIMEOUT, seconds(*timeout));
            map.set(keys::PROTOCOL, protocol.as_str());
            map.set_some(keys::MAX_CONCURRENCY, *max_concurrency);
            map.set_some(keys::MAX_RESPONSE_BYTES, *max_response_bytes);
            map.set_some(keys::DESCRIPTION, description.as_deref());
            map.some_free(keys::AUTH, auth.as_ref());
            if let Some(tls) = tls {
                map.section(keys::TLS, |map| write_tls(map, tls));
            }
            map.set(keys::LAZY, *lazy);
            map.set(keys::IDLE_TTL_S, seconds(*idle_ttl));
            map.set(keys::KEEPALIVE_INTERVAL, seconds(*keepalive_interval));
            map.set(keys::SCOPE, scope.as_str());
            map.set(keys::CONTAINMENT, containment.as_str());
            if tool_definitions.is_empty() {
                map.section(keys::TOOLS, |map| write_rules(map, tools));
            } else {
                let definitions = tool_definitions.iter().cloned();
                map.set(keys::TOOLS, sorted(definitions.collect()));
            }
            map.section(keys::TOOL_ACCESS, |map| {
                map.with(server_access::MEMBER, |walk| {
                    let tenants = tenant_tools
                        .iter()
                        .map(|(tenant, rules)| (tenant.as_str(), rules));
                    walk.mapping(tenants, |walk, rules| {
                        walk.map(|map| write_rules(map, rules))
                    })
                });
            });
            map.set(keys::MASK, *mask);
            map.set(keys::TRUST, *trust);
            if let Some(reason) = unavailable {
                map.entry(UNAVAILABLE, |_| reason.as_str().into());
            }
        })
    }
}

fn write_transport(map: &mut Entries<'_>, transport: &TransportDefinition, env_files: &[String]) {
    map.set(keys::TRANSPORT, transport.word());
    match transport {
        TransportDefinition::Stdio(stdio) => {
            let StdioDefinition {
                command,
                args,
                env,
                env_pass,
                cwd,
            } = stdio;
            map.with(keys::COMMAND, |walk| walk.text(command));
            map.with(keys::ARGS, |walk| walk.list(args, Walk::text));
            map.with(keys::ENV, |walk| walk.texts(env));
            map.set(keys::ENV_FILE, env_files);
            map.set(keys::ENV_PASS, env_pass.as_slice());
            map.some_text(keys::CWD, cwd.as_ref());
        }
        TransportDefinition::Http(http) => {
            let HttpDefinition {
                url,
                headers,
                sse: _,
            } = http;
            map.with(keys::URL, |walk| walk.text(url));
            map.with(keys::HEADERS, |walk| walk.texts(headers));
        }
        TransportDefinition::Builtin => {}
    }
}

fn write_tls(map: &mut Entries<'_>, tls: &Tls) {
    let Tls {
        ca_file,
        cert_file,
        key_file,
    } = tls;
    map.some_text(tls::CA_FILE, ca_file.as_ref());
    map.some_text(tls::CERT_FILE, cert_file.as_ref());
    map.some_text(tls::KEY_FILE, key_file.as_ref());
}

fn write_rules(map: &mut Entries<'_>, rules: &ToolRules) {
    let ToolRules { allow, deny } = rules;
    map.set_some(tool_rules::ALLOW, allow.as_deref());
    map.set(tool_rules::DENY, deny.as_slice());
}
