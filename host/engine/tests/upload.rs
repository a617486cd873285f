//! What is refused at upload, and why; and that compiling happens in a child under limits.
//!
//! A program of its own (no test harness), because the compiler's child is this very program.

#![allow(clippy::disallowed_methods)] // measures how long a refusal takes

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use styx_engine::{COMPILE_ARGUMENT, Compiler, Determinism, Engine, EngineOptions, UploadCode, compile_child_main};
use support::{Guest, invoke};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(COMPILE_ARGUMENT) {
        return compile_child_main();
    }
    let tests: [(&str, fn()); 6] = [
        ("good_components_are_described", good_components_are_described),
        ("bad_components_are_refused_with_a_code", bad_components_are_refused_with_a_code),
        ("compile_bombs_are_refused_cheaply", compile_bombs_are_refused_cheaply),
        ("bad_descriptions_are_refused", bad_descriptions_are_refused),
        ("the_cache_heals", the_cache_heals),
        ("a_missing_compiler_is_the_hosts_fault", a_missing_compiler_is_the_hosts_fault),
    ];
    for (name, test) in tests {
        println!("test {name} ...");
        test();
    }
    println!("test result: ok. {} passed", tests.len());
    ExitCode::SUCCESS
}

fn engine(cache: &std::path::Path) -> std::sync::Arc<Engine> {
    let compiler = Compiler::Child(std::env::current_exe().unwrap());
    Engine::new(EngineOptions {
        cache_dir: cache.to_owned(),
        determinism: Determinism::Off,
        executors: 1,
        compiler,
        cluster: None,
        long: None,
        guest_memory: usize::MAX,
    })
    .unwrap()
}

const OK: &str = "(call $ok (i32.const 0) (i32.const 0))";

/// Refused with this code and a message that says this; returns how long it took, in milliseconds.
fn refused(engine: &Engine, bytes: &[u8], code: UploadCode, says: &str) -> u128 {
    let start = Instant::now();
    let error = engine.check_upload(bytes).expect_err(says);
    assert_eq!(error.code, code, "{error}");
    assert!(error.to_string().contains(says), "{error}");
    assert!(!error.message.contains('\n') && !error.hint.is_empty());
    start.elapsed().as_millis()
}

fn good_components_are_described() {
    let cache = tempfile::tempdir().unwrap();
    let engine = engine(cache.path());
    let mut guest = Guest::body("item", &["get", "put"], OK);
    guest.read_only = vec!["get"];
    guest.schema = "{\"type\":\"integer\"}";
    let bytes = guest.bytes();
    let checked = engine.check_upload(&bytes).unwrap();
    assert_eq!((checked.size, checked.sdk.as_str()), (bytes.len() as u64, "styx-wat 0.1.0"));
    assert_eq!(checked.memory, 4 * 65536);
    let operator = &checked.operators[0];
    assert_eq!(
        (operator.name.as_str(), operator.doc.as_str(), operator.key_prefix.as_deref()),
        ("item", "An operator.", None)
    );
    let functions: Vec<_> =
        operator.functions.iter().map(|f| (f.name.as_str(), f.read_only, f.parameters[0].schema.as_str())).collect();
    assert_eq!(functions, [("get", true, "{\"type\":\"integer\"}"), ("put", false, "{\"type\":\"integer\"}")]);
    assert!(!engine.is_loaded(checked.digest), "checking is not loading");
    engine.load(checked.digest, std::path::Path::new("/nonexistent")).expect("the compiled code is in the cache");
    assert!(engine.is_loaded(checked.digest));
    engine.retain(|_| false);
    assert!(!engine.is_loaded(checked.digest));
}

fn bad_components_are_refused_with_a_code() {
    let cache = tempfile::tempdir().unwrap();
    let engine = engine(cache.path());
    let good = Guest::body("item", &["get"], OK);
    let wat = good.wat();
    let encode = |text: &str| wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    refused(&engine, b"", UploadCode::NotAComponent, "not a WebAssembly component");
    refused(&engine, &[7; 1000], UploadCode::NotAComponent, "not a WebAssembly component");
    refused(&engine, b"PK\x03\x04zip", UploadCode::NotAComponent, "zip");
    refused(&engine, wat.as_bytes(), UploadCode::NotAComponent, "text");
    refused(&engine, &encode("(module)"), UploadCode::CoreModule, "styx build");
    refused(&engine, &encode("(component)"), UploadCode::MissingExport, "`invoke` and `describe`");
    refused(
        &engine,
        &encode("(component (import \"evil:files/read@1.0.0\" (instance)))"),
        UploadCode::ForeignImport,
        "evil:files/read@1.0.0",
    );
    refused(
        &engine,
        &encode("(component (import \"styx:guest/state@0.9.0\" (instance)))"),
        UploadCode::ForeignImport,
        "state@0.9.0",
    );
    refused(&engine, &vec![0; styx_engine::COMPONENT_BYTES_MAX + 1], UploadCode::TooLarge, "MiB");
    let bytes = good.bytes();
    refused(&engine, &bytes[..bytes.len() / 2], UploadCode::NotAComponent, "damaged");
    // An import with the right name and another type.
    let other =
        wat.replace("(export \"delete-own\" (func))", "(export \"delete-own\" (func (param \"x\" u32)))").replace(
            "(import \"styx\" \"delete-own\" (func $delete-own))",
            "(import \"styx\" \"delete-own\" (func $delete-own (param i32)))",
        );
    refused(&engine, &encode(&other), UploadCode::ForeignImport, "delete-own");
    // An export with the right name and another type.
    let other = wat
        .replace(
            "(type $invoke (func (param \"function\" string)",
            "(type $invoke (func (param \"function\" string) (param \"more\" u32)",
        )
        .replace(
            "(param $f i32) (param $fl i32) (param $k i32)",
            "(param $f i32) (param $fl i32) (param $more i32) (param $k i32)",
        );
    refused(&engine, &encode(&other), UploadCode::MissingExport, "another type");
    // A proposal that is not allowed.
    refused(&engine, &encode("(component (core module (memory i64 1)))"), UploadCode::CompileFailed, "memory64");
    refused(&engine, &encode("(component (core module (memory 1 1 shared)))"), UploadCode::CompileFailed, "threads");
    // More than the pool has room for.
    let tables: String = (0..20).map(|_| "(table 1 funcref)").collect();
    let many = wat.replace(
        "(core module $Memory",
        &format!("(core module $Tables {tables}) (core instance (instantiate $Tables)) (core module $Memory"),
    );
    refused(&engine, &encode(&many), UploadCode::TooComplex, "tables");
    assert!(engine.check_upload(&bytes).is_ok(), "and a good one still passes");
}

fn compile_bombs_are_refused_cheaply() {
    let cache = tempfile::tempdir().unwrap();
    let engine = engine(cache.path());
    let encode = |module: String| wat::parse_str(format!("(component (core module {module}))")).unwrap();
    let targets = "0 ".repeat(250_000);
    let nested = format!("{}{}", "(block ".repeat(3000), ")".repeat(3000));
    let locals = "i64 ".repeat(40_000);
    let bombs = [
        (encode(format!("(func (param i32) (br_table {targets} 0 (local.get 0)))")), "branch table"),
        (
            encode(format!(
                "(func (param i32) {})",
                format!("(br_table {} 0 (local.get 0))", "0 ".repeat(4000)).repeat(20)
            )),
            "in one function",
        ),
        (encode("(func)".repeat(150_000)), "functions"),
        (encode(format!("(func (local {locals}))")), "locals"),
        (encode(format!("(func {nested})")), "blocks"),
        (
            encode(format!("(func (local {}) {}{})", "i64 ".repeat(1000), "(loop ".repeat(100), ")".repeat(100))),
            "nested loops",
        ),
        (encode(format!("(func {})", "(drop (f64.sqrt (f64.const 2)))".repeat(160_000))), "bytes in one function"),
        (
            encode(
                (0..60_000)
                    .map(|at| format!("(type (func (param {})))", if at % 2 == 0 { "i32" } else { "i64" }))
                    .collect(),
            ),
            "types",
        ),
        (wat::parse_str(format!("(component {}{})", "(component ".repeat(20), ")".repeat(20))).unwrap(), "nested"),
    ];
    for (bomb, says) in bombs {
        let took = refused(&engine, &bomb, UploadCode::TooComplex, says);
        assert!(took < 1000, "{says}: {took} ms");
    }
}

fn bad_descriptions_are_refused() {
    let cache = tempfile::tempdir().unwrap();
    let engine = engine(cache.path());
    let mut schema = Guest::body("item", &["get"], OK);
    schema.schema = "{";
    let trap = |code: &str| {
        // The exported `describe` is the image's: replace it.
        let wat = Guest::body("item", &["get"], OK).wat();
        let at = wat.find("(func (export \"describe\")").unwrap();
        let end = at + wat[at..].find('\n').unwrap();
        wat::parse_str(format!("{}{code}{}", &wat[..at], &wat[end..])).unwrap()
    };
    let cases = [
        (Guest::body("1tem", &["get"], OK).bytes(), "1tem"),
        (Guest::body("item", &["get", "get"], OK).bytes(), "twice"),
        (Guest::body("item", &[], OK).bytes(), "no function"),
        (schema.bytes(), "not JSON"),
        (trap("(func (export \"describe\") (result i32) (unreachable))"), "unreachable"),
        (trap("(func (export \"describe\") (result i32) (loop $l (br $l)) (unreachable))"), "fuel"),
        (
            trap("(func (export \"describe\") (result i32) (call $get-own (i32.const 128)) (unreachable))"),
            "outside of an invocation",
        ),
        (
            trap(
                "(func (export \"describe\") (result i32) (loop $l (br_if $l (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))) (unreachable))",
            ),
            "memory",
        ),
        (
            trap(
                "(data (i32.const 60000) \"panic: no name\\nand more\") (func (export \"describe\") (result i32) (call $log (i32.const 3) (i32.const 60000) (i32.const 23)) (unreachable))",
            ),
            "aborted): panic: no name",
        ),
        (trap("(func (export \"describe\") (result i32) (i32.const -4))"), "describe"),
        (
            Guest::new("item", &["get"], format!("(func $boom (unreachable)) (start $boom) {}", invoke(OK))).bytes(),
            "starting",
        ),
    ];
    for (bytes, says) in cases {
        refused(&engine, &bytes, UploadCode::DescribeFailed, says);
    }
}

fn the_cache_heals() {
    let cache = tempfile::tempdir().unwrap();
    let bytes = Guest::body("item", &["get"], OK).bytes();
    let component = cache.path().join("component");
    std::fs::write(&component, &bytes).unwrap();
    let checked = engine(cache.path()).check_upload(&bytes).unwrap();
    let find = |extension: &str| {
        let paths = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect::<Vec<_>>()
    };
    let code = find("cwasm").pop().expect("the code is cached");
    // Damaged, cut, without its checksum: compiled again.
    let whole = std::fs::read(&code).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    for content in [damaged, whole[..whole.len() / 2].to_vec(), Vec::new()] {
        std::fs::write(&code, content).unwrap();
        engine(cache.path()).load(checked.digest, &component).unwrap();
        assert_eq!(std::fs::read(&code).unwrap(), whole);
    }
    std::fs::remove_file(find("sha256").pop().unwrap()).unwrap();
    engine(cache.path()).load(checked.digest, &component).unwrap();
    // Pruned: only what is kept stays.
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33);
    engine(cache.path()).prune_cache(later, |digest| digest == checked.digest).unwrap();
    engine(cache.path()).prune_cache(SystemTime::UNIX_EPOCH, |_| false).unwrap();
    assert_eq!(find("cwasm").as_slice(), std::slice::from_ref(&code));
    engine(cache.path()).prune_cache(later, |_| false).unwrap();
    assert!(find("cwasm").is_empty() && find("sha256").is_empty() && component.exists());
    engine(cache.path()).load(checked.digest, &component).unwrap();
    // Damaged component: told.
    std::fs::remove_file(&code).unwrap();
    std::fs::write(&component, b"other").unwrap();
    let error = engine(cache.path()).load(checked.digest, &component).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    std::fs::remove_file(&component).unwrap();
    assert!(engine(cache.path()).load(checked.digest, &component).is_err());
    assert!(
        std::fs::read_dir(cache.path()).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with("compile-")),
        "no scratch is left"
    );
}

fn a_missing_compiler_is_the_hosts_fault() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = Compiler::Child("/nonexistent/styx".into());
    let engine = Engine::new(EngineOptions {
        cache_dir: cache.path().to_owned(),
        determinism: Determinism::Off,
        executors: 1,
        compiler,
        cluster: None,
        long: None,
        guest_memory: usize::MAX,
    })
    .unwrap();
    let error = engine.check_upload(&Guest::body("item", &["get"], OK).bytes()).unwrap_err();
    assert_eq!((error.code, error.status()), (UploadCode::HostFailure, 500));
}
