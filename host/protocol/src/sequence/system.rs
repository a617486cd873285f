//! System operators: operators of no app, whose entities hold the system's own state; and system functions, which every
//! operator of an app has besides its own.
//!
//! Entities of system operators lie in partitions like any others: what snapshots, the state hash, recovery and a
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
pub const EFFECTS: SystemOperator = SystemOperator { name: "styx.effects", id: FIRST };

/// Which records of topics were executed: see [`crate::commit::watermark`].
pub const WATERMARKS: SystemOperator = SystemOperator { name: "styx.watermarks", id: OperatorId(FIRST.0 + 1) };

pub const ALL: [SystemOperator; 2] = [EFFECTS, WATERMARKS];

/// Names with these beginnings are the system's.
pub const RESERVED_PREFIXES: [&str; 2] = ["styx.", "_"];

/// Ids from here on are the system's. The last one stands for replies in stored snapshots.
pub const FIRST: OperatorId = OperatorId(0xffff_ff00);

/// Whether an operator is the system's.
pub fn is_system(operator: OperatorId) -> bool {
    operator >= FIRST
}

/// A function that operators have besides those that they declare: whoever may deploy an app changes its entities by it, each
/// in a transaction like any other. Functions of apps cannot call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemFunction {
    /// Writes the entity: its arguments are the value, as it is.
    Put,
    /// Removes the entity.
    Delete,
    /// Brings the entity's value to the type that the operator has now. The guest runs it, and not all have it.
    Migrate,
}

impl SystemFunction {
    pub const ALL: [SystemFunction; 3] = [SystemFunction::Put, SystemFunction::Delete, SystemFunction::Migrate];

    /// The name, which no function of an app can have.
    pub fn name(self) -> &'static str {
        match self {
            SystemFunction::Put => "styx.put",
            SystemFunction::Delete => "styx.delete",
            SystemFunction::Migrate => "styx.migrate",
        }
    }

    /// The function of this name.
    pub fn named(name: &str) -> Option<Self> {
        // Almost every name that is asked about is an app's.
        if !is_reserved(name) {
            return None;
        }
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

/// How a guest describes what the values of an operator are: among its functions, as the result of one of this name. It cannot
/// be called.
pub const STATE: &str = "styx.state";

/// Whether an operator of an app may not have this name.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
