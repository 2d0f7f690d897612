//! Starts a server as a child of the gateway itself, where the host has no keeper.

use std::process::Stdio;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::{
    child::{Child, Hold, Pipes},
    program::SpawnError,
    spawner::Spawner,
    start::Plan,
    sys,
};

/// Starts the program in a group of its own, to be killed by the kernel when the gateway dies.
pub(super) async fn start(
    plan: &Plan<'_>,
    spawner: &Spawner,
) -> Result<(Child, Pipes), SpawnError> {
    let refused = |source| SpawnError::System {
        command: plan.shown.clone(),
        source,
    };
    let mut command = Command::new(&plan.program);
    command
        .args(plan.args())
        .env_clear()
        .envs(&plan.environment)
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = plan.cwd() {
        command.current_dir(cwd);
    }
    sys::tie_to_parent(command.as_std_mut());
    let started = spawner.spawn(command).await;
    let mut process = started.map_err(|source| SpawnError::not_executed(&plan.shown, source))?;
    let pipes: (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) = (
        process.stdin.take(),
        process.stdout.take(),
        process.stderr.take(),
    );
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(refused(std::io::Error::other("no pipes")));
    };
    let pipes = Pipes {
        stdin,
        stdout,
        stderr,
    };
    let leader = spawner.leaders().enter(process.id());
    let child = Child::new(process, Hold::Group, leader, spawner.clone());
    Ok((child, pipes))
}
