//! Guests as WebAssembly text, in the engine: what they do, what they may do, and on several workers.

mod execution;
mod fibers;
mod limits;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod wasi;
