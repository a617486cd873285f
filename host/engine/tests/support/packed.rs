//! A guest of 0.2 as SDKs make it: one core module that has everything, and around it what `wit-component` writes. Imports
//! that use the module's memory are there after it, so it calls them through a table.

use std::fmt::Write as _;

/// Imports of the module: where they are from, their parameters, and whether they use memory.
const IMPORTS: [(&str, &str, &str, usize, bool); 17] = [
    ("state", "get", "$host-get", 3, true),
    ("state", "put", "$host-put", 4, true),
    ("state", "delete", "$host-delete", 2, true),
    ("state", "scan", "$host-scan", 11, true),
    ("state", "get-own", "$host-get-own", 1, true),
    ("state", "put-own", "$host-put-own", 2, true),
    ("state", "delete-own", "$host-delete-own", 0, false),
    ("calls", "call", "$host-call", 13, true),
    ("calls", "call-async", "$call-async", 8, true),
    ("context", "key", "$key", 1, true),
    ("context", "tid", "$tid", 0, false),
    ("context", "request-id", "$request-id", 1, true),
    ("context", "time", "$time", 0, false),
    ("context", "random", "$random", 0, false),
    ("context", "app", "$app", 1, true),
    ("context", "operator", "$operator", 1, true),
    ("logging", "log", "$log", 3, true),
];

/// What starts the module, if it is to be.
const STARTER: &str = r#"(core module $Starter (import "" "" (func $f)) (start $f))
    (core instance (instantiate $Starter (with "" (instance (export "" (func $main "_initialize"))))))"#;

/// The text of a component of the modules of `world`, which is a guest's for 0.2.
pub fn component(world: &str, initialized: bool) -> String {
    let types = &world[..world.find("(core module $Memory").expect("the imports end")];
    let lifted = &world[world.find("  (type $bytes (list u8))\n  (type $outcome").expect("the exports begin")..];
    let lifted = lifted.replace(&module_of(lifted, "$Outside"), "");
    let lifted = match lifted.split_once("  (core instance $outside") {
        Some((before, rest)) => format!("{before}{}", &rest[rest.find("  (type $invoke ").expect("a type")..]),
        None => panic!("it has an outside"),
    };
    let lifted = lifted.replace("export $outside", "export $main").replace("export $guest", "export $main");
    let lifted = lifted.replace(" (post-return $reset)", "");
    let mut out = format!("{types}\n(core module $Main {})", main(world, initialized));
    let starter = if initialized { STARTER } else { "" };
    let (mut shim, mut fixup, mut given) = (String::new(), String::new(), String::new());
    let (mut lowered_before, mut lowered) = (String::new(), String::new());
    let mut with = String::new();
    let mut count = 0;
    for interface in ["state", "calls", "context", "logging"] {
        write!(with, " (with \"styx:guest/{interface}@0.2.0\" (instance").unwrap();
        for (_, name, _, parameters, memory) in IMPORTS.iter().filter(|import| import.0 == interface) {
            if !memory {
                write!(lowered_before, " (core func $l-{name} (canon lower (func ${interface} \"{name}\")))").unwrap();
                write!(with, " (export \"{name}\" (func $l-{name}))").unwrap();
                continue;
            }
            let i32s = " i32".repeat(*parameters);
            let gets: String = (0..*parameters).map(|at| format!(" local.get {at}")).collect();
            write!(
                shim,
                " (func (export \"{count}\") (param{i32s}){gets} i32.const {count} call_indirect (param{i32s}))"
            )
            .unwrap();
            write!(fixup, " (import \"\" \"{count}\" (func $f{count} (param{i32s})))").unwrap();
            write!(given, " (export \"{count}\" (func $l-{name}))").unwrap();
            let lower = format!("(canon lower (func ${interface} \"{name}\") (memory $mem) (realloc $realloc))");
            write!(lowered, " (core func $l-{name} {lower})").unwrap();
            write!(with, " (export \"{name}\" (func $shim \"{count}\"))").unwrap();
            count += 1;
        }
        with.push_str("))");
    }
    let functions: String = (0..count).map(|at| format!(" $f{at}")).collect();
    write!(
        out,
        "(core module $Shim (table (export \"$imports\") {count} {count} funcref){shim})
         (core module $Fixup{fixup} (import \"\" \"$imports\" (table {count} {count} funcref)) (elem (i32.const 0) func{functions}))
         (core instance $shim (instantiate $Shim)) {lowered_before}
         (core instance $main (instantiate $Main{with}))
         (alias core export $main \"memory\" (core memory $mem))
         (alias core export $main \"cabi_realloc\" (core func $realloc)) {lowered}
         (alias core export $shim \"$imports\" (core table $imports))
         (core instance (instantiate $Fixup (with \"\" (instance (export \"$imports\" (table $imports)){given}))))
         {starter} {lifted}"
    )
    .unwrap();
    out
}

/// The fields of the one module.
fn main(world: &str, initialized: bool) -> String {
    let mut imports = String::new();
    for (interface, name, called, parameters, memory) in IMPORTS {
        let result = if memory || name == "delete-own" { "" } else { " (result i64)" };
        let parameters = " i32".repeat(parameters);
        let ty = format!("(param{parameters}){result}");
        write!(imports, " (import \"styx:guest/{interface}@0.2.0\" \"{name}\" (func {called} {ty}))").unwrap();
    }
    let memory = fields(world, "$Memory")
        .replace(r#"(func (export "realloc")"#, r#"(func $realloc (export "cabi_realloc")"#)
        .replace(r#"(func (export "reset")"#, "(func $reset");
    let memory = if initialized {
        // Where nothing can be allocated, unless it is begun.
        let next = "(global $next (mut i32) (i32.const 131072))";
        assert!(memory.contains(next));
        let begun = r#"(func (export "_initialize") (global.set $next (i32.const 131072)))"#;
        format!("{} {begun}", memory.replace(next, "(global $next (mut i32) (i32.const -65536))"))
    } else {
        memory
    };
    let mut between = fields(world, "$Between");
    for name in ["begin", "end", "get-own", "put-own", "delete-own", "get", "put", "delete", "scan", "call"] {
        between = between.replace(&format!("(func (export \"{name}\")"), &format!("(func ${name}"));
    }
    let guest = fields(world, "$Guest").replace(r#"(func (export "invoke") (param $f "#, "(func $invoke (param $f ");
    // What is returned lies until the next invocation, which is allocated before it begins.
    let outside = fields(world, "$Outside");
    let (begin, end) = outside.split_at(outside.rfind("(i32.const 88)").expect("what it returns"));
    format!("{imports} {memory} {between} {guest} {begin} (call $reset (i32.const 0)) {end}")
}

/// A core module in a component's text.
fn module_of(world: &str, module: &str) -> String {
    let begin = world.find(&format!("(core module {module}\n")).expect(module);
    let mut depth = 0;
    let end = world[begin..].char_indices().find(|&(_, letter)| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    world[begin..=begin + end.expect("it ends").0].to_owned()
}

/// The fields of a core module, without its imports.
fn fields(world: &str, module: &str) -> String {
    let text = module_of(world, module);
    let text = &text[..text.len() - 1];
    text.lines().skip(1).filter(|line| !line.trim_start().starts_with("(import")).collect::<Vec<_>>().join("\n")
}
