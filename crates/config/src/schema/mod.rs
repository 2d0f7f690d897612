//! The one table of the keys that a config may hold.
//!
//! Decoding, the suggestions for an unknown key, the warnings about keys that are not acted
//! upon, [`effect_of`], the JSON Schema and the reference page are all read from it. A key is
//! added here first; what else has to follow, tests say.

mod effect;
mod json;
mod keys;
pub(crate) mod limits;
mod served;
mod server_keys;

pub use self::{
    effect::{Effect, effect_of, section_names, sections_markdown},
    json::json_schema,
};
pub(crate) use self::{
    keys::*,
    served::{Step, Unserved, Verdict, judge},
    server_keys::*,
};

use std::{ops::RangeInclusive, time::Duration};

use crate::tree::Value;

/// A key, its other spellings, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) serving: Serving,
    /// What it means, for people: one sentence in Markdown.
    pub(crate) doc: &'static str,
}

/// What may stand behind a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Boolean,
    Count(&'static RangeInclusive<u32>),
    Size(&'static RangeInclusive<u64>),
    Duration(&'static RangeInclusive<Duration>),
    Word(&'static [&'static str]),
    /// Text in which no `${…}` is read, by a regular expression where it has a form.
    Label(Option<&'static str>),
    /// Text in which `${…}` is read.
    Text,
    /// A mapping with the keys of a table.
    Section(&'static [Key]),
    /// A mapping from names to values of one kind.
    Map(&'static Kind),
    List(&'static Kind),
    OneOf(&'static [Kind]),
    /// A mapping of any form.
    Free,
    /// What a tool looks like, as a server lists it.
    Tool,
}

/// How a key is acted upon.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Serving {
    /// A change is in force with the generation that holds it.
    Live,
    /// A change is in force after a restart.
    Restart,
    /// As [`Serving::Live`], but for some values, of which the function says what they come to.
    LiveBut(fn(&Value) -> Verdict),
    /// As [`Serving::Restart`], but for some values.
    RestartBut(fn(&Value) -> Verdict),
    /// A section of which each key says so for itself.
    ByKey,
    /// This version does not act upon it. The function says what a value of it comes to.
    Not(fn(&Value) -> Verdict),
}

// === impl Key ===

impl Key {
    /// Says whether `key` is a spelling of this one.
    pub(crate) fn is(self, key: &str) -> bool {
        self.name == key || self.aliases.contains(&key)
    }
}

/// Defines a section: a constant for each key, and all of them as `ALL`.
macro_rules! section {
    ($(#[$meta:meta])* $section:ident { $(
        $key:ident = $name:literal $(| $alias:literal)* : $kind:expr, $serving:expr, $doc:literal;
    )+ }) => {
        $(#[$meta])*
        pub(crate) mod $section {
            use super::*;

            $(
                pub(crate) const $key: Key = Key {
                    name: $name,
                    aliases: &[$($alias,)*],
                    kind: $kind,
                    serving: $serving,
                    doc: $doc,
                };
            )+

            pub(crate) const ALL: &[Key] = &[$($key,)+];
        }
    };
}
pub(crate) use section;
