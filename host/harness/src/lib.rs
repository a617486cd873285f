//! Real processes of Styx: started on free ports and in a directory of their own, killed, paused and started again.
//!
//! A [`Process`] is one program that comes back with the same arguments and addresses. A [`Cluster`] is what serves:
//! one server, or coordinators, workers and a gateway, with a Kafka broker and an S3 server where the log and the
//! snapshots are there. Processes end with their value, and when the process that started them is gone. What they
//! write to their standard error is kept in a file beside their data, and its last line is part of every error here.

mod cluster;
mod ports;
mod process;
mod time_limit;

pub use cluster::{Cluster, Log, Options, Position, RECOVERY_MAX, Role, Store};
pub use ports::free_port;
pub use process::{Process, Program};
pub use time_limit::{TimeLimit, waits_for};
