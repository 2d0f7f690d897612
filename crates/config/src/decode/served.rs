//! Findings about keys that this version does not act upon.

use super::{
    context::{Context, Report},
    path::Path,
};
use crate::{
    schema::{self, Step, Unserved, Verdict},
    tree::Node,
};

/// Reports every value of `root` that asks for what this version does not do.
pub(crate) fn report(context: &Context<'_>, root: &Node) {
    for unserved in schema::judge(root) {
        with_path(&Path::Root, &unserved.path, &mut |path| {
            context.report(finding(&unserved, path));
        });
    }
}

fn finding(unserved: &Unserved<'_>, path: &Path<'_>) -> Report {
    let place = unserved.entry.key_place;
    let code = "config.not_served";
    match unserved.verdict {
        Verdict::Refuse => {
            let message = "this version does not act upon it, and without it more would be granted than the file grants";
            Report::error(code, place, path, message)
                .hint("remove it, where what it narrows may be open")
        }
        Verdict::Warn | Verdict::Silent => {
            let message = "this version does not act upon it";
            Report::warning(code, place, path, message)
        }
    }
}

fn with_path(path: &Path<'_>, steps: &[Step<'_>], then: &mut dyn FnMut(&Path<'_>)) {
    match steps.split_first() {
        None => then(path),
        Some((Step::Key(key), rest)) => with_path(&path.key(key), rest, then),
        Some((Step::Item(index), rest)) => with_path(&path.item(*index), rest, then),
    }
}
