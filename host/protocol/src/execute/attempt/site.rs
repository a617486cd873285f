//! What an attempt knows of the rest of the cluster: where entities live, how its graph runs, what
//! other workers have to be told and asked. Absent where one worker owns everything.

use std::sync::Arc;

use smallvec::SmallVec;

use super::execution::Returned;
use super::{Stamp, Target, Usage};
use crate::abort::Abort;
use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::ids::{OperatorId, PartitionId, WorkerId};
use crate::state::entity::{Entity, Key, Value};
use crate::state::range::{KeyRange, RangeRead};

/// How a graph is run. Each attempt at it is stricter than the one before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Mode {
    /// One thread of control: each asynchronous call runs to its end before the next begins.
    pub strict: bool,
    /// In the fallback: the calls of the cached call graph run at once, each where it belongs.
    pub cached: bool,
    /// In new instances only.
    pub fresh: bool,
    /// May suspend beyond the budget; one such graph per worker at a time.
    pub reserved: bool,
}

/// What part of a graph has come to, to be told to whoever waits for it. Reports add up: that of
/// the root, when its ack shares are complete, is that of the whole graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Report {
    /// What was used.
    pub usage: Usage,
    /// Workers that took part.
    pub workers: WorkerSet,
    /// Whether something was written.
    pub wrote: bool,
    /// Whether a function read or wrote state of its operator on another worker.
    pub reached: bool,
    /// Whether asynchronous calls ran beside each other.
    pub branched: bool,
    /// Whether a branch touched a key before another that precedes it in the serial order.
    pub overtaken: bool,
    /// Whether a part ended without effect.
    pub doomed: bool,
    /// In the fallback: whether a part left its cached RW set or call graph.
    pub drifted: bool,
    /// Whether that may be due to the past of an instance.
    pub suspect: bool,
    /// Whether a worker had no room for another suspended instance.
    pub refused: bool,
}

impl Report {
    /// Adds another part's report.
    pub fn merge(&mut self, other: Report) {
        self.usage.add(other.usage);
        self.workers.merge(&other.workers);
        self.wrote |= other.wrote;
        self.reached |= other.reached;
        self.branched |= other.branched;
        self.overtaken |= other.overtaken;
        self.doomed |= other.doomed;
        self.drifted |= other.drifted;
        self.suspect |= other.suspect;
        self.refused |= other.refused;
    }
}

/// Something to be done for a transaction at the worker that owns the entity.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Operation {
    /// Run a function.
    Call(Target),
    /// Read an entity.
    Get(Entity),
    /// Write an entity, or delete it.
    Put(Entity, #[rkyv(with = rkyv::with::Map<crate::archive::Plain>)] Option<Value>),
    /// Find entries.
    Scan(Scan),
    /// Note what a scan has observed in the end.
    Observe(RangeRead),
}

/// What a scan asks of one owner.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Scan {
    /// The operator.
    pub operator: OperatorId,
    /// The interval asked for.
    pub range: KeyRange,
    /// The only partition that can hold such keys, if there is just one.
    pub partition: Option<PartitionId>,
    /// Most entries.
    pub limit: u32,
    /// From the upper end down.
    pub reverse: bool,
}

/// Questions to other workers, of which the running function waits.
#[derive(Clone, Debug)]
pub struct RemoteRequests {
    /// To whom, and what to do there for the function.
    pub operations: Vec<(WorkerId, RemoteRequest)>,
}

/// An operation in its place in the serial order.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct RemoteRequest {
    /// What to do.
    pub operation: Operation,
    /// When.
    pub stamp: Stamp,
    /// In strict mode: what the transaction has used so far.
    pub used: Usage,
}

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum RemoteResponse {
    /// The result of a call.
    Called(Result<Payload, Abort>),
    /// What was read.
    Value(Option<Payload>),
    /// What was found.
    Entries(Vec<Entry>),
    /// Payload, nothing to tell.
    Noted,
    /// A bound was met.
    Failed(Abort),
}

impl RemoteResponse {
    /// What a call came to.
    pub(crate) fn called(result: Result<Value, Abort>) -> Self {
        RemoteResponse::Called(result.map(Payload))
    }
}

/// Bytes of a result or of a value.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Payload(#[rkyv(with = crate::archive::Plain)] pub Value);

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Entry(
    /// The key.
    #[rkyv(with = crate::archive::Plain)]
    pub Key,
    /// The value.
    #[rkyv(with = crate::archive::Plain)]
    pub Value,
);

/// A call that came from another worker, or the root, for parallel re-invocation (Styx §6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedCall {
    /// The call.
    pub target: Target,
    /// The worker that issued it; none for the root.
    pub issuer: Option<WorkerId>,
    /// How many calls its function had issued when it returned, if it did.
    pub(super) returned: Returned,
}

/// See the module.
#[derive(Debug)]
pub(super) struct RemoteContext {
    pub me: WorkerId,
    pub placement: Arc<Placement>,
    pub mode: Mode,
    /// Of each entity touched, in the order of the RW set: the last read and the last write, by stamp.
    pub stamps: SmallVec<[[Option<Stamp>; 2]; 1]>,
    /// Of each scan: what was asked, and when.
    pub scans: Vec<(OperatorId, KeyRange, Stamp)>,
    /// Asynchronous calls that other workers have to be told.
    pub outgoing: Vec<(WorkerId, Target)>,
    pub report: Report,
}

impl RemoteContext {
    pub fn new(me: WorkerId, placement: Arc<Placement>, mode: Mode) -> Self {
        let report = Report { workers: WorkerSet::only(me), ..Report::default() };
        RemoteContext { me, placement, mode, stamps: SmallVec::new(), scans: Vec::new(), outgoing: Vec::new(), report }
    }

    /// Who owns an entity, if another worker does.
    pub fn elsewhere(&self, entity: &Entity) -> Option<WorkerId> {
        let owner = self.placement.owner(entity.partition());
        (owner != self.me).then_some(owner)
    }

    /// Notes when an entity was touched; sees whether another branch has overtaken this one.
    pub fn touched(&mut self, place: usize, entity: &Entity, stamp: &Stamp, write: bool) {
        if self.stamps.len() <= place {
            self.stamps.resize(place + 1, [None, None]);
        }
        let [read, written] = &mut self.stamps[place];
        let before = |earlier: &Option<Stamp>| earlier.as_ref().is_some_and(|earlier| stamp < earlier);
        let mut overtaken = before(written) || (write && before(read));
        if write && !overtaken {
            let mut inside = self
                .scans
                .iter()
                .filter(|(operator, range, _)| *operator == entity.operator() && range.contains(entity.key()));
            overtaken = inside.any(|(_, _, scanned)| stamp < scanned);
        }
        self.report.overtaken |= overtaken;
        let last = if write { written } else { read };
        if last.as_ref().is_none_or(|last| last < stamp) {
            *last = Some(stamp.clone());
        }
    }
}
