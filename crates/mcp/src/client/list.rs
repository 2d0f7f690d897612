//! Reads a paged list of an upstream whole.

use tokio::time::Instant;

use super::{Call, CallError, Client};
use crate::{error::RpcError, message::Outcome, object::RawObject, raw::RawJson};

/// The most pages that a list may have.
const MAX_PAGES: usize = 1_000;
/// The most entries that a list may have.
const MAX_ENTRIES: usize = 100_000;
/// The most that the entries of a list may take together, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A whole list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// The entries in the upstream's order, each as it arrived.
    pub entries: Vec<RawJson>,
    /// The least time to live that a page named, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// Why a list could not be read whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A page has no answer.
    #[error("{method}: {source}")]
    Call {
        /// The method.
        method: &'static str,
        /// Why.
        source: CallError,
    },
    /// The upstream answered with an error.
    #[error("{method}: the server answered with error {code}: {message}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The error's code.
        code: i64,
        /// The error's message, made safe to show.
        message: String,
    },
    /// A page is no list.
    #[error("{method}: the result has no array `{field}`")]
    NotAList {
        /// The method.
        method: &'static str,
        /// The field that was looked for.
        field: &'static str,
    },
    /// The list does not end, or is larger than any honest one.
    #[error("{method}: the list {what}")]
    Unbounded {
        /// The method.
        method: &'static str,
        /// How it breaks the bounds.
        what: &'static str,
    },
}

impl Client {
    /// Reads all pages of a list, such as `tools/list` with its field `tools`.
    ///
    /// # Errors
    /// Where a page fails or the list breaks the bounds; there is no half a list.
    ///
    /// # Cancel safety
    /// As [`Client::call`].
    pub async fn list(
        &self,
        method: &'static str,
        field: &'static str,
        deadline: Instant,
    ) -> Result<Listed, ListError> {
        let mut listed = Listed::default();
        let mut bytes = 0;
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let page = self.page(method, cursor.as_ref(), deadline).await?;
            let entries = page.get(field).and_then(|entries| entries.items().ok());
            let entries = entries.ok_or(ListError::NotAList { method, field })?;
            bytes += entries
                .iter()
                .map(|entry| entry.as_bytes().len())
                .sum::<usize>();
            listed.entries.extend(entries);
            if listed.entries.len() > MAX_ENTRIES || bytes > MAX_BYTES {
                return Err(ListError::Unbounded {
                    method,
                    what: "is too large",
                });
            }
            let ttl = page.get("ttlMs").and_then(|ttl| ttl.decode::<u64>().ok());
            listed.ttl_ms = [listed.ttl_ms, ttl].into_iter().flatten().min();
            // An empty cursor is a cursor; only its absence ends the list.
            match page.get("nextCursor").filter(|cursor| !cursor.is_null()) {
                None => return Ok(listed),
                Some(next) if Some(next) == cursor.as_ref() => {
                    return Err(ListError::Unbounded {
                        method,
                        what: "answers one page again and again",
                    });
                }
                Some(next) => cursor = Some(next.clone()),
            }
        }
        Err(ListError::Unbounded {
            method,
            what: "has too many pages",
        })
    }

    async fn page(
        &self,
        method: &'static str,
        cursor: Option<&RawJson>,
        deadline: Instant,
    ) -> Result<RawObject, ListError> {
        let params = cursor
            .map(|cursor| ("cursor", cursor.clone()))
            .into_iter()
            .collect();
        let call = Call {
            method: method.to_owned(),
            params,
            ..Call::default()
        };
        match self
            .call(call, deadline)
            .await
            .map_err(|source| ListError::Call { method, source })?
        {
            Outcome::Object(page) => Ok(page),
            Outcome::Result(page) => RawObject::parse(&page).map_err(|_| ListError::NotAList {
                method,
                field: "result",
            }),
            Outcome::Error(error) => {
                let RpcError { code, message, .. } = RpcError::of_peer(&error);
                Err(ListError::Refused {
                    method,
                    code,
                    message,
                })
            }
        }
    }
}
