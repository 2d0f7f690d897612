//! K: private values of a config come out nowhere.
//!
//! Canaries stand wherever a config can hold a private value. The gateway runs with its log at trace, calls its servers,
//! reloads rotated values, refuses broken files, and is asked everything that it can be asked; then all that it wrote and
//! said is searched for every form of every canary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use hyper::Method;
use serde_json::{Value, json};

use super::canary::{Form, find, forms};
use super::progress;
use super::rows::Row;
use super::stage::{Setting, Stage, replace, write};
use crate::load::http::Connection;
use crate::load::template::{Call, Template};

/// The places of canaries.
const PLACES: [&str; 9] = [
    "env",
    "header",
    "argument",
    "url",
    "file",
    "variable",
    "env-file",
    "marked",
    "unreachable",
];
/// How much of a sink a leak is planted among, on either side.
const PLANTED_AMONG: usize = 2048;
/// The variable that the config refers to.
const VARIABLE: &str = "CANARY_TOKEN";

/// Everything that the gateway wrote or said, by where.
type Sinks = BTreeMap<String, Vec<u8>>;

/// The value at a place, in a version of the config. Holds what encodings differ in.
fn canary(place: usize, version: u64) -> String {
    let name = PLACES[place];
    // In a URL other characters would be written in another way.
    let odd = if matches!(name, "url" | "unreachable") {
        "-"
    } else {
        "/+\"~?"
    };
    // Letters that no other text has in this order.
    let body: String = (0..20_u64)
        .map(|index| {
            let mixed = (index + 1) * (place as u64 * 7919 + version * 104_729 + 12_345);
            char::from(b'a' + u8::try_from((mixed ^ (mixed >> 7)) % 26).unwrap_or(0))
        })
        .collect();
    format!("cnry{body}{odd}{place}{version}end")
}

/// The file, with the canaries of a version in it, beside the files that it refers to.
fn save(home: &Path, url: &str, command: &Value, version: u64) -> anyhow::Result<()> {
    let value = |name: &str| {
        let place = PLACES
            .iter()
            .position(|place| *place == name)
            .unwrap_or_default();
        canary(place, version)
    };
    write(&home.join("canary.txt"), &value("file"))?;
    write(
        &home.join("canary.env"),
        &format!("FROM_FILE='{}'\n", value("env-file")),
    )?;
    let program = command[0].clone();
    let mut config = json!({
        "config_reload": {"enabled": false},
        "logging": {"level": "trace"},
        "mcp_servers": {
            "pipe": {
                "command": program, "args": ["upstream-stdio"],
                "env": {"PLAIN": value("env"), "REFERRED": format!("${{{VARIABLE}}}"), "READ": "${file:canary.txt}"},
                "env_file": "canary.env",
            },
            "http": {
                "url": format!("{url}?token={}", value("url")),
                "headers": {"Authorization": format!("Bearer {}", value("header")), "X-Referred": format!("${{{VARIABLE}}}")},
            },
            "gone": {"url": format!("http://127.0.0.1:1/mcp?api_key={}", value("unreachable"))},
            "broken": {"command": "/bin/false", "args": ["--token", format!("${{{VARIABLE}}}")], "env": {"KEY": value("env")}},
        },
    })
    .to_string();
    // Marks have no JSON form, but YAML takes them within JSON.
    let (argument, marked) = (json!(value("argument")), json!(value("marked")));
    let args = format!(
        r#","args":{{"command":"/bin/false","args":[!private {argument},!private {marked}]}}}}}}"#
    );
    ensure!(config.ends_with("}}"), "the file ends otherwise");
    config.truncate(config.len() - 2);
    replace(&home.join("genlock.yaml"), &(config + &args))
}

/// Searches everything for every canary.
///
/// # Errors
/// The gateway does not start, or does not do what is asked of it.
pub(crate) async fn secrets(binary: &Path, versions: u64) -> anyhow::Result<Vec<Row>> {
    let setting = Setting::prepare().await?;
    let (url, command) = (setting.url.clone(), setting.command.clone());
    let home = setting.path().to_owned();
    let variable = PLACES
        .iter()
        .position(|place| *place == "variable")
        .unwrap_or_default();
    let variable = canary(variable, 0);
    let variables = [(VARIABLE, variable.as_str())];
    let mut stage = setting
        .start(binary, &variables, |_| save(&home, &url, &command, 0))
        .await?;
    let mut sinks = Sinks::new();
    for version in 0..versions {
        if version > 0 {
            save(&home, &url, &command, version)?;
            say(
                &mut sinks,
                "reload report",
                &stage.reload(&json!({"dry_run": true})).await?,
            );
            say(
                &mut sinks,
                "reload report",
                &stage.reload(&json!({})).await?,
            );
        }
        call(&mut stage, &mut sinks).await?;
        refuse(&mut stage, &mut sinks, version).await?;
        save(&home, &url, &command, version)?;
        say(
            &mut sinks,
            "reload report",
            &stage.reload(&json!({})).await?,
        );
        ask(&mut stage, &mut sinks).await?;
        commands(&stage, &mut sinks)?;
        written(&stage, &mut sinks)?;
    }
    let given = was_given(&mut stage, versions - 1).await?;
    let forms = all_forms(versions);
    for (sink, bytes) in &sinks {
        progress(&format!("searched {sink}: {} bytes", bytes.len()));
    }
    let found = search(&sinks, &forms);
    for leak in &found {
        // Told by place and form, never by value.
        progress(&format!("LEAK: {leak}"));
    }
    let (planted_found, planted) = plant(&sinks, &forms);
    let bytes: usize = sinks.values().map(Vec::len).sum();
    let what = format!(
        "{} sinks ({bytes} bytes), {} forms of {} values",
        sinks.len(),
        forms.len(),
        PLACES.len() as u64 * versions
    );
    Ok(vec![
        Row::zero(
            "K",
            &format!("{what}: found"),
            found.len() as u64,
            (sinks.len() * forms.len()) as u64,
        ),
        Row::planted("K", "each form in each sink", planted_found, planted),
        Row::planted(
            "K",
            "the child that was given a value, by its environment",
            given,
            1,
        ),
    ])
}

fn all_forms(versions: u64) -> Vec<(String, Form)> {
    let places = PLACES.iter().enumerate();
    let mut all = Vec::new();
    for (place, name) in places {
        for version in 0..versions {
            let of = |form| (format!("{name} {version}"), form);
            all.extend(forms(&canary(place, version)).into_iter().map(of));
        }
    }
    all
}

fn say(sinks: &mut Sinks, sink: &str, value: &Value) {
    add(sinks, sink, value.to_string().as_bytes());
}

fn add(sinks: &mut Sinks, sink: &str, bytes: &[u8]) {
    let all = sinks.entry(sink.to_owned()).or_default();
    all.extend_from_slice(bytes);
    all.push(b'\n');
}

/// Calls the servers, those that do not answer as well.
async fn call(stage: &mut Stage, sinks: &mut Sinks) -> anyhow::Result<()> {
    let mut drivers = tokio::task::JoinSet::new();
    let mut connection = Connection::open(stage.address(), &mut drivers).await?;
    let host = stage.address().to_string();
    for prefix in ["pipe__", "http__", "gone__", "broken__"] {
        let template = Template::new(Call::Echo, prefix, &host, None)?;
        let (_, answer) = connection.outcome(&template, 7).await?;
        say(sinks, "answers of calls", &answer);
    }
    let template = Template::new(Call::List(0), "", &host, None)?;
    let (_, answer) = connection.outcome(&template, 8).await?;
    say(sinks, "answers of calls", &answer);
    Ok(())
}

/// Reloads files that are wrong, beside and within private values.
async fn refuse(stage: &mut Stage, sinks: &mut Sinks, version: u64) -> anyhow::Result<()> {
    let value = json!(canary(0, version));
    let wrong = [
        format!("mcp_servers: {{ a: {{ command: a, env: {{ T: {value} }}, timeout: {value} }} }}"),
        format!("mcp_servers: {{ a: {{ url: {value}, headers: [{value}] }} }}"),
        format!("mcp_servers: {{ a: {{ command: a, env: {{ T: {value} "),
        format!("mcp_servers: {{ {value}: {value} }}\n{value}: {value}"),
        format!("listen: {value}\nauth: {{ jwt: {value} }}\nstore: {{ url: {value} }}"),
    ];
    for text in wrong {
        replace(&stage.file(), &text)?;
        let (status, refusal) = stage.ask(Method::POST, "/api/config/reload", "{}").await?;
        ensure!(status.is_client_error(), "not refused: {refusal}");
        say(sinks, "refusals", &refusal);
        say(
            sinks,
            "status while refused",
            &stage.get("/api/status").await?,
        );
    }
    Ok(())
}

/// Asks everything that can be asked.
async fn ask(stage: &mut Stage, sinks: &mut Sinks) -> anyhow::Result<()> {
    for route in ["/api/status", "/api/servers", "/api/generations"] {
        say(sinks, route, &stage.get(route).await?);
    }
    for server in ["pipe", "http", "gone", "broken", "args"] {
        say(
            sinks,
            "/api/servers/NAME",
            &stage.get(&format!("/api/servers/{server}")).await?,
        );
        say(
            sinks,
            "server logs",
            &stage.get(&format!("/api/servers/{server}/logs")).await?,
        );
    }
    let (_, export) = stage.ask(Method::POST, "/api/config/export", "{}").await?;
    say(sinks, "export", &export);
    let head = stage.get("/api/status").await?["generation"]
        .as_u64()
        .context("no head")?;
    for number in 1..=head {
        say(
            sinks,
            "generations",
            &stage.get(&format!("/api/generations/{number}")).await?,
        );
        say(
            sinks,
            "diffs",
            &stage
                .get(&format!("/api/generations/1/diff/{number}"))
                .await?,
        );
    }
    let (_, refusal) = stage
        .ask(Method::POST, "/api/generations/1/rollback", "{}")
        .await?;
    say(sinks, "rollback", &refusal);
    Ok(())
}

/// Runs the commands that show the configuration.
fn commands(stage: &Stage, sinks: &mut Sinks) -> anyhow::Result<()> {
    let commands: [&[&str]; 6] = [
        &["check"],
        &["status"],
        &["servers", "list"],
        &["reload", "--dry-run"],
        &["generations", "list"],
        &["generations", "show", "1"],
    ];
    for command in commands {
        let output = stage.run(command)?;
        add(sinks, "output of commands", &output.stdout);
        add(sinks, "output of commands", &output.stderr);
    }
    Ok(())
}

/// Reads every file that the gateway writes, and its command line.
fn written(stage: &Stage, sinks: &mut Sinks) -> anyhow::Result<()> {
    let mut open = vec![stage.directory.path().join("state")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                add(sinks, &format!("state/{name}"), &fs::read(entry.path())?);
            }
        }
    }
    let pid = stage.gateway.pid();
    add(
        sinks,
        "command line",
        &fs::read(format!("/proc/{pid}/cmdline"))?,
    );
    add(
        sinks,
        "log at trace",
        &fs::read(stage.directory.path().join("genlock.log"))?,
    );
    Ok(())
}

/// Searches for what must be found: a value in the environment of the server that it was given to.
async fn was_given(stage: &mut Stage, version: u64) -> anyhow::Result<u64> {
    let server = stage.get("/api/servers/pipe").await?;
    let pid = server["pid"]
        .as_u64()
        .with_context(|| format!("no process: {server}"))?;
    let environment = fs::read(format!("/proc/{pid}/environ")).context("read an environment")?;
    let forms = forms(&canary(0, version));
    let raw = forms.iter().find(|form| form.name == "raw");
    Ok(u64::from(raw.is_some_and(|raw| find(&environment, raw))))
}

/// Names every sink and value where a form was found.
fn search(sinks: &Sinks, forms: &[(String, Form)]) -> Vec<String> {
    let mut found = Vec::new();
    for (sink, bytes) in sinks {
        for (value, form) in forms.iter().filter(|(_, form)| find(bytes, form)) {
            found.push(format!("{value} in {sink} as {}", form.name));
        }
    }
    found
}

/// Puts each form into the middle of each sink, and searches for it there.
fn plant(sinks: &Sinks, forms: &[(String, Form)]) -> (u64, u64) {
    let (mut found, mut planted) = (0, 0);
    for (sink, bytes) in sinks {
        // The neighbourhood is enough: what is further away was searched before.
        let from = (bytes.len() / 2).saturating_sub(PLANTED_AMONG);
        let part = &bytes[from..bytes.len().min(from + 2 * PLANTED_AMONG)];
        for leak in forms {
            let (before, after) = part.split_at(part.len() / 2);
            let leaking = [before, &leak.1.bytes, after].concat();
            let one = Sinks::from([(sink.clone(), leaking)]);
            planted += 1;
            found += u64::from(!search(&one, std::slice::from_ref(leak)).is_empty());
        }
    }
    (found, planted)
}
