//! The admin surface: deploying apps, reading state, watching the system.
//!
//! Everything that changes what is deployed goes through the log; everything that is read is read
//! between two epochs. Nothing here calls a function.
//!
//! Router and document are one: an endpoint is registered with [`routes!`], from the description beside its handler.

mod agreements;
mod apps;
mod attention;
mod audit;
mod autoscaler;
mod changes;
mod cluster;
mod compatibility;
mod console;
mod deploy;
mod document;
mod events;
mod export;
mod health;
mod identity;
mod journal;
mod logs;
mod metrics;
mod migrations;
mod nodes;
mod openapi;
mod partitions;
mod quarantine;
mod queries;
mod rekey;
mod requests;
#[allow(dead_code, reason = "shapes that only the document needs: nothing reads their fields")]
mod schemas;
mod snapshots;
mod standby;
mod state;
mod survey;
mod tokens;
mod traffic;
mod upload;

pub(crate) use console::is_for_console;
pub use standby::StandbyProxy;
pub use upload::{Kind, Upload};

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRef, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use styx_engine::Engine;
use tokio::sync::{Mutex, Semaphore};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{Gate, guard_admin};
use crate::components::ComponentStore;
use crate::gateway::{self, Ingress};
use crate::handle::Handle;
use crate::http::{ApiError, HttpOptions, Latencies, Shutdown, guarded, hold_answer, method_not_allowed, refuse};
use crate::misdirected;
use crate::nodes::{Leads, Own, TrafficReport};
use attention::LoadWatch;
use journal::Journal;
use migrations::Courses;
pub(crate) use queries::Queries;

/// State of the admin surface, of which each handler takes its part. Cheap to clone.
#[derive(Clone, FromRef)]
pub struct Admin {
    handle: Handle,
    latencies: Arc<Latencies>,
    shutdown: Shutdown,
    uploads: Uploads,
    calls: Calls,
    own: Arc<Own>,
    leads: Option<Leads>,
    load: Arc<Mutex<LoadWatch>>,
    journal: Journal,
    courses: Courses,
}

/// The ingress behind the admin port, if calls are taken there as well, since pages may ask only where they are from;
/// and its own address, where this process has one.
#[derive(Clone, Default)]
struct Calls(Option<(Arc<Ingress>, Option<SocketAddr>)>);

/// Engine that checks uploads, and store that keeps them.
#[derive(Clone)]
pub struct Deploys {
    pub engine: Arc<Engine>,
    pub components: ComponentStore,
}

/// Checks of uploads: one at a time, while a few wait in memory.
#[derive(Clone)]
struct Uploads {
    options: Arc<HttpOptions>,
    /// None where apps are not deployed.
    deploys: Option<Deploys>,
    waiting: Arc<Semaphore>,
    checking: Arc<Semaphore>,
    /// Changes of what is deployed, one after the other.
    changing: Arc<Mutex<()>>,
}

impl Admin {
    /// The surface of a process without uploads and without an ingress.
    pub fn new(handle: Handle, options: Arc<HttpOptions>, shutdown: Shutdown, own: Own) -> Self {
        let waiting = Arc::new(Semaphore::new(options.uploads_max));
        let uploads = Uploads {
            options,
            deploys: None,
            waiting,
            checking: Arc::new(Semaphore::new(1)),
            changing: Arc::default(),
        };
        let (latencies, calls, own) = (Arc::default(), Calls::default(), Arc::new(own));
        Admin {
            handle,
            latencies,
            shutdown,
            uploads,
            calls,
            own,
            leads: None,
            load: Arc::default(),
            journal: Journal::default(),
            courses: Courses::default(),
        }
    }

    /// The same, where apps are deployed.
    #[must_use]
    pub fn with_deploys(mut self, deploys: Deploys) -> Self {
        self.uploads.deploys = Some(deploys);
        self
    }

    /// The same, with the latencies of this process's ingress.
    #[must_use]
    pub fn with_latencies(mut self, latencies: Arc<Latencies>) -> Self {
        self.latencies = latencies;
        self
    }

    /// The same, of a coordinator that leads: how its migrations go is kept from now on.
    #[must_use]
    pub fn with_leads(mut self, leads: Leads) -> Self {
        self.leads = Some(leads);
        self.courses.begin(&self);
        self
    }

    /// The same, where calls are taken at this port too, as an ingress of this process takes them.
    #[must_use]
    pub fn with_calls(mut self, ingress: Arc<Ingress>, address: Option<SocketAddr>) -> Self {
        self.latencies = ingress.latencies.clone();
        self.calls = Calls(Some((ingress, address)));
        self
    }
}

impl Admin {
    /// What was answered and used here, and by the gateways and workers that report here.
    fn all_traffic(&self) -> TrafficReport {
        let mut sum = self.handle.stats().nodes.traffic();
        sum.add(&TrafficReport::of(&self.latencies));
        sum.add(&TrafficReport::used(self.own.used()));
        sum
    }
}

/// Endpoints of the admin port.
fn endpoints() -> OpenApiRouter<Admin> {
    OpenApiRouter::default()
        .routes(routes!(apps::list))
        .routes(routes!(apps::get, apps::remove))
        .routes(routes!(apps::document))
        .routes(routes!(export::export))
        .routes(routes!(deploy::list, deploy::deploy))
        .routes(routes!(deploy::get))
        .routes(routes!(deploy::activate))
        .routes(routes!(state::scan))
        .routes(routes!(state::get))
        .routes(routes!(state::last_write))
        .routes(routes!(cluster::cluster))
        .routes(routes!(cluster::workers))
        .routes(routes!(partitions::partitions))
        .routes(routes!(cluster::epochs))
        .routes(routes!(requests::list))
        .routes(routes!(requests::trace))
        .routes(routes!(logs::logs))
        .routes(routes!(snapshots::list, snapshots::create))
        .routes(routes!(snapshots::verify))
        .routes(routes!(migrations::list, migrations::start, migrations::cancel))
        .routes(routes!(migrations::get, migrations::cancel_one))
        .routes(routes!(migrations::course::course))
        .routes(routes!(migrations::pause))
        .routes(routes!(migrations::resume))
        .routes(routes!(autoscaler::get))
        .routes(routes!(tokens::list, tokens::issue))
        .routes(routes!(tokens::revoke))
        .routes(routes!(audit::audit))
        .routes(routes!(quarantine::list))
        .routes(routes!(quarantine::release))
        .routes(routes!(events::events))
        .routes(routes!(traffic::traffic))
        .routes(routes!(nodes::nodes))
        .routes(routes!(attention::attention))
        .routes(routes!(identity::identity))
        .routes(routes!(document::document))
        .merge(own_health())
}

/// Description of the admin port's endpoints.
pub(crate) fn described() -> OpenApi {
    endpoints().into_openapi()
}

/// Endpoints that every process has.
fn own_health() -> OpenApiRouter<Admin> {
    OpenApiRouter::default()
        .routes(routes!(metrics::metrics))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// The admin port of a coordinator, or of a single process.
pub fn router(admin: Admin) -> Router {
    let held = from_fn_with_state(admin.uploads.options.memory.clone(), hold_answer);
    let mut router = Router::from(endpoints()).layer(held).route("/assets/{name}", get(console::asset));
    if let Calls(Some((ingress, address))) = &admin.calls {
        let mut call = post(gateway::call).with_state(ingress.clone());
        if address.is_none() {
            // For people: whoever has more to call has gateways, and the coordinator other things to do.
            call = call.layer(from_fn_with_state(Arc::new(Semaphore::new(CALLS_MAX)), few));
        }
        router = router.route("/v1/call/{*path}", call);
    }
    finish(router.route("/", get(index_or_page)).fallback(elsewhere), admin)
}

/// Calls under way at a time at a coordinator's admin port.
const CALLS_MAX: usize = 32;

async fn few(State(places): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let Ok(_place) = places.try_acquire() else {
        let (parts, body) = request.into_parts();
        let error =
            ApiError::overloaded("the coordinator takes only a few calls at a time, of people who try something");
        let hint = "call a gateway: /v1/nodes says where they are";
        return refuse(error.hint(hint), &parts.headers, body).await.into_response();
    };
    next.run(request).await
}

/// The admin port of a gateway: how it is. Everything else is the coordinator's.
pub fn gateway_router(admin: Admin) -> Router {
    let endpoints = own_health().routes(routes!(cluster::cluster));
    finish(Router::from(endpoints).route("/", get(index)).fallback(misdirected_to_gateway), admin)
}

/// The admin port of a worker: how it is. Everything else is the coordinator's.
pub fn worker_router(admin: Admin) -> Router {
    finish(Router::from(own_health()).route("/", get(index)).fallback(misdirected_to_worker), admin)
}

fn finish(router: Router<Admin>, admin: Admin) -> Router {
    let gate = Gate::new(admin.handle.clone(), admin.uploads.options.access.clone());
    let router = router.method_not_allowed_fallback(method_not_allowed);
    let router = router.layer(from_fn_with_state(gate, guard_admin));
    guarded(router, &admin.uploads.options).with_state(admin)
}

/// What is for the port of calls is not for the coordinator.
fn is_call(own: &Own, uri: &Uri) -> Option<ApiError> {
    misdirected::is_of_ingress(uri.path()).then(|| misdirected::to_admin(uri.path(), own.ingress()))
}

async fn misdirected_to_worker(State(own): State<Arc<Own>>, uri: Uri, headers: HeaderMap, body: Body) -> ApiError {
    if let Some(error) = is_call(&own, &uri) {
        return refuse(error, &headers, body).await;
    }
    let error = ApiError::new(StatusCode::MISDIRECTED_REQUEST, "NOT_HERE", "this is a worker: it only executes");
    refuse(error.hint("ask the coordinator's admin port"), &headers, body).await
}

async fn misdirected_to_gateway(
    State(queries): State<Queries>,
    State(own): State<Arc<Own>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> ApiError {
    let error = match is_call(&own, &uri) {
        Some(error) => error,
        None => queries.misdirected().await,
    };
    refuse(error, &headers, body).await
}

/// Answers what no endpoint matches: with the console's page, or it is at the port of calls.
async fn elsewhere(State(own): State<Arc<Own>>, method: Method, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    match is_call(&own, &uri) {
        Some(error) => refuse(error, &headers, body).await.into_response(),
        None => console::page_or_not_found(method, uri, headers, body).await,
    }
}

/// The console for browsers, and for programs what there is.
async fn index_or_page(headers: HeaderMap) -> Response {
    if console::wants_page(&headers) { console::page() } else { index().await.into_response() }
}

async fn index() -> Json<Value> {
    Json(json!({ "styx": env!("CARGO_PKG_VERSION"), "api": "/openapi.json", "apps": "/v1/apps", "health": "/readyz" }))
}
