//! Shares: members that came without partitions get some, by what partitions weigh if that can be learned, else by number;
//! and the same among those that have some, where one has too much to do: by what partitions were called then, not before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use styx_driver::coordinator::{Goal, Load, MigrationId, MigrationOptions, plan};
use styx_driver::fullness::ENTITY_BYTES;
use styx_driver::wire::{AdminQuery, PartitionStats, Response};
use styx_protocol::ids::{Generation, NodeId, PartitionId, PlacementVersion, WorkerId};

use crate::handle::Handle;

/// How long workers may take to say what partitions weigh.
const ASK_MAX: Duration = Duration::from_secs(10);

/// Has partitions spread among these nodes, unless they have other owners by now.
pub(super) async fn share_out(handle: Handle, nodes: Vec<NodeId>, planned_on: (Generation, PlacementVersion)) {
    let weighed = tokio::time::timeout(ASK_MAX, weigh(&handle, Some(&nodes), None)).await.ok().flatten();
    // Where it is even as it is, newcomers get as many as the others have.
    let (goal, gains) = weighed.map_or((Goal::Only(nodes), Vec::new()), |weighed| (weighed.goal, weighed.gains));
    if let Err(why) = begin(&handle, Weighed { goal, gains, planned_on }).await {
        tracing::info!("workers without partitions get none for now: {why}");
    }
}

/// Has partitions spread by what they weigh among the workers that have some, and by how often they are called for so long
/// from now on: what was called before may have been others. Says why not, if nothing is to be moved; otherwise which migration it
/// is.
pub(crate) async fn balance(handle: &Handle, watched: Duration) -> Result<MigrationId, String> {
    let unknown = || "what partitions weigh is not known now".to_owned();
    let before = tokio::time::timeout(ASK_MAX, stats(handle)).await.ok().flatten().ok_or_else(unknown)?;
    tokio::time::sleep(watched).await;
    let weighed = tokio::time::timeout(ASK_MAX, weigh(handle, None, Some(&before))).await.map_err(|_| unknown())?;
    let weighed = weighed.ok_or("what partitions weigh cannot be spread any better than it is, or is not known now")?;
    let ticket = begin(handle, weighed).await?;
    let known = handle.stats().migrations();
    let begun = known.reports.iter().find(|report| report.ticket == ticket).map(|report| report.id);
    begun.ok_or_else(|| "the cluster has changed since it was begun".to_owned())
}

/// Begins a migration, and does not wait for its end: its ticket; an error says why none.
async fn begin(handle: &Handle, Weighed { goal, gains, planned_on }: Weighed) -> Result<u64, String> {
    let ticket = handle.stats().ticket();
    let options = MigrationOptions { ticket, planned_on: Some(planned_on), wait: false, ..MigrationOptions::default() };
    handle.migrate(goal, options, gains).await.map(|()| ticket).map_err(|abort| abort.message.to_string())
}

/// Who is to get what, by what partitions weigh.
struct Weighed {
    goal: Goal,
    /// Bytes that each would hold more.
    gains: Vec<(NodeId, u64)>,
    planned_on: (Generation, PlacementVersion),
}

async fn stats(handle: &Handle) -> Option<Vec<PartitionStats>> {
    match handle.read(AdminQuery::Partitions).await {
        Some(Response::Partitions(stats)) => Some(stats),
        _ => None,
    }
}

/// How often a partition was called since `before`; its counts begin anew when it moves.
fn calls_since(before: &[PartitionStats], one: &PartitionStats) -> u64 {
    let then = before.get(usize::from(one.partition)).filter(|then| then.worker == one.worker);
    then.and_then(|then| one.calls.checked_sub(then.calls)).unwrap_or(one.calls)
}

/// Who is to get what among these nodes, or among those that have something, by all calls or by those since `before`; none if
/// nothing is to go, or that cannot be learned.
async fn weigh(handle: &Handle, nodes: Option<&[NodeId]>, before: Option<&[PartitionStats]>) -> Option<Weighed> {
    let Some(Response::Cluster(overview)) = handle.read(AdminQuery::Cluster).await else { return None };
    let stats = stats(handle).await?;
    let members: Vec<NodeId> = overview.members.iter().map(|member| member.node).collect();
    let owners: Vec<WorkerId> = stats.iter().map(|one| one.worker).collect();
    let is_known = |owner: &WorkerId| usize::from(owner.0) < members.len();
    if owners.len() != overview.partitions as usize || !owners.iter().all(is_known) {
        return None;
    }
    let having: BTreeSet<NodeId> = owners.iter().map(|owner| members[usize::from(owner.0)]).collect();
    let nodes = nodes.map_or_else(|| having.into_iter().collect(), <[NodeId]>::to_vec);
    let calls = |one: &PartitionStats| before.map_or(one.calls, |before| calls_since(before, one));
    let loads: Vec<Load> = stats.iter().map(|one| Load { bytes: one.bytes, calls: calls(one) }).collect();
    let next = plan(&Goal::Only(nodes), &owners, &members, &loads).ok()?;
    let moves = stats.iter().zip(next).filter(|(one, to)| one.worker != *to);
    let moves: Vec<_> = moves.map(|(one, to)| (one, members[usize::from(to.0)])).collect();
    let mut gains = BTreeMap::<NodeId, u64>::new();
    for (one, to) in &moves {
        *gains.entry(*to).or_default() += one.bytes + one.entities * ENTITY_BYTES;
    }
    let moves: Vec<_> = moves.into_iter().map(|(one, to)| (PartitionId(one.partition), to)).collect();
    let planned_on = (overview.generation, overview.placement);
    let gains = gains.into_iter().collect();
    (!moves.is_empty()).then_some(Weighed { goal: Goal::Move(moves), gains, planned_on })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_how_often_a_partition_was_called_lately() {
        let one = |partition, worker, calls| PartitionStats {
            partition,
            worker: WorkerId(worker),
            entities: 0,
            bytes: 0,
            calls,
            fuel: 0,
            moves_to: None,
        };
        let before = [one(0, 0, 1_000_000), one(1, 0, 5), one(2, 1, 50), one(3, 1, 7)];
        let now = [one(0, 0, 1_000_000), one(1, 0, 905), one(2, 0, 60), one(3, 1, 3), one(4, 1, 2)];
        let lately: Vec<u64> = now.iter().map(|one| calls_since(&before, one)).collect();
        assert_eq!(lately, [0, 900, 60, 3, 2], "one has moved, one counts anew, and one is new");
    }
}
