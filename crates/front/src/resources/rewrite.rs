//! What becomes of results that hold URIs of a server's resources: they are shown as the lists show them.
//!
//! A result is taken apart only where a search over its bytes finds that it may hold one.

use genlock_config::{Config, ResourceUris};
use genlock_mcp::{RawJson, RawObject};
use genlock_servers::Server;
use memchr::memmem;

use super::uri;

/// What every block with a URI has in its text: the type `resource_link`, or the type and the key `resource`.
const MARK: &[u8] = b"\"resource";

/// How the URIs of one server are shown in its results.
pub(crate) struct Rewrite<'a> {
    /// The server's prefix.
    pub(crate) server: &'a str,
    pub(crate) uris: ResourceUris,
}

/// What was found in a result.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The result anew; `None` where it stays as it is.
    pub(crate) result: Option<RawJson>,
    /// The `resource_link` blocks in it, as the server wrote them.
    pub(crate) links: Vec<RawObject>,
}

impl<'a> Rewrite<'a> {
    /// How a server's URIs are shown under a configuration.
    pub(crate) fn of(server: &'a Server, config: &Config) -> Self {
        Self {
            server: &server.definition().prefix,
            uris: config.resource_uris,
        }
    }
}

impl Rewrite<'_> {
    /// Shows the URIs in the content blocks of a `tools/call` result.
    pub(crate) fn content(&self, result: &RawJson) -> Found {
        self.taken_apart(result, |object, links| self.list(object, "content", links))
    }

    /// Shows the URIs in the messages of a `prompts/get` result.
    pub(crate) fn messages(&self, result: &RawJson) -> Found {
        self.taken_apart(result, |object, links| {
            let items = object.get("messages")?.items().ok()?;
            let shown = self.each(&items, |message| {
                let mut message = RawObject::parse(message).ok()?;
                let content = message.get("content")?.clone();
                let block = if content.is_array() {
                    self.each(&content.items().ok()?, |block| self.block(block, links))?
                } else {
                    self.block(&content, links)?
                };
                message.set("content", block);
                Some(message.to_raw())
            })?;
            object.set("messages", shown);
            Some(())
        })
    }

    /// Shows the URIs in the `contents` of a `resources/read` result.
    pub(crate) fn contents(&self, result: &RawJson) -> Option<RawJson> {
        let mut object = RawObject::parse(result).ok()?;
        let items = object.get("contents")?.items().ok()?;
        let shown = self.each(&items, |content| self.with_uri(content))?;
        object.set("contents", shown);
        Some(object.to_raw())
    }

    fn taken_apart(
        &self,
        result: &RawJson,
        change: impl FnOnce(&mut RawObject, &mut Vec<RawObject>) -> Option<()>,
    ) -> Found {
        let mut found = Found::default();
        if memmem::find(result.as_bytes(), MARK).is_none() {
            return found;
        }
        if let Ok(mut object) = RawObject::parse(result) {
            let changed = change(&mut object, &mut found.links);
            found.result = changed.map(|()| object.to_raw());
        }
        found
    }

    fn list(&self, object: &mut RawObject, name: &str, links: &mut Vec<RawObject>) -> Option<()> {
        let items = object.get(name)?.items().ok()?;
        let shown = self.each(&items, |block| self.block(block, links))?;
        object.set(name, shown);
        Some(())
    }

    /// Changes items; `None` where none of them changes.
    fn each(
        &self,
        items: &[RawJson],
        mut change: impl FnMut(&RawJson) -> Option<RawJson>,
    ) -> Option<RawJson> {
        let mut changed = false;
        let items: Vec<RawJson> = items
            .iter()
            .map(|item| {
                let next = change(item);
                changed |= next.is_some();
                next.unwrap_or_else(|| item.clone())
            })
            .collect();
        changed.then(|| RawJson::encode(&items))
    }

    fn block(&self, block: &RawJson, links: &mut Vec<RawObject>) -> Option<RawJson> {
        memmem::find(block.as_bytes(), MARK)?;
        let mut object = RawObject::parse(block).ok()?;
        match object.get_string("type").as_deref() {
            Some("resource_link") => {
                links.push(object);
                self.with_uri(block)
            }
            Some("resource") => {
                let inner = self.with_uri(object.get("resource")?)?;
                object.set("resource", inner);
                Some(object.to_raw())
            }
            Some(_) | None => None,
        }
    }

    fn with_uri(&self, block: &RawJson) -> Option<RawJson> {
        match self.uris {
            ResourceUris::Raw => None,
            ResourceUris::Rewrite => {
                let mut object = RawObject::parse(block).ok()?;
                let shown = uri::shown(self.server, &object.get_string("uri")?);
                object.set("uri", RawJson::string(&shown));
                Some(object.to_raw())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: Rewrite<'_> = Rewrite {
        server: "s",
        uris: ResourceUris::Rewrite,
    };
    const RAW: Rewrite<'_> = Rewrite {
        server: "s",
        uris: ResourceUris::Raw,
    };

    fn raw(text: &'static str) -> RawJson {
        RawJson::parse(text).unwrap()
    }

    fn text(raw: Option<RawJson>) -> Option<String> {
        raw.map(|raw| String::from_utf8(raw.as_bytes().to_vec()).unwrap())
    }

    const MIXED: &str = r#"{ "x": 1.0, "content":[{"type":"text","text":"a \"resource\" b", "n": 1e2},
        {"type":"resource_link","uri":"note://1","name":"n","y": 2.0},
        {"type":"resource","resource":{"uri":"note://2","text":"t"},"z":3.0},
        {"type":"text","text":"","_meta":{"ui":{"resourceUri":"ui://a"}}}],"structuredContent":{"uri":"note://1"}}"#;

    #[test]
    fn links_and_embedded_resources_are_shown_and_all_else_keeps_its_bytes() {
        let found = SHOWN.content(&raw(MIXED));
        assert_eq!(
            text(found.result).unwrap(),
            r#"{"x":1.0,"content":[{"type":"text","text":"a \"resource\" b", "n": 1e2},{"type":"resource_link","uri":"genlock://s/note://1","name":"n","y":2.0},{"type":"resource","resource":{"uri":"genlock://s/note://2","text":"t"},"z":3.0},{"type":"text","text":"","_meta":{"ui":{"resourceUri":"ui://a"}}}],"structuredContent":{"uri":"note://1"}}"#
        );
        let links: Vec<_> = found
            .links
            .iter()
            .map(|link| link.get_string("uri"))
            .collect();
        assert_eq!(links, [Some("note://1".to_owned())]);
    }

    #[test]
    fn raw_uris_change_nothing_and_the_links_are_found_all_the_same() {
        let found = RAW.content(&raw(MIXED));
        assert_eq!((found.result, found.links.len()), (None, 1));
        assert_eq!(RAW.contents(&raw(r#"{"contents":[{"uri":"a:1"}]}"#)), None);
    }

    /// Whether a result is taken apart at all.
    fn is_taken_apart(text: &'static str) -> bool {
        let mut taken = false;
        SHOWN.taken_apart(&raw(text), |_, _| {
            taken = true;
            None
        });
        taken
    }

    #[test]
    fn a_result_without_such_a_block_is_not_taken_apart() {
        for plain in [
            r#"{"content":[{"type":"text","text":"a resource_link and a resource"}]}"#,
            r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"uri":"a:1"}}"#,
            r#"{"content":[]}"#,
        ] {
            assert!(!is_taken_apart(plain), "{plain}");
        }
        assert!(is_taken_apart(MIXED));
        // What only speaks of resources is looked at, and stays as it is.
        const SPEAKS: &str = r#"{ "content":[{"type":"text","text":"\"resource"}]}"#;
        assert!(is_taken_apart(SPEAKS));
        assert!(SHOWN.content(&raw(SPEAKS)).result.is_none());
        for odd in [
            "7",
            r#"{"content":7,"a":"resource"}"#,
            r#"{"content":["resource"],"content":[]}"#,
        ] {
            let found = SHOWN.content(&raw(odd));
            assert!(found.result.is_none() && found.links.is_empty(), "{odd}");
        }
    }

    #[test]
    fn messages_and_contents_are_shown_too() {
        let prompt = raw(
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:1"}}},
            {"role":"user","content":[{"type":"resource_link","uri":"a:2"}]},{"role":"user","content":{"type":"text"}}]}"#,
        );
        let found = SHOWN.messages(&prompt);
        assert_eq!(
            text(found.result).unwrap(),
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"genlock://s/a:1"}}},{"role":"user","content":[{"type":"resource_link","uri":"genlock://s/a:2"}]},{"role":"user","content":{"type":"text"}}]}"#
        );
        assert_eq!(found.links.len(), 1);
        assert_eq!(
            text(SHOWN.contents(&raw(
                r#"{"contents":[{"uri":"a:1","blob":"AA=="},{"text":"x"}],"n":1.0}"#
            )))
            .unwrap(),
            r#"{"contents":[{"uri":"genlock://s/a:1","blob":"AA=="},{"text":"x"}],"n":1.0}"#
        );
    }
}
