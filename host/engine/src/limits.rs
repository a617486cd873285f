//! Limits that the host itself sets, whatever an app asks for.

/// Deepest nesting of calls, whatever an app's `limits.call_depth` says: each level stands on the
/// native stack of one thread.
pub const CALL_DEPTH_MAX: u32 = 64;

/// Most linear memory of one instance, whatever an app's `limits.memory` says.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Native stack that one invocation's WebAssembly may use.
pub(crate) const WASM_STACK_BYTES: usize = 1 << 20;

/// Native stack that the host's own frames may take per level of nesting (measured: 5 KiB; WASI takes more).
pub(crate) const HOST_STACK_BYTES: usize = 128 << 10;

/// Native stack that a thread needs to run an [`Executor`](crate::Executor). It is address space, touched
/// only as deep as calls really nest.
pub const EXECUTION_STACK_BYTES: usize = CALL_DEPTH_MAX as usize * (WASM_STACK_BYTES + HOST_STACK_BYTES) + (2 << 20);

/// Native stack of a fiber. On a fiber wasmtime gives a `realloc` that the host calls, however deep
/// the guest stands, a full stack of its own below; so a guest can use twice its own at most.
pub(crate) const FIBER_STACK_BYTES: usize = 2 * WASM_STACK_BYTES + 2 * HOST_STACK_BYTES;

/// Fuel for an instance's start-up code, apart from the invocation's own.
pub(crate) const START_FUEL: u64 = 2_000_000_000;

/// Idle instances that one executor keeps, over all components.
pub(crate) const IDLE_INSTANCES_MAX: usize = 64;

/// Idle instances that one executor keeps in a cluster: where guests wait, many instances are in use at once, and all
/// of them are idle afterwards.
pub(crate) const IDLE_INSTANCES_CLUSTER_MAX: usize = 1024;

/// Most of [`Cluster::idle`].
pub(crate) const IDLE_INSTANCES_CLUSTER_TOTAL: usize = 2048;

/// Bytes of linear memory of the idle instances in a cluster: a thousand small guests, or a hundred with an
/// interpreter.
pub(crate) const IDLE_BYTES_CLUSTER_TOTAL: usize = 2 << 30;

/// Bytes of linear memory of the idle instances of a process that is no cluster's.
pub(crate) const IDLE_BYTES_SINGLE_TOTAL: usize = 2 << 30;

/// Bytes of linear memory that an instance may have from its start without their being counted among those of running
/// guests: most of it is the component's image, which all its instances share.
pub(crate) const START_BYTES_FREE: usize = 64 << 20;

/// Bytes of linear memory that suspended guests may hold.
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
pub(crate) const MEMORY_RESERVATION: u64 = 4 << 30;

/// Instances alive at once, idle ones among them, in an engine in little address space.
pub(crate) const LITTLE_INSTANCES_MAX: usize = 5;

/// Idle instances that an engine in little address space keeps.
pub(crate) const LITTLE_IDLE_MAX: usize = 2;

/// Budget for guests that are suspended until another worker responds, and for the instances that they leave. Each holds
/// an instance and a native stack, and gibibytes of the process's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Guests that may be suspended at once, over all executors.
    pub suspended: usize,
    /// Workers of the cluster that may each have one graph that runs beyond the budget, one guest calling the next, as deep
    /// as calls may nest. Where there are more workers and all of them do at once, graphs are tried again.
    pub workers: usize,
    /// Idle instances that all executors together keep.
    pub idle: usize,
}

impl Cluster {
    /// Guests that can be suspended at once in the worst case.
    pub(crate) fn guests(self) -> usize {
        self.suspended.saturating_add(self.workers.saturating_mul(CALL_DEPTH_MAX as usize))
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster { suspended: 1024, workers: 16, idle: IDLE_INSTANCES_CLUSTER_TOTAL }
    }
}

/// Transactions that run beside the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// Fuel that one transaction may use inside an epoch. Who needs more, and may use more, is postponed.
    pub slice: u64,
    /// Most that run at a time, each on an executor besides those of [`EngineOptions::executors`](crate::EngineOptions).
    pub running_max: usize,
}

impl Default for Long {
    /// Everybody waits for a slice: a few milliseconds. Those that run take processor time that nobody else wants.
    fn default() -> Self {
        Long { slice: 5_000_000, running_max: 8 }
    }
}

/// Most of [`Cluster::guests`].
pub(crate) const SUSPENDED_GUESTS_MAX: usize = 3072;

/// A number of idle instances and the bytes of their linear memories: those that an executor has, or may keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleInstances {
    pub number: usize,
    pub bytes: usize,
}

impl IdleInstances {
    pub fn add(&mut self, bytes: usize) {
        self.number += 1;
        self.bytes += bytes;
    }

    pub fn remove(&mut self, bytes: usize) {
        self.number -= 1;
        self.bytes -= bytes;
    }

    /// The most that one of so many executors may keep.
    pub fn most(executors: usize, cluster: Option<Cluster>) -> Self {
        let executors = executors.max(1);
        match cluster {
            Some(cluster) => IdleInstances {
                number: IDLE_INSTANCES_CLUSTER_MAX.min(cluster.idle.min(IDLE_INSTANCES_CLUSTER_TOTAL) / executors),
                bytes: IDLE_BYTES_CLUSTER_TOTAL / executors,
            },
            None => IdleInstances { number: IDLE_INSTANCES_MAX, bytes: IDLE_BYTES_SINGLE_TOTAL / executors },
        }
    }
}

/// Longest log line kept, in bytes.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The start of a log line that is too long.
pub(crate) fn clip_line(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES_MAX)]
}
