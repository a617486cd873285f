//! The ingress: where clients call functions.
//!
//! The way of a request: its names are looked up in the [`Directory`], its arguments checked
//! and brought into normal form (`arguments`, `parameter`), and the [`Request`] that results goes to the
//! worker. One at a time (`call`), or many on one connection (`pipeline`, behind `websocket` and
//! `batch`). Nothing here decides an outcome.
//!
//! [`Request`]: styx_protocol::transaction::Request

mod arguments;
mod batch;
mod call;
mod directory;
mod json;
mod latency;
mod loopback;
mod parameter;
mod path;
mod pipeline;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod websocket;

pub use directory::{Directories, Directory, Function, Operator, Target, check_schemas};
pub use json::is_json;
pub use latency::{Latencies, OUTCOMES, Outcome, Reading};
pub use loopback::Loopback;
pub use parameter::Parameter;
pub use path::decode;
pub use request::{Call, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, derived_id, fresh_id, parse_id, prepare};

use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde_json::{Value, json};

use crate::http::{check_origin, method_not_allowed, not_found};
use crate::services::Services;

/// The ingress's routes.
pub fn router(services: Services) -> Router {
    let origins = services.options.origins.clone();
    Router::new()
        .route("/", get(index))
        .route("/v1/call/{*place}", post(call::call))
        .route("/v1/send/{*place}", post(call::send))
        .route("/v1/requests/{id}", get(call::request))
        .route("/v1/ws", get(websocket::upgrade))
        .route("/v1/batch", post(batch::batch))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(origins, check_origin))
        .with_state(services)
}

async fn index() -> Json<Value> {
    Json(json!({
        "styx": env!("CARGO_PKG_VERSION"),
        "call": "POST /v1/call/{app}/{operator}/{key}/{function}",
        "send": "POST /v1/send/{app}/{operator}/{key}/{function}",
        "request": "GET /v1/requests/{id}?wait=10s",
        "pipeline": "GET /v1/ws (WebSocket), POST /v1/batch (lines of JSON)",
    }))
}
