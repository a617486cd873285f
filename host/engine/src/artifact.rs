//! Compiled code, cached in files beside its checksum.
//!
//! Loading maps the file as code, so it is used only if its checksum is the one that was
//! written with it. Files appear by rename, checksum first: a crash leaves nothing half written.
//! Whatever is missing or damaged is compiled again.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use styx_protocol::deployment::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compiler::{self, CompileError, Compiler, one_line, write};
use crate::direct;

/// Why cached code cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("missing")]
    Missing,
    #[error("damaged")]
    Damaged,
    #[error("{0}")]
    Unfit(String),
}

/// Grows when the compiler is given something else of the same component.
const CODE_VERSION: u64 = 1;

/// Directory of compiled functions, beside the code of components.
pub(crate) const FUNCTIONS: &str = "functions";

/// The cache of one engine configuration.
pub(crate) struct Artifacts {
    directory: PathBuf,
    engine_hash: u64,
}

impl Artifacts {
    pub fn open(directory: &Path, engine_hash: u64) -> anyhow::Result<Self> {
        use anyhow::Context as _;
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the cache directory {}", directory.display()))?;
        Ok(Artifacts { directory: directory.to_owned(), engine_hash: engine_hash.wrapping_add(CODE_VERSION) })
    }

    fn code_path(&self, digest: Digest) -> PathBuf {
        self.directory.join(format!("{digest}-{:016x}.cwasm", self.engine_hash))
    }

    fn checksum_path(&self, digest: Digest) -> PathBuf {
        self.code_path(digest).with_extension("sha256")
    }

    /// Deletes code that is not kept and was compiled before a time.
    pub fn prune(&self, before: SystemTime, mut keep: impl FnMut(Digest) -> bool) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            let is_ours = path.extension().is_some_and(|extension| extension == "cwasm" || extension == "sha256");
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let Some((digest, hash)) = stem.split_once('-').filter(|_| is_ours) else { continue };
            let kept = hash == format!("{:016x}", self.engine_hash) && Digest::parse(digest).is_some_and(&mut keep);
            // Another process may share the directory, and delete the same.
            let is_old = || entry.metadata().and_then(|found| found.modified()).is_ok_and(|at| at < before);
            if !kept && is_old() {
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Compiled code, if it is there, whole, and of this engine.
    pub fn load(&self, engine: &Engine, digest: Digest) -> Option<Component> {
        match self.read(engine, digest) {
            Ok(component) => Some(component),
            Err(Unusable::Missing) => None,
            Err(why) => {
                tracing::warn!(%digest, "compiled code in the cache is unusable ({why}): compiling again");
                None
            }
        }
    }

    fn read(&self, engine: &Engine, digest: Digest) -> Result<Component, Unusable> {
        let code = self.code_path(digest);
        let (Ok(expected), Ok(found)) = (std::fs::read_to_string(self.checksum_path(digest)), checksum(&code)) else {
            return Err(Unusable::Missing);
        };
        if expected.trim() != found.to_string() {
            return Err(Unusable::Damaged);
        }
        // SAFETY: the file's content is what this program's compiler wrote, by its checksum, and it
        // is only ever replaced by rename, never changed in place. wasmtime itself refuses code of
        // another version, configuration or processor.
        unsafe { Component::deserialize_file(engine, &code) }.map_err(|error| Unusable::Unfit(one_line(&error)))
    }

    /// Compiles a component and puts the code into the cache.
    pub fn compile(
        &self,
        engine: &Engine,
        compiler: &Compiler,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<Component, CompileError> {
        let host = |error: std::io::Error| CompileError::Host(format!("{error} (in {})", self.directory.display()));
        let scratch = tempfile::Builder::new().prefix("compile-").tempdir_in(&self.directory).map_err(host)?;
        let code = scratch.path().join("code");
        let functions = self.directory.join(FUNCTIONS);
        let exported = direct::with_module_exported(bytes);
        let bytes = exported.as_deref().unwrap_or(bytes);
        match compiler {
            Compiler::InProcess => {
                write(&code, &compiler::compile(bytes, &functions)?).map_err(host)?;
            }
            Compiler::Child(program) => {
                let component = scratch.path().join("component");
                write(&component, bytes).map_err(host)?;
                compiler::run_child(program, &component, &code, &functions)?;
            }
        }
        let note = scratch.path().join("checksum");
        let sum = checksum(&code).map_err(host)?;
        write(&note, sum.to_string().as_bytes()).map_err(host)?;
        std::fs::rename(&note, self.checksum_path(digest)).map_err(host)?;
        std::fs::rename(&code, self.code_path(digest)).map_err(host)?;
        self.read(engine, digest).map_err(|why| match why {
            // Compiled by the same engine a moment ago: it has more parts than the pool has room for.
            Unusable::Unfit(message) => CompileError::TooCostly(message),
            Unusable::Missing | Unusable::Damaged => {
                CompileError::Host("the code just compiled cannot be read back".into())
            }
        })
    }
}

/// SHA-256 of bytes: a component's content address.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// SHA-256 of a file.
fn checksum(path: &Path) -> std::io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Digest(hasher.finalize().into())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

pub(crate) fn plain(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}")
}
