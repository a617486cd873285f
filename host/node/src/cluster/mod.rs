//! A cluster of processes: one coordinator, workers, gateways.

pub mod envelope;
