//! The arguments of `genlock`.

use std::{net::SocketAddr, time::Duration};

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand, ValueEnum};

mod audit;
mod work;

pub(crate) use self::{
    audit::{AuditArgs, Outcome},
    work::{CallArg, CreateArgs, SessionsCommand, SubmitArgs, TurnsCommand, WaitArgs},
};

/// The MCP gateway in which a configuration change reaches a session only as a committed policy generation.
#[derive(Debug, Parser)]
#[command(name = "genlock", version, about, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the gateway's files are.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaceArgs {
    /// The config file [default: ./genlock.yaml, else genlock/genlock.yaml in the user's config directory].
    #[arg(long, global = true, env = "GENLOCK_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<Utf8PathBuf>,
    /// The state directory [default: genlock in the user's state directory].
    #[arg(long, global = true, env = "GENLOCK_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<Utf8PathBuf>,
    /// A directory below which `${file:…}` may read, beside that of the config, `/run/secrets` and
    /// `$CREDENTIALS_DIRECTORY`.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) secret_dir: Vec<Utf8PathBuf>,
    /// How lists and errors are printed.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How lists and errors are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the gateway.
    ///
    /// Without a config file anywhere it serves a built-in demo server. Ctrl-C drains: calls that run may finish; a second
    /// one ends at once.
    Serve(ServeArgs),
    /// Checks the config file and prints every finding with its place. Exit code 78 where there is an error.
    Check,
    /// Reads the config again and brings it into force as a new generation; prints what changed.
    ///
    /// With `--session` it also moves that session to the new generation. Exit code 75 where turns of the session are in
    /// the way (ask again once they are over), 69 where servers did not connect and nothing else took effect.
    #[command(after_help = "\
Examples:
  genlock reload --dry-run
  genlock reload
  genlock reload --session 0f6d…")]
    Reload(ReloadArgs),
    /// Shows and takes back earlier configurations.
    #[command(subcommand)]
    Generations(GenerationsCommand),
    /// Lists sessions, or creates, shows, resumes and closes one.
    ///
    /// A session is a long piece of work: it runs the configuration that it was created under until it is moved to the next
    /// by `resume` or by `reload --session`.
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Gives a session work, and looks after it.
    #[command(subcommand)]
    Turns(TurnsCommand),
    /// Says why a session, or the caller with a key, has a tool or not: each gate in order, the one that decided, and what
    /// would change it.
    #[command(after_help = "\
Examples:
  genlock explain --key 3f2a… github__create_issue
  genlock explain --session 0f6d… github/create_issue")]
    Explain(ExplainArgs),
    /// Makes, lists, replaces and revokes API keys, whether the gateway runs or not.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Shows who did what, and who was refused what, newest first, whether the gateway runs or not.
    #[command(after_help = "\
Examples:
  genlock audit --since 24h --outcome refused
  genlock audit --subject svc:a --action key
  genlock audit --jsonl > audit.jsonl")]
    Audit(AuditArgs),
    /// Revokes a server, a tool, a key or a session for everybody, at once.
    ///
    /// It is refused from that moment on, in every session and on every connection, whatever they pin; connections to a revoked
    /// server are closed. It holds over reloads, rollbacks and restarts until it is lifted by its number.
    #[command(
        arg_required_else_help = true,
        after_help = "\
Examples:
  genlock revoke server github --reason 'its token leaked'
  genlock revoke tool github/delete_repo --reason 'under review'
  genlock revoke list
  genlock revoke --lift 7"
    )]
    Revoke(RevokeArgs),
    /// Prints the JSON Schema of the config file.
    Schema,
    /// Shows the running gateway and its servers.
    Status,
    /// Lists the servers with their states, or asks something of one.
    Servers {
        #[command(subcommand)]
        command: Option<ServersCommand>,
    },
    /// Starts every server once and keeps its list of tools, so that lists are complete from the first moment on.
    Warm(WarmArgs),
    /// Prints what to paste into a client's config.
    ClientConfig(ClientConfigArgs),
    /// Runs the built-in demo server on standard input and output.
    DemoServer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where HTTP is served [default: `listen` of the config, 127.0.0.1:8717]. Port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serves one client on standard input and output.
    ///
    /// Where a gateway runs on the state directory already, the client is attached to that one, so that all windows
    /// share the same servers; HTTP is served only with `--listen`.
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Refuses to start where the config is not valid, instead of serving the last good generation.
    #[arg(long)]
    pub(crate) strict_boot: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    /// Moves this session to the new generation as well.
    #[arg(long, value_name = "ID", conflicts_with = "if_generation")]
    pub(crate) session: Option<String>,
    /// Stops before the commit and prints what would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Refuses where the head is another generation by now.
    #[arg(long, value_name = "N")]
    pub(crate) if_generation: Option<u64>,
    /// Allows a config without servers to take the place of one that has some.
    #[arg(long)]
    pub(crate) confirm_mass_removal: bool,
    /// How long the report waits for servers that were started, such as `10` or `1m`.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// The tool: a name as it is listed, or `server/tool`.
    pub(crate) tool: String,
}

/// Whose view is asked for.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Whose {
    /// The session whose view is explained.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The id of the key whose holder's view is explained.
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenerationsCommand {
    /// Lists generations, newest first.
    List,
    /// Shows one, its config redacted.
    Show {
        /// The generation.
        number: u64,
    },
    /// Shows what changed from one to another, redacted.
    Diff {
        /// The earlier one.
        from: u64,
        /// The later one.
        to: u64,
    },
    /// Commits the content of an earlier generation as a new one.
    Rollback {
        /// The earlier generation.
        number: u64,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Makes a key and prints it, for the only time. It is taken from that moment on.
    Create(CreateKeyArgs),
    /// Lists the keys, without what is secret of them.
    List,
    /// Makes a key that replaces another, for the same principal, and prints it for the only time.
    ///
    /// The other key is taken for a while more, so that there is time to bring the new one to where it is used.
    Rotate {
        /// The id of the key that is replaced.
        id: String,
        /// How long that key is taken from now on, such as `12h`; `0` ends it at once.
        #[arg(long, value_parser = duration, value_name = "TIME", default_value = "24h")]
        grace: Duration,
    },
    /// Revokes a key for good, from this moment on.
    Revoke {
        /// The id of the key.
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateKeyArgs {
    /// Who it is of, such as `svc:a`.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// The tenant of the principal.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// A group of the principal; may be given more than once.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Vec<String>,
    /// How long it is taken, such as `90d` or `12h` [default: until it is revoked].
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub(crate) expires: Option<Duration>,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RevokeArgs {
    /// Lifts the revocation of this number.
    #[arg(long, value_name = "N")]
    pub(crate) lift: Option<u64>,
    #[command(subcommand)]
    pub(crate) command: Option<RevokeCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RevokeCommand {
    /// Revokes a server, with all that it offers, and closes its connections.
    Server(RevokedArgs),
    /// Revokes one tool of a server, named as `server/tool`.
    Tool(RevokedArgs),
    /// Revokes an API key, by its id. Unlike `genlock keys revoke` it can be lifted.
    Key(RevokedArgs),
    /// Revokes a session, by its id: it takes no turn, and its pinned view is shut.
    Session(RevokedArgs),
    /// Lists what is revoked.
    List,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokedArgs {
    /// Its name, or its id.
    pub(crate) name: String,
    /// Why; whoever is refused is told.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServersCommand {
    /// Tries now to connect a server that waits: a parked or cooling one, or a lazy one. Exit code 69 where it fails.
    Probe(ServerArgs),
    /// Makes a new connection, and a new process where there is one. Exit code 69 where it fails.
    Restart(ServerArgs),
    /// Prints the last lines that a server wrote to its standard error, private values masked.
    Logs {
        /// The server.
        name: String,
        /// The tenant that has it for itself.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The server.
    pub(crate) name: String,
    /// The tenant that has it for itself.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// How long to wait for what becomes of the attempt, such as `10` or `1m`.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WarmArgs {
    /// How long to wait for all servers together, such as `30` or `2m`.
    #[arg(long, value_parser = duration, default_value = "120", value_name = "TIME")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClientConfigArgs {
    /// The client.
    #[arg(value_enum)]
    pub(crate) client: Client,
    /// Lets the client start `genlock serve --stdio` instead of connecting by URL.
    #[arg(long)]
    pub(crate) stdio: bool,
}

/// A program that people run agents in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    Vscode,
    /// Codex.
    Codex,
}

impl Args {
    pub(crate) fn format(&self) -> Format {
        self.place.format
    }
}

/// Reads a number of seconds, or `500ms`, `30s`, `5m`, `1h`, `90d`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("expected a number of seconds, or `30s`, `5m`".to_owned()),
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| "expected a number of seconds, or `30s`, `5m`".to_owned())?
        * factor;
    Duration::try_from_secs_f64(seconds).map_err(|_| "out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_time_is_seconds_or_has_a_unit() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("90d"), Ok(Duration::from_secs(7_776_000)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "x", "5 days", "1e400", "-1"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
