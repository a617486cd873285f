//! Engine: what all executors share, that is wasmtime's engine, the linked components and the cache of compiled code.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use styx_protocol::deployment::Digest;

use crate::artifact::{self, Artifacts};
use crate::budget::{GuestUsage, InstanceBudget, Reservation};
use crate::compiler::{CompileError, Compiler};
use crate::component::{Components, LinkedComponent};
use crate::config::{self, Purpose};
use crate::determinism::Determinism;
use crate::direct::LinkedModule;
use crate::imports;
use crate::limits::{self, Cluster, IdleInstances, Long};
use crate::memory::GuestMemory;
use crate::tally::Tallies;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory for compiled code; made if absent. May be deleted at any time.
    pub cache_dir: PathBuf,
    /// Transactions that are checked against fresh instances.
    pub determinism: Determinism,
    /// Executors that will be asked for, at most [`crate::EXECUTORS_MAX`].
    pub executors: usize,
    /// The place where components are compiled.
    pub compiler: Compiler,
    /// For a worker among several: the budget for guests that are suspended until another worker responds. A single
    /// worker needs none, and its calls need no fibers. No outcome depends on it.
    pub cluster: Option<Cluster>,
    /// When a transaction is run beside the epochs; never, if absent.
    pub long: Option<Long>,
    /// Bytes of linear memory that guests may get while they run, all together, where they can run beside the epochs. No
    /// outcome depends on it but that of a transaction whose guests need more than half of it, and more than one may have.
    pub guest_memory: usize,
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
    idle_max: IdleInstances,
    options: EngineOptions,
    artifacts: Artifacts,
    components: Arc<Components>,
    /// Held while a component is compiled: it may take all cores and gigabytes.
    compiling: Mutex<()>,
    /// Held while `describe` runs: the instance pool has few slots besides the executors'.
    pub(crate) describing: Mutex<()>,
    executors: AtomicU64,
    /// Budget of the guests that are suspended.
    suspended: Arc<InstanceBudget>,
    /// What guests get while they run.
    memory: Arc<GuestMemory>,
    /// What functions have used.
    tallies: Arc<Tallies>,
}

impl Engine {
    /// Sets up wasmtime and the cache.
    ///
    /// # Errors
    /// If the cache directory cannot be made or address space cannot be reserved.
    pub fn new(options: EngineOptions) -> anyhow::Result<Arc<Self>> {
        anyhow::ensure!(
            (1..=limits::EXECUTORS_MAX).contains(&options.executors),
            "{} execution threads asked for; give a number from 1 to {}",
            options.executors,
            limits::EXECUTORS_MAX
        );
        if let Some(cluster) = options.cluster {
            anyhow::ensure!(
                cluster.guests() <= limits::SUSPENDED_GUESTS_MAX,
                "room for {} suspended functions and a reserve for {} workers asked for; an engine has room for {} together, {} per worker",
                cluster.suspended,
                cluster.workers,
                limits::SUSPENDED_GUESTS_MAX,
                limits::CALL_DEPTH_MAX
            );
        }
        let long = options.long.map_or(0, |long| long.running_max);
        let purpose = Purpose::Run { executors: options.executors, long, cluster: options.cluster };
        Engine::with(purpose, options)
    }

    /// An engine for one executor in less than 48 GiB of address space, as some instruments leave
    /// it: for guests of one's own, whose calls nest at most three deep. The code is the same.
    ///
    /// # Errors
    /// As of [`Engine::new`].
    pub fn in_little_space(cache_dir: PathBuf) -> anyhow::Result<Arc<Self>> {
        let compiler = Compiler::InProcess;
        let options = EngineOptions {
            cache_dir,
            determinism: Determinism::Off,
            executors: 1,
            compiler,
            cluster: None,
            long: None,
            guest_memory: usize::MAX,
        };
        Engine::with(Purpose::Little, options)
    }

    fn with(purpose: Purpose, options: EngineOptions) -> anyhow::Result<Arc<Self>> {
        let wasmtime = wasmtime::Engine::new(&config::wasmtime_config(purpose)).map_err(artifact::plain)?;
        let artifacts = Artifacts::open(&options.cache_dir, config::hash(Determinism::Off))?;
        let suspended = options.cluster.map_or(0, |cluster| cluster.suspended);
        let reserve = options.cluster.map_or(0, |cluster| cluster.guests() - cluster.suspended);
        let budget = InstanceBudget::new(suspended, reserve, limits::SUSPENDED_BYTES_MAX);
        let memory = options.long.map_or(usize::MAX, |_| options.guest_memory);
        Ok(Arc::new(Engine {
            memory: Arc::new(GuestMemory::new(memory)),
            wasmtime,
            idle_max: config::idle_max(purpose),
            options,
            artifacts,
            components: Arc::default(),
            compiling: Mutex::default(),
            describing: Mutex::default(),
            executors: AtomicU64::new(0),
            suspended: Arc::new(budget),
            tallies: Arc::default(),
        }))
    }

    /// Hash of everything in the engine that can change an outcome. Workers of one cluster must
    /// agree on it, and a replay needs the same.
    pub fn engine_hash(&self) -> u64 {
        config::hash(self.options.determinism)
    }

    /// Transactions that are checked against fresh instances.
    pub fn determinism(&self) -> Determinism {
        self.options.determinism
    }

    /// Loads a component of the catalog, from the cache or by compiling the file at `path`.
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
        self.components.contains(digest)
    }

    /// Drops components that no deployment names any more. Executors let go of theirs when they
    /// next meet the app.
    pub fn retain(&self, keep: impl FnMut(Digest) -> bool) {
        self.components.retain(keep);
    }

    /// Deletes compiled code of other components, and of other versions of the engine, from the
    /// cache, if it is from before a time. What is deleted wrongly is compiled again.
    ///
    /// # Errors
    /// If the cache directory cannot be read.
    pub fn prune_cache(&self, before: SystemTime, keep: impl FnMut(Digest) -> bool) -> std::io::Result<()> {
        self.artifacts.prune(before, keep)
    }

    /// A number that no other executor of this engine has.
    pub(crate) fn next_executor(&self) -> u64 {
        self.executors.fetch_add(1, Ordering::Relaxed)
    }

    /// Components that are linked.
    pub(crate) fn components(&self) -> &Arc<Components> {
        &self.components
    }

    /// Compiled code from the cache, or compiled now, in the place that the options name.
    pub(crate) fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<wasmtime::component::Component, CompileError> {
        if let Some(component) = self.artifacts.load(&self.wasmtime, digest) {
            return Ok(component);
        }
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(component) = self.artifacts.load(&self.wasmtime, digest) {
            return Ok(component); // Somebody else compiled it meanwhile.
        }
        // It takes seconds, in which a start or a deployment seems to stand still.
        let kilobytes = bytes.len() >> 10;
        tracing::info!("compiling the component {digest}, {kilobytes} KiB");
        let compiled = self.artifacts.compile(&self.wasmtime, &self.options.compiler, digest, bytes);
        tracing::info!("compiled the component {digest}");
        compiled
    }

    /// Links a component, so that executors can use it.
    pub(crate) fn insert(
        &self,
        digest: Digest,
        component: &wasmtime::component::Component,
    ) -> wasmtime::Result<Arc<LinkedComponent>> {
        let link =
            |waits| LinkedComponent::link(component, digest, |wasi| imports::linker(&self.wasmtime, wasi, waits));
        let mut linked = link(self.is_clustered())?;
        linked.on_fibers = self.is_clustered();
        // Its module is found in an instance, which does not wait.
        let apart = if self.is_clustered() { Some(link(false)?) } else { None };
        linked.module = {
            let _one_at_a_time = self.describing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            LinkedModule::link(apart.as_ref().unwrap_or(&linked))
        };
        let linked = Arc::new(linked);
        self.components.insert(linked.clone());
        Ok(linked)
    }

    /// Whether guests may have to wait for other workers, and therefore run on fibers.
    pub(crate) fn is_clustered(&self) -> bool {
        self.options.cluster.is_some()
    }

    /// Fuel that one transaction may use inside an epoch.
    pub(crate) fn slice(&self) -> u64 {
        self.options.long.map_or(u64::MAX, |long| long.slice)
    }

    /// What guests get while they run.
    pub(crate) fn guest_memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// What functions have used, in all executors.
    pub fn tallies(&self) -> &Arc<Tallies> {
        &self.tallies
    }

    /// Idle instances that an executor keeps.
    pub(crate) fn idle_max(&self) -> IdleInstances {
        self.idle_max
    }

    /// Guests that are suspended, over all executors.
    pub fn suspended_guests(&self) -> usize {
        self.suspended.taken()
    }

    /// Reserves budget for guests that are to be suspended, if enough is left; `beyond` the budget out of the reserve.
    pub(crate) fn suspend(&self, guests: GuestUsage, beyond: bool) -> Option<Reservation> {
        self.suspended.take(guests, beyond)
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }
}
