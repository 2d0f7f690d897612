//! [`Party`]: a client of any era over any transport.

use genlock_testkit::{
    clients::{Answer, LegacyClient, META, MODERN, ModernClient, StdioClient, StdioCommand},
    harness::{GenlockProcess, Scratch},
};

use super::genlock;

/// A client of any era over any transport.
#[expect(clippy::large_enum_variant, reason = "a test has a handful of them")]
pub(crate) enum Party {
    /// 2026-07-28 over HTTP.
    Modern(ModernClient),
    /// A revision with `initialize`, over HTTP.
    Legacy(LegacyClient),
    /// Either, through `genlock serve --stdio`.
    Pipe(StdioClient),
}

/// Starts `genlock serve --stdio` on the state directory of a gateway.
pub(crate) fn stdio_command(gateway: &GenlockProcess) -> StdioCommand {
    stdio_command_in(gateway.scratch())
}

/// Starts `genlock serve --stdio` with the files of a directory, as those of a gateway are laid out.
pub(crate) fn stdio_command_in(scratch: &Scratch) -> StdioCommand {
    let (config, state) = (scratch.join("genlock.yaml"), scratch.join("state"));
    let args = [
        "--config",
        config.to_str().unwrap(),
        "--state-dir",
        state.to_str().unwrap(),
        "serve",
        "--stdio",
    ];
    let home = scratch.path().to_str().unwrap();
    StdioCommand::new(genlock(), args).env("HOME", home)
}

// === impl Party ===

impl Party {
    /// One client of each era over each transport, with a name for messages.
    pub(crate) async fn one_of_each(gateway: &GenlockProcess) -> [(&'static str, Self); 4] {
        let command = stdio_command(gateway);
        [
            (
                "modern over HTTP",
                Self::Modern(ModernClient::new(gateway.url())),
            ),
            (
                "legacy over HTTP",
                Self::Legacy(LegacyClient::connect(gateway.url(), "2025-11-25").await),
            ),
            (
                "modern over a pipe",
                Self::Pipe(StdioClient::modern(&command)),
            ),
            (
                "legacy over a pipe",
                Self::Pipe(StdioClient::legacy(&command, "2025-11-25").await),
            ),
        ]
    }

    pub(crate) async fn request(&self, method: &str, params: &str) -> Answer {
        match self {
            Self::Modern(client) => client.request(method, params).await,
            Self::Legacy(client) => client.request(method, params).await,
            Self::Pipe(client) => client.request(method, params).await,
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Answer {
        match self {
            Self::Modern(client) => client.call(tool, arguments).await,
            Self::Legacy(client) => client.call(tool, arguments).await,
            Self::Pipe(client) => client.call(tool, arguments).await,
        }
    }

    /// Calls a tool and asks for progress under this token, JSON text.
    pub(crate) async fn call_with_token(&self, tool: &str, arguments: &str, token: &str) -> Answer {
        let mut meta = format!(r#""progressToken":{token}"#);
        if let Self::Modern(client) = self {
            let call = client.prepare_call(tool, arguments);
            return call.meta("progressToken", token).send().await;
        }
        if self.is_modern() {
            meta = format!(
                r#"{meta},"{META}protocolVersion":"{MODERN}","{META}clientCapabilities":{{}}"#
            );
        }
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{{{meta}}}}}"#);
        self.request("tools/call", &params).await
    }

    pub(crate) fn is_modern(&self) -> bool {
        match self {
            Self::Modern(_) => true,
            Self::Legacy(_) => false,
            Self::Pipe(client) => client.initialized().is_none(),
        }
    }

    pub(crate) async fn tool_names(&self) -> Vec<String> {
        match self {
            Self::Modern(client) => client.tool_names().await,
            Self::Legacy(client) => client.tool_names().await,
            Self::Pipe(client) => client.tool_names().await,
        }
    }
}
