;; What a Go guest has instead of an operating system. Merged into the guest's own module, so that these are plain calls.
;;
;; Time and random numbers are the transaction's; standard output and error become log lines; there is nothing else: calls
;; that are not here return an error. Imports of the host are called only while a function runs (`running`), but for the
;; log, which has what ends the start too. While the host lowers values into the guest's memory it cannot be called at all
;; (`lowering`), and the collector may run then and ask for the time.
(module
  (import "styx:guest/context@0.2.0" "random" (func $host_random (result i64)))
  (import "styx:guest/logging@0.2.0" "log" (func $host_log (param i32 i32 i32)))
  (import "guest" "styx_invoke" (func $guest_invoke (param i32 i32 i32 i32 i32 i32 i64 i64) (result i32)))
  (import "guest" "styx_describe" (func $guest_describe (result i32)))
  (import "guest" "styx_allocate" (func $guest_allocate (param i32) (result i32)))
  (import "guest" "memory" (memory 0))

  (global $running (mut i32) (i32.const 0))
  (global $lowering (mut i32) (i32.const 0))
  ;; Where values are lowered to: a region of the guest's, used as a stack.
  (global $base (mut i32) (i32.const 0))
  (global $next (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 0))
  ;; Nanoseconds of the monotonic clock, which only sleeping moves; and of what was slept in this invocation.
  (global $monotonic (mut i64) (i64.const 1000000000))
  (global $slept (mut i64) (i64.const 0))
  ;; Nanoseconds since 1970.
  (global $time (mut i64) (i64.const 0))
  (global $seeded (mut i32) (i32.const 0))
  (global $generator (mut i64) (i64.const 0x5deece66d))
  ;; The line being written, in the guest's memory.
  (global $line (mut i32) (i32.const 0))
  (global $line_max (mut i32) (i32.const 0))
  (global $line_length (mut i32) (i32.const 0))
  (global $line_level (mut i32) (i32.const 1))

  ;; The guest gives its regions, when it is initialized.
  (func (export "styx.regions") (param $base i32) (param $size i32) (param $line i32) (param $line_max i32)
    (global.set $base (local.get $base))
    (global.set $next (local.get $base))
    (global.set $end (i32.add (local.get $base) (local.get $size)))
    (global.set $line (local.get $line))
    (global.set $line_max (local.get $line_max)))

  ;; The region's mark, and going back to one: what was lowered since is no longer needed.
  (func (export "styx.mark") (result i32) (global.get $next))
  (func (export "styx.release") (param $mark i32) (global.set $next (local.get $mark)))

  (func $cabi_realloc (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32) (local $was_running i32)
    (local.set $at
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (if (i32.le_u (local.get $size) (i32.sub (global.get $end) (local.get $at)))
      (then
        (if (i32.gt_u (local.get $at) (global.get $end)) (then (unreachable)))
        (global.set $next (i32.add (local.get $at) (local.get $size))))
      (else
        (local.set $was_running (global.get $running))
        (global.set $running (i32.const 0))
        (global.set $lowering (i32.const 1))
        (local.set $at (call $guest_allocate (local.get $size)))
        (global.set $lowering (i32.const 0))
        (global.set $running (local.get $was_running))))
    (if (local.get $old_size)
      (then (memory.copy (local.get $at) (local.get $old)
        (select (local.get $size) (local.get $old_size) (i32.lt_u (local.get $size) (local.get $old_size))))))
    (local.get $at))

  (func (export "invoke") (param i32 i32 i32 i32 i32 i32 i64 i64) (result i32)
    (local $result i32)
    (global.set $running (i32.const 1))
    (global.set $time (i64.mul (local.get 7) (i64.const 1000)))
    (global.set $seeded (i32.const 0))
    (global.set $slept (i64.const 0))
    (local.set $result
      (call $guest_invoke
        (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6) (local.get 7)))
    (if (global.get $line_length) (then (call $end_line)))
    (global.set $running (i32.const 0))
    (global.set $next (global.get $base))
    (local.get $result))

  (func (export "describe") (result i32) (call $guest_describe))

  ;; SplitMix64: seeded from the transaction in an invocation, fixed before the first.
  (func $random (export "styx.random") (result i64)
    (local $mixed i64)
    (if (i32.and (global.get $running) (i32.eqz (global.get $seeded)))
      (then
        (global.set $generator (call $host_random))
        (global.set $seeded (i32.const 1))))
    (global.set $generator (i64.add (global.get $generator) (i64.const 0x9e3779b97f4a7c15)))
    (local.set $mixed (global.get $generator))
    (local.set $mixed (i64.mul
      (i64.xor (local.get $mixed) (i64.shr_u (local.get $mixed) (i64.const 30))) (i64.const 0xbf58476d1ce4e5b9)))
    (local.set $mixed (i64.mul
      (i64.xor (local.get $mixed) (i64.shr_u (local.get $mixed) (i64.const 27))) (i64.const 0x94d049bb133111eb)))
    (i64.xor (local.get $mixed) (i64.shr_u (local.get $mixed) (i64.const 31))))

  (func (export "wasi_snapshot_preview1.random_get") (param $at i32) (param $size i32) (result i32)
    (local $number i64) (local $left i32)
    (loop $bytes
      (if (local.get $size)
        (then
          (if (i32.eqz (local.get $left))
            (then (local.set $number (call $random)) (local.set $left (i32.const 8))))
          (i64.store8 (local.get $at) (local.get $number))
          (local.set $number (i64.shr_u (local.get $number) (i64.const 8)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (local.set $size (i32.sub (local.get $size) (i32.const 1)))
          (br $bytes))))
    (i32.const 0))

  (func (export "wasi_snapshot_preview1.clock_time_get") (param $clock i32) (param $precision i64) (param $at i32) (result i32)
    (if (local.get $clock)
      (then (i64.store (local.get $at) (global.get $monotonic)))
      (else
        (i64.store (local.get $at) (i64.add (global.get $time) (global.get $slept)))))
    (i32.const 0))

  ;; Sleeping takes no time, but the clocks say that it did. Waiting for anything else would never end.
  (func (export "wasi_snapshot_preview1.poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (local $until i64)
    (loop $next
      (if (i32.eqz (local.get $count)) (then (unreachable)))
      (if (i32.load8_u offset=8 (local.get $in))
        (then
          (local.set $in (i32.add (local.get $in) (i32.const 48)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br $next))))
    (local.set $until (i64.load offset=24 (local.get $in)))
    (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $in)) (i32.const 1)))
      (then (local.set $until (i64.add (local.get $until) (global.get $monotonic)))))
    (if (i64.gt_s (local.get $until) (global.get $monotonic))
      (then
        (global.set $slept (i64.add (global.get $slept) (i64.sub (local.get $until) (global.get $monotonic))))
        (global.set $monotonic (local.get $until))))
    (i64.store (local.get $out) (i64.load (local.get $in)))
    (i64.store offset=8 (local.get $out) (i64.const 0))
    (i32.store (local.get $events) (i32.const 1))
    (i32.const 0))

  (func $end_line
    (if (i32.and (i32.eqz (global.get $lowering)) (i32.ne (global.get $line_length) (i32.const 0)))
      (then
        (call $make_utf8)
        (call $host_log (global.get $line_level) (global.get $line) (global.get $line_length))))
    (global.set $line_length (i32.const 0)))

  (func $continues (param $at i32) (result i32)
    (if (result i32) (i32.lt_u (local.get $at) (i32.add (global.get $line) (global.get $line_length)))
      (then (i32.eq (i32.and (i32.load8_u (local.get $at)) (i32.const 0xc0)) (i32.const 0x80)))
      (else (i32.const 0))))

  ;; Bytes of the line that are not UTF-8 become question marks: the host would not take them.
  (func $make_utf8
    (local $at i32) (local $end i32) (local $byte i32) (local $size i32) (local $second i32)
    (local.set $at (global.get $line))
    (local.set $end (i32.add (global.get $line) (global.get $line_length)))
    (loop $bytes
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then
          (local.set $byte (i32.load8_u (local.get $at)))
          (local.set $size (i32.const 0))
          (block $judged
            (if (i32.lt_u (local.get $byte) (i32.const 0x80))
              (then (local.set $size (i32.const 1)) (br $judged)))
            (br_if $judged (i32.or
              (i32.lt_u (local.get $byte) (i32.const 0xc2)) (i32.gt_u (local.get $byte) (i32.const 0xf4))))
            (br_if $judged (i32.eqz (call $continues (i32.add (local.get $at) (i32.const 1)))))
            (local.set $second (i32.load8_u offset=1 (local.get $at)))
            (if (i32.lt_u (local.get $byte) (i32.const 0xe0))
              (then (local.set $size (i32.const 2)) (br $judged)))
            ;; Overlong forms, surrogates, and what lies beyond the last code point.
            (br_if $judged (i32.and (i32.eq (local.get $byte) (i32.const 0xe0)) (i32.lt_u (local.get $second) (i32.const 0xa0))))
            (br_if $judged (i32.and (i32.eq (local.get $byte) (i32.const 0xed)) (i32.gt_u (local.get $second) (i32.const 0x9f))))
            (br_if $judged (i32.and (i32.eq (local.get $byte) (i32.const 0xf0)) (i32.lt_u (local.get $second) (i32.const 0x90))))
            (br_if $judged (i32.and (i32.eq (local.get $byte) (i32.const 0xf4)) (i32.gt_u (local.get $second) (i32.const 0x8f))))
            (br_if $judged (i32.eqz (call $continues (i32.add (local.get $at) (i32.const 2)))))
            (if (i32.lt_u (local.get $byte) (i32.const 0xf0))
              (then (local.set $size (i32.const 3)) (br $judged)))
            (br_if $judged (i32.eqz (call $continues (i32.add (local.get $at) (i32.const 3)))))
            (local.set $size (i32.const 4)))
          (if (i32.eqz (local.get $size))
            (then
              (i32.store8 (local.get $at) (i32.const 0x3f))
              (local.set $size (i32.const 1))))
          (local.set $at (i32.add (local.get $at) (local.get $size)))
          (br $bytes)))))

  (func $write (param $at i32) (param $size i32)
    (local $byte i32)
    (loop $bytes
      (if (local.get $size)
        (then
          (local.set $byte (i32.load8_u (local.get $at)))
          (if (i32.eq (local.get $byte) (i32.const 10))
            (then (call $end_line))
            (else
              (if (i32.ge_u (global.get $line_length) (global.get $line_max)) (then (call $end_line)))
              (if (global.get $line_max)
                (then
                  (i32.store8 (i32.add (global.get $line) (global.get $line_length)) (local.get $byte))
                  (global.set $line_length (i32.add (global.get $line_length) (i32.const 1)))))))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (local.set $size (i32.sub (local.get $size) (i32.const 1)))
          (br $bytes)))))

  ;; Standard output has the level info, standard error error.
  (func (export "wasi_snapshot_preview1.fd_write") (param $file i32) (param $vectors i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32) (local $level i32)
    (if (i32.gt_u (i32.sub (local.get $file) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (local.set $level (select (i32.const 1) (i32.const 3) (i32.eq (local.get $file) (i32.const 1))))
    (if (i32.ne (global.get $line_level) (local.get $level))
      (then (call $end_line) (global.set $line_level (local.get $level))))
    (loop $next
      (if (local.get $count)
        (then
          (call $write (i32.load (local.get $vectors)) (i32.load offset=4 (local.get $vectors)))
          (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $vectors))))
          (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (br $next))))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  ;; A guest ends by returning. Who exits has given up.
  (func (export "wasi_snapshot_preview1.proc_exit") (param i32) (call $end_line) (unreachable))
  (func (export "wasi_snapshot_preview1.sched_yield") (result i32) (i32.const 0))

  (func $nothing (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $size) (i32.const 0))
    (i32.const 0))
  (func (export "wasi_snapshot_preview1.args_sizes_get") (param i32 i32) (result i32) (call $nothing (local.get 0) (local.get 1)))
  (func (export "wasi_snapshot_preview1.environ_sizes_get") (param i32 i32) (result i32) (call $nothing (local.get 0) (local.get 1)))
  (func (export "wasi_snapshot_preview1.args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "wasi_snapshot_preview1.environ_get") (param i32 i32) (result i32) (i32.const 0))
)
