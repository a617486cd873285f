//! A fragment of a graph: a function that another worker or the root started here, and what it waits for.

use crate::commit::share::Shares;
use crate::execute::attempt::{RemoteResponse, Usage};
use crate::execute::task::SuspendedId;
use crate::ids::WorkerId;
use crate::wire::mail::Question;

/// A function that was started here from elsewhere, or the root.
#[derive(Debug)]
pub(super) struct Fragment {
    pub origin: Origin,
    pub shares: Shares,
    /// In strict mode: what the transaction has used when it goes on.
    pub used: Usage,
    pub parked: Option<SuspendedId>,
    answers: Vec<Option<RemoteResponse>>,
    /// It waits for a call, which is answered with nothing else.
    calls: bool,
}

/// Who started a function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Root,
    Async,
    Awaited(WorkerId, Question),
}

impl Fragment {
    pub(super) fn new(origin: Origin, shares: Shares) -> Self {
        Fragment { origin, shares, used: Usage::default(), parked: None, answers: Vec::new(), calls: false }
    }

    pub(super) fn expect_answers(&mut self, count: usize, calls: bool) {
        (self.answers, self.calls) = (vec![None; count], calls);
    }

    /// Whether an answer of this sort is still to come.
    pub(super) fn awaits(&self, index: usize, answer: &RemoteResponse) -> bool {
        let fits = !self.calls || answer.may_end_call();
        fits && self.answers.get(index).is_some_and(Option::is_none)
    }

    /// One answer has come; whether it was the last.
    pub(super) fn answered(&mut self, index: usize, answer: RemoteResponse) -> bool {
        let answers = &mut self.answers;
        assert!(answers[index].replace(answer).is_none(), "a question is answered once");
        answers.iter().all(Option::is_some)
    }

    pub(super) fn take_answers(&mut self) -> Vec<RemoteResponse> {
        std::mem::take(&mut self.answers).into_iter().map(|answer| answer.expect("all are there")).collect()
    }
}
