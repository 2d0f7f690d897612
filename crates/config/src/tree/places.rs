//! Where the nodes of a document stand. Decides nothing about what they mean.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, Span};

use super::{Place, json};

/// The shape of a document and the place of each of its nodes.
///
/// May be empty or end early: whoever walks it keeps the last place that it knew.
#[derive(Debug, Default)]
pub(super) struct Places {
    nodes: Vec<Marked>,
    /// Where the second document starts.
    pub(super) second_document: Option<Place>,
}

#[derive(Debug)]
struct Marked {
    place: Place,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Scalar,
    /// Another node stands here once more.
    Alias(usize),
    List(Vec<usize>),
    /// Keys and values in turn.
    Map(Vec<usize>),
}

/// A node of a [`Places`], if it has one for what is walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'p> {
    places: &'p Places,
    index: Option<usize>,
    place: Place,
}

// === impl Places ===

impl Places {
    /// Finds the places of the first YAML document in `text`.
    pub(super) fn of_yaml(text: &str) -> Self {
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { break };
            if !builder.take(&event, span) {
                break;
            }
        }
        builder.places
    }

    /// Finds the places of a text that is known to be JSON.
    pub(super) fn of_json(text: &str) -> Self {
        let mut builder = Builder::default();
        for (place, token) in json::tokens(text) {
            match token {
                json::Token::Scalar => {
                    builder.add(place, 0, Shape::Scalar);
                }
                json::Token::List => builder.open(place, 0, Shape::List(Vec::new())),
                json::Token::Map => builder.open(place, 0, Shape::Map(Vec::new())),
                json::Token::End => {
                    builder.open.pop();
                }
            }
        }
        builder.places
    }

    /// Returns the root.
    pub(super) fn root(&self) -> At<'_> {
        At {
            places: self,
            index: None,
            place: Place::START,
        }
        .at((!self.nodes.is_empty()).then_some(0))
    }
}

/// Puts events together.
#[derive(Default)]
struct Builder {
    places: Places,
    /// The collections that are open, the innermost last.
    open: Vec<usize>,
    anchors: BTreeMap<usize, usize>,
    documents: usize,
}

impl Builder {
    /// Takes one event, and says whether the next one is wanted.
    fn take(&mut self, event: &Event<'_>, span: Span) -> bool {
        match event {
            Event::Alias(anchor) => {
                let shape = self
                    .anchors
                    .get(anchor)
                    .map_or(Shape::Scalar, |&node| Shape::Alias(node));
                self.add(place_of(span), 0, shape);
            }
            Event::Scalar(_, _, anchor, _) => {
                self.add(place_of(span), *anchor, Shape::Scalar);
            }
            Event::SequenceStart(anchor, _) => {
                self.open(place_of(span), *anchor, Shape::List(Vec::new()));
            }
            Event::MappingStart(anchor, _) => {
                self.open(place_of(span), *anchor, Shape::Map(Vec::new()));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
            }
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.places.second_document = Some(place_of(span));
                    return false;
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        true
    }

    /// Adds a collection that the next nodes belong to.
    fn open(&mut self, place: Place, anchor: usize, shape: Shape) {
        let node = self.add(place, anchor, shape);
        self.open.push(node);
    }

    fn add(&mut self, place: Place, anchor: usize, shape: Shape) -> usize {
        let node = self.places.nodes.len();
        self.places.nodes.push(Marked { place, shape });
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        let parent = self
            .open
            .last()
            .and_then(|&parent| self.places.nodes.get_mut(parent));
        if let Some(Marked {
            shape: Shape::List(children) | Shape::Map(children),
            ..
        }) = parent
        {
            children.push(node);
        }
        node
    }
}

fn place_of(span: Span) -> Place {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place {
        line: number(span.start.line()),
        column: number(span.start.col() + 1),
    }
}

// === impl At ===

impl<'p> At<'p> {
    /// Returns where this node stands, or where the nearest known one around it does.
    pub(super) fn place(self) -> Place {
        self.place
    }

    /// Returns the item of this list.
    pub(super) fn item(self, item: usize) -> Self {
        match self.shape() {
            Some(Shape::List(items)) => self.at(items.get(item).copied()),
            _ => self.at(None),
        }
    }

    /// Returns the key and the value of an entry of this mapping.
    pub(super) fn entry(self, entry: usize) -> (Self, Self) {
        match self.shape() {
            Some(Shape::Map(nodes)) => {
                let key = self.at(nodes.get(2 * entry).copied());
                (key, key.at(nodes.get(2 * entry + 1).copied()))
            }
            _ => (self.at(None), self.at(None)),
        }
    }

    fn shape(self) -> Option<&'p Shape> {
        let shape = &self.places.nodes.get(self.index?)?.shape;
        match shape {
            // An anchor's node is never itself an alias.
            Shape::Alias(node) => Some(&self.places.nodes.get(*node)?.shape),
            Shape::Scalar | Shape::List(_) | Shape::Map(_) => Some(shape),
        }
    }

    fn at(self, index: Option<usize>) -> Self {
        let place = index
            .and_then(|index| self.places.nodes.get(index))
            .map_or(self.place, |node| node.place);
        Self {
            index,
            place,
            ..self
        }
    }
}
