//! When a session has to move.

use genlock_policy::{Selection, needs_transition, resolve};

use crate::{config, snapshot};

fn of(text: &str) -> (genlock_policy::GenerationDigest, Selection) {
    let selection = resolve(
        None,
        "cli",
        &config(text, "first-token"),
        &Default::default(),
    );
    (snapshot(text).digest(), selection)
}

#[test]
fn a_session_moves_for_another_meaning_or_another_selection_and_for_nothing_else() {
    let one = of("mcp_servers: { a: { command: x } }");
    let same = of("# A comment.\nmcp_servers:\n  a: { command: x, enabled: true }");
    let outside = of("mcp_servers: { a: { command: x } }\nexecution: { max_concurrency: 7 }");
    let narrowed = (one.0, of("mcp_servers: {}").1);

    let moves = [&one, &same, &outside, &narrowed]
        .map(|candidate| needs_transition((one.0, &one.1), (candidate.0, &candidate.1)));

    assert_eq!(moves, [false, false, true, true]);
}
