//! `genlock turns`.

use std::{io::Read as _, process::ExitCode, time::Duration};

use anyhow::Context as _;
use camino::Utf8Path;
use genlock_mcp::{RawJson, RawObject};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Gateway, because, decoded, print_answer, random_id, results::Turn};
use crate::{
    args::{CallArg, Format, SubmitArgs, TurnsCommand, WaitArgs},
    failure::{Exit, Failure},
    place::Place,
};

/// How long one question for the end of a turn waits; it is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the first one waits, after which it is looked whether the turn can begin at all.
const FIRST: Duration = Duration::from_millis(500);

pub(crate) async fn run(place: &Place, command: TurnsCommand) -> Result<ExitCode, Failure> {
    let mut gateway = Gateway::connect(place).await?;
    let named = |turn: String| json!({ "turn_id": turn });
    match command {
        TurnsCommand::Submit(args) => submit(place, &mut gateway, args).await,
        TurnsCommand::Show(args) => {
            let receipt = gateway.ask("turn.receipt", &named(args.turn)).await?;
            show(place, &receipt)
        }
        TurnsCommand::Wait(WaitArgs { turn, timeout }) => {
            follow(place, &mut gateway, &turn, timeout).await
        }
        TurnsCommand::Cancel(args) => {
            let receipt = gateway.ask("turn.cancel", &named(args.turn)).await?;
            show(place, &receipt)
        }
        TurnsCommand::Interrupt(args) => {
            let receipt = gateway.ask("turn.interrupt", &named(args.turn)).await?;
            show(place, &receipt)
        }
        TurnsCommand::Resolve(args) => {
            let params = json!({"turn_id": args.turn, "outcome": args.outcome.as_str()});
            let receipt = gateway.ask("turn.resolve_unknown", &params).await?;
            show(place, &receipt)
        }
    }
}

fn show(place: &Place, receipt: &RawJson) -> Result<ExitCode, Failure> {
    match place.format {
        Format::Json => print_answer(receipt),
        Format::Text => print!("{}", Turn::read(receipt)?),
    }
    Ok(ExitCode::SUCCESS)
}

async fn submit(
    place: &Place,
    gateway: &mut Gateway,
    args: SubmitArgs,
) -> Result<ExitCode, Failure> {
    let submission = args.submission_id.clone().map_or_else(random_id, Ok)?;
    let payload = payload(&args)?;
    // Not by way of a value, which would change numbers that it cannot hold.
    let mut params = RawObject::default();
    params.set("session_id", RawJson::string(&args.session));
    params.set("submission_id", RawJson::string(&submission));
    params.set("payload", payload);
    let receipt = gateway.ask_raw("turn.submit", params).await?;
    let turn = Turn::read(&receipt)?;
    match args.wait {
        true => follow(place, gateway, &turn.turn_id, None).await,
        false => show(place, &receipt),
    }
}

/// Returns the payload as it was written, so that nothing of it is changed on the way.
fn payload(args: &SubmitArgs) -> Result<RawJson, Failure> {
    if let Some(file) = &args.payload {
        let text = read(file)?;
        return RawJson::parse(text).map_err(|error| {
            Failure::new(Exit::Usage, "payload.invalid", error)
                .hint("a payload is `{\"calls\": [{\"server\", \"tool\", \"arguments\"}]}` or `{\"text\": …}`")
        });
    }
    let payload = match &args.text {
        Some(text) => json!({ "text": text }).to_string(),
        None => {
            let calls: Vec<String> = args.calls.calls.iter().map(call).collect();
            format!(
                r#"{{"calls":[{}],"parallel":{}}}"#,
                calls.join(","),
                args.parallel
            )
        }
    };
    RawJson::parse(payload).map_err(|error| Failure::new(Exit::Bug, "payload.unwritable", error))
}

fn call(call: &CallArg) -> String {
    let arguments = call.arguments.as_deref().unwrap_or("{}");
    let (server, tool) = (json!(call.server), json!(call.tool));
    format!(r#"{{"server":{server},"tool":{tool},"arguments":{arguments}}}"#)
}

fn read(file: &Utf8Path) -> Result<String, Failure> {
    let text = if file == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map(|_| text)
            .context("read the payload from standard input")
    } else {
        std::fs::read_to_string(file).with_context(|| format!("read the payload from {file}"))
    };
    text.map_err(|error| Failure::new(Exit::Usage, "payload.unreadable", error))
}

/// Stays until a turn is over, shows it, and says by the exit code whether all of it went well.
async fn follow(
    place: &Place,
    gateway: &mut Gateway,
    turn: &str,
    timeout: Option<Duration>,
) -> Result<ExitCode, Failure> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut longest = FIRST;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let patience = left.unwrap_or(longest).min(longest);
        longest = PATIENCE;
        let params = json!({"turn_id": turn, "timeout_s": patience.as_secs_f64()});
        let receipt = gateway.ask("turn.wait", &params).await?;
        let found = Turn::read(&receipt)?;
        if found.is_over() {
            show(place, &receipt)?;
            return judge(&found);
        }
        if found.status == "queued" {
            check_queue(gateway, &found).await?;
        }
        if left.is_some_and(|left| left <= patience) {
            show(place, &receipt)?;
            let message = format!("turn {turn} is {} still", found.status);
            return Err(Failure::new(
                Exit::TryAgain,
                "turn.not_over",
                anyhow::anyhow!(message),
            ));
        }
    }
}

/// Refuses to wait for a turn that waits for somebody to say what became of another one.
async fn check_queue(gateway: &mut Gateway, turn: &Turn) -> Result<(), Failure> {
    let named = json!({ "session_id": turn.session_id });
    let session: Value = decoded(&gateway.ask("session.get", &named).await?)?;
    let open = session["turns"].as_array().into_iter().flatten();
    let unknown = open
        .filter(|open| open["status"] == "unknown")
        .find_map(|open| open["turn_id"].as_str());
    match unknown {
        None => Ok(()),
        Some(unknown) => Err(because(
            "outcome_unknown",
            &format!(
                "turn {} waits: nobody knows how far turn {unknown} came",
                turn.turn_id
            ),
        )),
    }
}

fn judge(turn: &Turn) -> Result<ExitCode, Failure> {
    if turn.status == "unknown" {
        let message = format!("nobody knows how far turn {} came", turn.turn_id);
        return Err(because("outcome_unknown", &message));
    }
    if let Some(error) = &turn.error {
        return Err(because(
            &error.code,
            &format!("{}: {}", error.code, error.message),
        ));
    }
    let failed = turn.failed();
    match (turn.outcome.as_deref(), failed) {
        (Some("completed"), 0) => Ok(ExitCode::SUCCESS),
        (Some("completed"), failed) => {
            let message = format!("{failed} of {} calls failed", turn.calls().len());
            Err(Failure::new(
                Exit::Unavailable,
                "turn.calls_failed",
                anyhow::anyhow!(message),
            ))
        }
        (outcome, _) => {
            let outcome = outcome.unwrap_or("over");
            let message = format!("turn {} is {outcome}", turn.turn_id);
            Err(Failure::new(
                Exit::Unavailable,
                "turn.not_completed",
                anyhow::anyhow!(message),
            ))
        }
    }
}
