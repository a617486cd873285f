//! Runs guest components for the Styx protocol: one wasmtime configuration, warm instances per
//! thread, and the imports through which everything that a guest does is recorded.
//!
//! The way of a call: [`Executor`] makes an attempt and hands it to the protocol, which calls back for each function
//! (`invocation`); an instance is taken (`pool`), the transaction travels into its Store (`guest`), the guest runs
//! (`instance`) and reaches state and other functions through the `imports`.
//!
//! In a cluster (`tasks`) guests run on fibers, and one that needs another worker is suspended (`suspended`) while its
//! thread goes on with the next task. A single worker has none of that.
//!
//! Modules depend on each other in one direction: `limits`, `config`, `budget`, `memory`, `rendezvous`, `tally` <- `component`, `contract`,
//! `direct`, `guest`, `instance`, `outcome`, `pool`, `invocation` (one recursive type: see there) <- `imports`, `suspended` <- `engine` <- `executor` <- `tasks`; `upload` stands on `engine`.
//!
//! **Nothing here** reads a clock or draws a random number, and no guest can: time and randomness
//! come from the transaction, and fuel, not time, ends what does not end.

mod artifact;
mod budget;
mod compiler;
mod component;
mod config;
mod contract;
mod determinism;
mod direct;
mod engine;
mod executor;
mod functions;
mod guest;
mod imports;
mod instance;
mod invocation;
mod limits;
mod memory;
mod outcome;
mod pool;
mod profile;
mod rendezvous;
mod suspended;
mod tally;
mod tasks;
mod upload;
mod wasi;

pub use compiler::{
    COMPILE_ARGUMENT, Compiler, compile_child_main, compile_for_build, compile_module_for_build, engine_for_build,
};
pub use config::WASMTIME_VERSION;
pub use determinism::Determinism;
pub use engine::{Engine, EngineOptions, LoadError};
pub use executor::{Executor, Statistics};
pub use limits::{CALL_DEPTH_MAX, Cluster, EXECUTION_STACK_BYTES, EXECUTORS_MAX, Long, MEMORY_BYTES_MAX};
pub use profile::{Profile, ProfiledCall};
pub use suspended::home;
pub use tally::{COUNTED_MAX, FunctionUse, Tallies};
pub use upload::{COMPONENT_BYTES_MAX, CheckedComponent, UploadCode, UploadError};
