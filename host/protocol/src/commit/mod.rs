//! Commit: the conflicts of an epoch decide which transactions commit; ack shares tell when a call
//! graph is complete; replies are remembered for clients that ask again, and records
//! of topics for fronts that read them again.

pub(crate) mod ranges;
pub mod replies;
pub mod share;
pub mod validate;
pub mod watermark;
