//! The compiler for C guests: zig's, from a Python package, in a virtual environment in the cache.
//!
//! It brings a linker and a C library for WebAssembly with it, which a clang of the machine rarely has. The library is compiled
//! already, as part of the SDK.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::command;
use crate::error::{BuildError, Code};
use crate::progress::Progress;
use crate::python::Python;

/// Pinned: another version makes other components, and needs another C library (`scripts/c-library.sh`).
pub const ZIG: &str = "ziglang==0.17.1";

/// What `scripts/c-library.sh` makes.
const LIBRARY: [&str; 4] = ["crt1-reactor.o", "libc.a", "libzigc.a", "libcompiler_rt.a"];

/// A compiler that is there.
pub struct Toolchain {
    /// Where zig and its headers are.
    directory: PathBuf,
    /// What zig has compiled: every source that did not change.
    objects: PathBuf,
}

impl Toolchain {
    /// Finds the compiler in the cache, or installs it there.
    pub fn find(python: &Python, cache: &Cache, progress: &dyn Progress) -> Result<Self, BuildError> {
        let python = python.with_tool(ZIG, "zig's C compiler", "c", cache, progress)?;
        let mut ask = Command::new(&python);
        ask.args(["-c", "import os, ziglang; print(os.path.dirname(ziglang.__file__))"]);
        let Some(directory) = command::ask(ask.env_remove("PYTHONPATH").env_remove("PYTHONHOME")) else {
            let place = python.display();
            return Err(BuildError::new(Code::ToolchainMissing, format_args!("{place} does not find {ZIG}"))
                .hint("remove the directory c in the cache, and build again"));
        };
        Ok(Self { directory: directory.into(), objects: cache.directory("c/objects")? })
    }

    /// The compiler, to be given its arguments.
    pub fn compiler(&self) -> Command {
        let mut compiler = Command::new(self.directory.join("zig"));
        compiler.arg("cc").env("ZIG_GLOBAL_CACHE_DIR", &self.objects).env("ZIG_LOCAL_CACHE_DIR", &self.objects);
        // Paths of the machine's own headers would be taken for the guest's.
        for variable in ["CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "CFLAGS"] {
            compiler.env_remove(variable);
        }
        compiler
    }

    /// The compiler with a C library that is there in a directory: zig would spend half a minute on making it of its sources.
    pub fn compiler_with(&self, library: &Path) -> Command {
        let mut compiler = self.compiler();
        compiler.arg("-nostdlib");
        // In the order in which zig looks for headers: its own before them.
        for headers in ["wasm-wasi-musl", "generic-musl"] {
            compiler.arg("-idirafter").arg(self.directory.join("lib/libc/include").join(headers));
        }
        compiler.args(LIBRARY.iter().map(|part| library.join(part)));
        compiler
    }
}
