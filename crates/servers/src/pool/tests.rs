//! What a configuration changes of the servers that run.

use genlock_config::{ServerName, StdioDefinition, Text};

use super::*;

fn pool() -> Pool {
    PoolBuilder::new(|| SystemTime::UNIX_EPOCH, || 0.0).build()
}

/// A configuration of servers that are not started, each with an argument of its own.
fn config(servers: &[(&str, &str)]) -> Config {
    let definition = |(name, argument): &(&str, &str)| {
        let mut stdio = StdioDefinition::new(Text::plain("server"));
        stdio.args = vec![Text::plain(*argument)];
        let name = ServerName::new(*name).unwrap();
        let mut definition = ServerDefinition::new(name.clone(), TransportDefinition::Stdio(stdio));
        definition.enabled = false;
        (name, definition)
    };
    Config {
        servers: servers.iter().map(definition).collect(),
        ..Config::default()
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn exactly_the_servers_whose_definition_differs_are_changed() {
    let pool = pool();
    let (before, first) = pool.reconcile(
        &config(&[("a", "1"), ("b", "1"), ("c", "1")]),
        &Servers::default(),
    );
    let (after, second) = pool.reconcile(&config(&[("a", "1"), ("b", "2"), ("d", "1")]), &before);
    let (_, third) = pool.reconcile(&config(&[("a", "1"), ("b", "2"), ("d", "1")]), &after);

    assert_eq!(
        first,
        Reconciled {
            added: names(&["a", "b", "c"]),
            ..Reconciled::default()
        }
    );
    let expected = Reconciled {
        added: names(&["d"]),
        changed: names(&["b"]),
        removed: names(&["c"]),
        unchanged: names(&["a"]),
    };
    assert_eq!(second, expected);
    assert_eq!(
        third,
        Reconciled {
            unchanged: names(&["a", "b", "d"]),
            ..Reconciled::default()
        }
    );
    assert!(Arc::ptr_eq(
        before.get("a").unwrap().lease(),
        after.get("a").unwrap().lease()
    ));
}

#[tokio::test]
async fn a_server_runs_as_long_as_somebody_holds_it() {
    let pool = pool();
    let (before, _) = pool.reconcile(&config(&[("a", "1")]), &Servers::default());
    let call = before.get("a").unwrap().clone();
    let stop = call.lease().stop.clone();
    let (after, _) = pool.reconcile(&config(&[("a", "2")]), &before);
    drop(before);

    assert_eq!(
        pool.draining(std::slice::from_ref(&after)),
        [Draining {
            name: "a".to_owned(),
            holders: 0
        }]
    );
    assert!(!stop.is_cancelled());
    drop(call);
    assert!(stop.is_cancelled());
    assert_eq!(pool.draining(&[after]), []);
}

#[tokio::test]
async fn a_definition_that_comes_back_while_it_drains_is_taken_up_again() {
    let pool = pool();
    let (first, _) = pool.reconcile(&config(&[("a", "1")]), &Servers::default());
    let (second, _) = pool.reconcile(&config(&[("a", "2")]), &first);
    let (third, _) = pool.reconcile(&config(&[("a", "1")]), &second);
    assert!(Arc::ptr_eq(
        first.get("a").unwrap().lease(),
        third.get("a").unwrap().lease()
    ));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_came_back_is_not_closed_by_the_drain_that_it_had() {
    let pool = pool();
    let (first, _) = pool.reconcile(&config(&[("a", "1")]), &Servers::default());
    let (second, _) = pool.reconcile(&config(&[("a", "2")]), &first);
    pool.retire(&first, &second, Duration::from_secs(300));
    let (third, _) = pool.reconcile(&config(&[("a", "1")]), &second);

    tokio::time::sleep(Duration::from_secs(301)).await;
    let stop = &third.get("a").unwrap().lease().stop;
    assert!(!stop.is_cancelled());

    // The next drain counts again.
    pool.retire(&third, &second, Duration::from_secs(300));
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert!(stop.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_at_its_time_whoever_holds_the_server() {
    let pool = pool();
    let (before, _) = pool.reconcile(&config(&[("a", "1"), ("b", "1")]), &Servers::default());
    let (after, _) = pool.reconcile(&config(&[("b", "1")]), &before);

    pool.retire(&before, &after, Duration::from_secs(300));
    tokio::time::sleep(Duration::from_secs(301)).await;

    let stopped = |name| before.get(name).unwrap().lease().stop.is_cancelled();
    assert_eq!((stopped("a"), stopped("b")), (true, false));
}

#[tokio::test]
async fn what_is_not_among_others_is_what_a_search_for_each_finds() {
    let pool = pool();
    let texts = [
        "", "a1", "a2", "b1", "a1 b1", "a1 c1", "b1 c1", "a2 b1 c1", "a1 b2 c2",
    ];
    let sets = texts.map(|text| {
        let servers: Vec<(&str, &str)> = text
            .split_whitespace()
            .map(|word| word.split_at(1))
            .collect();
        pool.reconcile(&config(&servers), &Servers::default()).0
    });

    for (one, other) in sets
        .iter()
        .flat_map(|one| sets.iter().map(move |other| (one, other)))
    {
        let walked: Vec<&str> = one.not_in(other).map(Server::name).collect();
        let found = |server: &&Server| !other.has(server.name(), server.lease());
        let found: Vec<&str> = one.iter().filter(found).map(Server::name).collect();
        assert_eq!(walked, found);
    }
}

fn with_scope(scope: Scope, mode: Mode) -> Config {
    let mut config = config(&[("a", "1"), ("b", "1")]);
    config.tool_access.mode = mode;
    let a = ServerName::new("a").unwrap();
    config.servers.get_mut(&a).unwrap().scope = scope;
    config
}

#[tokio::test]
async fn a_server_of_a_tenant_serves_that_tenant_alone_and_outlives_reloads() {
    let (pool, none) = (pool(), Servers::default());
    let config = with_scope(Scope::Tenant, Mode::FrontDoor);
    let (shared, _) = pool.reconcile(&config, &none);
    let (of_s, of_t) = (
        pool.for_tenant(&config, &shared, "s", &none),
        pool.for_tenant(&config, &shared, "t", &none),
    );
    let (after, _) = pool.reconcile(&config, &shared);
    let after_s = pool.for_tenant(&config, &after, "s", &of_s);

    let same =
        |one: &Servers, other: &Servers, name| one.has(name, other.get(name).unwrap().lease());
    assert!(!same(&of_s, &of_t, "a") && !same(&of_s, &shared, "a"));
    assert!(same(&of_s, &of_t, "b") && same(&of_s, &shared, "b"));
    assert!(same(&of_s, &after_s, "a"));
    assert!(shared.get("a").unwrap().definition().lazy);
    assert!(!of_s.get("a").unwrap().definition().lazy);
    let current = [after, after_s, of_t];
    assert_eq!(pool.draining(&current), []);
}

#[tokio::test]
async fn a_shared_server_is_one_for_all_tenants() {
    let (pool, none) = (pool(), Servers::default());
    let config = with_scope(Scope::Shared, Mode::FrontDoor);
    let (shared, _) = pool.reconcile(&config, &none);
    let of_s = pool.for_tenant(&config, &shared, "s", &none);

    assert!(shared.has("a", of_s.get("a").unwrap().lease()));
    assert!(!shared.get("a").unwrap().definition().lazy);
}
