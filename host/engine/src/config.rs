//! The one configuration of wasmtime, the bounds that the host itself sets, and a hash of
//! everything here that can change what a transaction's outcome is.
//!
//! Fuel is the only measure of time and decides alike on every machine; nothing reads a clock.

use sha2::{Digest as _, Sha256};
use wasmparser::WasmFeatures;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::pool::Idle;

/// The version of wasmtime that this crate is pinned to.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// Grows whenever limits, fuel or the imports come to mean something else.
const SEMANTICS_VERSION: u32 = 3;

/// Deepest nesting of calls, whatever an app's `limits.call_depth` says: each level stands on the
/// native stack of one thread.
pub const CALL_DEPTH_MAX: u32 = 64;

/// Most linear memory of one instance, whatever an app's `limits.memory` says.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Native stack that one invocation's WebAssembly may use.
const WASM_STACK_BYTES: usize = 1 << 20;

/// Native stack that the host's own frames may take per level of nesting (measured: 5 KiB; WASI takes more).
const HOST_STACK_BYTES: usize = 128 << 10;

/// Native stack that a thread needs to run an [`crate::Executor`]. It is address space, touched
/// only as deep as calls really nest.
pub const EXECUTION_STACK_BYTES: usize = CALL_DEPTH_MAX as usize * (WASM_STACK_BYTES + HOST_STACK_BYTES) + (2 << 20);

/// Native stack of a fiber. On a fiber wasmtime gives a `realloc` that the host calls, however deep
/// the guest stands, a full stack of its own below; so a guest can use twice its own at most.
const FIBER_STACK_BYTES: usize = 2 * WASM_STACK_BYTES + 2 * HOST_STACK_BYTES;

/// Fuel for an instance's start-up code, apart from the invocation's own.
pub const START_FUEL: u64 = 2_000_000_000;

/// Idle instances that one executor keeps, over all components.
const IDLE_INSTANCES_MAX: usize = 64;

/// Where guests wait, as many instances serve at once, and are idle when all of that is over. One
/// executor keeps so many,
const IDLE_INSTANCES_CLUSTER_MAX: usize = 1024;

/// and all of them together so many,
const IDLE_INSTANCES_CLUSTER_TOTAL: usize = 2048;

/// with so many bytes of linear memory: a thousand small guests, or a hundred with an interpreter.
const IDLE_BYTES_CLUSTER_TOTAL: usize = 2 << 30;

/// Bytes of linear memory that guests which wait may hold.
pub(crate) const SUSPENDED_BYTES_MAX: usize = 4 << 30;

/// Calls after which an instance is replaced.
pub(crate) const INSTANCE_CALLS_MAX: u32 = 10_000;

/// Growth of an instance's memory after which it is replaced: some guests' toolchains leak.
pub(crate) const INSTANCE_GROWTH_MAX: usize = 16 << 20;

/// Executors that one engine serves.
pub const EXECUTORS_MAX: usize = 64;

/// Core instances, tables and memories that one component may have.
pub(crate) const CORE_INSTANCES_MAX: u32 = 128;
pub(crate) const TABLES_MAX: u32 = 16;
pub(crate) const MEMORIES_MAX: u32 = 2;
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Address space reserved per memory; with it, loads and stores need no bounds checks.
const MEMORY_RESERVATION: u64 = 4 << 30;

/// Instances alive at once in an engine in little address space, idle ones among them,
const LITTLE_INSTANCES_MAX: usize = 5;

/// of which so many are kept idle.
const LITTLE_IDLE_MAX: usize = 2;

/// The proposals in use: what guest toolchains emit, all of it deterministic. No threads, no
/// garbage collector, no exceptions, no 64-bit memories, nothing asynchronous.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL)
    .difference(WasmFeatures::GC_TYPES);

/// Room for guests that wait for other workers. Each holds an instance and a native stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Guests that may wait at once, over all executors.
    pub suspended: usize,
    /// Workers of the cluster. Each may have a graph that goes on when there is no such room, one
    /// guest calling the next, as deep as calls may nest.
    pub workers: usize,
}

impl Cluster {
    /// Guests that can wait at once in the worst case.
    pub(crate) fn guests(self) -> usize {
        self.suspended.saturating_add(self.workers.saturating_mul(CALL_DEPTH_MAX as usize))
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster { suspended: 1024, workers: 16 }
    }
}

/// Most of [`Cluster::guests`].
pub(crate) const WAITING_MAX: usize = 3072;

/// What an engine is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Running guests on this many executors.
    Run {
        /// How many.
        executors: usize,
        /// Whether guests may have to wait for other workers.
        cluster: Option<Cluster>,
    },
    /// Running guests one at a time, where address space is scarce.
    Little,
    /// Compiling only: reserves no address space, and may use all cores.
    Compile,
}

/// The configuration. Code compiled for one purpose runs under the other.
pub(crate) fn wasmtime_config(purpose: Purpose) -> Config {
    let mut config = Config::new();
    // Determinism.
    config.consume_fuel(true);
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);
    config.max_wasm_stack(WASM_STACK_BYTES);
    config.wasm_features(WasmFeatures::all().difference(FEATURES), false);
    config.wasm_features(FEATURES, true);
    // One call at a time per instance: bookkeeping for more would cost half a microsecond a call.
    config.concurrency_support(false);
    // Speed and size. Traps are told by their reason; without backtraces no address map is needed.
    config.cranelift_opt_level(OptLevel::Speed);
    config.wasm_backtrace_max_frames(None);
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config.memory_reservation(MEMORY_RESERVATION);
    config.memory_init_cow(true);
    config.memory_guaranteed_dense_image_size(64 << 20);
    match purpose {
        Purpose::Compile => config.parallel_compilation(true),
        Purpose::Run { executors, cluster } => {
            config.parallel_compilation(false);
            config.async_stack_size(FIBER_STACK_BYTES);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(executors, cluster)))
        }
        Purpose::Little => {
            config.parallel_compilation(false);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(slots(LITTLE_INSTANCES_MAX as u32, 0)))
        }
    };
    config
}

/// What one executor keeps idle.
pub(crate) fn idle_max(purpose: Purpose) -> Idle {
    match purpose {
        Purpose::Run { executors, cluster } => idle_of(executors, cluster),
        Purpose::Little => Idle { instances: LITTLE_IDLE_MAX, bytes: usize::MAX },
        Purpose::Compile => Idle::default(),
    }
}

/// What one of so many executors keeps idle.
fn idle_of(executors: usize, cluster: Option<Cluster>) -> Idle {
    let executors = executors.max(1);
    match cluster {
        Some(_) => Idle {
            instances: IDLE_INSTANCES_CLUSTER_MAX.min(IDLE_INSTANCES_CLUSTER_TOTAL / executors),
            bytes: IDLE_BYTES_CLUSTER_TOTAL / executors,
        },
        None => Idle { instances: IDLE_INSTANCES_MAX, bytes: usize::MAX },
    }
}

/// Slots for every instance that can be alive at once, so that the pool never runs dry: per
/// executor one for each level of nesting and each idle instance; those of guests that wait for
/// other workers; a few for `describe`. All of it is address space until it is used: 73 TiB with
/// every bound at its highest. A process has 128, and the largest gap in them is not much over 80.
fn pool(executors: usize, cluster: Option<Cluster>) -> PoolingAllocationConfig {
    let executors = executors.clamp(1, EXECUTORS_MAX);
    let per_executor = CALL_DEPTH_MAX as usize + idle_of(executors, cluster).instances + 1;
    let suspended = cluster.map_or(0, |cluster| cluster.guests().min(WAITING_MAX));
    let instances = (executors * per_executor + suspended + 4) as u32;
    // An idle instance keeps the stack of its last call.
    let stacks = if cluster.is_some() { instances } else { 0 };
    slots(instances, stacks)
}

/// A pool for so many instances, and stacks for fibers.
fn slots(instances: u32, stacks: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances * CORE_INSTANCES_MAX)
        .total_memories(instances * MEMORIES_MAX)
        .total_tables(instances * TABLES_MAX)
        .total_stacks(stacks)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_memories_per_module(MEMORIES_MAX)
        .max_component_instance_size(8 << 20)
        .max_core_instance_size(4 << 20)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(MEMORY_BYTES_MAX as usize)
        // Fresh instances: reset only the pages that the last one touched (PAGEMAP_SCAN where the
        // kernel has it), instead of unmapping and faulting them in again.
        .linear_memory_keep_resident(16 << 20)
        .table_keep_resident(TABLE_ELEMENTS_MAX)
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(16);
    pool
}

/// Hash of all that the engine brings to an outcome besides the component and the transaction.
pub(crate) fn hash(determinism: crate::Determinism) -> u64 {
    let text = format!(
        "wasmtime {WASMTIME_VERSION} {} semantics {SEMANTICS_VERSION} stack {WASM_STACK_BYTES} depth {CALL_DEPTH_MAX} memory {MEMORY_BYTES_MAX} \
         start {START_FUEL} tables {TABLES_MAX}x{TABLE_ELEMENTS_MAX} memories {MEMORIES_MAX} determinism {determinism:?}",
        std::env::consts::ARCH,
    );
    let digest = Sha256::digest(text.as_bytes());
    u64::from_le_bytes(digest[..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_version_is_the_one_in_use() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"")));
    }

    #[test]
    fn every_purpose_is_a_valid_configuration() {
        let most = Cluster { suspended: WAITING_MAX, workers: 0 };
        let run = |executors, cluster| Purpose::Run { executors, cluster };
        for purpose in [
            Purpose::Compile,
            Purpose::Little,
            run(1, None),
            run(EXECUTORS_MAX, None),
            run(2, Some(Cluster::default())),
            run(EXECUTORS_MAX, Some(most)),
        ] {
            wasmtime::Engine::new(&wasmtime_config(purpose)).unwrap_or_else(|error| panic!("{purpose:?}: {error:#}"));
        }
    }

    #[test]
    fn the_determinism_mode_is_part_of_the_hash() {
        assert_ne!(hash(crate::Determinism::Off), hash(crate::Determinism::All));
        assert_ne!(hash(crate::Determinism::Sample(2)), hash(crate::Determinism::Sample(3)));
    }
}
