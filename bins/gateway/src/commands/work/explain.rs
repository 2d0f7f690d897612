//! `genlock explain`: why a session, or the caller with a key, has a tool or not.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;

use super::{Gateway, decoded, print_answer};
use crate::{
    args::{ExplainArgs, Format},
    failure::Failure,
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Explanation {
    listed: bool,
    callable: bool,
    gates: Vec<Gate>,
    decided_by: Option<String>,
    #[serde(default)]
    remedy: Option<String>,
}

#[derive(Deserialize)]
struct Gate {
    gate: String,
    verdict: String,
    why: String,
}

pub(in crate::commands) async fn run(
    place: &Place,
    args: ExplainArgs,
) -> Result<ExitCode, Failure> {
    let mut gateway = Gateway::connect(place).await?;
    let ExplainArgs { whose, tool } = args;
    let params = match whose.session {
        Some(session) => json!({"session_id": session, "tool": tool}),
        None => json!({"key_id": whose.key, "tool": tool}),
    };
    let answer = gateway.ask("explain", &params).await?;
    match place.format {
        Format::Json => print_answer(&answer),
        Format::Text => print!("{}", text(&tool, &decoded(&answer)?)),
    }
    Ok(ExitCode::SUCCESS)
}

fn text(tool: &str, told: &Explanation) -> String {
    let yes = |is| if is { "yes" } else { "no" };
    let rows: Vec<Vec<String>> = told
        .gates
        .iter()
        .map(|gate| vec![gate.gate.clone(), gate.verdict.clone(), gate.why.clone()])
        .collect();
    let mut text = format!(
        "{tool}\n  listed    {}\n  callable  {}\n\n{}",
        yes(told.listed),
        yes(told.callable),
        table::layout(&["GATE", "VERDICT", "WHY"], &rows),
    );
    if let Some(gate) = &told.decided_by {
        text.push_str(&format!("\ndecided by {gate}\n"));
    }
    if let Some(remedy) = &told.remedy {
        text.push_str(&format!("what would change it: {remedy}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_that_decided_and_what_helps_stand_below_the_walk() {
        let gate = |gate: &str, verdict: &str, why: &str| Gate {
            gate: gate.to_owned(),
            verdict: verdict.to_owned(),
            why: why.to_owned(),
        };
        let told = Explanation {
            listed: true,
            callable: false,
            gates: vec![
                gate("rules", "pass", "let through"),
                gate("connection", "refuse", "parked"),
            ],
            decided_by: Some("connection".to_owned()),
            remedy: Some("probe it".to_owned()),
        };

        let expected = "\
a__b
  listed    yes
  callable  no

GATE        VERDICT  WHY
rules       pass     let through
connection  refuse   parked

decided by connection
what would change it: probe it
";
        assert_eq!(text("a__b", &told), expected);
    }
}
