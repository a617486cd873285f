//! Compiles the copy once, for all mutants that are asked for. Those that do not compile are found by where the compiler
//! complains, left out, and the rest is tried again, until nothing is left to complain about. Crates that have compiled are not
//! compiled again for what is found in others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::catalog::{Mutant, Subject};
use crate::copy::Original;
use crate::schema::Rewritten;

/// A program that a mutant is tested with.
#[derive(Clone, Debug)]
pub struct Program {
    /// The package that it is built from.
    pub package: String,
    /// Its target's name.
    pub name: String,
    pub path: PathBuf,
    /// Where it expects to run: its package's directory.
    pub directory: PathBuf,
}

/// What came of compiling.
#[derive(Debug)]
pub struct Compiled {
    /// Test programs of the subjects.
    pub tests: Vec<Program>,
    pub simulator: Option<Program>,
    /// Mutants that do not compile.
    pub left_out: BTreeSet<u32>,
}

/// How to compile.
#[derive(Debug)]
pub struct Compiler<'a> {
    pub original: &'a Original,
    /// Everything that is written goes below it.
    pub work: &'a Path,
    /// Where the workspace itself is built: dependencies of both are compiled once.
    pub build: Option<&'a Path>,
    /// Keys of mutants that did not compile when this was committed: rounds that nobody need wait for.
    pub left_out: Option<&'a Path>,
    /// Crates in the copy that are rewritten.
    pub subjects: Vec<&'a Subject>,
    /// Those that are compiled in: a few are compiled, and run, as quickly as none.
    pub wanted: BTreeSet<u32>,
    /// Their mutants.
    pub mutants: &'a BTreeMap<u32, Mutant>,
    /// All crates in the copy.
    pub packages: BTreeSet<String>,
    /// The simulator: a program of one of the packages whose tests are run.
    pub simulator: Option<&'a str>,
    /// Packages whose tests run the subjects, besides their own.
    pub also: &'a [&'a str],
    /// The profile, as arguments.
    pub profile: &'a [String],
}

/// What the compiler says about a place.
struct Complaint {
    file: PathBuf,
    span: Range<usize>,
}

impl Compiler<'_> {
    /// Compiles the copy with as many of its mutants as compile.
    ///
    /// # Errors
    /// A file cannot be read or written, or the crates do not compile whatever is left out.
    pub fn compile(&self) -> Result<Compiled> {
        let mut known = self.known();
        let mut left_out = self.left_out_before();
        let mut round = 1;
        loop {
            let rewritten = self.rewrite(&left_out);
            let texts: BTreeMap<PathBuf, String> =
                rewritten.iter().map(|(path, file)| (path.clone(), linked(path, &file.text))).collect();
            self.original.write(&self.copy(), &self.packages, &texts)?;
            eprintln!("compiling {} mutants, round {round}", self.wanted.len() - left_out.len());
            let (success, messages, errors) = self.cargo(&self.tests())?;
            if success {
                known.extend(left_out.iter().map(|number| self.mutants[number].key.clone()));
                fs::write(self.memory(), serde_json::to_vec_pretty(&known)?)?;
                return self.compiled(&messages, left_out);
            }
            let before = left_out.len();
            left_out.extend(self.blame(&rewritten, &messages));
            if left_out.len() == before {
                bail!("the copy in {} does not compile:\n{errors}", self.copy().display());
            }
            round += 1;
        }
    }

    /// Those of the wanted ones that have not compiled before.
    pub fn left_out_before(&self) -> BTreeSet<u32> {
        let known = self.known();
        self.wanted.iter().copied().filter(|number| known.contains(&self.mutants[number].key)).collect()
    }

    /// By their keys, so that what has changed elsewhere does not have all of them tried again.
    fn known(&self) -> BTreeSet<String> {
        let memory = self.memory();
        let keys = |file: &Path| -> Option<Vec<String>> { serde_json::from_slice(&fs::read(file).ok()?).ok() };
        self.left_out.into_iter().chain([&*memory]).filter_map(keys).flatten().collect()
    }

    fn memory(&self) -> PathBuf {
        self.work.join("left-out.json")
    }

    /// Arguments that compile all tests, and with those of its package the simulator: one build, since Cargo compiles what
    /// both need once more for each selection of features.
    fn tests(&self) -> Vec<&str> {
        let packages = self.subjects.iter().map(|subject| subject.package.as_str()).chain(self.also.iter().copied());
        ["test", "--no-run"].into_iter().chain(packages.flat_map(|package| ["--package", package])).collect()
    }

    fn compiled(&self, messages: &[Value], left_out: BTreeSet<u32>) -> Result<Compiled> {
        let (tests, programs): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| message["profile"]["test"] == true);
        let mut programs = self.programs(&programs)?.into_iter();
        let simulator = programs.find(|program| Some(program.name.as_str()) == self.simulator);
        if let Some(name) = self.simulator.filter(|_| simulator.is_none()) {
            bail!("{name} is no program, so that nothing is simulated");
        }
        Ok(Compiled { tests: self.programs(&tests)?, simulator, left_out })
    }

    fn copy(&self) -> PathBuf {
        self.work.join("src")
    }

    fn rewrite(&self, left_out: &BTreeSet<u32>) -> BTreeMap<PathBuf, Rewritten> {
        let live = |number| self.wanted.contains(&number) && !left_out.contains(&number);
        let files = self.subjects.iter().flat_map(|subject| &subject.files);
        files.map(|(path, schema)| (path.clone(), schema.rewrite(live))).collect()
    }

    /// Runs Cargo; its messages, and what it says to people.
    fn cargo(&self, arguments: &[&str]) -> Result<(bool, Vec<Value>, String)> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.copy()).args(arguments).args(self.profile).args([
            "--quiet",
            "--message-format",
            "json",
        ]);
        // Programs are put below this one, where they take nobody's place.
        command.env("CARGO_TARGET_DIR", self.work.join("target"));
        command.envs(self.build.map(|build| ("CARGO_BUILD_BUILD_DIR", build)));
        let output = command.output().context("cannot run cargo")?;
        let messages = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        Ok((output.status.success(), messages, String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Executables that Cargo has built.
    fn programs(&self, messages: &[&Value]) -> Result<Vec<Program>> {
        let mut programs = Vec::new();
        for message in messages {
            let Some(path) = message["executable"].as_str() else { continue };
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let directory = manifest.parent().unwrap_or(manifest).to_owned();
            let below = directory.strip_prefix(self.copy()).unwrap_or(&directory);
            let package = self.packages.iter().find(|package| self.original.directory(package) == Some(below));
            let package = package.with_context(|| format!("{path} is of no package"))?.clone();
            let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
            programs.push(Program { package, name, path: path.into(), directory });
        }
        Ok(programs)
    }

    /// Mutants that the compiler's errors are about.
    fn blame(&self, rewritten: &BTreeMap<PathBuf, Rewritten>, messages: &[Value]) -> BTreeSet<u32> {
        let schema = |file: &Path| {
            let mut files = self.subjects.iter().flat_map(|subject| &subject.files);
            files.find(|(path, _)| path == file).map(|(_, schema)| schema)
        };
        let own = |c: &Complaint| rewritten.get(&c.file)?.own(&c.span).map(|number| vec![number]);
        let at = |c: &Complaint| Some(rewritten.get(&c.file)?.at(&c.span));
        let around = |c: &Complaint| Some(schema(&c.file)?.around(rewritten.get(&c.file)?, &c.span));
        let mut blamed = BTreeSet::new();
        let errors = messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error");
        for error in errors {
            let (primary, other) = self.complaints(error);
            let primarily = |find: &dyn Fn(&Complaint) -> Option<Vec<u32>>| first(&primary, find);
            // Used without a value, or after it was moved: what stands elsewhere is the reason.
            let elsewhere = matches!(error["code"]["code"].as_str(), Some("E0381" | "E0382"));
            let found = primarily(&own)
                .or_else(|| primarily(&around).filter(|_| elsewhere))
                .or_else(|| primarily(&at))
                .or_else(|| first(&other, &at))
                .or_else(|| primarily(&around));
            blamed.extend(found.unwrap_or_default());
        }
        blamed
    }

    /// Where an error is, and where its explanation points.
    fn complaints(&self, error: &Value) -> (Vec<Complaint>, Vec<Complaint>) {
        let spans = |message: &Value| message["spans"].as_array().cloned().unwrap_or_default();
        let complaint = |span: &Value| {
            let file = PathBuf::from(span["file_name"].as_str()?);
            let file = file.strip_prefix(self.copy()).map(Path::to_owned).unwrap_or(file);
            let byte = |name: &str| usize::try_from(span[name].as_u64()?).ok();
            Some(Complaint { file, span: byte("byte_start")?..byte("byte_end")? })
        };
        let own = spans(error);
        let (primary, other): (Vec<Value>, Vec<Value>) = own.into_iter().partition(|span| span["is_primary"] == true);
        let children = error["children"].as_array().into_iter().flatten().flat_map(spans);
        let other = other.iter().cloned().chain(children).collect::<Vec<_>>();
        (primary.iter().filter_map(complaint).collect(), other.iter().filter_map(complaint).collect())
    }
}

/// A crate without a mutant has the switches as well: whoever asks its programs is answered.
fn linked(path: &Path, text: &str) -> String {
    let link = if path.ends_with("src/lib.rs") { "\nuse ::styx_switch as _;\n" } else { "" };
    format!("{text}{link}")
}

/// All that is found for some complaints, if there is anything.
fn first(complaints: &[Complaint], find: &dyn Fn(&Complaint) -> Option<Vec<u32>>) -> Option<Vec<u32>> {
    let found: Vec<u32> = complaints.iter().filter_map(find).flatten().collect();
    (!found.is_empty()).then_some(found)
}
