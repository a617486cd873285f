//! The admin surface of a coordinator that may not lead: until it does, and whenever it may not act, whoever
//! asks is told so, and who leads.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower::ServiceExt;

use super::health;
use crate::cluster::coordinator::Leadership;
use crate::http::{ApiError, HttpOptions, guarded, refuse};

/// Proxy before the admin surface: forwards requests while this coordinator leads. Clones share state.
#[derive(Clone)]
pub struct StandbyProxy(Arc<Parts>);

struct Parts {
    leadership: Leadership,
    leads: OnceLock<Router>,
    /// Name of the coordinator that leads, for people; empty if nobody does.
    leader: Mutex<String>,
}

impl StandbyProxy {
    /// For a coordinator that may act for as long as `leadership` says, and does not lead yet.
    pub fn new(leadership: Leadership) -> Self {
        StandbyProxy(Arc::new(Parts { leadership, leads: OnceLock::new(), leader: Mutex::default() }))
    }

    /// The routes of the port.
    pub fn router(&self, options: &HttpOptions) -> Router {
        let router = Router::new().route("/healthz", get(health::healthz)).fallback(forward);
        guarded(router, options).with_state(self.clone())
    }

    /// Somebody else leads: who, and where its admin port is.
    pub fn point_to(&self, leader: String) {
        *self.0.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }

    /// From now on this coordinator leads, and answers like this.
    pub fn lead(&self, router: Router) {
        // It leads once only: a second call changes nothing.
        let _ = self.0.leads.set(router);
    }

    fn refusal(&self) -> ApiError {
        if self.0.leads.get().is_some() && !self.0.leadership.is_lost() {
            let message = "this coordinator cannot renew its lease, and does nothing without it";
            return ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_READY", message)
                .hint("see to the store of snapshots, where the lease is; or ask the coordinator that leads by now");
        }
        let leader = self.0.leader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hint = if leader.is_empty() {
            "nobody leads at this moment; try again, here or at the other coordinator".to_owned()
        } else {
            format!("ask the one that leads: {leader}")
        };
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "STANDBY", "this coordinator stands by").hint(hint)
    }
}

async fn forward(State(proxy): State<StandbyProxy>, request: Request) -> Response {
    match proxy.0.leads.get().filter(|_| proxy.0.leadership.holds()) {
        Some(router) => router.clone().oneshot(request).await.into_response(),
        None => {
            let (parts, body): (_, Body) = request.into_parts();
            refuse(proxy.refusal(), &parts.headers, body).await.into_response()
        }
    }
}
