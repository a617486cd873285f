//! A cluster of processes: one coordinator, workers, gateways.

pub mod coordinator;
pub mod gateway;
pub(crate) mod log_thread;
mod network_event;
pub mod worker;

pub use styx_driver::COORDINATOR;
