//! The accept loop that the HTTP upstream and the floor share.

use std::error::Error;
use std::io::{self, Write as _};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Binds a free port on the loopback address and prints the URL to stdout.
///
/// # Errors
/// The port cannot be bound, or stdout is gone.
pub(crate) async fn bind() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("bind a loopback port")?;
    let address = listener.local_addr()?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening on http://{address}/mcp")?;
    stdout.flush()?;
    Ok(listener)
}

/// Answers every request of every connection with `handler`, until the process is ended.
///
/// # Errors
/// The listener fails.
pub(crate) async fn serve<H, F, B, E>(listener: TcpListener, handler: H) -> anyhow::Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection")?;
        stream.set_nodelay(true)?;
        let service = service_fn(handler.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A broken connection is the client's to report: it waits for an answer.
        connections.spawn(async move { drop(connection.await) });
        while connections.try_join_next().is_some() {}
    }
}
