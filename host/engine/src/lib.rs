//! Runs guest components for the Styx protocol: one wasmtime configuration, warm instances per
//! thread, and the imports through which everything that a guest does is recorded.
//!
//! The way of a call: [`Executor`] makes an attempt and hands it to the protocol, which asks back
//! for each function (`context`); an instance is taken (`pool`), the transaction travels into its
//! Store (`guest`), the guest runs (`instance`) and does its deeds through the `imports`.
//!
//! Among several workers (`pieces`) guests run on fibers, and one that needs another worker waits
//! (`parking`) while its thread goes on with the next piece. A worker of its own has none of that.
//!
//! **Nothing here** reads a clock or draws a random number, and no guest can: time and randomness
//! come from the transaction, and fuel, not time, ends what does not end.

mod artifact;
mod compiler;
mod component;
mod config;
mod context;
mod determinism;
mod engine;
mod executor;
mod guest;
mod imports;
mod instance;
mod outcome;
mod parking;
mod pieces;
mod pool;
mod room;
mod upload;
mod wasi;

pub use compiler::{COMPILE_ARGUMENT, compile_child_main};
pub use config::{CALL_DEPTH_MAX, Cluster, EXECUTION_STACK_BYTES, EXECUTORS_MAX, MEMORY_BYTES_MAX, WASMTIME_VERSION};
pub use determinism::Determinism;
pub use engine::{Compiler, Engine, EngineOptions, LoadError};
pub use executor::{Executor, Statistics};
pub use parking::home;
pub use upload::{COMPONENT_BYTES_MAX, CheckedComponent, UploadCode, UploadError};
