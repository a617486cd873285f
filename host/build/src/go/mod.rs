//! Go guests: the stock compiler makes a core module for WASI, the [support](support.wat) takes WASI's place in it, and
//! it becomes a component.
//!
//! The project's `go.mod` is left alone: a copy, with the SDK that this binary carries, is used instead. So is a copy of
//! two files of Go's runtime, in which random numbers are the transaction's.

mod branches;
mod link;
mod module_file;
mod operators;
mod runtime;
#[cfg(test)]
mod tests;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wit_component::StringEncoding;
use wit_parser::Resolve;

use super::cache::{Cache, Inputs};
use super::command;
use super::component;
use super::error::{BuildError, Code};
use super::manifest::FILE_NAME;
use super::progress::Progress;
use super::sdk::Sdk;
use link::LinkError;
pub use module_file::ModuleFile;
use operators::Source;
pub use toolchain::MINIMUM;
use toolchain::Toolchain;

/// Takes the operating system's place.
const SUPPORT: &str = include_str!("support.wat");
/// Names for traps' backtraces stay in; what only a debugger reads does not.
const LINKER_FLAGS: &str = "-ldflags=-w";

/// Where a build has the SDK, in the project's directory: nothing is there, files of the cache take their places. A component
/// says where its modules are, and it is to be the same for whoever builds it.
const SDK_DIRECTORY: &str = ".styx-sdk";

/// A Go guest about to be built.
pub struct GoGuest<'a> {
    directory: &'a Path,
    /// Of the package with the functions, relative to the directory.
    package: String,
    toolchain: Toolchain,
}

impl<'a> GoGuest<'a> {
    /// Finds the package and a toolchain.
    pub fn open(
        directory: &'a Path,
        entry: Option<&str>,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Self, BuildError> {
        let missing = |what: &str| BuildError::new(Code::BadProject, format_args!("{} {what}", directory.display()));
        if !directory.join("go.mod").is_file() {
            return Err(missing("has no go.mod").hint("run `go mod init NAME` there"));
        }
        let package = entry.unwrap_or(".").trim_start_matches("./").trim_end_matches('/');
        let package = if package.is_empty() || package == "." { ".".to_owned() } else { format!("./{package}") };
        let sources = fs::read_dir(directory.join(&package)).into_iter().flatten().flatten();
        if !sources.into_iter().any(|file| is_source(&file.path())) {
            return Err(missing(&format!("has no Go sources in {package}"))
                .hint(format_args!("write the directory of the package main as `entry = \"…\"` in {FILE_NAME}")));
        }
        Ok(Self { directory, package, toolchain: Toolchain::find(directory, cache, progress)? })
    }

    /// Adds all that the component depends on.
    pub fn add_inputs(&self, inputs: &mut Inputs) -> Result<(), BuildError> {
        inputs
            .add("toolchain", &self.toolchain.version)
            .add("sdk", Sdk::Go.digest())
            .add("sdk is at", SDK_DIRECTORY)
            .add("wit", Sdk::Wit.digest())
            .add("support", SUPPORT)
            .add("package", &self.package)
            .add_path(self.directory)?;
        for path in ModuleFile::read(self.directory)?.local_replacements() {
            inputs.add_path(&path)?;
        }
        Ok(())
    }

    /// Builds the component.
    pub fn build(&self, cache: &Cache, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
        self.check_no_cgo()?;
        let mut sources = Vec::new();
        find_sources(self.directory, Path::new(""), &mut sources)?;
        operators::check(&sources)?;
        let temporary = std::env::temp_dir();
        let work = tempfile::tempdir().map_err(BuildError::io("create a directory in", &temporary))?;
        let module_file =
            ModuleFile::read(self.directory)?.with_sdk(&Path::new(".").join(SDK_DIRECTORY), work.path())?;
        let mut sdk = Vec::new();
        list(&Sdk::Go.unpacked(cache)?, Path::new(SDK_DIRECTORY), &mut sdk)?;
        let overlay = runtime::overlay(&self.toolchain.root, &self.toolchain.version, work.path(), &sdk)?;
        let module = work.path().join("guest.wasm");
        let mut go = self.toolchain.go(self.directory, cache)?;
        go.args(["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", LINKER_FLAGS])
            .env("GOOS", "wasip1")
            .env("GOARCH", "wasm")
            .env("GOWASM", "satconv,signext")
            .env("CGO_ENABLED", "0")
            .arg(format!("-modfile={}", module_file.display()))
            .arg(format!("-overlay={}", overlay.display()))
            .arg("-o")
            .arg(&module)
            .arg(&self.package);
        progress.step(&format!("go builds {}", self.name()));
        let finished = command::run(&mut go, None, |line| progress.detail(line))?;
        if !finished.succeeded {
            return Err(self.explain(finished.tail));
        }
        componentize(&fs::read(&module).map_err(BuildError::io("read", &module))?)
    }

    /// What runs the module's tests, on this machine's processor. `work` is for a copy of its go.mod that knows the SDK.
    pub fn tests(&self, cache: &Cache, work: &Path) -> Result<Command, BuildError> {
        let module_file = ModuleFile::read(self.directory)?.with_sdk(&Sdk::Go.unpacked(cache)?, work)?;
        let mut go = self.toolchain.go(self.directory, cache)?;
        go.args(["test", &format!("-modfile={}", module_file.display()), "./..."]);
        Ok(go)
    }

    /// The compiler would leave such files out without a word.
    fn check_no_cgo(&self) -> Result<(), BuildError> {
        let package = self.directory.join(self.package.trim_start_matches(['.', '/']));
        let wrong = cgo_in(self.directory, &package)?;
        BuildError::of_all(Code::BuildFailed, wrong).map_or(Ok(()), Err)
    }

    /// A package of which the compiler leaves out all files, if that is what it says.
    fn left_out(&self, tail: &str) -> Option<BuildError> {
        let (_, package) = tail.split_once("build constraints exclude all Go files in ")?;
        let package = Path::new(package.lines().next()?.trim());
        let root = self.directory.canonicalize().ok()?;
        if let Some(error) = BuildError::of_all(Code::BuildFailed, cgo_in(&root, package).ok()?) {
            return Some(error);
        }
        let shown = package.strip_prefix(&root).unwrap_or(package).display();
        Some(
            BuildError::new(Code::BuildFailed, format_args!("no file of the package {shown} is for a guest"))
                .hint("it is built with GOOS=wasip1, GOARCH=wasm and without cgo: add a file that is for that, or do without the package"),
        )
    }

    /// How a step calls the package.
    fn name(&self) -> String {
        let directory = self.directory.file_name().unwrap_or_default().to_string_lossy();
        if self.package == "." { directory.into_owned() } else { format!("{directory}/{}", &self.package[2..]) }
    }

    /// The compiler's first complaint; the others are in its output.
    fn explain(&self, tail: String) -> BuildError {
        let located = tail.lines().find_map(|line| located(line.trim()));
        let error = |message: &str| BuildError::new(Code::BuildFailed, message);
        let fails = match located {
            None if let Some(error) = self.left_out(&tail) => error,
            _ if tail.contains("function main is undeclared") => error(&format!("{} has no main", self.name()))
                .hint("add `func main() {}`: it is not run, but Go asks for it"),
            _ if tail.contains("requires exactly one main package") => error(&format!(
                "{} is not a program",
                self.name()
            ))
            .hint(format_args!(
                "the functions are in `package main`, in the project's directory or in that of `entry` in {FILE_NAME}"
            )),
            Some(line) if line.contains("no required module provides package") || line.contains("is not in std") => {
                error(line.trim_end_matches("; to add it:")).hint("add it with `go get` and build again")
            }
            Some(line) => error(line).hint("mend it and build again"),
            None if tail.contains("missing go.sum entry") || tail.contains("updates to go.mod needed") => {
                error("go.mod and go.sum do not have all that is imported").hint("run `go mod tidy` and build again")
            }
            None => error(&format!("{} does not compile", self.name())).hint("see go's output"),
        };
        fails.output(tail)
    }
}

/// Where a package's files call C, and what to do about it.
fn cgo_in(root: &Path, package: &Path) -> Result<Vec<(String, String)>, BuildError> {
    let files = fs::read_dir(package).map_err(BuildError::io("list", package))?;
    let mut paths: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).filter(|path| is_source(path)).collect();
    paths.sort_unstable();
    let mut found = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(BuildError::io("read", &path))?;
        let imports_c = |line: &str| matches!(line.split("//").next().map(str::trim), Some("import \"C\"" | "\"C\""));
        if let Some(at) = String::from_utf8_lossy(&bytes).lines().position(imports_c) {
            let shown = path.strip_prefix(root).unwrap_or(&path).display();
            let hint = format!("write it in Go, or make the C a component of its own: [component.NAME] in {FILE_NAME}");
            found.push((format!("{shown}:{}: a guest in Go cannot call C", at + 1), hint));
        }
    }
    Ok(found)
}

/// Whether a file is a source of Go, and no test.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".go") && !name.ends_with("_test.go")
}

/// All sources of a module that are no tests.
fn find_sources(root: &Path, within: &Path, sources: &mut Vec<Source>) -> Result<(), BuildError> {
    let directory = root.join(within);
    for entry in fs::read_dir(&directory).map_err(BuildError::io("list", &directory))? {
        let name = entry.map_err(BuildError::io("list", &directory))?.file_name();
        let text = name.to_string_lossy();
        let path = within.join(&name);
        let file = root.join(&path);
        if file.is_dir() {
            if !text.starts_with(['.', '_']) && !["target", "testdata", "vendor"].contains(&text.as_ref()) {
                find_sources(root, &path, sources)?;
            }
        } else if is_source(&path) {
            let text = fs::read(&file).map_err(BuildError::io("read", &file))?;
            sources.push(Source { path, text: String::from_utf8_lossy(&text).into_owned() });
        }
    }
    Ok(())
}

/// A line such as `./cart.go:7:2: undefined: x`, without the dot.
fn located(line: &str) -> Option<&str> {
    let line = line.strip_prefix("./").unwrap_or(line);
    let (file, rest) = line.split_once(".go:")?;
    (!file.contains(' ') && rest.starts_with(|first: char| first.is_ascii_digit())).then_some(line)
}

/// Makes a component of the module that Go's linker made.
fn componentize(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let fails = |what: &str, error: &dyn std::fmt::Display| {
        BuildError::new(Code::BuildFailed, format_args!("{what}: {error}")).hint("report this, with the version of Go")
    };
    let support = wat::parse_str(SUPPORT).map_err(|error| fails("the support is no module", &error))?;
    let mut linked = link::link(module, &support).map_err(|error| match error {
        LinkError::NoSdk => BuildError::new(Code::BuildFailed, "nothing in the package uses the SDK")
            .hint("import \"styx\" and register a function: `var f = styx.Register(…)`"),
        LinkError::Unreadable(error) => fails("the module cannot be linked", &error),
    })?;
    let mut resolve = Resolve::default();
    let text = Sdk::Wit.file("guest.wit");
    let package = resolve.push_str("guest.wit", &text).map_err(|error| fails("the contract cannot be read", &error))?;
    let world =
        resolve.select_world(&[package], Some("function")).map_err(|error| fails("there is no world", &error))?;
    wit_component::embed_component_metadata(&mut linked, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| fails("the contract cannot be embedded", &error))?;
    component::encode(&linked)
}

/// All files of a directory, with the path that each has below another one.
fn list(directory: &Path, below: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<(), BuildError> {
    for entry in fs::read_dir(directory).map_err(BuildError::io("list", directory))? {
        let path = entry.map_err(BuildError::io("list", directory))?.path();
        let there = below.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            list(&path, &there, files)?;
        } else {
            files.push((there, path));
        }
    }
    Ok(())
}

/// A path as a file of Go's own formats takes it.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

/// Writes a file of the build.
fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, BuildError> {
    let path = directory.join(name);
    fs::write(&path, text).map_err(BuildError::io("write", &path))?;
    Ok(path)
}
