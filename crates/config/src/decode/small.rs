//! The small sections of the top level.

use std::{collections::BTreeMap, time::Duration};

use super::{
    http,
    section::{Field, Section},
    text::Privacy,
    top::list,
};
use crate::{
    model::Config,
    schema::{
        config_reload, execution, headers, interceptors, limits, logging, observability,
        param_validation, resource_links, resources, retention, shutdown, store, tenant_limit, top,
        ui_resources, ui_tenant, validator, worker,
    },
    sections::{
        ConfigReload, Execution, LogLevel, Logging, Observability, ResourceUris, Retention,
        TenantLimits, Validator, Worker, WorkerMode,
    },
    text::Text,
};

/// Decodes the small sections of `top`.
pub(crate) fn decode(top: &Section<'_>, config: &mut Config) {
    top.with(top::STORE, |field| {
        config.store_url = field.section(store::ALL).get(store::URL, store_url);
    });
    top.with(top::PLATFORM_TOOLSETS, |field| {
        field.refuse_tag(false);
        let sources = "a mapping from sources to lists of names";
        config.platform_toolsets = field.names(sources, |field| names(*field));
    });
    config.model = top.get(top::MODEL, |field| field.free_mapping());
    config.terminal = top.get(top::TERMINAL, |field| field.free_mapping());
    config.agent = top.get(top::AGENT, |field| field.free_mapping());
    top.with(top::EXECUTION, |field| {
        decode_execution(&field.section(execution::ALL), &mut config.execution);
    });
    top.with(top::INTERCEPTORS, |field| {
        let section = field.section(interceptors::ALL);
        section.with(interceptors::VALIDATORS, |field| {
            config.validators = list(field, "a list of checks", |item| check(&item));
        });
    });
    top.with(top::HEADERS, |field| {
        let section = field.section(headers::ALL);
        section.with(headers::PARAM_VALIDATION, |field| {
            let section = field.section(param_validation::ALL);
            let required = &mut config.param_validation_required;
            section.set(param_validation::REQUIRED, required, |field| {
                field.boolean()
            });
        });
    });
    top.with(top::UI_RESOURCES, |field| {
        let section = field.section(ui_resources::ALL);
        section.with(ui_resources::TENANTS, |field| {
            field.refuse_tag(false);
            config.ui_allowlists = field.names("a mapping by tenant", |field| {
                let section = field.section(ui_tenant::ALL);
                let allowed = section.with(ui_tenant::ALLOWLIST, ui_prefixes);
                allowed.unwrap_or_default()
            });
        });
    });
    top.with(top::RESOURCE_LINKS, |field| {
        let section = field.section(resource_links::ALL);
        let most = &mut config.max_resource_links;
        section.set(resource_links::MAX_PER_TENANT, most, |field| {
            field.count(limits::LINKS)
        });
    });
    top.with(top::RESOURCES, |field| {
        let section = field.section(resources::ALL);
        section.set(resources::URIS, &mut config.resource_uris, |field| {
            field.word(ResourceUris::WORDS, ResourceUris::from_word)
        });
    });
    top.with(top::CONFIG_RELOAD, |field| {
        decode_reload(
            &field.section(config_reload::ALL),
            &mut config.config_reload,
        );
    });
    top.with(top::WORKER, |field| {
        decode_worker(&field.section(worker::ALL), &mut config.worker);
    });
    top.with(top::SHUTDOWN, |field| {
        let section = field.section(shutdown::ALL);
        section.set(shutdown::DRAIN_S, &mut config.shutdown.drain, |field| {
            field.duration(limits::DRAIN)
        });
    });
    top.set(top::DRAIN_S, &mut config.drain, |field| {
        field.duration(limits::DRAIN)
    });
    top.set(
        top::FIRST_LIST_WAIT_S,
        &mut config.first_list_wait,
        |field| field.duration(limits::FIRST_LIST_WAIT),
    );
    top.with(top::RETENTION, |field| {
        decode_retention(&field.section(retention::ALL), &mut config.retention);
    });
    top.with(top::LOGGING, |field| {
        decode_logging(&field.section(logging::ALL), &mut config.logging);
    });
    top.with(top::OBSERVABILITY, |field| {
        config.observability = decode_observability(&field.section(observability::ALL));
    });
}

fn store_url(field: Field<'_>) -> Option<Text> {
    let url = field.some_text(Privacy::Url)?;
    let known = ["sqlite:", "postgres://", "postgresql://"];
    if !url.is_missing() && !known.iter().any(|start| url.expose().starts_with(start)) {
        let message = "expected a URL that starts with `sqlite:` or `postgres://`";
        field.error("config.invalid_url", message);
        return None;
    }
    Some(url)
}

fn names(field: Field<'_>) -> Vec<String> {
    list(field, "a list of names", |item| item.name("a name"))
}

fn ui_prefixes(field: Field<'_>) -> Vec<String> {
    list(field, "a list of prefixes", |item| {
        let prefix = item.label("a prefix")?;
        if !prefix.starts_with("ui://") {
            let message = "expected a prefix that starts with `ui://`";
            item.error("config.unknown_value", message);
            return None;
        }
        Some(prefix.to_owned())
    })
}

fn decode_execution(section: &Section<'_>, execution: &mut Execution) {
    let concurrency = |field: Field<'_>| field.count(limits::CONCURRENCY);
    let size = |field: Field<'_>| field.size(limits::RESPONSE_BYTES);
    section.set(
        execution::MAX_CONCURRENCY,
        &mut execution.max_concurrency,
        concurrency,
    );
    section.set(
        execution::DEFAULT_MCP_SERVER_CONCURRENCY,
        &mut execution.default_mcp_server_concurrency,
        concurrency,
    );
    section.set(
        execution::MAX_RESPONSE_BYTES,
        &mut execution.max_response_bytes,
        size,
    );
    section.set(
        execution::TURN_RESULT_BYTES,
        &mut execution.turn_result_bytes,
        size,
    );
    section.with(execution::TENANT_LIMITS, |field| {
        field.refuse_tag(false);
        execution.tenant_limits = field.names("a mapping by tenant", tenant_limits);
    });
}

fn tenant_limits(field: &Field<'_>) -> TenantLimits {
    let section = field.section(tenant_limit::ALL);
    let rate = |field: Field<'_>| field.count(limits::RATE);
    TenantLimits {
        max_concurrency: section.get(tenant_limit::MAX_CONCURRENCY, |field| {
            field.count(limits::CONCURRENCY)
        }),
        rps: section.get(tenant_limit::RPS, rate),
        burst: section.get(tenant_limit::BURST, rate),
    }
}

fn check(field: &Field<'_>) -> Option<Validator> {
    let section = field.section(validator::ALL);
    let known = section.get(validator::TYPE, |field| {
        field.word(&["payload_size"], |word| {
            (word == "payload_size").then_some(())
        })
    });
    let max_bytes = section.get(validator::MAX_BYTES, |field| {
        field.size(limits::PAYLOAD_BYTES)
    });
    for key in [validator::TYPE, validator::MAX_BYTES] {
        if !section.has(key) {
            let message = format!("needs `{}`", key.name);
            section.report("config.missing_key", message, "add it");
        }
    }
    known?;
    Some(Validator::PayloadSize {
        max_bytes: max_bytes?,
    })
}

fn decode_reload(section: &Section<'_>, reload: &mut ConfigReload) {
    section.set(config_reload::ENABLED, &mut reload.enabled, |field| {
        field.boolean()
    });
    section.set(
        config_reload::USE_WATCHDOG,
        &mut reload.use_watchdog,
        |field| field.boolean(),
    );
    section.set(config_reload::INTERVAL_S, &mut reload.interval, |field| {
        field.duration(limits::INTERVAL)
    });
    section.set(config_reload::DEBOUNCE_MS, &mut reload.debounce, |field| {
        let milliseconds = field.count(limits::MILLISECONDS)?;
        Some(Duration::from_millis(milliseconds.into()))
    });
}

fn decode_worker(section: &Section<'_>, worker: &mut Worker) {
    section.set(worker::MODE, &mut worker.mode, |field| {
        field.word(WorkerMode::WORDS, WorkerMode::from_word)
    });
    section.set(worker::IDLE_TTL_S, &mut worker.idle_ttl, |field| {
        field.duration(limits::IDLE)
    });
    worker.max = section.get(worker::MAX, |field| field.count(limits::WORKERS));
}

fn decode_retention(section: &Section<'_>, retention: &mut Retention) {
    let days = |field: Field<'_>| field.count(limits::DAYS);
    section.set(retention::TURNS_DAYS, &mut retention.turns_days, days);
    section.set(
        retention::GENERATIONS,
        &mut retention.generations,
        |field| field.count(limits::GENERATIONS),
    );
    section.set(retention::AUDIT_DAYS, &mut retention.audit_days, days);
}

fn decode_logging(section: &Section<'_>, logging: &mut Logging) {
    section.set(logging::LEVEL, &mut logging.level, |field| {
        field.word(LogLevel::WORDS, LogLevel::from_word)
    });
    section.set(logging::JSON, &mut logging.json, |field| field.boolean());
}

fn decode_observability(section: &Section<'_>) -> Observability {
    let endpoint = section.get(observability::OTLP_ENDPOINT, http::address);
    let headers: Option<BTreeMap<_, _>> = section.with(observability::OTLP_HEADERS, |field| {
        http::any_headers(&field)
    });
    Observability {
        otlp_endpoint: endpoint,
        otlp_headers: headers.unwrap_or_default(),
    }
}
