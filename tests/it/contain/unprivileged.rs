//! The same for a user without privileges, where these tests are run by one that has them.

use std::process::Command;

use super::say_not_run;
use crate::stage;

/// A user that owns nothing.
const NOBODY: &str = "65534";
/// What is run again as that user.
const AGAIN: [&str; 3] = [
    "contain::inside::",
    "contain::orphans::nothing_outlives_a_gateway",
    "contain::closing::",
];

#[test]
fn containment_holds_for_a_user_without_privileges() {
    if !rustix::process::geteuid().is_root() {
        say_not_run(
            "as another user",
            "these tests have no privileges to give up",
        );
        return;
    }
    stage::scratch();
    let own = std::env::current_exe().unwrap();
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        command.args(ids).arg("--clear-groups").arg(&own);
        command.current_dir("/");
        command
    };
    if !as_nobody().arg("--list").output().unwrap().status.success() {
        say_not_run(
            "as another user",
            "it cannot read what these tests are built into",
        );
        return;
    }

    let output = as_nobody()
        .args(AGAIN)
        .env("GENLOCK_TESTS_BUILT", "1")
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(!said.contains(" 0 passed"), "{said}");
}
