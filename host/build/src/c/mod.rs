//! C guests: every source of the project and those of the SDK become a core module, which then becomes a component.
//!
//! The SDK speaks the canonical ABI itself, so no bindings are generated. Of the C library that is linked, nothing may
//! remain that needs an operating system: the SDK answers for the clock and for random numbers, the rest is refused.

mod explain;
mod operators;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Cache, Inputs};
use super::command;
use super::component;
use super::error::{BuildError, Code};
use super::manifest::FILE_NAME;
use super::progress::Progress;
use super::python::Python;
use super::sdk::Sdk;
use operators::Source;
use toolchain::{Toolchain, ZIG};

/// Undefined behaviour ends in a trap, instead of in anything, and the SDK says where; of the paths of its own sources so much
/// stays as is the same for everybody. An array of some elements has so many, at the end of a struct too. A stack that grows
/// too large traps as well: zig puts it below the data.
const FLAGS: &[&str] = &[
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-std=gnu17",
    "-O2",
    "-g0",
    "-Wall",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=return-type",
    "-Werror=format",
    "-fno-color-diagnostics",
    "-fno-stack-protector",
    "-fsanitize=undefined",
    "-fno-sanitize-recover=undefined",
    "-fstrict-flex-arrays=2",
    "-fsanitize-undefined-strip-path-components=-3",
    "-Wl,-z,stack-size=262144",
];

/// Directories that hold tests.
const TESTS: [&str; 2] = ["test", "tests"];

/// A C guest about to be built.
pub struct CGuest<'a> {
    directory: &'a Path,
    /// Relative to the directory.
    sources: Vec<PathBuf>,
    python: Python,
}

impl<'a> CGuest<'a> {
    /// Finds the sources, and what the compiler is installed with.
    pub fn open(directory: &'a Path, entry: Option<&str>) -> Result<Self, BuildError> {
        let mut sources = Vec::new();
        match entry {
            Some(entry) if directory.join(entry).is_file() => sources.push(entry.into()),
            Some(entry) => {
                return Err(BuildError::new(
                    Code::BadProject,
                    format_args!("the entry {entry:?} is no file in {}", directory.display()),
                )
                .hint(format_args!("write the only source in {FILE_NAME}, or leave it out for all *.c")));
            }
            None => find_sources(directory, Path::new(""), &[".c"], &mut sources)?,
        }
        if sources.is_empty() {
            return Err(BuildError::new(Code::BadProject, format_args!("{} has no *.c", directory.display()))
                .hint("write a source that includes <styx.h>"));
        }
        sources.sort();
        // Only what is to be done about it is Python's.
        let python = Python::find().map_err(|error| BuildError {
            message: format!("{}: it fetches the C compiler", error.message),
            ..error
        })?;
        Ok(Self { directory, sources, python })
    }

    /// Its sources, relative to its directory.
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// Adds all that the component depends on.
    pub fn add_inputs(&self, inputs: &mut Inputs) -> Result<(), BuildError> {
        inputs.add("tool", ZIG).add("flags", FLAGS.join(" ")).add("sdk", Sdk::C.digest()).add("wit", Sdk::Wit.digest());
        for source in &self.sources {
            inputs.add("source", source.to_string_lossy().as_bytes());
        }
        inputs.add_path(self.directory)?;
        Ok(())
    }

    /// Builds the component.
    pub fn build(&self, cache: &Cache, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        self.check_operators()?;
        let toolchain = Toolchain::find(&self.python, cache, progress)?;
        let sdk = Sdk::C.unpacked(cache)?;
        let output = tempfile::tempdir().map_err(BuildError::io("create a directory in", &std::env::temp_dir()))?;
        let module = output.path().join("module.wasm");
        let mut own = Vec::new();
        find_sources(&sdk.join("src"), Path::new(""), &[".c"], &mut own)?;
        let mut compiler = toolchain.compiler_with(&sdk.join("library"));
        compiler
            .args(FLAGS)
            .arg("-I")
            .arg(sdk.join("include"))
            .arg("-o")
            .arg(&module)
            .args(own.iter().map(|source| sdk.join("src").join(source)))
            .args(&self.sources)
            .current_dir(self.directory);
        progress.step(&format!("zig compiles {}", count(self.sources.len())));
        let (finished, first) =
            command::run_noting(&mut compiler, progress, |line| explain::is_error(line).then_some(line))?;
        if !finished.succeeded {
            return Err(explain::explain(first.as_deref(), finished.tail));
        }
        let bytes = fs::read(&module).map_err(BuildError::io("read", &module))?;
        let left = component::imports_of(&bytes, "wasi_snapshot_preview1")?;
        if !left.is_empty() {
            return Err(explain::refused(&left));
        }
        component::encode_with(&bytes, &Sdk::Wit.file("guest.wit"))
    }

    fn check_operators(&self) -> Result<(), BuildError> {
        let mut all = Vec::new();
        find_sources(self.directory, Path::new(""), &[".c", ".h"], &mut all)?;
        all.retain(|path| !self.sources.contains(path));
        let read = |path: &PathBuf, is_included| {
            let file = self.directory.join(path);
            let text = fs::read(&file).map_err(BuildError::io("read", &file))?;
            Ok(Source { path: path.clone(), text: String::from_utf8_lossy(&text).into_owned(), is_included })
        };
        let own = self.sources.iter().map(|path| read(path, false));
        operators::check(&own.chain(all.iter().map(|path| read(path, true))).collect::<Result<Vec<_>, _>>()?)
    }
}

/// A compiler for this machine: its own, or zig's.
pub fn native_compiler(cache: &Cache, progress: &dyn Progress) -> Result<Command, BuildError> {
    if command::ask(Command::new("cc").arg("--version")).is_some() {
        return Ok(Command::new("cc"));
    }
    Ok(Toolchain::find(&Python::find()?, cache, progress)?.compiler())
}

fn count(sources: usize) -> String {
    if sources == 1 { "1 source".to_owned() } else { format!("{sources} sources") }
}

/// All files below a directory whose names end so, that are no tests and nothing that was built.
fn find_sources(root: &Path, within: &Path, ends: &[&str], sources: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    let directory = root.join(within);
    for entry in fs::read_dir(&directory).map_err(BuildError::io("list", &directory))? {
        let name = entry.map_err(BuildError::io("list", &directory))?.file_name();
        let text = name.to_string_lossy();
        let path = within.join(&name);
        if root.join(&path).is_dir() {
            if !text.starts_with('.') && text != "target" && !TESTS.contains(&text.as_ref()) {
                find_sources(root, &path, ends, sources)?;
            }
        } else if ends.iter().any(|end| text.ends_with(end)) && !text.ends_with("_test.c") && !text.starts_with("test_")
        {
            sources.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_sources() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.c", "lib/b.c", "lib/b.h", "tests/c.c", "test_d.c", "e_test.c", "target/f.c", ".git/g.c"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut sources = Vec::new();
        find_sources(directory.path(), Path::new(""), &[".c"], &mut sources).unwrap();
        sources.sort();
        assert_eq!(sources, [Path::new("a.c"), Path::new("lib/b.c")]);
        let refused = CGuest::open(directory.path(), Some("z.c")).err().unwrap();
        assert_eq!(refused.code, Code::BadProject);
    }
}
