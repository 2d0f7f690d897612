//! `just soak contain`: the same as the tests beside this, hundreds of times, with a table.

use std::{fmt::Write as _, time::Duration};

use super::{
    RUNGS, has_namespaces,
    hostile::{self, ALL, Hostile},
    orphans::{kill_cycle, planted_fault, start},
};

/// How many cycles to run.
const CYCLES: &str = "GENLOCK_SOAK_CYCLES";

#[derive(Default)]
struct Tally {
    left: Vec<Hostile>,
    processes: usize,
    slowest: Duration,
}

fn cycles() -> usize {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the soak says so")]
    let asked = std::env::var(CYCLES);
    asked.map_or(200, |asked| asked.parse().unwrap())
}

fn row(table: &mut String, containment: &str, rung: &str, cycles: usize, tally: &Tally) {
    for hostile in ALL {
        let orphaned = tally.left.iter().filter(|left| **left == hostile).count();
        let name = hostile.name();
        writeln!(
            table,
            "| {containment} | {rung} | {name} | {cycles} | {orphaned} |"
        )
        .unwrap();
    }
}

#[tokio::test]
#[ignore = "takes long: `just soak contain`"]
async fn soak() {
    let cycles = cycles();
    let (gateway, gang) = start("auto");
    let namespaces = has_namespaces(&gateway, "the soak on rung 2").await;
    drop((gateway, gang));
    let mut table = String::from(
        "\n| containment | rung | hostile server | cycles | cycles with orphans after 1 s |\n|---|---|---|---|---|\n",
    );
    let mut slowest = String::new();
    let mut found = 0;
    for (containment, rung) in RUNGS {
        if rung == 2 && !namespaces {
            writeln!(
                table,
                "| {containment} | 2 | NOT RUN: no namespaces here | 0 | - |"
            )
            .unwrap();
            continue;
        }
        let mut tally = Tally::default();
        for cycle in 0..cycles {
            let outcome = tokio::task::spawn_blocking(move || kill_cycle(containment, cycle)).await;
            match outcome.unwrap() {
                Ok(took) => tally.slowest = tally.slowest.max(took),
                Err((servers, processes)) => {
                    tally.left.extend(servers);
                    tally.processes += processes;
                }
            }
        }
        row(&mut table, containment, &rung.to_string(), cycles, &tally);
        let took = tally.slowest.as_millis();
        writeln!(
            slowest,
            "{containment}: the slowest clean end took {took} ms; {} processes were left in all",
            tally.processes
        )
        .unwrap();
        found += tally.left.len() + tally.processes;
    }
    let (servers, processes) = tokio::task::spawn_blocking(planted_fault)
        .await
        .unwrap()
        .unwrap_err();
    let planted = Tally {
        left: servers,
        processes,
        slowest: Duration::ZERO,
    };
    row(&mut table, "none (planted fault)", "-", 1, &planted);
    println!("{table}\n{slowest}planted fault: {processes} processes found");
    assert_eq!(found, 0);
    assert_eq!(planted.left, hostile::ALL);
}
