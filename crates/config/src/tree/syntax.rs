//! What the messages of the YAML reader mean, in words that hold nothing of the document.

use super::meaning::Reason;

/// Returns a reason without a hint.
pub(super) const fn plain(message: &'static str) -> Reason {
    Reason::Syntax {
        message,
        hint: None,
    }
}

// The messages of the YAML reader may hold values, so only known parts of them are looked for.
/// Says what a message of the YAML reader means.
pub(super) fn reason(message: &str) -> Reason {
    match message {
        _ if message.starts_with("EOF while parsing a value") => Reason::Empty,
        _ if message.contains("more than one document") => Reason::SeveralDocuments,
        _ if message.starts_with("recursion limit exceeded") => Reason::TooDeep,
        _ if message.starts_with("repetition limit exceeded") => Reason::TooLarge,
        _ => SYNTAX
            .iter()
            .find(|(known, _, _)| message.starts_with(known))
            .map_or(plain("not valid YAML"), |&(_, message, hint)| {
                Reason::Syntax { message, hint }
            }),
    }
}

/// How a message of the YAML reader starts, what it means here, and what helps.
const SYNTAX: &[(&str, &str, Option<&str>)] = &[
    (
        "found character that cannot start any token",
        "a character that cannot start a value",
        Some(
            "indent with spaces, not tabs, and quote values that start with `@`, `%` or a backquote",
        ),
    ),
    (
        "found a tab character",
        "a tab where only spaces may stand",
        Some("indent with spaces"),
    ),
    (
        "mapping values are not allowed in this context",
        "a `:` where no key can stand",
        Some("check the indentation, and quote a value that holds `: `"),
    ),
    (
        "did not find expected key",
        "no key where one is expected",
        Some("check the indentation of this line and the one before"),
    ),
    (
        "did not find expected '-' indicator",
        "no `-` where a list goes on",
        Some("check the indentation of this line and the one before"),
    ),
    (
        "could not find expected ':'",
        "a line that is no `key: value`",
        Some("end the key with `: `, and close the quotes before it"),
    ),
    (
        "did not find expected ',' or ']'",
        "a list in `[…]` that does not go on",
        Some("separate its items with `,` and close it with `]`"),
    ),
    (
        "did not find expected ',' or '}'",
        "a mapping in `{…}` that does not go on",
        Some("separate its entries with `,` and close it with `}`"),
    ),
    (
        "found unexpected end of stream",
        "quotes that are never closed",
        Some("close the quotes"),
    ),
    (
        "found unexpected document indicator",
        "`---` or `...` inside of quotes",
        Some("close the quotes"),
    ),
    (
        "found unknown escape character",
        "an unknown escape in double quotes",
        Some("use single quotes, or write `\\\\`"),
    ),
    (
        "unknown anchor",
        "an alias of an unknown anchor",
        Some("quote a value that starts with `*`"),
    ),
    (
        "control characters are not allowed",
        "a control character",
        None,
    ),
    (
        "found undefined tag handle",
        "a tag with an unknown handle",
        None,
    ),
    (
        "block sequence entries are not allowed",
        "a `- ` where no list can start",
        Some("check the indentation"),
    ),
    (
        "did not find expected <document start>",
        "text after the end of the document",
        None,
    ),
];
