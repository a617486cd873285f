//! What workers tell each other of long transactions, whatever round they are in.

use super::mail::ENTRY;
use crate::execute::attempt::{Operation, RemoteResponse};
use crate::execute::task::RunId;
use crate::ids::Tid;
use crate::pieces::in_pieces;

/// What workers tell each other of long transactions, whatever round they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongMail {
    /// Reads of runs that are rooted at the sender.
    pub asks: Vec<LongAsk>,
    /// Answers to reads of runs that are rooted at the receiver.
    pub answers: Vec<LongAnswer>,
    /// Runs rooted at the receiver of which what they have read does not count any more.
    pub broken: Vec<RunId>,
    /// Runs rooted at the sender that are over.
    pub over: Vec<RunId>,
    /// Transactions that hold nobody back any more.
    pub released: Vec<Tid>,
}

impl LongMail {
    /// Splits it into mails of about as many `bytes` that mean the same one after the other.
    pub fn split(self, bytes: usize) -> Vec<LongMail> {
        let LongMail { asks, answers, broken, over, released } = self;
        let mut mails = Vec::new();
        let ask = |ask: &LongAsk| ENTRY + ask.operation.weight();
        let answer = |answer: &LongAnswer| ENTRY + answer.answer.weight();
        in_pieces(asks, usize::MAX, bytes, ask, |asks| mails.push(LongMail { asks, ..LongMail::default() }));
        in_pieces(answers, usize::MAX, bytes, answer, |answers| {
            mails.push(LongMail { answers, ..LongMail::default() });
        });
        if !(broken.is_empty() && over.is_empty() && released.is_empty()) {
            mails.push(LongMail { broken, over, released, ..LongMail::default() });
        }
        mails
    }
}

/// A read of a run.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongAsk {
    pub run: RunId,
    pub tid: Tid,
    /// Whether it keeps younger ones from writing what it reads.
    pub holds: bool,
    /// [`Operation::Get`](crate::execute::attempt::Operation::Get) or
    /// [`Operation::Scan`](crate::execute::attempt::Operation::Scan).
    pub operation: Operation,
}

/// What a run has read.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct LongAnswer {
    pub run: RunId,
    /// What was found.
    pub answer: RemoteResponse,
}
