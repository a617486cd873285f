//! A guest of 0.1 of the contract made one of 0.2: what it does to its own entity is kept in between, as SDKs do, and told
//! with calls and results.

/// The world around a guest.
pub fn world(told: bool) -> String {
    let world = include_str!("world.wat");
    if !told {
        return world.to_owned();
    }
    let mut changed = world.replace("@0.1.0", "@0.2.0");
    for (from, to) in CHANGES {
        assert_eq!(changed.matches(from).count(), 1, "{from}");
        changed = changed.replace(from, to);
    }
    changed
}

const CHANGES: [(&str, &str); 8] = [
    (
        r#"    (export "description" (type $description (eq $d)))))"#,
        r#"    (export "description" (type $description (eq $d)))
    (type $t (enum "untold" "told" "absent"))
    (export "entity-told" (type $entity-told (eq $t)))
    (type $bytes (list u8))
    (type $i (record (field "bytes" $bytes) (field "function-end" u32) (field "key-end" u32) (field "arguments-end" u32)
      (field "entity" $entity-told) (field "tid" u64) (field "time" u64)))
    (export "invocation" (type $invocation (eq $i)))
    (type $c (variant (case "none") (case "put" $bytes) (case "delete")))
    (export "change" (type $change (eq $c)))
    (type $a (record (field "read" bool) (field "change" $change)))
    (export "entity-access" (type $access (eq $a)))
    (type $returned (result $bytes (error $failure)))
    (type $o (record (field "entity" $access) (field "returned" $returned)))
    (export "outcome" (type $outcome (eq $o)))))"#,
    ),
    (
        r#"  (alias export $types "description" (type $description))"#,
        r#"  (alias export $types "description" (type $description))
  (alias export $types "invocation" (type $invocation))
  (alias export $types "outcome" (type $told-outcome))
  (alias export $types "entity-access" (type $access))"#,
    ),
    (
        r#"    (alias outer 1 $failure (type $f))"#,
        r#"    (alias outer 1 $access (type $a))
    (export "entity-access" (type $access (eq $a)))
    (alias outer 1 $failure (type $f))"#,
    ),
    (
        r#"(export "call" (func (param "operator" string)"#,
        r#"(export "call" (func (param "entity" $access) (param "operator" string)"#,
    ),
    (
        r#"  (core instance $guest (instantiate $Guest"#,
        r#"  (core module $Between
    (import "env" "memory" (memory 1))
    (import "host" "get" (func $host-get (param i32 i32 i32)))
    (import "host" "put" (func $host-put (param i32 i32 i32 i32)))
    (import "host" "delete" (func $host-delete (param i32 i32)))
    (import "host" "scan" (func $host-scan (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "host" "get-own" (func $host-get-own (param i32)))
    (import "host" "put-own" (func $host-put-own (param i32 i32)))
    (import "host" "delete-own" (func $host-delete-own))
    (import "host" "call" (func $host-call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (global $told (mut i32) (i32.const 0))
    (global $value (mut i32) (i32.const 0))
    (global $value_len (mut i32) (i32.const 0))
    (global $read (mut i32) (i32.const 0))
    (global $change (mut i32) (i32.const 0))
    (global $len (mut i32) (i32.const 0))   ;; what is put lies at 98304
    (func (export "begin") (param $told i32) (param $value i32) (param $len i32)
      (global.set $told (local.get $told)) (global.set $value (local.get $value)) (global.set $value_len (local.get $len))
      (global.set $read (i32.const 0)) (global.set $change (i32.const 0)))
    (func (export "end") (param $at i32)
      (i32.store (local.get $at) (global.get $read))
      (i32.store offset=4 (local.get $at) (global.get $change))
      (i32.store offset=8 (local.get $at) (i32.const 98304))
      (i32.store offset=12 (local.get $at) (global.get $len)))
    (func $tell
      (if (global.get $read) (then
        (call $host-get-own (i32.const 1008)) (global.set $read (i32.const 0))))
      (if (i32.eq (global.get $change) (i32.const 1)) (then (call $host-put-own (i32.const 98304) (global.get $len))))
      (if (i32.eq (global.get $change) (i32.const 2)) (then (call $host-delete-own)))
      (if (global.get $change) (then (global.set $told (i32.const 0)) (global.set $change (i32.const 0)))))
    (func (export "get-own") (param $at i32)
      (if (global.get $change) (then
        (i32.store8 (local.get $at) (i32.eq (global.get $change) (i32.const 1)))
        (i32.store offset=4 (local.get $at) (i32.const 98304)) (i32.store offset=8 (local.get $at) (global.get $len))
        (return)))
      (if (global.get $told) (then
        (global.set $read (i32.const 1))
        (i32.store8 (local.get $at) (i32.eq (global.get $told) (i32.const 1)))
        (i32.store offset=4 (local.get $at) (global.get $value)) (i32.store offset=8 (local.get $at) (global.get $value_len))
        (return)))
      (call $host-get-own (local.get $at)))
    (func (export "put-own") (param $at i32) (param $len i32)
      (memory.copy (i32.const 98304) (local.get $at) (local.get $len))
      (global.set $len (local.get $len)) (global.set $change (i32.const 1)))
    (func (export "delete-own") (global.set $change (i32.const 2)))
    (func (export "get") (param i32 i32 i32)
      (call $tell) (call $host-get (local.get 0) (local.get 1) (local.get 2)))
    (func (export "put") (param i32 i32 i32 i32)
      (call $tell) (global.set $told (i32.const 0))
      (call $host-put (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
    (func (export "delete") (param i32 i32)
      (call $tell) (global.set $told (i32.const 0)) (call $host-delete (local.get 0) (local.get 1)))
    (func (export "scan") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
      (call $tell)
      (call $host-scan (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6)
        (local.get 7) (local.get 8) (local.get 9) (local.get 10)))
    (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32)
      (local $read i32) (local $change i32)
      (local.set $read (global.get $read)) (local.set $change (global.get $change))
      (global.set $read (i32.const 0)) (global.set $change (i32.const 0)) (global.set $told (i32.const 0))
      (call $host-call (local.get $read) (local.get $change) (i32.const 98304) (global.get $len)
        (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5) (local.get 6) (local.get 7)
        (local.get 8))))
  (core instance $between (instantiate $Between
    (with "env" (instance (export "memory" (memory $mem))))
    (with "host" (instance
      (export "get" (func $get)) (export "put" (func $put)) (export "delete" (func $delete)) (export "scan" (func $scan))
      (export "get-own" (func $get-own)) (export "put-own" (func $put-own)) (export "delete-own" (func $delete-own))
      (export "call" (func $call))))))
  (core instance $guest (instantiate $Guest"#,
    ),
    (
        r#"      (export "get" (func $get)) (export "put" (func $put)) (export "delete" (func $delete)) (export "scan" (func $scan))
      (export "get-own" (func $get-own)) (export "put-own" (func $put-own)) (export "delete-own" (func $delete-own))
      (export "call" (func $call)) (export "call-async" (func $call-async))"#,
        r#"      (export "get" (func $between "get")) (export "put" (func $between "put"))
      (export "delete" (func $between "delete")) (export "scan" (func $between "scan"))
      (export "get-own" (func $between "get-own")) (export "put-own" (func $between "put-own"))
      (export "delete-own" (func $between "delete-own"))
      (export "call" (func $between "call")) (export "call-async" (func $call-async))"#,
    ),
    (
        r#"  (type $invoke (func (param "function" string) (param "key" string) (param "args" $bytes) (result $outcome)))"#,
        r#"  (core module $Outside
    (import "env" "memory" (memory 1))
    (import "between" "begin" (func $begin (param i32 i32 i32)))
    (import "between" "end" (func $end (param i32)))
    (import "guest" "invoke" (func $invoke (param i32 i32 i32 i32 i32 i32) (result i32)))
    ;; What is returned lies at 88.
    (func (export "invoke") (param $b i32) (param $n i32) (param $f i32) (param $k i32) (param $a i32) (param $told i32)
      (param i64 i64) (result i32)
      (local $at i32)
      (call $begin (local.get $told) (i32.add (local.get $b) (local.get $a)) (i32.sub (local.get $n) (local.get $a)))
      (local.set $at (call $invoke
        (local.get $b) (local.get $f)
        (i32.add (local.get $b) (local.get $f)) (i32.sub (local.get $k) (local.get $f))
        (i32.add (local.get $b) (local.get $k)) (i32.sub (local.get $a) (local.get $k))))
      (call $end (i32.const 88))
      (memory.copy (i32.const 104) (local.get $at) (i32.const 20))
      (i32.const 88)))
  (core instance $outside (instantiate $Outside
    (with "env" (instance (export "memory" (memory $mem))))
    (with "between" (instance $between))
    (with "guest" (instance $guest))))
  (type $invoke (func (param "invocation" $invocation) (result $told-outcome)))"#,
    ),
    (
        r#"  (alias core export $guest "invoke" (core func $invoke))"#,
        r#"  (alias core export $outside "invoke" (core func $invoke))"#,
    ),
];
