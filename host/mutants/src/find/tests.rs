use std::path::Path;

use super::find;
use crate::source::Source;

/// All changes of a file, and the file with their switches.
fn changes(text: &str) -> (Vec<String>, String) {
    let source = Source::parse(Path::new("lib.rs"), text.to_owned()).unwrap();
    let mut schema = find(&source);
    let alternatives = schema.sites.iter_mut().flat_map(|site| &mut site.alternatives);
    alternatives.zip(1..).for_each(|(alternative, number)| alternative.number = number);
    let rewritten = schema.rewrite(|_| true).text;
    syn::parse_file(&rewritten).unwrap_or_else(|error| panic!("{error}: {rewritten}"));
    assert_eq!(schema.rewrite(|_| false).text, text, "without switches it is the original");
    let changes = schema.sites.into_iter().flat_map(|site| site.alternatives).map(|alternative| alternative.change);
    (changes.collect(), rewritten)
}

/// Changes of a function's body, but for what it does or returns as a whole.
fn within(body: &str) -> Vec<String> {
    let (changes, _) = changes(&format!("fn f() -> T {{ {body} }}"));
    changes
}

#[test]
fn what_the_compiler_computes_or_matches_is_left_alone() {
    let untouched = [
        "const A: usize = 1 + 2; static B: bool = 1 < 2; enum E { A = 1 + 1 }",
        "const fn f(a: u8) -> bool { a < 3 }",
        "fn f(a: [u8; 1 + 1]) -> G<{ 2 + 2 }> { g::<{ 1 + 1 }>([x; 4 + 4], const { 1 + 2 }) }",
        "fn f(a: u8) -> T { match a { 0 | 1..=5 => b, A { x: -1, .. } => c } }",
        "#[cfg(test)] mod tests { fn f() { g(1 + 1); } } #[test] fn f() { g(); }",
        "impl fmt::Debug for A { fn fmt(&self) -> T { self.a < 3 } }",
        "impl A { #[cfg(feature = \"x\")] fn f(&self) -> bool { self.a < 3 } }",
        "fn f() -> T { assert!(a < b && c); debug_assert_eq!(a + 1, b); vec![1, 2] }",
        "fn f() -> T { step.log(Diagnostic::info(format!(\"{a}\")).node(1)); Vec::with_capacity(3 + 4) }",
        "fn f() -> T { drop(a); b.reserve(1); T::new() }",
        "fn f() -> T { if planted(Bug::A) { return 1 + 1; } a }",
        "fn f() -> T { if a && planted(Bug::A) && b < 3 { return 1; } c }",
        "fn f() -> T { match a { b if planted(Bug::A) => 1, _ => c } }",
        "fn invariants(&self) -> bool { self.a < 3 }",
        "fn f() -> T { debug_assert!(g(a) || b); c } fn g(a: u8) -> bool { a < 3 }",
        "impl A { pub fn check(&self) { let a = b + 1; for c in d { assert!(a < c); } } }",
    ];
    for text in untouched {
        assert_eq!(changes(text).0, [""; 0], "{text}");
    }
}

#[test]
fn each_operator_has_its_changes() {
    let cases: [(&str, &[&str]); 18] = [
        ("a < b", &["`a < b` → `a <= b`", "`a < b` → `a >= b`"]),
        ("a == b", &["`a == b` → `a != b`"]),
        ("a - b", &["`a - b` → `a + b`"]),
        ("a.min(b)", &["`min` → `max` in `a.min(b)`"]),
        ("a.checked_add(b)", &["`checked_add` → `checked_sub` in `a.checked_add(b)`"]),
        ("a[3u8]", &["`3u8` → `4u8` in `fn f() -> T { a[3u8] }`"]),
        ("g(true)", &["`true` → `false` in `fn f() -> T { g(true) }`"]),
        ("g(!a)", &["`!a` → `a`"]),
        ("a.push(b); a", &["removed: `a.push(b);`"]),
        ("a = b; a", &["removed: `a = b;`"]),
        ("g()?; a", &["removed: `g()?;`"]),
        ("if a { return b; } c", &["`a` → `!(a)`", "removed: `return b;`"]),
        ("loop { continue }", &["removed: `continue`"]),
        ("let Some(a) = b else { return c }; a", &[]),
        ("a.filter(|b| b.c)", &["`b.c` → `!(b.c)`"]),
        ("match a { b if c => d, _ => e.push(f) }", &["`c` → `!(c)`", "removed: `e.push(f)`"]),
        ("if let A = b { c } else { d }", &["never: `let A = b`"]),
        ("if !planted(Bug::A) && b { c } else { d }", &["`b` → `!(b)`"]),
    ];
    for (body, expected) in cases {
        assert_eq!(within(body), expected, "{body}");
    }
}

#[test]
fn what_is_called_elsewhere_too_or_does_more_than_assert_is_changed() {
    let called = "fn f() -> T { debug_assert!(g(a)); g(b) } fn g(a: u8) -> T { a == 3 }";
    assert_eq!(changes(called).0, ["`a == 3` → `a != 3`", &format!("`3` → `4` in `{called}`")]);
    assert_eq!(within("assert!(a); b == c"), ["`b == c` → `b != c`"]);
}

#[test]
fn parts_of_a_condition_are_changed_each() {
    let expected = ["`a && !b` → `a || !b`", "`a` → `!(a)`", "`!b` → `b`"];
    assert_eq!(within("if a && !b { c } else { d }"), expected);
    // A pattern cannot be part of `||`.
    let expected = ["never: `let A = b`", "`c == d` → `c != d`"];
    assert_eq!(within("if let A = b && c == d { e } else { g }"), expected);
}

#[test]
fn a_function_may_return_at_once() {
    let functions = "fn f() { a }  fn g() -> bool { a }  fn h() -> Option<T> { a }  fn i() -> Result<(), E> { a }";
    let expected =
        ["`f` does nothing", "`g` returns `true`", "`g` returns `false`", "`h` returns `None`", "`i` returns `Ok(())`"];
    assert_eq!(changes(functions).0, expected);
}

#[test]
fn switches_are_nested_and_alternatives_are_not() {
    let (_, rewritten) = changes("fn f() -> T { a + b < c }");
    let expected = "fn f() -> T { (if ::styx_switch::on(1) { (a + b) <= (c) } else if ::styx_switch::on(2) \
        { (a + b) >= (c) } else { (if ::styx_switch::on(3) { (a) - (b) } else { a + b }) < c }) }";
    assert_eq!(rewritten, expected);
}
