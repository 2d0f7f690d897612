//! [`Offers`]: what one server offers beside tools (resources, resource templates, prompts), each entry as it arrived.

use std::{collections::HashSet, sync::Arc};

use genlock_mcp::{
    RawJson, RawObject,
    client::{Client, ListError, Listed},
    error::{code, escape_text},
};
use tokio::time::Instant;

/// The longest name or URI that is taken, in bytes.
const LONGEST_ID: usize = 8 * 1024;

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What the server calls it by: the `uri`, the `uriTemplate` or the `name`.
    pub id: String,
    /// The whole entry, unknown fields included.
    pub definition: RawObject,
}

/// What one server offers beside tools, as of one listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// Its resources by `uri`, in its order.
    pub resources: Vec<Arc<Offer>>,
    /// Its resource templates by `uriTemplate`, in its order.
    pub templates: Vec<Arc<Offer>>,
    /// Its prompts by `name`, in its order.
    pub prompts: Vec<Arc<Offer>>,
    /// Whether it completes arguments.
    pub completes: bool,
    /// How long the server says that the lists stay valid, in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// What listing all of it came to.
#[derive(Debug)]
pub(crate) struct Offering {
    pub(crate) offers: Offers,
    /// Which list could not be read and why; the last good one stands in its place.
    pub(crate) failed: Option<String>,
    /// What was left out, safe to show.
    pub(crate) left_out: Vec<String>,
}

impl Offers {
    /// Reads what the cache keeps.
    pub(crate) fn from_cache(entry: &RawObject) -> Option<Self> {
        let list = |list: &List| {
            let entries = entry.get(list.field)?.items().ok()?;
            Some(list.read(&entries, &mut Vec::new()))
        };
        Some(Self {
            resources: list(&RESOURCES)?,
            templates: list(&TEMPLATES)?,
            prompts: list(&PROMPTS)?,
            completes: entry.get("completes")?.as_bytes() == b"true",
            ttl_ms: Some(0),
        })
    }

    /// Returns what the cache keeps.
    pub(crate) fn to_cache(&self) -> RawObject {
        let entries = |offers: &[Arc<Offer>]| {
            let entries = offers.iter().map(|offer| offer.definition.to_raw());
            RawJson::encode(&entries.collect::<Vec<_>>())
        };
        [
            (RESOURCES.field, entries(&self.resources)),
            (TEMPLATES.field, entries(&self.templates)),
            (PROMPTS.field, entries(&self.prompts)),
            ("completes", RawJson::encode(&self.completes)),
        ]
        .into_iter()
        .collect()
    }

    /// Tells whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.templates.is_empty() && self.prompts.is_empty()
    }
}

/// One of the three lists.
struct List {
    capability: &'static str,
    method: &'static str,
    field: &'static str,
    id: &'static str,
}

const RESOURCES: List = List {
    capability: "resources",
    method: "resources/list",
    field: "resources",
    id: "uri",
};
const TEMPLATES: List = List {
    capability: "resources",
    method: "resources/templates/list",
    field: "resourceTemplates",
    id: "uriTemplate",
};
const PROMPTS: List = List {
    capability: "prompts",
    method: "prompts/list",
    field: "prompts",
    id: "name",
};

impl List {
    fn read(&self, entries: &[RawJson], left_out: &mut Vec<String>) -> Vec<Arc<Offer>> {
        let mut seen = HashSet::new();
        let mut offers = Vec::with_capacity(entries.len());
        for entry in entries {
            match self.offer(entry) {
                Ok(offer) if seen.insert(offer.id.clone()) => offers.push(Arc::new(offer)),
                Ok(offer) => left_out.push(format!(
                    "{}: `{}` is listed twice",
                    self.method,
                    escape_text(&offer.id)
                )),
                Err(reason) => left_out.push(format!("{}: {reason}", self.method)),
            }
        }
        offers
    }

    fn offer(&self, entry: &RawJson) -> Result<Offer, String> {
        // A listing is kept for long: it must not keep alive the buffer that it was read in.
        let definition = RawObject::parse(&entry.detached()).map_err(|error| error.to_string())?;
        let id = definition
            .get_string(self.id)
            .filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
        let id = id.ok_or_else(|| format!("an entry without a usable `{}`", self.id))?;
        Ok(Offer { id, definition })
    }

    /// Asks for the list; a server that did not declare the capability is not asked.
    async fn ask(&self, client: &Client, deadline: Instant) -> Result<Listed, ListError> {
        if !client.declares(self.capability) {
            return Ok(Listed::default());
        }
        match client.list(self.method, self.field, deadline).await {
            Err(ListError::Refused {
                code: code::METHOD_NOT_FOUND,
                ..
            }) => Ok(Listed::default()),
            listed => listed,
        }
    }
}

/// Lists all that a server offers beside tools. A list that cannot be read stays as it was `before`.
pub(crate) async fn list_offers(
    client: &Client,
    before: Option<Arc<Offers>>,
    deadline: Instant,
) -> Offering {
    let before = before.unwrap_or_default();
    let (resources, templates, prompts) = tokio::join!(
        RESOURCES.ask(client, deadline),
        TEMPLATES.ask(client, deadline),
        PROMPTS.ask(client, deadline),
    );
    let (mut failed, mut left_out, mut ttl_ms) = (None, Vec::new(), None::<u64>);
    let mut take =
        |list: &List, listed: Result<Listed, ListError>, before: &[Arc<Offer>]| match listed {
            Ok(listed) => {
                ttl_ms = [ttl_ms, listed.ttl_ms].into_iter().flatten().min();
                list.read(&listed.entries, &mut left_out)
            }
            Err(error) => {
                failed = Some(error.to_string());
                before.to_vec()
            }
        };
    let offers = Offers {
        resources: take(&RESOURCES, resources, &before.resources),
        templates: take(&TEMPLATES, templates, &before.templates),
        prompts: take(&PROMPTS, prompts, &before.prompts),
        completes: client.declares("completions"),
        ttl_ms: None,
    };
    Offering {
        offers: Offers { ttl_ms, ..offers },
        failed,
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &'static str) -> Vec<RawJson> {
        RawJson::parse(text).unwrap().items().unwrap()
    }

    #[test]
    fn entries_without_a_usable_id_are_left_out_and_named() {
        let mut left_out = Vec::new();
        let read = RESOURCES.read(
            &entries(r#"[{"uri":"a:1","x": 1.0},{"uri":"a:1"},{"name":"n"},7,{"uri":""}]"#),
            &mut left_out,
        );

        let kept: Vec<_> = read
            .iter()
            .map(|offer| offer.definition.to_raw().as_bytes().to_vec())
            .collect();
        assert_eq!(kept, [br#"{"uri":"a:1","x":1.0}"#.to_vec()]);
        assert_eq!(
            left_out,
            [
                "resources/list: `a:1` is listed twice",
                "resources/list: an entry without a usable `uri`",
                "resources/list: expected a JSON object",
                "resources/list: an entry without a usable `uri`",
            ]
        );
    }

    #[test]
    fn what_the_cache_keeps_comes_back() {
        let offers = Offers {
            resources: RESOURCES.read(&entries(r#"[{"uri":"a:1"}]"#), &mut Vec::new()),
            templates: TEMPLATES.read(&entries(r#"[{"uriTemplate":"a:{x}"}]"#), &mut Vec::new()),
            prompts: PROMPTS.read(&entries(r#"[{"name":"p"}]"#), &mut Vec::new()),
            completes: true,
            ttl_ms: Some(0),
        };
        assert_eq!(
            Offers::from_cache(&offers.to_cache()),
            Some(offers.clone()),
            "all of it"
        );
        assert_eq!(Offers::from_cache(&RawObject::default()), None);
    }
}
