//! Graphs that several workers share: what the engine's executors make of their tasks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::support::script::{Script, scripted};
use super::support::workers::{Graph, ROOM, Whole, Workers};
use super::support::{Guest, World, code, invoke, message, on_big_stack, options};
use styx_engine::{Cluster, Determinism, Engine, EngineOptions, Executor, Tallies};
use styx_protocol::abort::Code;
use styx_protocol::attempt::{Finding, Mode, Operation, Overlay, RemoteResponse};
use styx_protocol::deployment::{Isolation, Limits};
use styx_protocol::executor::Executor as _;
use styx_protocol::task::{Progress, TaskExecutor as _};

const STRICT: Mode = Mode::STRICT;
const FRESH: Mode = Mode::Strict { fresh: true, reserved: false };

fn script() -> Script {
    Script::new()
}

fn guests() -> [Guest; 2] {
    [scripted("A"), scripted("B")]
}

/// Runs a script on a worker of its own, and on as many as there are, and compares.
fn check(workers: &mut Workers, key: &str, script: &Script) -> Whole {
    let mut world = World::new(&guests());
    let single = Whole::of(&world.run("A", key, "f", &script.0));
    let run = workers.run("A", key, script);
    assert_eq!((&run.outcome, &run.accesses, &run.ranges), (&single.outcome, &single.accesses, &single.ranges));
    assert!(!run.local, "others were needed");
    assert_eq!(run.report.usage.fuel, single.report.usage.fuel, "fuel is used alike on fibers and off them");
    assert_eq!(workers.engine.suspended_guests(), 0);
    run
}

#[test]
fn calls_reach_other_workers_and_come_back() {
    let mut workers = Workers::new(3, &guests());
    let [k, l, m] = [0, 1, 2].map(|worker| workers.key(worker, 0));
    let call = script().call("B", &l, script().append_own("v").get_own());
    assert_eq!(check(&mut workers, &k, &call).text(), "v");
    // To another worker, on to a third, back to the first for another entity and for the same one.
    let deep = script().put_own("x").call(
        "B",
        &l,
        script()
            .append_own("1")
            .call("A", &m, script().append_own("2").call("B", &k, script().append_own("3").get_own()))
            .call("A", &k, script().append_own("4").get_own())
            .get_own(),
    );
    let whole = check(&mut workers, &k, &deep.get_own());
    assert_eq!(whole.text(), "3x41x4", "who comes back sees what was written before he left");
    assert_eq!(whole.report.workers.len(), 3);
}

#[test]
fn state_of_other_workers_is_read_and_written() {
    let mut workers = Workers::new(3, &guests());
    let keys: Vec<String> = (0..9).map(|nth| workers.key(nth % 3, nth / 3)).collect();
    let mut fill = script();
    for key in &keys {
        fill = fill.put(key, &format!("v{key}"));
    }
    assert!(check(&mut workers, &keys[0], &fill).report.has(Finding::Reached));
    let all = script().put(&keys[1], "new").get(&keys[1]).delete(&keys[2]).get(&keys[2]).get(&keys[4]);
    let all = all.scan("k", 0, false).scan("k", 2, false).scan("k", 3, true).get_own();
    assert_eq!(check(&mut workers, &keys[0], &fill.clone().put_own("me")).accesses.len(), 9);
    check(&mut workers, &keys[0], &all);
    // The same on committed state.
    let mut world = World::new(&guests());
    world.commit("A", &keys[0], "f", &fill.0);
    workers.commit("A", &keys[0], &fill);
    let single = Whole::of(&world.run("A", &keys[0], "f", &all.0));
    let whole = workers.run("A", &keys[0], &all);
    assert_eq!((&whole.outcome, &whole.accesses, &whole.ranges), (&single.outcome, &single.accesses, &single.ranges));
    assert!(whole.text().starts_with(&format!("new-v{}", keys[4])), "{}", whole.text());
}

#[test]
fn in_strict_mode_asynchronous_calls_run_in_order_wherever_they_are() {
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let add = |text: &str| script().call("B", &k, script().append_own(text));
    let graph = script()
        .call_async("A", &l, add("1").call_async("A", &k, add("2")).call_async("B", &l, add("3")))
        .call_async("A", &k, add("4").call_async("B", &l, add("5")))
        .call_async("B", &l, add("6").log());
    let whole = workers.run_in(STRICT, "A", &k, &graph);
    let list = |whole: &Whole| whole.accesses[&(1, k.clone())].1.clone();
    assert_eq!(list(&whole), Some(Some(b"123456".to_vec())));
    assert!(!whole.report.has(Finding::Branched) && !whole.report.has(Finding::Overtaken));
    let single = Whole::of(&World::new(&guests()).run("A", &k, "f", &graph.0));
    assert_eq!((&whole.outcome, &whole.accesses), (&single.outcome, &single.accesses));
    // Side by side they do the same here, and are seen to have got out of order.
    let beside = workers.run("A", &k, &graph);
    assert!(beside.report.has(Finding::Branched) && beside.report.has(Finding::Overtaken), "{:?}", beside.report);
}

#[test]
fn an_abort_travels_back_and_callers_add_to_its_message() {
    let mut workers = Workers::new(2, &guests());
    let (k, l, k2) = (workers.key(0, 0), workers.key(1, 0), workers.key(0, 1));
    let failing = script().call("B", &l, script().call("A", &k2, script().put_own("w").fail()));
    let whole = check(&mut workers, &k, &failing.put_own("v"));
    let abort = whole.outcome.unwrap_err();
    assert_eq!((abort.code, abort.message), (Code::Aborted, format!("no {k2}/{l}/{k}")));
    assert!(whole.report.has(Finding::Doomed) && !whole.report.has(Finding::Suspect));
    // Nobody's instance is lost by that.
    assert_eq!(workers.workers[0].executor.idle_instances(), 2);
    assert_eq!(workers.workers[1].executor.idle_instances(), 1);
}

#[test]
fn a_trap_at_the_end_of_a_chain_ends_it() {
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let chain = script().call("B", &l, script().call("A", &k, script().trap()));
    let whole = workers.run_in(FRESH, "A", &k, &chain);
    let abort = whole.outcome.unwrap_err();
    assert_eq!(abort.code, Code::GuestTrap);
    assert!(abort.message.starts_with(&format!("A.f on {k:?} trapped: unreachable")), "{}", abort.message);
    assert!(!whole.report.has(Finding::Suspect), "no instance had served before");
    // In instances that may have served before it is unconfirmed, even if the one that trapped had not.
    let whole = workers.run("A", &k, &chain);
    assert!(whole.report.has(Finding::Suspect));
    assert_eq!(workers.engine.suspended_guests(), 0);
    assert_eq!(workers.run("A", &k, &script().call("B", &l, script().get_own())).text(), "-", "both go on");
}

#[test]
fn a_guest_waits_while_others_run_in_its_executor() {
    let mut workers = Workers::new(2, &guests());
    let (k, k2, l) = (workers.key(0, 0), workers.key(0, 1), workers.key(1, 0));
    let mut begin = |key: &str, script: &Script| {
        let transaction = workers.transaction("A", key, script);
        let (graph, progress) = workers.start(&transaction);
        (graph, progress.err())
    };
    // Two roots wait, the second of them two guests deep; a third comes and goes.
    let (mut first, one) = begin(&k, &script().context().get(&l).get_own());
    let (mut second, two) = begin(&k2, &script().call("B", &k, script().put_own("b").get(&l).get_own()).get_own());
    let (_, none) = begin(&k, &script().put_own("c"));
    assert!(none.is_none());
    assert_eq!(workers.engine.suspended_guests(), 3);
    assert_eq!(workers.workers[0].executor.idle_instances(), 1, "the third one's");
    let (Some(Progress::Suspended(one, ask_one)), Some(Progress::Suspended(two, ask_two))) = (one, two) else {
        panic!("both wait")
    };
    assert!(matches!(&ask_one.operations[..], [(_, asked)] if matches!(asked.operation, Operation::Get(_))));
    assert_ne!(one, two);
    assert_eq!([one, two].map(styx_engine::home), [workers.workers[0].executor.number(); 2]);
    assert_ne!(workers.workers[0].executor.number(), workers.workers[1].executor.number());
    let responses = workers.responses(&mut first, 0, ask_one);
    let progress = workers.resume(&mut first, 0, one, responses);
    let whole = workers.complete(&mut first, progress);
    assert_eq!(&whole.outcome.unwrap()[24..], b"--");
    assert_eq!(workers.engine.suspended_guests(), 2);
    let responses = workers.responses(&mut second, 0, ask_two);
    let progress = workers.resume(&mut second, 0, two, responses);
    assert_eq!(workers.complete(&mut second, progress).text(), "-b-");
    assert_eq!(workers.engine.suspended_guests(), 0);
    assert_eq!(workers.workers[0].executor.idle_instances(), 4, "A, A, B, and the one that came and went");
}

#[test]
fn a_bound_met_elsewhere_ends_the_guest_that_waits() {
    // In good order, without effect.
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    for script in [
        script().get(&l),
        script().put(&l, "v"),
        script().delete(&l),
        script().scan("k", 0, false),
        script().call("B", &l, script()),
    ] {
        let transaction = workers.transaction("A", &k, &script.put_own("w"));
        let (mut graph, progress) = workers.start(&transaction);
        let Err(Progress::Suspended(suspended, requests)) = progress else { panic!("it waits") };
        let abort = styx_protocol::abort::Abort::new(Code::LimitExceeded, "too much");
        let responses = vec![RemoteResponse::Failed(abort.clone()); requests.operations.len()];
        let progress = workers.resume(&mut graph, 0, suspended, responses);
        let whole = workers.complete(&mut graph, progress);
        assert_eq!(whole.outcome, Err(abort));
        assert!(whole.report.has(Finding::Doomed) && !whole.report.has(Finding::Suspect));
    }
    assert_eq!(workers.workers[0].executor.idle_instances(), 1);
}

#[test]
fn instances_are_used_again_after_they_have_waited() {
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    // Traps in an instance that is new.
    let warm = |calls: u8| script().get(&l).call("B", &l, script().get(&k)).trap_from(calls);
    for calls in 1..=5u8 {
        let whole = workers.run("A", &k, &warm(calls));
        assert_eq!(whole.text(), "--");
        let idle = workers.workers.iter().map(|worker| worker.executor.idle_instances());
        assert_eq!(idle.collect::<Vec<_>>(), [1, 1]);
    }
    let whole = workers.run("A", &k, &warm(5));
    assert!(whole.report.has(Finding::Suspect), "it is the same instance, and has had five calls");
}

#[test]
fn guests_that_wait_can_be_forgotten() {
    // Many more than the pool holds, were any of them left behind.
    let mut workers =
        Workers::with(2, &guests(), Limits::default(), Determinism::Off, Cluster { suspended: 30, workers: 1, ..ROOM });
    let (k, k2, l) = (workers.key(0, 0), workers.key(0, 1), workers.key(1, 0));
    let deep = script().call("B", &k2, script().call("A", &k, script().scan("", 0, false)));
    for round in 1..=40 {
        for waiting in 1..=10 {
            let transaction = workers.transaction("A", &k, &deep);
            let (_, progress) = workers.start(&transaction);
            assert!(matches!(progress, Err(Progress::Suspended(..))), "{progress:?}");
            assert_eq!(workers.engine.suspended_guests(), 3 * waiting, "round {round}");
        }
        workers.workers[0].executor.forget();
        assert_eq!(workers.engine.suspended_guests(), 0);
    }
    assert_eq!(workers.run("A", &k, &script().call("B", &l, script().append_own("v").get_own())).text(), "v");
    // And with their executor.
    let transaction = workers.transaction("A", &k, &deep);
    let _ = workers.start(&transaction);
    assert_eq!(workers.engine.suspended_guests(), 3);
    workers.workers.clear();
    assert_eq!(workers.engine.suspended_guests(), 0);
}

#[test]
fn where_there_is_no_room_a_graph_is_refused_unless_it_has_a_reserve() {
    let room = Cluster { suspended: 2, workers: 1, ..ROOM };
    let mut workers = Workers::with(2, &guests(), Limits::default(), Determinism::Off, room);
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let deep = |guests: u8| (1..guests).fold(script().get(&l).put_own("v"), |inner, _| script().call("B", &k, inner));
    let transaction = workers.transaction("A", &k, &deep(2));
    let (mut first, progress) = workers.start(&transaction);
    let Err(progress) = progress else { panic!("it waits") };
    assert_eq!(workers.engine.suspended_guests(), 2);
    // Every way to wait.
    for away in [deep(1), deep(3), script().scan("k", 0, false), script().call("B", &l, script()), script().delete(&l)]
    {
        let whole = workers.run("A", &k, &away);
        assert!(
            whole.report.has(Finding::Refused) && !whole.local && !whole.report.has(Finding::Suspect),
            "{:?}",
            whole.report
        );
        assert_eq!(whole.outcome.unwrap_err().code, Code::Overloaded);
    }
    let reserved = STRICT.in_reserve();
    let whole = workers.run_in(reserved, "A", &k, &deep(10));
    assert!(whole.outcome.is_ok() && !whole.report.has(Finding::Refused));
    // What needs nobody needs no room.
    assert!(workers.run("A", &k, &script().put_own("w")).local);
    assert_eq!(workers.complete(&mut first, progress).text(), "-");
    assert_eq!(workers.run("A", &k, &deep(2)).text(), "-");
}

#[test]
fn an_unconfirmed_result_is_repeated_here_or_reported() {
    let mut workers = Workers::new(2, &guests());
    let (k, k2, l) = (workers.key(0, 0), workers.key(0, 1), workers.key(1, 0));
    let repeated = |workers: &Workers| workers.workers[0].executor.statistics().repeated;
    // All of it here.
    let whole = workers.run("A", &k, &script().trap_from(1).put_own("v"));
    assert!(whole.local && whole.outcome.is_ok() && repeated(&workers) == 0);
    let whole = workers.run("A", &k, &script().trap_from(1).put_own("v"));
    assert!(whole.local && whole.outcome.is_ok() && repeated(&workers) == 1);
    // Unconfirmed before another worker was needed: the second attempt needs one.
    assert!(workers.run("A", &k, &script().call("B", &k2, script())).local);
    let whole = workers.run("A", &k, &script().call("B", &k2, script().trap_from(1)).get(&l));
    assert!(!whole.local && !whole.report.has(Finding::Suspect) && repeated(&workers) == 2);
    assert_eq!(whole.text(), "-");
    // After that, and elsewhere: told.
    let late = script().get(&l).trap_from(1);
    let whole = workers.run("A", &k, &late);
    assert!(whole.report.has(Finding::Suspect) && repeated(&workers) == 2);
    assert_eq!(workers.run_in(FRESH, "A", &k, &late).text(), "-");
    let elsewhere = script().call_async("B", &l, script().trap_from(1)).put_own("v");
    assert!(!workers.run("A", &k, &elsewhere).report.has(Finding::Suspect));
    assert!(workers.run("A", &k, &elsewhere).report.has(Finding::Suspect));
    let whole = workers.run_in(FRESH, "A", &k, &elsewhere);
    assert!(!whole.report.has(Finding::Suspect) && whole.outcome.is_ok());
}

#[test]
fn heavy_use_of_fuel_is_doubted_too() {
    let limits = Limits { fuel: 200_000, ..Limits::default() };
    let mut workers = Workers::with(2, &guests(), limits, Determinism::Off, ROOM);
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    for (spins, suspect) in [(20, false), (200, true)] {
        let whole = workers.run("A", &k, &script().get(&l).spin(spins));
        assert_eq!(whole.report.has(Finding::Suspect), suspect, "{:?}", whole.report.usage);
    }
    assert!(!workers.run_in(FRESH, "A", &k, &script().get(&l).spin(200)).report.has(Finding::Suspect));
}

#[test]
fn determinism_is_checked_where_all_of_it_is_here() {
    let (spoiled, honest) = (script().trap_from(1), script().put_own("v"));
    let mut workers = Workers::with(2, &guests(), Limits::default(), Determinism::Sample(1), ROOM);
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let compared = |workers: &Workers| workers.workers[0].executor.statistics().compared;
    assert!(workers.run("A", &k, &honest).local && compared(&workers) == 1);
    assert!(!workers.run("A", &k, &honest.clone().get(&l)).local && compared(&workers) == 1);

    let mut all = Workers::with(2, &guests(), Limits::default(), Determinism::All, ROOM);
    for _ in 0..3 {
        // Fresh everywhere: no instance has served before.
        let graph = spoiled.clone().get(&l).call("B", &l, spoiled.clone().call("A", &k, spoiled.clone()));
        let whole = all.run("A", &k, &graph);
        assert!(!whole.local && !whole.report.has(Finding::Suspect));
        assert_eq!(whole.text(), "-");
        assert!(all.run("A", &k, &honest).local);
    }
    assert_eq!(all.workers[0].executor.statistics().differed, 0);
    assert_eq!(all.engine.suspended_guests(), 0);
    // Only a warm instance needs another worker: told from a fresh one, and not left waiting.
    let counter = format!(
        "(global $n (mut i32) (i32.const 0)) (data (i32.const 1024) \"{l}\") {}",
        invoke(&format!(
            "(global.set $n (i32.add (global.get $n) (i32.const 1)))
             (if (i32.gt_u (global.get $n) (i32.const 1)) (then (call $get (i32.const 1024) (i32.const {}) (i32.const 128))))
             (call $ok (i32.const 0) (i32.const 0))",
            l.len()
        ))
    );
    let mut all = Workers::with(2, &[Guest::new("A", &["f"], counter)], Limits::default(), Determinism::All, ROOM);
    let abort = all.run("A", &k, &script()).outcome.unwrap_err();
    assert_eq!(abort.code, Code::NonDeterministic);
    assert_eq!(all.engine.suspended_guests(), 0);
}

#[test]
fn stacks_are_as_deep_on_fibers_as_off_them() {
    let dive = format!(
        "(func $dive (param $depth i32) (result i32)
           (if (i32.eqz (local.get $depth)) (then (return (i32.const 0))))
           (i32.add (i32.const 1) (call $dive (i32.sub (local.get $depth) (i32.const 1)))))
         {}",
        invoke("(drop (call $dive (i32.load (local.get $a)))) (call $ok (local.get $k) (local.get $kl))")
    );
    let guests = [Guest::new("A", &["f"], dive)];
    let deepest = |world: &mut World| {
        let (mut fits, mut overflows) = (0u32, 1 << 20);
        while overflows - fits > 1 {
            let middle = fits + (overflows - fits) / 2;
            let execution = world.run("A", "k", "f", &middle.to_le_bytes());
            match &execution.outcome {
                Ok(_) => fits = middle,
                Err(_) => {
                    assert_eq!(code(&execution), Code::GuestTrap);
                    assert_eq!(message(&execution), "A.f on \"k\" trapped: stack overflow");
                    overflows = middle;
                }
            }
        }
        fits
    };
    let (off, on) = (deepest(&mut World::new(&guests)), deepest(&mut World::on_fibers(&guests)));
    // wasmtime measures from about where the host enters the guest: within some hundred bytes of a MiB.
    assert!(off > 10_000 && off.abs_diff(on) <= off / 1000, "{off} off fibers, {on} on them");
}

#[test]
fn being_in_a_cluster_changes_neither_code_nor_hash() {
    let cache = tempfile::tempdir().unwrap();
    let alone = Engine::new(options(cache.path(), Determinism::Off)).unwrap();
    let digest = super::support::load(&alone, cache.path(), &scripted("A").bytes());
    let among = EngineOptions { cluster: Some(ROOM), ..options(cache.path(), Determinism::Off) };
    let among = Engine::new(among).unwrap();
    assert_eq!(alone.engine_hash(), among.engine_hash());
    among.load(digest, std::path::Path::new("")).expect("compiled code serves both");
    let too_much = Cluster { suspended: 1024, workers: 1000, ..ROOM };
    let refused = Engine::new(EngineOptions { cluster: Some(too_much), ..options(cache.path(), Determinism::Off) });
    assert!(refused.err().unwrap().to_string().contains("room for 1024 suspended functions"));
}

#[test]
fn an_executor_moves_to_its_thread_with_what_waits_in_it() {
    fn sent(_: &impl Send) {}
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let executor: &Executor = &workers.workers[0].executor;
    sent(executor);
    let transaction = workers.transaction("A", &k, &script().get(&l).context());
    let (mut graph, progress): (Graph, _) = workers.start(&transaction);
    let Err(progress) = progress else { panic!("it waits") };
    let whole = on_big_stack(|| workers.complete(&mut graph, progress));
    assert_eq!(whole.outcome.unwrap().len(), 25);
}

/// splitmix64, and what the guests are called.
struct Dice(u64, [&'static str; 2]);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    fn key(&mut self) -> String {
        format!("k{}", self.roll(6))
    }

    fn script(&mut self, depth: u32) -> Script {
        let steps = 1 + self.roll(4);
        (0..steps).fold(script(), |script, _| {
            let (key, other, value) = (self.key(), self.key(), format!("{}", self.roll(100)));
            let operator = self.1[self.roll(2) as usize];
            match self.roll(if depth == 0 { 10 } else { 16 }) {
                0 => script.get(&key).put(&other, &value),
                1 => script.put(&key, &value),
                2 => script.delete(&key),
                3 => script.scan("k", (self.roll(4)) as u8, self.roll(2) == 0),
                4 => script.get_own(),
                5 | 6 => script.append_own(&value),
                7 => script.context(),
                8 => script.spin(2),
                9 => {
                    if self.roll(12) == 0 {
                        script.fail()
                    } else {
                        script.get(&key)
                    }
                }
                10..=12 => {
                    let inner = self.script(depth - 1);
                    script.call(operator, &key, inner)
                }
                _ => {
                    let inner = self.script(depth - 1);
                    script.call_async(operator, &key, inner)
                }
            }
        })
    }
}

#[test]
fn placement_changes_nothing() {
    agree(&guests(), NAMES, 1..=3, true);
}

/// Who is told its entity, and tells what it did to that later, does what one does that asks for all.
#[test]
fn the_version_of_the_contract_changes_nothing() {
    agree(&guests().map(Guest::told), NAMES, 1..=2, false);
    let [one, other] = guests();
    agree(&[one.told(), other], NAMES, 3..=3, false);
}

/// A module by itself comes to what the component comes to that it is in, fuel included.
#[test]
fn the_way_a_module_is_run_changes_nothing() {
    let [one, other] = guests().map(Guest::packed);
    let guests = [one, Guest { initialized: true, ..other }];
    let mut dice = Dice(5, NAMES);
    let say = |world: &mut World, operator: &str, key: &str, script: &Script| {
        let execution = world.commit(operator, key, "f", &script.0);
        let footprint: Vec<_> = execution.footprint.accesses.iter().collect();
        format!("{:?} {footprint:?} {:?} {}", execution.outcome, execution.logs, execution.fuel)
    };
    let few = |fuel| Limits { fuel, ..Limits::default() };
    for limits in [Limits::default(), few(20_000), few(3_000)] {
        // One module more than it takes, and it is run as a component.
        let apart = guests.clone().map(|guest| Guest { foreign: ["(core module $Unused)", "", "", ""], ..guest });
        let mut component = World::with(&apart, limits, Determinism::Off, Isolation::Warm);
        let mut module = World::with(&guests, limits, Determinism::Off, Isolation::Warm);
        for _ in 0..400 {
            let (operator, key) = (NAMES[dice.roll(2) as usize], dice.key());
            let script = match dice.roll(20) {
                0 => dice.script(1).trap(),
                1 => dice.script(1).spin(200),
                2 => dice.script(1).log(),
                3 => dice.script(1).put_own(&"x".repeat(dice.roll(5000) as usize)).get_own(),
                _ => dice.script(2),
            };
            let (one, other) = [&mut component, &mut module].map(|world| say(world, operator, &key, &script)).into();
            // What is long would fill the screen.
            let ends = |said: &str| [&said[..said.len().min(200)], &said[said.len().saturating_sub(200)..]].join(" … ");
            assert!(one == other, "{operator} {key}: {} as a component, {} by its module", ends(&one), ends(&other));
        }
    }
}

/// Nor does the stack that it runs on in a cluster.
#[test]
fn the_stack_of_a_module_changes_nothing() {
    agree(&guests().map(Guest::packed), NAMES, 1..=3, false);
    let [one, other] = guests();
    agree(&[one.packed(), other.told()], NAMES, 2..=3, false);
    let [one, other] = guests();
    agree(&[one.told(), other.packed()], NAMES, 2..=2, false);
}

/// Attempts that were made again on fibers, on each worker.
fn moved(workers: &Workers) -> Vec<u64> {
    workers.workers.iter().map(|worker| worker.executor.statistics().moved).collect()
}

#[test]
fn a_module_runs_on_its_threads_stack_unless_it_is_likely_to_wait() {
    let mut workers = Workers::new(2, &guests().map(Guest::packed));
    let (k, here, there) = (workers.key(0, 0), workers.key(0, 1), workers.key(1, 0));
    let alone = script().log().append_own("x").call("B", &here, script().append_own("y").get_own()).get(&here);
    let mut run = |script: &Script| {
        let whole = workers.run("A", &k, script);
        (whole, moved(&workers))
    };
    let (first, none) = run(&alone);
    assert!(first.local && none == [0, 0], "{none:?}");
    let fuel = first.report.usage.fuel;

    // Two attempts are no use; from then on it begins on a fiber. What is called there needs nobody.
    let call = script().log().call("B", &there, script().append_own("y").get_own()).get(&there);
    for times in 1..=5 {
        let (whole, moved) = run(&call);
        assert_eq!((whole.text().as_str(), moved), ("y-", vec![times.min(2), 0]));
        assert_eq!(whole.logs[0].len(), 1, "what was tried in vain has left nothing behind");
    }
    // Nobody is waited for any more. Until it is on the stack again, it does the same on fibers, for the same.
    for _ in 0..10 {
        let (whole, moved) = run(&alone);
        assert!(whole.local && moved == [2, 0], "{moved:?}");
        assert_eq!((&whole.outcome, &whole.accesses, whole.report.usage.fuel), (&first.outcome, &first.accesses, fuel));
    }
    for reached in
        [script().get(&there), script().put(&there, "z"), script().delete(&there), script().scan("k", 0, true)]
    {
        let before = run(&alone).1[0];
        assert_eq!(run(&reached).1, [before + 1, 0], "it was on the stack again");
        for _ in 0..3 {
            run(&alone);
        }
    }
}

#[test]
fn what_calls_a_component_runs_on_fibers() {
    let [one, other] = guests();
    let mut workers = Workers::new(1, &[one.packed(), other.told()]);
    let k = workers.key(0, 0);
    for _ in 0..20 {
        assert!(workers.run("A", &k, &script().call("B", &k, script().append_own("y").get_own())).local);
    }
    assert_eq!(moved(&workers), [1], "once is enough to know");
}

/// An executor that has yet to learn that makes the attempt of the fallback again, with the same overlay.
#[test]
fn the_overlay_outlives_an_attempt_in_vain() {
    let [one, other] = guests();
    let mut workers = Workers::new(1, &[one.packed(), other.told()]);
    let k = workers.key(0, 0);
    let transaction = workers.transaction("A", &k, &script().call("B", &k, script().append_own("y").get_own()));
    let first = Arc::new(*workers.start(&transaction).1.expect("all of it is here"));
    let mut overlay = Box::new(Overlay::default());
    first.writes().for_each(|write| overlay.apply(write));
    let mut executor = workers.engine.executor();
    let state = &workers.workers[0].state;
    for moved in [1, 1] {
        let again;
        (again, overlay) = executor.fall_back(&transaction, state, &workers.catalog, overlay, &first);
        assert_eq!((again.outcome.as_deref(), again.drifted), (Ok(&b"yy"[..]), false), "it sees the overlay's write");
        assert_eq!(executor.statistics().moved, moved);
    }
    assert_eq!(overlay.into_writes().len(), 1);
}

#[test]
fn an_instance_is_used_again_after_an_attempt_in_vain() {
    let mut workers = Workers::new(2, &guests().map(Guest::packed));
    let (k, there) = (workers.key(0, 0), workers.key(1, 0));
    workers.run("A", &k, &script().get(&there));
    assert_eq!(moved(&workers), [1, 0]);
    assert_eq!(workers.workers[0].executor.idle_instances(), 2, "one on each stack");
}

/// Where a second attempt has to find the instances of the first, it runs where that ran.
#[test]
fn where_all_is_compared_modules_run_on_fibers() {
    let guests = guests().map(Guest::packed);
    let mut workers = Workers::with(2, &guests, Limits::default(), Determinism::All, ROOM);
    let (k, there) = (workers.key(0, 0), workers.key(1, 0));
    for _ in 0..3 {
        workers.run("A", &k, &script().append_own("x"));
        workers.run("A", &k, &script().get(&there));
    }
    assert_eq!(moved(&workers), [0, 0]);
}

/// What calls another app comes to the same as what calls its own.
#[test]
fn the_app_of_a_function_changes_nothing() {
    let [one, other] = guests();
    agree(&[one, other.of_app("other")], ["test/A", "other/B"], 1..=3, false);
}

const NAMES: [&str; 2] = ["A", "B"];

/// Guests that do the same as those of [`guests`], on several workers and by these names, do what those do on one.
fn agree(others: &[Guest], names: [&'static str; 2], workers: RangeInclusive<u16>, fuel: bool) {
    let mut world = World::new(&guests());
    let mut clusters: Vec<Workers> = workers.map(|count| Workers::new(count, others)).collect();
    let (mut parallel, mut failed) = (0, 0);
    for seed in 0..300 {
        let [(key, script), (_, named)] = [NAMES, names].map(|names| {
            let mut dice = Dice(seed, names);
            (dice.key(), dice.script(3))
        });
        let execution = world.commit("A", &key, "f", &script.0);
        let single = Whole::of(&execution);
        failed += u32::from(single.outcome.is_err());
        for workers in &mut clusters {
            let count = workers.workers.len();
            let first = workers.run("A", &key, &named);
            workers.set_next_tid(seed);
            let report = &first.report;
            // What a serial run might have ended otherwise is run again, strictly.
            let unsure =
                report.has(Finding::Overtaken) || (report.has(Finding::Doomed) && report.has(Finding::Branched));
            if !unsure {
                parallel += u32::from(report.has(Finding::Branched));
                assert_eq!(first.outcome, single.outcome, "seed {seed} on {count} workers");
                assert_eq!(first.accesses, single.accesses, "seed {seed} on {count} workers");
                assert_eq!(first.ranges, single.ranges, "seed {seed} on {count} workers");
            }
            let strict = workers.commit("A", &key, &named);
            assert_eq!(strict.outcome, single.outcome, "seed {seed} on {count} workers, strictly");
            assert_eq!(strict.accesses, single.accesses, "seed {seed} on {count} workers, strictly");
            assert_eq!(strict.ranges, single.ranges, "seed {seed} on {count} workers, strictly");
            if fuel {
                assert_eq!(strict.report.usage.fuel, execution.fuel, "seed {seed} on {count} workers, strictly");
            }
            assert!(!strict.report.has(Finding::Suspect) && !strict.report.has(Finding::Refused));
        }
    }
    assert!(parallel > 30 && failed > 10, "{parallel} ran in parallel, {failed} failed");
}

/// Invocations, and their fuel, of all functions on all workers together.
fn used(tallies: &Tallies) -> (u64, u64) {
    let used = tallies.used();
    (used.iter().map(|one| one.invocations).sum(), used.iter().map(|one| one.fuel).sum())
}

#[test]
fn fuel_of_functions_adds_up_over_workers_and_what_is_given_up_has_used_its_own() {
    let mut workers = Workers::new(2, &guests());
    let (k, l) = (workers.key(0, 0), workers.key(1, 0));
    let tallies = workers.engine.tallies().clone();
    let script = || script().spin(20).call("B", &l, Script::new().spin(5).call("A", &k, Script::new().get_own()));
    let whole = workers.run("A", &k, &script());
    let all = whole.report.usage.fuel;
    assert!(!whole.local && all > 10_000);
    assert_eq!(used(&tallies), (3, all));
    // It waits for the other worker, for ever.
    let transaction = workers.transaction("A", &k, &script());
    assert!(matches!(workers.start(&transaction).1, Err(Progress::Suspended(..))));
    assert_eq!(used(&tallies), (3, all), "it is not over");
    drop(workers);
    let (invocations, fuel) = used(&tallies);
    assert_eq!(invocations, 4);
    assert!((10_000..all).contains(&(fuel - all)), "{fuel} after {all}");
}
