//! From a tree of nodes to a [`Config`], with every finding.
//!
//! A decoder never stops at a finding: it reports it, goes on with the default, and the config
//! is thrown away at the end where one finding was an error.

mod auth;
mod context;
mod fault;
mod free;
mod http;
mod path;
mod scalar;
mod section;
mod served;
mod server;
mod small;
mod stdio;
mod text;
mod tools;
mod top;
mod transport;
mod url;

pub(crate) use self::path::Path;

use camino::Utf8Path;

use self::context::{Context, Input, Outcome};
use crate::{
    finding::Findings,
    model::Config,
    private::PrivateValues,
    sources::{Files, Sources},
    tree::{self, Node},
};

/// What a document comes to.
pub(crate) struct Document {
    /// What could be read, also where a finding is an error; `None` where there is no document.
    pub(crate) config: Option<Config>,
    /// Every finding, but for those of `unavailable`.
    pub(crate) findings: Findings,
    /// What makes servers unavailable.
    pub(crate) unavailable: Findings,
}

/// Whether keys are looked at that this version does not act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    Report,
    Ignore,
}

/// Decodes a whole document.
pub(crate) fn document(
    text: &str,
    file: &Utf8Path,
    sources: &Sources,
    unserved: Unserved,
) -> Document {
    let context = Context::new(file, Input::Written(Files::new(sources, file)));
    let (root, faults) = tree::read(text, file.extension() == Some("json"));
    for fault in &faults.first {
        context.report(fault::finding(fault));
    }
    context.count_more(faults.more);
    let config = root.map(|root| {
        let config = top::decode(&context, &root);
        if unserved == Unserved::Report {
            served::report(&context, &root);
        }
        config
    });
    let Outcome {
        findings,
        unavailable,
    } = context.into_outcome();
    Document {
        config,
        findings,
        unavailable,
    }
}

/// Decodes a redacted form with its private values.
pub(crate) fn restored(
    root: &Node,
    name: &Utf8Path,
    private: &PrivateValues,
) -> Result<Config, Findings> {
    let context = Context::new(name, Input::Restored(private));
    let config = top::decode(&context, root);
    let Outcome { findings, .. } = context.into_outcome();
    match findings.has_errors() {
        true => Err(findings),
        false => Ok(config),
    }
}
