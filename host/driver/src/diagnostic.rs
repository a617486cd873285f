//! Lines for those who operate a cluster.
//!
//! They are effects like any other, not calls of a logging library: a simulator records them with
//! everything else, and a test can say what people must be told.

use styx_protocol::ids::{Generation, NodeId, Tid};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Of use to who looks for a fault.
    Debug,
    /// Something ordinary has happened.
    Info,
    /// Something does not work, and is dealt with.
    Warn,
    /// Somebody should look.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How much it matters.
    pub level: Level,
    /// Its code in docs/reference/errors.md, if it has one.
    pub code: Option<&'static str>,
    /// The node that it is about.
    pub node: Option<NodeId>,
    /// The generation that it is about.
    pub generation: Option<Generation>,
    /// What has happened.
    pub message: String,
}

impl Diagnostic {
    /// A line of this level.
    pub fn new(level: Level, message: impl Into<String>) -> Self {
        Diagnostic { level, code: None, node: None, generation: None, message: message.into() }
    }

    /// For who looks for a fault.
    pub fn debug(message: impl Into<String>) -> Self {
        Diagnostic::new(Level::Debug, message)
    }

    /// For everybody.
    pub fn info(message: impl Into<String>) -> Self {
        Diagnostic::new(Level::Info, message)
    }

    /// For who wonders why something takes long.
    pub fn warn(message: impl Into<String>) -> Self {
        Diagnostic::new(Level::Warn, message)
    }

    /// For who must do something.
    pub fn error(message: impl Into<String>) -> Self {
        Diagnostic::new(Level::Error, message)
    }

    /// About the transactions that the log carries, if there are any: who finds that one of them ends the process has it skipped.
    pub fn carried(carried: &[Tid]) -> Option<Self> {
        /// More would be no line to read.
        const TOLD: usize = 16;
        let tids: Vec<String> = carried.iter().take(TOLD).map(Tid::to_string).collect();
        let more = if carried.len() > TOLD { ", …" } else { "" };
        let message = || format!("the log carries {} transactions: {}{more}", carried.len(), tids.join(", "));
        (!carried.is_empty()).then(|| Diagnostic::info(message()))
    }

    /// With a code of docs/reference/errors.md.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Diagnostic { code: Some(code), ..self }
    }

    /// About a node.
    #[must_use]
    pub fn node(self, node: NodeId) -> Self {
        Diagnostic { node: Some(node), ..self }
    }

    /// About a generation.
    #[must_use]
    pub fn generation(self, generation: Generation) -> Self {
        Diagnostic { generation: Some(generation), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_are_carried_are_named() {
        let message = |carried: &[Tid]| Diagnostic::carried(carried).map(|diagnostic| diagnostic.message);
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[Tid(7)]).as_deref(), Some("the log carries 1 transactions: 7"));
        let many: Vec<Tid> = (0..17).map(Tid).collect();
        assert!(message(&many[..16]).is_some_and(|message| message.ends_with("14, 15")));
        let told = message(&many).unwrap();
        assert!(told.starts_with("the log carries 17 transactions: 0, 1, ") && told.ends_with("15, …"), "{told}");
    }
}
