//! The compiler for C guests: zig's, from a Python package, in a virtual environment in the cache.
//!
//! It brings a linker and a C library for WebAssembly with it, which a clang of the machine rarely has.

use std::path::PathBuf;
use std::process::Command;

use crate::cache::Cache;
use crate::error::BuildError;
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
        let python = python.with_tool(ZIG, "zig's C compiler", "c", cache, progress)?;
        Ok(Self { python, objects: cache.directory("c/objects")? })
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
