//! What the compiler tells those who write an operator wrongly.

use super::*;

/// The message for an `impl` block, which must be refused.
fn refusal(arguments: &str, item: &str) -> String {
    let expanded = expand(arguments.parse().unwrap(), item.parse().unwrap());
    expanded.expect_err("it is refused").to_string()
}

#[test]
fn blocks() {
    let function = "pub fn f(ctx: &mut Context) {}";
    for (arguments, item, message) in [
        ("", "struct Stock;".to_owned(), "#[operator] goes before an `impl` block, as in `impl Stock { … }`"),
        (
            "",
            format!("impl Clone for Stock {{ {function} }}"),
            "#[operator] goes before a plain `impl` block, not one of a trait",
        ),
        ("", format!("impl<T> Stock<T> {{ {function} }}"), "an operator cannot be generic"),
        ("", format!("impl (u8, u8) {{ {function} }}"), "an operator is a type of its own: declare `struct Stock;`"),
        (
            "nam = \"x\"",
            format!("impl Stock {{ {function} }}"),
            "#[operator] takes `name = \"…\"`, `key_prefix = \"…\"`, `state = Type` and `migrate = function`",
        ),
        ("migrate = f", format!("impl Stock {{ {function} }}"), "a migration leads to a type: add `state = Type`"),
        (
            "name = \"1st\"",
            format!("impl Stock {{ {function} }}"),
            "\"1st\" cannot name an operator: a letter, then letters, digits, `_` and `-`, at most 64",
        ),
        (
            "key_prefix = \"\"",
            format!("impl Stock {{ {function} }}"),
            "a key prefix is the name of what comes before the first `:` of a key, such as \"warehouse\"",
        ),
        (
            "",
            "impl Stock { fn helper() {} }".to_owned(),
            "this operator has no function: a function is a `pub fn` that takes `ctx: &mut Context` first",
        ),
        (
            "",
            format!("impl Stock {{ {function} #[function(name = \"f\")] pub fn g(ctx: &Context) {{}} }}"),
            "the operator already has a function \"f\"",
        ),
    ] {
        assert_eq!(refusal(arguments, &item), message, "{item}");
    }
}

#[test]
fn functions() {
    let context_first =
        "a function of an operator takes `ctx: &mut Context` (or `ctx: &Context`) first; make a helper private";
    for (function, message) in [
        ("pub fn f() {}", context_first),
        ("pub fn f(n: u32) {}", context_first),
        ("pub fn f(ctx: Context) {}", context_first),
        (
            "pub fn f(&self, ctx: &mut Context) {}",
            "an entity's state is in `ctx.state`, not in `self`: take `ctx: &mut Context` first",
        ),
        ("pub async fn f(ctx: &mut Context) {}", "functions are not async: `ctx.call` waits without blocking a thread"),
        ("pub fn f<T>(ctx: &mut Context, t: T) {}", "a function of an operator cannot be generic"),
        ("pub fn f(ctx: &mut Context, t: impl Copy) {}", "a parameter has one type, known to callers"),
        ("pub fn f(ctx: &mut Context, name: &str) {}", "parameters are owned: take `String`"),
        ("pub fn f(ctx: &mut Context, items: &[u8]) {}", "parameters are owned: drop the `&` (`Vec<T>` for a slice)"),
        ("pub fn f(ctx: &mut Context, (a, b): (u8, u8)) {}", "a parameter needs a name, by which callers pass it"),
        (
            "#[function(read_only)] pub fn f(ctx: &mut Context) {}",
            "a read-only function cannot write: take `ctx: &Context`",
        ),
        ("#[function(readonly)] pub fn f(ctx: &Context) {}", "#[function] takes `read_only` and `name = \"…\"`"),
        ("#[function] fn f(ctx: &Context) {}", "a function of an operator is `pub fn`"),
        (
            "pub fn größe(ctx: &Context) {}",
            "\"größe\" cannot name a function: a letter, then letters, digits, `_` and `-`, at most 64",
        ),
    ] {
        assert_eq!(refusal("", &format!("impl Stock {{ {function} }}")), message, "{function}");
    }
}
