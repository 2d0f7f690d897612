//! When a table is taken over, and that what is taken over leads to the servers of now.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use genlock_config::{Config, Variables, parse};
use genlock_policy::{Gates, GenerationNumber, Overlay, Revocation, RevocationKind};
use genlock_servers::{Pool, PoolBuilder, SchemaCache, Servers};
use tempfile::TempDir;

use super::*;

/// Servers that are not started, each listed in the cache with its tools.
struct Stage {
    pool: Pool,
    cache: SchemaCache,
    _dir: TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        let cache = SchemaCache::new(path);
        let pool = PoolBuilder::new(|| SystemTime::UNIX_EPOCH, || 0.0);
        Self {
            pool: pool.cache(cache.clone()).build(),
            cache,
            _dir: dir,
        }
    }

    fn servers(&self, config: &Config, before: &Servers) -> Servers {
        for definition in config.servers.values() {
            let tools = ["read", "write"].map(|name| {
                format!(r#"{{"name": "{name}", "inputSchema": {{"type": "object"}}}}"#)
            });
            let tools = tools.map(|tool| RawJson::parse(tool).unwrap());
            self.cache.store(&definition.cache_key(), &tools).unwrap();
        }
        self.pool.reconcile(config, before).0
    }
}

fn config(text: &str) -> Config {
    let parsed = parse(text, "genlock.yaml".into(), &Variables::empty());
    parsed.unwrap().config
}

/// Two lazy servers; the one has this token and these rules, all tools have names by this rule.
fn two(token: &str, rules: &str, names: &str) -> Config {
    config(&format!(
        "mcp_servers:\n  one: {{ command: x, lazy: true, env: {{ TOKEN: {token} }}, tools: {rules} }}\n  \
         two: {{ command: y, lazy: true }}\ntool_access: {{ names: {names} }}\n"
    ))
}

fn terms(config: &Config) -> Terms {
    Terms {
        access: config.tool_access.clone(),
        gates: Arc::new(Gates::of(config)),
        revoked: Arc::default(),
        tenant: None,
        own_tools: &[],
        owners: BTreeMap::new(),
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.entries().map(|(shown, ..)| shown).collect()
}

#[tokio::test]
async fn another_instance_of_a_server_is_reached_by_the_table_of_before() {
    let stage = Stage::new();
    let (old, new) = (two("a", "{}", "always"), two("b", "{}", "always"));
    let before = stage.servers(&old, &Servers::default());
    let first = Catalog::compile(&before, terms(&old), None);

    let after = stage.servers(&new, &before);
    let second = Catalog::compile(&after, terms(&new), Some(&first));

    assert!(Arc::ptr_eq(&first.table, &second.table));
    let new: Vec<&str> = after.not_in(&before).map(Server::name).collect();
    assert_eq!(new, ["one"]);
    let all = ["one__read", "one__write", "two__read", "two__write"];
    assert_eq!(names(&second), all);
    for name in all {
        let Some(Target::Tool(entry)) = second.target(name, Surface::Flat) else {
            panic!("{name} leads nowhere");
        };
        let server = after.get(entry.server.name()).unwrap();
        assert!(entry.server.is(server), "{name}");
    }
}

#[tokio::test]
async fn a_table_is_made_anew_where_anything_differs_that_it_depends_on() {
    let stage = Stage::new();
    let old = two("a", "{}", "always");
    let before = stage.servers(&old, &Servers::default());
    let first = Catalog::compile(&before, terms(&old), None);
    let all = "mcp_servers:\n  one: { command: x, lazy: true, env: { TOKEN: a } }\n";
    let shown = |config: &Config, terms: Terms| {
        let servers = stage.servers(config, &before);
        let next = Catalog::compile(&servers, terms, Some(&first));
        assert!(
            !Arc::ptr_eq(&first.table, &next.table),
            "{:?}",
            names(&next)
        );
        names(&next).join(" ")
    };
    let of_tenant = |config: &Config| Terms {
        tenant: Some("t".into()),
        ..terms(config)
    };

    let denied = two("a", "{ deny: [write] }", "always");
    assert_eq!(
        shown(&denied, terms(&denied)),
        "one__read two__read two__write"
    );
    let bare = two("a", "{}", "auto");
    assert_eq!(
        shown(&bare, terms(&bare)),
        "read two__read two__write write"
    );
    let removed = config(all);
    assert_eq!(shown(&removed, terms(&removed)), "one__read one__write");
    let disabled = config(&format!("{all}  two: {{ command: y, enabled: false }}\n"));
    assert_eq!(shown(&disabled, terms(&disabled)), "one__read one__write");
    let prefixed = config(&format!(
        "{all}  two: {{ command: y, lazy: true, prefix: zwei }}\n"
    ));
    let zwei = "one__read one__write zwei__read zwei__write";
    assert_eq!(shown(&prefixed, terms(&prefixed)), zwei);
    let every = "one__read one__write two__read two__write";
    assert_eq!(shown(&old, of_tenant(&old)), every);
}

#[tokio::test]
async fn a_revoked_tool_is_not_listed_and_its_name_goes_to_no_other() {
    let stage = Stage::new();
    let config = two("a", "{}", "auto");
    let servers = stage.servers(&config, &Servers::default());
    // The one owns `read`; without it, the other would.
    let owners = BTreeMap::from([("read".to_owned(), "one".to_owned())]);
    let own = |revoked: Overlay| Terms {
        owners: owners.clone(),
        revoked: Arc::new(revoked),
        ..terms(&config)
    };
    let first = Catalog::compile(&servers, own(Overlay::default()), None);
    let revocation = Revocation {
        kind: RevocationKind::Tool,
        name: "one/read".to_owned(),
        reason: "leaked".to_owned(),
        number: GenerationNumber::FIRST,
    };

    let overlay = Overlay::default().with(revocation);
    let second = Catalog::compile(&servers, own(overlay), Some(&first));
    let third = Catalog::compile(&servers, own(Overlay::default()), Some(&second));

    let all = ["read", "two__read", "two__write", "write"];
    let rest = ["two__read", "two__write", "write"];
    assert_eq!(names(&first), all);
    assert_eq!(names(&second), rest);
    assert!(!second.shows_the_same_as(&first));
    assert!(third.shows_the_same_as(&first));
    let Some(Target::Tool(entry)) = second.target("read", Surface::Flat) else {
        panic!("its name leads nowhere");
    };
    assert_eq!((entry.server.name(), &*entry.tool.name), ("one", "read"));
}
