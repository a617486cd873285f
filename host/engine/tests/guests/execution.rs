//! Transactions through WAT guests: what is recorded, in which order calls run, what is kept warm.

use std::sync::Arc;

use super::support::script::{Script, scripted};
use super::support::{Guest, World, invoke, on_big_stack, text};
use styx_engine::Determinism;
use styx_protocol::attempt::Execution;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Isolation, Limits};
use styx_protocol::executor::Executor as _;

/// Appends the arguments to the own value: get-own, then put-own.
const APPEND: &str = "
  (call $get-own (i32.const 128))
  ;; copy the old value (if any) and the arguments to 2048
  (if (i32.load8_u (i32.const 128)) (then
    (memory.copy (i32.const 2048) (i32.load (i32.const 132)) (i32.load (i32.const 136)))
    (local.set $i (i32.load (i32.const 136)))))
  (memory.copy (i32.add (i32.const 2048) (local.get $i)) (local.get $a) (local.get $al))
  (local.set $i (i32.add (local.get $i) (local.get $al)))
  (call $put-own (i32.const 2048) (local.get $i))
  (call $ok (i32.const 2048) (local.get $i))";

#[test]
fn reads_and_writes_are_recorded_and_seen() {
    let mut world = World::new(&[Guest::body("item", &["append"], APPEND)]);
    assert_eq!(text(&world.commit("item", "a", "append", b"x")), "x");
    let second = world.commit("item", "a", "append", b"y");
    assert_eq!(text(&second), "xy");
    let (entity, access) = second.footprint.accesses.iter().next().unwrap();
    assert_eq!((&**entity.key(), access.is_read(), access.is_write()), ("a", true, true));
    assert_eq!(second.footprint.accesses.len(), 1);
    assert!(second.fuel > 10, "fuel is counted");
    assert_eq!(world.executor.idle_instances(), 1, "the second call used the first one's instance");
}

#[test]
fn other_keys_of_the_operator_are_reached_by_name() {
    // put(args, key), delete("gone"), get(args)
    let body = "
      (call $put (local.get $a) (local.get $al) (local.get $k) (local.get $kl))
      (i32.store (i32.const 1024) (i32.const 0x656e6f67)) ;; \"gone\"
      (call $delete (i32.const 1024) (i32.const 4))
      (call $get (local.get $a) (local.get $al) (i32.const 128))
      (call $ok (i32.load (i32.const 132)) (i32.load (i32.const 136)))";
    let mut world = World::new(&[Guest::body("item", &["f"], body)]);
    let execution = world.commit("item", "own", "f", b"other");
    assert_eq!(text(&execution), "own");
    let writes: Vec<_> =
        execution.writes().map(|(entity, value)| (entity.key().to_string(), value.is_some())).collect();
    assert_eq!(writes, [("other".into(), true), ("gone".into(), false)]);
    assert_eq!(&*world.value("item", "other").unwrap(), b"own");
}

#[test]
fn scans_return_entries_in_order_and_are_recorded() {
    // 's': scan(prefix = args, limit 2), returns key of the last entry found; 'w': put-own.
    let body = "
      (if (result i32) (i32.eq (call $letter (local.get $f) (local.get $fl)) (i32.const 119)) (then
        (call $put-own (local.get $a) (local.get $al))
        (call $ok (i32.const 0) (i32.const 0)))
      (else
        (call $scan (local.get $a) (local.get $al) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 2) (i32.const 0) (i32.const 128))
        ;; 16 bytes an entry: key pointer and length, value pointer and length
        (local.set $i (i32.add (i32.load (i32.const 128)) (i32.mul (i32.sub (i32.load (i32.const 132)) (i32.const 1)) (i32.const 16))))
        (call $ok (i32.load (local.get $i)) (i32.load offset=4 (local.get $i)))))";
    let mut world = World::new(&[Guest::body("item", &["s", "w"], body)]);
    for key in ["b1", "a9", "b2", "b3", "c1"] {
        world.commit("item", key, "w", b"v");
    }
    let execution = world.run("item", "x", "s", b"b");
    assert_eq!(text(&execution), "b2");
    assert_eq!(execution.footprint.ranges.len(), 1);
    assert!(execution.footprint.ranges[0].range.contains("b2") && !execution.footprint.ranges[0].range.contains("b3"));
}

/// Calls `operator` at 1024 (1 byte), key = args[1..], function at args[0].
const CALLER: &str = "
  (data (i32.const 1024) \"ABbad\")
";

#[test]
fn calls_nest_and_reenter_the_same_component() {
    // A.f calls B.f for the same key, which calls A.g; each logs its operator.
    let name = |letter: char| format!("{CALLER}{}", invoke(&body(letter)));
    fn body(me: char) -> String {
        let next = if me == 'A' { 1025 } else { 1024 };
        let function = if me == 'A' { "(local.get $f)" } else { "(i32.const 1030)" };
        let _ = function;
        format!(
            "(if (result i32) (i32.eq (call $letter (local.get $f) (local.get $fl)) (i32.const 103)) (then
               (call $put-own (local.get $k) (local.get $kl))
               (call $ok (local.get $k) (local.get $kl)))
             (else
               (i32.store8 (i32.const 1030) (i32.const {callee}))
               (call $call (i32.const {next}) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1030) (i32.const 1) (local.get $a) (local.get $al) (i32.const 128))
               (if (i32.load8_u (i32.const 128)) (then (unreachable)))
               (call $ok (i32.load (i32.const 132)) (i32.load (i32.const 136)))))",
            callee = if me == 'A' { 'f' as u32 } else { 'g' as u32 },
        )
    }
    let mut world = World::new(&[Guest::new("A", &["f", "g"], name('A')), Guest::new("B", &["f", "g"], name('B'))]);
    for _ in 0..3 {
        let execution = world.commit("A", "k", "f", b"");
        assert_eq!(text(&execution), "k");
        let calls: Vec<_> = execution.calls.iter().map(|call| (call.entity.operator().0, call.function)).collect();
        assert_eq!(calls, [(0, 0), (1, 0), (0, 1)]);
    }
    assert_eq!(world.executor.idle_instances(), 3, "two of A, since it was re-entered, and one of B");
}

#[test]
fn instances_of_a_removed_app_are_dropped() {
    let guest = |operator| Guest::body(operator, &["f"], "(call $ok (local.get $k) (local.get $kl))");
    let (passing, other) = (guest("B").of_app("passing"), guest("C").of_app("other"));
    let mut world = World::new(&[guest("A"), passing, other]);
    let run = |world: &mut World, app, operator| {
        let mut transaction = world.transaction("A", "k", "f", b"");
        Arc::make_mut(&mut transaction.request).operator = world.catalog.find(app, operator).unwrap().id;
        let execution = on_big_stack(|| world.executor.execute(&transaction, &world.state, &world.catalog));
        assert_eq!(text(&execution), "k");
        world.executor.idle_instances()
    };
    assert_eq!(run(&mut world, "test", "A"), 1);
    assert_eq!(run(&mut world, "passing", "B"), 2);
    Arc::make_mut(&mut world.catalog).apply(&Control::Remove("passing".into()));
    assert!(world.catalog.find("passing", "B").is_err());
    // Those of B go when another operator is met.
    assert_eq!(run(&mut world, "test", "A"), 2);
    assert_eq!(run(&mut world, "other", "C"), 2);
}

#[test]
fn asynchronous_calls_run_after_their_caller_depth_first() {
    // f: call-async(g), call-async(g) with other keys, then put-own; g: call-async(h); each logs its key.
    let body = "
      (call $log (i32.const 1) (local.get $k) (local.get $kl))
      (block $done
        (br_if $done (i32.eq (call $letter (local.get $f) (local.get $fl)) (i32.const 104)))
        ;; the callee's function is the next letter
        (i32.store8 (i32.const 1100) (i32.add (call $letter (local.get $f) (local.get $fl)) (i32.const 1)))
        ;; the callees' keys: the own key with 1 and 2 appended
        (memory.copy (i32.const 1200) (local.get $k) (local.get $kl))
        (i32.store8 (i32.add (i32.const 1200) (local.get $kl)) (i32.const 49))
        (call $call-async (i32.const 1024) (i32.const 1) (i32.const 1200) (i32.add (local.get $kl) (i32.const 1)) (i32.const 1100) (i32.const 1) (i32.const 0) (i32.const 0))
        (i32.store8 (i32.add (i32.const 1200) (local.get $kl)) (i32.const 50))
        (call $call-async (i32.const 1024) (i32.const 1) (i32.const 1200) (i32.add (local.get $kl) (i32.const 1)) (i32.const 1100) (i32.const 1) (i32.const 0) (i32.const 0)))
      (call $ok (i32.const 0) (i32.const 0))";
    let code = format!("(data (i32.const 1024) \"A\"){}", invoke(body));
    let mut world = World::new(&[Guest::new("A", &["f", "g", "h"], code)]);
    let execution = world.run("A", "k", "f", b"");
    let order: Vec<_> = execution.logs.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(order, ["k", "k1", "k11", "k12", "k2", "k21", "k22"]);
    assert_eq!(world.executor.idle_instances(), 1, "one after the other, in one instance");
}

#[test]
fn the_context_is_the_transactions() {
    // Returns tid, time, random, random (8 bytes each) and the request id.
    let body = "
      (i64.store (i32.const 2048) (call $tid)) (i64.store (i32.const 2056) (call $time))
      (i64.store (i32.const 2064) (call $random)) (i64.store (i32.const 2072) (call $random))
      (call $request-id (i32.const 128))
      (memory.copy (i32.const 2080) (i32.load (i32.const 128)) (i32.load (i32.const 132)))
      (call $ok (i32.const 2048) (i32.add (i32.const 32) (i32.load (i32.const 132))))";
    let mut world = World::new(&[Guest::body("A", &["f"], body)]);
    let transaction = world.transaction("A", "k", "f", b"");
    let mut run =
        || on_big_stack(|| world.executor.execute(&transaction, &world.state, &world.catalog)).outcome.unwrap();
    let (first, second) = (run(), run());
    assert_eq!(first, second, "the same transaction sees the same, in a warm instance too");
    let number = |at: usize| u64::from_le_bytes(first[at..at + 8].try_into().unwrap());
    assert_eq!((number(0), number(8)), (transaction.tid.0, transaction.time.0));
    assert_ne!(number(16), number(24));
    assert_eq!(&first[32..], transaction.request.id.to_string().as_bytes());
}

#[test]
fn isolation_decides_whether_globals_survive() {
    let code = format!(
        "(global $n (mut i32) (i32.const 48)) {}",
        invoke(
            "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (i32.store8 (i32.const 2048) (global.get $n)) (call $ok (i32.const 2048) (i32.const 1))"
        )
    );
    let guest = Guest::new("A", &["f"], code);
    let mut warm = World::new(std::slice::from_ref(&guest));
    assert_eq!((text(&warm.run("A", "k", "f", b"")), text(&warm.run("A", "k", "f", b""))), ("1".into(), "2".into()));
    let mut fresh = World::with(&[guest], Limits::default(), Determinism::Off, Isolation::Fresh);
    assert_eq!((text(&fresh.run("A", "k", "f", b"")), text(&fresh.run("A", "k", "f", b""))), ("1".into(), "1".into()));
    assert_eq!(fresh.executor.idle_instances(), 0);
}

/// Who was told its entity may have trapped for that; who only wrote it has not read it.
#[test]
fn what_a_guest_was_told_is_read_if_it_says_so_and_if_it_traps() {
    let mut world = World::new(&[scripted("A").told()]);
    let script = Script::new;
    world.commit("A", "k", "f", &script().put_own("v").0);
    let access = |execution: &Execution| {
        let all: Vec<_> = execution.footprint.accesses.iter().collect();
        let [(_, access)] = all[..] else { panic!("{all:?}") };
        (access.is_read(), access.write().map(|value| value.map(|value| value.to_vec())))
    };
    let none = |execution: &Execution| assert!(execution.footprint.accesses.is_empty());
    none(&world.run("A", "k", "f", &script().0));
    assert_eq!(access(&world.run("A", "k", "f", &script().get_own().0)), (true, None));
    assert_eq!(access(&world.run("A", "k", "f", &script().put_own("w").0)), (false, Some(Some(b"w".to_vec()))));
    assert_eq!(access(&world.run("A", "k", "f", &script().append_own("w").0)), (true, Some(Some(b"vw".to_vec()))));
    assert_eq!(access(&world.run("A", "k", "f", &script().trap().0)), (true, None));
    assert_eq!(access(&world.run("A", "none", "f", &script().trap().0)), (true, None));
    // What is too long to be told is asked for, so a trap has read nothing.
    let long = "x".repeat(3000);
    world.commit("A", "k", "f", &script().put_own(&long).0);
    none(&world.run("A", "k", "f", &script().trap().0));
    let read = world.run("A", "k", "f", &script().get_own().0);
    assert_eq!((text(&read), access(&read)), (long, (true, None)));
}

/// Invocations and fuel of the functions `f` of A and B, as the engine has counted them.
fn used(world: &World) -> [(u64, u64); 2] {
    let used = world.engine.tallies().used();
    ["A", "B"].map(|operator| {
        let mut of = used.iter().filter(|one| (&*one.app, &*one.operator, &*one.function) == ("test", operator, "f"));
        of.next().map_or((0, 0), |one| (one.invocations, one.fuel))
    })
}

#[test]
fn every_function_has_the_fuel_that_it_used_itself_also_in_vain() {
    let mut world = World::new(&[scripted("A"), scripted("B")]);
    let alone = world.run("B", "b", "f", &Script::new().spin(50).0).fuel;
    assert!(alone > 10_000);
    assert_eq!(used(&world), [(0, 0), (1, alone)]);
    // The caller does not have what its callee used.
    let both = world.run("A", "a", "f", &Script::new().call("B", "b", Script::new().spin(50)).0).fuel;
    assert_eq!(used(&world), [(1, both - alone), (2, 2 * alone)]);
    let before = used(&world)[0];
    let failed = world.run("A", "a", "f", &Script::new().spin(9).fail().0);
    assert!(failed.outcome.is_err());
    assert_eq!(used(&world)[0], (before.0 + 1, before.1 + failed.fuel));
    // A warm instance traps, so that it is done again in a fresh one: the outcome has the fuel of one of them.
    let before = used(&world)[0];
    let again = world.run("A", "a", "f", &Script::new().spin(30).trap_from(1).0);
    assert!(again.outcome.is_ok() && world.executor.statistics().repeated == 1);
    let after = used(&world)[0];
    assert_eq!(after.0, before.0 + 2);
    assert!(after.1 - before.1 > again.fuel + 10_000, "{before:?} {after:?} {}", again.fuel);
}
