//! No process outlives its owner, whatever it does; and no server reaches what is the gateway's.

mod children;
mod closing;
mod hostile;
mod inside;
mod orphans;
mod refused;
mod soak;
mod streams;
mod unprivileged;

use genlock_testkit::harness::GenlockProcess;

use crate::stage;

/// Makes tests that need namespaces fail where there are none, instead of being passed over.
const REQUIRED: &str = "GENLOCK_REQUIRE_NAMESPACES";

/// The words for a server's `containment`, with the rung that each is.
pub(super) const RUNGS: [(&str, u8); 2] = [("group", 1), ("namespace", 2)];

/// Whether this machine has namespaces. Where not, it is said past the test's captured output that `test` was not run.
pub(super) async fn has_namespaces(gateway: &GenlockProcess, test: &str) -> bool {
    let containment = stage::status(gateway).await["containment"].clone();
    if containment["rung"] == 2 {
        return true;
    }
    let reason = containment["reason"].as_str().unwrap();
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says so")]
    let required = std::env::var_os(REQUIRED).is_some();
    assert!(!required, "{test}: no namespaces here: {reason}");
    say_not_run(test, &format!("no namespaces here: {reason}"));
    false
}

/// Says past a test's captured output that it was not run.
pub(super) fn say_not_run(test: &str, reason: &str) {
    let said = format!("NOT RUN {test}: {reason}\n");
    rustix::io::write(rustix::stdio::stderr(), said.as_bytes()).unwrap();
}
