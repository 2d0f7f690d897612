//! Values that may be private, and in which `${…}` is filled in.

use secrecy::{SecretString, zeroize::Zeroizing};

use super::{context::Report, section::Field};
use crate::{
    privacy,
    private::{MIN_SECRET_BYTES, PrivateValue},
    sources::Files,
    template::{Filled, Found, Origin, Template, TemplateError, Unfilled},
    text::Text,
    tree::{Tag, Value},
};

/// What of a text is private when nothing in the file says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privacy {
    /// All of it.
    Whole {
        /// Whether its name says that it is secret.
        secret: bool,
    },
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
        let Some(files) = self.context.files() else {
            return Some(match self.context.restored(&self.path.pointer()) {
                Some(value) => Text::of_private(value.clone(), written.as_str()),
                None => Text::plain(written.as_str()),
            });
        };
        let template = Template::parse(written)
            .map_err(|error| self.bad_template(error))
            .ok()?;
        let shown = self.shown(&template, privacy);
        let filled = match template.fill(|origin| find(files, origin)) {
            Ok(filled) => filled,
            Err(unfilled) => {
                let known = self.unfilled(&unfilled);
                return known.then(|| {
                    let shown = shown.unwrap_or_else(|| template.shown());
                    Text::of_private(PrivateValue::missing(), shown)
                });
            }
        };
        if filled.value.contains('\0') {
            self.error("config.invalid_text", "holds a NUL character");
            return None;
        }
        let Some(shown) = shown else {
            return Some(Text::plain(filled.value.as_str()));
        };
        let whole = self.node.tag == Tag::Private || privacy == (Privacy::Whole { secret: true });
        let secrets = secrets(&filled, privacy, whole);
        Some(Text::of_private(
            self.private_value(&filled.value, &secrets),
            shown,
        ))
    }

    /// Takes `value` as a text that is private in this place.
    pub(crate) fn private(&self, value: &str, secret: bool) -> Text {
        let secrets = match secret {
            true => vec![Zeroizing::new(value.to_owned())],
            false => Vec::new(),
        };
        Text::of_private(self.private_value(value, &secrets), "")
    }

    fn private_value(&self, value: &str, secrets: &[Zeroizing<String>]) -> PrivateValue {
        // Of several parts, such as a user and a password, one may well be short.
        let longest = secrets.iter().map(|secret| secret.len()).max();
        if longest.is_some_and(|longest| (1..MIN_SECRET_BYTES).contains(&longest)) {
            let message = format!(
                "a secret of less than {MIN_SECRET_BYTES} bytes: it is not masked in what servers answer"
            );
            let (place, path) = (self.node.place, self.path);
            let warning = Report::warning("config.short_secret", place, path, message);
            self.context.report(warning.hint("use a longer one"));
        }
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        let secrets = secrets.map(|secret| SecretString::from(secret.as_str()));
        PrivateValue::with_secrets(SecretString::from(value), secrets.collect())
    }

    /// Returns the form that may be shown, unless all of the text may be.
    fn shown(&self, template: &Template<'_>, privacy: Privacy) -> Option<String> {
        if self.node.tag == Tag::Private || matches!(privacy, Privacy::Whole { .. }) {
            return Some(template.shown_references());
        }
        let shown = template.shown();
        let redacted = match privacy {
            Privacy::Argument => privacy::redact_argument(&shown),
            Privacy::Url | Privacy::Whole { .. } => privacy::redact_url(&shown),
        };
        redacted.or_else(|| template.has_references().then_some(shown))
    }

    /// Like [`Field::text`], for a value that must not be empty.
    pub(crate) fn some_text(&self, privacy: Privacy) -> Option<Text> {
        let text = self.text(privacy)?;
        if text.expose().is_empty() && !text.is_missing() {
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

    /// Reports why the text cannot be filled in, and says whether that only makes a server
    /// unavailable.
    fn unfilled(&self, unfilled: &Unfilled<'_>) -> bool {
        let mut known = true;
        for fault in &unfilled.refused {
            let (code, message, hint) = fault.finding();
            self.error_with(code, message, hint);
            known = false;
        }
        for origin in &unfilled.missing {
            let (what, code, message, default) = match origin {
                Origin::Variable(name) => (
                    *name,
                    "config.missing_variable",
                    format!("the variable `{name}` is not set"),
                    format!("set it, or give a default: `${{{name}:-…}}`"),
                ),
                Origin::File(_) => (
                    "file",
                    "config.missing_file",
                    "a file that does not exist".to_owned(),
                    "create it, or give a default: `${file:…:-…}`".to_owned(),
                ),
            };
            let report = Report::error(code, self.node.place, self.path, message);
            known &= self.context.report_missing(what, report.hint(default));
        }
        known
    }

    fn bad_template(&self, error: TemplateError) {
        let escape = "write `$$` for a plain `$`";
        match error {
            TemplateError::Unclosed => {
                self.error_with("config.bad_reference", "a `${` without its `}`", escape);
            }
            TemplateError::NotAReference => {
                let message = "expected `${VAR}`, `${VAR:-default}` or `${file:PATH}`";
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
            TemplateError::UnknownSource => {
                let message =
                    "a reference to an unknown source; the known ones are `env` and `file`";
                self.error_with("config.unknown_source", message, escape);
            }
        }
    }
}

fn find(files: &Files<'_>, origin: Origin<'_>) -> Found {
    match origin {
        Origin::Variable(name) => Ok(files.variable(name)),
        Origin::File(path) => {
            let text = files.read(path)?;
            // Editors and `echo` end a file with a line break, which is no part of the value.
            Ok(text.map(|text| {
                let line = text.strip_suffix('\n').unwrap_or(&text);
                Zeroizing::new(line.strip_suffix('\r').unwrap_or(line).to_owned())
            }))
        }
    }
}

/// Returns the parts of a private text that are secret.
fn secrets(filled: &Filled, privacy: Privacy, whole: bool) -> Vec<Zeroizing<String>> {
    let value = filled.value.as_str();
    let mut secrets = filled.secrets.clone();
    if whole {
        secrets.push(filled.value.clone());
        // An answer that quotes a header may do so without the scheme: `Bearer <token>`.
        let scheme = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        if let Some((word, token)) = value.split_once(' ')
            && scheme(word)
            && !token.trim().is_empty()
        {
            secrets.push(Zeroizing::new(token.trim().to_owned()));
        }
        return secrets;
    }
    let parts = match privacy {
        Privacy::Argument => privacy::secrets_in_argument(value),
        Privacy::Url => privacy::secrets_in_url(value),
        Privacy::Whole { .. } => Vec::new(),
    };
    secrets.extend(parts.into_iter().map(Zeroizing::new));
    secrets
}
