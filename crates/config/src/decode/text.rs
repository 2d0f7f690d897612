//! Values that may be private, and in which `${…}` is filled in.

use super::{context::Report, section::Field};
use crate::{
    privacy,
    template::{Missing, Template, TemplateError},
    text::Text,
    tree::{Tag, Value},
};

/// What of a text is private when nothing in the file says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privacy {
    /// All of it.
    Whole,
    /// The value of a secret-named option, and parts of URLs.
    Argument,
    /// The userinfo and secret-named parameters.
    Url,
}

// === impl Field ===

impl Field<'_> {
    /// Takes this value as text, filled in, and private where it has to be.
    pub(crate) fn text(&self, privacy: Privacy) -> Option<Text> {
        self.refuse_tag(true);
        if self.is_unquoted() {
            let message = "expected text, found a number, or true or false";
            self.error_with("config.wrong_type", message, "quote it");
            return None;
        }
        let Value::Text(written) = &self.node.value else {
            self.wrong_type("text");
            return None;
        };
        let template = Template::parse(written)
            .map_err(|error| self.bad_template(error))
            .ok()?;
        let value = template
            .fill(self.context.variables)
            .map_err(|missing| self.missing(&missing))
            .ok()?;
        if value.contains('\0') {
            self.error("config.invalid_text", "holds a NUL character");
            return None;
        }
        let private = |shown: String| Some(Text::private(value.as_str().into(), shown));
        if self.node.tag == Tag::Private || privacy == Privacy::Whole {
            return private(template.shown_references());
        }
        let shown = template.shown();
        let redacted = match privacy {
            Privacy::Argument => privacy::redact_argument(&shown),
            Privacy::Url | Privacy::Whole => privacy::redact_url(&shown),
        };
        match redacted {
            Some(redacted) => private(redacted),
            None if template.has_references() => private(shown),
            None => Some(Text::plain(value.as_str())),
        }
    }

    /// Like [`Field::text`], for a value that must not be empty.
    pub(crate) fn some_text(&self, privacy: Privacy) -> Option<Text> {
        let text = self.text(privacy)?;
        if text.expose().is_empty() {
            self.error("config.empty_value", "is empty");
            return None;
        }
        Some(text)
    }

    /// Warns where a private value would be seen in a process list.
    pub(crate) fn warn_in_argv(&self, text: &Text) {
        if text.is_private() {
            let message = "a private value on a command line: every user of the machine can see it";
            let warning = Report::warning(
                "config.private_in_argv",
                self.node.place,
                self.path,
                message,
            );
            self.context
                .report(warning.hint("pass it in `env`, where the server can read it from there"));
        }
    }

    fn missing(&self, missing: &Missing<'_>) {
        for name in &missing.0 {
            self.error_with(
                "config.missing_variable",
                format!("the variable `{name}` is not set"),
                format!("set it, or give a default: `${{{name}:-…}}`"),
            );
        }
    }

    fn bad_template(&self, error: TemplateError) {
        let escape = "write `$$` for a plain `$`";
        match error {
            TemplateError::Unclosed => {
                self.error_with("config.bad_reference", "a `${` without its `}`", escape);
            }
            TemplateError::NotAReference => {
                let message = "expected `${VAR}`, `${env:VAR}` or `${VAR:-default}`";
                self.error_with("config.bad_reference", message, escape);
            }
            TemplateError::Nested => {
                let message = "a reference inside of a default";
                self.error_with(
                    "config.bad_reference",
                    message,
                    "a default is taken as it stands",
                );
            }
            TemplateError::File => {
                let message = "`${file:…}` is not read by this version";
                self.error_with(
                    "config.unknown_source",
                    message,
                    "use `${VAR}`, and put the file's text in the variable",
                );
            }
            TemplateError::UnknownSource => {
                let message = "a reference to an unknown source; the known one is `env`";
                self.error_with("config.unknown_source", message, escape);
            }
        }
    }
}
