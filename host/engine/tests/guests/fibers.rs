//! The tests of what guests do and may do, once more in an engine that is set up for a cluster:
//! on fibers every guest comes to the same.
#![allow(clippy::duplicate_mod)] // it is what they are here for

#[path = "execution.rs"]
mod execution;
#[path = "limits.rs"]
mod limits;
#[path = "../support/mod.rs"]
mod support;
#[path = "wasi.rs"]
mod wasi;

#[test]
fn these_tests_run_on_fibers() {
    assert!(support::options(std::path::Path::new(""), styx_engine::Determinism::Off).cluster.is_some());
}
