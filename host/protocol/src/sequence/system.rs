//! System operators: operators of no app, whose entities hold the system's own state.
//!
//! Their entities lie in partitions like any others: what snapshots, the state hash, recovery and a
//! change of placement do for entities of apps, they do for these. Apps can neither declare operators
//! of such names nor reach their entities, for a function names operators of apps.

use crate::ids::OperatorId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemOperator {
    pub name: &'static str,
    /// Its id, above those of all apps.
    pub id: OperatorId,
}

/// Effects that transactions left behind, until they are done: see [`crate::execute::effect`].
pub const EFFECTS: SystemOperator = SystemOperator { name: "styx.effects", id: OperatorId(FIRST) };

/// Which records of topics were executed: see [`crate::commit::watermark`].
pub const WATERMARKS: SystemOperator = SystemOperator { name: "styx.watermarks", id: OperatorId(FIRST + 1) };

pub const ALL: [SystemOperator; 2] = [EFFECTS, WATERMARKS];

/// Names with these beginnings are the system's.
pub const RESERVED_PREFIXES: [&str; 2] = ["styx.", "_"];

/// Ids from here on are the system's. The last one stands for replies in stored snapshots.
const FIRST: u32 = 0xffff_ff00;

/// Whether an operator of an app may not have this name.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
