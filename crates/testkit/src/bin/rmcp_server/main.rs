//! A conformant upstream built on the official SDK, of all the eras it serves: `genlock-rmcp-server [--http ADDR]`.
//!
//! Over HTTP it prints one line, `listening http://ADDR/mcp`.

mod tools;

use std::{convert::Infallible, io::Write as _, net::SocketAddr, process::ExitCode, sync::Arc};

use clap::Parser;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rmcp::{
    ServiceExt as _,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::tools::Tools;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A conformant MCP server.
#[derive(Debug, Parser)]
#[command(name = "genlock-rmcp-server")]
struct Flags {
    /// Serves Streamable HTTP at this address instead of stdio.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Answers with JSON where one answer is all, and keeps no legacy sessions.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let ended = match flags.http {
        None => serve_stdio().await,
        Some(address) => serve_http(address, flags.json).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be reading.
            let _ = writeln!(std::io::stderr(), "rmcp server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_stdio() -> Result<(), Failure> {
    let service = Box::pin(Tools.serve((tokio::io::stdin(), tokio::io::stdout()))).await?;
    service.waiting().await?;
    Ok(())
}

async fn serve_http(address: SocketAddr, json: bool) -> Result<(), Failure> {
    let config = StreamableHttpServerConfig::default()
        .with_json_response(json)
        .with_legacy_session_mode(!json);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Tools), sessions, config);
    let listener = TcpListener::bind(address).await?;
    // The one line on stdout tells the test where to go.
    writeln!(
        std::io::stdout(),
        "listening http://{}/mcp",
        listener.local_addr()?
    )?;
    let tasks = TaskTracker::new();
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let service = service.clone();
        tasks.spawn(async move {
            let answer = service_fn(move |request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.handle(request).await) }
            });
            // A client that goes away in the middle is no fault here.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(connection), answer)
                .await;
        });
    }
}
