//! A cluster of processes: one coordinator, workers, gateways.

pub mod coordinator;
pub mod gateway;
mod network_event;
pub mod worker;

pub use styx_driver::COORDINATOR;
