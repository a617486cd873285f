//! `GET /v1/identity`: who asks, and what they may do here.

use std::net::SocketAddr;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use styx_protocol::token::Scope;
use utoipa::ToSchema;

use super::{Calls, schemas};
use crate::auth::Visitor;

#[derive(Serialize, ToSchema)]
pub struct IdentityView {
    /// Name of the token and its id; `admin` for the operator's own; `anybody` where nobody is asked.
    name: String,
    /// False where nobody is asked for a token.
    known: bool,
    #[schema(value_type = Vec<schemas::Scope>)]
    scopes: Vec<Scope>,
    /// Null for all.
    apps: Option<Vec<String>>,
    /// Where this process takes calls otherwise, as it was bound: `0.0.0.0:8080` is port 8080 of any address; null where
    /// gateways do, which are in `/v1/nodes`.
    #[schema(value_type = Option<String>)]
    ingress: Option<SocketAddr>,
}

/// Who asks, and what they may do
#[utoipa::path(get, path = "/v1/identity", responses((status = 200, body = IdentityView)))]
pub async fn identity(State(calls): State<Calls>, Extension(visitor): Extension<Visitor>) -> Json<IdentityView> {
    let identity = visitor.identity();
    let grant = identity.grant();
    Json(IdentityView {
        name: identity.name.clone(),
        known: identity.is_known,
        scopes: grant.scopes.clone(),
        apps: grant.apps.clone(),
        ingress: calls.0.and_then(|(_, address)| address),
    })
}
