//! JSON pointers into the redacted form of a config.

/// The part of a config that a pointer leads into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A key of a server's definition.
    Server { name: String, key: String },
    /// A key of a section; `None` where the section is the value itself.
    Section { name: String, key: Option<String> },
}

/// Returns the part that `pointer` leads into.
pub(crate) fn part(pointer: &str) -> Part {
    let mut tokens = pointer.split('/').skip(1).map(unescape);
    let name = tokens.next().unwrap_or_default();
    let (first, second) = (tokens.next(), tokens.next());
    match (first, second) {
        (Some(server), Some(key)) if name == "mcp_servers" => Part::Server { name: server, key },
        (key, _) => Part::Section { name, key },
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_into_servers_and_sections() {
        let server = |name: &str, key: &str| Part::Server {
            name: name.to_owned(),
            key: key.to_owned(),
        };
        let section = |name: &str, key: Option<&str>| Part::Section {
            name: name.to_owned(),
            key: key.map(str::to_owned),
        };
        let cases = [
            ("/mcp_servers/a/env/T", server("a", "env")),
            (
                "/mcp_servers/com.acme~1x~0~01/url",
                server("com.acme/x~~1", "url"),
            ),
            ("/store/url", section("store", Some("url"))),
            ("/model/a/0/b", section("model", Some("a"))),
            ("/listen", section("listen", None)),
        ];

        for (pointer, expected) in cases {
            assert_eq!(part(pointer), expected, "{pointer}");
        }
    }
}
