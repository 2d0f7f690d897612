//! What is private by its name or its place in a URL.

use crate::{template::Template, text::MARKER};

/// A name that is one of these, or ends in `_` and one of these, names a private value. Those
/// of five letters and more need no `_` before them, as in `sslpassword`.
const SECRET_WORDS: &[&str] = &[
    "access_key",
    "api_key",
    "apikey",
    "auth_key",
    "authorization",
    "bearer",
    "client_secret",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "private_key",
    "secret",
    "secret_key",
    "secrets",
    "signature",
    "token",
    "tokens",
];

/// Says whether a key, query parameter or option of this name holds a private value.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = snake_case(name);
    SECRET_WORDS
        .iter()
        .any(|word| match name.strip_suffix(word) {
            Some(before) => word.len() >= 5 || before.is_empty() || before.ends_with('_'),
            None => false,
        })
}

/// `camelCase`, `kebab-case` and `dotted.case` in `snake_case`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before = None::<char>;
    for letter in name.chars() {
        let starts_word = letter.is_uppercase()
            && before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit());
        if starts_word {
            snake.push('_');
        }
        match letter {
            '-' | '.' | ' ' => snake.push('_'),
            _ => snake.extend(letter.to_lowercase()),
        }
        before = Some(letter);
    }
    snake
}

/// Says whether an argument is an option whose value, the next argument, is private.
pub(crate) fn is_secret_option(argument: &str) -> bool {
    match argument.strip_prefix('-') {
        Some(option) => is_secret_name(option.trim_start_matches('-')),
        None => false,
    }
}

/// Hides what is private in a command-line argument: what follows a secret-named option or
/// variable (`--token=…`, `API_KEY=…`, `Authorization: …`), and parts of URLs.
///
/// `shown` is the template as written, with its defaults already hidden. Returns `None` where
/// there is nothing to hide.
pub(crate) fn redact_argument(shown: &str) -> Option<String> {
    argument(shown, &mut hide)
}

/// Hides the userinfo and the secret-named query parameters of every URL in `shown`.
///
/// Returns `None` where there are none.
pub(crate) fn redact_url(shown: &str) -> Option<String> {
    url(shown, &mut hide)
}

/// Returns what [`redact_argument`] hides of a value.
pub(crate) fn secrets_in_argument(value: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    argument(value, &mut |part| keep(part, &mut secrets));
    secrets
}

/// Returns what [`redact_url`] hides of a value.
pub(crate) fn secrets_in_url(value: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    url(value, &mut |part| keep(part, &mut secrets));
    secrets
}

fn keep(part: &str, secrets: &mut Vec<String>) -> String {
    secrets.push(part.to_owned());
    MARKER.to_owned()
}

/// Makes the form of a part that may be shown.
type Hide<'h> = &'h mut dyn FnMut(&str) -> String;

fn argument(shown: &str, hide: Hide<'_>) -> Option<String> {
    let at = separators(shown, &['=', ':', ' ']).find(|&at| ends_in_secret_name(shown, at));
    let Some(at) = at else {
        return url(shown, hide);
    };
    let (before, after) = shown.split_at(at + 1);
    let value = after.trim_start();
    let space = &after[..after.len() - value.len()];
    let before = url(before, hide).unwrap_or_else(|| before.to_owned());
    Some(format!("{before}{space}{}", hide(value)))
}

/// Says whether a secret name stands before `at`, and something to hide behind it.
fn ends_in_secret_name(text: &str, at: usize) -> bool {
    let (before, after) = (&text[..at], &text[at + 1..]);
    let word = before.rsplit(char::is_whitespace).next().unwrap_or(before);
    // Inside of a URL it is for `redact_url`, and a scheme is no name.
    if word.contains("://") || after.starts_with("//") || after.trim().is_empty() {
        return false;
    }
    if text[at..].starts_with(' ') {
        return is_secret_option(word);
    }
    let named = before.trim_end_matches(['"', '\'', ' ']);
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let start = named
        .rfind(|letter| !is_part(letter))
        .map_or(0, |at| at + 1);
    let name = named.get(start..).unwrap_or(named);
    is_secret_name(name.trim_start_matches('-'))
}

fn url(shown: &str, hide: Hide<'_>) -> Option<String> {
    let mut parts = shown.split("://");
    let mut redacted = parts.next()?.to_owned();
    let mut changed = false;
    for part in parts {
        redacted.push_str("://");
        // No reference holds one of these: defaults are hidden already.
        let end = part.find(['/', '?', '#', ' ']).unwrap_or(part.len());
        let end = userinfo_end(part, end).unwrap_or(end);
        let (authority, path) = part.split_at(end);
        match authority.rsplit_once('@') {
            Some((userinfo, host)) => {
                let hidden: Vec<_> = split_outside_references(userinfo).map(&mut *hide).collect();
                redacted.push_str(&format!("{}@{host}", hidden.join(":")));
                changed = true;
            }
            None => redacted.push_str(authority),
        }
        let hidden = query_of(path, hide);
        changed |= hidden.is_some();
        redacted.push_str(hidden.as_deref().unwrap_or(path));
    }
    changed.then_some(redacted)
}

/// Returns where userinfo ends that holds an unescaped `/` or the like, as in `u:p/w@host`.
fn userinfo_end(part: &str, authority_end: usize) -> Option<usize> {
    let authority = &part[..authority_end];
    let (_, port) = authority.rsplit_once(':')?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || port.ends_with(']');
    let word = part.split(char::is_whitespace).next().unwrap_or(part);
    let at = word.rfind('@')?;
    (!authority.contains('@') && !is_port).then_some(at + 1)
}

fn query_of(path: &str, hide: Hide<'_>) -> Option<String> {
    let (before, query) = path.split_once('?')?;
    let (query, fragment) = match query.split_once('#') {
        Some((query, fragment)) => (query, Some(fragment)),
        None => (query, None),
    };
    let mut changed = false;
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if is_secret_parameter(name) && !value.is_empty() => {
                changed = true;
                format!("{name}={}", hide(value))
            }
            _ => pair.to_owned(),
        })
        .collect();
    let fragment = fragment
        .map(|fragment| format!("#{fragment}"))
        .unwrap_or_default();
    changed.then(|| format!("{before}?{}{fragment}", pairs.join("&")))
}

// `key` alone is a common name for an API key in a query, and too common a word elsewhere. A
// percent sign may spell a secret word in another way.
fn is_secret_parameter(name: &str) -> bool {
    is_secret_name(name) || name.eq_ignore_ascii_case("key") || name.contains('%')
}

/// Splits at the first `:` that stands in no reference.
fn split_outside_references(text: &str) -> impl Iterator<Item = &str> {
    let (first, second) = match separators(text, &[':']).next() {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    std::iter::once(first).chain(second)
}

/// Returns where one of `wanted`, all ASCII, stands outside of references.
fn separators<'t>(text: &'t str, wanted: &'t [char]) -> impl Iterator<Item = usize> + 't {
    let mut inside = false;
    let mut escaped = false;
    text.char_indices().filter_map(move |(at, letter)| {
        let rest = &text[at..];
        if inside {
            inside = letter != '}';
        } else if escaped {
            escaped = false;
        } else if rest.starts_with("${") {
            inside = true;
        } else if rest.starts_with("$$") {
            escaped = true;
        } else if wanted.contains(&letter) {
            return Some(at);
        }
        None
    })
}

/// Returns the references in `part`, with the marker in place of everything else.
fn hide(part: &str) -> String {
    match Template::parse(part) {
        Ok(template) => template.shown_references(),
        Err(_) => MARKER.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_secret_by_their_last_words() {
        let secret = [
            "token",
            "GITHUB_TOKEN",
            "githubToken",
            "github-token",
            "github.token",
            "api_key",
            "apiKey",
            "OPENAI_API_KEY",
            "X-Api-Key",
            "Authorization",
            "client_secret",
            "dbPassword",
            "AWS_SECRET_ACCESS_KEY",
            "APIKEY",
            "credentials",
            "sslpassword",
            "csrftoken",
            "GITHUB_PAT",
        ];
        let open = [
            "",
            "tokenizer",
            "monkey",
            "key",
            "tokens_per_minute",
            "broken",
            "author",
            "path",
            "compat",
        ];

        for name in secret {
            assert!(is_secret_name(name), "{name}");
        }
        for name in open {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn userinfo_and_secret_parameters_of_urls_are_hidden() {
        let cases = [
            ("https://h/p?a=1&b", None),
            ("no url", None),
            (
                "https://u:p@h:1/p",
                Some("https://[private]:[private]@h:1/p"),
            ),
            ("https://u@h", Some("https://[private]@h")),
            ("https://a@b@h", Some("https://[private]@h")),
            ("https://${U}:${P}@h/", Some("https://${U}:${P}@h/")),
            (
                "https://${U}:x${P}@h/",
                Some("https://${U}:[private]${P}@h/"),
            ),
            (
                "https://h/?token=x&a=1",
                Some("https://h/?token=[private]&a=1"),
            ),
            (
                "https://h/?a=1&apiKey=${K}",
                Some("https://h/?a=1&apiKey=${K}"),
            ),
            (
                "https://h/?key=x&%74oken=y",
                Some("https://h/?key=[private]&%74oken=[private]"),
            ),
            ("https://h/?token=", None),
            (
                "https://u:p@a,https://u:p@b",
                Some("https://[private]:[private]@a,https://[private]:[private]@b"),
            ),
            ("https://u:p/w@h/x", Some("https://[private]:[private]@h/x")),
            ("https://h:80/@user", None),
            ("https://h/@user", None),
        ];

        for (url, expected) in cases {
            assert_eq!(redact_url(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn secret_named_options_in_arguments_are_hidden() {
        let cases = [
            ("--port=1", None),
            ("run", None),
            ("--token=x", Some("--token=[private]")),
            ("API_KEY=x=y", Some("API_KEY=[private]")),
            (
                "--header=Authorization: Bearer x",
                Some("--header=Authorization: [private]"),
            ),
            ("Authorization:Bearer x", Some("Authorization:[private]")),
            ("--api-key=${K}", Some("--api-key=${K}")),
            (
                "postgres://u:p@h/db",
                Some("postgres://[private]:[private]@h/db"),
            ),
            (
                "--db=postgres://u:p@h/db",
                Some("--db=postgres://[private]:[private]@h/db"),
            ),
            ("--token=", None),
            ("--token", None),
            ("x --token y", Some("x --token [private]")),
            (
                "x https://u:p@h --token=y",
                Some("x https://[private]:[private]@h --token=[private]"),
            ),
            (
                "curl -H 'Authorization: Bearer x'",
                Some("curl -H 'Authorization: [private]"),
            ),
            (r#"{"apiKey": "x"}"#, Some(r#"{"apiKey": [private]"#)),
            ("${API_TOKEN:-[private]}", None),
            ("ä=x", None),
        ];

        for (argument, expected) in cases {
            assert_eq!(redact_argument(argument).as_deref(), expected, "{argument}");
        }
        assert!(is_secret_option("--token") && is_secret_option("-token"));
        assert!(!is_secret_option("token") && !is_secret_option("--tokenizer"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_redacted(text in "[${}:=@/?&# aä'\"-]{0,24}", secret in "[a-z]{12}") {
            for argument in [
                format!("{text} --token={secret}"),
                format!("--api-key={secret}{text}"),
                format!("{text} https://u:{secret}@h/"),
            ] {
                // As in use: what is no template is refused before it gets here.
                let Ok(template) = Template::parse(&argument) else { continue };
                let shown = template.shown();
                let redacted = redact_argument(&shown).unwrap_or(shown);
                proptest::prop_assert!(!redacted.contains(&secret), "{argument}: {redacted}");
            }
        }
    }
}
