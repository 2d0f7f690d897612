//! Values that are never private: numbers, durations, sizes, words and open text.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use super::section::{Field, nearest};
use crate::tree::Value;

const KIB: u64 = 1 << 10;

// === impl Field ===

impl Field<'_> {
    /// Takes this value as text that people choose, such as a name.
    pub(crate) fn label(&self, expected: &str) -> Option<&str> {
        if self.is_unquoted() {
            self.refuse_tag(false);
            let message = format!("expected {expected}, found a number, or true or false");
            self.error_with("config.wrong_type", message, "quote it");
            return None;
        }
        self.open_text(expected)
    }

    /// Like [`Field::label`], for what must not be empty or hold control characters.
    pub(crate) fn name(&self, expected: &str) -> Option<String> {
        let name = self.label(expected)?;
        if name.is_empty() || name.chars().any(char::is_control) {
            let message = format!("expected {expected}, not empty and without control characters");
            self.error("config.invalid_name", message);
            return None;
        }
        Some(name.to_owned())
    }

    /// Takes this value as text in which no `${…}` may stand.
    pub(crate) fn open_text(&self, expected: &str) -> Option<&str> {
        self.refuse_tag(false);
        let Value::Text(text) = &self.node.value else {
            self.wrong_type(expected);
            return None;
        };
        if text.contains("${") {
            self.refuse_interpolation();
            return None;
        }
        Some(text)
    }

    pub(crate) fn refuse_interpolation(&self) {
        self.error_with(
            "config.interpolation_not_allowed",
            "`${…}` is not read here",
            "it may stand in `command`, `args`, `env`, `headers`, `url`, `cwd`, a server's `auth` and `tls`, \
             `store.url`, `model`, `agent`, `terminal` and `observability`",
        );
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        self.refuse_tag(false);
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if text.contains("${") => {
                self.refuse_interpolation();
                None
            }
            Value::Null
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => {
                self.wrong_type("`true` or `false`");
                None
            }
        }
    }

    /// Takes this value as one of the words of an enum.
    pub(crate) fn word<T>(
        &self,
        words: &'static [&'static str],
        from: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let expected = one_of(words);
        let text = self.open_text(&expected)?;
        let value = from(text);
        if value.is_none() {
            match nearest(text, words.iter().copied()) {
                Some(word) => self.error_with(
                    "config.unknown_value",
                    format!("expected {expected}"),
                    format!("did you mean `{word}`?"),
                ),
                None => self.error("config.unknown_value", format!("expected {expected}")),
            }
        }
        value
    }

    pub(crate) fn count(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let expected = "a whole number";
        let value = self.integer(expected)?;
        let value = u32::try_from(value)
            .ok()
            .filter(|value| range.contains(value));
        if value.is_none() {
            self.out_of_range(range.start(), range.end());
        }
        value
    }

    /// Takes this value as a size in bytes: a whole number, or one with `KiB`, `MiB` or `GiB`.
    pub(crate) fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = "a size such as `64KiB` or `32MiB`, or a number of bytes";
        let bytes = match &self.node.value {
            Value::Text(_) => {
                let size = parse_size(self.open_text(expected)?);
                if size.is_none() {
                    self.error("config.invalid_size", format!("expected {expected}"));
                }
                size?
            }
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::List(_)
            | Value::Map(_) => u64::try_from(self.integer(expected)?).unwrap_or(0),
        };
        if !range.contains(&bytes) {
            self.out_of_range(Size(*range.start()), Size(*range.end()));
            return None;
        }
        Some(bytes)
    }

    /// Takes this value as a duration: a number of seconds, or one with `ms`, `s`, `m` or `h`.
    pub(crate) fn duration(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let expected = "a duration such as `30s` or `5m`, or a number of seconds";
        let seconds = match &self.node.value {
            Value::Integer(seconds) => {
                self.refuse_tag(false);
                *seconds as f64
            }
            Value::Float(seconds) => {
                self.refuse_tag(false);
                *seconds
            }
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                let seconds = parse_duration(self.open_text(expected)?);
                if seconds.is_none() {
                    self.error("config.invalid_duration", format!("expected {expected}"));
                }
                seconds?
            }
        };
        let duration = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| range.contains(duration));
        if duration.is_none() {
            self.out_of_range(Span(*range.start()), Span(*range.end()));
        }
        duration
    }

    fn integer(&self, expected: &str) -> Option<i128> {
        self.refuse_tag(false);
        match &self.node.value {
            Value::Integer(value) => Some(*value),
            Value::Text(text) if text.contains("${") => {
                self.refuse_interpolation();
                None
            }
            Value::Float(_) => {
                self.error(
                    "config.wrong_type",
                    format!("expected {expected}, found a fraction or a number too large"),
                );
                None
            }
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_type(expected);
                None
            }
        }
    }

    fn out_of_range(&self, least: impl Display, most: impl Display) {
        self.error(
            "config.out_of_range",
            format!("out of range: {least} to {most}"),
        );
    }
}

pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let unit = match unit {
        "KiB" => KIB,
        "MiB" => KIB << 10,
        "GiB" => KIB << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn parse_duration(text: &str) -> Option<f64> {
    let (number, unit) = split_unit(text)?;
    let number = number.parse::<f64>().ok()?;
    match unit {
        // A division keeps `500ms` exact.
        "ms" => Some(number / 1000.0),
        "s" => Some(number),
        "m" => Some(number * 60.0),
        "h" => Some(number * 3600.0),
        _ => None,
    }
}

/// Splits digits with at most one point from the unit behind them.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let at = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(at);
    let starts = number.starts_with(|digit: char| digit.is_ascii_digit());
    (starts && number.ends_with(|digit: char| digit.is_ascii_digit()))
        .then(|| (number, unit.trim_start_matches(' ')))
}

/// Shows a number of bytes in the largest unit that holds it exactly.
struct Size(u64);

impl Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(KIB << 20) => write!(f, "{}GiB", bytes / (KIB << 20)),
            bytes if bytes.is_multiple_of(KIB << 10) => write!(f, "{}MiB", bytes / (KIB << 10)),
            bytes if bytes.is_multiple_of(KIB) => write!(f, "{}KiB", bytes / KIB),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// Shows a duration in the largest unit that holds it exactly.
struct Span(Duration);

impl Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs();
        match self.0.subsec_millis() {
            0 if seconds > 0 && seconds.is_multiple_of(3600) => write!(f, "{}h", seconds / 3600),
            0 if seconds > 0 && seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            0 => write!(f, "{seconds}s"),
            _ => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_have_one_unit() {
        let durations = [
            ("500ms", Some(0.5)),
            ("30s", Some(30.0)),
            ("1.5m", Some(90.0)),
            ("1h", Some(3600.0)),
            ("5 m", Some(300.0)),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1h30m", None),
            ("1d", None),
            (".5s", None),
            ("1.s", None),
            ("", None),
            ("1.2.3s", None),
        ];
        let sizes = [
            ("64KiB", Some(65536)),
            ("32MiB", Some(32 << 20)),
            ("1GiB", Some(1 << 30)),
            ("1KB", None),
            ("1.5MiB", None),
            ("99999999999999GiB", None),
            ("MiB", None),
        ];

        for (text, expected) in durations {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
        for (text, expected) in sizes {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn limits_are_shown_in_their_largest_unit() {
        let shown = [
            Size(1024).to_string(),
            Size(1 << 30).to_string(),
            Size(1).to_string(),
            Span(Duration::from_millis(100)).to_string(),
            Span(Duration::from_secs(600)).to_string(),
            Span(Duration::ZERO).to_string(),
        ];

        assert_eq!(shown, ["1KiB", "1GiB", "1", "100ms", "10m", "0s"]);
    }
}
