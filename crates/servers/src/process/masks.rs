//! [`Masks`]: takes a server's private values out of what it wrote, in whatever form it wrote them.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// What stands in the place of a private value.
pub(super) const MASK: &str = "[private]";
/// Values shorter than this are too common to be masked, in bytes.
const SHORTEST: usize = 8;
/// How much of a value may stand at the end of what was cut, in bytes: one letter more would begin to tell something.
const TOLD: usize = 3;

/// The private values of one server, ready to be looked for.
pub(super) struct Masks {
    patterns: Vec<Vec<u8>>,
    /// None where there is nothing to look for.
    search: Option<AhoCorasick>,
}

// === impl Masks ===

impl Masks {
    /// Prepares to look for these values: as they are, line by line, and JSON-escaped, percent-encoded, in hex and in
    /// base64 at every alignment.
    pub(super) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut patterns: Vec<_> = values
            .into_iter()
            .flat_map(|value| forms(value.as_bytes()))
            .filter(|form| form.len() >= SHORTEST)
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        let mut builder = AhoCorasick::builder();
        let builder = builder.match_kind(MatchKind::LeftmostLongest);
        let search = match patterns.is_empty() {
            true => None,
            // Refused only beyond what fits into memory.
            false => builder.build(&patterns).ok(),
        };
        Self { patterns, search }
    }

    /// Masks what was written. `cut` says that more followed which is not seen.
    pub(super) fn mask<'a>(&self, text: &'a [u8], cut: bool) -> Cow<'a, [u8]> {
        let Some(search) = &self.search else {
            return match self.patterns.is_empty() {
                true => Cow::Borrowed(text),
                false => Cow::Borrowed(MASK.as_bytes()),
            };
        };
        let text = match cut {
            true => self.without_beginning(text),
            false => text,
        };
        if search.find(text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut masked = Vec::with_capacity(text.len());
        search.replace_all_with_bytes(text, &mut masked, |_, _, masked| {
            masked.extend_from_slice(MASK.as_bytes());
            true
        });
        Cow::Owned(masked)
    }

    /// Takes the beginning of a value off the end of a text.
    fn without_beginning<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let longest = self.patterns.iter().map(Vec::len).max().unwrap_or(0);
        let first = (text.len() + 1).saturating_sub(longest);
        let begins =
            |pattern: &[u8], tail: &[u8]| tail.len() < pattern.len() && pattern.starts_with(tail);
        let is_beginning = |tail: &[u8]| {
            let mut patterns = self.patterns.iter();
            patterns.any(|pattern| begins(pattern, tail))
        };
        let starts = first..text.len().saturating_sub(TOLD);
        let start = starts
            .into_iter()
            .find(|start| text.get(*start..).is_some_and(is_beginning));
        start.and_then(|start| text.get(..start)).unwrap_or(text)
    }
}

/// The forms in which a value may be written.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    // A short value in a long form is as common as the short value.
    if value.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![value.to_vec()];
    // The text is looked through line by line.
    forms.extend(value.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    if let Ok(text) = std::str::from_utf8(value) {
        let quoted = serde_json::Value::from(text).to_string();
        let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        forms.push(inside.as_bytes().to_vec());
    }
    forms.push(percent(value, u8::to_ascii_uppercase));
    forms.push(percent(value, u8::to_ascii_lowercase));
    forms.push(hex(value, u8::to_ascii_uppercase));
    forms.push(hex(value, u8::to_ascii_lowercase));
    for before in 0..3 {
        forms.extend(base64_at(value, before));
    }
    forms
}

/// The digits that stand for the value whatever surrounds it, where `before` bytes come before it in its group.
fn base64_at(value: &[u8], before: usize) -> [Vec<u8>; 2] {
    let mut padded = vec![0; before];
    padded.extend_from_slice(value);
    // A digit is of the value alone from its first whole six bits on, to its last.
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    [
        STANDARD_NO_PAD.encode(&padded),
        URL_SAFE_NO_PAD.encode(&padded),
    ]
    .map(|digits| {
        let digits = digits.into_bytes();
        digits.get(first..last).unwrap_or_default().to_vec()
    })
}

fn percent(value: &[u8], case: fn(&u8) -> u8) -> Vec<u8> {
    let encode = |byte: &u8| match byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
        true => vec![*byte],
        false => [vec![b'%'], hex(&[*byte], case)].concat(),
    };
    value.iter().flat_map(encode).collect()
}

fn hex(value: &[u8], case: fn(&u8) -> u8) -> Vec<u8> {
    let digits = value.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digit = |nibble: u8| match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    };
    digits.map(|nibble| case(&digit(nibble))).collect()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn masked(masks: &Masks, text: &[u8], cut: bool) -> String {
        String::from_utf8_lossy(&masks.mask(text, cut)).into_owned()
    }

    fn masks(values: &[&str]) -> Masks {
        Masks::new(values.iter().map(ToString::to_string))
    }

    #[test]
    fn every_form_of_a_value_is_masked_and_nothing_else() {
        let secret = "s3cret/+\"token\u{e9}";
        let masks = masks(&[secret, "short"]);
        let cases = [
            format!("a {secret} b short"),
            r#"a s3cret/+\"tokené b short"#.to_owned(),
            "a s3cret%2F%2B%22token%C3%A9 b short".to_owned(),
            "a s3cret%2f%2b%22token%c3%a9 b short".to_owned(),
            "a 7333637265742f2b22746f6b656ec3a9 b short".to_owned(),
            "a 7333637265742F2B22746F6B656EC3A9 b short".to_owned(),
        ];
        for case in cases {
            let found = masked(&masks, case.as_bytes(), false);
            assert_eq!(found.replace('\\', ""), "a [private] b short", "{case}");
        }
        assert_eq!(masked(&masks, b"nothing here", false), "nothing here");
        assert_eq!(masked(&masks, b"\xff s3cret", false), "\u{fffd} s3cret");
    }

    #[test]
    fn a_value_of_several_lines_is_masked_in_each() {
        let masks = masks(&["-----BEGIN KEY-----\nabcdefghij\nklmnopqrst\n"]);
        assert_eq!(masked(&masks, b"> klmnopqrst", false), "> [private]");
    }

    #[test]
    fn the_beginning_of_a_value_is_not_told_at_the_end_of_what_was_cut() {
        let masks = masks(&["sekret-token"]);
        for length in 4..12 {
            let text = ["it is ", &"sekret-token"[..length]].concat();
            assert_eq!(masked(&masks, text.as_bytes(), true), "it is ", "{length}");
            assert_eq!(masked(&masks, text.as_bytes(), false), text);
        }
        assert_eq!(masked(&masks, b"is sekret-token", true), "is [private]");
        assert_eq!(masked(&masks, b"other words", true), "other words");
    }

    #[test]
    fn the_longer_of_two_values_is_masked_whole() {
        let masks = masks(&["sekret-token", "sekret-token-2"]);
        assert_eq!(
            masked(&masks, b"sekret-token-2 sekret-token-3", false),
            "[private] [private]-3"
        );
    }

    proptest! {
        #[test]
        fn base64_is_masked_at_every_alignment(
            before in proptest::collection::vec(any::<u8>(), 0..9),
            value in "[ -~]{8,40}",
            after in proptest::collection::vec(any::<u8>(), 0..9),
        ) {
            let masks = Masks::new([value.clone()]);
            let whole = [before.as_slice(), value.as_bytes(), &after].concat();
            let text = STANDARD.encode(whole);
            prop_assert!(masked(&masks, text.as_bytes(), false).contains(MASK), "{text}");
        }

        #[test]
        fn no_value_is_left_in_any_text(
            texts in proptest::collection::vec("[a-c]{0,6}", 0..12),
            value in "[a-c]{8,10}",
        ) {
            let masks = Masks::new([value.clone()]);
            let text = texts.join(&value);
            prop_assert!(!masked(&masks, text.as_bytes(), false).contains(&value));
        }
    }
}
