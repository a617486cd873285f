//! Reads of long transactions: what each run has read, and whether it still is what is committed.

use styx_planted::{Bug, planted};

use crate::execute::attempt::{Access, Entry, Footprint, Operation, Overlay, RemoteResponse, Scan, merge};
use crate::execute::task::RunId;
use crate::ids::{Epoch, Tid, WorkerId};
use crate::sequence::catalog::Catalog;
use crate::state::State;
use crate::state::entity::{Entity, EntityMap, Key, Payload, Value};
use crate::state::range::RangeRead;

/// Most entities whose former values are kept for one query; tests get there sooner.
const KEPT_MAX: usize = if cfg!(test) { 100 } else { 1 << 20 };

/// A run, wherever its root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Runner {
    pub root: WorkerId,
    pub run: RunId,
}

/// What every run has read here. Few are under way at a time.
#[derive(Debug, Default)]
pub(crate) struct Reads(Vec<Run>);

#[derive(Debug)]
struct Run {
    id: Runner,
    /// What it has read is no longer what is committed, or kept.
    broken: bool,
    /// Its root knows that.
    told: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A transaction reads what is committed at the moment.
    Update {
        tid: Tid,
        /// Younger transactions do not write what it has read.
        holds: bool,
        entities: EntityMap<()>,
        ranges: Vec<RangeRead>,
    },
    /// A query reads what was committed when it began.
    Query {
        epoch: Epoch,
        /// What that was of what has been written since.
        former: Overlay,
        kept: usize,
    },
}

impl Reads {
    /// A run of a transaction begins; `holds` younger ones back that write what it reads.
    pub fn begin_update(&mut self, id: Runner, tid: Tid, holds: bool) {
        let kind = Kind::Update { tid, holds, entities: EntityMap::default(), ranges: Vec::new() };
        self.0.push(Run { id, broken: false, told: false, kind });
    }

    /// A run of a query begins, on what `epoch` left behind.
    pub fn begin_query(&mut self, id: Runner, epoch: Epoch) {
        let kind = Kind::Query { epoch, former: Overlay::default(), kept: 0 };
        self.0.push(Run { id, broken: false, told: false, kind });
    }

    /// Runs with this root.
    pub fn rooted(&self, root: WorkerId) -> impl Iterator<Item = RunId> {
        self.0.iter().filter(move |run| run.id.root == root).map(|run| run.id.run)
    }

    /// Something that a run of another worker reads here.
    pub fn known(&mut self, id: Runner) -> bool {
        self.0.iter().any(|run| run.id == id)
    }

    /// A run that has ended takes part in the epoch that begins: what it has read here, if all of that still counts.
    pub fn join(&mut self, id: Runner) -> Option<Footprint> {
        let Some(at) = self.0.iter().position(|run| run.id == id) else { return Some(Footprint::default()) };
        let run = self.0.swap_remove(at);
        let Kind::Update { entities, ranges, .. } = run.kind else { return None };
        if run.broken {
            return None;
        }
        let mut footprint = Footprint::default();
        for (entity, ()) in entities.into_entries() {
            let mut access = Access::default();
            access.set_read();
            footprint.accesses.add(entity, access);
        }
        ranges.into_iter().for_each(|read| footprint.ranges.push(read));
        Some(footprint)
    }

    /// Lets go of a run of another worker.
    pub fn forget(&mut self, id: Runner) {
        self.0.retain(|run| run.id != id);
    }

    /// What a run has read does not count, wherever that was.
    pub fn break_one(&mut self, id: Runner) {
        self.0.iter_mut().filter(|run| run.id == id).for_each(|run| run.broken = true);
    }

    /// Runs of other workers of which what they have read here does not count, told once.
    pub fn take_broken(&mut self, me: WorkerId) -> Vec<Runner> {
        let broken = self.0.iter_mut().filter(|run| run.id.root != me && run.broken && !run.told);
        broken
            .map(|run| {
                run.told = true;
                run.id
            })
            .collect()
    }

    /// Whether nobody reads.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A run is over; gives the epoch that it has read if it is a query, and whether what it has read still counts.
    pub fn end(&mut self, id: Runner) -> (Option<Epoch>, bool) {
        let at = self.0.iter().position(|run| run.id == id).expect("a run that is over was begun");
        let run = self.0.swap_remove(at);
        let epoch = match run.kind {
            Kind::Query { epoch, .. } => Some(epoch),
            Kind::Update { .. } => None,
        };
        (epoch, !run.broken)
    }

    /// Whether what a run has read still counts.
    pub fn is_current(&self, id: Runner) -> bool {
        self.0.iter().any(|run| run.id == id && !run.broken)
    }

    /// Nothing that was read counts any more.
    pub fn break_all(&mut self) {
        self.0.iter_mut().for_each(|run| run.broken = true);
    }

    /// Reads for a run; fails if it does not count any more.
    pub fn read(
        &mut self,
        id: Runner,
        operation: Operation,
        state: &State,
        catalog: &Catalog,
    ) -> Option<RemoteResponse> {
        let run = self.0.iter_mut().find(|run| run.id == id && !run.broken)?;
        Some(match (operation, &mut run.kind) {
            (Operation::Get(entity), Kind::Update { entities, .. }) => {
                entities.entry(&entity, || ());
                RemoteResponse::Value(state.get(&entity).cloned().map(Payload))
            }
            (Operation::Get(entity), Kind::Query { former, .. }) => {
                let value = former.get(&entity).cloned().unwrap_or_else(|| state.get(&entity).cloned());
                RemoteResponse::Value(value.map(Payload))
            }
            (Operation::Scan(scan), Kind::Update { ranges, .. }) => {
                let found = state.scan(scan.operator, &scan.range, scan.partition, scan.limit as usize, scan.reverse);
                let last = found.last().filter(|_| found.len() >= scan.limit as usize);
                ranges.push(scan.observed(last.map(|(key, _)| key)));
                entries(found)
            }
            (Operation::Scan(scan), Kind::Query { former, .. }) => {
                let composite = catalog.operator(scan.operator).is_some_and(|operator| operator.composite);
                let changed = former.in_range(&state.layout(), scan.operator, composite, &scan.range);
                entries(scan_behind(state, &scan, changed))
            }
            (Operation::Call(_) | Operation::Put(..) | Operation::Observe(_), _) => return None,
        })
    }

    /// An entity is about to be written, in the epoch under way.
    pub fn writes(&mut self, entity: &Entity, state: &State) {
        for run in self.0.iter_mut().filter(|run| !run.broken) {
            match &mut run.kind {
                Kind::Update { entities, ranges, .. } => {
                    run.broken = (entities.get(entity).is_some() && !planted(Bug::LongReadsStale))
                        || (ranges.iter().any(|read| read.contains(entity)) && !planted(Bug::LongScansStale));
                }
                Kind::Query { former, kept, .. } => {
                    if former.get(entity).is_none() && !planted(Bug::LongQueriesTorn) {
                        former.apply((entity.clone(), state.get(entity).cloned()));
                        *kept += 1;
                        run.broken = *kept > KEPT_MAX;
                    }
                }
            }
        }
    }

    /// The long transaction that keeps a younger one from writing what it wrote first.
    pub fn holder(&self, tid: Tid, footprint: &Footprint) -> Option<Tid> {
        let holding = self.0.iter().filter(|run| !run.broken && !planted(Bug::LongHoldsNobody)).filter_map(|run| {
            match &run.kind {
                Kind::Update { tid: holder, holds: true, entities, ranges } if *holder < tid => {
                    Some((*holder, entities, ranges))
                }
                Kind::Update { .. } | Kind::Query { .. } => None,
            }
        });
        let mut holders =
            holding.filter(|(_, entities, ranges)| {
                footprint.accesses.iter().filter(|(_, access)| access.is_write()).any(|(entity, _)| {
                    entities.get(entity).is_some() || ranges.iter().any(|read| read.contains(entity))
                })
            });
        holders.next().map(|(holder, ..)| holder)
    }
}

fn entries(found: Vec<(Key, Value)>) -> RemoteResponse {
    RemoteResponse::Entries(found.into_iter().map(|(key, value)| Entry(key, value)).collect())
}

/// Scans what is committed with `changed` in front of it.
fn scan_behind(state: &State, scan: &Scan, changed: Vec<(Key, Option<Value>)>) -> Vec<(Key, Value)> {
    // Of what is found, each of these may be hidden.
    let limit = (scan.limit as usize).saturating_add(changed.len());
    let committed = state.scan(scan.operator, &scan.range, scan.partition, limit, scan.reverse);
    let mut found = merge(committed, changed.into_iter().collect(), scan.reverse);
    found.truncate(scan.limit as usize);
    found
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::ids::OperatorId;
    use crate::state::entity::Layout;
    use crate::state::range::KeyRange;

    const LAYOUT: Layout = Layout::new(3, 2);
    const RUN: Runner = Runner { root: WorkerId(0), run: RunId(1) };

    fn entity(key: &str) -> Entity {
        Entity::new(&LAYOUT, OperatorId(7), false, key.into())
    }

    fn state(keys: &str) -> State {
        let mut state = State::new(LAYOUT);
        keys.chars().for_each(|key| state.apply((entity(&key.to_string()), Some(Value::from(&b"before"[..])))));
        state
    }

    fn scan(limit: u32, reverse: bool) -> Operation {
        let range = KeyRange { lower: Bound::Included("b".into()), upper: Bound::Included("f".into()) };
        Operation::Scan(Scan { operator: OperatorId(7), range, partition: None, limit, reverse })
    }

    fn keys(answer: Option<RemoteResponse>) -> String {
        let Some(RemoteResponse::Entries(entries)) = answer else { panic!("{answer:?}") };
        entries.iter().map(|Entry(key, _)| &**key).collect()
    }

    /// Writes as an epoch does.
    fn write(reads: &mut Reads, state: &mut State, key: &str, value: Option<&'static [u8]>) {
        reads.writes(&entity(key), state);
        state.apply((entity(key), value.map(Value::from)));
    }

    #[test]
    fn what_a_transaction_has_read_and_no_more_must_stay() {
        for (operation, harmless, harmful) in [
            (Operation::Get(entity("c")), "abde", "c"),
            (Operation::Get(entity("x")), "abcdef", "x"),
            (scan(9, false), "ag", "bcdef"),
            (scan(2, false), "adefg", "bc"),
            (scan(2, true), "abcdg", "ef"),
        ] {
            for key in harmless.chars().chain(harmful.chars()) {
                let (mut reads, mut state) = (Reads::default(), state("abcdefg"));
                reads.begin_update(RUN, Tid(5), false);
                reads.read(RUN, operation.clone(), &state, &Catalog::default()).unwrap();
                write(&mut reads, &mut state, &key.to_string(), None);
                assert_eq!(reads.is_current(RUN), harmless.contains(key), "{operation:?} {key}");
            }
        }
    }

    #[test]
    fn a_query_sees_what_was_there_when_it_began() {
        let (mut reads, mut state, catalog) = (Reads::default(), state("bcdf"), Catalog::default());
        reads.begin_query(RUN, Epoch(4));
        write(&mut reads, &mut state, "c", None);
        write(&mut reads, &mut state, "c", Some(b"after"));
        write(&mut reads, &mut state, "e", Some(b"after"));
        write(&mut reads, &mut state, "d", None);
        for (limit, forth, back) in [(9, "bcdf", "fdcb"), (3, "bcd", "fdc"), (1, "b", "f")] {
            assert_eq!(keys(reads.read(RUN, scan(limit, false), &state, &catalog)), forth);
            assert_eq!(keys(reads.read(RUN, scan(limit, true), &state, &catalog)), back);
        }
        for (key, there) in [("b", true), ("c", true), ("d", true), ("e", false)] {
            let value = there.then(|| Payload(Value::from(&b"before"[..])));
            let read = reads.read(RUN, Operation::Get(entity(key)), &state, &catalog);
            assert_eq!(read, Some(RemoteResponse::Value(value)), "{key}");
        }
        assert_eq!(reads.end(RUN), (Some(Epoch(4)), true));
    }

    #[test]
    fn a_query_for_which_too_much_is_kept_does_not_count_any_more() {
        let (mut reads, mut state) = (Reads::default(), state("a"));
        reads.begin_query(RUN, Epoch(4));
        for number in 0..KEPT_MAX {
            let key = number.to_string();
            write(&mut reads, &mut state, &key, Some(b"after"));
            write(&mut reads, &mut state, &key, Some(b"once more"));
        }
        assert!(reads.is_current(RUN), "each entity is kept once");
        write(&mut reads, &mut state, "a", None);
        assert!(!reads.is_current(RUN));
        assert_eq!(reads.end(RUN), (Some(Epoch(4)), false));
    }
}
