//! Calls: what is called, what runs, and what is remembered of it.

use crate::ids::{OperatorId, RequestId};
use crate::state::entity::{Entity, Key, Value};

use super::execution::{Recorded, Returned};
use super::fragment::IssuedCall;
use super::path::{ASYNC, Path};
use super::{Operation, RemoteRequest, Stamp, Usage};

/// A function to be called for an entity.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Target {
    /// The entity.
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    /// Arguments.
    #[rkyv(with = crate::archive::Plain)]
    pub args: Value,
    /// Whether writes are refused, here and below.
    pub read_only: bool,
    /// Calls above this one.
    pub depth: u32,
    /// The call's place in the graph, mixed into one number: its identity from one attempt to the
    /// next, and the seed of its random numbers.
    pub place: u64,
    /// The same as an ordered path, where it is kept.
    #[rkyv(with = rkyv::with::Map<crate::archive::Plain>)]
    pub path: Option<Path>,
}

impl Target {
    /// The call as a question to the worker that owns the entity.
    pub(crate) fn asked(self) -> RemoteRequest {
        let path = self.path.clone().expect("who calls others keeps paths");
        RemoteRequest { operation: Operation::Call(self), stamp: Stamp::new(path, 0), used: Usage::default() }
    }
}

/// A call as it was issued: the unit of call-graph caching (Styx §6.3).
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Its place in the graph.
    pub place: u64,
    /// The entity.
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    /// Arguments.
    pub args: Value,
    /// How many calls its function had issued when it returned, if it did so here.
    pub(super) returned: Returned,
}

impl CallRecord {
    /// Whether this is the same call, whatever became of it.
    pub(super) fn is_same_call(&self, other: &CallRecord) -> bool {
        self.place == other.place
            && self.entity == other.entity
            && self.function == other.function
            && self.args == other.args
    }

    /// What is remembered of a call.
    pub fn of(target: &Target) -> Self {
        CallRecord {
            place: target.place,
            entity: target.entity.clone(),
            function: target.function,
            args: target.args.clone(),
            returned: Returned::default(),
        }
    }
}

/// A function that is running.
#[derive(Debug)]
pub struct Frame {
    /// The entity it runs for.
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    /// Its arguments.
    pub args: Value,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Calls above this one.
    pub depth: u32,
    pub(super) recorded: Recorded,
    pub(super) place: u64,
    pub(super) path: Option<Path>,
    /// Calls issued so far.
    pub(super) issued: u32,
    /// Scans made so far.
    pub(super) scans: u32,
    /// Of the calls, synchronous ones.
    pub(super) synchronous: u32,
    random: u64,
}

impl Frame {
    pub(super) fn new(IssuedCall { target, recorded }: IssuedCall) -> Self {
        Frame {
            recorded,
            entity: target.entity,
            function: target.function,
            args: target.args,
            read_only: target.read_only,
            depth: target.depth,
            place: target.place,
            path: target.path,
            issued: 0,
            synchronous: 0,
            scans: 0,
            // Every call has a generator of its own: the same whatever ran before it, and where.
            random: mix(target.place ^ 0xA076_1D64_78BD_642F),
        }
    }

    /// Its place in the graph: who watches tells calls apart by it.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Calls issued so far: their places are [`place_of_call`] of 1 and up.
    pub fn issued(&self) -> u32 {
        self.issued
    }

    /// Whether it was called asynchronously, where paths are kept.
    pub fn asynchronous(&self) -> Option<bool> {
        self.path.as_ref().map(|path| path.last().is_some_and(|step| *step >= ASYNC))
    }

    /// The place and the path of the next call that this function issues.
    pub(super) fn next_call(&self, synchronous: bool) -> (u64, Option<Path>) {
        let place = place_of_call(self.place, self.issued + 1);
        let step = if synchronous { self.synchronous } else { ASYNC + (self.issued - self.synchronous) };
        (place, self.path.as_ref().map(|path| path.below(step)))
    }

    /// splitmix64: well mixed for any seed, one add per number.
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.random)
    }
}

/// The place of the call that a function issues as its `number`th, from 1.
pub fn place_of_call(caller: u64, number: u32) -> u64 {
    mix(caller ^ u64::from(number).wrapping_mul(0xD6E8_FEB8_6659_FD93))
}

/// The finalizer of splitmix64.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// For operators of the app.
    Info,
    /// Something is odd.
    Warn,
    /// Something failed.
    Error,
}

/// A line that a guest wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How loud.
    pub level: LogLevel,
    /// The request.
    pub request: RequestId,
    /// Operator of the function that wrote it.
    pub operator: OperatorId,
    /// Index of the function in the operator.
    pub function: u16,
    /// Key of the entity that wrote it.
    pub key: Key,
    /// The line.
    pub message: String,
}
