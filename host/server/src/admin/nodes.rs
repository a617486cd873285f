//! `GET /v1/nodes`: the processes of the cluster, as they fare.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use styx_protocol::ids::NodeId;
use utoipa::ToSchema;

use super::Admin;
use super::cluster::number;
use super::queries::Queries;
use crate::http::ApiError;
use crate::nodes::{Disk, KnownNode, Leads, NodeReport, NodeRole};
use styx_protocol::ids::WorkerId;

#[derive(Serialize, ToSchema)]
pub struct NodeList {
    /// This process first; then coordinators that stand by, workers by their number, gateways.
    nodes: Vec<NodeView>,
}

/// A process of the cluster.
#[derive(Serialize, ToSchema)]
pub struct NodeView {
    role: NodeRole,
    name: String,
    /// Its id; null for the process that answers.
    node: Option<String>,
    status: NodeStatus,
    /// Number of the worker that it is, from 1; null if it is no member.
    worker: Option<u32>,
    /// Since it said last that it is there, ms; null for the process that answers.
    silent_ms: Option<u64>,
    /// Its release.
    version: String,
    /// When the process began.
    started: String,
    /// Memory in use, where the system tells.
    resident_bytes: Option<u64>,
    /// The file system of its data directory; null if it keeps nothing.
    disk: Option<Disk>,
    /// Its admin port, as it was bound; null if it has none.
    admin: Option<String>,
    /// Where it takes calls, as it was bound; null if it does not.
    ingress: Option<String>,
    /// Since when it leads and why; null if it is no coordinator, or stands by.
    leads: Option<LeadsView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// It was heard of lately: within three seconds, or sixteen if it is a coordinator that stands by.
    Alive,
    /// It says nothing any more, and nobody has told it to end.
    Lost,
}

/// A coordinator that leads.
#[derive(Serialize, ToSchema)]
pub struct LeadsView {
    since: String,
    /// `only`: no other may stand by. `elected`: nobody else led when it started. `took-over`: it stood by, and whoever
    /// led did not renew the lease or gave it back.
    why: &'static str,
    /// Who led before, if it took over.
    from: Option<String>,
}

impl From<&Leads> for LeadsView {
    fn from(leads: &Leads) -> Self {
        let (why, from) = match (&leads.from, leads.only) {
            (_, true) => ("only", None),
            (None, false) => ("elected", None),
            (Some(from), false) => ("took-over", Some(from.clone())),
        };
        LeadsView { since: rfc3339(leads.since_us), why, from }
    }
}

fn rfc3339(us: u64) -> String {
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_micros(us)).to_string()
}

impl NodeView {
    fn of(report: NodeReport) -> Self {
        NodeView {
            role: report.role,
            name: report.name,
            node: None,
            status: NodeStatus::Alive,
            worker: None,
            silent_ms: None,
            version: report.version,
            started: rfc3339(report.started_us),
            resident_bytes: report.resident_bytes,
            disk: report.disk,
            admin: report.admin,
            ingress: report.ingress,
            leads: None,
        }
    }

    fn other(known: KnownNode, worker: Option<u32>) -> Self {
        NodeView {
            node: Some(format!("{:016x}", known.node.0)),
            status: if known.is_lost() { NodeStatus::Lost } else { NodeStatus::Alive },
            worker,
            silent_ms: Some(known.age.as_millis() as u64),
            ..NodeView::of(known.report)
        }
    }
}

/// The processes of the cluster: who is there, since when, of which release, with how much memory and disk
///
/// Workers and gateways report every two seconds, coordinators that stand by every five, through the store. Who says nothing any
/// more stays in the list for ten minutes, as `lost`; who was told to end does not.
#[utoipa::path(get, path = "/v1/nodes", responses((status = 200, body = NodeList)))]
pub async fn nodes(State(admin): State<Admin>, State(queries): State<Queries>) -> Result<Json<NodeList>, ApiError> {
    let members = queries.overview().await?.members;
    let worker = |node: NodeId| {
        let at = members.iter().position(|member| member.node == node)?;
        Some(number(WorkerId(u16::try_from(at).ok()?)))
    };
    let mut own = NodeView::of(admin.own.report());
    own.leads = admin.leads.as_ref().map(LeadsView::from);
    let known = admin.handle.stats().nodes.known();
    let mut others: Vec<NodeView> = known
        .into_iter()
        .map(|known| (worker(known.node), known))
        .map(|(at, known)| NodeView::other(known, at))
        .collect();
    let rank = |role| match role {
        NodeRole::Single | NodeRole::Coordinator => 0,
        NodeRole::Worker => 1,
        NodeRole::Gateway => 2,
    };
    others.sort_by_key(|node| (rank(node.role), node.worker.is_none(), node.worker));
    Ok(Json(NodeList { nodes: std::iter::once(own).chain(others).collect() }))
}
