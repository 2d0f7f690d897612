//! Which `ui://` resources an allowlist lets through.
//!
//! A server may read a URI more generously than the prefix rule does: decode it, fold its case, resolve its dots. So what
//! could be a `ui://` URI to anybody counts as one, and one that could mean another place than its text says matches nothing.

/// How often a percent-encoded text is decoded to find out what it could mean to somebody who decodes it again.
const DECODINGS: usize = 3;

/// Tells whether a URI could be taken for a `ui://` one.
pub(crate) fn is_ui(uri: &str) -> bool {
    let mut text = uri.to_owned();
    for _ in 0..=DECODINGS {
        let letters = text
            .chars()
            .filter(|c| !c.is_whitespace() && !c.is_control());
        let letters: String = letters.flat_map(folded).collect();
        // A gateway behind this one would take its own name off.
        if letters.starts_with("ui:") || letters.contains("/ui://") {
            return true;
        }
        match decoded(&text) {
            Some(next) => text = next,
            None => return false,
        }
    }
    // Encoded over and over: nobody honest writes so.
    true
}

/// Tells whether a `ui://` URI begins with one of the prefixes, and can mean nothing else than its text says.
pub(crate) fn is_allowed(uri: &str, prefixes: &[String]) -> bool {
    is_plain(uri)
        && prefixes
            .iter()
            .any(|prefix| uri.starts_with(prefix.as_str()))
}

/// Tells whether a URI has one reading only: no dots to resolve, no separators in disguise, nothing that is encoded without
/// need.
fn is_plain(uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix("ui://") else {
        return false;
    };
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    let steps = place.split('/').count();
    let climbs = place.split('/').enumerate().any(|(number, segment)| {
        // Only the end of a URI may be an empty segment, as in `ui://panels/`.
        matches!(segment, "." | "..") || (segment.is_empty() && number + 1 != steps)
    });
    !climbs && has_plain_letters(rest)
}

fn has_plain_letters(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let plain = match byte {
            b'%' => {
                let code = hex(bytes.next()).zip(hex(bytes.next()));
                code.is_some_and(|(high, low)| may_be_encoded(high * 16 + low))
            }
            byte => is_unreserved(byte) || b"!$&'()*+,;=:@/?#[]".contains(&byte),
        };
        if !plain {
            return false;
        }
    }
    true
}

/// What has to be encoded to stand in a URI at all, and separates nothing.
fn may_be_encoded(byte: u8) -> bool {
    !is_unreserved(byte) && !byte.is_ascii_control() && !b"/\\%?#:@".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn hex(byte: Option<u8>) -> Option<u8> {
    char::from(byte?)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Folds case, and the full-width forms of letters and colon that compatibility folding knows.
fn folded(c: char) -> impl Iterator<Item = char> {
    let narrow = match u32::from(c) {
        code @ 0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0).unwrap_or(c),
        _ => c,
    };
    narrow.to_lowercase()
}

/// Decodes what is percent-encoded once; `None` where nothing is.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let (mut at, mut found) = (0, false);
    while let Some(byte) = bytes.get(at) {
        let code = (*byte == b'%')
            .then(|| hex(bytes.get(at + 1).copied()).zip(hex(bytes.get(at + 2).copied())))
            .flatten();
        match code {
            Some((high, low)) => {
                out.push(high * 16 + low);
                found = true;
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    found.then(|| String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowed(uri: &str, prefixes: &[&str]) -> bool {
        let prefixes: Vec<_> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        is_allowed(uri, &prefixes)
    }

    #[test]
    fn a_prefix_lets_through_what_begins_with_it() {
        for uri in [
            "ui://panels/main",
            "ui://panels/a/b.html",
            "ui://panels/",
            "ui://panels/a%20b",
            "ui://panels/main?x=1#top",
            "ui://panels/%C3%A4",
        ] {
            assert!(allowed(uri, &["ui://none/", "ui://panels/"]), "{uri}");
        }
        assert!(!allowed("ui://panel", &["ui://panels/"]));
        assert!(!allowed("ui://panels/main", &[]));
        assert!(!allowed("ui://panels/main", &["ui://none/"]));
    }

    #[test]
    fn what_could_mean_another_place_matches_no_prefix() {
        for uri in [
            "ui://panels/../secret/x",
            "ui://panels/./../secret",
            "ui://panels/..",
            "ui://panels/%2e%2e/secret",
            "ui://panels/%2E./secret",
            "ui://panels/.%2e/secret",
            "ui://panels/..%2fsecret",
            "ui://panels/a%2Fb",
            "ui://panels/a%5cb",
            "ui://panels/a\\..\\b",
            "ui://panels/%252e%252e/secret",
            "ui://panels/%25",
            "ui://panels/%",
            "ui://panels/%4",
            "ui://panels/%zz",
            "ui://panels/%6dain",
            "ui://panels//secret",
            "ui:///panels/main",
            "ui://panels/a\u{0}b",
            "ui://panels/a%00b",
            "ui://panels/a b",
            "ui://panels/a\n",
            "ui://panels/\u{ff0e}\u{ff0e}/secret",
            "ui://panels/\u{202e}x",
            "UI://panels/main",
            "Ui://panels/main",
            "ui:panels/main",
            " ui://panels/main",
            "%75i://panels/main",
            "ui://PANELS/main",
            "ui://panels%2fmain",
            "ui://panels:80/main",
            "ui://x@panels/main",
            "genlock://two/ui://panels/main",
        ] {
            assert!(!allowed(uri, &["ui://panels/"]), "{uri}");
        }
        // An allowlist for everything is still no way to another place.
        assert!(!allowed("ui://panels/../x", &["ui://"]));
        assert!(allowed("ui://panels/x", &["ui://"]));
    }

    #[test]
    fn what_somebody_could_take_for_ui_counts_as_ui() {
        for uri in [
            "ui://x",
            "UI://x",
            "uI:x",
            " \tui://x",
            "u\ni://x",
            "%75i://x",
            "%2575i://x",
            "%55%49%3a//x",
            "\u{ff55}\u{ff49}\u{ff1a}//x",
            "\u{0}ui://x",
            "genlock://two/ui://x",
            "other://two/UI://x",
            "genlock://two/%75i://x",
        ] {
            assert!(is_ui(uri), "{uri:?}");
        }
        for uri in [
            "note://1",
            "gui://x",
            "file:///ui/x",
            "u",
            "",
            "uix://y",
            "%41%42",
        ] {
            assert!(!is_ui(uri), "{uri:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_let_through_means_the_same_decoded_and_begins_with_its_prefix(
            tail in "([a-z./%2eEfF5cC\\\\?#]|%2e|%2f|\\.\\.){0,12}",
        ) {
            let uri = format!("ui://panels/{tail}");
            if allowed(&uri, &["ui://panels/"]) {
                let mut meant = decoded(&uri).unwrap_or_else(|| uri.clone());
                meant.truncate(meant.find(['?', '#']).unwrap_or(meant.len()));
                prop_assert!(meant.starts_with("ui://panels/"));
                prop_assert!(!meant.contains('\\'));
                prop_assert!(!meant.split('/').any(|segment| segment == ".." || segment == "."));
            }
        }
    }
}
