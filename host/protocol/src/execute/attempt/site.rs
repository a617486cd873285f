//! What an attempt knows of the rest of the cluster: where entities live, how its graph runs, what
//! other workers have to be told and asked. Absent where one worker owns everything.

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;
use styx_planted::{Bug, planted};

use super::execution::Returned;
use super::{Accesses, Finding, Mode, Report, Stamp, Target, Usage};
use crate::abort::Abort;
use crate::cluster::placement::Placement;
use crate::ids::{OperatorId, PartitionId, WorkerId};
use crate::state::entity::{Entity, Key, Payload, Value};
use crate::state::range::{KeyRange, RangeRead};

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

impl Operation {
    /// Bytes that it carries.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Operation::Call(target) => target.args.len(),
            Operation::Put(_, Some(value)) => value.len(),
            Operation::Get(_) | Operation::Put(_, None) | Operation::Scan(_) | Operation::Observe(_) => 0,
        }
    }
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

impl Scan {
    /// What it has observed, if it has stopped at `last`: not what lies beyond.
    pub(crate) fn observed(&self, last: Option<&Key>) -> RangeRead {
        let KeyRange { lower, upper } = self.range.clone();
        let range = match last {
            None => KeyRange { lower, upper },
            Some(last) if self.reverse => KeyRange { lower: Bound::Included(last.clone()), upper },
            Some(last) if planted(Bug::LimitedScan) => KeyRange { lower, upper: Bound::Excluded(last.clone()) },
            Some(last) => KeyRange { lower, upper: Bound::Included(last.clone()) },
        };
        RangeRead { operator: self.operator, range }
    }
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
    /// Bytes that it carries.
    pub(crate) fn weight(&self) -> usize {
        match self {
            RemoteResponse::Called(Ok(Payload(value))) | RemoteResponse::Value(Some(Payload(value))) => value.len(),
            RemoteResponse::Entries(entries) => entries.iter().map(|Entry(key, value)| weigh(key, value)).sum(),
            RemoteResponse::Called(Err(abort)) | RemoteResponse::Failed(abort) => abort.size(),
            RemoteResponse::Value(None) | RemoteResponse::Noted => 0,
        }
    }

    /// Whether a call can have come to it.
    pub(crate) fn may_end_call(&self) -> bool {
        matches!(self, RemoteResponse::Called(_) | RemoteResponse::Failed(_))
    }

    /// What a call came to.
    pub(crate) fn called(result: Result<Value, Abort>) -> Self {
        RemoteResponse::Called(result.map(Payload))
    }
}

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

/// Bytes of an entry that a scan has found.
pub(super) fn weigh(key: &Key, value: &Value) -> usize {
    const ENTRY: usize = 16;
    ENTRY + key.len() + value.len()
}

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

/// The last read and the last write of an entity, by stamp.
#[derive(Clone, Debug, Default)]
struct LastAccess {
    read: Option<Stamp>,
    written: Option<Stamp>,
}

/// What a scan asked for, and when.
#[derive(Debug)]
struct StampedScan {
    read: RangeRead,
    stamp: Stamp,
}

/// See the module.
#[derive(Debug)]
pub(super) struct RemoteContext {
    pub me: WorkerId,
    pub placement: Arc<Placement>,
    pub mode: Mode,
    /// Of each entity touched, in the order of the RW set.
    touched: SmallVec<[LastAccess; 1]>,
    scans: Vec<StampedScan>,
    /// Asynchronous calls that other workers have to be told.
    pub outgoing: Vec<(WorkerId, Target)>,
    pub report: Report,
}

impl RemoteContext {
    pub fn new(me: WorkerId, placement: Arc<Placement>, mode: Mode) -> Self {
        let report = Report::of(me);
        RemoteContext { me, placement, mode, touched: SmallVec::new(), scans: Vec::new(), outgoing: Vec::new(), report }
    }

    /// Who owns an entity, if another worker does.
    pub fn elsewhere(&self, entity: &Entity) -> Option<WorkerId> {
        let owner = self.placement.owner(entity.partition());
        (owner != self.me).then_some(owner)
    }

    /// Notes when an entity was touched; sees whether another branch has overtaken this one.
    pub fn touched(&mut self, place: usize, entity: &Entity, stamp: &Stamp, write: bool) {
        if self.touched.len() <= place {
            self.touched.resize(place + 1, LastAccess::default());
        }
        let LastAccess { read, written } = &mut self.touched[place];
        let before = |earlier: &Option<Stamp>| earlier.as_ref().is_some_and(|earlier| stamp < earlier);
        let mut overtaken = before(written) || (write && before(read));
        if write && !overtaken {
            overtaken = self.scans.iter().any(|scan| scan.read.contains(entity) && *stamp < scan.stamp);
        }
        if overtaken {
            self.report.add(Finding::Overtaken);
        }
        let last = if write { written } else { read };
        if last.as_ref().is_none_or(|last| last < stamp) {
            *last = Some(stamp.clone());
        }
    }

    /// Notes when a scan was made, with the accesses up to now; sees whether a write has overtaken it.
    pub fn scanned(&mut self, read: RangeRead, stamp: &Stamp, accesses: &Accesses) {
        debug_assert!(self.touched.len() <= accesses.len(), "what was touched is in the RW set");
        // More than will have been observed, should the scan stop at its limit: that costs at
        // most a strict attempt.
        let inside = self.touched.iter().zip(accesses.iter()).filter(|(_, (entity, _))| read.contains(entity));
        let mut writes = inside.filter_map(|(last, _)| last.written.as_ref());
        if writes.any(|written| stamp < written) {
            self.report.add(Finding::Overtaken);
        }
        self.scans.push(StampedScan { read, stamp: stamp.clone() });
    }
}
