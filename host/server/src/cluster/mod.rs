//! A cluster of processes: one coordinator, workers, gateways.

pub(crate) mod admin_query;
pub(crate) mod archive;
pub mod coordinator;
pub(crate) mod coordinators;
pub mod gateway;
pub(crate) mod relay;
pub mod worker;

pub use styx_driver::COORDINATOR;
