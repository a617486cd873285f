//! The cluster and its workers.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use styx_driver::wire::{AdminQuery, Member, Overview, PartitionStats, Response, WorkerStatus};
use styx_protocol::ids::WorkerId;
use utoipa::ToSchema;

use super::queries::{Queries, unexpected};
use crate::handle::Handle;
use crate::http::ApiError;
use crate::stats::EpochReport;

impl Queries {
    pub(super) async fn overview(&self) -> Result<Overview, ApiError> {
        match self.ask(AdminQuery::Cluster).await? {
            Response::Cluster(overview) => Ok(overview),
            other => Err(unexpected(&other)),
        }
    }

    /// All partitions, in order.
    pub(super) async fn partition_stats(&self) -> Result<Vec<PartitionStats>, ApiError> {
        match self.ask(AdminQuery::Partitions).await? {
            Response::Partitions(stats) => Ok(stats),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn worker_statuses(&self) -> Result<Vec<WorkerStatus>, ApiError> {
        match self.ask(AdminQuery::Workers).await? {
            Response::Workers(statuses) => Ok(statuses),
            other => Err(unexpected(&other)),
        }
    }
}

/// What only the workers know is left out while there are none.
#[derive(Serialize, ToSchema)]
pub struct ClusterView {
    /// `single-process` or `cluster`.
    mode: &'static str,
    version: &'static str,
    /// Hash of the engine and its options.
    engine: String,
    generation: u64,
    /// True while all partitions are served.
    live: bool,
    workers: usize,
    partitions: u64,
    epoch: u64,
    /// Chain of state hashes up to the epoch.
    chain: String,
    apps: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    entities: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog: Option<u64>,
    /// Address of the coordinator's admin port, where this is not it.
    #[serde(skip_serializing_if = "Option::is_none")]
    coordinator_admin: Option<String>,
}

/// The cluster at a glance
#[utoipa::path(get, path = "/v1/cluster", responses((status = 200, body = ClusterView)))]
pub async fn cluster(State(queries): State<Queries>) -> Result<Json<ClusterView>, ApiError> {
    let overview = queries.overview().await?;
    let statuses = if overview.live { Some(queries.worker_statuses().await?) } else { None };
    let sum = |of: fn(&WorkerStatus) -> u64| statuses.as_ref().map(|statuses| statuses.iter().map(of).sum());
    Ok(Json(ClusterView {
        mode: if overview.single { "single-process" } else { "cluster" },
        version: env!("CARGO_PKG_VERSION"),
        engine: overview.engine.to_string(),
        generation: overview.generation.0,
        live: overview.live,
        workers: if overview.single { 1 } else { overview.members.len() },
        partitions: overview.partitions.into(),
        epoch: overview.epoch.0,
        chain: overview.chain.to_string(),
        apps: queries.handle.catalog().apps().count(),
        entities: sum(|status| status.entities),
        bytes: sum(|status| status.bytes),
        backlog: sum(|status| status.waiting),
        coordinator_admin: overview.admin,
    }))
}

#[derive(Serialize, ToSchema)]
pub struct WorkerList {
    workers: Vec<WorkerView>,
}

#[derive(Serialize, ToSchema)]
pub struct WorkerView {
    /// Number of the worker, from 1.
    worker: u32,
    /// `alive`.
    status: &'static str,
    partitions: u64,
    entities: u64,
    bytes: u64,
    /// Functions called on entities of its partitions, each since it has it.
    calls: u64,
    /// Fuel used, likewise.
    fuel: u64,
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// The workers
#[utoipa::path(get, path = "/v1/workers", responses((status = 200, body = WorkerList)))]
pub async fn workers(State(queries): State<Queries>) -> Result<Json<WorkerList>, ApiError> {
    let members = queries.overview().await?.members;
    let view = |status: &WorkerStatus| {
        let member = members.get(usize::from(status.worker.0));
        WorkerView {
            worker: number(status.worker),
            status: "alive",
            partitions: status.partitions,
            entities: status.entities,
            bytes: status.bytes,
            calls: status.calls,
            fuel: status.fuel,
            epoch: status.epoch.0,
            node: member.map(|Member { node, .. }| format!("{:016x}", node.0)),
            address: member.map(|Member { address, .. }| address.clone()),
        }
    };
    Ok(Json(WorkerList { workers: queries.worker_statuses().await?.iter().map(view).collect() }))
}

/// Workers are counted from 1.
pub(super) fn number(worker: WorkerId) -> u32 {
    u32::from(worker.0) + 1
}

#[derive(Serialize, ToSchema)]
pub struct EpochList {
    epochs: Vec<EpochReport>,
    /// How many have ended since the process began.
    total: u64,
}

/// The latest epochs, newest first
#[utoipa::path(get, path = "/v1/epochs", responses((status = 200, body = EpochList)))]
pub async fn epochs(State(handle): State<Handle>) -> Json<EpochList> {
    let mut epochs = handle.stats().recent();
    epochs.reverse();
    Json(EpochList { epochs, total: handle.stats().epochs.load(Ordering::Relaxed) })
}
