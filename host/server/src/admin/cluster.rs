//! The cluster, its workers and partitions.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use styx_protocol::ids::WorkerId;

use super::ask;
use crate::http::ApiError;
use crate::services::Services;
use styx_driver::wire::{AdminQuery, Member, Overview, PartitionStats, Response, WorkerStatus};

async fn overview(services: &Services) -> Result<Overview, ApiError> {
    match ask(services, AdminQuery::Cluster).await? {
        Response::Cluster(overview) => Ok(overview),
        other => Err(super::unexpected_answer(&other)),
    }
}

async fn statuses(services: &Services) -> Result<Vec<WorkerStatus>, ApiError> {
    match ask(services, AdminQuery::Workers).await? {
        Response::Workers(statuses) => Ok(statuses),
        other => Err(super::unexpected_answer(&other)),
    }
}

/// `GET /v1/cluster`
pub async fn cluster(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let seen = overview(&services).await?;
    let mut cluster = json!({
        "mode": if seen.single { "single-process" } else { "cluster" },
        "version": env!("CARGO_PKG_VERSION"),
        "engine": format!("{:016x}", seen.engine),
        "generation": seen.generation,
        "live": seen.live,
        "workers": if seen.single { 1 } else { seen.members.len() },
        "partitions": seen.partitions,
        "epoch": seen.epoch,
        "chain": seen.chain.to_string(),
        "apps": services.handle.catalog().apps().count(),
    });
    // What only the workers know is left out while there are none.
    if seen.live {
        let statuses = statuses(&services).await?;
        let sum = |of: fn(&WorkerStatus) -> u64| statuses.iter().map(of).sum::<u64>();
        cluster["entities"] = sum(|status| status.entities).into();
        cluster["bytes"] = sum(|status| status.bytes).into();
        cluster["backlog"] = sum(|status| status.waiting).into();
    }
    if let Some(admin) = seen.admin {
        cluster["coordinator_admin"] = admin.into();
    }
    Ok(Json(cluster))
}

/// `GET /v1/workers`
pub async fn workers(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let members = overview(&services).await?.members;
    let workers: Vec<Value> = statuses(&services)
        .await?
        .iter()
        .map(|status| {
            let mut worker = json!({
                "worker": number(status.worker),
                "status": "alive",
                "partitions": status.partitions,
                "entities": status.entities,
                "bytes": status.bytes,
                "epoch": status.epoch,
            });
            if let Some(Member { node, address }) = members.get(usize::from(status.worker.0)) {
                worker["node"] = format!("{:016x}", node.0).into();
                worker["address"] = address.as_str().into();
            }
            worker
        })
        .collect();
    Ok(Json(json!({ "workers": workers })))
}

/// Workers are counted from 1.
fn number(worker: WorkerId) -> u32 {
    u32::from(worker.0) + 1
}

/// `GET /v1/partitions`
pub async fn partitions(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let stats = match ask(&services, AdminQuery::Partitions).await? {
        Response::Partitions(stats) => stats,
        other => return Err(super::unexpected_answer(&other)),
    };
    let view = |holding: &PartitionStats| json!({ "partition": holding.partition, "worker": number(holding.worker), "entities": holding.entities, "bytes": holding.bytes });
    Ok(Json(json!({ "partitions": stats.iter().map(view).collect::<Vec<_>>() })))
}

/// `GET /v1/epochs`: the latest, newest first.
pub async fn epochs(State(services): State<Services>) -> Json<Value> {
    let mut epochs = services.handle.stats().recent();
    epochs.reverse();
    Json(json!({ "epochs": epochs, "total": services.handle.stats().epochs.load(Ordering::Relaxed) }))
}

/// `GET /v1/requests`: how many wait, and how many replies are remembered.
pub async fn requests(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let statuses = statuses(&services).await?;
    let sum = |of: fn(&WorkerStatus) -> u64| statuses.iter().map(of).sum::<u64>();
    Ok(Json(json!({ "waiting": sum(|status| status.waiting), "remembered": sum(|status| status.remembered) })))
}
