# Recipes. CI runs only what a person also runs. `./x` gets `just` for you.

set shell := ["bash", "-euo", "pipefail", "-c"]

# Our own crates with assertions and checked arithmetic compiled in: how everything runs that looks for mistakes
checked := "--release --config scripts/checked.toml"

# Node and Go are here where the machine has none: scripts/languages.sh
export PATH := justfile_directory() / ".cache/node/bin" + ":" + justfile_directory() / ".cache/go/go/bin" + ":" + env("PATH")

# Keeps how long a command took
timed := "scripts/timed.sh"

# What the demonstration runs, without Kafka and S3, which are a third of what is compiled otherwise
lean := "cargo build --release -p styx-cli -p styx-demo --no-default-features"

# List the recipes
default:
    @just --list --unsorted

# The whole way on one machine: set up, build, deploy, call, kill -9, recover, prove; --workers N for a cluster
demo *args: setup
    {{ if path_exists("target/release/.complete") == "true" { "just build" } else { lean } }}
    target/release/styx-demo {{args}}

# Scripts below `build` are not asked for by their recipes, which build again: Cargo would wait until it has compiled the mutants.

# Everything that must pass: set up, build, all tests; and how long each took
test:
    @{{timed}} begin
    {{timed}} just setup languages servers
    {{timed}} cargo test {{checked}} --workspace --quiet --no-run
    # The product takes the place of the programs that the system's tests run: it comes last.
    @{{timed}} beside just lint build
    RUST_TEST_THREADS=$(($(getconf _NPROCESSORS_ONLN) * 2)) {{timed}} cargo test {{checked}} --workspace --quiet
    # Beside what may still be compiled; the tests have brought the simulator along.
    {{timed}} target/release/styx-dst --mutants
    @{{timed}} join
    @{{timed}} beside just mutants --sample 50 --seed 50 --transactions 50000 --floor 90
    {{timed}} just test-python
    {{timed}} just test-go
    {{timed}} just test-typescript
    {{timed}} just test-guests
    {{timed}} just test-c
    {{timed}} scripts/clients-tests.sh
    {{timed}} just test-alerts
    {{timed}} target/release/styx-bench languages
    {{timed}} scripts/console.sh test
    @{{timed}} join
    {{timed}} target/release/styx-bench budget
    {{timed}} target/release/styx-bench run --results target/test-results --system inprocess --closed --seconds 1 ycsb-t
    {{timed}} target/release/styx-bench run --results target/test-results --closed --seconds 1 ycsb-t
    {{timed}} target/release/styx-bench run --results target/test-results --system two-phase --closed --seconds 1 ycsb-t
    {{timed}} target/release/styx-bench run --results target/test-results --driver kafka --closed --seconds 1 ycsb-t
    {{timed}} target/release/styx-bench run --results target/test-results --workers 2 --closed --seconds 1 ycsb-t --groups 100 --composite --crossing 50
    {{timed}} target/release/styx-demo --calls 2000 --kills 2 --determinism-check all
    {{timed}} target/release/styx-demo --workers 2 --calls 8000 --kills 2
    {{timed}} target/release/styx-bench run --results target/test-results --workers 3 --rate 300 --seconds 4 --migrate 1 --from 2 --to 3 ycsb-records --records 3000
    {{timed}} target/release/styx-bench chaos --rounds 5
    {{timed}} target/release/styx-bench chaos --rounds 6 --workers 3 --migrations --seed 2
    {{timed}} target/release/styx-bench soak --minutes 0.5 --tolerance 3
    @{{timed}} end

# Kill, pause and restart real processes under load, by a seed; every promise checked; `--log kafka --store s3` for all of it
chaos *args: build
    target/release/styx-bench chaos {{args}}

# Run real processes under a steady load for minutes or hours: nothing that they hold may grow; `--workers 2` for a cluster
soak *args: build
    target/release/styx-bench soak {{args}}

# Measure: everything, with a report; or a workload such as `ycsb-t`, `tpcc --guest python`, `transfer --rate 1000`
bench *args: build
    target/release/styx-bench {{ if args == "" { "all" } else { "run " + args } }}

# Side by side with PostgreSQL and other baselines, A B A B: ratios
compare *args: build
    target/release/styx-bench compare {{ if args == "" { "ycsb-t" } else { args } }}

# Count the instructions of the hot path and compare them with what they may be; `--update` accepts them
budget *args: build
    target/release/styx-bench budget {{args}}

# One self-contained page with charts of what was measured
report *args: build
    target/release/styx-bench report {{args}}

# Build the server and the bench program, complete: target/release/styx, and styx-demo and styx-bench beside it
build: setup
    cargo build --release -p styx-cli -p styx-demo -p styx-bench
    @touch target/release/.complete

# Install what is missing, from package registries
setup:
    @scripts/setup.sh

# Get Node and Go, for what is tested in their languages, where they are missing
languages:
    @scripts/languages.sh

# Get the servers that tests and comparisons run against: Kafka, S3, PostgreSQL; what cannot be had is skipped, aloud
servers:
    @scripts/servers/kafka.sh install || echo "  tests against a Kafka broker will be skipped" >&2
    @scripts/servers/s3.sh install || echo "  tests against an S3 server will be skipped" >&2
    @scripts/servers/postgres.sh install || echo "  PostgreSQL will be missing in comparisons" >&2

# The Python SDK's own tests; its part in C is what its sources make
test-python:
    scripts/python-native.sh check
    scripts/python-tests.sh

# The Go SDK's own tests
test-go: languages
    scripts/go-tests.sh

# The C SDK's own tests, and those of the C guests, on this machine's processor; the C library that is committed is what zig makes
test-c:
    scripts/c-library.sh check
    scripts/c-tests.sh

# The TypeScript SDK's own tests, and those of guests in TypeScript; the engine that is committed is what its sources make
test-typescript: languages
    scripts/quickjs.sh check
    scripts/typescript-tests.sh

# The clients in Python and TypeScript, and what `styx generate client` writes, against a real server
test-clients *args: build languages
    scripts/clients-tests.sh {{args}}

# Make the packages that registries would have, in target/packages: a wheel with the command and the SDK, clients and SDKs for npm and cargo
packages: build languages
    @scripts/packages/build.sh

# Install each package where nothing else is, and use it as a newcomer does; takes minutes
test-packages: packages
    @scripts/packages/test.sh

# The Rust guests' own tests, on this machine's processor: as their users' are, and compiled in a fifth of the time of `--release`
test-guests:
    cargo test --quiet --manifest-path guests/Cargo.toml

# The alert rules of docs/operate/monitoring, evaluated on series, and the dashboard's questions read, by Prometheus' promtool
test-alerts:
    @scripts/alerts-tests.sh

# The console in a real browser, against real servers; what is committed of it is what its sources make. Arguments are Playwright's
ui-test *args: build
    @scripts/console.sh test {{args}}

# Build the console after a change of it: web-ui/dist, which the server carries, and its types of the API
ui:
    UPDATE_DESCRIPTION=1 cargo test {{checked}} --quiet -p styx-engine -p styx-server -p styx-cli -p styx-bench --lib the_console_knows
    @scripts/console.sh build

# Make the engine of guests in TypeScript, after a change in sdk/typescript/engine or of the SDK for C
quickjs:
    @scripts/quickjs.sh

# Make the part of Python guests that is in C, after a change in sdk/python/native
python-native:
    @scripts/python-native.sh

# Take the pictures of the console that documents show
ui-pictures: build
    @scripts/console.sh pictures

# Everything that is checked without running it: lints, format, links of the documents, licences of the dependencies
lint: deny links
    # Who compiles says them; nothing is compiled again for them.
    cargo test --no-run --quiet {{checked}} --workspace 2>&1 | awk '{ print } /^warning/ { found = 1 } END { exit found }'
    {{replace(lean, "cargo build", "cargo check --quiet")}}
    cargo fmt --check

# Licences, bans, sources and known holes of all dependencies (deny.toml)
deny:
    @scripts/deny.sh

# Every relative link of every document leads somewhere
links:
    @scripts/links.py

# Write the transcripts of tests anew, after a change of what machines and drivers do: read the difference
transcripts:
    UPDATE_TRANSCRIPTS=1 cargo test {{checked}} --quiet -p styx-protocol -p styx-driver -p styx-sim -p styx-dst

# Simulate whole processes under faults, from a seed: the drivers, the log and the snapshots that the server runs; every promise checked
sim *args:
    cargo build --profile simulator --config scripts/checked.toml --config 'build.rustc-workspace-wrapper=""' --quiet -p styx-dst --bin styx-dst
    target/simulator/styx-dst {{args}}

# Look for bytes that a reader cannot bear: `--seconds N` for each target, or the targets named
fuzz *args:
    scripts/fuzz.sh {{args}}

# Explore the model of commit, fallback and membership exhaustively; with a planted mistake's name, its counterexample
model *args:
    cargo build {{checked}} --quiet --workspace --bin styx-model
    target/release/styx-model {{args}}

# Plant each bug, in the protocol and around it; the simulator must catch every one; `--seed 1` searches for all of them. `--sample 50`: small bugs by chance, in any deciding line
[positional-arguments]
mutants *args:
    {{ if args =~ '--(sample|only|survivors-of|list|crate)' { "cargo build " + checked + " --quiet --workspace --bin styx-mutants && nice target/release/styx-mutants" } else { "cargo build " + checked + " --quiet --workspace --bin styx-dst && target/release/styx-dst --mutants" } }} "$@"
