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
mod callee;
mod directory;
mod json;
mod loopback;
mod metered;
mod parameter;
mod path;
mod pipeline;
mod reply;
mod request;
mod schema;
mod state_schema;
mod system;
#[cfg(test)]
pub(crate) mod tests;
mod watching;
mod websocket;
mod window;

pub(crate) use call::call;
pub use directory::{Directories, Directory, Function, Operator, Target, check_schemas};
pub use json::is_json;
pub use loopback::Loopback;
pub use parameter::Parameter;
pub use path::decode;
pub use request::{Call, IDEMPOTENCY_KEY_BYTES_MAX, check_idempotency_key, derived_id, fresh_id, parse_id, prepare};
pub use state_schema::StateSchema;
#[cfg(feature = "kafka")]
pub(crate) use watching::watch;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::admin::Queries;
use crate::auth::{Gate, guard};
use crate::handle::Handle;
use crate::http::{ApiError, HttpOptions, Latencies, Shutdown, guarded, method_not_allowed, not_found, refuse};
use crate::misdirected;

/// Ingress: takes calls, over HTTP or from Kafka.
pub struct Ingress {
    pub handle: Handle,
    /// Deployed functions, ready for validation.
    pub directories: Directories,
    pub latencies: Arc<Latencies>,
    pub options: Arc<HttpOptions>,
    pub shutdown: Shutdown,
    /// The admin port of this process, if everything is in it.
    admin: Option<String>,
}

impl Ingress {
    pub fn new(handle: Handle, options: Arc<HttpOptions>, shutdown: Shutdown) -> Arc<Self> {
        Ingress::beside(None, handle, options, shutdown)
    }

    /// The same, with the admin port of all in this process too, at `admin`.
    pub fn beside(admin: Option<String>, handle: Handle, options: Arc<HttpOptions>, shutdown: Shutdown) -> Arc<Self> {
        let latencies = Arc::<Latencies>::default();
        let directories = Directories::counted_by(latencies.functions.clone());
        Arc::new(Ingress { handle, directories, latencies, options, shutdown, admin })
    }
}

/// Endpoints of the ingress.
fn endpoints() -> OpenApiRouter<Arc<Ingress>> {
    let router = OpenApiRouter::default()
        .routes(routes!(call::request))
        .routes(routes!(websocket::upgrade))
        .routes(routes!(batch::batch));
    // The parts of these paths are told apart here: so that a wrong number of them is an error that says so.
    let router = routed_as(router, "/v1/call/{*path}", routes!(call::call));
    routed_as(router, "/v1/send/{*path}", routes!(call::send))
}

/// Registers a handler at another path than the one in its description.
fn routed_as<S: Clone + Send + Sync + 'static>(
    mut router: OpenApiRouter<S>,
    path: &str,
    (schemas, paths, handler): UtoipaMethodRouter<S>,
) -> OpenApiRouter<S> {
    let document = router.get_openapi_mut();
    document.paths.paths.extend(paths.paths);
    document.components.get_or_insert_default().schemas.extend(schemas);
    router.route(path, handler)
}

/// Description of the ingress's endpoints.
pub(crate) fn document() -> OpenApi {
    endpoints().into_openapi()
}

/// Routes of the ingress's port.
pub fn router(ingress: Arc<Ingress>) -> Router {
    let router = Router::from(endpoints())
        .route("/", get(index))
        .fallback(elsewhere)
        .method_not_allowed_fallback(method_not_allowed);
    let gate = Gate::new(ingress.handle.clone(), ingress.options.access.clone());
    let router = router.layer(from_fn_with_state(gate, guard));
    guarded(router, &ingress.options).with_state(ingress)
}

/// Answers what no route matches: perhaps it is at the admin port.
async fn elsewhere(
    State(ingress): State<Arc<Ingress>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> ApiError {
    if !misdirected::is_of_admin(uri.path()) {
        return not_found(method, uri, headers, body).await;
    }
    let admin = match &ingress.admin {
        Some(admin) => Some(admin.clone()),
        None => Queries { handle: ingress.handle.clone(), shutdown: ingress.shutdown.clone() }.coordinator().await,
    };
    refuse(misdirected::to_ingress(uri.path(), admin.as_deref()), &headers, body).await
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
