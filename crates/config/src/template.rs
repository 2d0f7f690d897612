//! Interpolation: `${VAR}`, `${env:VAR}`, `${file:PATH}`, `${…:-default}` and `$$`.
//!
//! One pass and no recursion: what a variable or a file holds is never read as a template again.

use secrecy::zeroize::Zeroizing;

use crate::{privacy, sources::FileFault, text::MARKER};

/// A config string, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template<'t>(Vec<Piece<'t>>);

#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Literal(&'t str),
    /// `$$`, which means `$`.
    Dollar,
    Reference(Reference<'t>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference<'t> {
    origin: Origin<'t>,
    /// Whether it was written `${env:…}`.
    explicit: bool,
    default: Option<&'t str>,
}

/// What a reference reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'t> {
    /// The variable of this name.
    Variable(&'t str),
    /// The file at this path.
    File(&'t str),
}

/// What an origin holds.
pub(crate) type Found = Result<Option<Zeroizing<String>>, FileFault>;

/// Why a string is no template. Names a variable at most, never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// `${` without `}`.
    Unclosed,
    /// What stands between the braces is no reference.
    NotAReference,
    /// A default that holds a `${`.
    Nested,
    /// `${word:…}` with another word than `env` or `file`.
    UnknownSource,
}

/// A template, filled in.
pub(crate) struct Filled {
    pub(crate) value: Zeroizing<String>,
    /// What its references stand for that are secret by their names, or come from a file.
    pub(crate) secrets: Vec<Zeroizing<String>>,
}

/// Why a template cannot be filled in: the origins, in the order of their first use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfilled<'t> {
    /// Those that hold nothing, without a default.
    pub(crate) missing: Vec<Origin<'t>>,
    /// Files that may not be read.
    pub(crate) refused: Vec<FileFault>,
}

// === impl Template ===

impl<'t> Template<'t> {
    /// Takes `text` apart.
    pub(crate) fn parse(text: &'t str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, dollar) = rest.split_at(at);
            let after = &dollar[1..];
            if let Some(escaped) = after.strip_prefix('$') {
                push_literal(&mut pieces, before);
                pieces.push(Piece::Dollar);
                rest = escaped;
            } else if let Some(inside) = after.strip_prefix('{') {
                push_literal(&mut pieces, before);
                let end = inside.find('}').ok_or(TemplateError::Unclosed)?;
                pieces.push(Piece::Reference(Reference::parse(&inside[..end])?));
                rest = &inside[end + 1..];
            } else {
                // A lone `$` stands for itself.
                push_literal(&mut pieces, &rest[..=at]);
                rest = after;
            }
        }
        push_literal(&mut pieces, rest);
        Ok(Self(pieces))
    }

    /// Says whether the value depends on a variable.
    pub(crate) fn has_references(&self) -> bool {
        self.0
            .iter()
            .any(|piece| matches!(piece, Piece::Reference(_)))
    }

    /// Fills in what `find` finds.
    pub(crate) fn fill(&self, find: impl Fn(Origin<'t>) -> Found) -> Result<Filled, Unfilled<'t>> {
        let mut filled = Filled {
            value: Zeroizing::new(String::new()),
            secrets: Vec::new(),
        };
        let mut unfilled = Unfilled::default();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => filled.value.push_str(literal),
                Piece::Dollar => filled.value.push('$'),
                Piece::Reference(reference) => match reference.value(find(reference.origin)) {
                    Ok(Some(value)) => {
                        filled.value.push_str(&value);
                        if reference.origin.is_secret() {
                            filled.secrets.push(value);
                        }
                    }
                    Ok(None) if unfilled.missing.contains(&reference.origin) => {}
                    Ok(None) => unfilled.missing.push(reference.origin),
                    Err(fault) => unfilled.refused.push(fault),
                },
            }
        }
        if unfilled == Unfilled::default() {
            Ok(filled)
        } else {
            Err(unfilled)
        }
    }

    /// Returns the template as written, but for the defaults of its references: those are values.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => shown.push_str(literal),
                Piece::Dollar => shown.push_str("$$"),
                Piece::Reference(reference) => reference.show(&mut shown),
            }
        }
        shown
    }

    /// Returns the references as written, with the marker in place of everything else.
    pub(crate) fn shown_references(&self) -> String {
        let mut shown = String::new();
        let mut hidden = false;
        for piece in &self.0 {
            match piece {
                Piece::Literal(_) | Piece::Dollar if hidden => {}
                Piece::Literal(_) | Piece::Dollar => {
                    shown.push_str(MARKER);
                    hidden = true;
                }
                Piece::Reference(reference) => {
                    reference.show(&mut shown);
                    hidden = false;
                }
            }
        }
        shown
    }
}

fn push_literal<'t>(pieces: &mut Vec<Piece<'t>>, literal: &'t str) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
}

// === impl Reference ===

impl<'t> Reference<'t> {
    fn parse(inside: &'t str) -> Result<Self, TemplateError> {
        let (head, default) = match inside.split_once(":-") {
            Some((head, default)) => (head, Some(default)),
            None => (inside, None),
        };
        if default.is_some_and(|default| default.contains("${")) {
            return Err(TemplateError::Nested);
        }
        let (explicit, name) = match head.split_once(':') {
            None => (false, head),
            Some(("env", name)) => (true, name),
            Some(("file", path)) => return Self::file(path, default),
            Some((source, _)) if is_variable(source) => return Err(TemplateError::UnknownSource),
            Some(_) => return Err(TemplateError::NotAReference),
        };
        if is_variable(name) {
            Ok(Self {
                origin: Origin::Variable(name),
                explicit,
                default,
            })
        } else {
            Err(TemplateError::NotAReference)
        }
    }

    fn file(path: &'t str, default: Option<&'t str>) -> Result<Self, TemplateError> {
        if path.trim().is_empty() || path.contains(char::is_control) {
            return Err(TemplateError::NotAReference);
        }
        Ok(Self {
            origin: Origin::File(path),
            explicit: false,
            default,
        })
    }

    // As in a shell, `:-` also stands in for a variable that is set to nothing.
    fn value(&self, found: Found) -> Found {
        let found = found?;
        Ok(match (found, self.default) {
            (None, Some(default)) => Some(Zeroizing::new(default.to_owned())),
            (Some(value), Some(default)) if value.is_empty() => {
                Some(Zeroizing::new(default.to_owned()))
            }
            (found, _) => found,
        })
    }

    fn show(&self, shown: &mut String) {
        let (start, name) = match self.origin {
            Origin::Variable(name) if self.explicit => ("${env:", name),
            Origin::Variable(name) => ("${", name),
            Origin::File(path) => ("${file:", path),
        };
        shown.push_str(start);
        shown.push_str(name);
        if let Some(default) = self.default {
            shown.push_str(":-");
            if !default.is_empty() {
                shown.push_str(MARKER);
            }
        }
        shown.push('}');
    }
}

// === impl Origin ===

impl Origin<'_> {
    /// Says whether what it holds is secret by what it is called.
    fn is_secret(self) -> bool {
        match self {
            Self::Variable(name) => privacy::is_secret_name(name),
            Self::File(_) => true,
        }
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(origin: Origin<'_>) -> Found {
        let value = match origin {
            Origin::Variable("A") => "1",
            Origin::Variable("B_2") => "two",
            Origin::Variable("EMPTY") => "",
            Origin::Variable("LOOP") => "${A}",
            Origin::Variable("A_TOKEN") => "t",
            Origin::File("/f") => "from file",
            Origin::File("/refused") => return Err(FileFault::NotAllowed),
            Origin::Variable(_) | Origin::File(_) => return Ok(None),
        };
        Ok(Some(Zeroizing::new(value.to_owned())))
    }

    fn fill(text: &str) -> Filled {
        let filled = Template::parse(text).unwrap().fill(find);
        filled.unwrap_or_else(|unfilled| panic!("{text}: {unfilled:?}"))
    }

    fn filled(text: &str) -> String {
        fill(text).value.to_string()
    }

    #[test]
    fn references_are_filled_in_one_pass() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("${A}", "1"),
            ("${env:A}", "1"),
            ("x${A}y${B_2}z", "x1ytwoz"),
            ("${NONE:-fallback}", "fallback"),
            ("${NONE:-}", ""),
            ("${NONE:-a:-b}", "a:-b"),
            ("${env:NONE:-http://h:1/}", "http://h:1/"),
            ("${EMPTY}", ""),
            ("${EMPTY:-fallback}", "fallback"),
            ("${LOOP}", "${A}"),
            ("$${A}", "${A}"),
            ("$$$${A}", "$${A}"),
            ("$$${A}", "$1"),
            ("a$b $ c$", "a$b $ c$"),
            ("${A}}", "1}"),
            ("<${file:/f}>", "<from file>"),
            ("${file:/none:-d}", "d"),
        ];

        for (text, expected) in cases {
            assert_eq!(filled(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        let cases = [
            ("${", TemplateError::Unclosed),
            ("a ${A", TemplateError::Unclosed),
            ("${}", TemplateError::NotAReference),
            ("${1}", TemplateError::NotAReference),
            ("${A B}", TemplateError::NotAReference),
            ("${env:}", TemplateError::NotAReference),
            ("${A-x}", TemplateError::NotAReference),
            ("${A:-${B_2}}", TemplateError::Nested),
            ("${file:}", TemplateError::NotAReference),
            ("${file:a\nb}", TemplateError::NotAReference),
            ("${input:key}", TemplateError::UnknownSource),
        ];

        for (text, expected) in cases {
            assert_eq!(Template::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn every_missing_origin_is_named_once() {
        let template = Template::parse("${X}${Y:-1}${Z}${X}${file:/x}${file:/refused:-d}").unwrap();

        let Err(unfilled) = template.fill(find) else {
            panic!("filled")
        };

        let missing = [
            Origin::Variable("X"),
            Origin::Variable("Z"),
            Origin::File("/x"),
        ];
        assert_eq!(unfilled.missing, missing);
        assert_eq!(unfilled.refused, [FileFault::NotAllowed]);
    }

    #[test]
    fn what_secret_named_references_and_files_stand_for_is_kept_apart() {
        let filled = fill("Bearer ${A_TOKEN}${A}${file:/f}${MY_SECRET:-dflt}");

        let secrets: Vec<_> = filled.secrets.iter().map(|text| text.as_str()).collect();
        assert_eq!(secrets, ["t", "from file", "dflt"]);
    }

    #[test]
    fn shown_forms_keep_references_and_hide_defaults() {
        let template =
            Template::parse("Bearer $$ ${env:A:-d3fault}/${B_2}${C:-}${file:/f}").unwrap();

        assert_eq!(
            template.shown(),
            "Bearer $$ ${env:A:-[private]}/${B_2}${C:-}${file:/f}"
        );
        assert_eq!(
            template.shown_references(),
            "[private]${env:A:-[private]}[private]${B_2}${C:-}${file:/f}"
        );
    }
}
