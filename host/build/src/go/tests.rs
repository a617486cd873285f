//! Guests in Go, from their sources to components.

use super::*;
use crate::tests::{repository, write};
use crate::{Language, Silent, build};

/// A counter, with the parts that tests change.
fn counter(imports: &str, body: &str) -> String {
    format!(
        "package main\n\nimport (\n\t\"styx\"\n{imports})\n\nfunc main() {{}}\n\ntype adding struct {{\n\tN int64 `json:\"n\"`\n}}\n\nvar counter = styx.NewOperator(\"counter\")\n\nvar _ = styx.Register(counter, \"add\", func(ctx *styx.Context, in adding) (int64, error) {{\n{body}}})\n"
    )
}

const MODULE: &str = "module counter\n\ngo 1.21\n";

fn fails(source: &Path, files: &[(&str, &str)]) -> String {
    write(source, files);
    let error = build(source, &source.join("target/x.zip"), &Silent).unwrap_err();
    error.to_string().replace(&source.canonicalize().unwrap().display().to_string(), "counter")
}

#[test]
fn a_guest_of_the_repository_needs_no_operating_system() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("cart.zip");
    let report = build(&repository().join("guests/shopping-cart-go"), &output, &Silent)
        .unwrap_or_else(|error| panic!("{error}\n{}", error.output));
    assert_eq!(report.components[0].language, Some(Language::Go));
    let bundle = crate::Bundle::read(&fs::read(&output).unwrap(), &crate::BundleLimits::default()).unwrap();
    let component = &bundle.components["shopping-cart-go"];
    let wit_component::DecodedWasm::Component(resolve, world) = wit_component::decode(component).unwrap() else {
        panic!("a component")
    };
    let imports: Vec<_> = resolve.worlds[world].imports.keys().map(|key| resolve.name_world_key(key)).collect();
    assert!(imports.iter().all(|name| !name.contains(':') || name.starts_with("styx:guest/")), "{imports:?}");
    assert!(imports.len() >= 4, "{imports:?}");
    // Nor does it say who has built it.
    let sdks = Cache::of_user().unwrap().sdks();
    let path = sdks.to_str().unwrap().as_bytes();
    assert!(!component.windows(path.len()).any(|bytes| bytes == path), "{}", sdks.display());
}

/// One message each, with the place, and what to do.
#[test]
fn what_does_not_build_says_where_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("counter");
    let body = "\tvar sum int64\n\tctx.State.Get(&sum)\n\treturn sum + in.N, nil\n";
    let main = |text: &str| fails(&source, &[("go.mod", MODULE), ("main.go", text)]);

    assert_eq!(
        main(&counter("", "\treturn oops, nil\n")),
        "BUILD_FAILED: counter: main.go:16:9: undefined: oops; mend it and build again"
    );
    assert_eq!(
        main(&counter("", "\treturn 1 +, nil\n")),
        "BUILD_FAILED: counter: main.go:16:12: syntax error: unexpected comma, expected expression; mend it and build again"
    );
    assert_eq!(
        main(&counter("\t\"example.com/nothing\"\n", body)),
        "BUILD_FAILED: counter: main.go:5:2: no required module provides package example.com/nothing; add it with `go get` and build again"
    );
    assert_eq!(
        main(&counter("", body).replace("func main() {}", "")),
        "BUILD_FAILED: counter: counter has no main; add `func main() {}`: it is not run, but Go asks for it"
    );
    let error = main(&counter("", body).replace("package main", "package counter"));
    assert!(error.starts_with("BUILD_FAILED: counter: counter is not a program; "), "{error}");
    let error = main("package main\n\nfunc main() {}\n");
    assert!(error.starts_with("BUILD_FAILED: counter: nothing in the package uses the SDK; "), "{error}");
    let lonely = "package main\n\nimport \"styx\"\n\nvar lonely = styx.NewOperator(\"lonely\")\n";
    assert_eq!(
        fails(&source, &[("main.go", &counter("", body)), ("more.go", lonely)]),
        "BUILD_FAILED: counter: more.go:5: the operator `lonely` has no function; register one: `var _ = styx.Register(lonely, …)`"
    );
    fs::remove_file(source.join("more.go")).unwrap();
    let error = fails(&source, &[("main.go", &counter("", body)), ("c.go", "package main\n\nimport \"C\" // libc\n")]);
    assert!(
        error.starts_with("BUILD_FAILED: counter: c.go:3: a guest in Go cannot call C; write it in Go, "),
        "{error}"
    );
    let error = fails(&source, &[("c.go", "package main\n\nimport (\n\t\"C\"\n)\n")]);
    assert!(error.starts_with("BUILD_FAILED: counter: c.go:4: a guest in Go cannot call C; "), "{error}");
    fs::remove_file(source.join("c.go")).unwrap();
    let uses_lib = counter("\t_ \"counter/lib\"\n", body);
    let error = fails(&source, &[("main.go", &uses_lib), ("lib/lib.go", "package lib\n\nimport \"C\"\n")]);
    assert!(error.starts_with("BUILD_FAILED: counter: lib/lib.go:3: a guest in Go cannot call C; "), "{error}");
    let error = fails(&source, &[("lib/lib.go", "//go:build windows\n\npackage lib\n")]);
    assert!(error.starts_with("BUILD_FAILED: counter: no file of the package lib is for a guest; "), "{error}");
    let error = main(&counter("", body).replace("\"add\"", "\"_add\""));
    assert!(
        error.starts_with("BUILD_FAILED: counter: main.go:15: \"_add\" cannot name a function; a name is a letter"),
        "{error}"
    );
    write(&source, &[("main_test.go", "package main\n")]);
    fs::remove_file(source.join("main.go")).unwrap();
    let error = fails(&source, &[]);
    assert!(error.starts_with("BAD_PROJECT: counter: counter has no Go sources in .; "), "{error}");
}

#[test]
fn what_counts_in_a_module_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(
        path,
        &[(
            "go.mod",
            "module m // a comment\ngo 1.22\nrequire (\n\tx v1.0.0\n)\nreplace (\n\tx => ./here\n\ty v1 => z v2\n)\nreplace w => \"/there\"\n",
        )],
    );
    let file = ModuleFile::read(path).unwrap();
    assert_eq!(file.local_replacements(), [path.join("./here"), PathBuf::from("/there")]);
    let work = tempfile::tempdir().unwrap();
    let copy = file.with_sdk(Path::new("/sdk"), work.path()).unwrap();
    let text = fs::read_to_string(copy).unwrap();
    assert!(text.ends_with("go 1.24\nrequire styx v0.1.0\nreplace styx => \"/sdk\"\n"), "{text}");
    assert!(!text.contains("1.22"), "{text}");

    write(path, &[("go.mod", "module m\ngo 1.25.1\nrequire styx v0.1.0\nreplace styx => ../own\n")]);
    let copy = ModuleFile::read(path).unwrap().with_sdk(Path::new("/sdk"), work.path()).unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), fs::read_to_string(path.join("go.mod")).unwrap());
}

#[test]
fn versions_are_compared_by_number() {
    let numbers = ["1.24", "1.24.3", "1.9", "1.26rc1", "2"].map(toolchain::number);
    assert_eq!(numbers, [(1, 24), (1, 24), (1, 9), (1, 26), (2, 0)]);
}
