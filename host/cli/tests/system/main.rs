//! The program as users run it: real processes, which are called, watched, killed and misused.
//!
//! One binary, so that what waits for processes and brokers waits beside the rest.

mod between_apps;
#[path = "../../../storage/src/log/kafka/tests/broker.rs"]
#[allow(dead_code)] // a part is used
mod broker;
mod cluster;
mod hints;
mod kafka;
mod kill;
mod leaks;
mod lines;
mod misbehaviour;
mod packaging;
mod process;
mod quarantine;
mod reference;
mod rekeyed;
mod shapes;
mod slow;
mod snapshots;
mod state;
mod storage;
mod traces;
mod verbs;
mod watched;
