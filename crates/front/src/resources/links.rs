//! [`Links`]: the `resource_link`s that were handed out, by tenant. The newest win, the oldest leave.

use std::collections::{BTreeMap, HashMap};

use genlock_config::{Config, ServerDefinition};
use genlock_mcp::{RawJson, RawObject};
use genlock_servers::Server;
use parking_lot::Mutex;

use crate::tenant::Tenant;

/// The most tenants that links are kept for; the one that was handed none for longest goes first.
const MOST_TENANTS: usize = 1_024;
/// The largest link that is kept, in bytes.
const LARGEST: usize = 16 * 1024;

/// A link that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The server's prefix.
    pub(crate) server: String,
    /// The server's own URI.
    pub(crate) uri: String,
    /// What the server said of it, as an entry of a list of resources, under the server's own URI.
    pub(crate) entry: RawObject,
    /// The definition that it came from: an edited server's links are gone.
    pub(crate) definition: String,
}

/// The links of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Links {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_tenant: HashMap<Option<Tenant>, OfTenant>,
    /// Rises with every link that is handed out.
    next: u64,
}

#[derive(Debug, Default)]
struct OfTenant {
    by_age: BTreeMap<u64, Link>,
    by_place: HashMap<(String, String), u64>,
}

// === impl Link ===

impl Link {
    /// Makes a link of a `resource_link` block. `None` where it is too large to be kept, or names no resource.
    pub(crate) fn new(server: &Server, block: &RawObject) -> Option<Self> {
        Self::of(server.definition(), block)
    }

    fn of(definition: &ServerDefinition, block: &RawObject) -> Option<Self> {
        let uri = block.get_string("uri").filter(|uri| !uri.is_empty())?;
        let raw = block.to_raw();
        if raw.as_bytes().len() > LARGEST {
            return None;
        }
        // It is kept for long: it must not keep alive the whole result.
        let mut entry = RawObject::parse(&raw.detached()).ok()?;
        entry.remove("type");
        entry.set_default("name", || RawJson::string(&uri));
        Some(Self {
            server: definition.prefix.clone(),
            uri,
            entry,
            definition: definition.cache_key(),
        })
    }

    fn place(&self) -> (String, String) {
        (self.server.clone(), self.uri.clone())
    }
}

// === impl Links ===

impl Links {
    /// Keeps links that were handed out together, in their order, and lets the oldest go beyond `most`.
    pub(crate) fn hand_out(&self, tenant: Option<&Tenant>, links: Vec<Link>, most: u32) {
        let mut kept = self.kept.lock();
        let Kept { by_tenant, next } = &mut *kept;
        let of_tenant = by_tenant.entry(tenant.cloned()).or_default();
        for link in links {
            *next += 1;
            of_tenant.keep(*next, link);
        }
        of_tenant.shrink(most);
        if by_tenant.len() > MOST_TENANTS {
            let newest = |links: &OfTenant| links.by_age.last_key_value().map(|(age, _)| *age);
            let quietest = by_tenant
                .iter()
                .min_by_key(|(_, links)| newest(links))
                .map(|(tenant, _)| tenant.clone());
            quietest.and_then(|tenant| by_tenant.remove(&tenant));
        }
    }

    /// Returns the newest links of a tenant, `most` of them, the oldest first.
    pub(crate) fn of(&self, tenant: Option<&Tenant>, most: u32) -> Vec<Link> {
        let kept = self.kept.lock();
        let Some(links) = kept.by_tenant.get(&tenant.cloned()) else {
            return Vec::new();
        };
        let first = links.by_age.len().saturating_sub(amount(most));
        links.by_age.values().skip(first).cloned().collect()
    }

    /// Takes a configuration into account that was put in force: links of servers that it has not, or has edited, go.
    pub(crate) fn follow(&self, config: &Config) {
        let most = config.max_resource_links;
        let definitions: HashMap<&str, &ServerDefinition> = config
            .servers
            .values()
            .filter(|definition| definition.enabled)
            .map(|definition| (definition.prefix.as_str(), definition))
            .collect();
        // A key is a digest of a whole definition: only those of servers that have links are made, each once.
        let mut keys = HashMap::new();
        let mut is_of_now = |link: &Link| {
            let found = definitions.get_key_value(link.server.as_str());
            found.is_some_and(|(prefix, definition)| {
                let key = keys
                    .entry(*prefix)
                    .or_insert_with(|| definition.cache_key());
                *key == link.definition
            })
        };
        let mut kept = self.kept.lock();
        kept.by_tenant.retain(|_, links| {
            links.retain(&mut is_of_now);
            links.shrink(most);
            !links.by_age.is_empty()
        });
    }
}

impl OfTenant {
    fn keep(&mut self, age: u64, link: Link) {
        if let Some(before) = self.by_place.insert(link.place(), age) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(age, link);
    }

    fn shrink(&mut self, most: u32) {
        while self.by_age.len() > amount(most) {
            if let Some((_, oldest)) = self.by_age.pop_first() {
                self.by_place.remove(&oldest.place());
            }
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(&Link) -> bool) {
        self.by_age.retain(|_, link| keep(link));
        let by_age = &self.by_age;
        self.by_place.retain(|_, age| by_age.contains_key(age));
    }
}

fn amount(most: u32) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use genlock_config::{ServerName, TransportDefinition};
    use proptest::prelude::*;

    use super::*;

    fn link(number: u32) -> Link {
        let name = ServerName::new("one").unwrap();
        let definition = ServerDefinition::new(name, TransportDefinition::Builtin);
        let block = format!(r#"{{"type":"resource_link","uri":"note://{number}","x":1.0}}"#);
        let block = RawObject::parse(&RawJson::parse(block).unwrap()).unwrap();
        Link::of(&definition, &block).unwrap()
    }

    fn uris(links: &Links, tenant: Option<&Tenant>, most: u32) -> Vec<String> {
        let kept = links.of(tenant, most);
        kept.into_iter().map(|link| link.uri).collect()
    }

    #[test]
    fn the_newest_stay_and_another_tenant_sees_none_of_them() {
        let (links, a, b) = (Links::default(), Tenant::new("a"), Tenant::new("b"));
        links.hand_out(Some(&a), [1, 2, 3].map(link).into(), 2);
        links.hand_out(Some(&b), vec![link(7)], 2);
        assert_eq!(uris(&links, Some(&a), 2), ["note://2", "note://3"]);
        assert_eq!(uris(&links, Some(&b), 2), ["note://7"]);
        assert!(uris(&links, None, 2).is_empty());
        // Handed out again, it is the newest.
        links.hand_out(Some(&a), vec![link(2)], 2);
        assert_eq!(uris(&links, Some(&a), 2), ["note://3", "note://2"]);
        // A lower limit counts at once.
        assert_eq!(uris(&links, Some(&a), 1), ["note://2"]);
    }

    #[test]
    fn a_link_keeps_what_its_server_said_and_a_large_one_is_not_kept() {
        let kept = link(1).entry.to_raw();
        assert_eq!(
            kept.as_bytes(),
            br#"{"uri":"note://1","x":1.0,"name":"note://1"}"#
        );
        let name = ServerName::new("one").unwrap();
        let definition = ServerDefinition::new(name, TransportDefinition::Builtin);
        let mut large = RawObject::default();
        large.set("uri", RawJson::string(&"x".repeat(LARGEST)));
        assert_eq!(Link::of(&definition, &large), None);
        assert_eq!(Link::of(&definition, &RawObject::default()), None);
    }

    #[test]
    fn tenants_beyond_the_most_lose_the_one_that_was_quiet_longest() {
        let links = Links::default();
        for number in 0..=MOST_TENANTS {
            links.hand_out(Some(&Tenant::new(&number.to_string())), vec![link(1)], 2);
        }
        assert_eq!(links.kept.lock().by_tenant.len(), MOST_TENANTS);
        assert!(uris(&links, Some(&Tenant::new("0")), 2).is_empty());
        assert_eq!(uris(&links, Some(&Tenant::new("1")), 2), ["note://1"]);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_plain_list_keeps(
            batches in prop::collection::vec(prop::collection::vec(0_u32..8, 0..6), 0..12), most in 1_u32..5,
        ) {
            let links = Links::default();
            let mut model: VecDeque<u32> = VecDeque::new();
            for batch in batches {
                for number in &batch {
                    model.retain(|kept| kept != number);
                    model.push_back(*number);
                }
                while model.len() > amount(most) {
                    model.pop_front();
                }
                links.hand_out(None, batch.into_iter().map(link).collect(), most);
            }
            let expected: Vec<_> = model.iter().map(|number| format!("note://{number}")).collect();
            prop_assert_eq!(uris(&links, None, most), expected);
            let kept = links.kept.lock();
            for of_tenant in kept.by_tenant.values() {
                prop_assert_eq!(of_tenant.by_age.len(), of_tenant.by_place.len());
            }
        }
    }
}
