//! Findings about the document itself.

use super::context::Report;
use crate::tree::{Fault, FaultKind, Reason};

/// Says what a fault of the document is.
pub(crate) fn finding(fault: &Fault) -> Report {
    let error = |code, message: &str| Report::error(code, fault.place, &fault.path, message);
    match &fault.kind {
        FaultKind::Meaningless(Reason::Empty) => error("config.empty", "the document is empty")
            .hint("write `{}` for a config of nothing but defaults"),
        FaultKind::Meaningless(Reason::SeveralDocuments) => error(
            "config.several_documents",
            "a second document starts here; a config is one",
        )
        .hint("remove the `---` line, or put the documents together"),
        FaultKind::Meaningless(Reason::TooDeep) => error("config.too_deep", "nested too deeply"),
        FaultKind::Meaningless(Reason::TooLarge) => error(
            "config.too_large",
            "the document holds too much, aliases counted as what they stand for",
        ),
        FaultKind::Meaningless(Reason::Syntax { message, hint }) => {
            let report = error("config.syntax", message);
            match hint {
                Some(hint) => report.hint(*hint),
                None => report,
            }
        }
        FaultKind::DuplicateKey { first } => {
            let message = format!(
                "this key stands twice: first at {}:{}",
                first.line, first.column
            );
            error("config.duplicate_key", &message).hint("keep one of the two")
        }
        FaultKind::MergeKey => error("config.merge_key", "merge keys (`<<`) are not read")
            .hint("write the keys out; an alias of a whole value works"),
        FaultKind::KeyNotText => {
            error("config.key_not_text", "a key that is no text").hint("quote it")
        }
    }
}
