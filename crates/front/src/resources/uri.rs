//! How a resource's URI names its server: `genlock://<server>/<upstream uri>`, where `<server>` is the server's prefix.

const SCHEME: &str = "genlock://";

/// Returns the URI under which a server's resource is shown.
pub(crate) fn shown(server: &str, upstream: &str) -> String {
    format!("{SCHEME}{server}/{upstream}")
}

/// Splits a shown URI into the server and the server's own URI, which is not empty and keeps every byte.
pub(crate) fn parse(shown: &str) -> Option<(&str, &str)> {
    let (server, upstream) = shown.strip_prefix(SCHEME)?.split_once('/')?;
    (!server.is_empty() && !upstream.is_empty()).then_some((server, upstream))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_uri_that_names_a_server_is_taken_apart() {
        assert_eq!(
            parse("genlock://files/file:///tmp/a%20b?x#y"),
            Some(("files", "file:///tmp/a%20b?x#y"))
        );
        // A gateway behind a gateway.
        assert_eq!(
            parse("genlock://a/genlock://b/note://1"),
            Some(("a", "genlock://b/note://1"))
        );
        for other in [
            "note://1",
            "genlock:///note://1",
            "genlock://a",
            "genlock://a/",
            "GENLOCK://a/note://1",
            " genlock://a/note://1",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_taken_apart_again(server in "[a-z0-9][a-z0-9_-]{0,31}", uri in ".{1,60}") {
            let shown = shown(&server, &uri);
            prop_assert_eq!(parse(&shown), Some((server.as_str(), uri.as_str())));
        }

        #[test]
        fn what_is_taken_apart_is_shown_again(text in "(genlock://)?[a-z/:%.]{0,12}") {
            if let Some((server, uri)) = parse(&text) {
                prop_assert_eq!(shown(server, uri), text);
            }
        }
    }
}
