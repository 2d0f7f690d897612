//! The table: a server's definition.

use super::{
    Key,
    Kind::{
        Boolean, Count, Duration, Free, Label, List, Map, OneOf, Section, Size, Text, Tool, Word,
    },
    Serving::{Live, LiveBut, Not},
    limits, section,
    served::{scope, tools, transport, warn},
};

section! {
    /// `mcp_servers.<name>`.
    server {
        COMMAND = "command": OneOf(&[Text, List(&Text)]), Live, "The program, or the program and its first arguments.";
        ARGS = "args": List(&Text), Live, "The arguments of the program.";
        ENV = "env": Map(&Text), Live, "Variables that it gets. The values are private.";
        ENV_FILE = "env_file": OneOf(&[Label(None), List(&Label(None))]), Live,
            "Files of `NAME=value` lines, read on every load. A name in `env` wins, then the last file.";
        ENV_PASS = "env_pass": List(&Label(Some(limits::VARIABLE))), Live, "Variables of the gateway that it gets as well.";
        CWD = "cwd": Text, Live, "The directory it runs in.";
        URL = "url" | "endpoint": Text, Live, "The HTTP endpoint.";
        TRANSPORT = "transport" | "type": Word(&["stdio", "http", "streamable-http", "sse"]), LiveBut(transport),
            "How it is spoken to. Inferred, but for `sse`.";
        HEADERS = "headers": Map(&Text), Live, "Headers of each request to it. The values are private.";
        AUTH = "auth": OneOf(&[Word(&["oauth"]), Free]), Not(warn), "How the gateway says who it is: `oauth`, or its settings.";
        TLS = "tls": Section(super::tls::ALL), Not(warn), "Certificates of the connection.";
        MODE = "mode": Word(&["subprocess", "remote"]), Live, "What `command` and `url` already say.";
        ENABLED = "enabled": Boolean, Live, "Whether it may be started.";
        LAZY = "lazy": Boolean, Live, "Whether it starts on first use only.";
        CONNECT_TIMEOUT = "connect_timeout": Duration(&limits::CONNECT_TIMEOUT), Live, "How long one attempt to connect may take.";
        TIMEOUT = "timeout": Duration(&limits::TIMEOUT), Live, "How long one call may take.";
        IDLE_TTL_S = "idle_ttl_s": Duration(&limits::IDLE), Live, "How long after its last call it is stopped; 0 is never.";
        KEEPALIVE_INTERVAL = "keepalive_interval": Duration(&limits::KEEPALIVE), Live, "How often an idle connection is tried; 0 is never.";
        PROTOCOL = "protocol": Word(crate::server::ProtocolChoice::WORDS), Live, "Which era of the protocol is spoken.";
        MAX_CONCURRENCY = "max_concurrency": Count(&limits::CONCURRENCY), Live,
            "Calls in flight at once. Without it, `execution.default_mcp_server_concurrency`.";
        MAX_RESPONSE_BYTES = "max_response_bytes": Size(&limits::RESPONSE_BYTES), Live,
            "The largest answer that is taken. Without it, `execution.max_response_bytes`.";
        SCOPE = "scope": Word(crate::server::Scope::WORDS), LiveBut(scope),
            "Who shares a connection: all callers, or those of one tenant. Without it `shared` in `egress`, `tenant` in `front_door`.";
        PREFIX = "prefix": Label(Some(limits::PREFIX)), Live, "The first part of its tools' names. Without it, the server's name.";
        CONTAINMENT = "containment": Word(crate::server::Containment::WORDS), Live, "How its processes are held together. `namespace` where there are none is a server that does not start.";
        TOOLS = "tools": OneOf(&[Section(super::tool_rules::ALL), List(&Tool)]), LiveBut(tools),
            "Which of its tools there are; or what they look like before its first start.";
        TOOL_ACCESS = "tool_access": Section(super::server_access::ALL), Live, "Which of its tools there are, by tenant.";
        MASK = "mask": Boolean, Not(warn), "Whether its secrets are masked in what it answers.";
        TRUST = "trust": Boolean, Not(warn), "Whether what it says of its tools' effects is believed.";
        DESCRIPTION = "description": Label(None), Live, "For people.";
    }
}

section! {
    /// `mcp_servers.<name>.tls`.
    tls {
        CA_FILE = "ca_file": Text, Not(warn), "Certificates that are trusted beside the usual ones.";
        CERT_FILE = "cert_file": Text, Not(warn), "The certificate that the gateway shows.";
        KEY_FILE = "key_file": Text, Not(warn), "The file of its key.";
    }
}

section! {
    /// `mcp_servers.<name>.tools` and `mcp_servers.<name>.tool_access.member.<tenant>`.
    tool_rules {
        ALLOW = "allow" | "include": List(&Label(None)), Live, "Globs of the tools that there are: `*` is any text, `?` any character. Without it, all.";
        DENY = "deny" | "exclude": List(&Label(None)), Live, "Globs of the tools that there are not, whatever `allow` says.";
    }
}

section! {
    /// `mcp_servers.<name>.tool_access`.
    server_access {
        MEMBER = "member": Map(&Section(super::tool_rules::ALL)), Live, "By tenant; narrows what `tools` leaves.";
    }
}
