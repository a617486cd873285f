//! The snapshot store through its public interface: one contract on memory, a directory and a real S3 server;
//! damage of every kind; compaction and collection over long runs; the lease.

mod backup;
mod cluster_metadata;
mod collection;
mod compaction;
mod contract;
mod damage;
mod formats;
mod inline;
mod lease;
mod lost_answers;
mod opening;
mod support;
