//! A cluster of processes: one coordinator, workers, gateways.

pub(crate) mod archive;
pub mod coordinator;
pub(crate) mod coordinators;
pub mod envelope;
pub mod gateway;
pub mod inquiry;
pub(crate) mod relay;
pub mod worker;

use styx_transport::NodeId;

/// The coordinator's node id.
pub const COORDINATOR: NodeId = NodeId(1);
