//! Structured logs on standard error.

use genlock_config::{LogLevel, Logging};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Installs the logger of the process. `GENLOCK_LOG` (such as `debug` or `genlock_servers=trace`) wins over the config.
pub(crate) fn install(logging: &Logging, wish: Option<&String>) {
    let level = match logging.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let filter = wish
        .and_then(|wish| EnvFilter::try_new(wish).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = fmt::layer().with_writer(std::io::stderr);
    let installed = if logging.json {
        registry.with(layer.json()).try_init()
    } else {
        let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
        registry
            .with(layer.with_ansi(colours).with_target(false))
            .try_init()
    };
    if let Err(error) = installed {
        eprintln!("warning: no logs: {error}");
    }
}
