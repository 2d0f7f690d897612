//! The table: the top level and its sections, apart from the servers.

use super::{
    Key,
    Kind::{Boolean, Count, Duration, Free, Label, List, Map, Section, Size, Text, Word},
    Serving::{ByKey, Live, LiveBut, Not, Restart, RestartBut},
    limits, section,
    served::{driver, refuse, warn, worker_mode},
};

section! {
    /// The top level.
    top {
        PROFILE = "profile": Label(Some(limits::PROFILE)), Restart,
            "The id of the profile, which all stored rows are scoped by.";
        LISTEN = "listen": Label(None), Restart,
            "The IP address and port on which HTTP is served.";
        STORE = "store": Section(super::store::ALL), Not(warn),
            "Where generations and sessions are stored.";
        MCP_SERVERS = "mcp_servers" | "mcpServers": Map(&Section(crate::schema::server::ALL)), ByKey,
            "The MCP servers by name.";
        PLATFORM_TOOLSETS = "platform_toolsets": Map(&List(&Label(None))), Live,
            "By source, the toolsets and servers that a session of that source gets.";
        MODEL = "model": Free, Not(warn), "The model that text turns run with.";
        TERMINAL = "terminal": Free, Not(warn), "The terminal that text turns run with.";
        AGENT = "agent": Free, Not(warn), "How text turns are run.";
        TOOL_ACCESS = "tool_access": Section(super::tool_access::ALL), ByKey, "How tools are shown, and to whom.";
        AUTH = "auth": Section(super::auth::ALL), ByKey, "Who may call.";
        EXECUTION = "execution": Section(super::execution::ALL), ByKey, "Limits of calls.";
        INTERCEPTORS = "interceptors": Section(super::interceptors::ALL), Live, "What is checked of each call.";
        HEADERS = "headers": Section(super::headers::ALL), Live, "What is checked of the headers of each request.";
        UI_RESOURCES = "ui_resources": Section(super::ui_resources::ALL), Live, "Which `ui://` resources are shown, and to whom.";
        RESOURCE_LINKS = "resource_links": Section(super::resource_links::ALL), Live, "How long a handed-out `resource_link` can be read.";
        RESOURCES = "resources": Section(super::resources::ALL), Live, "How resources are shown.";
        CONFIG_RELOAD = "config_reload": Section(super::config_reload::ALL), Restart, "How changes of this file are seen.";
        WORKER = "worker": Section(super::worker::ALL), ByKey, "The processes that run turns.";
        SHUTDOWN = "shutdown": Section(super::shutdown::ALL), Live, "How the process ends.";
        DRAIN_S = "drain_s": Duration(&limits::DRAIN), Live,
            "How long calls in flight to a changed or removed server may take.";
        FIRST_LIST_WAIT_S = "first_list_wait_s": Duration(&limits::FIRST_LIST_WAIT), Restart,
            "How long the first listing waits for servers that still connect.";
        RETENTION = "retention": Section(super::retention::ALL), ByKey, "How long what is done is kept.";
        LOGGING = "logging": Section(super::logging::ALL), Restart, "What is logged, and how.";
        OBSERVABILITY = "observability": Section(super::observability::ALL), Not(warn), "Where traces are sent.";
        SESSION_ROOTS = "session_roots": List(&Label(Some("^/"))), Not(refuse),
            "The directories below which a session may work.";
        ALLOWED_HOSTS = "allowed_hosts": List(&Label(None)), Live,
            "`Host` headers that are accepted beside the listener's own, as `host` or `host:port`.";
        ALLOWED_ORIGINS = "allowed_origins": List(&Label(None)), Live,
            "`Origin` headers that are accepted, as `scheme://host[:port]`.";
    }
}

section! {
    /// `store`.
    store {
        URL = "url": Text, Not(warn), "A database: `sqlite:…` or `postgres://…`. Without it, SQLite in the state directory.";
    }
}

section! {
    /// `tool_access`.
    tool_access {
        MODE = "mode": Word(crate::sections::Mode::WORDS), Restart,
            "`egress` for callers that are trusted, `front_door` for callers that are not. Pinned at boot: a reload that changes it is refused.";
        SURFACE = "surface": Word(crate::sections::Surface::WORDS), Live,
            "Which tools are listed. Without it `both` in `egress`, `flat` in `front_door`.";
        META_PREFIX = "meta_prefix": Label(Some(limits::META_PREFIX)), Live,
            "The first part of the meta tools' names, as in `genlock_call`.";
        NAMES = "names": Word(crate::sections::NameRule::WORDS), Live,
            "When a tool's name carries its server's prefix.";
    }
}

section! {
    /// `auth`.
    auth {
        ENABLED = "enabled": Boolean, Live, "Whether callers have to say who they are.";
        ALLOW_ANONYMOUS = "allow_anonymous": Boolean, Live,
            "Whether a caller without a credential is served, as the principal `anonymous`, which may do what bindings grant it.";
        API_KEY = "api_key": Section(super::api_key::ALL), ByKey, "Keys made by `genlock keys create`.";
        STORAGE = "storage": Section(super::auth_storage::ALL), ByKey, "Where keys are stored.";
        ROLE_ASSIGNMENTS = "role_assignments": List(&Section(super::role_assignment::ALL)), Live, "Who may do what.";
        OIDC = "oidc": Section(super::oidc::ALL), Not(warn), "Tokens of an OpenID provider.";
    }
}

section! {
    /// `auth.api_key`.
    api_key {
        ENABLED = "enabled": Boolean, Live, "Whether API keys are taken.";
        HEADER_NAME = "header_name": Label(None), Live, "The header that carries a key. A bearer token is taken as well.";
    }
}

section! {
    /// `auth.storage`.
    auth_storage {
        DRIVER = "driver": Word(crate::access::StorageDriver::WORDS), RestartBut(driver),
            "`store` for the profile's own store, `sqlite` for a file of its own. `memory` is taken for `store`.";
        PATH = "path": Label(None), Restart, "The file, for `sqlite`, below the state directory where it is relative. Without it, `auth.db`.";
    }
}

section! {
    /// An item of `auth.role_assignments`.
    role_assignment {
        PRINCIPAL = "principal": Label(None), Live, "A principal, or `group:` and a group.";
        ROLE = "role": Word(crate::access::Role::WORDS), Live, "What it may do.";
        SCOPE = "scope": Label(Some(limits::SCOPE)), Live, "`global`, or `tenant:` and a tenant.";
    }
}

section! {
    /// `auth.oidc`.
    oidc {
        ENABLED = "enabled": Boolean, Not(warn), "Whether tokens of the provider are taken.";
        ISSUER = "issuer": Label(None), Not(warn), "The URL of the provider.";
        AUDIENCE = "audience": Label(None), Not(warn), "Whom a token has to be made for.";
        CLIENT_ID = "client_id": Label(None), Not(warn), "The client's id at the provider.";
        JWKS_URI = "jwks_uri": Label(None), Not(warn), "Where the provider's keys are, if it does not say so itself.";
        SUBJECT_CLAIM = "subject_claim": Label(None), Not(warn), "The claim that holds the principal.";
        GROUPS_CLAIM = "groups_claim": Label(None), Not(warn), "The claim that holds the groups.";
        TENANT_CLAIM = "tenant_claim": Label(None), Not(warn), "The claim that holds the tenant.";
    }
}

section! {
    /// `execution`.
    execution {
        MAX_CONCURRENCY = "max_concurrency": Count(&limits::CONCURRENCY), Live, "Calls in flight at once.";
        DEFAULT_MCP_SERVER_CONCURRENCY = "default_mcp_server_concurrency": Count(&limits::CONCURRENCY), Live,
            "Calls in flight at once to one server that sets no limit of its own.";
        MAX_RESPONSE_BYTES = "max_response_bytes": Size(&limits::RESPONSE_BYTES), Live,
            "The largest answer taken from a server that sets no limit of its own.";
        TURN_RESULT_BYTES = "turn_result_bytes": Size(&limits::RESPONSE_BYTES), Live,
            "The largest result of a call that is stored with its turn.";
        TENANT_LIMITS = "tenant_limits": Map(&Section(super::tenant_limit::ALL)), Live,
            "Limits by tenant; `*` for each that has none of its own.";
    }
}

section! {
    /// `execution.tenant_limits.<tenant>`.
    tenant_limit {
        MAX_CONCURRENCY = "max_concurrency": Count(&limits::CONCURRENCY), Live, "Calls in flight at once.";
        RPS = "rps": Count(&limits::RATE), Live, "Calls a second.";
        BURST = "burst": Count(&limits::RATE), Live, "Calls that may come at once; as many as `rps` where it is not set.";
    }
}

section! {
    /// `interceptors`.
    interceptors {
        VALIDATORS = "validators": List(&Section(super::validator::ALL)), Live, "Checks, in this order.";
    }
}

section! {
    /// An item of `interceptors.validators`.
    validator {
        TYPE = "type": Word(&["payload_size"]), Live, "The kind of check.";
        MAX_BYTES = "max_bytes": Size(&limits::PAYLOAD_BYTES), Live, "The largest arguments of a call, as JSON.";
    }
}

section! {
    /// `headers`.
    headers {
        PARAM_VALIDATION = "param_validation": Section(super::param_validation::ALL), Live,
            "Whether the headers of a call agree with its parameters.";
    }
}

section! {
    /// `headers.param_validation`.
    param_validation {
        REQUIRED = "required": Boolean, Live,
            "Whether a call is refused whose headers could not be checked against its schema.";
    }
}

section! {
    /// `ui_resources`.
    ui_resources {
        TENANTS = "tenants": Map(&Section(super::ui_tenant::ALL)), Live, "By tenant.";
    }
}

section! {
    /// `ui_resources.tenants.<tenant>`.
    ui_tenant {
        ALLOWLIST = "allowlist": List(&Label(Some("^ui://"))), Live, "The prefixes that this tenant may see. None is none.";
    }
}

section! {
    /// `resource_links`.
    resource_links {
        MAX_PER_TENANT = "max_per_tenant": Count(&limits::LINKS), Live,
            "How many handed-out `resource_link`s a tenant keeps; the newest win.";
    }
}

section! {
    /// `resources`.
    resources {
        URIS = "uris": Word(crate::sections::ResourceUris::WORDS), Live, "Whether URIs name their server.";
    }
}

section! {
    /// `config_reload`.
    config_reload {
        ENABLED = "enabled": Boolean, Restart, "Whether a change of the file is a trigger of its own.";
        USE_WATCHDOG = "use_watchdog": Boolean, Restart, "Whether the system tells of changes, beside the interval.";
        INTERVAL_S = "interval_s": Duration(&limits::INTERVAL), Restart, "How often the file is looked at.";
        DEBOUNCE_MS = "debounce_ms": Count(&limits::MILLISECONDS), Restart, "How long the file has to be left alone first, in milliseconds.";
    }
}

section! {
    /// `worker`.
    worker {
        MODE = "mode": Word(crate::sections::WorkerMode::WORDS), LiveBut(worker_mode), "Who starts workers: the gateway, or a supervisor.";
        IDLE_TTL_S = "idle_ttl_s": Duration(&limits::IDLE), Live, "How long a worker without a turn is kept.";
        MAX = "max": Count(&limits::WORKERS), Not(warn), "How many there are at most.";
    }
}

section! {
    /// `shutdown`.
    shutdown {
        DRAIN_S = "drain_s": Duration(&limits::DRAIN), Live, "How long calls in flight may take after the first signal.";
    }
}

section! {
    /// `retention`.
    retention {
        TURNS_DAYS = "turns_days": Count(&limits::DAYS), Not(warn), "How long turns are kept.";
        GENERATIONS = "generations": Count(&limits::GENERATIONS), Not(warn), "How many generations are kept. What a session pins stays.";
        AUDIT_DAYS = "audit_days": Count(&limits::DAYS), Live, "How long the audit is kept.";
    }
}

section! {
    /// `logging`.
    logging {
        LEVEL = "level": Word(crate::sections::LogLevel::WORDS), Restart, "The least important level that is logged.";
        JSON = "json": Boolean, Restart, "One JSON object a line in place of text.";
    }
}

section! {
    /// `observability`.
    observability {
        OTLP_ENDPOINT = "otlp_endpoint": Text, Not(warn), "Where traces are sent, by OTLP over HTTP.";
        OTLP_HEADERS = "otlp_headers": Map(&Text), Not(warn), "Headers of what is sent there. The values are private.";
    }
}
