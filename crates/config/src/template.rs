//! Interpolation: `${VAR}`, `${env:VAR}`, `${VAR:-default}` and `$$`.
//!
//! One pass and no recursion: what a variable holds is never read as a template again.

use secrecy::zeroize::Zeroizing;

use crate::{text::MARKER, variables::Variables};

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

#[derive(Debug, PartialEq, Eq)]
struct Reference<'t> {
    name: &'t str,
    /// Whether it was written `${env:…}`.
    explicit: bool,
    default: Option<&'t str>,
}

/// Why a string is no template. Names a variable at most, never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// `${` without `}`.
    Unclosed,
    /// What stands between the braces is no reference.
    NotAReference,
    /// A default that holds a `${`.
    Nested,
    /// `${file:…}`.
    File,
    /// `${word:…}` with another word than `env` or `file`.
    UnknownSource,
}

/// Variables that are not set and have no default, in the order of their first use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing<'t>(pub(crate) Vec<&'t str>);

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

    /// Fills in the variables.
    pub(crate) fn fill(&self, variables: &Variables) -> Result<Zeroizing<String>, Missing<'t>> {
        let mut value = Zeroizing::new(String::new());
        let mut missing = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => value.push_str(literal),
                Piece::Dollar => value.push('$'),
                Piece::Reference(reference) => match reference.value(variables) {
                    Some(filled) => value.push_str(filled),
                    None if missing.contains(&reference.name) => {}
                    None => missing.push(reference.name),
                },
            }
        }
        if missing.is_empty() {
            Ok(value)
        } else {
            Err(Missing(missing))
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
            Some(("file", _)) => return Err(TemplateError::File),
            Some((source, _)) if is_variable(source) => return Err(TemplateError::UnknownSource),
            Some(_) => return Err(TemplateError::NotAReference),
        };
        if is_variable(name) {
            Ok(Self {
                name,
                explicit,
                default,
            })
        } else {
            Err(TemplateError::NotAReference)
        }
    }

    // As in a shell, `:-` also stands in for a variable that is set to nothing.
    fn value<'v>(&self, variables: &'v Variables) -> Option<&'v str>
    where
        't: 'v,
    {
        match (variables.get(self.name), self.default) {
            (None | Some(""), Some(default)) => Some(default),
            (value, _) => value,
        }
    }

    fn show(&self, shown: &mut String) {
        shown.push_str(if self.explicit { "${env:" } else { "${" });
        shown.push_str(self.name);
        if let Some(default) = self.default {
            shown.push_str(":-");
            if !default.is_empty() {
                shown.push_str(MARKER);
            }
        }
        shown.push('}');
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

    fn variables() -> Variables {
        let pairs = [("A", "1"), ("B_2", "two"), ("EMPTY", ""), ("LOOP", "${A}")];
        Variables::from(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    fn filled(text: &str) -> String {
        Template::parse(text)
            .unwrap()
            .fill(&variables())
            .unwrap()
            .to_string()
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
            ("${file:/run/secrets/x}", TemplateError::File),
            ("${input:key}", TemplateError::UnknownSource),
        ];

        for (text, expected) in cases {
            assert_eq!(Template::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn every_missing_variable_is_named_once() {
        let template = Template::parse("${X}${Y:-1}${Z}${X}").unwrap();

        assert_eq!(template.fill(&variables()), Err(Missing(vec!["X", "Z"])));
    }

    #[test]
    fn shown_forms_keep_references_and_hide_defaults() {
        let template = Template::parse("Bearer $$ ${env:A:-d3fault}/${B_2}${C:-}").unwrap();

        assert_eq!(
            template.shown(),
            "Bearer $$ ${env:A:-[private]}/${B_2}${C:-}"
        );
        assert_eq!(
            template.shown_references(),
            "[private]${env:A:-[private]}[private]${B_2}${C:-}"
        );
    }
}
