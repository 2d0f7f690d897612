//! What the command line can say.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args as Group, Parser};

/// Runs the turns of one session for a gateway.
#[derive(Debug, Parser)]
#[command(name = "genlock-worker", version)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) to: To,
}

/// Where the gateway is.
#[derive(Debug, Group)]
#[group(required = true, multiple = false)]
pub(crate) struct To {
    /// Talks to the gateway that started this process, over standard input and output.
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Dials in to a gateway.
    #[arg(long, value_name = "unix:PATH", value_parser = unix_path)]
    pub(crate) connect: Option<PathBuf>,
}

fn unix_path(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("unix:") {
        None | Some("") => Err("expected `unix:` and the path of a socket".to_owned()),
        Some(path) => Ok(PathBuf::from(path)),
    }
}

/// Prints what clap has to say: help goes to standard output, a mistake to standard error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        eprint!("{}", error.render());
        ExitCode::from(64)
    } else {
        print!("{}", error.render());
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Option<To> {
        let words = ["genlock-worker"].iter().chain(words);
        Args::try_parse_from(words).ok().map(|args| args.to)
    }

    #[test]
    fn exactly_one_way_to_the_gateway_is_named() {
        assert!(parse(&["--stdio"]).is_some_and(|to| to.stdio));
        let connect = parse(&["--connect", "unix:/run/w.sock"]).and_then(|to| to.connect);
        assert_eq!(connect, Some(PathBuf::from("/run/w.sock")));
        for wrong in [
            &[] as &[&str],
            &["--stdio", "--connect", "unix:/a"],
            &["--connect", "/a"],
            &["--connect", "unix:"],
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
