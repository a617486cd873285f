//! Expected replies: a model of the reply tables, worked out from the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use styx_protocol::abort::Code;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, RequestId, Tid, Timestamp, WorkerId};
use styx_protocol::placement::Placement;
use styx_protocol::quarantine::Quarantine;
use styx_protocol::replies::Retention;
use styx_protocol::route::memory_of;

use super::ended::Outcome;

/// Bytes that a reply counts for besides its result.
const ENTRY_BYTES: u64 = 128;

/// Requests with a key, from their sequencing until the bounds allow to forget them, at one worker.
#[derive(Clone, Debug)]
struct Table {
    retention: Retention,
    /// Once it has ended: how.
    known: BTreeMap<RequestId, Option<Ended>>,
    /// In the order in which they are forgotten: by the epoch of the end, and then by TID.
    ended: VecDeque<RequestId>,
    bytes: u64,
    /// How often each was forgotten.
    forgotten: BTreeMap<RequestId, u64>,
}

impl Table {
    fn new(retention: Retention) -> Self {
        Table { retention, known: BTreeMap::new(), ended: VecDeque::new(), bytes: 0, forgotten: BTreeMap::new() }
    }

    fn trim(&mut self, now: Timestamp) {
        while let Some(&id) = self.ended.front() {
            let ended = self.known[&id].expect("it has ended");
            let within = now.0.saturating_sub(ended.time.0) <= self.retention.age_us
                && self.ended.len() <= self.retention.count
                && self.bytes <= self.retention.bytes;
            if within {
                return;
            }
            self.ended.pop_front();
            *self.forgotten.entry(id).or_default() += 1;
            self.known.remove(&id);
            self.bytes -= ended.bytes;
        }
    }

    fn release(&mut self, quarantine: &Quarantine) {
        let is_forgotten = |id: &RequestId, ended: &Ended| {
            ended.is_quarantined && quarantine.of_request(*id, Some(ended.tid)).is_none()
        };
        for (id, ended) in self.known.extract_if(.., |id, end| end.is_some_and(|ended| is_forgotten(id, &ended))) {
            *self.forgotten.entry(id).or_default() += 1;
            self.ended.retain(|known| *known != id);
            self.bytes -= ended.map_or(0, |ended| ended.bytes);
        }
    }

    fn begin(&mut self, id: RequestId) {
        // Another membership may have forgotten it earlier than this one would have.
        if let Some(Some(ended)) = self.known.insert(id, None) {
            self.bytes -= ended.bytes;
            self.ended.retain(|ended| *ended != id);
        }
    }

    fn end(&mut self, id: RequestId, ended: Ended) {
        self.known.insert(id, Some(ended));
        self.bytes += ended.bytes;
        self.ended.push_back(id);
    }
}

/// The end of a request whose reply is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub epoch: Epoch,
    pub tid: Tid,
    /// The logged time of its epoch.
    pub time: Timestamp,
    /// What the reply counts for.
    bytes: u64,
    /// It was not executed, as it was set aside.
    is_quarantined: bool,
}

/// The tables of all workers.
#[derive(Clone, Debug)]
pub struct ExpectedReplies {
    /// In some number of partitions.
    layout: Layout,
    placement: Arc<Placement>,
    tables: Vec<Table>,
}

impl ExpectedReplies {
    /// Nothing is known to the workers of a placement.
    pub fn new(retention: Retention, layout: Layout, placement: Arc<Placement>) -> Self {
        let tables = (0..placement.workers()).map(|_| Table::new(retention)).collect();
        ExpectedReplies { layout, placement, tables }
    }

    /// The replies that other workers knew, with the workers of a placement.
    pub fn restored(retention: Retention, placement: Arc<Placement>, before: &ExpectedReplies) -> Self {
        let mut restored = ExpectedReplies::new(retention, before.layout, placement);
        let mut ended: Vec<(RequestId, Ended)> = before.ended().into_iter().collect();
        ended.sort_unstable_by_key(|(_, ended)| (ended.epoch, ended.tid));
        for (id, ended) in ended {
            restored.table(id).end(id, ended);
        }
        for table in &before.tables {
            table.known.iter().filter(|(_, end)| end.is_none()).for_each(|(id, _)| restored.begin(*id));
        }
        restored
    }

    /// All replies that are remembered.
    pub fn ended(&self) -> BTreeMap<RequestId, Ended> {
        let known = self.tables.iter().flat_map(|table| &table.known);
        known.filter_map(|(id, end)| Some((*id, (*end)?))).collect()
    }

    /// Placement of the workers whose tables these are.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
    }

    fn memory_of(&self, id: RequestId) -> WorkerId {
        memory_of(id, &Layout { partitions: self.placement.partitions(), ..self.layout }, &self.placement)
    }

    fn table(&mut self, id: RequestId) -> &mut Table {
        let worker = self.memory_of(id);
        &mut self.tables[usize::from(worker.0)]
    }

    /// An epoch starts: the oldest ended ones go while a bound is exceeded.
    pub fn trim(&mut self, now: Timestamp) {
        self.tables.iter_mut().for_each(|table| table.trim(now));
    }

    /// A request is sequenced.
    pub fn begin(&mut self, id: RequestId) {
        self.table(id).begin(id);
    }

    /// A request ends, behind all of earlier epochs and all of this one with smaller TIDs.
    pub fn end(&mut self, id: RequestId, epoch: Epoch, tid: Tid, time: Timestamp, outcome: &Outcome) {
        let bytes = ENTRY_BYTES + outcome.as_ref().map_or_else(|abort| abort.message.len(), |value| value.len()) as u64;
        let is_quarantined = outcome.as_ref().is_err_and(|abort| abort.code == Code::Quarantined);
        self.table(id).end(id, Ended { epoch, tid, time, bytes, is_quarantined });
    }

    /// Something is released: refusals are forgotten of what is no longer set aside itself.
    pub fn release(&mut self, quarantine: &Quarantine) {
        self.tables.iter_mut().for_each(|table| table.release(quarantine));
    }

    /// Whether a request must be known.
    pub fn contains(&self, id: RequestId) -> bool {
        let worker = self.memory_of(id);
        self.tables[usize::from(worker.0)].known.contains_key(&id)
    }

    /// How often a request was forgotten under this membership; none, if it is not remembered.
    pub fn memory(&self, id: RequestId) -> Option<u64> {
        let table = &self.tables[usize::from(self.memory_of(id).0)];
        table.known.contains_key(&id).then(|| table.forgotten.get(&id).copied().unwrap_or_default())
    }

    /// Number of requests that each worker must know.
    pub fn counts(&self) -> Vec<usize> {
        self.tables.iter().map(|table| table.known.len()).collect()
    }
}
