//! The compiler for C guests: zig's, from a Python package, in a virtual environment in the cache.
//!
//! It brings a linker and a C library for WebAssembly with it, which a clang of the machine rarely has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Cache, Inputs};
use crate::command;
use crate::error::{BuildError, Code};
use crate::installer;
use crate::progress::Progress;
use crate::python::Python;

/// Pinned: another version makes other components.
pub const ZIG: &str = "ziglang==0.17.1";

/// A compiler that is there.
pub struct Toolchain {
    python: PathBuf,
    /// What zig has compiled: the C library, and every source that did not change.
    objects: PathBuf,
}

impl Toolchain {
    /// Finds the compiler in the cache, or installs it there.
    pub fn find(python: &Python, cache: &Cache, progress: &dyn Progress) -> Result<Self, BuildError> {
        let key = Inputs::default().add("python", &python.version).add("tool", ZIG).digest();
        // Only one of several builds installs it; and of several that compile the C library, one does the work.
        let _lock = cache.lock("c")?;
        let environment = cache.directory(Path::new("c").join(format!("venv-{}", &key[..16])))?;
        let (program, complete) = (environment.join("bin/python"), environment.join("complete"));
        let found = Self { python: program, objects: cache.directory("c/objects")? };
        if complete.is_file() {
            return Ok(found);
        }
        progress.step(&format!("pip installs {ZIG}"));
        let mut create = Command::new(python.program);
        create.args(["-m", "venv", "--clear"]).arg(&environment);
        run(&mut create, progress, |tail| {
            BuildError::new(Code::BuildFailed, "cannot create a virtual environment")
                .hint("install the venv module (Debian: python3-venv)")
                .output(tail)
        })?;
        let mut install = Command::new(&found.python);
        install
            .args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install", ZIG])
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME");
        run(&mut install, progress, |tail| installer::failed("pip", "zig's C compiler", tail))?;
        fs::write(&complete, "").map_err(BuildError::io("write", &complete))?;
        Ok(found)
    }

    /// The compiler, to be given its arguments.
    pub fn compiler(&self) -> Command {
        let mut compiler = Command::new(&self.python);
        compiler
            .args(["-m", "ziglang", "cc"])
            .env("ZIG_GLOBAL_CACHE_DIR", &self.objects)
            .env("ZIG_LOCAL_CACHE_DIR", &self.objects)
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME");
        // Paths of the machine's own headers would be taken for the guest's.
        for variable in ["CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "CFLAGS"] {
            compiler.env_remove(variable);
        }
        compiler
    }
}

fn run(
    command: &mut Command,
    progress: &dyn Progress,
    failed: impl FnOnce(String) -> BuildError,
) -> Result<(), BuildError> {
    let finished = command::run(command, None, |line| progress.detail(line))?;
    if finished.succeeded { Ok(()) } else { Err(failed(finished.tail)) }
}
