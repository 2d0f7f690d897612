//! The tools that are always there.

/// Name, description, and the properties of the input schema.
pub(super) const TOOLS: [(&str, &str, &str); 23] = [
    (
        "echo",
        "Answers with `text`.",
        r#"{"text":{"type":"string"}}"#,
    ),
    (
        "add",
        "Answers with a + b.",
        r#"{"a":{"type":"number"},"b":{"type":"number"}}"#,
    ),
    (
        "raw",
        "Answers with the exact bytes of its arguments.",
        "{}",
    ),
    (
        "sleep",
        "Answers after `ms` milliseconds.",
        r#"{"ms":{"type":"integer"}}"#,
    ),
    (
        "hold",
        "Creates held.KEY in the control directory, answers once release.KEY is there.",
        r#"{"key":{"type":"string"}}"#,
    ),
    (
        "progress",
        "Reports `steps` steps.",
        r#"{"steps":{"type":"integer"},"delay_ms":{"type":"integer"}}"#,
    ),
    (
        "log",
        "Sends a log message before it answers.",
        r#"{"level":{"type":"string"},"text":{"type":"string"}}"#,
    ),
    (
        "ask",
        "Asks its client for an elicitation, a sampling or the roots (`kind`), and answers with the answer.",
        r#"{"kind":{"type":"string"}}"#,
    ),
    (
        "panel",
        "Answers with text, and has a panel to be shown in.",
        "{}",
    ),
    (
        "links",
        "Answers with resource links and an embedded resource.",
        "{}",
    ),
    ("fail", "Answers with an error result.", "{}"),
    (
        "rpc_error",
        "Answers with a JSON-RPC error.",
        r#"{"code":{"type":"integer"}}"#,
    ),
    (
        "big",
        "Answers with `bytes` bytes of text.",
        r#"{"bytes":{"type":"integer"}}"#,
    ),
    (
        "instance",
        "Answers with an id that is new at every start.",
        "{}",
    ),
    (
        "env",
        "Answers with an environment variable, or with its BLAKE3 digest, which may be stored.",
        r#"{"name":{"type":"string"},"digest":{"type":"boolean"}}"#,
    ),
    (
        "env_names",
        "Answers with the names of all environment variables.",
        "{}",
    ),
    ("cwd", "Answers with the working directory.", "{}"),
    (
        "cancelled",
        "Answers with the ids of the calls that were cancelled.",
        "{}",
    ),
    ("counts", "Answers with what the server has counted.", "{}"),
    (
        "headers",
        "Answers with the HTTP headers of this request.",
        "{}",
    ),
    (
        "grandchild",
        "Answers with the pid of the grandchild.",
        "{}",
    ),
    ("die", "Ends the process without an answer.", "{}"),
    ("hang", "Never answers.", "{}"),
];
