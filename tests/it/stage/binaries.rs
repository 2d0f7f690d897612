//! The programs under test. Cargo builds no binaries of other packages for an integration test, so the first test that
//! needs them has them built, with the profile and into the target directory of the tests themselves.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use genlock_testkit::harness::binary;

/// Says that the programs are built already, for runners that start one process per test.
const BUILT: &str = "GENLOCK_TESTS_BUILT";

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says so")]
fn is_built() -> bool {
    env::var_os(BUILT).is_some()
}

/// Builds `genlock`, its worker and the fake server, once per process.
pub(crate) fn build() {
    static BUILD: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILD.get_or_init(|| {
        if is_built() {
            return Ok(());
        }
        run_cargo()
    });
    if let Err(errors) = built {
        panic!("build the programs under test:\n{errors}");
    }
}

/// The program `genlock`.
pub(crate) fn genlock() -> PathBuf {
    build();
    binary("genlock")
}

/// The program `genlock-worker`.
pub(crate) fn worker() -> PathBuf {
    build();
    binary("genlock-worker")
}

fn run_cargo() -> Result<(), String> {
    let test = env::current_exe().unwrap();
    // target[/TRIPLE]/PROFILE/deps/it-HASH
    let place: Vec<&Path> = test.ancestors().skip(2).take(3).collect();
    let profile = match place[0].file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is in no target directory", test.display()),
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--bins", "--profile", profile])
        .args(["--package", "genlock", "--package", "genlock-worker"])
        .args(["--package", "genlock-testkit"])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ]);
    // A target directory holds a tag file; what stands between it and the profile is the triple of a cross build.
    if is_target_dir(place[1]) {
        cargo.arg("--target-dir").arg(place[1]);
    } else {
        cargo.arg("--target").arg(place[1].file_name().unwrap());
        cargo.arg("--target-dir").arg(place[2]);
    }
    // What cargo told this process about its package would make build scripts that watch it run again.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(of_this_package) {
            cargo.env_remove(name);
        }
    }
    let built = cargo.output().unwrap();
    if built.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&built.stderr).into_owned())
}

fn is_target_dir(dir: &Path) -> bool {
    fs::exists(dir.join("CACHEDIR.TAG")).is_ok_and(|found| found)
}

fn of_this_package(name: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_CRATE_",
        "CARGO_BIN_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}
