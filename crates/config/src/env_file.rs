//! Files of variables: `NAME=value` lines.

use secrecy::zeroize::Zeroizing;

/// A line that is none of a file of variables, from 1. Holds nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLine(pub(crate) usize);

/// Reads `text`: one `NAME=value` a line, with `#` comments, an `export` before the name, and
/// single or double quotes around the value. No `${…}` is read in it.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, Zeroizing<String>)>, BadLine> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        variables.push(variable(line).ok_or(BadLine(index + 1))?);
    }
    Ok(variables)
}

fn variable(line: &str) -> Option<(String, Zeroizing<String>)> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (starts && name.bytes().all(word)).then_some(())?;
    Some((name.to_owned(), value_of(value.trim())?))
}

fn value_of(written: &str) -> Option<Zeroizing<String>> {
    let mut letters = written.chars();
    let (value, rest) = match letters.next() {
        Some('\'') => {
            let (value, rest) = letters.as_str().split_once('\'')?;
            (Zeroizing::new(value.to_owned()), rest)
        }
        Some('"') => {
            let value = double_quoted(&mut letters)?;
            (value, letters.as_str())
        }
        Some(_) | None => {
            let value = written.split(" #").next().unwrap_or(written).trim_end();
            return (!value.contains('\0')).then(|| Zeroizing::new(value.to_owned()));
        }
    };
    let rest = rest.trim();
    let ends = rest.is_empty() || rest.starts_with('#');
    (ends && !value.contains('\0')).then_some(value)
}

fn double_quoted(letters: &mut std::str::Chars<'_>) -> Option<Zeroizing<String>> {
    let mut value = Zeroizing::new(String::new());
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                escaped @ ('\\' | '"' | '$') => escaped,
                _ => return None,
            }),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_values() {
        let text = "\u{feff}# comment\n\nA=1\r\n export B = two words # c\nC='single $ # \"'\n\
                    D=\"a\\n\\\"b\\\" ${X}\" # c\nE=\nF=a=b#c\nG=\"\"\n";

        let found = parse(text).unwrap();

        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "single $ # \""),
            ("D", "a\n\"b\" ${X}"),
            ("E", ""),
            ("F", "a=b#c"),
            ("G", ""),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn other_lines_are_refused_by_their_number() {
        for line in [
            "A",
            "=x",
            "1A=x",
            "A B=x",
            "A='x",
            "A=\"x",
            "A='x' y",
            "A=\"\\q\"",
            "A=x\0",
        ] {
            assert_eq!(parse(&format!("OK=1\n{line}\n")), Err(BadLine(2)), "{line}");
        }
    }
}
