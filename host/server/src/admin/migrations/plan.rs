//! What a migration would do, before it does it.

use std::collections::BTreeMap;

use serde::Serialize;
use styx_driver::coordinator::{Goal, Load, MigrationReport, MigrationState, plan};
use styx_driver::fullness::ENTITY_BYTES;
use styx_driver::wire::{Overview, PartitionStats};
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Generation, NodeId, PartitionId, PlacementVersion, WorkerId};
use utoipa::ToSchema;

use super::view::bytes_per_second;

/// A migration that took less than so many bytes says nothing of how fast one is.
const TELLING_BYTES: u64 = 1 << 20;

/// What a migration would do.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct Plan {
    /// The placement that it is made for: a migration that names it is refused once another one is in force.
    pub(super) placement: String,
    partitions: u64,
    entities: u64,
    /// Of keys and values.
    bytes: u64,
    /// An estimate, if there is anything to go by; the moment that owners wait for a snapshot is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_seconds: Option<f64>,
    /// What the estimate goes by: `rate limit`, or `last migration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_by: Option<&'static str>,
    /// The number of partitions there would be, if it is another: each is with the worker that has what it is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    repartitioned: Option<u32>,
    moves: Vec<PlannedMove>,
    workers: Vec<PlannedWorker>,
}

#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct PlannedMove {
    partition: u16,
    /// Number of the worker that has it, from 1.
    from: u32,
    /// Number of the worker that is to have it.
    to: u32,
    entities: u64,
    bytes: u64,
    calls: u64,
}

/// What a worker has, and what it would have.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct PlannedWorker {
    worker: u32,
    before: Share,
    after: Share,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Share {
    partitions: u64,
    entities: u64,
    bytes: u64,
    /// Of its partitions, each since its worker has it.
    calls: u64,
}

impl Share {
    fn add(&mut self, stats: &PartitionStats) {
        self.partitions += 1;
        self.entities += stats.entities;
        self.bytes += stats.bytes;
        self.calls += stats.calls;
    }
}

/// A placement by name: its generation and its version.
pub(super) fn placement_name(generation: Generation, version: PlacementVersion) -> String {
    format!("{}.{}", generation.0, version.0)
}

/// The placement of that name.
pub(super) fn named_placement(text: &str) -> Option<(Generation, PlacementVersion)> {
    let (generation, version) = text.split_once('.')?;
    Some((Generation(generation.parse().ok()?), PlacementVersion(version.parse().ok()?)))
}

/// What a plan rests on.
pub(super) struct Ground<'a> {
    pub overview: &'a Overview,
    /// All partitions, in order.
    pub stats: &'a [PartitionStats],
    /// What is known of migrations.
    pub past: &'a [MigrationReport],
}

/// How a migration is to be made.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Only the number of partitions counts, not what they weigh.
    pub by_number: bool,
    pub rate: Option<u64>,
}

impl Ground<'_> {
    /// A plan for a goal.
    ///
    /// # Errors
    /// It cannot be: why.
    pub(super) fn plan(&self, goal: &Goal, Terms { by_number, rate }: Terms) -> Result<Plan, String> {
        let Ground { overview, stats, past } = self;
        let members: Vec<NodeId> = overview.members.iter().map(|member| member.node).collect();
        let owners: Vec<WorkerId> = stats.iter().map(|one| one.worker).collect();
        let is_known = |owner: &WorkerId| usize::from(owner.0) < members.len();
        if owners.len() != overview.partitions as usize || !owners.iter().all(is_known) {
            return Err("the workers are changing; ask again in a moment".to_owned());
        }
        let load = |one: &PartitionStats| Load { bytes: one.bytes, calls: one.calls };
        let loads: Vec<Load> = if by_number { Vec::new() } else { stats.iter().map(load).collect() };
        if let Goal::Repartition(partitions) = goal {
            return self.repartition(*partitions, &owners, &members);
        }
        let next = plan(goal, &owners, &members, &loads)?;
        let mut shares = vec![(Share::default(), Share::default()); members.len()];
        let (mut moves, mut leaving) = (Vec::new(), BTreeMap::<WorkerId, u64>::new());
        let (mut entities, mut bytes) = (0, 0);
        for (one, to) in stats.iter().zip(next) {
            shares[usize::from(one.worker.0)].0.add(one);
            shares[usize::from(to.0)].1.add(one);
            if one.worker != to {
                *leaving.entry(one.worker).or_default() += one.bytes;
                entities += one.entities;
                bytes += one.bytes;
                moves.push(PlannedMove {
                    partition: one.partition,
                    from: u32::from(one.worker.0) + 1,
                    to: u32::from(to.0) + 1,
                    entities: one.entities,
                    bytes: one.bytes,
                    calls: one.calls,
                });
            }
        }
        let most = leaving.values().copied().max().unwrap_or(0);
        let estimate = match rate.filter(|rate| *rate > 0) {
            Some(rate) => Some((most as f64 / rate as f64, "rate limit")),
            None => {
                let done = |report: &&MigrationReport| {
                    report.state == MigrationState::Done && report.rate.is_none() && report.bytes.done >= TELLING_BYTES
                };
                let rate = past.iter().rev().find(done).and_then(|last| bytes_per_second(last.bytes.done, last.took));
                rate.map(|rate| (bytes as f64 / rate as f64, "last migration"))
            }
        };
        let worker = |(at, (before, after))| PlannedWorker { worker: at as u32 + 1, before, after };
        Ok(Plan {
            placement: placement_name(overview.generation, overview.placement),
            partitions: moves.len() as u64,
            entities,
            bytes,
            estimated_seconds: estimate.map(|(seconds, _)| seconds),
            estimated_by: estimate.map(|(_, by)| by),
            repartitioned: None,
            moves,
            workers: shares.into_iter().enumerate().map(worker).collect(),
        })
    }
}

impl Ground<'_> {
    /// Another number of partitions: nothing goes to another worker.
    fn repartition(&self, partitions: u32, owners: &[WorkerId], members: &[NodeId]) -> Result<Plan, String> {
        let Ground { overview, stats, .. } = self;
        let layout = Layout { seed: 0, partitions: overview.partitions, created: overview.created };
        layout.repartitioned(partitions)?;
        let mut shares = vec![(Share::default(), Share::default()); members.len()];
        for one in *stats {
            shares[usize::from(one.worker.0)].0.add(one);
        }
        for (before, after) in &mut shares {
            *after = Share { partitions: 0, ..*before };
        }
        for owner in plan(&Goal::Repartition(partitions), owners, members, &[])? {
            shares[usize::from(owner.0)].1.partitions += 1;
        }
        let worker = |(at, (before, after))| PlannedWorker { worker: at as u32 + 1, before, after };
        Ok(Plan {
            placement: placement_name(overview.generation, overview.placement),
            partitions: 0,
            entities: 0,
            bytes: 0,
            estimated_seconds: None,
            estimated_by: None,
            repartitioned: Some(partitions),
            moves: Vec::new(),
            workers: shares.into_iter().enumerate().map(worker).collect(),
        })
    }
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.repartitioned.is_none()
    }

    /// Bytes in memory that each would hold more than now.
    pub(super) fn gains(&self, members: &[NodeId]) -> Vec<(NodeId, u64)> {
        let held = |share: &Share| share.bytes + share.entities * ENTITY_BYTES;
        let gain = |(node, one): (&NodeId, &PlannedWorker)| {
            held(&one.after).checked_sub(held(&one.before)).filter(|more| *more > 0).map(|more| (*node, more))
        };
        members.iter().zip(&self.workers).filter_map(gain).collect()
    }

    /// The same, to be done.
    pub(super) fn goal(&self, members: &[NodeId]) -> Goal {
        if let Some(partitions) = self.repartitioned {
            return Goal::Repartition(partitions);
        }
        let one = |one: &PlannedMove| (PartitionId(one.partition), members[one.to as usize - 1]);
        Goal::Move(self.moves.iter().map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::migrations::tests::overview;

    fn stats() -> Vec<PartitionStats> {
        let one = |partition: u16| PartitionStats {
            partition,
            worker: WorkerId(0),
            entities: 1,
            bytes: 100 * u64::from(partition),
            calls: 5,
            fuel: 1,
            moves_to: None,
        };
        (0..4).map(one).collect()
    }

    #[test]
    fn a_plan_says_what_goes_and_what_each_has_before_and_after() {
        let (overview, stats) = (overview(), stats());
        let ground = Ground { overview: &overview, stats: &stats, past: &[] };
        let goal = Goal::Move(vec![(PartitionId(3), NodeId(2))]);
        let plan = ground.plan(&goal, Terms { by_number: false, rate: Some(100) }).unwrap();
        assert_eq!((&*plan.placement, plan.partitions, plan.entities, plan.bytes), ("7.3", 1, 1, 300));
        assert_eq!((plan.estimated_seconds, plan.estimated_by), (Some(3.0), Some("rate limit")));
        let after: Vec<_> = plan.workers.iter().map(|one| (one.before.bytes, one.after.bytes)).collect();
        assert_eq!(after, [(600, 300), (0, 300)]);
        assert_eq!(plan.goal(&[NodeId(1), NodeId(2)]), goal);
        assert_eq!(plan.gains(&[NodeId(1), NodeId(2)]), [(NodeId(2), 300 + ENTITY_BYTES)]);
        assert_eq!(named_placement(&plan.placement), Some((Generation(7), PlacementVersion(3))));
        assert!(["", "7", "7.x", "x.3", "7.3.1", "-1.2"].iter().all(|text| named_placement(text).is_none()));
    }

    #[test]
    fn a_balance_goes_by_load_unless_by_number_and_nothing_is_estimated_by_nothing() {
        let (overview, stats) = (overview(), stats());
        let ground = Ground { overview: &overview, stats: &stats, past: &[] };
        let by_load = ground.plan(&Goal::Balance, Terms { by_number: false, rate: None }).unwrap();
        assert_eq!((by_load.estimated_seconds, by_load.estimated_by), (None, None));
        let heaviest = by_load.workers.iter().map(|one| one.after.bytes).max();
        assert_eq!(heaviest, Some(300), "600 bytes are halved");
        let by_number = ground.plan(&Goal::Balance, Terms { by_number: true, rate: None }).unwrap();
        assert!(by_number.workers.iter().all(|one| one.after.partitions == 2));
        assert!(ground.plan(&Goal::Empty(NodeId(9)), Terms { by_number: true, rate: None }).is_err());
        let half = Ground { overview: &overview, stats: &stats[..2], past: &[] };
        assert!(half.plan(&Goal::Balance, Terms { by_number: true, rate: None }).is_err(), "who has the others?");
    }
}
