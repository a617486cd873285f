use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::locks::Locks;
use super::writers::Writers;
use super::{Member, components};
use crate::execute::attempt::{Access, Execution, Footprint};
use crate::ids::{OperatorId, RequestId, Tid, Timestamp};
use crate::sequence::transaction::{Request, Transaction};
use crate::state::entity::{Entity, Key, Layout};
use crate::state::range::{KeyRange, RangeRead};

const LAYOUT: Layout = Layout::new(7, 4);

fn key(number: u32) -> Key {
    format!("{number:06}").into()
}

/// A RW set of keys written, keys read, and ranges read from one key up to another.
fn footprint(writes: &[u32], reads: &[u32], ranges: &[(u32, u32)]) -> Footprint {
    let mut footprint = Footprint::default();
    let entity = |number: &u32| Entity::new(&LAYOUT, OperatorId(1), false, key(*number));
    for number in writes {
        footprint.accesses.entry(&entity(number), Access::default).set_write(None);
    }
    for number in reads {
        footprint.accesses.entry(&entity(number), Access::default).set_read();
    }
    let range = |(lower, upper): &(u32, u32)| KeyRange {
        lower: Bound::Included(key(*lower)),
        upper: Bound::Excluded(key(*upper)),
    };
    ranges.iter().for_each(|bounds| footprint.ranges.push(RangeRead { operator: OperatorId(1), range: range(bounds) }));
    footprint
}

fn member(index: usize, footprint: &Footprint) -> Member {
    let request = Request {
        id: RequestId(index as u128),
        operator: OperatorId(1),
        function: "f".into(),
        key: "k".into(),
        args: [][..].into(),
        retained: false,
        origin: None,
    };
    let transaction =
        Transaction { tid: Tid(index as u64 + 1), time: Timestamp(0), request: Arc::new(request), query: false };
    let cached = Arc::new(Execution { footprint: footprint.clone(), ..Execution::default() });
    Member { index, shared: false, transaction, cached }
}

/// Whether one of two writes what the other reads or writes, as a look at each pair finds.
fn conflict(a: &Footprint, b: &Footprint) -> bool {
    let meets = |a: &Footprint, b: &Footprint| {
        a.accesses
            .iter()
            .filter(|(_, access)| access.is_write())
            .any(|(entity, _)| b.accesses.get(entity).is_some() || b.ranges.iter().any(|read| read.contains(entity)))
    };
    meets(a, b) || meets(b, a)
}

fn footprints() -> impl Strategy<Value = Vec<Footprint>> {
    let keys = || prop::collection::vec(0u32..24, 0..4);
    let ranges = prop::collection::vec((0u32..24, 0u32..26), 0..3);
    let one = (keys(), keys(), ranges).prop_map(|(writes, reads, ranges)| footprint(&writes, &reads, &ranges));
    prop::collection::vec(one, 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_range_names_each_who_wrote_in_it_once(footprints in footprints()) {
        let writers = Writers::new(footprints.iter());
        for read in footprints.iter().flat_map(|footprint| &footprint.ranges) {
            let mut named = Vec::new();
            writers.inside(read, |member| named.push(member));
            named.sort_unstable();
            let wrote = |footprint: &Footprint| {
                footprint.accesses.iter().any(|(entity, access)| access.is_write() && read.contains(entity))
            };
            let expected: Vec<usize> = (0..footprints.len()).filter(|member| wrote(&footprints[*member])).collect();
            prop_assert_eq!(named, expected);
        }
    }

    #[test]
    fn components_are_what_conflicts_connect(footprints in footprints()) {
        let members = footprints.iter().enumerate().map(|(index, footprint)| member(index, footprint)).collect();
        let found: Vec<BTreeSet<usize>> =
            components(members).iter().map(|component| component.iter().map(|member| member.index).collect()).collect();
        let mut of: Vec<usize> = (0..footprints.len()).collect();
        for a in 0..of.len() {
            for b in 0..a {
                if conflict(&footprints[a], &footprints[b]) {
                    let (from, to) = (of[a], of[b]);
                    of.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
                }
            }
        }
        for a in 0..of.len() {
            for b in 0..of.len() {
                let together = found.iter().any(|component| component.contains(&a) && component.contains(&b));
                prop_assert_eq!(together, of[a] == of[b], "{} and {}", a, b);
            }
        }
    }

    #[test]
    fn whoever_conflicts_runs_when_all_lower_ones_have_released(footprints in footprints()) {
        let mut locks = Locks::new(&footprints.iter().collect::<Vec<_>>());
        // The highest that may run goes first, which shows who does not wait.
        let (mut free, mut released): (BTreeSet<usize>, Vec<usize>) = (locks.free().into_iter().collect(), Vec::new());
        while let Some(next) = free.pop_last() {
            released.push(next);
            free.extend(locks.release(next));
        }
        prop_assert_eq!(released.len(), footprints.len(), "everybody runs some time");
        for (place, later) in released.iter().enumerate() {
            for earlier in &released[..place] {
                prop_assert!(earlier < later || !conflict(&footprints[*earlier], &footprints[*later]));
            }
        }
    }
}

#[test]
fn a_wide_range_makes_as_many_wait_as_there_are_and_not_as_there_are_keys() {
    let written: Vec<u32> = (0..10_000).collect();
    let mut footprints = vec![footprint(&written, &[], &[])];
    footprints.extend((0..500).map(|at| footprint(&[100_000 + at], &[], &[(0, 20_000), (at, 20_000), (50, 9000)])));
    let locks = Locks::new(&footprints.iter().collect::<Vec<_>>());
    assert_eq!(locks.waits(), 500, "each waits once for the only one that wrote what it read");
    let members = footprints.iter().enumerate().map(|(index, footprint)| member(index, footprint)).collect();
    assert_eq!(components(members).len(), 1);
}
