//! S8: exactly one answer for each call, and the one of its own tenant.

use std::collections::HashMap;
use std::mem;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time;

use super::odd;
use crate::load::control::Control;
use crate::load::http::Connection;
use crate::load::template::{Call, Template, text_of};
use crate::process::server::POLL;
use crate::process::stage::{PATIENCE, Setting, Stage, replace};
use crate::report::rows::Row;
use crate::upstream::odd::STAMP;

/// The servers: two that all tenants share, and one of which each has its own process.
const SERVERS: [&str; 3] = ["pipe", "web", "own"];
/// The one of which each tenant has its own process.
const OWN: usize = 2;

/// One call: whose, which of its calls, and of which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    tenant: usize,
    id: u64,
    server: usize,
}

/// What came for one call.
#[derive(Debug, Clone)]
struct Answered {
    asked: Asked,
    messages: Vec<Value>,
}

/// Whatever must not come, by what is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wrong {
    /// Calls with no answer or several.
    not_one: u64,
    /// Answers with another id, to another caller, or of no echo.
    others: u64,
    /// Answers by a process that serves another tenant.
    processes: u64,
}

// === impl Wrong ===

impl Wrong {
    fn sum(&self) -> u64 {
        self.not_one + self.others + self.processes
    }
}

/// Whom each process serves.
type Owners = HashMap<String, usize>;

/// Says what is wrong with the answers. `owners` learns of each process from its first answer.
fn check(answers: &[Answered], owners: &mut Owners) -> Wrong {
    let mut wrong = Wrong::default();
    for Answered { asked, messages } in answers {
        let [message] = messages.as_slice() else {
            wrong.not_one += 1;
            continue;
        };
        let content = &message["result"]["content"];
        let said = content[0]["text"].as_str().unwrap_or_default();
        let (text, process) = match asked.server {
            OWN => said.split_once(STAMP).unwrap_or_default(),
            _ => (said, ""),
        };
        if message["id"] != asked.id || text != text_of(asked.tenant, &asked.id.to_string()) {
            wrong.others += 1;
        } else if asked.server == OWN {
            let owner = owners.entry(process.to_owned()).or_insert(asked.tenant);
            wrong.processes += u64::from(*owner != asked.tenant);
        }
    }
    wrong
}

pub(super) async fn tenants(binary: &Path, tenants: usize, calls: u64) -> anyhow::Result<Vec<Row>> {
    let answers = ask(binary, tenants, calls).await?;
    let mut owners = Owners::new();
    let wrong = check(&answers, &mut owners);
    let zero = |what: &str, found, trials: usize| {
        Row::zero(
            "S8",
            &format!("{tenants} tenants: {what}"),
            found,
            trials as u64,
        )
    };
    let (all, of_own) = (answers.len(), |answered: &&Answered| {
        answered.asked.server == OWN
    });
    let of_own = answers.iter().filter(of_own).count();
    let mut rows = vec![
        zero("calls without exactly one answer", wrong.not_one, all),
        zero(
            "answers to another call or another tenant",
            wrong.others,
            all,
        ),
        zero(
            "answers by the process of another tenant",
            wrong.processes,
            of_own,
        ),
    ];
    rows.extend(plant(&answers, &owners)?);
    Ok(rows)
}

/// Has the callers of all tenants make their calls at once.
async fn ask(binary: &Path, tenants: usize, calls: u64) -> anyhow::Result<Vec<Answered>> {
    let stage = start(binary).await?;
    let keys = keys(&stage, tenants).await?;
    let each = calls.div_ceil(tenants as u64);
    let (mut clients, mut drivers) = (JoinSet::new(), JoinSet::new());
    for (tenant, key) in keys.iter().enumerate() {
        let client = Client::open(&stage, tenant, key, &mut drivers).await?;
        clients.spawn(client.call(each));
    }
    let mut answers = Vec::new();
    while let Some(client) = clients.join_next().await {
        answers.extend(client.context("a client panicked")??);
    }
    Ok(answers)
}

async fn start(binary: &Path) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let mut pipe = odd(&["--reverse"])?;
    pipe["scope"] = json!("shared");
    let own = odd(&["--stamp", "--reverse"])?;
    let text = json!({
        "config_reload": {"enabled": false},
        "tool_access": {"mode": "front_door"},
        "auth": {
            "enabled": true,
            "role_assignments": [{"principal": "group:callers", "role": "service-account"}],
        },
        "execution": {"max_concurrency": 1024, "default_mcp_server_concurrency": 1024},
        "mcp_servers": {"pipe": pipe, "web": {"url": setting.url, "scope": "shared"}, "own": own},
    });
    let save = |file: &Path| replace(file, &text.to_string());
    setting.start(binary, &[], save).await
}

/// Makes a key for a caller in each tenant.
async fn keys(stage: &Stage, tenants: usize) -> anyhow::Result<Vec<String>> {
    let mut control = Control::open(&stage.control_socket()).await?;
    let mut keys = Vec::new();
    for tenant in 0..tenants {
        let params = json!({
            "principal": format!("svc:{tenant}"), "tenant": format!("tenant:{tenant}"), "groups": ["callers"],
        });
        let made = control.ask("key.create", &params).await?;
        keys.push(made["key"].as_str().context("no key")?.to_owned());
    }
    Ok(keys)
}

/// The caller of one tenant.
struct Client {
    tenant: usize,
    connection: Connection,
    templates: Vec<Template>,
}

// === impl Client ===

impl Client {
    async fn open(
        stage: &Stage,
        tenant: usize,
        key: &str,
        drivers: &mut JoinSet<()>,
    ) -> anyhow::Result<Self> {
        let host = stage.address().to_string();
        let template = |server: &&str| {
            Template::new(
                Call::EchoOf(tenant),
                &format!("{server}__"),
                &host,
                Some(key),
            )
        };
        Ok(Self {
            tenant,
            connection: Connection::open(stage.address(), drivers).await?,
            templates: SERVERS.iter().map(template).collect::<Result<_, _>>()?,
        })
    }

    /// Waits until every server answers, then makes its calls, of each server in turn.
    async fn call(mut self, calls: u64) -> anyhow::Result<Vec<Answered>> {
        let deadline = Instant::now() + PATIENCE;
        for server in 0..SERVERS.len() {
            while !self.is_served(server).await? {
                ensure!(Instant::now() < deadline, "a server does not answer");
                time::sleep(POLL).await;
            }
        }
        let mut answers = Vec::new();
        for id in 0..calls {
            let server = usize::try_from(id)? % SERVERS.len();
            let template = &self.templates[server];
            let asked = Asked {
                tenant: self.tenant,
                id,
                server,
            };
            let messages = self.connection.responses(template, id).await?;
            answers.push(Answered { asked, messages });
        }
        Ok(answers)
    }

    async fn is_served(&mut self, server: usize) -> anyhow::Result<bool> {
        let messages = self
            .connection
            .responses(&self.templates[server], 0)
            .await?;
        let served =
            |message: &Value| message["result"]["isError"] != true && message["error"].is_null();
        Ok(messages.iter().all(served))
    }
}

/// Feeds the check answers that are wrong: it must find each.
fn plant(answers: &[Answered], owners: &Owners) -> anyhow::Result<Vec<Row>> {
    let of = |tenant: usize, server: usize| {
        let asked = |answered: &&Answered| {
            (answered.asked.tenant, answered.asked.server) == (tenant, server)
        };
        answers.iter().find(asked).cloned().context("too few calls")
    };
    let wrong = |answers: &[Answered]| check(answers, &mut owners.clone()).sum();
    let mut swapped = [of(0, 0)?, of(1, 0)?];
    let [first, second] = &mut swapped;
    mem::swap(&mut first.messages, &mut second.messages);
    let mut late = [of(0, 1)?];
    late[0].asked.id += 1;
    let mut twice = [of(0, 0)?];
    twice[0].messages.extend(twice[0].messages.clone());
    let mut never = [of(0, 0)?];
    never[0].messages.clear();
    // As its own tenant's process would have said it.
    let mut process = [of(0, OWN)?];
    let foreign = owners.iter().find(|(_, tenant)| **tenant != 0);
    let foreign = foreign.context("one tenant alone")?.0;
    let text = format!(
        "{}{STAMP}{foreign}",
        text_of(0, &process[0].asked.id.to_string())
    );
    process[0].messages[0]["result"]["content"][0]["text"] = json!(text);
    Ok(vec![
        Row::planted(
            "S8",
            "the answers of two tenants swapped",
            wrong(&swapped),
            2,
        ),
        Row::planted("S8", "an answer to the call before", wrong(&late), 1),
        Row::planted(
            "S8",
            "an answer twice, and none",
            wrong(&twice) + wrong(&never),
            2,
        ),
        Row::planted(
            "S8",
            "an answer by another tenant's process",
            wrong(&process),
            1,
        ),
    ])
}
