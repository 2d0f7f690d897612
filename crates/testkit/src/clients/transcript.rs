//! Everything that one stream has said so far.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

/// The messages of one stream, in order, as they arrived. Clones share it.
#[derive(Debug, Clone)]
pub struct Transcript {
    messages: Arc<Mutex<Vec<String>>>,
    /// How many there are, and whether the stream has ended.
    progress: watch::Sender<(usize, bool)>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self {
            messages: Arc::default(),
            progress: watch::Sender::new((0, false)),
        }
    }
}

// === impl Transcript ===

impl Transcript {
    pub(crate) fn push(&self, message: String) {
        let mut messages = self.messages.lock();
        messages.push(message);
        let count = messages.len();
        drop(messages);
        self.progress.send_modify(|progress| progress.0 = count);
    }

    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.1 = true);
    }

    /// All messages so far.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().clone()
    }

    /// Whether the stream has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.progress.borrow().1
    }

    /// The methods of the notifications and requests so far.
    #[must_use]
    pub fn methods(&self) -> Vec<String> {
        self.messages()
            .iter()
            .filter_map(|message| method_of(message))
            .collect()
    }

    /// The first message, also of those already there, that `wanted` accepts; `None` where the stream ends first.
    ///
    /// # Panics
    /// After `deadline`, with everything that was said.
    pub async fn find(
        &self,
        deadline: Duration,
        what: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut progress = self.progress.subscribe();
        let mut seen = 0;
        let search = async {
            loop {
                let (count, ended) = *progress.borrow_and_update();
                let found = self.messages.lock()[seen..count]
                    .iter()
                    .find(|message| wanted(message))
                    .cloned();
                if found.is_some() || ended {
                    return found;
                }
                seen = count;
                if progress.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(deadline, search)
            .await
            .unwrap_or_else(|_| {
                panic!(
                    "no {what} after {deadline:?}; there was: {:#?}",
                    self.messages()
                )
            })
    }

    /// The first message with this method.
    ///
    /// # Panics
    /// After the clients' deadline, or where the stream ends first.
    pub async fn wait_for(&self, method: &str) -> String {
        self.find(super::DEADLINE, method, |message| {
            method_of(message).as_deref() == Some(method)
        })
        .await
        .unwrap_or_else(|| {
            panic!(
                "the stream ended without `{method}`; there was: {:#?}",
                self.messages()
            )
        })
    }

    /// Waits for the end of the stream.
    ///
    /// # Panics
    /// After the clients' deadline.
    pub async fn wait_for_end(&self) {
        let _ = self
            .find(super::DEADLINE, "end of the stream", |_| false)
            .await;
    }
}

pub(crate) fn method_of(message: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape {
        method: Option<String>,
    }
    serde_json::from_str::<Shape>(message).ok()?.method
}
