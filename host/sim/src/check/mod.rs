//! Checkers of everything that must hold whatever happens, and how they report what does not.

pub mod catalog;
pub mod ended;
pub mod expected_replies;
pub mod oracle;
pub mod order;
pub mod records;

use styx_protocol::ids::Tid;

/// Something that must not happen has happened.
#[derive(Clone, Debug)]
pub struct Failure {
    pub check: &'static str,
    /// Description of the violation.
    pub message: String,
    /// Transactions whose keys tell the story.
    pub tids: Vec<Tid>,
}

impl Failure {
    /// A broken check.
    pub fn new(check: &'static str, message: impl Into<String>) -> Self {
        Failure { check, message: message.into(), tids: Vec::new() }
    }

    /// With where it was found.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{} (on {place})", self.message);
        self
    }

    /// With the transactions that are involved.
    #[must_use]
    pub fn about(mut self, tids: &[Tid]) -> Self {
        self.tids.extend_from_slice(tids);
        self
    }
}

pub type Checked<T = ()> = Result<T, Failure>;

/// Fails a check unless `holds`.
pub fn ensure(holds: bool, check: &'static str, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Failure::new(check, message())) }
}
