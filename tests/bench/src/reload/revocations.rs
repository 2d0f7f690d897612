//! R1: how long what `genlock revoke` names is still served: at the front door, on pinned views, and in turns that run.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hyper::Uri;
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};
use tokio::time;

use super::rows::Row;
use super::stage::{Setting, Stage, replace};
use crate::load::control::Control;
use crate::load::http::Connection;
use crate::load::template::{Call, Template};

/// How many clients call at the front door, and how many on the pinned view of a session each.
const CLIENTS: u64 = 48;
const VIEWS: u64 = 16;
/// How many calls a turn makes, one after the other: as many as it may have.
const CALLS: usize = 1_000;
/// How many such turns wait for each other: more than come to their end before they are refused.
const TURNS: usize = 20;
/// How long everybody calls before something is revoked, and after.
const SPAN: Duration = Duration::from_millis(200);

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    FrontDoor,
    View,
}

/// One call that was answered.
#[derive(Debug, Clone, Copy)]
struct Event {
    way: Way,
    began: Instant,
    ended: Instant,
    revoked: bool,
}

/// Clients that call without a pause until they are told to stop.
struct Callers {
    stop: Rc<Cell<bool>>,
    events: Rc<RefCell<Vec<Event>>>,
    clients: JoinSet<anyhow::Result<()>>,
    _drivers: JoinSet<()>,
}

/// The pinned view of a session.
struct View {
    path: Uri,
    token: String,
}

/// What one revocation came to, in milliseconds from the wish.
#[derive(Debug, Default)]
struct Taken {
    front_ms: f64,
    view_ms: f64,
    turn_ms: f64,
    /// Calls that were served although they began after the answer.
    late: u64,
    refusals: u64,
}

/// Measures it by server and by tool, in turn.
///
/// # Errors
/// The gateway does not start, or refuses what it must not.
pub(crate) async fn by_command(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    LocalSet::new()
        .run_until(async {
            let mut stage = start(binary).await?;
            let mut control = Control::open(&stage.control_socket()).await?;
            let mut views = Vec::new();
            for number in 0..VIEWS {
                views.push(view(&mut control, &stage, number).await?);
            }
            let turns = session(&mut control, &stage, "turns").await?;
            let turns = turns["session_id"].as_str().context("no session")?;
            let callers = Callers::start(&stage, views).await?;
            let mut taken = Vec::new();
            for round in 0..rounds {
                let (kind, name) = [("server", "s0"), ("tool", "s0/echo")][round as usize % 2];
                let (session, wish) = ((turns, round), (kind, name));
                taken.push(revoke(&mut stage, &mut control, &callers, session, wish).await?);
            }
            let fooled = another(&mut control, &callers).await?;
            callers.stop().await?;
            Ok(rows(&taken, fooled))
        })
        .await
}

fn rows(taken: &[Taken], fooled: u64) -> Vec<Row> {
    let worst = |what: &str, most: Option<f64>, of: fn(&Taken) -> f64| {
        let values: Vec<f64> = taken.iter().map(of).collect();
        let what = format!("by command: from the wish to {what}, worst");
        let mut row = Row::times("R1", &what, most, &values);
        row.reached = values.iter().copied().fold(0.0, f64::max);
        row
    };
    let (late, refusals) = taken.iter().fold((0, 0), |(late, refusals), taken| {
        (late + taken.late, refusals + taken.refusals)
    });
    vec![
        worst(
            &format!("the last call that was served to {CLIENTS} clients of the front door"),
            Some(100.0),
            |taken| taken.front_ms,
        ),
        worst(
            &format!("the last call that was served on {VIEWS} pinned views"),
            Some(100.0),
            |taken| taken.view_ms,
        ),
        // No target: the turn is stored with all its refusals by then.
        worst(
            "the end of a turn that calls without a pause",
            None,
            |taken| taken.turn_ms,
        ),
        Row::zero(
            "R1",
            "calls that began after the answer to the revocation, and were served",
            late,
            refusals,
        ),
        Row::planted("R1", "a revocation of another server", fooled, 1),
    ]
}

async fn start(binary: &Path) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let config = json!({
        "config_reload": {"enabled": false},
        "execution": {"max_concurrency": 1024, "default_mcp_server_concurrency": 1024},
        "mcp_servers": {"s0": {"url": setting.url}, "s1": {"url": setting.url}},
    });
    let mut stage = setting
        .start(binary, &[], |file| replace(file, &config.to_string()))
        .await?;
    stage.wait_ready().await?;
    Ok(stage)
}

async fn session(control: &mut Control, stage: &Stage, request: &str) -> anyhow::Result<Value> {
    let cwd = stage.directory.path();
    let params = json!({"request_id": request, "source": "cli", "cwd": cwd});
    control.ask("session.create", &params).await
}

async fn view(control: &mut Control, stage: &Stage, number: u64) -> anyhow::Result<View> {
    let created = session(control, stage, &format!("view {number}")).await?;
    let url: Uri = created["mcp_url"].as_str().context("no view")?.parse()?;
    Ok(View {
        path: url.path().parse()?,
        token: created["token"].as_str().context("no token")?.to_owned(),
    })
}

/// Revokes something under everybody, and lifts it again.
async fn revoke(
    stage: &mut Stage,
    control: &mut Control,
    callers: &Callers,
    (session, round): (&str, u64),
    (kind, name): (&str, &str),
) -> anyhow::Result<Taken> {
    // One call first, so that its worker is connected.
    let first = submit(control, session, &format!("{round} first"), 1).await?;
    wait(control, &first).await?;
    let mut turns = Vec::new();
    for number in 0..TURNS {
        let id = format!("{round} {number}");
        turns.push(submit(control, session, &id, CALLS).await?);
    }
    time::sleep(SPAN).await;
    callers.take();

    let wished = Instant::now();
    let wish = json!({"kind": kind, "name": name, "reason": "measured"});
    let number = control.ask("revoke", &wish).await?["number"].take();
    let answered = Instant::now();
    let mut results = Vec::new();
    let mut turn_ms = None;
    for turn in &turns {
        let receipt = wait(control, turn).await?;
        let of_turn = receipt["result"]["results"].as_array();
        let of_turn = of_turn.with_context(|| format!("a turn without results: {receipt}"));
        results.extend_from_slice(of_turn?);
        if turn_ms.is_none() && results.iter().any(is_refused) {
            turn_ms = Some(milliseconds(wished.elapsed()));
        }
    }
    time::sleep(SPAN).await;
    let events = callers.take();

    control
        .ask("revoke.lift", &json!({ "number": number }))
        .await?;
    stage.wait_ready().await?;
    let served = |way| {
        let served = events
            .iter()
            .filter(move |event| event.way == way && !event.revoked);
        let last = served.map(|event| event.ended).max();
        last.map_or(0.0, |last| {
            milliseconds(last.saturating_duration_since(wished))
        })
    };
    let late = events
        .iter()
        .filter(|event| event.began > answered && !event.revoked);
    Ok(Taken {
        front_ms: served(Way::FrontDoor),
        view_ms: served(Way::View),
        turn_ms: turn_ms.context("no call of the turns was refused")?,
        late: late.count() as u64 + served_after_a_refusal(&results)?,
        refusals: events.iter().filter(|event| event.revoked).count() as u64,
    })
}

async fn submit(
    control: &mut Control,
    session: &str,
    id: &str,
    calls: usize,
) -> anyhow::Result<Value> {
    let call = json!({"server": "s0", "tool": "echo", "arguments": {"text": "x"}});
    let payload = json!({"calls": vec![call; calls]});
    let submission = json!({"session_id": session, "submission_id": id, "payload": payload});
    Ok(control.ask("turn.submit", &submission).await?["turn_id"].take())
}

async fn wait(control: &mut Control, turn: &Value) -> anyhow::Result<Value> {
    let params = json!({"turn_id": turn, "timeout_s": 30});
    loop {
        // It may answer earlier than the turn is over.
        let receipt = control.ask("turn.wait", &params).await?;
        match receipt["status"].as_str() {
            Some("done") => return Ok(receipt),
            Some("queued" | "running") => {}
            other => bail!("a turn is {other:?}: {receipt}"),
        }
    }
}

fn is_refused(result: &Value) -> bool {
    result["error"]["code"] == "revoked"
}

/// Counts the calls that were served after one had been refused.
fn served_after_a_refusal(results: &[Value]) -> anyhow::Result<u64> {
    let first = results.iter().position(is_refused);
    let first = first.context("no call of the turns was refused")?;
    ensure!(first > 0, "the turns were refused before they began");
    let later = results.iter().skip(first);
    Ok(later.filter(|result| !is_refused(result)).count() as u64)
}

/// Revokes what nobody calls: the check must say that the callers are served.
async fn another(control: &mut Control, callers: &Callers) -> anyhow::Result<u64> {
    callers.take();
    let wish = json!({"kind": "server", "name": "s1", "reason": "measured"});
    control.ask("revoke", &wish).await?;
    let answered = Instant::now();
    time::sleep(SPAN).await;
    let events = callers.take();
    let late = |event: &Event| event.began > answered && !event.revoked;
    Ok(u64::from(events.iter().any(late)))
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

// === impl Callers ===

impl Callers {
    async fn start(stage: &Stage, views: Vec<View>) -> anyhow::Result<Self> {
        let host = stage.address().to_string();
        let (mut clients, mut drivers) = (JoinSet::new(), JoinSet::new());
        let (stop, events) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(Vec::new())));
        let ways = (0..CLIENTS)
            .map(|_| None)
            .chain(views.into_iter().map(Some));
        for (client, view) in ways.enumerate() {
            let mut connection = Connection::open(stage.address(), &mut drivers).await?;
            let template = Template::new(Call::Echo, "s0__", &host, None)?;
            let (stop, events) = (Rc::clone(&stop), Rc::clone(&events));
            clients.spawn_local(async move {
                let mut id = (client as u64) << 32;
                while !stop.get() {
                    let began = Instant::now();
                    let revoked = meet(&mut connection, &template, view.as_ref(), id).await?;
                    let way = match view {
                        None => Way::FrontDoor,
                        Some(_) => Way::View,
                    };
                    events.borrow_mut().push(Event {
                        way,
                        began,
                        ended: Instant::now(),
                        revoked,
                    });
                    id += 1;
                }
                Ok(())
            });
        }
        Ok(Self {
            stop,
            events,
            clients,
            _drivers: drivers,
        })
    }

    /// Takes what was met up to now.
    fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.set(true);
        while let Some(client) = self.clients.join_next().await {
            client.context("a client panicked")??;
        }
        Ok(())
    }
}

/// Makes one call: tells whether it was refused as revoked. Whatever else it may come to is served, for this check.
async fn meet(
    connection: &mut Connection,
    template: &Template,
    view: Option<&View>,
    id: u64,
) -> anyhow::Result<bool> {
    let (_, answer) = match view {
        None => connection.outcome(template, id).await?,
        Some(View { path, token }) => {
            let view = (path, token.as_str());
            connection.outcome_of_view(template, id, view).await?
        }
    };
    Ok(answer["result"]["_meta"]["genlock/reason"] == "revoked")
}
