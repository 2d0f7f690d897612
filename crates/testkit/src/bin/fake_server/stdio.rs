//! One JSON message per line, in and out.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Stdout},
    sync::mpsc,
};
use tokio_util::task::TaskTracker;

use crate::{
    life, protocol,
    script::{Effect, Outgoing, Script, play},
    server::{Origin, Server},
    state::Session,
};

/// How much of the endless line is written.
const ENDLESS_CHUNKS: usize = 4096;
const CHUNK: usize = 65_536;

/// Serves until stdin ends.
pub(crate) async fn serve(server: Arc<Server>) -> io::Result<u8> {
    let (out, outgoing) = mpsc::channel(64);
    let tasks = TaskTracker::new();
    let writer = tasks.spawn(write_all(outgoing));
    let mut stdin = BufReader::new(tokio::io::stdin());
    let origin = Origin::stdio();
    let mut line = Vec::new();
    let mut messages = 0;
    loop {
        if server.flags.read_only.is_some_and(|most| messages >= most) {
            std::future::pending::<()>().await;
        }
        messages += 1;
        line.clear();
        if stdin.read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            continue;
        };
        if text.trim().is_empty() {
            continue;
        }
        let script = protocol::receive(&server, &origin, text);
        start(&server, &tasks, script, &out).await;
    }
    drop(out);
    // What runs still holds a sender; what has been answered is flushed all the same.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(200), writer).await;
    Ok(0)
}

async fn start(
    server: &Arc<Server>,
    tasks: &TaskTracker,
    script: Script,
    out: &mpsc::Sender<Outgoing>,
) {
    match &script.effect {
        Effect::Nothing => {}
        Effect::Open {
            version,
            capabilities,
        } => {
            let (version, capabilities) = (version.clone(), capabilities.clone());
            server.state.open_session(
                "",
                Session {
                    version,
                    capabilities,
                },
            );
        }
        Effect::Respond { id, response } => server.state.respond(id, response.clone()),
        Effect::Ready => server.state.listen_legacy("", out.clone()),
        Effect::Cancel { id } => server.state.cancel(None, id),
        Effect::Listen { filter } => {
            let id = script.id.as_deref().unwrap_or("null");
            server.state.listen_modern(id, filter.clone(), out.clone());
        }
    }
    // On one pipe the ids of both eras are one space, so that none needs a session beside it.
    let playing = play(Arc::clone(server), None, script.clone(), out.clone());
    if script.is_instant() {
        playing.await;
    } else {
        tasks.spawn(playing);
    }
}

async fn write_all(mut outgoing: mpsc::Receiver<Outgoing>) {
    let mut stdout = tokio::io::stdout();
    while let Some(item) = outgoing.recv().await {
        if write_one(&mut stdout, item).await.is_err() {
            // The client is gone; the reader will see the end of stdin.
            return;
        }
    }
}

async fn write_one(stdout: &mut Stdout, item: Outgoing) -> io::Result<()> {
    match item {
        Outgoing::Message(message) => {
            stdout.write_all(format!("{message}\n").as_bytes()).await?;
        }
        Outgoing::Junk(mut bytes) => {
            bytes.push(b'\n');
            stdout.write_all(&bytes).await?;
        }
        Outgoing::Endless => {
            let chunk = vec![b'x'; CHUNK];
            for _ in 0..ENDLESS_CHUNKS {
                stdout.write_all(&chunk).await?;
            }
        }
        Outgoing::Exit(code) => {
            stdout.flush().await?;
            life::end(code);
        }
    }
    stdout.flush().await
}
