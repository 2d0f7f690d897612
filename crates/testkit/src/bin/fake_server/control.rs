//! The control directory: files that a test creates while the server runs.

use std::sync::Arc;

use crate::{life::complain, script::POLL, server::Server, state::Change};

/// Watches the directory for ever.
///
/// `announce`, `announce_prompts` and `announce_resources` are removed once somebody was told;
/// `updated` holds the URI of a resource that changed; `drop_sessions` and `end_listens` are removed when done.
pub(crate) async fn watch(server: Arc<Server>) {
    let Some(dir) = server.flags.control.clone() else {
        return;
    };
    loop {
        for (name, change) in [
            ("announce", Change::Tools),
            ("announce_prompts", Change::Prompts),
            ("announce_resources", Change::Resources),
        ] {
            // Only once somebody listens: an announcement that nobody can hear would be lost.
            if server.flags.switched(name) && server.state.announce(&change) {
                remove(&dir.join(name));
            }
        }
        if let Ok(uri) = std::fs::read_to_string(dir.join("updated"))
            && server
                .state
                .announce(&Change::Resource(uri.trim().to_owned()))
        {
            remove(&dir.join("updated"));
        }
        if server.flags.switched("drop_sessions") {
            server.state.forget_sessions();
            remove(&dir.join("drop_sessions"));
        }
        if server.flags.switched("end_listens") {
            server.state.end_listens();
            remove(&dir.join("end_listens"));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn remove(path: &std::path::Path) {
    if let Err(error) = std::fs::remove_file(path) {
        complain(&format!("cannot remove {}: {error}", path.display()));
    }
}
