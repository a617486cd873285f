//! Builds from end to end, with the tools that this machine has.

use std::sync::Mutex;

use super::sdk::Sdk;
use super::*;

/// Remembers the steps.
#[derive(Default)]
struct Steps(Mutex<Vec<String>>);

impl Progress for Steps {
    fn step(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
    fn warning(&self, line: &str) {
        self.0.lock().unwrap().push(format!("! {line}"));
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn write(directory: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn a_guest_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("stock.zip");
    let source = repository().join("guests/cart/stock");
    let report = build(&source, &output, &Silent).unwrap();
    assert_eq!((report.app.as_str(), report.components.len()), ("stock", 1));
    let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
    assert_eq!(cache::sha256(&read.components["stock"]), report.components[0].digest);
    component::check(&read.components["stock"]).unwrap();

    let steps = Steps::default();
    let again = build(&source, &output, &steps).unwrap();
    assert!(again.components[0].cached);
    assert_eq!(again.components[0].digest, report.components[0].digest);
    assert_eq!(*steps.0.lock().unwrap(), ["stock is unchanged"]);
}

#[test]
fn a_misspelt_name_is_told_before_anything_is_built() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("bank");
    write(
        &source,
        &[
            ("styx.toml", "[app]\nentry = \"vault\"\n[operator.account]\nsnapshot = [\"raport\"]\n"),
            ("bank.py", "account = styx.Operator(\"account\")\n\n\n@account.function\ndef report(context): return 1\n"),
        ],
    );
    let steps = Steps::default();
    let cache = Cache::at(directory.path().join("cache"));
    build_with(&cache, &source, &directory.path().join("bank.zip"), &steps).unwrap_err();
    let told = "! styx.toml: operator.account.snapshot names \"raport\", which no source says; did you mean `report`?";
    assert_eq!(*steps.0.lock().unwrap(), [told]);
}

/// Without a path, a patch, a crate type or a profile: what a user's crate looks like.
#[test]
fn a_guest_outside_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("counter");
    write(
        &source,
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"counter\"\nedition = \"2024\"\n[dependencies]\nstyx-sdk = \"0.1\"\nserde = \"1\"\n",
            ),
            (
                "src/lib.rs",
                "use styx_sdk::prelude::*;\nstruct Counter;\n#[operator]\nimpl Counter {\n    pub fn add(ctx: &mut Context, n: u64) -> Result<u64> {\n        let sum = ctx.state.get::<u64>()?.unwrap_or(0) + n;\n        ctx.state.put(&sum)?;\n        Ok(sum)\n    }\n}\nstyx_sdk::export!(Counter);\n",
            ),
        ],
    );
    let output = directory.path().join("out/counter.zip");
    let report = build(&source, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!(report.app, "counter");
    assert!(report.components[0].bytes < 400_000, "{}", report.components[0].bytes);
    let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
    let text = String::from_utf8_lossy(&read.components["counter"]).into_owned();
    assert!(text.contains("target/styx-sdk/src/") && text.contains("/crates/"), "panics tell where they were");
    let sdk = Sdk::Rust.unpacked(&Cache::of_user().unwrap()).unwrap();
    for path in [&*sdk.to_string_lossy(), ".cargo/registry", "lib/rustlib"] {
        assert!(!text.contains(path), "{path}: another user has another one");
    }

    write(&source, &[("src/lib.rs", "fn main() { oops }")]);
    let error = build(&source, &output, &Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "BUILD_FAILED: counter: src/lib.rs:1:13: cannot find value `oops` in this scope; mend it there; cargo's output says more"
    );
    assert!(error.output.contains("cannot find value `oops`"), "{}", error.output);

    write(&source, &[("src/lib.rs", "pub fn nothing() {}")]);
    let error = build(&source, &output, &Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "BUILD_FAILED: counter: the component does not export `describe`; export its operators through the SDK, in Rust with `styx_sdk::export!(…)`"
    );
}

/// As those that `styx new` makes, whose crates are all called the same.
#[test]
fn guests_of_the_same_name_are_not_mistaken_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    for (source, function) in [(&one, "add"), (&other, "subtract")] {
        write(
            source,
            &[
                (
                    "Cargo.toml",
                    "[package]\nname = \"same-name\"\nedition = \"2024\"\n[dependencies]\nstyx-sdk = \"0.1\"\nserde = \"1\"\n",
                ),
                (
                    "src/lib.rs",
                    &format!(
                        "use styx_sdk::prelude::*;\nstruct Same;\n#[operator]\nimpl Same {{\n    pub fn {function}(ctx: &mut Context) -> Result<u64> {{\n        Ok(ctx.state.get()?.unwrap_or(0))\n    }}\n}}\nstyx_sdk::export!(Same);\n"
                    ),
                ),
            ],
        );
    }
    // What a run of this test before has left in the cache is not what is looked for.
    for source in [&one, &other] {
        write(source, &[("notes.txt", &source.display().to_string())]);
    }
    let output = directory.path().join("out.zip");
    let built = |source: &Path| {
        let report = build(source, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
        assert!(!report.components[0].cached);
        report.components[0].digest.clone()
    };
    let first = built(&one);
    assert_ne!(built(&other), first);
    // Another build, for which cargo has nothing to do.
    write(&one, &[("notes.txt", &format!("{} again", one.display()))]);
    assert_eq!(built(&one), first);
}

#[test]
fn a_guest_in_python_with_a_package() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("counter");
    write(
        &source,
        &[
            ("requirements.txt", "# one without compiled parts\nsix==1.17.0\n"),
            (
                "counter.py",
                "import six\nfrom styx import Context, Operator\n\ncounter = Operator(\"counter\")\n\n@counter.register\ndef add(ctx: Context, n: int) -> int:\n    total = (ctx.state.get() or 0) + n\n    ctx.state.put(total)\n    return total\n",
            ),
        ],
    );
    let output = directory.path().join("counter.zip");
    let report = build(&source, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!((report.app.as_str(), report.components[0].language), ("counter", Some(Language::Python)));
    let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
    component::check(&read.components["counter"]).unwrap();
    assert!(build(&source, &output, &Silent).unwrap().components[0].cached);

    // The same as a package, which nothing but its __init__.py shows to be Python.
    let package = directory.path().join("market");
    write(
        &package,
        &[("market/__init__.py", &fs::read_to_string(source.join("counter.py")).unwrap().replace("import six\n", ""))],
    );
    let report = build(&package, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!((report.app.as_str(), report.components[0].language), ("market", Some(Language::Python)));

    write(&source, &[("fast.cpython-311-x86_64-linux-gnu.so", ""), ("counter.py", "import fast\n")]);
    let error = build(&source, &output, &Silent).unwrap_err();
    assert_eq!(
        error.message,
        "counter: counter.py:1: fast.cpython-311-x86_64-linux-gnu.so is native code, which a component cannot load: write the module in Python"
    );

    write(&source, &[("counter.py", "import nothing_of_the_kind\n")]);
    let error = build(&source, &output, &Silent).unwrap_err();
    assert_eq!(error.code, Code::BuildFailed);
    assert!(
        error.message.starts_with("counter: counter.py:1: ") && error.message.contains("nothing_of_the_kind"),
        "{error}"
    );

    // Nothing that takes long is done for what could not be written.
    write(&source, &[("file", "")]);
    let error = build(&source, &source.join("file/counter.zip"), &Silent).unwrap_err();
    assert_eq!(error.code, Code::Io);
    assert_eq!(error.hint, "`styx build -o FILE` writes the bundle to another place");
}

#[test]
fn a_guest_in_python_is_loaded_by_an_interpreter_that_is_ready() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("counter");
    let app = |import: &str| {
        // In every run another, so that no component of an earlier one is taken.
        format!(
            "{import}\nfrom styx import Context, Operator\n# {}\n\ncounter = Operator(\"counter\")\n\n@counter.register\ndef add(ctx: Context, n: int) -> int:\n    return n\n",
            directory.path().display()
        )
    };
    let built = |import: &str| {
        write(
            &source,
            &[("counter.py", &app(import)), ("helper/inner.py", "import statistics\nX = 1\n"), ("note.txt", "x")],
        );
        let (steps, output) = (Steps::default(), directory.path().join("counter.zip"));
        let report = build(&source, &output, &steps).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
        assert!(!report.components[0].cached);
        let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
        (steps.0.into_inner().unwrap().join("\n"), read.components["counter"].clone())
    };
    write(&source, &[("counter.py", &app(""))]);
    prepare(&source, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));

    // A module of the library that the SDK does not need, a package without a file of its own, and something to print.
    let (steps, loaded) = built("import decimal\nfrom helper import inner\nprint(decimal.Decimal(inner.X))");
    assert!(steps.contains("the interpreter loads counter") && !steps.contains("componentize-py"), "{steps}");
    // The SDK has imported the library's module of the name before it knows of the app's.
    let mine = "kwlist = softkwlist = []\niskeyword = issoftkeyword = lambda name: False\n";
    write(&source, &[("keyword.py", mine)]);
    let (steps, _) = built("import keyword");
    assert!(steps.contains("componentize-py packs counter"), "{steps}");
    fs::remove_file(source.join("keyword.py")).unwrap();
    // A file that is read.
    let (steps, packed) = built("NOTE = open(__file__.replace('counter.py', 'note.txt')).read()");
    assert!(
        steps.contains("the interpreter loads counter") && steps.contains("componentize-py packs counter"),
        "{steps}"
    );

    let engine = styx_engine::Engine::in_little_space(directory.path().join("cache")).unwrap();
    let [loaded, packed] = [loaded, packed].map(|component| {
        let checked = engine.check_upload(&component).unwrap();
        (checked.sdk, format!("{:?}", checked.operators))
    });
    assert_eq!(loaded, packed);
    assert!(loaded.1.contains("counter"), "{}", loaded.1);
}

/// Its cart is what the benchmark compares with the other languages' on a server.
#[test]
fn a_guest_in_c() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("counter.zip");
    let cart = build(&repository().join("guests/shopping-cart-c"), &output, &Silent);
    let cart = cart.unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!(cart.components[0].language, Some(Language::C));
    assert!(cart.components[0].bytes < 200_000, "{}", cart.components[0].bytes);

    let source = directory.path().join("counter");
    let good = "#include <stdlib.h>\n#include <time.h>\n#include <assert.h>\n#include <styx.h>\nSTYX_OPERATOR(counter)\nSTYX_FUNCTION(counter, add, int64_t, \"Adds.\", (int64_t, n)) {\n    assert(n != 7);\n    styx_get(int64_t, result);\n    *result += n + (rand() & 0) + (random() & 0) + (time(NULL) < 0) + (drand48() < 0);\n    styx_put(int64_t, result);\n}\n";
    write(&source, &[("counter.c", good), ("tests/test.c", "int main(void) { return oops; }")]);
    let report = build(&source, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
    component::check(&read.components["counter"]).unwrap();
    let sdk = Sdk::C.unpacked(&Cache::of_user().unwrap()).unwrap();
    let text = String::from_utf8_lossy(&read.components["counter"]);
    assert!(!text.contains(&*sdk.to_string_lossy()), "{}: another user has another one", sdk.display());
    assert!(build(&source, &output, &Silent).unwrap().components[0].cached);
    assert_eq!(report.app, "counter");

    let function = "#include <stdio.h>\n#include <stdlib.h>\n#include <styx.h>\nSTYX_FUNCTION(counter, add, void, \"\", (int64_t, n)) {";
    for (body, expected) in [
        (
            "#include <styx.h>\n".to_owned(),
            "counter: no function is declared; write STYX_OPERATOR(name) and STYX_FUNCTION(name, function, …) { … }",
        ),
        (
            format!("{function} }}\nSTYX_OPERATOR(counter)\nSTYX_OPERATOR(lonely)"),
            "counter: counter.c:6: the operator `lonely` has no function; write one: STYX_FUNCTION(lonely, function, …) { … }",
        ),
        (
            format!("{function} }}"),
            "counter: functions of the operator `counter` are declared, but it is not; write STYX_OPERATOR(counter, .doc = \"…\") once",
        ),
        (
            format!("{function} oops; }}\nSTYX_OPERATOR(counter)"),
            "counter: counter.c:4:55: use of undeclared identifier 'oops'; mend it there",
        ),
        (
            format!("{function} return styx_abort(\"%s\", n); }}\nSTYX_OPERATOR(counter)"),
            "counter: counter.c:4:79: format specifies type 'char *'",
        ),
        (
            format!("{function} printf(\"n\"); }}\nSTYX_OPERATOR(counter)"),
            "counter: the sources need an operating system (fd_",
        ),
        (
            format!("{function} exit(1); }}\nSTYX_OPERATOR(counter)"),
            "counter: the sources need an operating system (proc_exit); a component does not exit: abort the transaction by styx_abort(…)",
        ),
        (
            // What is printed of it is longer than what is kept.
            format!("{function} }}\nSTYX_OPERATOR(counter)").replace("(int64_t, n)", "(long double, n)"),
            "counter: counter.c:4:1: use of undeclared identifier 'styx_type_long'; types are those of <stdint.h>, bool,",
        ),
        ("#include <zlib.h>\n".to_owned(), "counter: counter.c:1:10: 'zlib.h' file not found; put zlib.h"),
        (
            format!("{function} void missing(void); missing(); }}\nSTYX_OPERATOR(counter)"),
            "counter: `missing` is used in counter.c, but no source of the project defines it",
        ),
    ] {
        write(&source, &[("counter.c", &body)]);
        let error = build(&source, &output, &Silent).unwrap_err();
        assert!(error.to_string().starts_with(&format!("BUILD_FAILED: {expected}")), "{error}\n{}", error.output);
    }
}

/// The SDK for C speaks the canonical ABI by hand.
#[test]
fn the_sdk_for_c_is_of_this_contract() {
    let written_for = format!("sha256 of wit/guest.wit: {}", cache::sha256(Sdk::Wit.file("guest.wit").as_bytes()));
    let source = Sdk::C.file("src/component.c");
    assert!(source.contains(&written_for), "look at sdk/c/src/component.c, then write there: {written_for}");
}

#[test]
fn a_guest_in_typescript() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("cart.zip");
    let source = repository().join("guests/shopping-cart-typescript");
    let report = build(&source, &output, &Silent).unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!(report.app, "shopping-cart-typescript");
    assert_eq!(report.components[0].language, Some(Language::TypeScript));
    let read = Bundle::read(&fs::read(&output).unwrap(), &BundleLimits::default()).unwrap();
    component::check(&read.components["shopping-cart-typescript"]).unwrap();
    assert!(build(&source, &output, &Silent).unwrap().components[0].cached);
}

/// One line each, with the file and the line of whoever wrote it.
#[test]
fn what_is_wrong_in_typescript_is_said_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("shop.zip");
    let head = "import { operator } from \"styx-sdk\";\nexport const shop = operator(\"shop\", {\n";
    for (number, (file, text, message)) in [
        ("shop.ts", "let a = ;".to_owned(), "shop.ts:1: Expression expected. (TS1109)"),
        // The types of what stands before are wrong as well.
        ("shop.ts", "const a: string = 1;\nlet b = ;".to_owned(), "shop.ts:2: Expression expected. (TS1109)"),
        (
            "shop.ts",
            format!("{head}  sell(ctx, n: number) {{ return n.length; }},\n}});"),
            "shop.ts:3: Property 'length' does not exist on type 'number'. (TS2339)",
        ),
        (
            "shop.ts",
            format!("{head}  sell(ctx, when: Date) {{}},\n}});"),
            "shop.ts:3: shop.sell: parameter 'when': JSON has no dates: take a string or a number",
        ),
        (
            "shop.ts",
            format!("{head}  sell(ctx, ...all: number[]) {{}},\n}});"),
            "shop.ts:3: shop.sell: parameter 'all': rest parameters have no place in an array of arguments",
        ),
        (
            "shop.ts",
            format!("{head}sell() {{}} }});\nexport const other = operator(\"shop 2\", {{ sell() {{}} }});"),
            "shop.ts:4: the operator's name \"shop 2\" is not allowed: start with a letter, then use letters, digits, _ and -, at most 64",
        ),
        (
            "shop.ts",
            "import { operator } from \"styx-sdk\";\noperator(\"shop\", { sell() {} });\nconst lonely = operator(\"lonely\", {});".to_owned(),
            "shop.ts:3: the operator \"lonely\" has no function: give it one, as in { add(ctx, n: number) { … } }",
        ),
        (
            "shop.ts",
            "import fs from \"nothing-of-the-kind\";\nfs.read();".to_owned(),
            "shop.ts:1: Cannot find module 'nothing-of-the-kind' or its corresponding type declarations. Is it in package.json, and has `npm install` been run? (TS2307)",
        ),
        ("shop.ts", "import fs from \"node:fs\";\nfs.read();".to_owned(), "shop.ts:1: \"node:fs\" is a module of Node.js, which a component does not have: state and other functions are all that it reaches (TS2591)"),
        ("shop.ts", "\nprocess.exit(1);".to_owned(), "shop.ts:2: \"process\" is something of Node.js, which a component does not have: state and other functions are all that it reaches (TS2591)"),
        ("shop.js", "import fs from \"fs\";\nfs.read();".to_owned(), "shop.js:1: \"fs\" is a module of Node.js, which a component does not have: state and other functions are all that it reaches"),
        ("shop.js", "let a = 1;\n\nthrow new TypeError(`no ${a}`);".to_owned(), "shop.js:3: TypeError: no 1"),
        (
            "shop.js",
            "export const nothing = 1;".to_owned(),
            "no function is declared: the entry module declares none with operator(…), nor does what it imports",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let source = directory.path().join(format!("shop-{number}"));
        // What is there for an editor is not in a component.
        let node = "declare var process: any;\ndeclare module \"node:fs\" { export function read(): void; }";
        let for_editors = [
            ("tsconfig.json", r#"{"compilerOptions": {"types": ["node"]}}"#),
            ("node_modules/@types/node/index.d.ts", node),
        ];
        write(&source, &[&[("package.json", "{}"), (file, &text)][..], &for_editors].concat());
        let error = build(&source, &output, &Silent).unwrap_err();
        assert_eq!(error.to_string(), format!("BUILD_FAILED: shop-{number}: {message}"), "{text}\n{}", error.output);
    }

    // All that is wrong is said at once.
    let source = directory.path().join("several");
    let several = |text: &str| {
        write(&source, &[("package.json", "{}"), ("shop.ts", text)]);
        let error = build(&source, &output, &Silent).unwrap_err();
        (error.message, error.output)
    };
    let wrong = several("let a: string = 1;\nlet b: number = \"\";\n");
    assert!(wrong.0.ends_with("assignable to type 'string'. (TS2322) (and 1 more)"), "{wrong:?}");
    assert_eq!(wrong.1, "shop.ts:2: Type 'string' is not assignable to type 'number'. (TS2322)");
    let wrong =
        several(&format!("{head}  sell(ctx, when: Date, at: Date) {{}},\n  buy(ctx, ...all: number[]) {{}},\n}});"));
    assert!(wrong.0.ends_with("take a string or a number (and 2 more)"), "{wrong:?}");
    assert_eq!(
        wrong.1,
        "shop.ts:3: shop.sell: parameter 'at': JSON has no dates: take a string or a number\nshop.ts:4: shop.buy: parameter 'all': rest parameters have no place in an array of arguments"
    );
    let wrong = several(&format!("{head}  sell() {{}},\n}});\noperator(\"shop\", {{ buy() {{}} }});"));
    assert_eq!(wrong.0, "several: shop.ts:5: the operator \"shop\" is declared twice: import it from shop.ts:2");

    fs::write(source.join("shop.ts"), b"const a = \"\xef\xbf\xbd\";\nconst b = \"caf\xe9\";\n".as_slice()).unwrap();
    let error = build(&source, &output, &Silent).unwrap_err();
    assert!(error.message.starts_with("several: shop.ts:1: not UTF-8, "), "{error}");

    let source = directory.path().join("native");
    let imports = ("shop.js", "import a from \"./addon.node\";\na();");
    write(&source, &[("package.json", "{}"), imports, ("addon.node", "\x7fELF")]);
    let error = build(&source, &output, &Silent).unwrap_err();
    assert_eq!(
        error.message,
        "native: shop.js:1: addon.node is native code, which a component cannot load: take a package in JavaScript"
    );
}

/// What is wrong in one component does not hide what is wrong in another.
#[test]
fn all_components_are_tried() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("shop");
    let manifest = "[component.a]\n[component.b]\n[component.c]\nfile = \"c.wasm\"\n";
    write(&source, &[("styx.toml", manifest), ("a/a.c", "int a"), ("b/b.c", "int b"), ("c.wasm", "no wasm")]);
    let output = directory.path().join("x.zip");
    let error = build(&source, &output, &Silent).unwrap_err();
    assert!(error.message.starts_with("a: a.c:1:6: expected ';'"), "{error}");
    assert!(error.message.ends_with(" (b, c fail as well)"), "{error}");
    assert!(error.output.contains("\nBUILD_FAILED: b: b.c:1:6: expected ';'"), "{}", error.output);
    assert!(error.output.contains("\nBUILD_FAILED: c: "), "{}", error.output);
    assert!(error.output.lines().last().unwrap().contains("/c.wasm: this is no WebAssembly component: "), "one line");
    assert!(!output.exists());
}

#[test]
fn what_is_no_component_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("shop");
    write(&source, &[("styx.toml", "[component.a]\nfile = \"a.wasm\""), ("a.wasm", "no wasm")]);
    let error = build(&source, &directory.path().join("x.zip"), &Silent).unwrap_err();
    assert_eq!(error.code, Code::BuildFailed);
}
