//! Answers to admin queries: from what one worker has, and from what several workers say together.

use std::ops::Bound;

use styx_protocol::attempt::Entry;
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::{Entity, Key, Value};
use styx_protocol::ids::{Epoch, OperatorId, PartitionId, WorkerId};
use styx_protocol::machine::worker::Work;
use styx_protocol::range::KeyRange;
use styx_protocol::state::State;

use crate::sample;
use crate::wire::{AdminQuery, Bytes, PartitionStats, Response, WorkerStatus};

/// A worker's view of itself between two steps of its machine.
pub struct QueryView<'a> {
    pub worker: WorkerId,
    pub owns: &'a dyn Fn(PartitionId) -> bool,
    /// The committed state.
    pub state: &'a State,
    /// What a partition has been asked to do.
    pub work: &'a dyn Fn(PartitionId) -> Work,
    /// Who is to have a partition, if it is on its way.
    pub leaves_to: &'a dyn Fn(PartitionId) -> Option<WorkerId>,
    /// What is deployed.
    pub catalog: &'a Catalog,
    /// The last epoch that ended.
    pub epoch: Epoch,
    /// Requests that wait.
    pub waiting: usize,
    /// Replies remembered.
    pub remembered: usize,
    /// Microseconds in which it executed something, since its generation began.
    pub busy_us: u64,
}

impl QueryView<'_> {
    /// The worker's own part of an answer. What only a coordinator knows is no worker's to say:
    /// it answers [`Response::Unknown`]; what another worker holds, by what is deployed now, is to be asked there.
    pub fn answer(&self, query: &AdminQuery) -> Response {
        match query {
            // What its process has seen, its shell says.
            AdminQuery::Cluster | AdminQuery::Observed(_) => Response::Unknown,
            AdminQuery::Workers => Response::Workers(vec![self.status()]),
            AdminQuery::Partitions => Response::Partitions(self.stats().collect()),
            AdminQuery::Get { operator, key } => {
                let operator = OperatorId(*operator);
                let entity = Entity::new(
                    &self.state.layout(),
                    operator,
                    self.catalog.is_composite(operator),
                    key.as_str().into(),
                );
                if !(self.owns)(entity.partition()) {
                    return Response::WrongGeneration;
                }
                Response::Value {
                    value: self.state.get(&entity).cloned().map(Bytes),
                    partition: entity.partition().0,
                    epoch: self.epoch,
                }
            }
            AdminQuery::Scan { operator, prefix, after, limit, bytes } => {
                let (operator, limit) = (OperatorId(*operator), *limit as usize);
                let lower = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_str().into()));
                let range = KeyRange::new(prefix, lower, Bound::Unbounded);
                let partition = self.state.layout().partition_of_prefix(prefix, self.catalog.is_composite(operator));
                if partition.is_some_and(|partition| !(self.owns)(partition)) {
                    return Response::WrongGeneration;
                }
                // One more than asked for tells whether there are more.
                let found = self.state.scan(operator, &range, partition, limit + 1, false);
                let mut page = Page::new(limit, *bytes);
                let fits = found.iter().take_while(|(_, value)| page.takes(value)).count();
                let more = fits < found.len();
                let entries = found.into_iter().take(fits).map(|(key, value)| Entry(key, value)).collect();
                Response::Entries { entries, more, epoch: self.epoch }
            }
            AdminQuery::Sample { operator, limit, bytes } => {
                let (entries, entities) =
                    sample::sample(self.state, OperatorId(*operator), self.owns, *limit as usize, *bytes);
                Response::Sample { entries, entities }
            }
        }
    }

    fn stats(&self) -> impl Iterator<Item = PartitionStats> {
        let partitions = self.state.partitions().iter().enumerate();
        let own = partitions.filter(|(id, _)| (self.owns)(PartitionId(*id as u16)));
        own.map(|(id, partition)| {
            let Work { calls, fuel } = (self.work)(PartitionId(id as u16));
            PartitionStats {
                partition: id as u16,
                worker: self.worker,
                entities: partition.len() as u64,
                bytes: partition.bytes(),
                calls,
                fuel,
                moves_to: (self.leaves_to)(PartitionId(id as u16)),
            }
        })
    }

    fn status(&self) -> WorkerStatus {
        let mut status = WorkerStatus {
            worker: self.worker,
            epoch: self.epoch,
            waiting: self.waiting as u64,
            remembered: self.remembered as u64,
            partitions: 0,
            entities: 0,
            bytes: 0,
            calls: 0,
            fuel: 0,
            busy_us: self.busy_us,
        };
        for one in self.stats() {
            status.partitions += 1;
            status.entities += one.entities;
            status.bytes += one.bytes;
            status.calls += one.calls;
            status.fuel += one.fuel;
        }
        status
    }
}

/// How much of a scan fits on a page.
struct Page {
    entries: usize,
    bytes: u64,
}

impl Page {
    fn new(entries: usize, bytes: u64) -> Self {
        Page { entries, bytes }
    }

    /// Whether another value fits; the last one may be larger than what is left.
    fn takes(&mut self, value: &Value) -> bool {
        if self.entries == 0 || self.bytes == 0 {
            return false;
        }
        self.entries -= 1;
        self.bytes = self.bytes.saturating_sub(value.len() as u64);
        true
    }
}

/// One answer from those of all workers that were asked; `None` if they do not answer the query.
pub fn merge(query: &AdminQuery, answers: Vec<Response>) -> Option<Response> {
    match query {
        AdminQuery::Cluster | AdminQuery::Get { .. } => answers.into_iter().next(),
        AdminQuery::Workers => {
            let mut all = Vec::new();
            for answer in answers {
                let Response::Workers(statuses) = answer else { return None };
                all.extend(statuses);
            }
            all.sort_unstable_by_key(|status| status.worker);
            Some(Response::Workers(all))
        }
        AdminQuery::Partitions => {
            let mut all = Vec::new();
            for answer in answers {
                let Response::Partitions(stats) = answer else { return None };
                all.extend(stats);
            }
            all.sort_unstable_by_key(|one| one.partition);
            Some(Response::Partitions(all))
        }
        AdminQuery::Observed(_) => {
            let mut all = Vec::new();
            for answer in answers {
                match answer {
                    Response::Observed(seen) => all.extend(seen),
                    _ => return None,
                }
            }
            Some(Response::Observed(all))
        }
        AdminQuery::Scan { limit, bytes, .. } => merge_entries(*limit as usize, *bytes, answers),
        AdminQuery::Sample { limit, .. } => {
            let samples = answers.into_iter().map(|answer| match answer {
                Response::Sample { entries, entities } => Some((entries, entities)),
                _ => None,
            });
            let (entries, entities) = sample::merge(samples.collect::<Option<_>>()?, *limit as usize);
            Some(Response::Sample { entries, entities })
        }
    }
}

fn merge_entries(limit: usize, bytes: u64, answers: Vec<Response>) -> Option<Response> {
    let (mut all, mut earliest) = (Vec::new(), Epoch(u64::MAX));
    let mut anywhere_more = false;
    // Beyond the last entry of a worker that has more, nothing is known of it.
    let mut known_to: Option<Key> = None;
    for answer in answers {
        let Response::Entries { entries, more, epoch } = answer else { return None };
        if more {
            anywhere_more = true;
            let last = entries.last().map_or_else(|| "".into(), |Entry(key, _)| key.clone());
            known_to = Some(known_to.map_or(last.clone(), |known| known.min(last)));
        }
        all.extend(entries);
        earliest = earliest.min(epoch);
    }
    all.sort_unstable_by(|Entry(one, _), Entry(other, _)| one.cmp(other));
    let mut page = Page::new(limit, bytes);
    let known = |key: &Key| known_to.as_ref().is_none_or(|known| key <= known);
    let fits = all.iter().take_while(|Entry(key, value)| known(key) && page.takes(value)).count();
    let more = anywhere_more || fits < all.len();
    all.truncate(fits);
    Some(Response::Entries { entries: all, more, epoch: earliest })
}

#[cfg(test)]
mod tests {
    use styx_protocol::control::Control;
    use styx_protocol::deployment::Digest;
    use styx_protocol::entity::Layout;

    use super::*;

    const LAYOUT: Layout = Layout::new(7, 4);

    fn entity(number: usize) -> Entity {
        Entity::new(&LAYOUT, OperatorId(1), false, format!("k{number:02}").as_str().into())
    }

    #[test]
    fn a_worker_tells_of_what_it_owns() {
        let mut state = State::new(LAYOUT);
        (0..20).for_each(|number| state.apply((entity(number), Some(b"123"[..].into()))));
        let owns = |partition: PartitionId| partition.0.is_multiple_of(2);
        let (own, other): (Vec<_>, Vec<_>) = (0..21).map(entity).partition(|entity| owns(entity.partition()));
        let (worker, epoch, catalog) = (WorkerId(3), Epoch(9), Catalog::default());
        let work = &|partition: PartitionId| Work { calls: u64::from(partition.0) + 1, fuel: 10 };
        let leaves_to = &|partition| (partition == PartitionId(2)).then_some(WorkerId(1));
        let view = QueryView {
            worker,
            owns: &owns,
            state: &state,
            work,
            leaves_to,
            catalog: &catalog,
            epoch,
            waiting: 5,
            remembered: 6,
            busy_us: 7,
        };
        let held = own.iter().filter(|entity| state.get(entity).is_some()).count() as u64;
        let bytes = [0, 2].map(|partition| state.partitions()[partition].bytes()).into_iter().sum();
        let status = WorkerStatus {
            worker,
            epoch,
            waiting: 5,
            remembered: 6,
            partitions: 2,
            entities: held,
            bytes,
            calls: 1 + 3,
            fuel: 20,
            busy_us: 7,
        };
        assert_eq!(view.answer(&AdminQuery::Workers), Response::Workers(vec![status]));
        let Response::Partitions(stats) = view.answer(&AdminQuery::Partitions) else { panic!("no statistics") };
        let told: Vec<_> =
            stats.iter().map(|one| (one.partition, one.worker, one.calls, one.fuel, one.moves_to)).collect();
        assert_eq!(told, [(0, worker, 1, 10, None), (2, worker, 3, 10, Some(WorkerId(1)))]);
        assert_eq!(
            stats.iter().map(|one| (one.entities, one.bytes)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (held, bytes)
        );
        assert_eq!(view.answer(&AdminQuery::Cluster), Response::Unknown);

        let get = |entity: &Entity| view.answer(&AdminQuery::Get { operator: 1, key: entity.key().to_string() });
        for entity in &own {
            let (value, partition) = (state.get(entity).cloned().map(Bytes), entity.partition().0);
            assert_eq!(get(entity), Response::Value { value, partition, epoch });
        }
        assert!(!other.is_empty() && other.iter().all(|entity| get(entity) == Response::WrongGeneration));

        let scan = |after: Option<usize>, limit, bytes| {
            let after = after.map(|number| entity(number).key().to_string());
            view.answer(&AdminQuery::Scan { operator: 1, prefix: "k".into(), after, limit, bytes })
        };
        let page = |numbers: std::ops::Range<usize>, more| {
            let entry = |number| Entry(entity(number).key().clone(), b"123"[..].into());
            Response::Entries { entries: numbers.map(entry).collect(), more, epoch }
        };
        assert_eq!(scan(None, 3, 99), page(0..3, true));
        assert_eq!(scan(Some(2), 17, 99), page(3..20, false));
        assert_eq!(scan(Some(2), 16, 99), page(3..19, true));
        assert_eq!(scan(None, 99, 6), page(0..2, true));
        assert_eq!(scan(None, 99, 7), page(0..3, true));
        assert_eq!(scan(Some(19), 99, 7), page(0..0, false));
    }

    #[test]
    fn entities_of_one_prefix_are_listed_by_the_worker_that_has_them_all() {
        let mut catalog = Catalog::default();
        let mut deployment = crate::testing::shop(Digest([3; 32]));
        deployment.operators[0].key_prefix = Some("warehouse".into());
        catalog.apply(&Control::Deploy(deployment));
        let operator = OperatorId(0);
        let mut state = State::new(LAYOUT);
        let entity = |number: u64| {
            let key = format!("w{}:{}", number / 2, number % 2);
            Entity::new(&LAYOUT, operator, true, key.as_str().into())
        };
        (0..40).for_each(|number| state.apply((entity(number), Some(b"1"[..].into()))));
        let owns = |partition: PartitionId| partition.0.is_multiple_of(2);
        let view = QueryView {
            worker: WorkerId(0),
            owns: &owns,
            state: &state,
            work: &|_| Work::default(),
            leaves_to: &|_| None,
            catalog: &catalog,
            epoch: Epoch(9),
            waiting: 0,
            remembered: 0,
            busy_us: 0,
        };
        let mut elsewhere = 0;
        for warehouse in 0..20 {
            let answer = view.answer(&AdminQuery::Scan {
                operator: operator.0,
                prefix: format!("w{warehouse}:"),
                after: None,
                limit: 9,
                bytes: 99,
            });
            if owns(entity(2 * warehouse).partition()) {
                let Response::Entries { entries, more: false, .. } = answer else { panic!("{answer:?}") };
                let keys: Vec<&str> = entries.iter().map(|Entry(key, _)| &**key).collect();
                assert_eq!(keys, [format!("w{warehouse}:0"), format!("w{warehouse}:1")]);
            } else {
                elsewhere += 1;
                assert_eq!(answer, Response::WrongGeneration);
            }
        }
        assert!((1..20).contains(&elsewhere));
    }

    #[test]
    fn what_workers_say_of_themselves_is_listed_in_order() {
        let status = |worker| WorkerStatus {
            worker: WorkerId(worker),
            epoch: Epoch(0),
            waiting: 0,
            remembered: 0,
            partitions: 0,
            entities: 0,
            bytes: 0,
            calls: 0,
            fuel: 0,
            busy_us: 0,
        };
        let answers = vec![Response::Workers(vec![status(1)]), Response::Workers(vec![status(0)])];
        let all = Response::Workers(vec![status(0), status(1)]);
        assert_eq!(merge(&AdminQuery::Workers, answers), Some(all));
        let stats = |partition| PartitionStats {
            partition,
            worker: WorkerId(0),
            entities: 0,
            bytes: 0,
            calls: 0,
            fuel: 0,
            moves_to: None,
        };
        let answers =
            vec![Response::Partitions(vec![stats(1), stats(3)]), Response::Partitions(vec![stats(0), stats(2)])];
        let all = Response::Partitions((0..4).map(stats).collect());
        assert_eq!(merge(&AdminQuery::Partitions, answers), Some(all));
        assert_eq!(merge(&AdminQuery::Partitions, vec![Response::Unknown]), None);
        assert_eq!(merge(&AdminQuery::Cluster, vec![Response::Unknown]), Some(Response::Unknown));
        let seen = |texts: &[&str]| Response::Observed(texts.iter().map(|text| (*text).to_owned()).collect());
        let query = AdminQuery::Observed("what".into());
        assert_eq!(merge(&query, vec![seen(&["a"]), seen(&["b"])]), Some(seen(&["a", "b"])));
        assert_eq!(merge(&query, vec![seen(&["a"]), Response::Unknown]), None);
    }

    fn entries(keys: &[&str], more: bool, epoch: u64) -> Response {
        let entries = keys.iter().map(|key| Entry((*key).into(), key.as_bytes().into())).collect();
        Response::Entries { entries, more, epoch: Epoch(epoch) }
    }

    fn scan(limit: u32, bytes: u64) -> AdminQuery {
        AdminQuery::Scan { operator: 0, prefix: String::new(), after: None, limit, bytes }
    }

    #[test]
    fn pages_of_workers_become_one_page_in_key_order() {
        for (limit, bytes, answers, expect) in [
            (
                9,
                99,
                vec![entries(&["a", "c"], false, 5), entries(&["b"], false, 4)],
                entries(&["a", "b", "c"], false, 4),
            ),
            (2, 99, vec![entries(&["a", "c"], false, 5), entries(&["b"], false, 5)], entries(&["a", "b"], true, 5)),
            // The first worker has more after "b": what the other has after it must wait for the next page.
            (9, 99, vec![entries(&["a", "b"], true, 5), entries(&["c", "d"], false, 5)], entries(&["a", "b"], true, 5)),
            (9, 2, vec![entries(&["a", "b"], false, 5), entries(&["c"], false, 5)], entries(&["a", "b"], true, 5)),
            (
                9,
                3,
                vec![entries(&["a", "b"], false, 5), entries(&["c"], false, 5)],
                entries(&["a", "b", "c"], false, 5),
            ),
            (1, 1, vec![entries(&[], false, 5), entries(&[], false, 5)], entries(&[], false, 5)),
        ] {
            assert_eq!(merge(&scan(limit, bytes), answers.clone()), Some(expect), "{answers:?}");
        }
    }

    #[test]
    fn an_answer_to_something_else_is_none() {
        assert_eq!(merge(&AdminQuery::Workers, vec![entries(&["a"], false, 1)]), None);
        assert_eq!(merge(&scan(1, 1), vec![Response::Unknown]), None);
    }
}
