//! Calls: what is called, what runs, and what is remembered of it.

use crate::entity::{Entity, Key, Value};
use crate::ids::OperatorId;

/// A function to be called for an entity.
#[derive(Clone, Debug)]
pub struct Target {
    /// The entity.
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    /// Arguments.
    pub args: Value,
    /// Whether writes are refused, here and below.
    pub read_only: bool,
    /// Calls above this one.
    pub depth: u32,
}

/// A call as it ran: the unit of call-graph caching (Styx §6.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The entity.
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    /// Arguments.
    pub args: Value,
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
    random: u64,
}

impl Frame {
    pub(super) fn new(target: Target, seed: u64) -> Self {
        Frame {
            entity: target.entity,
            function: target.function,
            args: target.args,
            read_only: target.read_only,
            depth: target.depth,
            random: seed,
        }
    }

    /// splitmix64: well mixed for any seed, one add per number.
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.random)
    }
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
    /// Operator of the function that wrote it.
    pub operator: OperatorId,
    /// Key of the entity that wrote it.
    pub key: Key,
    /// The line.
    pub message: String,
}
