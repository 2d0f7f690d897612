//! A document as a tree of nodes that know where they stand.
//!
//! Knows nothing of the schema: [`read()`] takes text to a [`Node`] or says why it cannot.

mod json;
mod meaning;
mod merge;
mod places;
mod syntax;

pub(crate) use self::{
    meaning::Reason,
    merge::{Fault, FaultKind, read},
};

use secrecy::zeroize::Zeroizing;

/// A place in the text: line and column in characters, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// One node of a document.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) tag: Tag,
    pub(crate) value: Value,
}

/// What the file says about a node beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Nothing.
    None,
    /// It is marked `!private`.
    Private,
    /// It has a tag that means nothing here.
    Unknown,
}

/// What a node holds.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A whole number. Those outside of `i128` are read as [`Value::Float`].
    Integer(i128),
    Float(f64),
    Text(Zeroizing<String>),
    List(Vec<Node>),
    /// The entries in the order of the file, without two of one key.
    Map(Vec<Entry>),
}

/// One entry of a mapping.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

// === impl Value ===

impl Value {
    /// Returns the text, where this is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::List(_)
            | Self::Map(_) => None,
        }
    }
}

// === impl Place ===

impl Place {
    /// The start of a document.
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}
