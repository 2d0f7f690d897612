//! The walk over a config.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Entries, Walk, seconds};
use crate::{
    access::{Auth, Oidc, RoleAssignment},
    model::Config,
    schema::{
        api_key, auth, auth_storage, config_reload, execution, headers, interceptors, logging,
        observability, oidc, param_validation, resource_links, resources, retention,
        role_assignment, shutdown, store, tenant_limit, tool_access, top, ui_resources, ui_tenant,
        validator, worker,
    },
    sections::{Execution, TenantLimits, Validator},
};

// === impl Walk ===

impl Walk {
    // Taken apart without `..`, so that a new field cannot be forgotten here.
    /// Writes a whole config.
    pub(crate) fn config(&mut self, config: &Config) -> Value {
        let Config {
            profile,
            listen,
            servers,
            store_url,
            platform_toolsets,
            model,
            terminal,
            agent,
            tool_access,
            auth,
            execution,
            validators,
            param_validation_required,
            ui_allowlists,
            max_resource_links,
            resource_uris,
            config_reload,
            worker,
            shutdown,
            drain,
            first_list_wait,
            retention,
            logging,
            observability,
            session_roots,
            allowed_hosts,
            allowed_origins,
        } = config;
        self.map(|map| {
            map.set(top::PROFILE, profile.as_str());
            map.set(top::LISTEN, listen.to_string());
            map.section(top::STORE, |map| {
                map.some_text(store::URL, store_url.as_ref());
            });
            map.with(top::MCP_SERVERS, |walk| {
                let servers = servers.iter().map(|(name, server)| (name.as_str(), server));
                walk.mapping(servers, Walk::server)
            });
            map.with(top::PLATFORM_TOOLSETS, |walk| {
                lists(walk, platform_toolsets)
            });
            map.some_free(top::MODEL, model.as_ref());
            map.some_free(top::TERMINAL, terminal.as_ref());
            map.some_free(top::AGENT, agent.as_ref());
            map.section(top::TOOL_ACCESS, |map| {
                map.set(tool_access::MODE, tool_access.mode.as_str());
                map.set(tool_access::SURFACE, tool_access.surface.as_str());
                map.set(tool_access::META_PREFIX, tool_access.meta_prefix.as_str());
                map.set(tool_access::NAMES, tool_access.names.as_str());
            });
            map.section(top::AUTH, |map| write_auth(map, auth));
            map.section(top::EXECUTION, |map| write_execution(map, execution));
            map.section(top::INTERCEPTORS, |map| {
                map.with(interceptors::VALIDATORS, |walk| {
                    walk.list(validators, write_validator)
                });
            });
            map.section(top::HEADERS, |map| {
                map.section(headers::PARAM_VALIDATION, |map| {
                    map.set(param_validation::REQUIRED, *param_validation_required);
                });
            });
            map.section(top::UI_RESOURCES, |map| {
                map.with(ui_resources::TENANTS, |walk| {
                    let tenants = ui_allowlists
                        .iter()
                        .map(|(tenant, allowed)| (tenant.as_str(), allowed));
                    walk.mapping(tenants, |walk, allowed| {
                        walk.map(|map| map.set(ui_tenant::ALLOWLIST, allowed.as_slice()))
                    })
                });
            });
            map.section(top::RESOURCE_LINKS, |map| {
                map.set(resource_links::MAX_PER_TENANT, *max_resource_links);
            });
            map.section(top::RESOURCES, |map| {
                map.set(resources::URIS, resource_uris.as_str());
            });
            map.section(top::CONFIG_RELOAD, |map| {
                map.set(config_reload::ENABLED, config_reload.enabled);
                map.set(config_reload::USE_WATCHDOG, config_reload.use_watchdog);
                map.set(config_reload::INTERVAL_S, seconds(config_reload.interval));
                let debounce = u64::try_from(config_reload.debounce.as_millis());
                map.set(config_reload::DEBOUNCE_MS, debounce.unwrap_or(u64::MAX));
            });
            map.section(top::WORKER, |map| {
                map.set(worker::MODE, worker.mode.as_str());
                map.set(worker::IDLE_TTL_S, seconds(worker.idle_ttl));
                map.set_some(worker::MAX, worker.max);
            });
            map.section(top::SHUTDOWN, |map| {
                map.set(shutdown::DRAIN_S, seconds(shutdown.drain));
            });
            map.set(top::DRAIN_S, seconds(*drain));
            map.set(top::FIRST_LIST_WAIT_S, seconds(*first_list_wait));
            map.section(top::RETENTION, |map| {
                map.set(retention::TURNS_DAYS, retention.turns_days);
                map.set(retention::GENERATIONS, retention.generations);
                map.set(retention::AUDIT_DAYS, retention.audit_days);
            });
            map.section(top::LOGGING, |map| {
                map.set(logging::LEVEL, logging.level.as_str());
                map.set(logging::JSON, logging.json);
            });
            map.section(top::OBSERVABILITY, |map| {
                let endpoint = observability.otlp_endpoint.as_ref();
                map.some_text(observability::OTLP_ENDPOINT, endpoint);
                map.with(observability::OTLP_HEADERS, |walk| {
                    walk.texts(&observability.otlp_headers)
                });
            });
            map.set(top::SESSION_ROOTS, session_roots.as_slice());
            map.set(top::ALLOWED_HOSTS, allowed_hosts.as_slice());
            map.set(top::ALLOWED_ORIGINS, allowed_origins.as_slice());
        })
    }
}

fn lists(walk: &mut Walk, lists: &BTreeMap<String, Vec<String>>) -> Value {
    let lists = lists.iter().map(|(key, list)| (key.as_str(), list));
    walk.mapping(lists, |_, list| list.as_slice().into())
}

fn write_auth(map: &mut Entries<'_>, auth: &Auth) {
    let Auth {
        enabled,
        allow_anonymous,
        api_key,
        storage,
        role_assignments,
        oidc,
    } = auth;
    map.set(auth::ENABLED, *enabled);
    map.set(auth::ALLOW_ANONYMOUS, *allow_anonymous);
    map.section(auth::API_KEY, |map| {
        map.set(api_key::ENABLED, api_key.enabled);
        map.set(api_key::HEADER_NAME, api_key.header_name.as_str());
    });
    if let Some(storage) = storage {
        map.section(auth::STORAGE, |map| {
            map.set(auth_storage::DRIVER, storage.driver.as_str());
            map.set_some(auth_storage::PATH, storage.path.as_deref());
        });
    }
    map.with(auth::ROLE_ASSIGNMENTS, |walk| {
        walk.list(role_assignments, |walk, assignment| {
            let RoleAssignment {
                principal,
                role,
                scope,
            } = assignment;
            walk.map(|map| {
                map.set(role_assignment::PRINCIPAL, principal.as_str());
                map.set(role_assignment::ROLE, role.as_str());
                map.set(role_assignment::SCOPE, scope.to_string());
            })
        })
    });
    if let Some(provider) = oidc {
        map.section(auth::OIDC, |map| write_oidc(map, provider));
    }
}

fn write_oidc(map: &mut Entries<'_>, oidc: &Oidc) {
    let Oidc {
        enabled,
        issuer,
        audience,
        client_id,
        jwks_uri,
        subject_claim,
        groups_claim,
        tenant_claim,
    } = oidc;
    map.set(oidc::ENABLED, *enabled);
    map.set(oidc::ISSUER, issuer.as_str());
    map.set_some(oidc::AUDIENCE, audience.as_deref());
    map.set_some(oidc::CLIENT_ID, client_id.as_deref());
    map.set_some(oidc::JWKS_URI, jwks_uri.as_deref());
    map.set(oidc::SUBJECT_CLAIM, subject_claim.as_str());
    map.set(oidc::GROUPS_CLAIM, groups_claim.as_str());
    map.set(oidc::TENANT_CLAIM, tenant_claim.as_str());
}

fn write_execution(map: &mut Entries<'_>, execution: &Execution) {
    let Execution {
        max_concurrency,
        default_mcp_server_concurrency,
        max_response_bytes,
        turn_result_bytes,
        tenant_limits,
    } = execution;
    map.set(execution::MAX_CONCURRENCY, *max_concurrency);
    map.set(
        execution::DEFAULT_MCP_SERVER_CONCURRENCY,
        *default_mcp_server_concurrency,
    );
    map.set(execution::MAX_RESPONSE_BYTES, *max_response_bytes);
    map.set(execution::TURN_RESULT_BYTES, *turn_result_bytes);
    map.with(execution::TENANT_LIMITS, |walk| {
        let limits = tenant_limits
            .iter()
            .map(|(tenant, limits)| (tenant.as_str(), limits));
        walk.mapping(limits, |walk, limits| {
            let TenantLimits {
                max_concurrency,
                rps,
                burst,
            } = *limits;
            walk.map(|map| {
                map.set_some(tenant_limit::MAX_CONCURRENCY, max_concurrency);
                map.set_some(tenant_limit::RPS, rps);
                map.set_some(tenant_limit::BURST, burst);
            })
        })
    });
}

fn write_validator(walk: &mut Walk, check: &Validator) -> Value {
    let Validator::PayloadSize { max_bytes } = *check;
    walk.map(|map| {
        map.set(validator::TYPE, "payload_size");
        map.set(validator::MAX_BYTES, max_bytes);
    })
}
