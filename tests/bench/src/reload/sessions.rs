//! F9 and F10: how fast sessions move to another policy, and what a turn costs beside its call.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use super::rows::{Row, Target};
use super::stage::{Setting, Stage, replace};
use crate::load::control::Control;
use crate::load::http::Connection;
use crate::load::template::{Call, Template};
use crate::stats;

/// How many sessions move.
const SESSIONS: usize = 1_000;
/// How many connections move them at once.
const CONNECTIONS: usize = 16;
/// How many turns and calls are made before any is counted, and how many then.
const TURNS: (u64, u64) = (20, 200);

fn config(url: &str, limit: u64) -> String {
    let config = json!({
        "config_reload": {"enabled": false},
        "execution": {"max_concurrency": limit},
        "mcp_servers": {"s0": {"url": url}},
    });
    config.to_string()
}

async fn start(binary: &Path) -> anyhow::Result<(Stage, String)> {
    let setting = Setting::prepare().await?;
    let url = setting.url.clone();
    let text = config(&url, 20);
    let mut stage = setting
        .start(binary, &[], |file| replace(file, &text))
        .await?;
    stage.wait_ready().await?;
    Ok((stage, url))
}

async fn create(control: &mut Control, stage: &Stage, request: &str) -> anyhow::Result<String> {
    let cwd = stage.directory.path();
    let params = json!({"request_id": request, "source": "cli", "cwd": cwd});
    let created = control.ask("session.create", &params).await?;
    Ok(created["session_id"]
        .as_str()
        .context("no session")?
        .to_owned())
}

/// F9: every session moves to a head that means something else.
pub(super) async fn transitions(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let (mut stage, url) = start(binary).await?;
    let mut first = Control::open(&stage.control_socket()).await?;
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        sessions.push(create(&mut first, &stage, &number.to_string()).await?);
    }
    let sessions = Arc::new(sessions);
    let mut rates = Vec::new();
    for round in 0..rounds {
        replace(&stage.file(), &config(&url, 21 + round))?;
        stage.reload(&json!({})).await?;
        let began = Instant::now();
        let mut movers = JoinSet::new();
        for mover in 0..CONNECTIONS {
            let (mut control, sessions) = (
                Control::open(&stage.control_socket()).await?,
                Arc::clone(&sessions),
            );
            movers.spawn(async move {
                for session in sessions.iter().skip(mover).step_by(CONNECTIONS) {
                    let moved = control
                        .ask("session.resume", &json!({"session_id": session}))
                        .await?;
                    ensure!(moved["session"] == "applied", "{moved}");
                }
                Ok(())
            });
        }
        while let Some(moved) = movers.join_next().await {
            moved??;
        }
        rates.push(SESSIONS as f64 / began.elapsed().as_secs_f64());
    }
    let what = format!("transitions of {SESSIONS} sessions, each durable, its file read again");
    Ok(vec![Row::rates(
        "F9",
        &what,
        Target::AtLeast(500.0),
        &rates,
    )])
}

/// F10: a turn of one echo on a warm worker, beside the same call at the front door.
pub(super) async fn turns(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let (stage, _) = start(binary).await?;
    let mut control = Control::open(&stage.control_socket()).await?;
    let session = create(&mut control, &stage, "turns").await?;
    let mut drivers = JoinSet::new();
    let mut connection = Connection::open(stage.address(), &mut drivers).await?;
    let template = Template::new(Call::Echo, "s0__", &stage.address().to_string(), None)?;
    let (mut over, mut whole) = (Vec::new(), Vec::new());
    let mut id = 0;
    for round in 0..=rounds {
        let counted = round > 0;
        let (mut calls, mut turns) = (Vec::new(), Vec::new());
        for _ in 0..if counted { TURNS.1 } else { TURNS.0 } {
            id += 1;
            calls.push(connection.call(&template, id).await?);
            turns.push(turn(&mut control, &session, id).await?);
        }
        if counted {
            let (call, turn) = (median_ms(&calls), median_ms(&turns));
            over.push(turn - call);
            whole.push(turn);
        }
    }
    let what = "a turn of one echo on a warm worker, over the call itself";
    Ok(vec![
        Row::times("F10", what, Some(5.0), &over),
        Row::times(
            "F10",
            "the whole turn, from its submission to its result",
            None,
            &whole,
        ),
    ])
}

async fn turn(control: &mut Control, session: &str, id: u64) -> anyhow::Result<Duration> {
    let call = json!({"server": "s0", "tool": "echo", "arguments": {"text": "echo"}});
    let params = json!({
        "session_id": session, "submission_id": id.to_string(), "payload": {"calls": [call]},
    });
    let began = Instant::now();
    let receipt = control.ask("turn.submit", &params).await?;
    let done = control
        .ask("turn.wait", &json!({"turn_id": receipt["turn_id"]}))
        .await?;
    let elapsed = began.elapsed();
    let text = &done["result"]["results"][0]["result"]["content"][0]["text"];
    ensure!(done["outcome"] == "completed" && text == "echo", "{done}");
    Ok(elapsed)
}

fn median_ms(times: &[Duration]) -> f64 {
    let times = times.iter().map(|time| time.as_secs_f64() * 1e3);
    stats::median(times).unwrap_or(f64::INFINITY)
}
