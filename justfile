# What can be done here. `just` lists it.

_list:
    @just --list --unsorted

# Runs the gateway, with the built-in demo server where there is no genlock.yaml.
serve *ARGS:
    cargo run --release -- serve {{ARGS}}

# Format and lints; about a minute once the dependencies are built.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# All tests, or those whose name contains the filter.
test FILTER="":
    cargo test --workspace {{FILTER}}

# Requests against reloads until a million of them have met: no request may see two generations.
interleavings:
    cargo test --release -p genlock-gateway --test it -- --ignored --nocapture a_million

# The documentation of all crates, warnings denied.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# What lands is what passes this.
ci:
    .ci/run

# Measures `call` (direct, through a bare proxy, through genlock), `reload` or `lifecycle`. `just bench call --help` lists what can be set.
bench WHAT="call" *ARGS="":
    cargo build --release -p genlock -p genlock-worker -p genlock-bench
    target/release/genlock-bench {{WHAT}} --genlock target/release/genlock {{ARGS}}

# Checks an API key 100,000 times and prints what half of the checks took.
keys:
    cargo test --release -p genlock-access --test it -- --ignored --nocapture two_microseconds

# Kills a server in mid-call 1,000 times and prints what the next calls took; about 10 minutes.
killed:
    cargo test -p genlock-tests --test it life::killed:: -- --ignored --nocapture

# Repeats, CYCLES times over, what the tests do a few times: `contain` kills a gateway with servers that want to outlive it.
soak WHAT="contain" CYCLES="200":
    GENLOCK_SOAK_CYCLES={{CYCLES}} cargo test -p genlock-tests --test it {{WHAT}}::soak:: -- --include-ignored --nocapture
