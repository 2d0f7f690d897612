//! From a tree of nodes to a [`Config`], with every finding.
//!
//! A decoder never stops at a finding: it reports it, goes on with the default, and the config
//! is thrown away at the end where one finding was an error.

mod context;
mod fault;
mod http;
mod keys;
mod path;
mod scalar;
mod section;
mod server;
mod stdio;
mod text;
mod top;
mod transport;
mod url;

pub(crate) use self::path::Path;

use camino::Utf8Path;

use self::context::Context;
use crate::{finding::Findings, model::Config, tree, variables::Variables};

/// Decodes a whole document.
///
/// Returns the config where no finding is an error, and every finding.
pub(crate) fn document(
    text: &str,
    file: &Utf8Path,
    variables: &Variables,
) -> (Option<Config>, Findings) {
    let context = Context::new(file, variables);
    let (root, faults) = tree::read(text, file.extension() == Some("json"));
    for fault in &faults.first {
        context.report(fault::finding(fault));
    }
    context.count_more(faults.more);
    let config = root.map(|root| top::decode(&context, &root));
    let findings = context.into_findings();
    (config.filter(|_| !findings.has_errors()), findings)
}
