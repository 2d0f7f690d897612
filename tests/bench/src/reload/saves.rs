//! G7: whatever way a file is saved, only what was saved whole is ever committed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::time;

use super::rows::Row;
use super::stage::{PATIENCE, Setting, Stage, replace, write};
use crate::process::server::POLL;

/// How many servers a file has, each with the number of the save in it.
const SERVERS: usize = 40;
/// How long the gateway waits for a file to be left alone.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// In how many pieces a slow save comes.
const PIECES: usize = 10;

/// A way to save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Save {
    /// Truncates, and writes in pieces with pauses.
    Torn,
    Rename,
    /// Swaps a link to the directory that the file is in.
    Link,
    /// A file with an older time takes its place.
    Older,
    DeleteCreate,
}

impl Save {
    const ALL: [Self; 5] = [
        Self::Torn,
        Self::Rename,
        Self::Link,
        Self::Older,
        Self::DeleteCreate,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Torn => "truncated and written slowly",
            Self::Rename => "renamed into place",
            Self::Link => "a symlink swapped",
            Self::Older => "replaced by an older file",
            Self::DeleteCreate => "deleted and created",
        }
    }

    /// Saves `text` as the save `number`, to its last byte.
    async fn save(self, file: &Path, text: &str, number: u64) -> anyhow::Result<()> {
        match self {
            Self::Torn => write_slowly(file, text, DEBOUNCE / 6).await,
            Self::Rename => replace(file, text),
            Self::Link => swap(file, text, number),
            Self::Older => {
                let fresh = file.with_extension("older");
                write(&fresh, text)?;
                let time = UNIX_EPOCH + Duration::from_secs(1_000_000 - number);
                File::options()
                    .write(true)
                    .open(&fresh)?
                    .set_modified(time)?;
                fs::rename(&fresh, file).context("rename a file")
            }
            Self::DeleteCreate => {
                fs::remove_file(file)?;
                time::sleep(POLL).await;
                write(file, text)
            }
        }
    }
}

/// Returns a file whose beginnings, cut at a line, are valid files as well.
fn text(number: u64) -> String {
    let debounce = DEBOUNCE.as_millis();
    let mut text =
        format!("config_reload: {{ debounce_ms: {debounce}, interval_s: 1 }}\nmcp_servers:\n");
    for server in 0..SERVERS {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  s{server}: {{ enabled: false, command: none, description: save-{number} }}"
        );
    }
    text
}

/// Writes pieces that end with a line, with a pause after each.
async fn write_slowly(path: &Path, text: &str, pause: Duration) -> anyhow::Result<()> {
    let mut file = File::options().write(true).truncate(true).open(path)?;
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    for piece in lines.chunks(lines.len().div_ceil(PIECES)) {
        file.write_all(piece.concat().as_bytes())?;
        file.sync_data()?;
        time::sleep(pause).await;
    }
    Ok(())
}

/// Puts the file into a directory of its own, and leads the link in its path there.
fn swap(file: &Path, text: &str, number: u64) -> anyhow::Result<()> {
    let home = file.parent().context("a file in no directory")?;
    let version = format!("version-{number}");
    fs::create_dir(home.join(&version))?;
    write(&home.join(&version).join("genlock.yaml"), text)?;
    let next = home.join("next");
    symlink(&version, &next)?;
    fs::rename(&next, home.join("data"))?;
    if !file.is_symlink() {
        symlink("data/genlock.yaml", file)?;
    }
    Ok(())
}

/// Saves so many times in each way, and looks at every generation that came of it.
///
/// # Errors
/// The gateway does not start, or cannot be asked.
pub(crate) async fn saves(binary: &Path, rounds: u64) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for save in Save::ALL {
        let mut stage = start(binary, save).await?;
        let mut missed = 0;
        for number in 1..=rounds {
            save.save(&stage.file(), &text(number), number).await?;
            missed += u64::from(!is_committed(&mut stage, number).await?);
        }
        let (generations, torn) = look(&mut stage, rounds).await?;
        let name = save.name();
        rows.push(Row::zero(
            "G7",
            &format!("{name}: generations ({generations}) of no whole save"),
            torn,
            rounds,
        ));
        rows.push(Row::zero(
            "G7",
            &format!("{name}: saves that did not come into force"),
            missed,
            rounds,
        ));
    }
    let (found, planted) = plant(binary, rounds.min(5)).await?;
    rows.push(Row::planted(
        "G7",
        "saves that pause for longer than the debounce",
        found,
        planted,
    ));
    Ok(rows)
}

async fn start(binary: &Path, save: Save) -> anyhow::Result<Stage> {
    let setting = Setting::prepare().await?;
    let stage = setting.start(binary, &[], |file| match save {
        Save::Link => swap(file, &text(0), 0),
        Save::Torn | Save::Rename | Save::Older | Save::DeleteCreate => write(file, &text(0)),
    });
    stage.await
}

/// Waits until a save is in force.
async fn is_committed(stage: &mut Stage, number: u64) -> anyhow::Result<bool> {
    let deadline = Instant::now() + PATIENCE / 6;
    while Instant::now() < deadline {
        let head = stage.get("/api/status").await?["generation"]
            .as_u64()
            .context("no head")?;
        if content(stage, head).await? == Some(number) {
            return Ok(true);
        }
        time::sleep(POLL).await;
    }
    Ok(false)
}

/// Returns which save a generation holds; `None` where it holds none whole.
async fn content(stage: &mut Stage, generation: u64) -> anyhow::Result<Option<u64>> {
    let shown = stage.get(&format!("/api/generations/{generation}")).await?;
    let Value::Object(servers) = &shown["config"]["mcp_servers"] else {
        bail!("no servers in {shown}");
    };
    let saves: BTreeSet<_> = servers
        .values()
        .map(|server| server["description"].as_str())
        .collect();
    let only = saves
        .first()
        .copied()
        .flatten()
        .filter(|_| saves.len() == 1 && servers.len() == SERVERS);
    Ok(only.and_then(|only| only.strip_prefix("save-")?.parse().ok()))
}

/// Counts the generations, and those of them that hold no whole save.
async fn look(stage: &mut Stage, last: u64) -> anyhow::Result<(u64, u64)> {
    let head = stage.get("/api/status").await?["generation"]
        .as_u64()
        .context("no head")?;
    let mut torn = 0;
    for generation in 1..=head {
        let save = content(stage, generation).await?;
        torn += u64::from(save.is_none_or(|save| save > last));
    }
    Ok((head, torn))
}

/// Saves so slowly that the beginning of a file is a file by itself: nobody can know that more is to come.
async fn plant(binary: &Path, rounds: u64) -> anyhow::Result<(u64, u64)> {
    let mut found = 0;
    for _ in 0..rounds {
        let mut stage = start(binary, Save::Torn).await?;
        write_slowly(&stage.file(), &text(1), DEBOUNCE * 3).await?;
        is_committed(&mut stage, 1).await?;
        found += u64::from(look(&mut stage, 1).await?.1 > 0);
    }
    Ok((found, rounds))
}
