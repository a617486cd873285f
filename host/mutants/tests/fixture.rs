//! A small crate through the whole of it: its mutants, what does not compile, what is caught and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use styx_mutants::catalog::{Catalog, Mutant};
use styx_mutants::compile::{Compiled, Compiler};
use styx_mutants::copy::Original;
use styx_mutants::equivalent;
use styx_mutants::hunt::hunt;
use styx_mutants::suite::{Effort, Fate, Suite};

const PACKAGE: &str = "counter";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture")
}

fn compile(catalog: &Catalog, work: &Path) -> Compiled {
    let original = Original::read(&root()).unwrap();
    let packages = original.needed([PACKAGE.to_owned()]).unwrap();
    let subjects = catalog.subjects.iter().collect();
    let wanted = catalog.mutants.keys().copied().collect();
    let compiler = Compiler {
        original: &original,
        work,
        build: None,
        left_out: None,
        subjects,
        wanted,
        mutants: &catalog.mutants,
        packages,
        simulator: None,
        also: &[],
        profile: &[],
    };
    compiler.compile().unwrap()
}

fn catalog() -> Catalog {
    Catalog::read(&root(), &[(PACKAGE.to_owned(), PACKAGE.into())]).unwrap()
}

#[test]
fn every_mutant_comes_to_what_it_must() {
    let work = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let compiled = compile(&catalog, work.path());
    let left_out = compiled.left_out.clone();

    // Again: what did not compile is remembered, and nothing else has changed.
    let again = compile(&catalog, work.path());
    assert_eq!(again.left_out, left_out);

    // The tests pass while nothing is switched on, or this is an error.
    let effort = Effort { transactions: 0, skipped: &[], shortest: Duration::from_secs(10), longest: 60.0, jobs: 2 };
    let suite = Suite::measure(&compiled, effort, work.path()).unwrap();
    let mutants: Vec<&Mutant> = catalog.mutants.values().filter(|mutant| !left_out.contains(&mutant.number)).collect();
    let outcomes = hunt(&suite, &mutants, 2, &|_| Ok(())).unwrap();
    let mut came_to: BTreeMap<&str, &str> = outcomes
        .iter()
        .map(|outcome| match &outcome.fate {
            Fate::Caught(how) if how == "time limit" => (outcome.key.as_str(), "endless"),
            Fate::Caught(how) if how == "test tests::strong" => (outcome.key.as_str(), "strong"),
            Fate::Caught(how) if how == "test tests::weak" => (outcome.key.as_str(), "weak"),
            Fate::Caught(how) => panic!("{how}"),
            Fate::Survived { reached } => (outcome.key.as_str(), if *reached { "survived" } else { "not reached" }),
        })
        .collect();
    came_to.extend(left_out.iter().map(|number| (catalog.mutants[number].key.as_str(), "does not compile")));
    let expected = BTreeMap::from([
        ("counter/src/late.rs is_late: `is_late` returns `false`", "weak"),
        ("counter/src/late.rs is_late: `is_late` returns `true`", "weak"),
        ("counter/src/late.rs is_late: `now > due` → `now <= due`", "weak"),
        ("counter/src/late.rs is_late: `now > due` → `now >= due`", "survived"),
        ("counter/src/lib.rs clamp: `value < LIMIT` → `value <= LIMIT`", "survived"),
        ("counter/src/lib.rs clamp: `value < LIMIT` → `value >= LIMIT`", "strong"),
        ("counter/src/lib.rs count_down: `1` → `2` in `step = 1;`", "strong"),
        ("counter/src/lib.rs count_down: `left -= step` → `left += step`", "endless"),
        ("counter/src/lib.rs count_down: `left >= step` → `left < step`", "strong"),
        ("counter/src/lib.rs count_down: `left >= step` → `left > step`", "strong"),
        ("counter/src/lib.rs count_down: removed: `left -= step;`", "endless"),
        ("counter/src/lib.rs count_down: removed: `step = 1;`", "does not compile"),
        ("counter/src/lib.rs greet: `name.to_owned() + \"!\"` → `name.to_owned() - \"!\"`", "does not compile"),
    ]);
    assert_eq!(came_to, expected);
}

#[test]
fn an_explanation_is_of_a_mutant_that_exists() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("equivalent.toml");
    let explain =
        |key: &str, why: &str| fs::write(&file, format!("[[equivalent]]\nkey = '{key}'\nwhy = '{why}'")).unwrap();
    let catalog = catalog();

    explain("counter/src/lib.rs clamp: `value < LIMIT` → `value <= LIMIT`", "at the limit both are the limit");
    let explained = equivalent::read(&file, &catalog).unwrap();
    let keys: Vec<&str> = explained.iter().map(|number| catalog.mutants[number].key.as_str()).collect();
    assert_eq!(keys, ["counter/src/lib.rs clamp: `value < LIMIT` → `value <= LIMIT`"]);

    explain("counter/src/lib.rs clamp: `value < LIMIT` → `value == LIMIT`", "at the limit both are the limit");
    assert!(equivalent::read(&file, &catalog).unwrap_err().to_string().contains("does not exist"));
    explain("counter/src/lib.rs clamp: `value < LIMIT` → `value <= LIMIT`", " ");
    assert!(equivalent::read(&file, &catalog).unwrap_err().to_string().contains("explain"));
}
