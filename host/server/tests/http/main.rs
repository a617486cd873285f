//! Both HTTP surfaces of a real server in this process, spoken to by real clients.

mod admin;
mod agreements;
mod browsers;
mod calls;
mod deployments;
mod doors;
mod greedy;
mod jwt;
mod metrics;
mod pipelines;
mod raw;
mod requests;
mod server;
mod shapes;
#[path = "../../../engine/tests/support/mod.rs"]
mod support;
