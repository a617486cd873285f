//! What a transaction of one call costs in this engine, warm and fresh. Ends with one JSON line.
//!
//! `cargo bench -p styx-engine -- COMPONENT.wasm@OPERATOR.FUNCTION@ARGS[@SETUP@ARGS] …` measures
//! components (SETUP is a function to call before, on the same entity); without arguments a get-and-put guest in WebAssembly text is measured: what the host itself
//! costs, on a worker of its own and on one of several. Run as a test it does the same with few rounds.

#![allow(clippy::disallowed_methods)] // a benchmark measures time

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use std::sync::Arc;
use styx_engine::{COMPILE_ARGUMENT, Cluster, Compiler, Determinism, Engine, EngineOptions, compile_child_main};
use styx_protocol::attempt::RemoteResponse;
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Component, Deployment, Isolation, Limits};
use styx_protocol::entity::Layout;
use styx_protocol::executor::Executor as _;
use styx_protocol::ids::{RequestId, Tid, Timestamp};
use styx_protocol::state::State;
use styx_protocol::task::{AttemptSource, GraphId, Progress, Started, Task, TaskExecutor as _, TaskKind};
use styx_protocol::transaction::{Request, Transaction};
use support::script::{Script, scripted};
use support::workers::{Worker, Workers};
use support::{Guest, World, on_big_stack};

/// What to measure.
struct Subject {
    name: String,
    bytes: Vec<u8>,
    operator: String,
    function: String,
    args: Vec<u8>,
    setup: Option<(String, Vec<u8>)>,
}

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == COMPILE_ARGUMENT) {
        return compile_child_main();
    }
    let full = arguments.iter().any(|argument| argument == "--bench");
    let mut subjects: Vec<Subject> =
        arguments.iter().filter(|argument| !argument.starts_with("--")).map(|argument| parse(argument)).collect();
    if subjects.is_empty() {
        subjects.push(Subject {
            name: "wat".into(),
            bytes: get_and_put().bytes(),
            operator: "item".into(),
            function: "f".into(),
            args: b"12345678".to_vec(),
            setup: None,
        });
    }
    let batch = if full { Duration::from_millis(100) } else { Duration::from_millis(2) };
    let lines: Vec<serde_json::Value> =
        subjects.iter().map(|subject| on_big_stack(|| measure(subject, batch))).collect();
    let fibers = on_big_stack(|| among_workers(batch));
    println!("{}", serde_json::json!({ "calls": lines, "fibers": fibers }));
    std::process::ExitCode::SUCCESS
}

fn parse(argument: &str) -> Subject {
    let parts: Vec<&str> = argument.split('@').collect();
    let [path, called, args, setup @ ..] = &parts[..] else {
        panic!("COMPONENT@OPERATOR.FUNCTION@ARGS[@SETUP@ARGS], not {argument}")
    };
    let (operator, function) = called.split_once('.').expect("OPERATOR.FUNCTION");
    Subject {
        name: path.rsplit('/').next().unwrap_or(path).into(),
        bytes: std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")),
        operator: operator.into(),
        function: function.into(),
        args: args.as_bytes().into(),
        setup: if let [function, args] = setup { Some((function.to_string(), args.as_bytes().into())) } else { None },
    }
}

/// Reads the own value and writes the arguments over it.
fn get_and_put() -> Guest {
    Guest::body(
        "item",
        &["f"],
        "(call $get-own (i32.const 128)) (call $put-own (local.get $a) (local.get $al)) (call $ok (local.get $a) (local.get $al))",
    )
}

fn measure(subject: &Subject, batch: Duration) -> serde_json::Value {
    let cache = tempfile::tempdir().expect("a directory");
    let compiler = Compiler::Child(std::env::current_exe().expect("this program"));
    let engine = Engine::new(EngineOptions {
        cache_dir: cache.path().into(),
        determinism: Determinism::Off,
        executors: 1,
        compiler,
        cluster: None,
        long: None,
        guest_memory: usize::MAX,
    })
    .expect("an engine");
    let start = Instant::now();
    let checked = engine.check_upload(&subject.bytes).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
    let check_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    engine.load(checked.digest, std::path::Path::new("")).expect("the code is cached");
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let mut state = State::new(Layout::new(1, 16));
    let mut executor = engine.executor();
    let mut time = |isolation: Isolation| {
        let mut operators = checked.operators.clone();
        operators.iter_mut().for_each(|operator| operator.isolation = isolation);
        let component =
            Component { name: "c".into(), digest: checked.digest, size: checked.size, sdk: checked.sdk.clone() };
        let deployment = Deployment {
            id: "dp".into(),
            app: "bench".into(),
            created: Timestamp(0),
            components: vec![component],
            operators,
            limits: Limits::default(),
            interface: Default::default(),
        };
        let mut catalog = Catalog::default();
        catalog.apply(&Control::Deploy(deployment));
        let operator = catalog.find("bench", &subject.operator).unwrap_or_else(|abort| panic!("{abort}")).id;
        let catalog = Arc::new(catalog);
        let transaction = |function: &str, args: &[u8]| {
            let request = Request {
                id: RequestId(1),
                operator,
                function: function.into(),
                key: "user1".into(),
                args: args.into(),
                retained: false,
                origin: None,
            };
            Transaction {
                tid: Tid(1),
                time: Timestamp(1_700_000_000_000_000),
                request: Arc::new(request),
                query: false,
            }
        };
        let (function, args) = subject
            .setup
            .as_ref()
            .map_or((subject.function.as_str(), &subject.args), |(function, args)| (function, args));
        let first = executor.execute(&transaction(function, args), &Arc::new(State::new(state.layout())), &catalog);
        if let Err(abort) = &first.outcome {
            panic!("{}: {abort}", subject.name);
        }
        first.writes().for_each(|write| state.apply(write));
        let transaction = transaction(&subject.function, &subject.args);
        let committed = Arc::new(std::mem::replace(&mut state, State::new(Layout::new(1, 16))));
        let mut fuel = 0;
        let outcome = executor.execute(&transaction, &committed, &catalog).outcome;
        assert!(outcome.is_ok(), "{}: {outcome:?}", subject.name);
        let nanoseconds =
            median_nanoseconds(batch, || fuel = executor.execute(&transaction, &committed, &catalog).fuel);
        state = Arc::into_inner(committed).expect("executions are over");
        (nanoseconds, fuel)
    };
    let (warm_ns, fuel) = time(Isolation::Warm);
    let (fresh_ns, _) = time(Isolation::Fresh);
    serde_json::json!({
        "guest": subject.name, "function": format!("{}.{}", subject.operator, subject.function), "sdk": checked.sdk, "bytes": checked.size,
        "warm_us": warm_ns / 1e3, "fresh_us": fresh_ns / 1e3, "fuel": fuel, "check_and_compile_ms": check_ms, "load_ms": load_ms,
        "resident_mb": resident_kb() >> 10,
    })
}

/// What fibers cost: a get and a put, a call, and a wait for another worker, in microseconds.
fn among_workers(batch: Duration) -> serde_json::Value {
    let guests = [scripted("A"), scripted("B")];
    let mut world = World::new(&guests);
    let mut workers = Workers::new(2, &guests);
    let (here, beside, there) = (workers.key(0, 0), workers.key(0, 1), workers.key(1, 0));
    let nothing = Script::new();
    let mut measured = serde_json::Map::new();
    for (name, script) in [
        ("empty", nothing.clone()),
        ("get_and_put_own", nothing.clone().get_own().put_own("12345678")),
        ("get_and_put", nothing.clone().get(&beside).put(&beside, "12345678")),
        ("call", nothing.clone().call("B", &beside, nothing.clone())),
    ] {
        let transaction = world.transaction("A", &here, "f", &script.0);
        let single = median_nanoseconds(batch, || {
            assert!(world.executor.execute(&transaction, &world.state, &world.catalog).outcome.is_ok());
        });
        let Workers { workers: all, catalog, .. } = &mut workers;
        let Worker { view, executor, state } = &mut all[0];
        let fibers = median_nanoseconds(batch, || match executor.start(&transaction, state, catalog, view) {
            Started::Local(execution) => assert!(execution.outcome.is_ok()),
            Started::Distributed(..) => panic!("all of it is here"),
        });
        measured.insert(format!("{name}_single_us"), (single / 1e3).into());
        measured.insert(format!("{name}_us"), (fibers / 1e3).into());
    }
    // One guest waits, or the innermost of three.
    let get = |key: &str| nothing.clone().get(key);
    let nested = |key: &str| nothing.clone().call("B", &beside, nothing.clone().call("A", &beside, get(key)));
    for (name, local, remote) in
        [("wait_us", get(&beside), get(&there)), ("wait_3_deep_us", nested(&beside), nested(&there))]
    {
        let mut time = |script: &Script| {
            let transaction = workers.transaction("A", &here, script);
            let Workers { workers: all, catalog, .. } = &mut workers;
            let Worker { view, executor, state } = &mut all[0];
            median_nanoseconds(batch, || match executor.start(&transaction, state, catalog, view) {
                Started::Local(execution) => assert!(execution.outcome.is_ok()),
                Started::Distributed(attempt, Progress::Suspended(parked, _)) => {
                    let task = TaskKind::Resume { parked, answers: vec![RemoteResponse::Value(None)] };
                    let advanced = executor.advance(Task {
                        graph: GraphId(1),
                        attempt: AttemptSource::Existing(attempt),
                        kind: task,
                    });
                    assert!(matches!(advanced.progress, Progress::Done(Ok(_))));
                }
                Started::Distributed(_, Progress::Done(_)) => panic!("it has to wait"),
            })
        };
        measured.insert(name.into(), ((time(&remote) - time(&local)) / 1e3).into());
    }
    // As many as wait at once by default.
    let room = Cluster::default();
    let start = Instant::now();
    let mut workers = Workers::with(2, &guests, Limits::default(), Determinism::Off, room);
    measured.insert("set_up_ms".into(), (start.elapsed().as_secs_f64() * 1e3).into());
    let transaction = workers.transaction("A", &here, &get(&there));
    let before = resident_kb();
    for _ in 0..room.suspended {
        let (_, begun) = workers.start(&transaction);
        assert!(matches!(begun, Err(Progress::Suspended(..))));
    }
    measured.insert("waiting_guest_kb".into(), ((resident_kb() - before) / room.suspended as u64).into());
    let start = Instant::now();
    workers.workers[0].executor.forget();
    measured.insert("forget_all_ms".into(), (start.elapsed().as_secs_f64() * 1e3).into());
    measured.into()
}

/// Median over batches of one run's processor time on this thread: other load does not count.
fn median_nanoseconds(batch: Duration, mut run: impl FnMut()) -> f64 {
    let (start, mut rounds) = (processor_time(), 0u32);
    while processor_time() - start < batch {
        run();
        rounds += 1;
    }
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = processor_time();
            (0..rounds).for_each(|_| run());
            (processor_time() - start).as_nanos() as f64 / f64::from(rounds)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the struct that it is given, and nothing else.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Anonymous memory of this process.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0)
}
