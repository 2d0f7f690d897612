//! `genlock sessions`.

use std::process::ExitCode;

use anyhow::anyhow;
use camino::Utf8PathBuf;
use genlock_mcp::RawJson;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Gateway, because, decoded, print_answer, random_id};
use crate::{
    args::{CreateArgs, Format, SessionsCommand},
    failure::{Exit, Failure},
    place::Place,
    table,
};

#[derive(Deserialize)]
struct Listed {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    session_id: String,
    source: String,
    cwd: String,
    title: Option<String>,
    created_at: String,
    closed_at: Option<String>,
    policy_seq: u64,
    generation: u64,
    servers: Vec<String>,
    toolsets: Vec<String>,
    #[serde(default)]
    turns: Vec<OpenTurn>,
    #[serde(default)]
    worker: Option<Vec<WorkerServer>>,
}

#[derive(Deserialize)]
struct OpenTurn {
    turn_id: String,
    status: String,
}

/// A server as the session's worker sees it.
#[derive(Deserialize)]
struct WorkerServer {
    name: String,
    state: String,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Created {
    session_id: String,
    generation: u64,
    policy_seq: u64,
    servers: Vec<String>,
    toolsets: Vec<String>,
}

/// What attaching to a session led to.
#[derive(Deserialize)]
struct Resumed {
    session_id: String,
    session: String,
    generation: u64,
    policy_seq: u64,
    running: Option<String>,
    pending: Vec<String>,
    message: String,
    #[serde(default)]
    unavailable: Vec<String>,
}

pub(crate) async fn run(
    place: &Place,
    command: Option<SessionsCommand>,
) -> Result<ExitCode, Failure> {
    let mut gateway = Gateway::connect(place).await?;
    let named = |session: String| json!({ "session_id": session });
    match command {
        None | Some(SessionsCommand::List) => {
            let answer = gateway.ask("session.list", &json!({})).await?;
            show(place, &answer, listed)
        }
        Some(SessionsCommand::Create(args)) => {
            let answer = gateway.ask("session.create", &create(args)?).await?;
            show(place, &answer, created)
        }
        Some(SessionsCommand::Show(args)) => {
            let answer = gateway.ask("session.get", &named(args.session)).await?;
            show(place, &answer, shown)
        }
        Some(SessionsCommand::Resume(args)) => {
            let answer = gateway.ask("session.resume", &named(args.session)).await?;
            resumed(place, &answer)
        }
        Some(SessionsCommand::Close(args)) => {
            let answer = gateway.ask("session.close", &named(args.session)).await?;
            show(place, &answer, |answer| {
                let closed: Session = decoded(answer)?;
                Ok(format!("session {} is closed\n", closed.session_id))
            })
        }
    }
}

fn show(
    place: &Place,
    answer: &RawJson,
    text: impl FnOnce(&RawJson) -> Result<String, Failure>,
) -> Result<ExitCode, Failure> {
    match place.format {
        Format::Json => print_answer(answer),
        Format::Text => print!("{}", text(answer)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn create(args: CreateArgs) -> Result<Value, Failure> {
    let cwd = args.cwd.unwrap_or_else(|| Utf8PathBuf::from("."));
    let cwd = cwd.canonicalize_utf8().map_err(|error| {
        let error = anyhow!(error).context(format!("open the directory {cwd}"));
        Failure::new(Exit::Usage, "cwd.unknown", error).hint("name one that exists with --cwd DIR")
    })?;
    let request_id = args.request_id.map_or_else(random_id, Ok)?;
    let mut params = json!({"request_id": request_id, "source": args.source, "cwd": cwd});
    if !args.toolset.is_empty() {
        params["toolsets"] = json!(args.toolset);
    }
    if let Some(title) = args.title {
        params["title"] = json!(title);
    }
    Ok(params)
}

/// A list of names for people.
pub(super) fn names(names: &[String]) -> String {
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(", "),
    }
}

fn created(answer: &RawJson) -> Result<String, Failure> {
    let created: Created = decoded(answer)?;
    Ok(format!(
        "session {}\npolicy {} of generation {}\nservers   {}\ntoolsets  {}\n",
        created.session_id,
        created.policy_seq,
        created.generation,
        names(&created.servers),
        names(&created.toolsets),
    ))
}

fn listed(answer: &RawJson) -> Result<String, Failure> {
    let listed: Listed = decoded(answer)?;
    let rows: Vec<Vec<String>> = listed
        .sessions
        .into_iter()
        .map(|session| {
            let state = match session.closed_at {
                Some(_) => "closed",
                None => "open",
            };
            vec![
                session.session_id,
                state.to_owned(),
                session.created_at,
                session.source,
                session.policy_seq.to_string(),
                session.generation.to_string(),
                names(&session.servers),
                session.title.unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    let header = [
        "SESSION",
        "STATE",
        "CREATED",
        "SOURCE",
        "POLICY",
        "GENERATION",
        "SERVERS",
        "TITLE",
    ];
    Ok(table::layout(&header, &rows))
}

fn shown(answer: &RawJson) -> Result<String, Failure> {
    let session: Session = decoded(answer)?;
    let mut facts = vec![
        ("session", session.session_id),
        ("title", session.title.unwrap_or_else(|| "-".to_owned())),
        ("source", session.source),
        ("directory", session.cwd),
        ("created", session.created_at),
        ("policy", session.policy_seq.to_string()),
        ("generation", session.generation.to_string()),
        ("servers", names(&session.servers)),
        ("toolsets", names(&session.toolsets)),
    ];
    if let Some(at) = session.closed_at {
        facts.insert(5, ("closed", at));
    }
    let mut text: String = facts
        .iter()
        .map(|(name, value)| format!("{name:<10}  {value}\n"))
        .collect();
    if let Some(servers) = session.worker.filter(|servers| !servers.is_empty()) {
        let rows: Vec<Vec<String>> = servers
            .into_iter()
            .map(|server| vec![server.name, server.state, server.reason.unwrap_or_default()])
            .collect();
        let servers = table::layout(&["SERVER IN THE WORKER", "STATE", "WHY"], &rows);
        text = format!("{text}\n{servers}");
    }
    if !session.turns.is_empty() {
        let rows: Vec<Vec<String>> = session
            .turns
            .into_iter()
            .map(|turn| vec![turn.turn_id, turn.status])
            .collect();
        let turns = table::layout(&["TURN", "STATUS"], &rows);
        text = format!("{text}\n{turns}");
    }
    Ok(text)
}

/// Tells what came of an attach. The attach itself has succeeded; the exit code is for whoever wants the session moved.
fn resumed(place: &Place, answer: &RawJson) -> Result<ExitCode, Failure> {
    let resumed: Resumed = decoded(answer)?;
    show(place, answer, |_| Ok(text_of(&resumed)))?;
    let message = format!("session {} was not moved", resumed.session_id);
    match resumed.session.as_str() {
        "busy" => Err(because("session_busy", &message)),
        "refused" => Err(because("config_invalid", &message)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn text_of(resumed: &Resumed) -> String {
    let mut text = format!(
        "{}: session {} runs policy {} of generation {}\n{}\n",
        resumed.session,
        resumed.session_id,
        resumed.policy_seq,
        resumed.generation,
        resumed.message
    );
    if let Some(turn) = &resumed.running {
        text.push_str(&format!("running: {turn}\n"));
    }
    if !resumed.pending.is_empty() {
        text.push_str(&format!("pending: {}\n", names(&resumed.pending)));
    }
    if !resumed.unavailable.is_empty() {
        text.push_str(&format!("unavailable: {}\n", names(&resumed.unavailable)));
    }
    text
}
