//! The cluster: its members, the worker that owns each partition, and the links between nodes.

pub mod link;
pub mod membership;
pub mod placement;
pub mod worker_set;
