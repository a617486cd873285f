//! A guest that does what its arguments say, so that a test is a script, and a random one too.

use super::Guest;

/// What a function is to do, in order. Its result is what the steps with a result have found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(pub Vec<u8>);

impl Script {
    pub fn new() -> Self {
        Script::default()
    }

    fn step(mut self, letter: u8, texts: &[&[u8]]) -> Self {
        self.0.push(letter);
        for text in texts {
            self.0.extend_from_slice(&(text.len() as u16).to_le_bytes());
            self.0.extend_from_slice(text);
        }
        self
    }

    /// The value of a key, or `-`.
    pub fn get(self, key: &str) -> Self {
        self.step(b'g', &[key.as_bytes()])
    }
    pub fn put(self, key: &str, value: &str) -> Self {
        self.step(b'p', &[key.as_bytes(), value.as_bytes()])
    }
    pub fn delete(self, key: &str) -> Self {
        self.step(b'd', &[key.as_bytes()])
    }
    /// The entries of a prefix as `key=value,`; 0 means all.
    pub fn scan(self, prefix: &str, limit: u8, reverse: bool) -> Self {
        self.step(b's', &[prefix.as_bytes(), &[limit], &[u8::from(reverse)]])
    }
    /// The value of the own key, or `-`.
    pub fn get_own(self) -> Self {
        self.step(b'o', &[])
    }
    pub fn put_own(self, value: &str) -> Self {
        self.step(b'w', &[value.as_bytes()])
    }
    /// Adds a text to the own value.
    pub fn append_own(self, text: &str) -> Self {
        self.step(b'e', &[text.as_bytes()])
    }
    /// What a synchronous call returns. Its failure is passed on, with `/KEY` added to the message.
    pub fn call(self, operator: &str, key: &str, script: Script) -> Self {
        self.step(b'c', &[operator.as_bytes(), key.as_bytes(), &script.0])
    }
    pub fn call_async(self, operator: &str, key: &str, script: Script) -> Self {
        self.step(b'a', &[operator.as_bytes(), key.as_bytes(), &script.0])
    }
    /// A random number, the transaction's time and its id.
    pub fn context(self) -> Self {
        self.step(b'r', &[])
    }
    /// Fails with `no KEY`.
    pub fn fail(self) -> Self {
        self.step(b'x', &[])
    }
    pub fn trap(self) -> Self {
        self.step(b't', &[])
    }
    /// Traps in an instance that has served so many calls before.
    pub fn trap_from(self, calls: u8) -> Self {
        self.step(b'n', &[&[calls]])
    }
    /// Uses about so many thousand units of fuel.
    pub fn spin(self, thousands: u8) -> Self {
        self.step(b'f', &[&[thousands]])
    }
    /// Logs the own key.
    pub fn log(self) -> Self {
        self.step(b'l', &[])
    }
}

/// The guest, as an operator. Its one function is called `f`.
pub fn scripted(operator: &'static str) -> Guest {
    Guest::new(operator, &["f"], CODE)
}

const CODE: &str = r#"
  (global $p (mut i32) (i32.const 0))    ;; in the script
  (global $o (mut i32) (i32.const 0))    ;; in the result
  (global $calls (mut i32) (i32.const 0))
  (data (i32.const 1024) "-=,f/ABORTEDno ")
  (func $next (result i32)               ;; a text: its address; its length is before it
    (local $a i32)
    (local.set $a (i32.add (global.get $p) (i32.const 2)))
    (global.set $p (i32.add (local.get $a) (i32.load16_u (global.get $p))))
    (local.get $a))
  (func $len (param $a i32) (result i32) (i32.load16_u (i32.sub (local.get $a) (i32.const 2))))
  (func $out (param $a i32) (param $n i32)
    (memory.copy (global.get $o) (local.get $a) (local.get $n))
    (global.set $o (i32.add (global.get $o) (local.get $n))))
  (func $found                           ;; what a get has left at 128
    (if (i32.load8_u (i32.const 128))
      (then (call $out (i32.load (i32.const 132)) (i32.load (i32.const 136))))
      (else (call $out (i32.const 1024) (i32.const 1)))))
  (func (export "invoke") (param $f i32) (param $fl i32) (param $k i32) (param $kl i32) (param $a i32) (param $al i32) (result i32)
    (local $i i32) (local $x i32) (local $y i32) (local $z i32) (local $end i32)
    (local.set $end (i32.add (local.get $a) (local.get $al)))
    (global.set $p (local.get $a))
    (global.set $o (i32.const 2048))
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (block $done (loop $step
      (br_if $done (i32.ge_u (global.get $p) (local.get $end)))
      (local.set $i (i32.load8_u (global.get $p)))
      (global.set $p (i32.add (global.get $p) (i32.const 1)))
      (if (i32.eq (local.get $i) (i32.const 103)) (then ;; g
        (local.set $x (call $next))
        (call $get (local.get $x) (call $len (local.get $x)) (i32.const 128))
        (call $found)))
      (if (i32.eq (local.get $i) (i32.const 112)) (then ;; p
        (local.set $x (call $next)) (local.set $y (call $next))
        (call $put (local.get $x) (call $len (local.get $x)) (local.get $y) (call $len (local.get $y)))))
      (if (i32.eq (local.get $i) (i32.const 100)) (then ;; d
        (local.set $x (call $next))
        (call $delete (local.get $x) (call $len (local.get $x)))))
      (if (i32.eq (local.get $i) (i32.const 115)) (then ;; s
        (local.set $x (call $next)) (local.set $y (call $next)) (local.set $z (call $next))
        (call $scan (local.get $x) (call $len (local.get $x)) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.load8_u (local.get $y)) (i32.load8_u (local.get $z)) (i32.const 128))
        (local.set $x (i32.load (i32.const 128)))
        (local.set $y (i32.add (local.get $x) (i32.mul (i32.load (i32.const 132)) (i32.const 16))))
        (block $all (loop $entry
          (br_if $all (i32.ge_u (local.get $x) (local.get $y)))
          (call $out (i32.load (local.get $x)) (i32.load offset=4 (local.get $x)))
          (call $out (i32.const 1025) (i32.const 1))
          (call $out (i32.load offset=8 (local.get $x)) (i32.load offset=12 (local.get $x)))
          (call $out (i32.const 1026) (i32.const 1))
          (local.set $x (i32.add (local.get $x) (i32.const 16)))
          (br $entry)))))
      (if (i32.eq (local.get $i) (i32.const 111)) (then ;; o
        (call $get-own (i32.const 128)) (call $found)))
      (if (i32.eq (local.get $i) (i32.const 119)) (then ;; w
        (local.set $x (call $next))
        (call $put-own (local.get $x) (call $len (local.get $x)))))
      (if (i32.eq (local.get $i) (i32.const 101)) (then ;; e
        (local.set $x (call $next))
        (call $get-own (i32.const 128))
        (local.set $y (i32.const 0))
        (if (i32.load8_u (i32.const 128)) (then
          (local.set $y (i32.load (i32.const 136)))
          (memory.copy (i32.const 16384) (i32.load (i32.const 132)) (local.get $y))))
        (memory.copy (i32.add (i32.const 16384) (local.get $y)) (local.get $x) (call $len (local.get $x)))
        (call $put-own (i32.const 16384) (i32.add (local.get $y) (call $len (local.get $x))))))
      (if (i32.eq (local.get $i) (i32.const 99)) (then ;; c
        (local.set $x (call $next)) (local.set $y (call $next)) (local.set $z (call $next))
        (call $call (local.get $x) (call $len (local.get $x)) (local.get $y) (call $len (local.get $y)) (i32.const 1027) (i32.const 1)
          (local.get $z) (call $len (local.get $z)) (i32.const 128))
        (if (i32.load8_u (i32.const 128)) (then
          (global.set $o (i32.const 2048))
          (call $out (i32.load (i32.const 140)) (i32.load (i32.const 144)))
          (call $out (i32.const 1028) (i32.const 1))
          (call $out (local.get $k) (local.get $kl))
          (return (call $err (i32.load (i32.const 132)) (i32.load (i32.const 136)) (i32.const 2048) (i32.sub (global.get $o) (i32.const 2048))))))
        (call $out (i32.load (i32.const 132)) (i32.load (i32.const 136)))))
      (if (i32.eq (local.get $i) (i32.const 97)) (then ;; a
        (local.set $x (call $next)) (local.set $y (call $next)) (local.set $z (call $next))
        (call $call-async (local.get $x) (call $len (local.get $x)) (local.get $y) (call $len (local.get $y)) (i32.const 1027) (i32.const 1)
          (local.get $z) (call $len (local.get $z)))))
      (if (i32.eq (local.get $i) (i32.const 114)) (then ;; r
        (i64.store (i32.const 256) (call $random)) (i64.store (i32.const 264) (call $time)) (i64.store (i32.const 272) (call $tid))
        (call $out (i32.const 256) (i32.const 24))))
      (if (i32.eq (local.get $i) (i32.const 120)) (then ;; x
        (global.set $o (i32.const 2048))
        (call $out (i32.const 1036) (i32.const 3))
        (call $out (local.get $k) (local.get $kl))
        (return (call $err (i32.const 1029) (i32.const 7) (i32.const 2048) (i32.sub (global.get $o) (i32.const 2048))))))
      (if (i32.eq (local.get $i) (i32.const 116)) (then (unreachable))) ;; t
      (if (i32.eq (local.get $i) (i32.const 110)) (then ;; n
        (local.set $x (call $next))
        (if (i32.gt_u (global.get $calls) (i32.load8_u (local.get $x))) (then (unreachable)))))
      (if (i32.eq (local.get $i) (i32.const 102)) (then ;; f
        (local.set $y (i32.mul (i32.load8_u (call $next)) (i32.const 160)))
        (loop $l (local.set $y (i32.sub (local.get $y) (i32.const 1))) (br_if $l (local.get $y)))))
      (if (i32.eq (local.get $i) (i32.const 108)) (then ;; l
        (call $log (i32.const 1) (local.get $k) (local.get $kl))))
      (br $step)))
    (call $ok (i32.const 2048) (i32.sub (global.get $o) (i32.const 2048))))
"#;
