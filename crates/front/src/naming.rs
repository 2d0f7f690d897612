//! The names under which tools are shown: pure functions from what the servers list.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use genlock_config::NameRule;

/// What stands between a server's prefix and its tool's name.
pub(crate) const SEPARATOR: &str = "__";
/// The longest name that every client takes.
const LONGEST: usize = 64;
/// How many hexadecimal digits tell apart what sanitising made alike.
const HASH: usize = 6;

/// What one server lists, in the order of the config.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing<'a> {
    /// The server's prefix.
    pub(crate) prefix: &'a str,
    /// The server's own names for its tools.
    pub(crate) tools: &'a [&'a str],
}

/// Which name shows which tool: index of the listing, the server's own name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The names shown, in order.
    pub(crate) shown: BTreeMap<String, (usize, String)>,
    /// What is not shown under its own name, and why; for people.
    pub(crate) reports: Vec<String>,
    /// Which prefix owns a bare name; kept for the next time.
    pub(crate) owners: BTreeMap<String, String>,
}

/// Names the tools of all servers.
///
/// `owners` is what the last call returned: a bare name stays with its owner as long as that lists it, so that a name
/// never moves to another server. A name without an owner goes to the first server that lists it. `reserved` names are the
/// gateway's own.
pub(crate) fn name_tools(
    listings: &[Listing<'_>],
    rule: NameRule,
    owners: &BTreeMap<String, String>,
    reserved: &BTreeSet<String>,
) -> Names {
    let mut names = Names {
        owners: owners.clone(),
        ..Names::default()
    };
    let mut by_bare: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, listing) in listings.iter().enumerate() {
        for tool in listing.tools {
            by_bare.entry(tool).or_default().push(index);
        }
    }
    for (tool, holders) in by_bare {
        match rule {
            NameRule::Always => names.add_prefixed(listings, tool, &holders),
            NameRule::Auto => names.add_auto(listings, tool, &holders, reserved),
            NameRule::Never => names.add_bare(listings, tool, &holders, reserved),
        }
    }
    names
}

impl Names {
    fn add_prefixed(&mut self, listings: &[Listing<'_>], tool: &str, holders: &[usize]) {
        for index in holders {
            let prefix = listings
                .get(*index)
                .map(|listing| listing.prefix)
                .unwrap_or_default();
            self.add(&format!("{prefix}{SEPARATOR}{tool}"), *index, tool);
        }
    }

    fn add_auto(
        &mut self,
        listings: &[Listing<'_>],
        tool: &str,
        holders: &[usize],
        reserved: &BTreeSet<String>,
    ) {
        let prefix_of = |index: &usize| listings.get(*index).map(|listing| listing.prefix);
        let owner = self.owners.get(tool).cloned();
        let keeper = match (&owner, holders) {
            _ if reserved.contains(tool) || tool.contains(SEPARATOR) => None,
            (Some(owner), _) => holders
                .iter()
                .find(|index| prefix_of(index) == Some(owner))
                .copied(),
            (None, [first, ..]) => Some(*first),
            (None, []) => None,
        };
        if let Some(index) = keeper {
            self.add(tool, index, tool);
            self.owners.insert(
                tool.to_owned(),
                prefix_of(&index).unwrap_or_default().to_owned(),
            );
        }
        let others: Vec<_> = holders
            .iter()
            .copied()
            .filter(|index| Some(*index) != keeper)
            .collect();
        for index in &others {
            let prefix = prefix_of(index).unwrap_or_default();
            self.reports.push(format!(
                "`{tool}` of `{prefix}` is shown with its prefix: the bare name is taken"
            ));
        }
        self.add_prefixed(listings, tool, &others);
    }

    fn add_bare(
        &mut self,
        listings: &[Listing<'_>],
        tool: &str,
        holders: &[usize],
        reserved: &BTreeSet<String>,
    ) {
        match holders {
            [index] if !reserved.contains(tool) => self.add(tool, *index, tool),
            _ => {
                let prefixes: Vec<_> = holders
                    .iter()
                    .filter_map(|index| Some(listings.get(*index)?.prefix))
                    .collect();
                self.reports.push(format!(
                    "`{tool}` is not shown: the name clashes ({})",
                    prefixes.join(", ")
                ));
            }
        }
    }

    fn add(&mut self, wanted: &str, index: usize, tool: &str) {
        let shown = sanitised(wanted);
        match self.shown.entry(shown) {
            Entry::Vacant(free) => {
                free.insert((index, tool.to_owned()));
            }
            Entry::Occupied(taken) => self.reports.push(format!(
                "`{}` is shown once only: two tools come to this name",
                taken.key()
            )),
        }
    }
}

/// Makes a name that every client takes: `[A-Za-z0-9_-]{1,64}`. A name that is not one already is cleaned, cut, and told
/// apart by a hash of the whole.
pub(crate) fn sanitised(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(allowed) {
        return name.to_owned();
    }
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let cleaned: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .take(LONGEST - HASH - 1)
        .collect();
    format!("{cleaned}_{}", hash.get(..HASH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(listings: &[(&str, &[&str])], rule: NameRule, owners: &[(&str, &str)]) -> Names {
        let listings: Vec<_> = listings
            .iter()
            .map(|(prefix, tools)| Listing { prefix, tools })
            .collect();
        let owners = owners
            .iter()
            .map(|(tool, prefix)| ((*tool).to_owned(), (*prefix).to_owned()))
            .collect();
        name_tools(
            &listings,
            rule,
            &owners,
            &BTreeSet::from(["genlock_call".to_owned()]),
        )
    }

    fn shown(names: &Names) -> Vec<(&str, usize)> {
        names
            .shown
            .iter()
            .map(|(name, (index, _))| (name.as_str(), *index))
            .collect()
    }

    #[test]
    fn every_tool_has_its_prefix_by_default() {
        let names = named(
            &[("a", &["echo", "x"]), ("b", &["echo"])],
            NameRule::Always,
            &[],
        );
        assert_eq!(shown(&names), [("a__echo", 0), ("a__x", 0), ("b__echo", 1)]);
    }

    #[test]
    fn a_bare_name_stays_with_its_owner_and_the_other_is_reported() {
        let both: &[(&str, &[&str])] = &[("a", &["echo"]), ("b", &["echo", "only"])];
        let names = named(both, NameRule::Auto, &[("echo", "b")]);
        assert_eq!(shown(&names), [("a__echo", 0), ("echo", 1), ("only", 1)]);
        assert_eq!(names.reports.len(), 1);

        // The first in the order of the config, not the first to be listed.
        let nobody = named(both, NameRule::Auto, &[]);
        assert_eq!(shown(&nobody), [("b__echo", 1), ("echo", 0), ("only", 1)]);

        // The owner is gone for a while: its name is not handed on.
        let gone = named(&[("a", &["echo"])], NameRule::Auto, &[("echo", "b")]);
        assert_eq!(shown(&gone), [("a__echo", 0)]);
    }

    #[test]
    fn a_clash_of_bare_names_drops_both_and_is_reported() {
        let names = named(
            &[("a", &["echo", "x"]), ("b", &["echo", "genlock_call"])],
            NameRule::Never,
            &[],
        );
        assert_eq!(shown(&names), [("x", 0)]);
        assert_eq!(names.reports.len(), 2);
    }

    #[test]
    fn a_name_that_clients_refuse_is_cleaned_and_told_apart() {
        let a = sanitised("a__très bien 🙂");
        let b = sanitised("a__tres_bien _");
        assert_ne!(a, b);
        assert!(a.starts_with("a__tr_s_bien___"), "{a}");
        assert_eq!(sanitised(&"x".repeat(200)).len(), 64);
        assert_eq!(sanitised(&"x".repeat(64)), "x".repeat(64));
    }

    proptest! {
        #[test]
        fn every_name_can_be_shown_and_no_tool_is_lost_under_always(
            tools in prop::collection::btree_set(".{0,90}", 0..20),
        ) {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let names = named(&[("p", &tools)], NameRule::Always, &[]);
            prop_assert_eq!(names.shown.len(), tools.len());
            for name in names.shown.keys() {
                prop_assert!((1..=64).contains(&name.len()));
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            }
        }
    }
}
