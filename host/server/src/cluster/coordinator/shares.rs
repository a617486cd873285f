//! Shares: members that came without partitions get some, by what partitions weigh if that can be learned, else by number.

use std::time::Duration;

use styx_driver::coordinator::{Goal, Load, MigrationOptions, plan};
use styx_driver::wire::{AdminQuery, Response};
use styx_protocol::ids::{Generation, NodeId, PartitionId, PlacementVersion, WorkerId};

use crate::handle::Handle;

/// How long workers may take to say what partitions weigh.
const ASK_MAX: Duration = Duration::from_secs(10);

/// Has partitions spread among these nodes, unless they have other owners by now.
pub(super) async fn share_out(handle: Handle, nodes: Vec<NodeId>, planned_on: (Generation, PlacementVersion)) {
    let weighed = tokio::time::timeout(ASK_MAX, weigh(&handle, &nodes)).await.ok().flatten();
    let goal = weighed.unwrap_or(Goal::Only(nodes));
    let ticket = handle.stats().ticket();
    let options = MigrationOptions { ticket, planned_on: Some(planned_on), wait: false, ..MigrationOptions::default() };
    if let Err(abort) = handle.migrate(goal, options).await {
        tracing::info!("workers without partitions get none for now: {}", abort.message);
    }
}

/// Who is to get what, by what partitions weigh; none if that cannot be learned.
async fn weigh(handle: &Handle, nodes: &[NodeId]) -> Option<Goal> {
    let Some(Response::Cluster(overview)) = handle.read(AdminQuery::Cluster).await else { return None };
    let Some(Response::Partitions(stats)) = handle.read(AdminQuery::Partitions).await else { return None };
    let members: Vec<NodeId> = overview.members.iter().map(|member| member.node).collect();
    let owners: Vec<WorkerId> = stats.iter().map(|one| one.worker).collect();
    let is_known = |owner: &WorkerId| usize::from(owner.0) < members.len();
    if owners.len() != overview.partitions as usize || !owners.iter().all(is_known) {
        return None;
    }
    let loads: Vec<Load> = stats.iter().map(|one| Load { bytes: one.bytes, calls: one.calls }).collect();
    let next = plan(&Goal::Only(nodes.to_vec()), &owners, &members, &loads).ok()?;
    let moves = stats.iter().zip(next).filter(|(one, to)| one.worker != *to);
    let moves: Vec<_> = moves.map(|(one, to)| (PartitionId(one.partition), members[usize::from(to.0)])).collect();
    // Where it is even as it is, newcomers get as many as the others have.
    (!moves.is_empty()).then_some(Goal::Move(moves))
}
