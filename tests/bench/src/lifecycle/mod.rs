//! `genlock-bench lifecycle`: what servers cost that hang, write garbage, wait or start slowly, and what callers of many
//! tenants are answered.
//!
//! Every zero stands beside how often it was tried, and beside a planted fault that the same check finds.

mod garbage;
mod hung;
mod memory;
mod start;
mod tenants;

use std::io;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::{LifePart, LifecycleArgs};
use crate::process::procfs;
use crate::reload::progress;
use crate::report::rows::{self, Row};

/// What came of all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// One was not reached.
    pub(crate) missed: bool,
    /// Something happened that must not, or was planted and not found.
    pub(crate) violated: bool,
}

/// Takes the figures and prints them.
///
/// # Errors
/// A process does not start, or does not do what is asked of it.
pub(crate) async fn run(args: &LifecycleArgs) -> anyhow::Result<Verdict> {
    let mut rows = Vec::new();
    let asked = |part: &LifePart| args.parts.contains(part);
    for part in LifePart::ALL.into_iter().filter(asked) {
        progress(&format!("{part:?}"));
        let taken = take(part, args).await;
        rows.extend(taken.with_context(|| format!("{part:?}"))?);
    }
    let machine = procfs::machine();
    let remarks: Vec<_> = args.parts.iter().filter_map(|part| remark(*part)).collect();
    let mut stdout = io::stdout().lock();
    if args.json {
        rows::write_json(&mut stdout, &machine, &rows, &remarks)?;
    } else {
        rows::write_text(&mut stdout, &machine, &rows, &remarks)?;
    }
    Ok(Verdict {
        missed: rows.iter().any(Row::missed),
        violated: rows.iter().any(Row::violated),
    })
}

async fn take(part: LifePart, args: &LifecycleArgs) -> anyhow::Result<Vec<Row>> {
    let (genlock, rounds) = (&args.genlock, args.rounds);
    match part {
        LifePart::Hung => {
            let span = Duration::from_millis(args.span_ms);
            hung::hung(genlock, usize::try_from(args.servers)?, rounds, span).await
        }
        LifePart::Garbage => garbage::garbage(genlock, rounds).await,
        LifePart::Tenants => {
            tenants::tenants(genlock, usize::try_from(args.tenants)?, args.calls).await
        }
        LifePart::Memory => memory::memory(genlock, args.sessions).await,
        LifePart::Start => start::start(genlock, rounds).await,
    }
}

/// Says what a reader of the figures has to know.
fn remark(part: LifePart) -> Option<String> {
    let text = match part {
        LifePart::Hung => {
            "S5: rounds without and with a hung server take turns; the ratio is that of the medians, its range that of the rounds"
        }
        LifePart::Garbage => return None,
        LifePart::Tenants => {
            "S8: all tenants use the same ids, and the servers over pipes answer what came together in reverse"
        }
        LifePart::Memory => {
            "F6: resident memory once it stays as it is for a second; a fifth as many sessions were opened before"
        }
        LifePart::Start => {
            "F7: from the start of the process; the line with its address is looked for every 10 ms"
        }
    };
    Some(text.to_owned())
}

/// Makes the command of an upstream with habits.
fn odd(habits: &[&str]) -> anyhow::Result<Value> {
    let bench = std::env::current_exe().context("find this program")?;
    let mut command = vec![json!(bench), json!("upstream-odd")];
    command.extend(habits.iter().map(|habit| json!(habit)));
    Ok(json!({ "command": command }))
}
