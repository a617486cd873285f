//! A cluster of real processes: it does what one process does, and goes on when parts of it are killed.

#[path = "../../../storage/src/log/kafka/tests/broker.rs"]
#[allow(dead_code)] // a part is used
mod broker;
mod endpoints;
mod equal;
mod kills;
#[path = "../process/mod.rs"]
mod process;
mod refusals;
mod rolling;
mod standby;
