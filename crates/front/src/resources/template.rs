//! Tells whether a URI can come out of a URI template (RFC 6570).

/// The longest product of a template's and a URI's length that is looked at.
const MOST_WORK: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text(u8),
    /// A variable: any text without a separator.
    Word,
    /// A variable that may hold separators: `{+x}`, `{#x}`, `{/x}`, `{?x}`, `{&x}`, `{x*}`.
    Any,
}

/// Tells whether a URI can come out of a template. What is no template comes out of nothing but itself.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    let parts = parts(template);
    if parts.len().saturating_mul(uri.len()) > MOST_WORK {
        return false;
    }
    // One row of the table of (parts used, bytes used) at a time.
    let mut reach = vec![false; uri.len() + 1];
    if let Some(start) = reach.first_mut() {
        *start = true;
    }
    for part in parts {
        reach = step(part, &reach, uri.as_bytes());
    }
    reach.last() == Some(&true)
}

fn step(part: Part, before: &[bool], uri: &[u8]) -> Vec<bool> {
    let mut after = vec![false; before.len()];
    let mut open = false;
    for (at, (reached, after)) in before.iter().zip(&mut after).enumerate() {
        let last = at.checked_sub(1).and_then(|last| uri.get(last).copied());
        let came = at.checked_sub(1).and_then(|last| before.get(last).copied());
        match part {
            Part::Text(byte) => *after = came == Some(true) && last == Some(byte),
            Part::Word => {
                open = *reached || (open && !last.is_some_and(is_separator));
                *after = open;
            }
            Part::Any => {
                open |= *reached;
                *after = open;
            }
        }
    }
    after
}

fn is_separator(byte: u8) -> bool {
    b"/?#".contains(&byte)
}

fn parts(template: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((text, behind)) = rest.split_once('{') {
        let Some((variable, behind)) = behind.split_once('}') else {
            break;
        };
        parts.extend(text.bytes().map(Part::Text));
        let any =
            variable.starts_with(['+', '#', '/', '?', '&', '.', ';']) || variable.contains('*');
        parts.push(if any { Part::Any } else { Part::Word });
        rest = behind;
    }
    parts.extend(rest.bytes().map(Part::Text));
    parts
}

/// Returns what every URI of a template begins with.
pub(crate) fn fixed_part(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_holds_no_separator_unless_it_says_so() {
        for (template, uri, expected) in [
            ("note://{n}", "note://1", true),
            ("note://{n}", "note://", true),
            ("note://{n}", "note://1/2", false),
            ("note://{n}", "other://1", false),
            ("note://{n}/x", "note://1/x", true),
            ("note://{n}/x", "note://1/y", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("a://{x}-{y}", "a://1-2-3", true),
            ("a://{x}{/y*}", "a://1/2/3", true),
            ("a://{x}{?q}", "a://1?q=2", true),
            ("a://b", "a://b", true),
            ("a://b", "a://bc", false),
            ("a://{b", "a://{b", true),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn a_template_made_to_be_slow_is_not_tried() {
        let template = "{a}x".repeat(2_000);
        assert!(!matches(&template, &"x".repeat(2_000)));
    }
}
