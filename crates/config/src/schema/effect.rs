//! How a change of each key takes effect.

use std::fmt::Write;

use serde::Serialize;

use super::{Key, Kind, Serving, top};

/// How a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// With the generation that holds it, at once.
    Live,
    /// After a restart; until then every report says so.
    RestartRequired,
    /// Not at all: this version does not act upon the key. Loading a config warns about it with
    /// the code `config.not_served`, or refuses it where ignoring it would grant more than the
    /// file grants.
    NotServed,
}

/// Returns how a change of the key at `path` takes effect: names from the top level down, in
/// the spelling of the [redacted form](crate::RedactedConfig). `None` for a key that does not
/// exist.
///
/// What stands below a key that says so for all of it, such as a name in a mapping, takes
/// effect as that key does. For a section of which each key says so for itself it is the least
/// of them.
///
/// ```
/// use genlock_config::{Effect, effect_of};
///
/// assert_eq!(effect_of(&["execution", "max_concurrency"]), Some(Effect::Live));
/// assert_eq!(effect_of(&["listen"]), Some(Effect::RestartRequired));
/// assert_eq!(effect_of(&["mcp_servers", "github", "args"]), Some(Effect::Live));
/// assert_eq!(effect_of(&["no_such_key"]), None);
/// ```
pub fn effect_of(path: &[&str]) -> Option<Effect> {
    in_section(top::ALL, path)
}

/// Returns the names of the sections of the top level, in the order of the reference.
pub fn section_names() -> impl ExactSizeIterator<Item = &'static str> {
    top::ALL.iter().map(|key| key.name)
}

/// Returns the reference page of the sections and how a change of each takes effect.
pub fn sections_markdown() -> String {
    let mut page = "# How a change of the config takes effect\n\n\
        Generated from the table of keys in `crates/config/src/schema`; do not edit.\n\n\
        - **live**: in force with the generation that holds it.\n\
        - **restart**: committed, and in force after a restart; until then every report names it.\n\
        - **not served**: this version does not act upon it. Loading warns with `config.not_served`.\n\
        - **refused**: not served, and ignoring it would grant more than the file grants: a config that\n  \
          asks for it is refused with `config.not_served`.\n\n\
        | key | a change is | meaning |\n|---|---|---|\n"
        .to_owned();
    rows(top::ALL, "", &mut page);
    page
}

fn in_section(keys: &[Key], path: &[&str]) -> Option<Effect> {
    let (name, rest) = path.split_first()?;
    let key = keys.iter().find(|key| key.name == *name)?;
    match key.serving {
        Serving::Live | Serving::LiveBut(_) => Some(Effect::Live),
        Serving::Restart | Serving::RestartBut(_) => Some(Effect::RestartRequired),
        Serving::Not(_) => Some(Effect::NotServed),
        Serving::ByKey => match (key.kind, rest) {
            (Kind::Section(keys), []) => least(keys),
            (Kind::Section(keys), rest) => in_section(keys, rest),
            (Kind::Map(Kind::Section(keys)), [] | [_]) => least(keys),
            (Kind::Map(Kind::Section(keys)), [_, rest @ ..]) => in_section(keys, rest),
            _ => None,
        },
    }
}

fn least(keys: &[Key]) -> Option<Effect> {
    keys.iter()
        .filter_map(|key| in_section(keys, &[key.name]))
        .min()
}

fn rows(keys: &[Key], prefix: &str, page: &mut String) {
    for key in keys {
        let Key { name, doc, .. } = key;
        let path = format!("{prefix}{name}");
        if matches!(key.serving, Serving::ByKey) {
            let _ = writeln!(page, "| `{path}` | by key | {doc} |");
            if let Kind::Section(keys) = key.kind {
                rows(keys, &format!("{path}."), page);
            } else if let Kind::Map(Kind::Section(keys)) = key.kind {
                rows(keys, &format!("{path}.<name>."), page);
            }
        } else {
            let _ = writeln!(page, "| `{path}` | {} | {doc} |", word(key));
        }
    }
}

fn word(key: &Key) -> &'static str {
    match key.serving {
        Serving::Live | Serving::LiveBut(_) => "live",
        Serving::Restart | Serving::RestartBut(_) => "restart",
        Serving::ByKey => "by key",
        Serving::Not(judge) if is_refused(judge) => "refused",
        Serving::Not(_) => "not served",
    }
}

/// Says whether a key is refused that asks for anything.
fn is_refused(judge: fn(&crate::tree::Value) -> super::Verdict) -> bool {
    let asks = crate::tree::Value::Bool(true);
    judge(&asks) == super::Verdict::Refuse
}
