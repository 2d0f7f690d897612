//! What a document means: the one parse that decides.

use std::{cell::Cell, fmt};

use secrecy::zeroize::Zeroizing;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{Tag, syntax};

/// Nodes of one document, those that aliases repeat included.
const MAX_NODES: usize = 100_000;
/// Bytes of text in all nodes of one document, those that aliases repeat included.
const MAX_TEXT: usize = 8 << 20;

/// Mappings and lists inside of each other.
// What is stored of a config has to be read back by a JSON reader, which takes 128.
const MAX_DEPTH: usize = 64;

/// `[` and `{` in one YAML document, wherever they stand.
// The time that the YAML reader takes grows with the square of the depth of these, and it looks
// at its own limit of depth too late.
const MAX_BRACKETS: usize = 20_000;

/// A node without a place. Keeps duplicate keys, so that all of them can be reported.
pub(super) struct Raw {
    pub(super) tag: Tag,
    pub(super) value: RawValue,
}

pub(super) enum RawValue {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Zeroizing<String>),
    List(Vec<Raw>),
    Map(Vec<(Raw, Raw)>),
}

/// Why a document has no meaning. Holds no text of the document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meaningless {
    pub(super) reason: Reason,
    /// Line and column, from 1.
    pub(super) place: Option<(usize, usize)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There is no value in it.
    Empty,
    SeveralDocuments,
    TooDeep,
    TooLarge,
    Syntax {
        message: &'static str,
        hint: Option<&'static str>,
    },
}

/// Parses YAML.
pub(super) fn yaml(text: &str) -> Result<Raw, Meaningless> {
    let brackets = text
        .bytes()
        .filter(|byte| matches!(byte, b'[' | b'{'))
        .count();
    if brackets > MAX_BRACKETS {
        return Err(Meaningless {
            reason: Reason::TooLarge,
            place: None,
        });
    }
    let budget = Budget::new();
    let read = budget
        .seed()
        .deserialize(serde_yaml::Deserializer::from_str(text));
    read.map_err(|error| {
        let place = error.location().map(|at| (at.line(), at.column()));
        let reason = if budget.is_spent() {
            Reason::TooLarge
        } else if budget.is_deep() {
            Reason::TooDeep
        } else {
            syntax::reason(&error.to_string())
        };
        Meaningless { reason, place }
    })
}

/// Parses JSON.
// YAML's reader takes JSON but for pairs of surrogates (`"\ud83d\ude00"`), which common writers emit.
pub(super) fn json(text: &str) -> Result<Raw, Meaningless> {
    let budget = Budget::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = budget.seed().deserialize(&mut deserializer);
    read.and_then(|raw| deserializer.end().map(|()| raw))
        .map_err(|error| {
            let reason = if budget.is_spent() {
                Reason::TooLarge
            } else if budget.is_deep() || error.to_string().starts_with("recursion limit exceeded")
            {
                Reason::TooDeep
            } else if text.trim().is_empty() {
                Reason::Empty
            } else if error.is_eof() {
                syntax::plain("the JSON document ends too early")
            } else {
                syntax::plain("not valid JSON")
            };
            Meaningless {
                reason,
                place: Some((error.line(), error.column())),
            }
        })
}

// === Reading ===

/// What is left of the limits.
struct Budget {
    nodes: Cell<usize>,
    text: Cell<usize>,
    spent: Cell<bool>,
    deep: Cell<bool>,
}

impl Budget {
    fn new() -> Self {
        Self {
            nodes: Cell::new(MAX_NODES),
            text: Cell::new(MAX_TEXT),
            spent: Cell::new(false),
            deep: Cell::new(false),
        }
    }

    fn seed(&self) -> Seed<'_> {
        Seed {
            budget: self,
            depth: 0,
        }
    }

    fn is_deep(&self) -> bool {
        self.deep.get()
    }

    fn is_spent(&self) -> bool {
        self.spent.get()
    }

    fn take<E: de::Error>(&self, left: &Cell<usize>, amount: usize) -> Result<(), E> {
        if let Some(rest) = left.get().checked_sub(amount) {
            left.set(rest);
            return Ok(());
        }
        self.spent.set(true);
        Err(E::custom("too large"))
    }
}

#[derive(Clone, Copy)]
struct Seed<'b> {
    budget: &'b Budget,
    depth: usize,
}

impl Seed<'_> {
    fn inner(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Raw;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        self.budget.take(&self.budget.nodes, 1)?;
        if self.depth > MAX_DEPTH {
            self.budget.deep.set(true);
            return Err(de::Error::custom("too deep"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Raw, E> {
        Ok(RawValue::Null.untagged())
    }

    fn visit_none<E: de::Error>(self) -> Result<Raw, E> {
        Ok(RawValue::Null.untagged())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Raw, E> {
        Ok(RawValue::Bool(value).untagged())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Raw, E> {
        Ok(RawValue::Integer(value.into()).untagged())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Raw, E> {
        Ok(RawValue::Integer(value.into()).untagged())
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Raw, E> {
        Ok(RawValue::Integer(value).untagged())
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Raw, E> {
        // Far out of every range: only that it is a large number matters.
        Ok(i128::try_from(value)
            .map_or(RawValue::Float(f64::MAX), RawValue::Integer)
            .untagged())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Raw, E> {
        Ok(RawValue::Float(value).untagged())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Raw, E> {
        self.budget.take(&self.budget.text, value.len())?;
        Ok(RawValue::Text(Zeroizing::new(value.to_owned())).untagged())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            list.push(item);
        }
        Ok(RawValue::List(list).untagged())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry_seed(self.inner(), self.inner())? {
            map.push(entry);
        }
        Ok(RawValue::Map(map).untagged())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Raw, A::Error> {
        let (tag, content) = data.variant_seed(TagSeed)?;
        let raw = content.newtype_variant_seed(self)?;
        Ok(Raw {
            tag,
            value: raw.value,
        })
    }
}

struct TagSeed;

impl<'de> DeserializeSeed<'de> for TagSeed {
    type Value = Tag;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tag, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for TagSeed {
    type Value = Tag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tag")
    }

    fn visit_str<E: de::Error>(self, tag: &str) -> Result<Tag, E> {
        Ok(if tag == "private" {
            Tag::Private
        } else {
            Tag::Unknown
        })
    }
}

impl RawValue {
    fn untagged(self) -> Raw {
        Raw {
            tag: Tag::None,
            value: self,
        }
    }
}
