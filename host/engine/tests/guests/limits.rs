//! Bad guests: each ends with its code, hurts no neighbour, and leaves the pool usable.

use std::sync::Arc;

use super::support::{Guest, LAYOUT, World, code, invoke, message, on_big_stack, options, text};
use styx_engine::{Determinism, EngineOptions, Long};
use styx_protocol::abort::Code;
use styx_protocol::attempt::{Operation, Overlay, Reader, RemoteResponse};
use styx_protocol::deployment::{Isolation, Limits};
use styx_protocol::executor::Executor as _;
use styx_protocol::task::{LongTask, RunId};

/// Endless loop.
const SPIN: &str = "(loop $l (br $l)) (unreachable)";
/// Asks for no more memory twenty thousand times: few instructions, and much time.
const GROW_BY_NOTHING: &str = "(loop $l
  (drop (memory.grow (i32.const 0)))
  (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 20000))))
  (call $ok (i32.const 0) (i32.const 0))";
/// Grows memory until it is denied, then traps.
const GROW: &str = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";
/// Says so when memory is denied, as a careful allocator would.
const GROW_POLITELY: &str = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (call $ok (local.get $k) (local.get $kl))";
/// Calls itself, as operator A, with the same arguments.
const CALL_SELF: &str = "
  (i32.store8 (i32.const 1024) (i32.const 65))
  (call $call (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (local.get $a) (local.get $al) (i32.const 128))
  (call $ok (i32.const 0) (i32.const 0))";
/// Issues two asynchronous calls to itself: without end.
const FORK: &str = "
  (i32.store8 (i32.const 1024) (i32.const 65)) (i32.store8 (i32.const 1025) (i32.const 102))
  (call $call-async (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (i32.const 0) (i32.const 0))
  (call $call-async (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (i32.const 0) (i32.const 0))
  (call $ok (i32.const 0) (i32.const 0))";

/// Grows a table until that is denied, then traps.
const GROW_TABLE: &str =
    "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 999)) (i32.const -1)))) (unreachable)";

fn growing_table() -> String {
    format!("(table $t 0 funcref) {}", invoke(GROW_TABLE))
}

fn recursion() -> String {
    format!(
        "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1))))) {}",
        invoke("(drop (call $deep (i32.const 0))) (unreachable)")
    )
}

/// A good neighbour: counts its calls in its entity.
fn neighbour() -> Guest {
    Guest::body(
        "good",
        &["f"],
        "(call $get-own (i32.const 128))
         (if (i32.load8_u (i32.const 128)) (then (local.set $i (i32.load8_u (i32.load (i32.const 132))))))
         (i32.store8 (i32.const 2048) (i32.add (local.get $i) (i32.const 1)))
         (call $put-own (i32.const 2048) (i32.const 1))
         (call $ok (i32.const 2048) (i32.const 1))",
    )
}

fn small() -> Limits {
    Limits {
        fuel: 3_000_000,
        transaction_fuel: 5_000_000,
        memory: 2 << 20,
        call_depth: 64,
        calls: 100,
        rw_set: 50,
        payload: 64 << 10,
    }
}

#[test]
fn every_bad_guest_ends_with_its_code_and_hurts_nobody() {
    let call_self = CALL_SELF.replace(
        "(i32.store8 (i32.const 1024)",
        "(i32.store8 (i32.const 1025) (i32.const 102)) (i32.store8 (i32.const 1024)",
    );
    let put_many = "(loop $l
        (i32.store (i32.const 1024) (local.get $i))
        (call $put (i32.const 1024) (i32.const 4) (i32.const 0) (i32.const 0))
        (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 120))))
        (call $ok (i32.const 0) (i32.const 0))";
    let cases: Vec<(&str, String, Code, &str)> = vec![
        ("endless loop", invoke(SPIN), Code::OutOfFuel, "A.f used up its fuel: 3000000 units (limits.fuel)"),
        ("endless table", growing_table(), Code::LimitExceeded, "a table of more than 100000 elements"),
        ("growth by nothing", invoke(GROW_BY_NOTHING), Code::OutOfFuel, "A.f used up its fuel"),
        ("endless growth", invoke(GROW), Code::LimitExceeded, "limits.memory"),
        ("endless recursion", recursion(), Code::GuestTrap, "stack overflow"),
        ("endless calls", invoke(&call_self), Code::LimitExceeded, "nested deeper than 64"),
        ("endless asynchronous calls", invoke(FORK), Code::LimitExceeded, "limits.calls"),
        (
            "giant value",
            invoke("(call $put-own (i32.const 0) (i32.const 70000)) (call $ok (i32.const 0) (i32.const 0))"),
            Code::LimitExceeded,
            "limits.payload",
        ),
        ("giant result", invoke("(call $ok (i32.const 0) (i32.const 70000))"), Code::LimitExceeded, "limits.payload"),
        (
            "giant list",
            invoke("(call $put-own (i32.const 0) (i32.const -1)) (unreachable)"),
            Code::GuestTrap,
            "trapped",
        ),
        ("too many entities", invoke(put_many), Code::LimitExceeded, "limits.rw_set"),
        ("trap", invoke("(unreachable)"), Code::GuestTrap, "unreachable"),
        ("wild pointer", invoke("(i32.load (i32.const -8))"), Code::GuestTrap, "out of bounds"),
        ("division by zero", invoke("(i32.div_u (i32.const 1) (i32.const 0))"), Code::GuestTrap, "divide by zero"),
        (
            "text that is not UTF-8",
            invoke(
                "(i32.store8 (i32.const 2048) (i32.const 255)) (call $delete (i32.const 2048) (i32.const 1)) (call $ok (i32.const 0) (i32.const 0))",
            ),
            Code::GuestTrap,
            "utf-8",
        ),
        ("result out of bounds", invoke("(call $ok (i32.const -16) (i32.const 16))"), Code::GuestTrap, "bounds"),
        (
            "odd discriminant",
            invoke("(i32.store8 (i32.const 64) (i32.const 9)) (i32.const 64)"),
            Code::GuestTrap,
            "discriminant",
        ),
        (
            "odd error text",
            invoke(
                "(i32.store (i32.const 2048) (i32.const -1)) (call $err (local.get $k) (local.get $kl) (i32.const 2048) (i32.const 4))",
            ),
            Code::GuestTrap,
            "utf-8",
        ),
        (
            "error of an unknown code",
            invoke("(call $err (local.get $k) (local.get $kl) (local.get $k) (local.get $kl))"),
            Code::Aborted,
            "k",
        ),
    ];
    for (name, guest, expected, says) in cases {
        let mut world =
            World::with(&[Guest::new("A", &["f"], guest), neighbour()], small(), Determinism::Off, Isolation::Warm);
        for round in 1..=3u8 {
            let bad = world.commit("A", "k", "f", b"");
            assert_eq!(code(&bad), expected, "{name}: {}", message(&bad));
            assert!(message(&bad).contains(says), "{name}: {}", message(&bad));
            assert_eq!(bad.writes().count(), 0, "{name}: an aborted transaction writes nothing");
            let good = world.commit("good", "n", "f", b"");
            assert_eq!(good.outcome.as_deref(), Ok(&[round][..]), "{name}: the neighbour goes on");
        }
    }
}

#[test]
fn denied_memory_that_the_guest_survives_is_no_abort_but_costs_the_instance() {
    let mut world = World::with(&[Guest::body("A", &["f"], GROW_POLITELY)], small(), Determinism::Off, Isolation::Warm);
    for _ in 0..3 {
        assert_eq!(text(&world.run("A", "k", "f", b"")), "k");
        assert_eq!(world.executor.idle_instances(), 0);
    }
}

#[test]
fn the_fuel_of_a_transaction_is_named_when_that_is_what_was_used_up() {
    // Each call asks for two more, and works.
    let body = format!(
        "(local.set $i (i32.const 100000)) (loop $w (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $w (local.get $i))) {FORK}"
    );
    let mut world = World::with(&[Guest::body("A", &["f"], &body)], small(), Determinism::Off, Isolation::Warm);
    let ended = world.run("A", "k", "f", b"");
    let says = "what was left of 5000000 units for the transaction (limits.transaction_fuel)";
    assert_eq!(code(&ended), Code::OutOfFuel, "{}", message(&ended));
    assert!(message(&ended).contains(says), "{}", message(&ended));
}

#[test]
fn read_only_functions_cannot_write() {
    let mut guest =
        Guest::body("A", &["f"], "(call $put-own (i32.const 0) (i32.const 4)) (call $ok (i32.const 0) (i32.const 0))");
    guest.read_only = vec!["f"];
    let mut world = World::new(&[guest]);
    assert_eq!(code(&world.run("A", "k", "f", b"")), Code::ReadOnly);
}

#[test]
fn a_failure_has_the_guests_code_and_message_and_keeps_the_instance_warm() {
    let body = "
      (if (result i32) (i32.eq (call $letter (local.get $f) (local.get $fl)) (i32.const 97))
        (then (call $err (i32.const 1024) (i32.const 13) (local.get $k) (local.get $kl)))
        (else (call $err (i32.const 1040) (i32.const 7) (local.get $k) (local.get $kl))))";
    let code_text = format!("(data (i32.const 1024) \"BAD_ARGUMENTS   ABORTED\"){}", invoke(body));
    let mut world = World::new(&[Guest::new("A", &["a", "b"], code_text)]);
    let (bad, raised) = (world.run("A", "why", "a", b""), world.run("A", "because", "b", b""));
    assert_eq!((code(&bad), message(&bad)), (Code::BadArguments, "why"));
    assert_eq!((code(&raised), message(&raised)), (Code::Aborted, "because"));
    assert_eq!(world.executor.idle_instances(), 1);
    assert_eq!(world.executor.statistics().repeated, 0);
}

#[test]
fn a_caller_cannot_save_a_failed_callee_but_add_to_its_message() {
    // A.f calls B.f, ignores its failure and returns its own key as a failure (f) or as a result (g).
    let caller = format!("(data (i32.const 1024) \"BfABORTED\"){}", invoke("
      (call $call (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 128))
      (if (i32.eqz (i32.load8_u (i32.const 128))) (then (unreachable)))
      (call $put-own (i32.const 0) (i32.const 1))
      (if (result i32) (i32.eq (call $letter (local.get $f) (local.get $fl)) (i32.const 102))
        (then (call $err (i32.const 1026) (i32.const 7) (local.get $k) (local.get $kl)))
        (else (call $ok (local.get $k) (local.get $kl))))"));
    let callee = Guest::body(
        "B",
        &["f"],
        "(i32.store8 (i32.const 1024) (i32.const 120)) (call $err (i32.const 1024) (i32.const 0) (i32.const 1024) (i32.const 1))",
    );
    let mut world = World::new(&[Guest::new("A", &["f", "g"], caller), callee]);
    let (worded, ignored) = (world.run("A", "mine", "f", b""), world.run("A", "mine", "g", b""));
    assert_eq!((code(&worded), message(&worded)), (Code::Aborted, "mine"));
    assert_eq!((code(&ignored), message(&ignored)), (Code::Aborted, "x"));
    assert_eq!(ignored.writes().count(), 0);
    assert_eq!(world.executor.idle_instances(), 2, "both ended in good order");
}

#[test]
fn a_trap_in_a_callee_ends_the_callers_soon_and_in_good_order() {
    // The caller would spin after the failed call: it is cut short.
    let caller = format!("(data (i32.const 1024) \"Bf\"){}", invoke("
      (call $call (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 128))
      (loop $l (br $l)) (unreachable)"));
    let limits = Limits { fuel: 1 << 40, transaction_fuel: 1 << 41, ..Limits::default() };
    let mut world = World::with(
        &[Guest::new("A", &["f"], caller), Guest::body("B", &["f"], "(unreachable)")],
        limits,
        Determinism::Off,
        Isolation::Warm,
    );
    let execution = world.run("A", "k", "f", b"");
    assert_eq!(code(&execution), Code::GuestTrap);
    assert!(message(&execution).contains("B.f on \"k\" trapped"), "{}", message(&execution));
    assert!(execution.fuel < 10_000_000, "{}", execution.fuel);
}

#[test]
fn an_unconfirmed_result_of_a_warm_instance_does_not_count() {
    // Traps (f), spins (g) or grows (h) from the third call of an instance on.
    let guest = |ill: &str| {
        let body = format!(
            "(global.set $n (i32.add (global.get $n) (i32.const 1)))
             (if (i32.gt_u (global.get $n) (i32.const 2)) (then {ill}))
             (call $put-own (local.get $k) (local.get $kl))
             (call $ok (local.get $k) (local.get $kl))"
        );
        Guest::new("A", &["f"], format!("(table $t 0 funcref) (global $n (mut i32) (i32.const 0)) {}", invoke(&body)))
    };
    for ill in [
        "(unreachable)",
        // It survives that, and does something else than a fresh one would.
        "(if (i32.eq (table.grow $t (ref.null func) (i32.const 100001)) (i32.const -1)) (then (call $put-own (i32.const 0) (i32.const 1)) (return (call $ok (i32.const 0) (i32.const 1)))))",
        "(loop $l (br $l))",
        "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)",
    ] {
        let mut world = World::with(&[guest(ill)], small(), Determinism::Off, Isolation::Warm);
        for call in 0..9 {
            let execution = world.run("A", "k", "f", b"");
            assert_eq!(text(&execution), "k", "{ill}: call {call}");
            assert_eq!(execution.writes().count(), 1);
        }
        assert_eq!(
            world.executor.statistics().repeated,
            4,
            "{ill}: every third call of a warm instance, the fresh one counts"
        );
    }
}

#[test]
fn heavy_use_of_fuel_is_decided_by_a_fresh_instance() {
    // Spins as many rounds as the arguments' length: 9 units of fuel or so a round.
    let body = "(local.set $i (i32.mul (local.get $al) (i32.const 10000)))
      (loop $l (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $l (local.get $i)))
      (call $ok (i32.const 0) (i32.const 0))";
    let mut world = World::with(&[Guest::body("A", &["f"], body)], small(), Determinism::Off, Isolation::Warm);
    for (size, repeated) in [(1usize, 0u64), (2, 0), (40, 1), (1, 1)] {
        let execution = world.run("A", "k", "f", &vec![0; size]);
        assert!(execution.outcome.is_ok());
        assert_eq!(world.executor.statistics().repeated, repeated, "{size}: {} fuel", execution.fuel);
    }
    let fuel: Vec<u64> = (0..3).map(|_| world.run("A", "k", "f", &[0; 7]).fuel).collect();
    assert!(fuel.windows(2).all(|pair| pair[0] == pair[1]), "fuel repeats exactly: {fuel:?}");
}

#[test]
fn worn_instances_are_replaced() {
    let grows = Guest::body("A", &["f"], "(drop (memory.grow (i32.const 100))) (call $ok (i32.const 0) (i32.const 0))");
    let mut world = World::new(&[grows]);
    let idle: Vec<usize> = (0..6)
        .map(|_| {
            world.run("A", "k", "f", b"");
            world.executor.idle_instances()
        })
        .collect();
    assert_eq!(idle, [1, 1, 0, 1, 1, 0], "6.25 MiB a call, 16 MiB allowed");
}

#[test]
fn the_check_catches_a_guest_with_a_global_counter() {
    let counter = format!(
        "(global $n (mut i32) (i32.const 48)) {}",
        invoke(
            "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (i32.store8 (i32.const 2048) (global.get $n)) (call $ok (i32.const 2048) (i32.const 1))"
        )
    );
    let hidden = format!("(global $n (mut i32) (i32.const 0)) {}", invoke(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (if (i32.gt_u (global.get $n) (i32.const 1)) (then (drop (call $random)) (call $get (i32.const 0) (i32.const 1) (i32.const 128))))
         (call $ok (i32.const 0) (i32.const 0))"));
    for (guest, says) in [(counter, "outcome"), (hidden, "entities read")] {
        let guest = Guest::new("A", &["f"], guest);
        let mut all = World::with(&[guest.clone(), neighbour()], Limits::default(), Determinism::All, Isolation::Warm);
        // Caught at once and every time, whatever the instances did before: a replay must agree.
        for _ in 0..3 {
            let caught = all.run("A", "k", "f", b"");
            assert_eq!(code(&caught), Code::NonDeterministic);
            assert!(message(&caught).contains(says), "{}", message(&caught));
        }
        for round in 1..=3u8 {
            assert_eq!(
                all.commit("good", "n", "f", b"").outcome.as_deref(),
                Ok(&[round][..]),
                "an honest guest passes"
            );
        }
        let mut sample = World::with(&[guest], Limits::default(), Determinism::Sample(1), Isolation::Warm);
        for _ in 0..3 {
            assert!(sample.run("A", "k", "f", b"").outcome.is_ok(), "sampled: the fresh attempt counts");
        }
        assert!(sample.executor.statistics().differed >= 1);
    }
}

#[test]
fn the_check_looks_into_nested_calls() {
    // Calls itself on another key, and only there writes what a global has counted.
    let counter = format!(
        "(global $n (mut i32) (i32.const 48)) {}",
        invoke(
            "(if (i32.eq (local.get $al) (i32.const 0)) (then
               (i32.store8 (i32.const 2048) (i32.const 65)) (i32.store8 (i32.const 2049) (i32.const 102))
               (call $call (i32.const 2048) (i32.const 1) (i32.const 2049) (i32.const 1) (i32.const 2049) (i32.const 1) (i32.const 2048) (i32.const 1) (i32.const 128)))
             (else
               (global.set $n (i32.add (global.get $n) (i32.const 1)))
               (i32.store8 (i32.const 2048) (global.get $n)) (call $put-own (i32.const 2048) (i32.const 1))))
             (call $ok (i32.const 0) (i32.const 0))"
        )
    );
    let guest = Guest::new("A", &["f"], counter);
    let mut all = World::with(&[guest], Limits::default(), Determinism::All, Isolation::Warm);
    for _ in 0..2 {
        assert_eq!(code(&all.run("A", "k", "f", b"")), Code::NonDeterministic);
    }
}

#[test]
fn the_fallback_gives_the_overlay_back_and_tells_drift() {
    let mut world = World::new(&[neighbour()]);
    let transaction = world.transaction("good", "n", "f", b"");
    let first = Arc::new(on_big_stack(|| world.executor.execute(&transaction, &world.state, &world.catalog)));
    let other = world.transaction("good", "m", "f", b"");
    let mut overlay = Box::new(Overlay::default());
    first.writes().for_each(|write| overlay.apply(write));
    on_big_stack(|| {
        let (again, overlay) = world.executor.fall_back(&transaction, &world.state, &world.catalog, overlay, &first);
        assert_eq!((again.outcome.as_deref(), again.drifted), (Ok(&[2][..]), false), "sees the overlay's write");
        let (drifts, overlay) = world.executor.fall_back(&other, &world.state, &world.catalog, overlay, &first);
        assert!(drifts.drifted);
        assert_eq!(overlay.into_writes().len(), 1);
    });
}

#[test]
fn the_hosts_work_costs_fuel_too() {
    // Logs 60 KB over and over, and counts: about 50 rounds with 3 million units of fuel.
    let body = "
      (loop $l
        (call $log (i32.const 0) (i32.const 65536) (i32.const 60000))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (i32.store8 (i32.const 2048) (local.get $i))
        (call $put-own (i32.const 2048) (i32.const 1))
        (br $l))
      (unreachable)";
    let mut world = World::with(&[Guest::body("A", &["f"], body)], small(), Determinism::Off, Isolation::Warm);
    let execution = world.run("A", "k", "f", b"");
    assert_eq!((code(&execution), execution.fuel), (Code::OutOfFuel, small().fuel), "{}", message(&execution));
    let (_, access) = execution.footprint.accesses.iter().next().unwrap();
    let rounds = access.write().flatten().unwrap()[0];
    assert!((40..=50).contains(&rounds), "{rounds} rounds");
}

/// What an epoch may use bounds how many entities its machine steps meet: about 900,000 with 1,000 million.
#[test]
fn an_access_costs_what_its_epoch_will_have_of_it() {
    // Reads another entity over and over, and counts; the count is what its own one says when it ends.
    let body = "
      (loop $l
        (call $get (i32.const 1024) (i32.const 4) (i32.const 128))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (i32.store (i32.const 2048) (local.get $i))
        (call $put-own (i32.const 2048) (i32.const 4))
        (br $l))
      (unreachable)";
    let mut world = World::with(&[Guest::body("A", &["f"], body)], small(), Determinism::Off, Isolation::Warm);
    let execution = world.run("A", "k", "f", b"");
    assert_eq!(code(&execution), Code::OutOfFuel, "{}", message(&execution));
    let rounds = execution.footprint.accesses.iter().find_map(|(_, access)| access.write().flatten().cloned()).unwrap();
    let rounds = u32::from_le_bytes(rounds[..4].try_into().unwrap());
    assert!((2_000..=2_600).contains(&rounds), "{rounds} rounds");
}

#[test]
fn calls_may_nest_to_the_limit_with_full_stacks() {
    // Each call recurses as deep as its own stack allows, and calls the next one from down there.
    let code_text = format!(
        "(data (i32.const 1024) \"Af\")
         (func $dive (param $depth i32) (param $k i32) (param $kl i32) (param $a i32) (param $al i32) (result i32)
           (if (i32.eqz (local.get $depth)) (then
             (call $call (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (local.get $a) (local.get $al) (i32.const 128))
             (return (i32.const 0))))
           (i32.add (i32.const 1) (call $dive (i32.sub (local.get $depth) (i32.const 1)) (local.get $k) (local.get $kl) (local.get $a) (local.get $al))))
         {}",
        invoke("(drop (call $dive (i32.load (local.get $a)) (local.get $k) (local.get $kl) (local.get $a) (local.get $al))) (call $ok (i32.const 0) (i32.const 0))")
    );
    let limits = Limits { call_depth: 1000, ..Limits::default() };
    let mut world = World::with(&[Guest::new("A", &["f"], code_text)], limits, Determinism::Off, Isolation::Warm);
    // The deepest dive that does not overflow by itself; then every level makes it.
    let (mut fits, mut overflows) = (1u32, 1 << 20);
    while overflows - fits > 500 {
        let middle = fits + (overflows - fits) / 2;
        let execution = world.run("A", "k", "f", &middle.to_le_bytes());
        assert_ne!(code(&execution), Code::OutOfFuel);
        match code(&execution) {
            Code::GuestTrap => overflows = middle,
            _ => fits = middle,
        }
    }
    assert!(fits > 5_000, "{fits}");
    let execution = world.run("A", "k", "f", &fits.to_le_bytes());
    assert_eq!(code(&execution), Code::LimitExceeded, "{}", message(&execution));
    assert!(message(&execution).contains("deeper than 64"), "{}", message(&execution));
    assert_eq!(execution.calls.len(), 65);
}

#[test]
fn memory_that_is_asked_for_deep_down_the_stack_hurts_nobody() {
    // Dives, and has the host call `realloc` from down there, which dives without end.
    let code_text = format!(
        "(func $dive (param $depth i32) (result i32)
           (if (i32.eqz (local.get $depth)) (then
             (i32.store (i32.const 1000) (i32.const 1))
             (call $key (i32.const 128))
             (return (i32.const 0))))
           (i32.add (i32.const 1) (call $dive (i32.sub (local.get $depth) (i32.const 1)))))
         {}",
        invoke("(drop (call $dive (i32.load (local.get $a)))) (call $ok (i32.const 0) (i32.const 0))")
    );
    let mut guest = Guest::new("A", &["f"], code_text);
    guest.realloc = [
        "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))",
        "(if (i32.load (i32.const 1000)) (then (drop (call $deep (i32.const 0)))))",
    ];
    let mut world = World::new(&[guest, neighbour()]);
    for depth in (0..40_000u32).step_by(2_000) {
        let execution = world.run("A", "k", "f", &depth.to_le_bytes());
        assert_eq!(code(&execution), Code::GuestTrap, "{depth}");
        assert!(message(&execution).contains("stack overflow"), "{depth}: {}", message(&execution));
        assert_eq!(world.run("good", "n", "f", b"").outcome.as_deref(), Ok(&[1][..]));
    }
}

/// Reads nothing.
#[derive(Debug)]
struct Blind;

impl Reader for Blind {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        panic!("{operation:?}")
    }
}

#[test]
fn who_gets_no_memory_in_an_epoch_gets_it_beside_it_and_no_transaction_more_than_one_may_have() {
    const MIB: usize = 1 << 20;
    // Grows by three MiB, and calls itself so many times as the first byte of its arguments says.
    let body = "
      (if (i32.eq (memory.grow (i32.const 48)) (i32.const -1)) (then (unreachable)))
      (local.set $i (i32.load8_u (local.get $a)))
      (if (local.get $i) (then
        (i32.store8 (i32.const 1024) (i32.const 65)) (i32.store8 (i32.const 1025) (i32.const 102))
        (i32.store8 (i32.const 1026) (i32.sub (local.get $i) (i32.const 1)))
        (call $call (i32.const 1024) (i32.const 1) (local.get $k) (local.get $kl) (i32.const 1025) (i32.const 1) (i32.const 1026) (i32.const 1) (i32.const 128))))
      (call $ok (i32.const 0) (i32.const 0))";
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let mut world = World::set_up(&[Guest::body("A", &["f"], body), neighbour()], limits, Isolation::Warm, |cache| {
        let long = Some(Long::default());
        EngineOptions { long, guest_memory: 5 * MIB, ..options(cache, Determinism::Off) }
    });
    let in_epoch = world.run("A", "k", "f", &[0]);
    assert!(in_epoch.postponed, "an app alone gets half: {:?}", in_epoch.outcome);
    assert_eq!(world.run("good", "n", "f", b"").outcome.as_deref(), Ok(&[1][..]), "what needs none is run");

    for (calls, fits) in [(0, true), (1, true), (2, false)] {
        let transaction = world.transaction("A", "k", "f", &[calls]);
        let catalog = world.catalog.clone();
        let task = LongTask { run: RunId(0), transaction, layout: LAYOUT, catalog };
        let ended = on_big_stack(|| world.executor.run_long(&task, Box::new(Blind)));
        assert!(!ended.postponed);
        if fits {
            assert_eq!(text(&ended), "", "{calls}");
        } else {
            assert_eq!(code(&ended), Code::LimitExceeded);
            assert!(message(&ended).contains("(--guest-memory)"), "{}", message(&ended));
        }
    }
    assert!(world.run("A", "k", "f", &[0]).postponed, "all of it was given back, and no more");
}
