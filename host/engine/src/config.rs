//! The one configuration of wasmtime, and a hash of everything in it, and in the limits, that can change a
//! transaction's outcome.
//!
//! Fuel is the only measure of time and decides alike on every machine; nothing reads a clock.

use sha2::{Digest as _, Sha256};
use wasmparser::WasmFeatures;
use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, VariableOperatorCost,
};

use crate::determinism::Determinism;
use crate::limits::{
    CALL_DEPTH_MAX, CORE_INSTANCES_MAX, Cluster, EXECUTORS_MAX, FIBER_STACK_BYTES, IdleInstances, LITTLE_IDLE_MAX,
    LITTLE_INSTANCES_MAX, MEMORIES_MAX, MEMORY_BYTES_MAX, MEMORY_RESERVATION, START_FUEL, SUSPENDED_GUESTS_MAX,
    TABLE_ELEMENTS_MAX, TABLES_MAX, WASM_STACK_BYTES,
};

/// The version of wasmtime that this crate is pinned to.
pub const WASMTIME_VERSION: &str = "48.0.8";

/// Grows whenever limits, fuel or the imports come to mean something else.
const SEMANTICS_VERSION: u32 = 5;

/// The proposals in use: what guest toolchains emit, all of it deterministic. No threads, no
/// garbage collector, no exceptions, no 64-bit memories, nothing asynchronous.
pub(crate) const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::COMPONENT_MODEL)
    .difference(WasmFeatures::GC_TYPES);

/// The use that an engine is configured for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Running guests on this many executors.
    Run {
        executors: usize,
        /// Most transactions that run beside the epochs.
        long: usize,
        /// Set where guests may have to wait for other workers.
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
    config.operator_cost(costs());
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
        Purpose::Run { executors, long, cluster } => {
            config.parallel_compilation(false);
            config.async_stack_size(FIBER_STACK_BYTES);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(executors, long, cluster)))
        }
        Purpose::Little => {
            config.parallel_compilation(false);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(slots(LITTLE_INSTANCES_MAX as u32, 0)))
        }
    };
    config
}

/// Fuel of instructions, about their time: growing calls the host, though it were by nothing, and each page has to be
/// mapped.
fn costs() -> OperatorCost {
    let variable = VariableOperatorCost { memory_grow_per_page: u8::MAX, ..VariableOperatorCost::default() };
    OperatorCost { MemoryGrow: u8::MAX, TableGrow: u8::MAX, variable, ..OperatorCost::default() }
}

/// Idle instances that one executor may keep.
pub(crate) fn idle_max(purpose: Purpose) -> IdleInstances {
    match purpose {
        Purpose::Run { executors, cluster, .. } => IdleInstances::most(executors, cluster),
        Purpose::Little => IdleInstances { number: LITTLE_IDLE_MAX, bytes: usize::MAX },
        Purpose::Compile => IdleInstances::default(),
    }
}

/// Bytes of a memory that stay where they are when the next instance gets its place. What a guest that hoards has touched
/// beyond that is given back, so that sixteen of them keep 64 MiB.
const KEEP_RESIDENT: usize = 4 << 20;

/// Slots for every instance that can be alive at once, so that the pool never runs dry: per
/// executor one for each level of nesting and each idle instance, of which those of long transactions
/// keep none; those of suspended guests; a few for `describe`. All of it is address space until it is used: 73 TiB with
/// every bound at its highest. A process has 128, and the largest gap in them is not much over 80.
fn pool(executors: usize, long: usize, cluster: Option<Cluster>) -> PoolingAllocationConfig {
    let executors = executors.clamp(1, EXECUTORS_MAX);
    let per_executor = CALL_DEPTH_MAX as usize + IdleInstances::most(executors, cluster).number + 1;
    let suspended = cluster.map_or(0, |cluster| cluster.guests().min(SUSPENDED_GUESTS_MAX));
    let instances = (executors * per_executor + long * (CALL_DEPTH_MAX as usize + 1) + suspended + 4) as u32;
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
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(TABLE_ELEMENTS_MAX)
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(16);
    pool
}

/// Hash of all that the engine brings to an outcome besides the component and the transaction.
pub(crate) fn hash(determinism: Determinism) -> u64 {
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
    use crate::limits::Long;

    #[test]
    fn the_pinned_version_is_the_one_in_use() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"")));
    }

    #[test]
    fn every_purpose_is_a_valid_configuration() {
        let most = Cluster { suspended: SUSPENDED_GUESTS_MAX, workers: 0, idle: usize::MAX };
        let run = |executors, cluster: Option<Cluster>| Purpose::Run {
            executors,
            long: Long::default().running_max,
            cluster,
        };
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
        assert_ne!(hash(Determinism::Off), hash(Determinism::All));
        assert_ne!(hash(Determinism::Sample(2)), hash(Determinism::Sample(3)));
    }
}
