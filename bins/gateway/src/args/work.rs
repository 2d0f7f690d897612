//! The arguments of `genlock sessions` and `genlock turns`.

use std::time::Duration;

use camino::Utf8PathBuf;
use clap::{
    Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand, ValueEnum, error::ErrorKind,
};
use genlock_mcp::RawJson;

use super::duration;

/// What is asked of sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Creates a session under the configuration in force, and prints its id and what it may use.
    #[command(after_help = "\
Examples:
  genlock sessions create
  genlock sessions create --toolset files --toolset tracker --cwd /srv/project --title refactoring
  genlock sessions create --toolset no_mcp
  genlock sessions create --request-id build-4711 --format json   # asked again, the same session")]
    Create(CreateArgs),
    /// Lists sessions, newest first.
    List,
    /// Shows one with its turns that are not over; with `--format json` also its policy, redacted.
    Show(SessionArgs),
    /// Attaches to a session: reads the config again and moves the session to it.
    ///
    /// Exit code 75 where turns of the session are in the way (ask again once they are over), 78 where the config is not
    /// valid. In both cases the session stays what it was.
    #[command(after_help = "\
Example:
  genlock sessions resume 0f6d…   # after an edit of genlock.yaml")]
    Resume(SessionArgs),
    /// Closes a session: queued turns are cancelled, a running one is stopped.
    Close(SessionArgs),
}

/// What a session is created with.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// What kind of client it is for, a key of `platform_toolsets`.
    #[arg(long, default_value = "cli")]
    pub(crate) source: String,
    /// The directory that its servers run in [default: the current one].
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<Utf8PathBuf>,
    /// A server or a toolset that it picks; may be given several times. `no_mcp` picks no server at all.
    ///
    /// A session that picks a server never gets another one, whatever the config says later.
    #[arg(long, value_name = "NAME")]
    pub(crate) toolset: Vec<String>,
    /// A name for people.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// The id of this request: asked again with it, the same session is answered [default: a random one].
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

/// A session.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionArgs {
    /// The session's id.
    pub(crate) session: String,
}

/// What is asked of turns.
#[derive(Debug, Subcommand)]
pub(crate) enum TurnsCommand {
    /// Gives a session work. It is on the disk when this returns; `--wait` stays until it is done.
    #[command(after_help = "\
Examples:
  genlock turns submit SESSION --call files/read_file --arguments '{\"path\":\"README.md\"}' --wait
  genlock turns submit SESSION --call time/now --call tracker/list --arguments '{\"open\":true}' --parallel --wait
  genlock turns submit SESSION --payload turn.json --submission-id nightly-2026-11-30
  echo '{\"calls\":[{\"server\":\"time\",\"tool\":\"now\",\"arguments\":{}}]}' | genlock turns submit SESSION --payload -")]
    Submit(SubmitArgs),
    /// Shows a turn and, once it is done, the result of each call.
    Show(TurnArgs),
    /// Waits until a turn is over and shows it. Exit code 0 only where it completed and none of its calls failed.
    Wait(WaitArgs),
    /// Takes a queued turn back.
    Cancel(TurnArgs),
    /// Asks a running turn to end; calls that ended keep their results.
    Interrupt(TurnArgs),
    /// Says what became of an `unknown` turn, after which its session goes on. The turn is not run again.
    #[command(after_help = "\
Example:
  genlock turns resolve 5b1c…                       # nobody knows: it counts as interrupted
  genlock turns resolve 5b1c… --outcome completed   # you looked, and it has done its work")]
    Resolve(ResolveArgs),
}

/// What a turn is submitted with.
#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArgs {
    /// The session's id.
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) calls: CallArgs,
    /// Makes the calls at once; without it one follows another.
    #[arg(long)]
    pub(crate) parallel: bool,
    /// A file with the payload, JSON; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["call", "parallel", "text"])]
    pub(crate) payload: Option<Utf8PathBuf>,
    /// Work for the session's agent.
    #[arg(long, conflicts_with_all = ["call", "parallel"])]
    pub(crate) text: Option<String>,
    /// The id of this submission: asked again with it, the same turn is answered [default: a random one].
    #[arg(long, value_name = "ID")]
    pub(crate) submission_id: Option<String>,
    /// Stays until the turn is over and prints what came of it. Exit code 0 only where it completed and no call failed.
    #[arg(long)]
    pub(crate) wait: bool,
}

/// A turn.
#[derive(Debug, clap::Args)]
pub(crate) struct TurnArgs {
    /// The turn's id.
    pub(crate) turn: String,
}

/// A turn to wait for.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// The turn's id.
    pub(crate) turn: String,
    /// How long to wait at most, such as `30` or `5m` [default: until it is over]. Exit code 75 where it is not over then.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
}

/// A turn to resolve.
#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    /// The turn's id.
    pub(crate) turn: String,
    /// What became of it.
    #[arg(long, value_enum, default_value_t = Resolved::Interrupted)]
    pub(crate) outcome: Resolved,
}

/// What may have become of an unknown turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resolved {
    /// It did its work.
    Completed,
    /// It failed.
    Failed,
    /// It came as far as it came.
    Interrupted,
}

/// The calls of a turn: each `--call` with the `--arguments` behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallArgs {
    pub(crate) calls: Vec<CallArg>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallArg {
    pub(crate) server: String,
    pub(crate) tool: String,
    /// The arguments as they were written.
    pub(crate) arguments: Option<String>,
}

// === impl Resolved ===

impl Resolved {
    /// Returns the word of the control methods.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

// === impl CallArgs ===

// By hand: which `--arguments` stands behind which `--call` is known only where their places are.
impl clap::Args for CallArgs {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new("call")
                    .long("call")
                    .value_name("SERVER/TOOL")
                    .action(ArgAction::Append)
                    .required_unless_present_any(["payload", "text"])
                    .value_parser(target)
                    .help("A tool to call, by the server's own name of it; may be given several times"),
            )
            .arg(
                Arg::new("arguments")
                    .long("arguments")
                    .value_name("JSON")
                    .action(ArgAction::Append)
                    .requires("call")
                    .value_parser(object)
                    .help("The arguments of the `--call` before it, a JSON object [default: {}]"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CallArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut calls: Vec<(usize, CallArg)> = placed::<(String, String)>(matches, "call")
            .map(|(place, (server, tool))| {
                let call = CallArg {
                    server,
                    tool,
                    arguments: None,
                };
                (place, call)
            })
            .collect();
        for (place, text) in placed::<String>(matches, "arguments") {
            let before = calls.iter_mut().rev().find(|(call, _)| *call < place);
            match before {
                Some((_, call)) if call.arguments.is_none() => call.arguments = Some(text),
                Some(_) | None => {
                    let message = "`--arguments` stands behind the `--call` that it is for\n";
                    return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
                }
            }
        }
        let calls = calls.into_iter().map(|(_, call)| call).collect();
        Ok(Self { calls })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The values of an argument with their places.
fn placed<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
) -> impl Iterator<Item = (usize, T)> {
    let places = matches.indices_of(name).into_iter().flatten();
    let values = matches.get_many::<T>(name).into_iter().flatten();
    places.zip(values.cloned())
}

fn target(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            Ok((server.to_owned(), tool.to_owned()))
        }
        Some(_) | None => Err("expected SERVER/TOOL, such as `files/read_file`".to_owned()),
    }
}

fn object(text: &str) -> Result<String, String> {
    let read = RawJson::parse(text.to_owned());
    let read = read.map_err(|error| format!("expected a JSON object: {error}"))?;
    match read.is_object() {
        true => Ok(text.to_owned()),
        false => Err("expected a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Turn {
        #[command(flatten)]
        submit: SubmitArgs,
    }

    fn calls(args: &[&str]) -> Result<Vec<(String, Option<String>)>, ErrorKind> {
        let all = ["turn", "SESSION"].iter().chain(args);
        let parsed = Turn::try_parse_from(all).map_err(|error| error.kind())?;
        let calls = parsed.submit.calls.calls.into_iter();
        let told = |call: CallArg| (format!("{}|{}", call.server, call.tool), call.arguments);
        Ok(calls.map(told).collect())
    }

    #[test]
    fn arguments_belong_to_the_call_before_them() {
        let found = calls(&[
            "--call",
            "a/one",
            "--call",
            "b/two/3",
            "--arguments",
            r#"{"x":1}"#,
            "--call",
            "c/t",
        ]);

        let expected = [
            ("a|one", None),
            ("b|two/3", Some(r#"{"x":1}"#)),
            ("c|t", None),
        ];
        let expected =
            expected.map(|(call, arguments)| (call.to_owned(), arguments.map(str::to_owned)));
        assert_eq!(found, Ok(expected.to_vec()));
    }

    #[test]
    fn calls_that_mean_nothing_are_refused() {
        let cases: [(&[&str], ErrorKind); 9] = [
            (&[], ErrorKind::MissingRequiredArgument),
            (&["--call", "a"], ErrorKind::ValueValidation),
            (&["--call", "/t"], ErrorKind::ValueValidation),
            (&["--call", "a/"], ErrorKind::ValueValidation),
            (
                &["--call", "a/t", "--arguments", "[]"],
                ErrorKind::ValueValidation,
            ),
            (
                &["--arguments", "{}", "--call", "a/t"],
                ErrorKind::ArgumentConflict,
            ),
            (
                &["--call", "a/t", "--arguments", "{}", "--arguments", "{}"],
                ErrorKind::ArgumentConflict,
            ),
            (
                &["--call", "a/t", "--text", "x"],
                ErrorKind::ArgumentConflict,
            ),
            (
                &["--payload", "-", "--text", "x"],
                ErrorKind::ArgumentConflict,
            ),
        ];
        for (args, expected) in cases {
            assert_eq!(calls(args).unwrap_err(), expected, "{args:?}");
        }
    }
}
