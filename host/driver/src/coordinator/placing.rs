//! Which worker is to have which partition.

use std::collections::{BTreeMap, BTreeSet};

use styx_planted::{Bug, planted};
use styx_protocol::ids::{NodeId, PartitionId, WorkerId};
use styx_protocol::placement::{Seat, Seating, repartition};

use super::balance::{Load, MayGo, balance_load};

/// What an operator wants of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Every worker has as many partitions as any other, or one more.
    Balance,
    /// Partitions go to these nodes, the others stay.
    Move(
        /// Each with its node.
        Vec<(PartitionId, NodeId)>,
    ),
    /// A node has none any more.
    Empty(
        /// The node.
        NodeId,
    ),
    /// There is another number of partitions. Each stays where it was, or most of it.
    Repartition(
        /// The number.
        u32,
    ),
    /// Just these nodes have any.
    Only(
        /// At least one.
        Vec<NodeId>,
    ),
}

/// Owners for a new membership: whoever has a partition and is still there keeps it, what others had goes to those who
/// have the fewest and were not emptied. And who the members are.
pub(super) fn carry_over(last: Option<&Seating>, members: &[NodeId], partitions: u32) -> (Vec<WorkerId>, Vec<Seat>) {
    let at: BTreeMap<NodeId, WorkerId> = members.iter().copied().zip((0..).map(WorkerId)).collect();
    let last = last.filter(|_| !planted(Bug::PlacementForgotten));
    // By now there may be another number of partitions.
    let owners = last.map_or_else(Vec::new, |last| repartition(&last.owners, partitions));
    let kept = |owner: &WorkerId| at.get(&last?.seats.get(usize::from(owner.0))?.node).copied();
    let mut owners: Vec<Option<WorkerId>> = owners.iter().map(kept).collect();
    owners.resize(partitions as usize, None);
    let was_emptied = |node: &NodeId| {
        let seat = last.and_then(|last| last.seats.iter().find(|seat| seat.node == *node));
        seat.is_some_and(|seat| seat.emptied) && !planted(Bug::EmptiedForgotten)
    };
    let mut seats: Vec<Seat> = members.iter().map(|node| Seat { node: *node, emptied: was_emptied(node) }).collect();
    let workers = |emptied: bool| {
        let those = seats.iter().zip((0..).map(WorkerId)).filter(move |(seat, _)| emptied || !seat.emptied);
        those.map(|(_, worker)| worker).collect::<Vec<WorkerId>>()
    };
    let takers = Some(workers(false)).filter(|workers| !workers.is_empty()).unwrap_or_else(|| workers(true));
    let owners = fill(owners, &takers);
    for owner in &owners {
        seats[usize::from(owner.0)].emptied = false;
    }
    (owners, seats)
}

/// Owners when all that these workers have goes to the takers; none, if they have nothing.
pub(super) fn vacate(owners: &[WorkerId], gone: &[u16], takers: &[u16]) -> Option<Vec<WorkerId>> {
    let leaves = |owner: &WorkerId| gone.contains(&owner.0);
    let takers: Vec<WorkerId> = takers.iter().copied().map(WorkerId).collect();
    let kept = || owners.iter().map(|owner| Some(*owner).filter(|owner| !leaves(owner))).collect();
    owners.iter().any(leaves).then(|| fill(kept(), &takers))
}

/// Gives those that have no owner to workers that have the fewest, in turn.
fn fill(owners: Vec<Option<WorkerId>>, workers: &[WorkerId]) -> Vec<WorkerId> {
    let mut counts: BTreeMap<WorkerId, usize> = workers.iter().map(|worker| (*worker, 0)).collect();
    for owner in owners.iter().flatten() {
        if let Some(count) = counts.get_mut(owner) {
            *count += 1;
        }
    }
    let mut by_count: BTreeSet<(usize, usize, WorkerId)> =
        workers.iter().enumerate().map(|(at, worker)| (counts[worker], at, *worker)).collect();
    let mut next = || {
        let (count, at, fewest) = by_count.pop_first().expect("there are workers");
        by_count.insert((count + 1, at, fewest));
        fewest
    };
    owners.into_iter().map(|owner| owner.unwrap_or_else(&mut next)).collect()
}

/// Owners of whom none has more than one partition more than another, with the fewest changes.
pub(super) fn balance(owners: &[WorkerId], workers: u16) -> Vec<WorkerId> {
    let workers: Vec<WorkerId> = (0..workers).map(WorkerId).collect();
    spread(owners, &workers)
}

/// Owners among these workers, as even as can be, with the fewest changes.
fn spread(owners: &[WorkerId], workers: &[WorkerId]) -> Vec<WorkerId> {
    let count = |of: &WorkerId| owners.iter().filter(|owner| *owner == of).count();
    let (each, mut more) = (owners.len() / workers.len(), owners.len() % workers.len());
    // Who has the most keeps one more.
    let mut by_count: Vec<(usize, WorkerId)> = workers.iter().map(|worker| (count(worker), *worker)).collect();
    by_count.sort_unstable_by_key(|(count, worker)| (usize::MAX - count, *worker));
    let mut room: BTreeMap<WorkerId, usize> = BTreeMap::new();
    for (_, worker) in by_count {
        room.insert(worker, each + usize::from(more > 0));
        more = more.saturating_sub(1);
    }
    let keep = |owner: &WorkerId| {
        let left = room.get_mut(owner).filter(|left| **left > 0)?;
        *left -= 1;
        Some(*owner)
    };
    fill(owners.iter().map(keep).collect(), workers)
}

/// Owners as a goal has it, of partitions of which it is known what they weigh: by load where it leaves a choice, and
/// by number where nothing was measured.
///
/// # Errors
/// It cannot be: why.
pub fn plan(goal: &Goal, owners: &[WorkerId], members: &[NodeId], loads: &[Load]) -> Result<Vec<WorkerId>, String> {
    let by_number = reach(goal, owners, members)?;
    if loads.len() != owners.len() || loads.iter().all(|load| *load == Load::default()) {
        return Ok(by_number);
    }
    let all = || (0..members.len() as u16).map(WorkerId);
    let worker = |node: &NodeId| members.iter().position(|member| member == node).map(|at| WorkerId(at as u16));
    Ok(match goal {
        Goal::Move(_) | Goal::Repartition(_) => by_number,
        Goal::Balance => balance_load(owners, &all().collect::<Vec<_>>(), loads, MayGo::All),
        Goal::Empty(node) => {
            let others: Vec<WorkerId> = all().filter(|other| Some(*other) != worker(node)).collect();
            balance_load(owners, &others, loads, MayGo::Homeless)
        }
        Goal::Only(nodes) => {
            let workers: Vec<WorkerId> = nodes.iter().filter_map(worker).collect();
            balance_load(owners, &workers, loads, MayGo::All)
        }
    })
}

/// Owners as a goal has it.
///
/// # Errors
/// It cannot be: why.
pub(super) fn reach(goal: &Goal, owners: &[WorkerId], members: &[NodeId]) -> Result<Vec<WorkerId>, String> {
    let worker = |node: &NodeId| {
        let at = members.iter().position(|member| member == node);
        at.map(|at| WorkerId(at as u16)).ok_or_else(|| format!("node {node} is no worker of the cluster"))
    };
    match goal {
        Goal::Balance => Ok(balance(owners, members.len() as u16)),
        Goal::Repartition(partitions) => Ok(repartition(owners, *partitions)),
        Goal::Move(moves) => {
            let mut owners = owners.to_vec();
            for (partition, node) in moves {
                let owner = owners.get_mut(usize::from(partition.0));
                *owner.ok_or_else(|| format!("there is no partition {partition}"))? = worker(node)?;
            }
            Ok(owners)
        }
        Goal::Only(nodes) => {
            let mut workers = nodes.iter().map(worker).collect::<Result<Vec<_>, _>>()?;
            workers.sort_unstable();
            workers.dedup();
            if workers.is_empty() {
                return Err("somebody must have the partitions".to_owned());
            }
            Ok(spread(owners, &workers))
        }
        Goal::Empty(node) => {
            let empty = worker(node)?;
            let others: Vec<WorkerId> =
                (0..members.len() as u16).map(WorkerId).filter(|other| *other != empty).collect();
            if others.is_empty() {
                return Err("the last worker keeps its partitions".to_owned());
            }
            Ok(spread(owners, &others))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moved(before: &[WorkerId], after: &[WorkerId]) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    fn counts(owners: &[WorkerId], workers: u16) -> Vec<usize> {
        (0..workers).map(|worker| owners.iter().filter(|owner| owner.0 == worker).count()).collect()
    }

    #[test]
    fn a_third_worker_gets_a_third_and_nobody_else_anything() {
        let nodes = [NodeId(7), NodeId(3), NodeId(9)];
        let (first, seats) = carry_over(None, &nodes[..2], 64);
        assert_eq!(counts(&first, 2), [32, 32]);
        let last: Vec<NodeId> = first.iter().map(|owner| nodes[usize::from(owner.0)]).collect();
        let seating = Seating { seats, owners: first.clone() };
        let (joined, _) = carry_over(Some(&seating), &nodes, 64);
        assert_eq!(joined, first, "a newcomer has nothing yet");
        let balanced = balance(&joined, 3);
        assert_eq!(counts(&balanced, 3).iter().sum::<usize>(), 64);
        assert_eq!(moved(&joined, &balanced), 21);
        // The members may be seated otherwise.
        let (again, _) = carry_over(Some(&seating), &[NodeId(3), NodeId(9)], 64);
        assert_eq!(counts(&again, 2), [32, 32], "what the lost one had goes to who has nothing");
        assert!(last.iter().zip(&again).all(|(before, now)| *before != NodeId(3) || now.0 == 0));
    }

    #[test]
    fn whoever_was_emptied_stays_so_unless_nobody_else_is_there() {
        let seat = |node, emptied| Seat { node: NodeId(node), emptied };
        let owners: Vec<WorkerId> = (0..6).map(|at| WorkerId(at % 2)).collect();
        let last = Seating { seats: vec![seat(7, false), seat(3, false), seat(9, true)], owners };
        let carried = |members: &[u64]| {
            let members: Vec<NodeId> = members.iter().copied().map(NodeId).collect();
            let (owners, seats) = carry_over(Some(&last), &members, 6);
            (counts(&owners, members.len() as u16), seats.iter().map(|seat| seat.emptied).collect::<Vec<_>>())
        };
        assert_eq!(carried(&[9, 7, 3]), (vec![0, 3, 3], vec![true, false, false]));
        assert_eq!(carried(&[9, 7]), (vec![0, 6], vec![true, false]), "the lost one's go to who has some");
        assert_eq!(carried(&[9, 7, 5]), (vec![0, 3, 3], vec![true, false, false]), "or to a newcomer");
        assert_eq!(carried(&[9]), (vec![6], vec![false]), "somebody must have them");
    }

    #[test]
    fn what_those_who_leave_have_goes_to_the_others_and_nothing_else_does() {
        let owners: Vec<WorkerId> = (0..9).map(|at| WorkerId(at % 3)).collect();
        let left = vacate(&owners, &[1], &[0, 2]).unwrap();
        assert_eq!(moved(&owners, &left), 3);
        assert!(counts(&left, 3) == [5, 0, 4] || counts(&left, 3) == [4, 0, 5]);
        assert_eq!(counts(&vacate(&owners, &[1, 2], &[0]).unwrap(), 3), [9, 0, 0]);
        assert_eq!(counts(&vacate(&owners, &[1], &[0]).unwrap(), 3), [6, 0, 3], "who is no taker keeps what it has");
        assert_eq!(vacate(&left, &[1], &[0, 2]), None);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let (owners, nodes) = (vec![WorkerId(0); 4], [NodeId(7)]);
        let why = |goal| reach(&goal, &owners, &nodes).unwrap_err();
        assert_eq!(why(Goal::Empty(NodeId(7))), "the last worker keeps its partitions");
        assert_eq!(why(Goal::Empty(NodeId(8))), "node 8 is no worker of the cluster");
        assert_eq!(why(Goal::Only(vec![NodeId(7), NodeId(8)])), "node 8 is no worker of the cluster");
        assert_eq!(why(Goal::Only(Vec::new())), "somebody must have the partitions");
        assert_eq!(why(Goal::Move(vec![(PartitionId(4), NodeId(7))])), "there is no partition 4");
    }

    #[test]
    fn a_plan_goes_by_load_where_there_is_a_choice() {
        let nodes = [NodeId(7), NodeId(3), NodeId(9)];
        let owners: Vec<WorkerId> = (0..12).map(|at| WorkerId(at % 3)).collect();
        let mut loads = vec![Load { bytes: 1, calls: 1 }; 12];
        let plan = |goal, loads: &[Load]| plan(&goal, &owners, &nodes, loads).unwrap();
        assert_eq!(plan(Goal::Balance, &loads), owners);
        assert_eq!(plan(Goal::Balance, &[]), owners, "nothing was measured");
        for at in [0, 3] {
            loads[at].calls = 1000;
        }
        assert!(moved(&owners, &plan(Goal::Balance, &loads)) > 0);
        let emptied = plan(Goal::Empty(NodeId(3)), &loads);
        assert_eq!(moved(&owners, &emptied), 4, "nobody else gives any");
        assert_eq!(counts(&emptied, 3)[1], 0);
        let only = plan(Goal::Only(vec![NodeId(9), NodeId(3)]), &loads);
        assert_eq!(counts(&only, 3)[0], 0);
        assert_ne!(only[0], only[3], "each has one of those that are called");
        assert_eq!(plan(Goal::Move(vec![(PartitionId(1), NodeId(7))]), &loads)[1], WorkerId(0));
    }

    proptest! {
        #[test]
        fn a_balance_is_even_and_moves_the_fewest(
            owners in prop::collection::vec(0u16..5, 1..80), more in 0u16..3,
        ) {
            let owners: Vec<WorkerId> = owners.into_iter().map(WorkerId).collect();
            let workers = 5 + more;
            let balanced = balance(&owners, workers);
            let after = counts(&balanced, workers);
            let (fewest, most) = (*after.iter().min().unwrap(), *after.iter().max().unwrap());
            prop_assert!(most - fewest <= 1);
            // Whoever has too many gives away what is too much, and no more.
            let ceiling = owners.len().div_ceil(usize::from(workers));
            let floor = owners.len() / usize::from(workers);
            let before = counts(&owners, workers);
            let above: usize = before.iter().map(|count| count.saturating_sub(ceiling)).sum();
            let below: usize = before.iter().map(|count| floor.saturating_sub(*count)).sum();
            prop_assert_eq!(moved(&owners, &balanced), above.max(below));
        }
    }
}
