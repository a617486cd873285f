//! The shared part: wasmtime's engine, the components that are ready, the cache of compiled code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use styx_protocol::catalog::Digest;

use crate::artifact::{self, Artifacts};
use crate::component::Ready;
use crate::config::{self, Cluster, Purpose};
use crate::determinism::Determinism;
use crate::executor::Executor;
use crate::pool::Idle;
use crate::room::{Guests, Room, Suspended};

/// Where components are compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// Here, without bounds on time and memory: for tests and for code of one's own.
    #[default]
    InProcess,
    /// In a child process under limits: this program, called as `program __compile …`; its main
    /// function hands over to [`crate::compile_child_main`].
    Child(PathBuf),
}

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory for compiled code; made if absent. May be deleted at any time.
    pub cache_dir: PathBuf,
    /// Which transactions are checked against fresh instances.
    pub determinism: Determinism,
    /// Executors that will be asked for, at most [`crate::EXECUTORS_MAX`].
    pub executors: usize,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// For a worker among several: room for guests that wait for the others. A worker of its own
    /// needs none, and its calls cost no fibers. No outcome depends on it.
    pub cluster: Option<Cluster>,
}

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its bytes cannot be read.
    #[error("cannot read component {0}: {1}")]
    Read(Digest, std::io::Error),
    /// Its bytes are not what the digest says.
    #[error("component {0} is damaged: its content does not match its digest; upload it again")]
    Damaged(Digest),
    /// It does not compile or link.
    #[error("cannot load component {0}: {1}")]
    Compile(Digest, String),
}

/// Runs components. One per process, shared by its executors.
pub struct Engine {
    wasmtime: wasmtime::Engine,
    idle_max: Idle,
    options: EngineOptions,
    artifacts: Artifacts,
    ready: RwLock<HashMap<Digest, Arc<Ready>>>,
    /// Held while a component is compiled: it may take all cores and gigabytes.
    compiling: Mutex<()>,
    /// Held while `describe` runs: the instance pool has few slots besides the executors'.
    pub(crate) describing: Mutex<()>,
    executors: AtomicU64,
    /// Guests that wait for other workers.
    room: Arc<Room>,
}

impl Engine {
    /// Sets up wasmtime and the cache.
    ///
    /// # Errors
    /// If the cache directory cannot be made or address space cannot be reserved.
    pub fn new(options: EngineOptions) -> anyhow::Result<Arc<Self>> {
        anyhow::ensure!(
            (1..=config::EXECUTORS_MAX).contains(&options.executors),
            "{} execution threads asked for; give a number from 1 to {}",
            options.executors,
            config::EXECUTORS_MAX
        );
        if let Some(cluster) = options.cluster {
            anyhow::ensure!(
                cluster.guests() <= config::WAITING_MAX,
                "room for {} suspended functions and a reserve for {} workers asked for; an engine has room for {} together, {} per worker",
                cluster.suspended,
                cluster.workers,
                config::WAITING_MAX,
                config::CALL_DEPTH_MAX
            );
        }
        let purpose = Purpose::Run { executors: options.executors, cluster: options.cluster };
        Engine::with(purpose, options)
    }

    /// An engine for one executor in less than 48 GiB of address space, as some instruments leave
    /// it: for guests of one's own, whose calls nest at most three deep. The code is the same.
    ///
    /// # Errors
    /// As of [`Engine::new`].
    pub fn in_little_space(cache_dir: PathBuf) -> anyhow::Result<Arc<Self>> {
        let compiler = Compiler::InProcess;
        let options = EngineOptions { cache_dir, determinism: Determinism::Off, executors: 1, compiler, cluster: None };
        Engine::with(Purpose::Little, options)
    }

    fn with(purpose: Purpose, options: EngineOptions) -> anyhow::Result<Arc<Self>> {
        let wasmtime = wasmtime::Engine::new(&config::wasmtime_config(purpose)).map_err(artifact::plain)?;
        let artifacts = Artifacts::open(&options.cache_dir, config::hash(Determinism::Off))?;
        let suspended = options.cluster.map_or(0, |cluster| cluster.suspended);
        let room = Room::new(suspended, config::SUSPENDED_BYTES_MAX);
        Ok(Arc::new(Engine {
            wasmtime,
            idle_max: config::idle_max(purpose),
            options,
            artifacts,
            ready: RwLock::default(),
            compiling: Mutex::default(),
            describing: Mutex::default(),
            executors: AtomicU64::new(0),
            room: Arc::new(room),
        }))
    }

    /// Hash of everything in the engine that can change an outcome. Workers of one cluster must
    /// agree on it, and a replay needs the same.
    pub fn engine_hash(&self) -> u64 {
        config::hash(self.options.determinism)
    }

    /// Which transactions are checked against fresh instances.
    pub fn determinism(&self) -> Determinism {
        self.options.determinism
    }

    /// Makes a component of the catalog ready, from the cache or by compiling the file at `path`.
    /// Blocks for seconds if it must compile.
    ///
    /// # Errors
    /// If the file is missing, damaged or does not compile. An upload that was checked does.
    pub fn load(&self, digest: Digest, path: &Path) -> Result<(), LoadError> {
        if self.is_loaded(digest) {
            return Ok(());
        }
        let component = match self.artifacts.load(&self.wasmtime, digest) {
            Some(component) => component,
            None => {
                let bytes = std::fs::read(path).map_err(|error| LoadError::Read(digest, error))?;
                if artifact::digest(&bytes) != digest {
                    return Err(LoadError::Damaged(digest));
                }
                self.compile(digest, &bytes).map_err(|error| LoadError::Compile(digest, error.to_string()))?
            }
        };
        self.insert(digest, &component).map_err(|error| LoadError::Compile(digest, format!("{error:#}")))?;
        Ok(())
    }

    /// Whether a component is ready.
    pub fn is_loaded(&self, digest: Digest) -> bool {
        self.ready.read().expect("no panic under the lock").contains_key(&digest)
    }

    /// Drops components that no deployment names any more. Executors let go of theirs when they
    /// next meet the app.
    pub fn retain(&self, mut keep: impl FnMut(Digest) -> bool) {
        self.ready.write().expect("no panic under the lock").retain(|&digest, _| keep(digest));
    }

    /// Deletes compiled code of other components, and of other versions of the engine, from the
    /// cache. What is deleted wrongly is compiled again.
    ///
    /// # Errors
    /// If the cache directory cannot be read.
    pub fn prune_cache(&self, keep: impl FnMut(Digest) -> bool) -> std::io::Result<()> {
        self.artifacts.prune(keep)
    }

    /// A new executor, for one thread.
    pub fn executor(self: &Arc<Self>) -> Executor {
        Executor::new(self.clone(), self.executors.fetch_add(1, Ordering::Relaxed))
    }

    /// A component that was loaded.
    pub(crate) fn ready(&self, digest: Digest) -> Arc<Ready> {
        let ready = self.ready.read().expect("no panic under the lock");
        ready
            .get(&digest)
            .unwrap_or_else(|| {
                panic!(
                    "component {digest} is deployed and was not loaded: Engine::load comes before the cut that uses it"
                )
            })
            .clone()
    }

    /// Compiled code from the cache, or by compiling now, in whatever place the options name.
    pub(crate) fn compile(
        &self,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<wasmtime::component::Component, artifact::CompileError> {
        if let Some(component) = self.artifacts.load(&self.wasmtime, digest) {
            return Ok(component);
        }
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(component) = self.artifacts.load(&self.wasmtime, digest) {
            return Ok(component); // Somebody else compiled it meanwhile.
        }
        self.artifacts.compile(&self.wasmtime, &self.options.compiler, digest, bytes)
    }

    /// Links a component and makes it ready.
    pub(crate) fn insert(
        &self,
        digest: Digest,
        component: &wasmtime::component::Component,
    ) -> wasmtime::Result<Arc<Ready>> {
        let ready = Arc::new(Ready::link(&self.wasmtime, component, digest, self.is_clustered())?);
        self.ready.write().expect("no panic under the lock").insert(digest, ready.clone());
        Ok(ready)
    }

    /// Whether guests may have to wait for other workers, and so run on fibers.
    pub(crate) fn is_clustered(&self) -> bool {
        self.options.cluster.is_some()
    }

    /// Idle instances that an executor keeps.
    pub(crate) fn idle_max(&self) -> Idle {
        self.idle_max
    }

    /// Guests that wait for other workers, over all executors.
    pub fn suspended_guests(&self) -> usize {
        self.room.taken()
    }

    /// Room for guests that are to wait, if there is some; always `beyond` the budget.
    pub(crate) fn suspend(&self, guests: Guests, beyond: bool) -> Option<Suspended> {
        self.room.take(guests, beyond)
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }
}
