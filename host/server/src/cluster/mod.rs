//! A cluster of processes: one coordinator, workers, gateways.

pub(crate) mod archive;
pub mod coordinator;
pub mod gateway;
mod network_event;
pub(crate) mod relay;
pub mod worker;

pub use styx_driver::COORDINATOR;
