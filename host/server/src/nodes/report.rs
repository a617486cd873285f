//! What a process says of itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TrafficReport;

/// What a process of the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Everything in one process.
    Single,
    Coordinator,
    Worker,
    Gateway,
}

/// The file system of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Bytes that the process may still use.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// How a coordinator came to lead.
#[derive(Clone, Debug)]
pub struct Leads {
    /// µs since 1970.
    pub since_us: u64,
    /// No other may stand by.
    pub only: bool,
    /// Who led before, if it stood by.
    pub from: Option<String>,
}

/// How a process fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    pub role: NodeRole,
    pub name: String,
    /// Its release.
    pub version: String,
    /// Tells this life of the process from others: counters begin anew with each.
    pub life: u64,
    /// When the process began, µs since 1970.
    pub started_us: u64,
    /// It was told to end: nobody will miss it.
    pub ends: bool,
    /// Memory in use.
    pub resident_bytes: Option<u64>,
    /// Of its data directory, if it has one.
    pub disk: Option<Disk>,
    /// Its admin port, if it has one.
    pub admin: Option<String>,
    /// Where it takes calls, if it does.
    pub ingress: Option<String>,
    /// What its ingress has answered, and what functions have used here.
    pub traffic: Option<TrafficReport>,
}
