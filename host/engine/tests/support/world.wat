(component
  ;; The world `styx:guest/function`, by hand. The tests fill in the comments in capitals.
  (type $types-type (instance
    (type $f (record (field "code" string) (field "message" string)))
    (export "failure" (type $failure (eq $f)))
    (type $p (record (field "name" string) (field "schema" string) (field "required" bool)))
    (export "parameter" (type $parameter (eq $p)))
    (type $ps (list $parameter))
    (type $fd (record (field "name" string) (field "parameters" $ps) (field "returns" string) (field "read-only" bool) (field "doc" string)))
    (export "function-description" (type $function-description (eq $fd)))
    (type $os (option string))
    (type $fds (list $function-description))
    (type $od (record (field "name" string) (field "key-prefix" $os) (field "doc" string) (field "functions" $fds)))
    (export "operator-description" (type $operator-description (eq $od)))
    (type $ods (list $operator-description))
    (type $d (record (field "sdk" string) (field "operators" $ods)))
    (export "description" (type $description (eq $d)))))
  (import "styx:guest/types@0.1.0" (instance $types (type $types-type)))
  (alias export $types "failure" (type $failure))
  (alias export $types "description" (type $description))

  (type $state-type (instance
    (type $b (variant (case "unbounded") (case "included" string) (case "excluded" string)))
    (export "bound" (type $bound (eq $b)))
    (type $r (record (field "prefix" string) (field "lower" $bound) (field "upper" $bound)))
    (export "key-range" (type $range (eq $r)))
    (type $bytes (list u8))
    (type $maybe (option $bytes))
    (type $entry (tuple string $bytes))
    (type $entries (list $entry))
    (export "get" (func (param "key" string) (result $maybe)))
    (export "put" (func (param "key" string) (param "value" $bytes)))
    (export "delete" (func (param "key" string)))
    (export "scan" (func (param "range" $range) (param "limit" u32) (param "reverse" bool) (result $entries)))
    (export "get-own" (func (result $maybe)))
    (export "put-own" (func (param "value" $bytes)))
    (export "delete-own" (func))))
  (import "styx:guest/state@0.1.0" (instance $state (type $state-type)))

  (type $calls-type (instance
    (alias outer 1 $failure (type $f))
    (export "failure" (type $failure (eq $f)))
    (type $bytes (list u8))
    (type $outcome (result $bytes (error $failure)))
    (export "call" (func (param "operator" string) (param "key" string) (param "function" string) (param "args" $bytes) (result $outcome)))
    (export "call-async" (func (param "operator" string) (param "key" string) (param "function" string) (param "args" $bytes)))))
  (import "styx:guest/calls@0.1.0" (instance $calls (type $calls-type)))

  (type $context-type (instance
    (export "app" (func (result string)))
    (export "operator" (func (result string)))
    (export "key" (func (result string)))
    (export "tid" (func (result u64)))
    (export "request-id" (func (result string)))
    (export "time" (func (result u64)))
    (export "random" (func (result u64)))))
  (import "styx:guest/context@0.1.0" (instance $context (type $context-type)))

  (type $logging-type (instance
    (type $l (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (import "styx:guest/logging@0.1.0" (instance $logging (type $logging-type)))

  ;;IMPORTS

  ;; Memory and a bump allocator that post-return resets.
  (core module $Memory
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 131072))
    ;;MEMORY
    (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      ;;REALLOC
      (local.set $at (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1))) (i32.sub (i32.const 0) (local.get $align))))
      (global.set $next (i32.add (local.get $at) (local.get $size)))
      (block $fits
        (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
        (br_if $fits (i32.ne (i32.const -1) (memory.grow
          (i32.div_u (i32.add (i32.sub (global.get $next) (i32.mul (memory.size) (i32.const 65536))) (i32.const 65535)) (i32.const 65536)))))
        (unreachable))
      (local.get $at))
    (func (export "reset") (param i32) (global.set $next (i32.const 131072))))
  (core instance $memory (instantiate $Memory))
  (alias core export $memory "memory" (core memory $mem))
  (alias core export $memory "realloc" (core func $realloc))
  (alias core export $memory "reset" (core func $reset))

  (core func $get (canon lower (func $state "get") (memory $mem) (realloc $realloc)))
  (core func $put (canon lower (func $state "put") (memory $mem) (realloc $realloc)))
  (core func $delete (canon lower (func $state "delete") (memory $mem) (realloc $realloc)))
  (core func $scan (canon lower (func $state "scan") (memory $mem) (realloc $realloc)))
  (core func $get-own (canon lower (func $state "get-own") (memory $mem) (realloc $realloc)))
  (core func $put-own (canon lower (func $state "put-own") (memory $mem) (realloc $realloc)))
  (core func $delete-own (canon lower (func $state "delete-own") (memory $mem) (realloc $realloc)))
  (core func $call (canon lower (func $calls "call") (memory $mem) (realloc $realloc)))
  (core func $call-async (canon lower (func $calls "call-async") (memory $mem) (realloc $realloc)))
  (core func $key (canon lower (func $context "key") (memory $mem) (realloc $realloc)))
  (core func $tid (canon lower (func $context "tid") (memory $mem) (realloc $realloc)))
  (core func $request-id (canon lower (func $context "request-id") (memory $mem) (realloc $realloc)))
  (core func $time (canon lower (func $context "time") (memory $mem) (realloc $realloc)))
  (core func $random (canon lower (func $context "random") (memory $mem) (realloc $realloc)))
  (core func $app (canon lower (func $context "app") (memory $mem) (realloc $realloc)))
  (core func $operator (canon lower (func $context "operator") (memory $mem) (realloc $realloc)))
  (core func $log (canon lower (func $logging "log") (memory $mem) (realloc $realloc)))
  ;;LOWERED

  (core module $Guest
    (import "env" "memory" (memory 1))
    (import "env" "realloc" (func $realloc (param i32 i32 i32 i32) (result i32)))
    (import "styx" "get" (func $get (param i32 i32 i32)))
    (import "styx" "put" (func $put (param i32 i32 i32 i32)))
    (import "styx" "delete" (func $delete (param i32 i32)))
    (import "styx" "scan" (func $scan (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "styx" "get-own" (func $get-own (param i32)))
    (import "styx" "put-own" (func $put-own (param i32 i32)))
    (import "styx" "delete-own" (func $delete-own))
    (import "styx" "call" (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "styx" "call-async" (func $call-async (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "styx" "key" (func $key (param i32)))
    (import "styx" "tid" (func $tid (result i64)))
    (import "styx" "request-id" (func $request-id (param i32)))
    (import "styx" "time" (func $time (result i64)))
    (import "styx" "random" (func $random (result i64)))
    (import "styx" "app" (func $app (param i32)))
    (import "styx" "operator" (func $operator (param i32)))
    (import "styx" "log" (func $log (param i32 i32 i32)))
    ;;EXTERNS
    ;; The result area lies at 64; the guest's scratch at 128..1024; names from 1024; the description from 32768.
    (func $ok (param $at i32) (param $len i32) (result i32)
      (i32.store8 (i32.const 64) (i32.const 0))
      (i32.store (i32.const 68) (local.get $at))
      (i32.store (i32.const 72) (local.get $len))
      (i32.const 64))
    (func $err (param $code i32) (param $code_len i32) (param $message i32) (param $message_len i32) (result i32)
      (i32.store8 (i32.const 64) (i32.const 1))
      (i32.store (i32.const 68) (local.get $code))
      (i32.store (i32.const 72) (local.get $code_len))
      (i32.store (i32.const 76) (local.get $message))
      (i32.store (i32.const 80) (local.get $message_len))
      (i32.const 64))
    ;; The last letter of the function's name: what tests dispatch on.
    (func $letter (param $at i32) (param $len i32) (result i32)
      (i32.load8_u (i32.sub (i32.add (local.get $at) (local.get $len)) (i32.const 1))))
    ;;IMAGE
    ;;GUEST
  )
  (core instance $guest (instantiate $Guest
    (with "env" (instance (export "memory" (memory $mem)) (export "realloc" (func $realloc))))
    ;;INSTANCES
    (with "styx" (instance
      (export "get" (func $get)) (export "put" (func $put)) (export "delete" (func $delete)) (export "scan" (func $scan))
      (export "get-own" (func $get-own)) (export "put-own" (func $put-own)) (export "delete-own" (func $delete-own))
      (export "call" (func $call)) (export "call-async" (func $call-async))
      (export "key" (func $key)) (export "tid" (func $tid)) (export "request-id" (func $request-id))
      (export "time" (func $time)) (export "random" (func $random)) (export "app" (func $app)) (export "operator" (func $operator))
      (export "log" (func $log))))))

  (type $bytes (list u8))
  (type $outcome (result $bytes (error $failure)))
  (type $invoke (func (param "function" string) (param "key" string) (param "args" $bytes) (result $outcome)))
  (type $describe (func (result $description)))
  (alias core export $guest "invoke" (core func $invoke))
  (alias core export $guest "describe" (core func $describe))
  (func $invoke (type $invoke) (canon lift (core func $invoke) (memory $mem) (realloc $realloc) (post-return $reset)))
  (func $describe (type $describe) (canon lift (core func $describe) (memory $mem) (realloc $realloc)))
  (export "invoke" (func $invoke))
  (export "describe" (func $describe)))
