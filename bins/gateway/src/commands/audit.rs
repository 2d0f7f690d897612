//! `genlock audit`: who did what, and who was refused what.

use std::{process::ExitCode, time::Duration};

use genlock_gateway::{ControlError, Host};
use genlock_mcp::{RawJson, RawObject};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    offline,
    status::{connect, read, refused},
};
use crate::{
    args::{AuditArgs, Format, Outcome},
    failure::{Exit, Failure},
    place::Place,
    table,
};

/// How often `--follow` looks.
const EVERY: Duration = Duration::from_secs(1);
/// How many records one answer has at most.
const PAGE: u64 = 1000;

#[derive(Deserialize)]
struct Record {
    number: u64,
    at: String,
    actor: String,
    key: Option<String>,
    tenant: Option<String>,
    action: String,
    target: Option<String>,
    generation: Option<u64>,
    outcome: String,
    code: Option<String>,
    count: u64,
    detail: String,
}

pub(super) async fn run(place: &Place, args: AuditArgs, host: &Host) -> Result<ExitCode, Failure> {
    let desk = Desk {
        place,
        host,
        args: &args,
    };
    let records = desk.wanted(args.limit, None).await?;
    if args.follow {
        return desk.follow(records).await;
    }
    match (args.jsonl, place.format) {
        (true, _) => print_lines(&records),
        (false, Format::Json) => println!("{}", json!({ "records": records })),
        (false, Format::Text) => print!("{}", listed(&records)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where records are asked for, and which.
struct Desk<'a> {
    place: &'a Place,
    host: &'a Host,
    args: &'a AuditArgs,
}

// === impl Desk ===

impl Desk<'_> {
    /// Returns the newest `limit` records that are wanted and newer than `after`, newest first; all of them without a limit.
    async fn wanted(&self, limit: Option<u64>, after: Option<u64>) -> Result<Vec<Value>, Failure> {
        let mut params = self.params();
        params["after"] = json!(after);
        let mut records: Vec<Value> = Vec::new();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(records.len() as u64));
            if left == Some(0) {
                return Ok(records);
            }
            params["limit"] = json!(left.unwrap_or(PAGE).min(PAGE));
            let answer = self.ask(&params).await?;
            records.extend(answer["records"].as_array().cloned().unwrap_or_default());
            if answer["next"].is_null() {
                return Ok(records);
            }
            params["before"] = answer["next"].clone();
        }
    }

    async fn ask(&self, params: &Value) -> Result<Value, Failure> {
        const METHOD: &str = "audit.list";
        if !self.args.follow {
            let answered = offline::ask(self.place, self.host, METHOD, params).await?;
            return answered.map_err(explained);
        }
        // Without a gateway nothing is recorded, and to look each second would keep one from starting.
        let mut control = connect(&self.place.state_dir()?).await?;
        let params = RawObject::parse(&RawJson::encode(params)).unwrap_or_default();
        let answer = control.call(METHOD, params).await.map_err(explained)?;
        answer
            .decode()
            .map_err(|error| Failure::new(Exit::Bug, "answer.unreadable", error))
    }

    fn params(&self) -> Value {
        let args = self.args;
        let outcome = args.outcome.map(|outcome| match outcome {
            Outcome::Done => "done",
            Outcome::Refused => "refused",
        });
        json!({
            "since": args.since,
            "until": args.until,
            "subject": args.subject,
            "tenant": args.tenant,
            "action": args.action,
            "outcome": outcome,
        })
    }

    /// Prints records as they come, oldest first, one a line, until it is ended.
    async fn follow(&self, mut records: Vec<Value>) -> Result<ExitCode, Failure> {
        let mut last = 0;
        loop {
            records.reverse();
            for record in &records {
                last = record["number"].as_u64().unwrap_or(last);
                match self.args.jsonl || self.place.format == Format::Json {
                    true => println!("{record}"),
                    false => println!("{}", row(&read(record)?).join("  ")),
                }
            }
            sleep(EVERY).await;
            records = self.wanted(None, Some(last)).await?;
        }
    }
}

fn print_lines(records: &[Value]) {
    for record in records {
        println!("{record}");
    }
}

fn listed(records: &[Value]) -> Result<String, Failure> {
    let rows: Result<Vec<_>, Failure> = records
        .iter()
        .map(|record| Ok(row(&read(record)?)))
        .collect();
    let header = [
        "NUMBER", "AT", "WHO", "ACTION", "TARGET", "GEN", "OUTCOME", "TIMES", "MORE",
    ];
    Ok(table::layout(&header, &rows?))
}

fn row(record: &Record) -> Vec<String> {
    let named = [("tenant", &record.tenant), ("key", &record.key)];
    let named = named
        .iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
    let detail = (!record.detail.is_empty()).then(|| record.detail.clone());
    let more: Vec<String> = detail.into_iter().chain(named).collect();
    let outcome = match &record.code {
        Some(code) => format!("{}: {code}", record.outcome),
        None => record.outcome.clone(),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        record.number.to_string(),
        record.at.clone(),
        record.actor.clone(),
        record.action.clone(),
        or_dash(record.target.clone()),
        or_dash(record.generation.map(|number| number.to_string())),
        outcome,
        record.count.to_string(),
        more.join("; "),
    ]
}

fn explained(error: ControlError) -> Failure {
    refused(error, |reason| match reason {
        "invalid_params" => (Exit::Usage, "audit.invalid"),
        _ => (Exit::Unavailable, "audit.refused"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_row() {
        let record = json!({
            "number": 7, "at": "2026-07-01T12:00:00Z", "actor": "key:svc:a", "key": "key_1", "tenant": "red",
            "action": "call.refused", "target": "one/two", "generation": 3, "gate": "tool", "outcome": "refused",
            "code": "unknown_tool", "count": 12, "detail": "",
        });
        let boot = json!({
            "number": 1, "at": "2026-07-01T11:00:00Z", "actor": "system", "key": null, "tenant": null,
            "action": "gateway.boot", "target": null, "generation": null, "gate": null, "outcome": "done",
            "code": null, "count": 1, "detail": "degraded: config.syntax",
        });

        let expected = "\
NUMBER  AT                    WHO        ACTION        TARGET   GEN  OUTCOME                TIMES  MORE
7       2026-07-01T12:00:00Z  key:svc:a  call.refused  one/two  3    refused: unknown_tool  12     tenant red; key key_1
1       2026-07-01T11:00:00Z  system     gateway.boot  -        -    done                   1      degraded: config.syntax
";
        assert_eq!(listed(&[record, boot]).unwrap(), expected);
    }
}
