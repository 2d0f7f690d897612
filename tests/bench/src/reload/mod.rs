//! `genlock-bench reload`: what a reload costs, what it touches, and what must never come of one.
//!
//! Every zero stands beside how often it was tried, and beside a planted fault that the same check finds.

mod canary;
mod large;
mod revocations;
mod saves;
mod secrets;
mod sessions;
mod under_load;

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context as _;

use crate::cli::{Part, ReloadArgs};
use crate::process::{procfs, stage};
use crate::report::rows::{self, Row};

/// Takes the figures and prints them. Returns whether every target was reached.
///
/// # Errors
/// A process does not start, or does not do what is asked of it.
pub(crate) async fn run(args: &ReloadArgs) -> anyhow::Result<bool> {
    let mut rows = Vec::new();
    for part in Part::ALL
        .into_iter()
        .filter(|part| args.parts.contains(part))
    {
        progress(&format!("{part:?}"));
        let taken = take(part, args).await;
        rows.extend(taken.with_context(|| format!("{part:?}"))?);
    }
    let machine = procfs::machine();
    let remarks = [
        format!("G6: {} of the servers are processes, as many as a small machine holds beside the others; the rest are HTTP servers, of which `since` tells one instance from the next", args.stdio),
        "R1: disabled and removed by a reload, in turn; the time of the commit is the earliest that it can have been".to_owned(),
        "G7: a save that pauses for longer than the debounce cannot be told from one that is done: that is the planted fault".to_owned(),
    ];
    let mut stdout = io::stdout().lock();
    if args.json {
        rows::write_json(&mut stdout, &machine, &rows, &remarks)?;
    } else {
        rows::write_text(&mut stdout, &machine, &rows, &remarks)?;
    }
    Ok(!rows.iter().any(Row::missed))
}

async fn take(part: Part, args: &ReloadArgs) -> anyhow::Result<Vec<Row>> {
    let (genlock, rounds) = (&args.genlock, args.rounds);
    match part {
        Part::Speed => large::speed(genlock, args.servers, rounds).await,
        Part::Touches => {
            let stdio = args.stdio.min(args.servers);
            large::touches(genlock, args.servers, stdio, rounds.div_ceil(5)).await
        }
        Part::Saves => saves::saves(genlock, rounds).await,
        Part::Load => {
            let span = Duration::from_millis(args.span_ms);
            under_load::reloads(genlock, rounds.div_ceil(2), span).await
        }
        Part::Revoked => {
            let mut rows = under_load::revoked(genlock, rounds).await?;
            rows.extend(revocations::by_command(genlock, rounds).await?);
            Ok(rows)
        }
        Part::Secrets => secrets::secrets(genlock, rounds.div_ceil(10).max(2)).await,
        Part::Transitions => sessions::transitions(genlock, rounds.div_ceil(4)).await,
        Part::Turns => sessions::turns(genlock, rounds.div_ceil(2)).await,
    }
}

/// Tells on stderr what goes on.
pub(crate) fn progress(what: &str) {
    // Nobody has to read it.
    let _ = writeln!(io::stderr(), "{what}");
}
