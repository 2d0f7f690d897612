//! [`Shelf`]: what the servers offer beside tools, compiled once and read by every request.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use genlock_config::{Config, ResourceUris};
use genlock_mcp::{RawJson, RawObject};
use genlock_policy::Overlay;
use genlock_servers::{Offer, Offers, Server, Servers};

use super::{links::Link, template, ui, uri};
use crate::{
    naming::{Listing, name_tools},
    tenant::Sight,
};

/// A prompt of a server, by the name that it is shown by.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) server: Server,
    /// The server's own name for it.
    pub(crate) name: String,
    listed: RawJson,
}

/// A resource or a resource template of a server.
#[derive(Debug, Clone)]
struct Resource {
    server: Server,
    /// The server's own URI or template.
    uri: String,
    /// What decides who may see it: the URI, or what all that comes out of the template begins with.
    gate: String,
    /// Whether not everybody may see it.
    is_ui: bool,
    listed: RawJson,
}

/// Where a URI leads.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) server: Server,
    /// The server's own URI.
    pub(crate) uri: String,
}

/// Why a URI leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// Nobody offers it, or not to this caller.
    Unknown,
    /// Several servers offer it, each under another shown URI.
    Ambiguous(Vec<String>),
}

/// One compiled picture of what is offered beside tools.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// What it was compiled from, in the order of the servers.
    seen: Vec<Option<Arc<Offers>>>,
    /// What was revoked then, and so is not listed. It is found all the same, so that a request for it says what became of it.
    revoked: Arc<Overlay>,
    /// The servers by their prefix.
    servers: HashMap<String, Server>,
    resources: Vec<Resource>,
    templates: Vec<Resource>,
    prompts: BTreeMap<String, Prompt>,
    /// Identifies what everybody is shown of resources and templates.
    common: Option<blake3::Hash>,
    prompts_id: Option<blake3::Hash>,
    ttl_ms: Option<u64>,
    pub(crate) reports: Vec<String>,
    pub(crate) owners: BTreeMap<String, String>,
}

impl Shelf {
    /// Compiles what the servers offer now, without what is revoked. `owners` are those of the bare names of prompts.
    pub(crate) fn compile(
        servers: &Servers,
        config: &Config,
        owners: &BTreeMap<String, String>,
        revoked: &Arc<Overlay>,
    ) -> Self {
        let seen: Vec<Option<Arc<Offers>>> = servers.iter().map(Server::offers).collect();
        let offering: Vec<(&Server, Arc<Offers>)> = servers
            .iter()
            .zip(&seen)
            .filter(|(server, _)| server.definition().enabled)
            .filter_map(|(server, offers)| Some((server, offers.clone()?)))
            .collect();
        let resources = shown(&offering, &RESOURCES, config);
        let templates = shown(&offering, &TEMPLATES, config);
        let by_prefix = servers
            .iter()
            .filter(|server| server.definition().enabled)
            .map(|server| (server.definition().prefix.clone(), server.clone()));
        let mut shelf = Self {
            servers: by_prefix.collect(),
            revoked: Arc::clone(revoked),
            resources,
            templates,
            ttl_ms: offering
                .iter()
                .filter_map(|(_, offers)| offers.ttl_ms)
                .filter(|ttl| *ttl > 0)
                .min(),
            ..Self::default()
        };
        shelf.common = Some(id_of(
            [&shelf.resources, &shelf.templates]
                .into_iter()
                .flatten()
                .filter(|resource| !resource.is_ui && shelf.lists(&resource.server))
                .map(|resource| &resource.listed),
        ));
        shelf.add_prompts(&offering, config, owners);
        shelf.prompts_id = Some(id_of(shelf.listed_prompts()));
        shelf.seen = seen;
        shelf
    }

    fn add_prompts(
        &mut self,
        offering: &[(&Server, Arc<Offers>)],
        config: &Config,
        owners: &BTreeMap<String, String>,
    ) {
        let own: Vec<Vec<&str>> = offering
            .iter()
            .map(|(_, offers)| {
                offers
                    .prompts
                    .iter()
                    .map(|prompt| prompt.id.as_str())
                    .collect()
            })
            .collect();
        let listings: Vec<_> = offering
            .iter()
            .zip(&own)
            .map(|((server, _), tools)| Listing {
                prefix: &server.definition().prefix,
                tools,
            })
            .collect();
        let names = name_tools(
            &listings,
            config.tool_access.names,
            owners,
            &BTreeSet::new(),
        );
        let by_name: Vec<HashMap<&str, &Arc<Offer>>> = offering
            .iter()
            .map(|(_, offers)| {
                offers
                    .prompts
                    .iter()
                    .map(|offer| (offer.id.as_str(), offer))
                    .collect()
            })
            .collect();
        for (shown, (index, name)) in names.shown {
            let found = offering.get(index).zip(by_name.get(index));
            let Some(((server, _), offer)) =
                found.and_then(|(of, offers)| Some((of, offers.get(name.as_str())?)))
            else {
                continue;
            };
            let listed = renamed(&offer.definition, "name", &shown);
            let server = (*server).clone();
            self.prompts.insert(
                shown,
                Prompt {
                    server,
                    name,
                    listed,
                },
            );
        }
        let reports = names.reports.into_iter();
        self.reports = reports.map(|report| format!("prompt {report}")).collect();
        self.owners = names.owners;
    }

    /// Tells whether it was compiled from what the servers offer now, and without what is revoked now.
    pub(crate) fn is_of_now(&self, servers: &Servers, revoked: &Arc<Overlay>) -> bool {
        let now = servers.iter().map(Server::offers);
        Arc::ptr_eq(&self.revoked, revoked)
            && self.seen.len() == servers.iter().count()
            && now.zip(&self.seen).all(|(now, seen)| match (&now, seen) {
                (Some(now), Some(seen)) => Arc::ptr_eq(now, seen),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            })
    }

    /// Tells whether every caller is shown the same of it as of another, where what they may see is the same.
    pub(crate) fn shows_the_same_as(&self, other: &Self) -> bool {
        let all = Sight::Everything;
        self.prompts_id == other.prompts_id && self.resources_id(all) == other.resources_id(all)
    }

    // === what is listed ===

    /// Tells whether what a server offers is listed.
    fn lists(&self, server: &Server) -> bool {
        self.revoked.refuses(server.name(), None).is_none()
    }

    fn listed_prompts(&self) -> impl Iterator<Item = &RawJson> {
        let prompts = self.prompts.values();
        let listed = prompts.filter(|prompt| self.lists(&prompt.server));
        listed.map(|prompt| &prompt.listed)
    }

    /// Returns the entries that a caller is shown.
    fn seen_of<'a>(
        &'a self,
        resources: impl IntoIterator<Item = &'a Resource>,
        sight: Sight<'_>,
    ) -> impl Iterator<Item = RawJson> {
        resources
            .into_iter()
            .filter(move |resource| resource.is_seen(sight) && self.lists(&resource.server))
            .map(|resource| resource.listed.clone())
    }

    /// Returns the resources that a caller is shown: those of the servers, then the links that were handed out to it.
    pub(crate) fn resources(
        &self,
        sight: Sight<'_>,
        links: &[Link],
        uris: ResourceUris,
    ) -> Vec<RawJson> {
        let mut listed: Vec<RawJson> = self.seen_of(&self.resources, sight).collect();
        if links.is_empty() {
            return listed;
        }
        let known: HashSet<(&str, &str)> = self
            .resources
            .iter()
            .map(|resource| (resource.prefix(), resource.uri.as_str()))
            .collect();
        let new = links.iter().filter(|link| {
            sight.sees(&link.uri)
                && !known.contains(&(link.server.as_str(), link.uri.as_str()))
                && self
                    .server_of(link)
                    .is_some_and(|server| self.lists(server))
        });
        listed.extend(new.map(|link| {
            let shown = match uris {
                ResourceUris::Raw if !self.is_taken(link, links) => link.uri.clone(),
                ResourceUris::Raw | ResourceUris::Rewrite => uri::shown(&link.server, &link.uri),
            };
            renamed(&link.entry, "uri", &shown)
        }));
        listed
    }

    /// Tells whether the URI of a link alone would lead to another server, or nowhere.
    fn is_taken(&self, link: &Link, links: &[Link]) -> bool {
        let listed = self.resources.iter().any(|one| one.uri == link.uri);
        let is_other = |other: &Link| other.uri == link.uri && other.server != link.server;
        listed || links.iter().any(is_other)
    }

    /// Returns the server of a link, where it still is the one that handed it out.
    fn server_of(&self, link: &Link) -> Option<&Server> {
        let server = self.servers.get(&link.server)?;
        (server.cache_key() == link.definition).then_some(server)
    }

    /// Returns the resource templates that a caller is shown.
    pub(crate) fn templates(&self, sight: Sight<'_>) -> Vec<RawJson> {
        self.seen_of(&self.templates, sight).collect()
    }

    /// Returns the prompts that a caller is shown.
    pub(crate) fn prompts(&self, sight: Sight<'_>) -> Vec<RawJson> {
        let listed = self.listed_prompts().filter(|_| sight.is_open());
        listed.cloned().collect()
    }

    /// Identifies the resources and templates that a caller is shown, but for its links.
    pub(crate) fn resources_id(&self, sight: Sight<'_>) -> Option<blake3::Hash> {
        let of_ui = |resources: &[Resource]| -> Vec<RawJson> {
            let ui = resources.iter().filter(|resource| resource.is_ui);
            self.seen_of(ui, sight).collect()
        };
        let ui = [of_ui(&self.resources), of_ui(&self.templates)];
        let common = self.common.filter(|_| sight.is_open())?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(common.as_bytes());
        hasher.update(id_of(ui.iter().flatten()).as_bytes());
        Some(hasher.finalize())
    }

    /// Identifies the prompts that a caller is shown.
    pub(crate) fn prompts_id(&self, sight: Sight<'_>) -> Option<blake3::Hash> {
        self.prompts_id.filter(|_| sight.is_open())
    }

    /// Returns the least time that a server gives to its lists, in milliseconds.
    pub(crate) fn ttl_ms(&self) -> Option<u64> {
        self.ttl_ms
    }

    // === where it leads ===

    /// Returns the prompt of a name.
    pub(crate) fn prompt(&self, name: &str, sight: Sight<'_>) -> Option<&Prompt> {
        self.prompts.get(name).filter(|_| sight.is_open())
    }

    /// Returns where a URI leads, shown or the server's own.
    ///
    /// What is listed, was handed out or comes out of a template leads somewhere. `trusts` is whether a server may be asked
    /// for anything else as well: it may know more than it lists.
    pub(crate) fn place(
        &self,
        wanted: &str,
        sight: Sight<'_>,
        links: &[Link],
        (uris, trusts): (ResourceUris, bool),
    ) -> Result<Place, NoPlace> {
        let named = || self.named_place(wanted, sight, links, trusts);
        let own = || self.own_place(wanted, sight, links);
        // A server's own URI may look like one that names a server: it counts as what it would be listed as.
        match uris {
            ResourceUris::Rewrite => named().or_else(|_| own()),
            ResourceUris::Raw => match own() {
                Err(NoPlace::Unknown) => named(),
                found => found,
            },
        }
    }

    /// A URI that names its server.
    fn named_place(
        &self,
        wanted: &str,
        sight: Sight<'_>,
        links: &[Link],
        trusts: bool,
    ) -> Result<Place, NoPlace> {
        let (prefix, uri) = uri::parse(wanted).ok_or(NoPlace::Unknown)?;
        let server = self.servers.get(prefix).ok_or(NoPlace::Unknown)?;
        let known = || {
            self.offering(uri, links)
                .iter()
                .any(|servers| servers.contains_key(prefix))
        };
        if sight.sees(uri) && (trusts || known()) {
            return Ok(Place {
                server: server.clone(),
                uri: uri.to_owned(),
            });
        }
        Err(NoPlace::Unknown)
    }

    /// A URI as the server wrote it: it leads where exactly one server offers it.
    fn own_place(&self, wanted: &str, sight: Sight<'_>, links: &[Link]) -> Result<Place, NoPlace> {
        if !sight.sees(wanted) {
            return Err(NoPlace::Unknown);
        }
        let offering = self.offering(wanted, links);
        let first = offering.into_iter().find(|servers| !servers.is_empty());
        let mut found = first.unwrap_or_default().into_iter();
        match (found.next(), found.next()) {
            (None, _) => Err(NoPlace::Unknown),
            (Some((_, server)), None) => Ok(Place {
                server: server.clone(),
                uri: wanted.to_owned(),
            }),
            (Some((first, _)), Some((second, _))) => {
                let all = [first, second]
                    .into_iter()
                    .chain(found.map(|(name, _)| name));
                Err(NoPlace::Ambiguous(
                    all.map(|prefix| uri::shown(prefix, wanted)).collect(),
                ))
            }
        }
    }

    /// Returns the servers that list a URI, those that handed it out, and those with a template that it comes out of.
    fn offering(&self, uri: &str, links: &[Link]) -> [BTreeMap<&str, &Server>; 3] {
        let listed = self.resources.iter().filter(|one| one.uri == uri);
        let handed_out = links.iter().filter(|link| link.uri == uri);
        let made = self.templates.iter();
        let made = made.filter(|one| template::matches(&one.uri, uri));
        [
            by_prefix(listed.map(|one| &one.server)),
            by_prefix(handed_out.filter_map(|link| self.server_of(link))),
            by_prefix(made.map(|one| &one.server)),
        ]
    }

    /// Returns where a template leads, as it is shown.
    pub(crate) fn template(&self, wanted: &str, sight: Sight<'_>) -> Option<Place> {
        let is_it = |one: &&Resource| {
            one.is_seen(sight)
                && (one.uri == wanted || uri::parse(wanted) == Some((one.prefix(), &one.uri)))
        };
        let mut found = self.templates.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(one), None) => Some(Place {
                server: one.server.clone(),
                uri: one.uri.clone(),
            }),
            (Some(_) | None, _) => None,
        }
    }
}

impl Resource {
    fn prefix(&self) -> &str {
        &self.server.definition().prefix
    }

    fn is_seen(&self, sight: Sight<'_>) -> bool {
        match self.is_ui {
            true => sight.sees(&self.gate),
            false => sight.is_open(),
        }
    }
}

fn by_prefix<'a>(servers: impl Iterator<Item = &'a Server>) -> BTreeMap<&'a str, &'a Server> {
    servers
        .map(|server| (server.definition().prefix.as_str(), server))
        .collect()
}

/// One of the two lists with URIs.
struct UriList {
    key: &'static str,
    of: fn(&Offers) -> &[Arc<Offer>],
    gate: fn(&str) -> &str,
}

const RESOURCES: UriList = UriList {
    key: "uri",
    of: |offers| &offers.resources,
    gate: |uri| uri,
};
/// A template is seen where all that comes out of it may be.
const TEMPLATES: UriList = UriList {
    key: "uriTemplate",
    of: |offers| &offers.templates,
    gate: template::fixed_part,
};

/// Reads one list of all servers. With raw URIs, one that several servers offer names its server all the same, so that what
/// is listed can be read.
fn shown(offering: &[(&Server, Arc<Offers>)], list: &UriList, config: &Config) -> Vec<Resource> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for offer in offering.iter().flat_map(|(_, offers)| (list.of)(offers)) {
        *times.entry(offer.id.as_str()).or_default() += 1;
    }
    let mut all = Vec::new();
    for (server, offers) in offering {
        all.extend((list.of)(offers).iter().map(|offer| {
            let one = times.get(offer.id.as_str()) == Some(&1);
            let listed = match config.resource_uris {
                ResourceUris::Raw if one => offer.definition.to_raw(),
                ResourceUris::Raw | ResourceUris::Rewrite => {
                    let shown = uri::shown(&server.definition().prefix, &offer.id);
                    renamed(&offer.definition, list.key, &shown)
                }
            };
            Resource {
                server: (*server).clone(),
                gate: (list.gate)(&offer.id).to_owned(),
                is_ui: ui::is_ui(&offer.id),
                uri: offer.id.clone(),
                listed,
            }
        }));
    }
    all
}

/// Returns an entry under what it is shown by; all else stays as the server wrote it.
fn renamed(definition: &RawObject, key: &str, shown: &str) -> RawJson {
    let mut definition = definition.clone();
    definition.set(key, RawJson::string(shown));
    definition.to_raw()
}

fn id_of<'a>(entries: impl Iterator<Item = &'a RawJson>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for entry in entries {
        hasher.update(&(entry.as_bytes().len() as u64).to_le_bytes());
        hasher.update(entry.as_bytes());
    }
    hasher.finalize()
}
