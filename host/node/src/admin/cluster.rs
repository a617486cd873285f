//! The cluster, its workers and partitions. One process is all of it.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

use crate::http::ApiError;
use crate::services::Services;

/// `GET /v1/cluster`
pub async fn cluster(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let seen = services.handle.inspect(|machine| {
        let (epoch, chain) = machine.position();
        json!({ "partitions": machine.state().partitions().len(), "entities": machine.state().len(), "bytes": machine.state().bytes(), "epoch": epoch, "chain": chain.to_string(), "backlog": machine.backlog() })
    });
    let mut cluster = seen.await.ok_or_else(ApiError::shutting_down)?;
    cluster["mode"] = "single-process".into();
    cluster["version"] = env!("CARGO_PKG_VERSION").into();
    cluster["workers"] = 1.into();
    cluster["apps"] = services.handle.catalog().apps().count().into();
    cluster["engine"] = format!("{:016x}", services.engine.engine_hash()).into();
    Ok(Json(cluster))
}

/// `GET /v1/workers`
pub async fn workers(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let seen = services.handle.inspect(|machine| {
        let state = machine.state();
        json!([{ "worker": 1, "status": "alive", "partitions": state.partitions().len(), "entities": state.len(), "bytes": state.bytes(), "epoch": machine.position().0 }])
    });
    Ok(Json(json!({ "workers": seen.await.ok_or_else(ApiError::shutting_down)? })))
}

/// `GET /v1/partitions`
pub async fn partitions(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let seen = services.handle.inspect(|machine| {
        let partitions = machine.state().partitions().iter().enumerate();
        partitions.map(|(id, partition)| (id, partition.len(), partition.bytes())).collect::<Vec<_>>()
    });
    let partitions = seen.await.ok_or_else(ApiError::shutting_down)?;
    let partitions: Vec<Value> = partitions
        .into_iter()
        .map(|(id, entities, bytes)| json!({ "partition": id, "worker": 1, "entities": entities, "bytes": bytes }))
        .collect();
    Ok(Json(json!({ "partitions": partitions })))
}

/// `GET /v1/epochs`: the latest, newest first.
pub async fn epochs(State(services): State<Services>) -> Json<Value> {
    let mut epochs = services.handle.stats().recent();
    epochs.reverse();
    Json(json!({ "epochs": epochs, "total": services.handle.stats().epochs.load(Ordering::Relaxed) }))
}

/// `GET /v1/requests`: how many wait, and how many replies are remembered.
pub async fn requests(State(services): State<Services>) -> Result<Json<Value>, ApiError> {
    let seen =
        services.handle.inspect(|machine| json!({ "waiting": machine.backlog(), "remembered": machine.remembered() }));
    Ok(Json(seen.await.ok_or_else(ApiError::shutting_down)?))
}
