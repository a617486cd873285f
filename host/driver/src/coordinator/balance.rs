//! Balance by load: who is to have which partition, so that workers have about as much to do and to hold.

use std::collections::BTreeSet;

use styx_protocol::ids::WorkerId;

/// What a partition weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Of keys and values.
    pub bytes: u64,
    /// Functions called, since its worker has it.
    pub calls: u64,
}

/// A whole cluster weighs so much.
const WHOLE: u128 = 1 << 60;

/// Of a hundred parts of what a partition weighs, those that each has by being one.
const FOR_BEING_ONE: u128 = 10;

/// Workers differ by less than this part of what each should have: it is not worth a move.
const TOLERATED: u64 = 20;

/// What each partition weighs: its parts of all bytes and of all calls.
fn weights(loads: &[Load]) -> Vec<u64> {
    let (bytes, calls): (u128, u128) = loads
        .iter()
        .fold((0, 0), |(bytes, calls), load| (bytes + u128::from(load.bytes), calls + u128::from(load.calls)));
    let count = loads.len() as u128;
    // What was not measured says nothing.
    let measured = u128::from(bytes > 0) + u128::from(calls > 0);
    let by_load = (100 - FOR_BEING_ONE).checked_div(measured).unwrap_or(0);
    let part = |one: u64, of: u128| (WHOLE / 100 * by_load).checked_div(of).unwrap_or(0) * u128::from(one);
    let each = WHOLE / 100 * if measured == 0 { 100 } else { FOR_BEING_ONE } / count.max(1);
    loads.iter().map(|load| (part(load.bytes, bytes) + part(load.calls, calls) + each) as u64).collect()
}

/// Which partitions may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayGo {
    /// Those whose owner is to have none.
    Homeless,
    /// Others too, so that none of the workers has much more to do than another.
    All,
}

/// Owners among these workers. Heavy partitions go first, so that few go, and none goes that would only change who
/// has too much.
pub(super) fn balance_load(owners: &[WorkerId], workers: &[WorkerId], loads: &[Load], may_go: MayGo) -> Vec<WorkerId> {
    assert!(!workers.is_empty() && owners.len() == loads.len(), "each partition has an owner and a load");
    let weights = weights(loads);
    let mut owners = owners.to_vec();
    let at = |owner: &WorkerId| workers.iter().position(|worker| worker == owner);
    let mut sums = vec![0u64; workers.len()];
    // By worker its partitions, the heaviest last, until they are given.
    let mut held: Vec<BTreeSet<(u64, usize)>> = vec![BTreeSet::new(); workers.len()];
    let mut homeless = Vec::new();
    for (partition, owner) in owners.iter().enumerate() {
        match at(owner) {
            Some(worker) => {
                sums[worker] += weights[partition];
                held[worker].insert((weights[partition], partition));
            }
            None => homeless.push((weights[partition], partition)),
        }
    }
    homeless.sort_unstable();
    for (weight, partition) in homeless.into_iter().rev() {
        let least = (0..workers.len()).min_by_key(|worker| sums[*worker]).expect("there are workers");
        sums[least] += weight;
        held[least].insert((weight, partition));
        owners[partition] = workers[least];
    }
    if may_go == MayGo::Homeless {
        return owners;
    }
    let share = sums.iter().map(|sum| sum / workers.len() as u64).sum::<u64>();
    // One that was given does not go further, so this ends.
    loop {
        let most = (0..workers.len()).max_by_key(|worker| sums[*worker]).expect("there are workers");
        let least = (0..workers.len()).min_by_key(|worker| sums[*worker]).expect("there are workers");
        let differ = sums[most] - sums[least];
        if differ <= share / TOLERATED {
            return owners;
        }
        // The heaviest that does not make the one as heavy as the other was.
        let Some(fits) = held[most].range(..=(differ / 2, usize::MAX)).next_back().copied() else { return owners };
        held[most].remove(&fits);
        let (weight, partition) = fits;
        sums[most] -= weight;
        sums[least] += weight;
        owners[partition] = workers[least];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owners(of: &[u16]) -> Vec<WorkerId> {
        of.iter().copied().map(WorkerId).collect()
    }

    #[test]
    fn what_is_hot_goes_and_what_is_cold_stays() {
        let mut loads = vec![Load { bytes: 10, calls: 0 }; 64];
        loads[3].calls = 1000;
        loads[5].calls = 1000;
        let all_of_one = owners(&[0; 64]);
        let balanced = balance_load(&all_of_one, &owners(&[0, 1]), &loads, MayGo::All);
        let gone: Vec<usize> = (0..64).filter(|at| balanced[*at].0 == 1).collect();
        assert!(gone.contains(&3) && gone.contains(&5) && gone.len() < 10, "{gone:?}");
        let weights = weights(&loads);
        let (second, all) = (gone.iter().map(|at| weights[*at]).sum::<u64>(), weights.iter().sum::<u64>());
        assert!(second.abs_diff(all - second) <= all / 2 / TOLERATED, "{second} of {all}");
    }

    #[test]
    fn what_is_even_enough_stays_and_nobody_who_is_left_out_keeps_any() {
        let loads = vec![Load { bytes: 100, calls: 100 }; 60];
        let now: Vec<WorkerId> = (0..60).map(|at| WorkerId(at % 3)).collect();
        assert_eq!(balance_load(&now, &owners(&[0, 1, 2]), &loads, MayGo::All), now);
        let two = balance_load(&now, &owners(&[0, 2]), &loads, MayGo::Homeless);
        let count = |of: u16| two.iter().filter(|owner| owner.0 == of).count();
        assert_eq!((count(0), count(1), count(2)), (30, 0, 30));
        let stayed = now.iter().zip(&two).filter(|(before, after)| before == after).count();
        assert_eq!(stayed, 40, "only those of the second go");
        assert_eq!(
            balance_load(&now, &owners(&[0, 1, 2]), &vec![Load::default(); 60], MayGo::All),
            now,
            "nothing was measured"
        );
    }

    #[test]
    fn what_partitions_weigh_and_where_they_go_is_known() {
        let _transcript = styx_transcript::scenario!("policies");
        let mut draw = crate::testing::draws(2);
        for case in 0..90 {
            let workers = owners(&[0, 1, 2, 3][..draw(&[1, 2, 3, 4]) as usize]);
            let partitions = draw(&[0, 1, 4, 12, 20]);
            let before: Vec<WorkerId> = (0..partitions).map(|_| WorkerId(draw(&[0, 0, 1, 2, 3, 4]) as u16)).collect();
            let measured = draw(&[0, 1, 1, 1]);
            let mut load = || Load { bytes: draw(&[0, 1, 1, 7]) * measured, calls: draw(&[0, 0, 20]) * (case % 2) };
            let loads: Vec<Load> = (0..partitions).map(|_| load()).collect();
            styx_transcript::told(&(&before, &loads, workers.len()));
            styx_transcript::did(&weights(&loads));
            for may_go in [MayGo::Homeless, MayGo::All] {
                styx_transcript::did(&balance_load(&before, &workers, &loads, may_go));
            }
        }
    }

    proptest! {
        #[test]
        fn nobody_is_worse_off_than_whoever_had_the_most(
            loads in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40), 1..200),
            placed in prop::collection::vec(0u16..6, 200),
            workers in 1u16..6,
        ) {
            let loads: Vec<Load> = loads.into_iter().map(|(bytes, calls)| Load { bytes, calls }).collect();
            let before = owners(&placed[..loads.len()]);
            let workers: Vec<WorkerId> = (0..workers).map(WorkerId).collect();
            let after = balance_load(&before, &workers, &loads, MayGo::All);
            prop_assert!(after.iter().all(|owner| workers.contains(owner)));
            let weights = weights(&loads);
            prop_assert!(weights.iter().map(|weight| u128::from(*weight)).sum::<u128>() <= WHOLE);
            let heaviest = |owners: &[WorkerId]| {
                let sum = |worker: &WorkerId| {
                    owners.iter().zip(&weights).filter(|(owner, _)| *owner == worker).map(|(_, weight)| weight).sum::<u64>()
                };
                workers.iter().map(sum).max().unwrap()
            };
            if before.iter().all(|owner| workers.contains(owner)) {
                prop_assert!(heaviest(&after) <= heaviest(&before));
            }
        }
    }
}
