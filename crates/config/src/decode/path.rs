//! Dotted paths.

use std::fmt;

use crate::private::push_token;

/// Where a decoder stands in the document, from the root down.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    /// The whole document.
    Root,
    /// The entry of a mapping.
    Key(&'p Path<'p>, &'p str),
    /// The item of a list.
    Item(&'p Path<'p>, usize),
}

// === impl Path ===

impl<'p> Path<'p> {
    /// Returns the path of the entry `key` below this one.
    pub(crate) fn key(&'p self, key: &'p str) -> Path<'p> {
        Path::Key(self, key)
    }

    /// Returns the JSON pointer of this path.
    pub(crate) fn pointer(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Key(parent, key) => {
                let mut pointer = parent.pointer();
                push_token(&mut pointer, key);
                pointer
            }
            Path::Item(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }

    /// Returns the path of an item below this one.
    pub(crate) fn item(&'p self, index: usize) -> Path<'p> {
        Path::Item(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(Path::Root, key) => f.write_str(&segment(key)),
            Path::Key(parent, key) => write!(f, "{parent}.{}", segment(key)),
        }
    }
}

/// Returns `key` as a part of a path: as it is where it looks like a name, quoted where it may
/// be a reverse-domain name, else `?`: then it may be a value that slipped into a key's place.
pub(crate) fn segment(key: &str) -> String {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let quoted = |byte: u8| name(byte) || matches!(byte, b'.' | b'/' | b'@');
    match key {
        "" => "\"\"".to_owned(),
        _ if key.len() > 64 => "?".to_owned(),
        _ if key.bytes().all(name) => key.to_owned(),
        _ if key.bytes().all(quoted) => format!("\"{key}\""),
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_show_names_and_hide_what_is_none() {
        let root = Path::Root;
        let servers = root.key("mcp_servers");
        let cases = [
            (root.to_string(), ""),
            (servers.key("a-b_C").to_string(), "mcp_servers.a-b_C"),
            (
                servers.key("com.acme/x").to_string(),
                "mcp_servers.\"com.acme/x\"",
            ),
            (
                servers.key("Bearer x").key("y").to_string(),
                "mcp_servers.?.y",
            ),
            (servers.key(&"x".repeat(65)).to_string(), "mcp_servers.?"),
            (
                servers.key("a").key("args").item(2).to_string(),
                "mcp_servers.a.args[2]",
            ),
        ];

        for (path, expected) in cases {
            assert_eq!(path, expected);
        }
        let odd = servers.key("com.acme/x~");
        assert_eq!(
            odd.key("args").item(2).pointer(),
            "/mcp_servers/com.acme~1x~0/args/2"
        );
    }
}
