//! Values that must not come out, in every form that they could come out in.

use std::collections::BTreeSet;
use std::fmt::Write as _;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// One form of a value, as it would stand among other bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Returns every form of a value; those that are the same bytes once.
pub(crate) fn forms(value: &str) -> Vec<Form> {
    let bytes = value.as_bytes();
    let hex = |byte: u8, upper: bool| {
        if upper {
            format!("{byte:02X}")
        } else {
            format!("{byte:02x}")
        }
    };
    let each =
        |write: &dyn Fn(u8) -> String| bytes.iter().map(|byte| write(*byte)).collect::<String>();
    let percent = |upper| {
        each(&|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{}", hex(byte, upper))
            }
        })
    };
    let mut all = vec![
        ("raw", value.to_owned()),
        ("hex", each(&|byte| hex(byte, false))),
        ("hex, upper case", each(&|byte| hex(byte, true))),
        ("percent", percent(true)),
        ("percent, lower case", percent(false)),
        (
            "percent, every byte",
            each(&|byte| format!("%{}", hex(byte, true))),
        ),
        (
            "JSON",
            serde_json::Value::from(value)
                .to_string()
                .trim_matches('"')
                .to_owned(),
        ),
        (
            "JSON, every character",
            value.encode_utf16().fold(String::new(), |mut text, unit| {
                // Writing to a string does not fail.
                let _ = write!(text, "\\u{unit:04x}");
                text
            }),
        ),
    ];
    for shift in 0..3 {
        all.push(("base64", base64(bytes, shift, STANDARD)));
        all.push(("base64, URL alphabet", base64(bytes, shift, URL)));
    }
    let mut forms: Vec<_> = all
        .into_iter()
        .map(|(name, text)| Form {
            name,
            bytes: text.into_bytes(),
        })
        .collect();
    let units = || value.encode_utf16();
    forms.push(Form {
        name: "UTF-16, little end first",
        bytes: units().flat_map(u16::to_le_bytes).collect(),
    });
    forms.push(Form {
        name: "UTF-16, big end first",
        bytes: units().flat_map(u16::to_be_bytes).collect(),
    });
    let mut known = BTreeSet::new();
    forms.retain(|form| known.insert(form.bytes.clone()));
    forms
}

/// Returns what is always there of a value in base64 that begins `shift` bytes after a group of three, whatever stands
/// around it.
fn base64(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> String {
    let bits = value
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1));
    // The bits of a character that belong to what stands before are skipped, and so is a character that is not whole.
    let skipped = (6 - shift * 8 % 6) % 6;
    let bits: Vec<_> = bits.skip(skipped).collect();
    let characters = bits.chunks_exact(6).map(|six| {
        let index = six
            .iter()
            .fold(0_usize, |index, bit| index * 2 + usize::from(*bit));
        char::from(alphabet[index])
    });
    characters.collect()
}

/// Says where a form begins in bytes.
pub(crate) fn find(haystack: &[u8], form: &Form) -> bool {
    let Some(first) = form.bytes.first() else {
        return false;
    };
    let mut rest = haystack;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(&form.bytes) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_of_base64_is_a_form() {
        // `echo -n PREFIXvalue-of-a-canary!SUFFIX | base64`, with a prefix of none, one and two bytes.
        let encoded = [
            "dmFsdWUtb2YtYS1jYW5hcnkh",
            "eHZhbHVlLW9mLWEtY2FuYXJ5IQ==",
            "eHl2YWx1ZS1vZi1hLWNhbmFyeSE=",
        ];
        for (shift, encoded) in encoded.into_iter().enumerate() {
            let form = base64(b"value-of-a-canary!", shift, STANDARD);
            assert!(encoded.contains(&form), "{shift}: {form}");
            assert!(form.len() > 20);
        }
    }

    #[test]
    fn forms_are_found_among_other_bytes_and_in_nothing_else() {
        let forms = forms("ca/na\"ry+value");
        // In base64 it has no character in which the two alphabets differ: three forms are the same twice.
        assert_eq!(forms.len(), 16 - 3);
        for form in &forms {
            let among = [b"xx", form.bytes.as_slice(), b"yy"].concat();
            assert!(find(&among, form), "{form:?}");
            assert!(!find(&among[..form.bytes.len() + 1], form), "{form:?}");
        }
    }
}
