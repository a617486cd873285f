//! WASI, answered from the transaction: clocks, random numbers, output; and nothing else.

use super::support::{Guest, World, invoke, text};
use styx_engine::Determinism;
use styx_protocol::attempt::LogLevel;
use styx_protocol::deployment::{Isolation, Limits};

const IMPORTS: &str = r#"
  (import "wasi:clocks/wall-clock@0.2.0" (instance $wall
    (type $d (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type $datetime (eq $d)))
    (export "now" (func (result $datetime)))))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $monotonic
    (export "now" (func (result u64)))))
  (import "wasi:random/random@0.2.3" (instance $wasi-random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))
    (export "get-random-u64" (func (result u64)))))
  (import "wasi:cli/environment@0.2.0" (instance $environment
    (export "get-arguments" (func (result (list string))))))
  (import "wasi:io/error@0.2.0" (instance $io-error (export "error" (type (sub resource)))))
  (alias export $io-error "error" (type $io-error-type))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $output (sub resource)))
    (alias outer 1 $io-error-type (type $e))
    (export "error" (type $error (eq $e)))
    (type $se (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $se)))
    (export "[method]output-stream.blocking-write-and-flush" (func (param "self" (borrow $output)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output-type))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output-type (type $o))
    (export "output-stream" (type $output (eq $o)))
    (export "get-stdout" (func (result (own $output))))))
  (import "wasi:filesystem/types@0.2.0" (instance $files-types (export "descriptor" (type (sub resource)))))
  (alias export $files-types "descriptor" (type $descriptor-type))
  (import "wasi:filesystem/preopens@0.2.0" (instance $files
    (alias outer 1 $descriptor-type (type $d))
    (export "descriptor" (type $descriptor (eq $d)))
    (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))))
"#;

const LOWERED: &str = r#"
  (core func $wall-now (canon lower (func $wall "now") (memory $mem) (realloc $realloc)))
  (core func $monotonic-now (canon lower (func $monotonic "now") (memory $mem) (realloc $realloc)))
  (core func $random-bytes (canon lower (func $wasi-random "get-random-bytes") (memory $mem) (realloc $realloc)))
  (core func $random-u64 (canon lower (func $wasi-random "get-random-u64") (memory $mem) (realloc $realloc)))
  (core func $arguments (canon lower (func $environment "get-arguments") (memory $mem) (realloc $realloc)))
  (core func $get-stdout (canon lower (func $stdout "get-stdout") (memory $mem) (realloc $realloc)))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $mem) (realloc $realloc)))
  (core func $directories (canon lower (func $files "get-directories") (memory $mem) (realloc $realloc)))
"#;

const EXTERNS: &str = r#"
  (import "wasi" "wall-now" (func $wall-now (param i32)))
  (import "wasi" "monotonic-now" (func $monotonic-now (result i64)))
  (import "wasi" "random-bytes" (func $random-bytes (param i64 i32)))
  (import "wasi" "random-u64" (func $random-u64 (result i64)))
  (import "wasi" "arguments" (func $arguments (param i32)))
  (import "wasi" "get-stdout" (func $get-stdout (result i32)))
  (import "wasi" "write" (func $write (param i32 i32 i32 i32)))
  (import "wasi" "directories" (func $directories (param i32)))
  (global $at-start (mut i64) (i64.const 0))
  (func $start (global.set $at-start (call $random-u64)))
  (start $start)
"#;

const INSTANCES: &str = r#"
  (with "wasi" (instance
    (export "wall-now" (func $wall-now)) (export "monotonic-now" (func $monotonic-now))
    (export "random-bytes" (func $random-bytes)) (export "random-u64" (func $random-u64))
    (export "arguments" (func $arguments)) (export "get-stdout" (func $get-stdout)) (export "write" (func $write))
    (export "directories" (func $directories))))
"#;

fn guest(body: &str) -> Guest {
    Guest { foreign: [IMPORTS, LOWERED, EXTERNS, INSTANCES], ..Guest::new("A", &["f"], invoke(body)) }
}

/// Seconds, nanoseconds, monotonic twice, random twice, eight random bytes, the number drawn at
/// start-up, counts of arguments and directories: 8 bytes each.
const OBSERVE: &str = "
  (call $wall-now (i32.const 2048))
  (i64.store (i32.const 2056) (i64.load32_u (i32.const 2056)))
  (i64.store (i32.const 2064) (call $monotonic-now)) (i64.store (i32.const 2072) (call $monotonic-now))
  (i64.store (i32.const 2080) (call $random-u64)) (i64.store (i32.const 2088) (call $random-u64))
  (call $random-bytes (i64.const 8) (i32.const 128))
  (i64.store (i32.const 2096) (i64.load (i32.load (i32.const 128))))
  (i64.store (i32.const 2104) (global.get $at-start))
  (call $arguments (i32.const 128)) (i64.store (i32.const 2112) (i64.load32_u (i32.const 132)))
  (call $directories (i32.const 128)) (i64.store (i32.const 2120) (i64.load32_u (i32.const 132)))
  (call $ok (i32.const 2048) (i32.const 80))";

fn observe(world: &mut World) -> Vec<u64> {
    let execution = world.run("A", "k", "f", b"");
    let bytes = execution.outcome.unwrap_or_else(|abort| panic!("{abort}"));
    bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn time_and_chance_are_the_transactions() {
    let mut world = World::new(&[guest(OBSERVE)]);
    let seen = observe(&mut world);
    assert_eq!(&seen[..2], [1_700_000_000, 0], "the logged time");
    assert_eq!(seen[3] - seen[2], 1000, "looking at the clock is what makes it go");
    assert_ne!(seen[4], seen[5]);
    assert_eq!(&seen[8..], [0, 0], "no arguments, no directories");
    world.next_tid -= 1;
    assert_eq!(observe(&mut world), seen, "the same transaction sees the same again, in a warm instance");
    let other = observe(&mut world);
    assert_ne!(other[4..7], seen[4..7], "another transaction draws other numbers");
    assert_eq!(other[7], seen[7], "start-up draws the same in every instance");
    let mut fresh = World::with(&[guest(OBSERVE)], Limits::default(), Determinism::Off, Isolation::Fresh);
    assert_eq!(observe(&mut fresh), seen);
}

#[test]
fn the_determinism_check_passes() {
    let mut world = World::with(&[guest(OBSERVE)], Limits::default(), Determinism::All, Isolation::Warm);
    for _ in 0..5 {
        observe(&mut world);
    }
    assert_eq!((world.executor.statistics().compared, world.executor.statistics().differed), (5, 0));
}

#[test]
fn what_is_printed_becomes_log_lines() {
    // Prints the arguments and a newline, logs, prints the arguments' first byte.
    let body = "
      (local.set $i (call $get-stdout))
      (memory.copy (i32.const 2048) (local.get $a) (local.get $al))
      (i32.store8 (i32.add (i32.const 2048) (local.get $al)) (i32.const 10))
      (call $write (local.get $i) (i32.const 2048) (i32.add (local.get $al) (i32.const 1)) (i32.const 128))
      (call $log (i32.const 2) (local.get $k) (local.get $kl))
      (call $write (local.get $i) (local.get $a) (i32.const 1) (i32.const 128))
      (call $ok (local.get $a) (local.get $al))";
    let mut world = World::new(&[guest(body)]);
    for said in ["one", "two\nthree"] {
        let execution = world.run("A", "k", "f", said.as_bytes());
        assert_eq!(text(&execution), said);
        let lines: Vec<_> = execution.logs.iter().map(|line| (line.level, line.message.as_str())).collect();
        let mut expected: Vec<_> = said.lines().map(|line| (LogLevel::Info, line)).collect();
        expected.push((LogLevel::Warn, "k"));
        expected.push((LogLevel::Info, &said[..1]));
        assert_eq!(lines, expected);
    }
    assert_eq!(world.executor.idle_instances(), 1);
}

#[test]
fn greedy_requests_for_randomness_trap() {
    let mut world = World::new(&[guest(
        "(call $random-bytes (i64.const -1) (i32.const 128)) (call $ok (i32.const 0) (i32.const 0))",
    )]);
    let abort = world.run("A", "k", "f", b"").outcome.unwrap_err();
    assert!(abort.message.contains("random bytes"), "{abort}");
}
