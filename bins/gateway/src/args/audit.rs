//! The arguments of `genlock audit`.

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// Only from this time on, such as `2026-07-01T12:00:00Z`, or from so long ago, such as `24h`.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only before this time, or before so long ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only of this subject: `uid:1000`, `svc:a` for its keys, `address:10.0.0.7` for who did not say who they are.
    #[arg(long, value_name = "NAME")]
    pub(crate) subject: Option<String>,
    /// Only of this tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only this action, such as `key.create`, or this kind of action, such as `key`.
    #[arg(long, value_name = "WORD")]
    pub(crate) action: Option<String>,
    /// Only what was done, or what was refused.
    #[arg(long, value_enum)]
    pub(crate) outcome: Option<Outcome>,
    /// The newest so many [default: 100; all of them with `--jsonl`].
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        default_value_if("jsonl", "true", None)
    )]
    pub(crate) limit: Option<u64>,
    /// Prints one JSON object a line.
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Goes on with what is recorded from now on, oldest first, until Ctrl-C. The gateway has to run.
    #[arg(long)]
    pub(crate) follow: bool,
}

/// What came of what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Outcome {
    /// It was done.
    Done,
    /// It was refused.
    Refused,
}
