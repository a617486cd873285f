//! Fragments: the calls in progress of one function that was started here.

use smallvec::SmallVec;

use super::execution::Recorded;
use super::scan::PendingScan;
use super::{Frame, Target};
use crate::state::entity::Value;

/// The calls in progress of one function that was started here, from another worker or as the
/// root. While it waits for another worker, other fragments of the transaction may run.
#[derive(Debug, Default)]
pub struct Fragment {
    /// Functions that run, the innermost last. Most transactions nest one in another at most.
    pub(super) frames: SmallVec<[Frame; 2]>,
    /// Asynchronous calls whose turn has not come, the next one last.
    pub(super) queued: Vec<IssuedCall>,
    levels: SmallVec<[Level; 2]>,
    pub(super) scan: Option<Box<PendingScan>>,
}

/// A call that is to be made here, and where it stands in the execution.
#[derive(Debug)]
pub(super) struct IssuedCall {
    pub target: Target,
    pub recorded: Recorded,
}

/// A call under way, with the asynchronous calls that follow it.
#[derive(Debug)]
struct Level {
    /// Targets queued before it.
    queued_from: u32,
    /// Targets queued before the function that runs.
    issued_from: u32,
    /// What the call came to, once it has returned and its asynchronous calls run.
    result: Option<Value>,
}

impl Fragment {
    /// Whether nothing of it runs.
    pub(super) fn is_over(&self) -> bool {
        self.frames.is_empty() && self.levels.is_empty() && self.queued.is_empty() && self.scan.is_none()
    }

    /// A call begins.
    pub(super) fn open(&mut self) {
        let queued = self.queued.len() as u32;
        self.levels.push(Level { queued_from: queued, issued_from: queued, result: None });
    }

    /// A function of the innermost call has returned a value.
    pub(super) fn returned(&mut self, value: Value) {
        let level = self.levels.last_mut().expect("a call is under way");
        level.result.get_or_insert(value);
        // Depth first without recursion: what a call issued runs before what was issued before it,
        // so the queue is kept in reverse, next call last.
        self.queued[level.issued_from as usize..].reverse();
    }

    /// Takes the asynchronous call that runs next, if one is left of the innermost call.
    pub(super) fn next(&mut self) -> Option<IssuedCall> {
        let level = self.levels.last_mut().expect("a call is under way");
        let queued = self.queued.len() as u32;
        debug_assert!(queued >= level.queued_from, "what a call has queued stands above what was there before");
        if queued == level.queued_from {
            return None;
        }
        level.issued_from = queued - 1;
        self.queued.pop()
    }

    /// The innermost call ends: forgets what of it is queued, and gives what it came to, if it returned.
    pub(super) fn close(&mut self) -> Option<Value> {
        let level = self.levels.pop().expect("a call is under way");
        self.queued.truncate(level.queued_from as usize);
        level.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_when_its_calls_have_ended_and_not_when_none_of_them_runs() {
        let mut fragment = Fragment::default();
        assert!(fragment.is_over());
        fragment.open();
        assert!(!fragment.is_over(), "its function waits for another worker, or has yet to begin");
        assert!(fragment.close().is_none() && fragment.is_over());
    }
}
