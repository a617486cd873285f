//! Answers that a worker has and may not give yet.
//!
//! What is read is told once all of it is durable. Entities, and that nothing is known of a request, are told once the
//! coordinator has shown that this generation was still the current one when the question came; what else was read after
//! such a question waits behind it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use styx_planted::{Bug, planted};
use styx_protocol::ids::{Epoch, Generation, NodeId};
use styx_protocol::membership::{Beat, Doubt};
use styx_protocol::pieces::in_pieces;

use super::io::{Asker, WorkerEffect};
use crate::client::Answer;
use crate::time::Instant;
use crate::wire::{Envelope, Response, TicketedResponse};

/// How long somebody waits for an admin query; the answer is dropped then.
pub(super) const READ_MAX: Duration = Duration::from_secs(5);

/// Somebody who waits for an admin query: `R` names one in this process.
#[derive(Debug)]
pub(super) enum Reader<R> {
    Remote(NodeId, u64),
    Local(R),
}

/// An answer that waits for the coordinator's word.
#[derive(Debug)]
enum Unconfirmed<L, R> {
    Unknown(Asker<L>),
    Read(Instant, Reader<R>, Response),
}

#[derive(Debug)]
pub(super) struct Answers<L, R> {
    durable: Epoch,
    /// Answers about an epoch that is not yet durable.
    undurable: VecDeque<(Epoch, Instant, Reader<R>, Response)>,
    unconfirmed: VecDeque<(Doubt, Unconfirmed<L, R>)>,
    /// Responses to gateways that leave with what else this batch of events brings.
    outgoing: BTreeMap<NodeId, Vec<TicketedResponse>>,
    frame_bytes: usize,
}

impl<L, R> Answers<L, R> {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Answers {
            durable: Epoch(0),
            undurable: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            outgoing: BTreeMap::new(),
            frame_bytes,
        }
    }

    /// Answers that are not given yet.
    pub(super) fn len(&self) -> usize {
        self.undurable.len() + self.unconfirmed.len() + self.outgoing.len()
    }

    /// Answers a client.
    pub(super) fn answer(&mut self, asker: Asker<L>, remote: Response, local: Answer) -> Option<WorkerEffect<L, R>> {
        match asker {
            Asker::Local(client) => Some(WorkerEffect::Answer(client, local)),
            Asker::Remote(node, ticket) => {
                self.respond(node, ticket, remote);
                None
            }
        }
    }

    /// Answers a gateway.
    pub(super) fn respond(&mut self, node: NodeId, ticket: u64, response: Response) {
        self.outgoing.entry(node).or_default().push(TicketedResponse { ticket, response });
    }

    fn respond_to(&mut self, reader: Reader<R>, response: Response) -> Option<WorkerEffect<L, R>> {
        match reader {
            Reader::Local(to) => Some(WorkerEffect::Respond(to, response)),
            Reader::Remote(node, ticket) => {
                self.respond(node, ticket, response);
                None
            }
        }
    }

    /// Answers an admin query about `epoch`, when it may be known.
    pub(super) fn read(
        &mut self,
        now: Instant,
        epoch: Epoch,
        reader: Reader<R>,
        response: Response,
    ) -> Option<WorkerEffect<L, R>> {
        if epoch > self.durable && !planted(Bug::ReadAtOnce) {
            self.undurable.push_back((epoch, now, reader, response));
            return None;
        }
        let shows_entities =
            matches!(response, Response::Value { .. } | Response::Entries { .. } | Response::Sample { .. });
        if !shows_entities && self.unconfirmed.is_empty() {
            return self.respond_to(reader, response);
        }
        self.unconfirmed.push_back((Doubt::default(), Unconfirmed::Read(now, reader, response)));
        None
    }

    /// Answers a client that nothing is known, when that is sure.
    pub(super) fn unknown(&mut self, asker: Asker<L>) {
        self.unconfirmed.push_back((Doubt::default(), Unconfirmed::Unknown(asker)));
    }

    /// The last epoch that is known to be durable.
    pub(super) fn epoch(&self) -> Epoch {
        self.durable
    }

    /// Gives what was read up to an epoch, which is durable now.
    pub(super) fn durable(&mut self, now: Instant, epoch: Epoch, effects: &mut Vec<WorkerEffect<L, R>>) {
        self.durable = self.durable.max(epoch);
        while let Some((read, _, reader, response)) = self.undurable.pop_front_if(|(read, ..)| *read <= epoch) {
            effects.extend(self.read(now, read, reader, response));
        }
    }

    /// Tells whether an answer waits for the coordinator's word; drops those that nobody waits for any more.
    pub(super) fn await_beat(&mut self, now: Instant) -> bool {
        let is_awaited = |since: Instant| now.since(since) < READ_MAX;
        self.undurable.retain(|(_, since, ..)| is_awaited(*since));
        self.unconfirmed.retain(|(_, answer)| match answer {
            Unconfirmed::Read(since, ..) => is_awaited(*since),
            Unconfirmed::Unknown(_) => true,
        });
        !self.unconfirmed.is_empty()
    }

    /// Gives what the coordinator's word to a member of `generation` confirms, in the order in which it was
    /// asked: a read must not show what an earlier question was told is unknown.
    pub(super) fn confirm(&mut self, beat: Beat, generation: Generation, effects: &mut Vec<WorkerEffect<L, R>>) {
        let over: Vec<bool> = self.unconfirmed.iter_mut().map(|(doubt, _)| doubt.hear(beat, generation)).collect();
        for _ in over.into_iter().take_while(|over| *over) {
            match self.unconfirmed.pop_front() {
                None => return,
                Some((_, Unconfirmed::Read(_, reader, response))) => effects.extend(self.respond_to(reader, response)),
                Some((_, Unconfirmed::Unknown(asker))) => {
                    effects.extend(self.answer(asker, Response::Unknown, Answer::Unknown));
                }
            }
        }
    }

    /// Sends gateways what has gathered.
    pub(super) fn flush(&mut self, effects: &mut Vec<WorkerEffect<L, R>>) {
        for (to, responses) in std::mem::take(&mut self.outgoing) {
            in_pieces(responses, usize::MAX, self.frame_bytes, TicketedResponse::weight, |responses| {
                effects.push(WorkerEffect::SendControl { to, envelope: Envelope::Responses(responses) });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: Generation = Generation(3);
    const READ_AT: Instant = Instant(1000);

    fn value(epoch: u64) -> Response {
        Response::Value { value: None, partition: 0, epoch: Epoch(epoch) }
    }

    fn beat(number: u64, answers: u64) -> Beat {
        Beat { number, generation: GENERATION, answers }
    }

    /// Who was told something at once, in this order.
    fn told(effects: Vec<WorkerEffect<u64, u64>>) -> Vec<u64> {
        let who = effects.into_iter().map(|effect| match effect {
            WorkerEffect::Respond(who, _) | WorkerEffect::Answer(who, Answer::Unknown) => who,
            other => panic!("{other:?}"),
        });
        who.collect()
    }

    fn confirmed(answers: &mut Answers<u64, u64>, beat: Beat) -> Vec<u64> {
        let mut effects = Vec::new();
        answers.confirm(beat, GENERATION, &mut effects);
        told(effects)
    }

    #[test]
    fn what_was_read_is_told_when_it_is_durable_and_entities_when_they_are_not_of_the_past() {
        let mut answers = Answers::new(1000);
        assert!(answers.read(READ_AT, Epoch(2), Reader::Local(1), Response::Workers(vec![])).is_none());
        assert!(answers.read(READ_AT, Epoch(2), Reader::Local(2), value(2)).is_none());
        assert!(answers.read(READ_AT, Epoch(3), Reader::Local(3), Response::Workers(vec![])).is_none());
        let mut effects = Vec::new();
        answers.durable(READ_AT, Epoch(1), &mut effects);
        assert!(effects.is_empty() && !answers.await_beat(READ_AT));
        answers.durable(READ_AT, Epoch(2), &mut effects);
        assert_eq!((told(effects), answers.len(), answers.await_beat(READ_AT)), (vec![1], 2, true));
        let mut effects = Vec::new();
        answers.durable(READ_AT, Epoch(3), &mut effects);
        assert!(told(effects).is_empty(), "what was read after an entity waits behind it");
        answers.unknown(Asker::Local(4));
        assert!(confirmed(&mut answers, beat(7, 0)).is_empty());
        answers.unknown(Asker::Local(5));
        assert_eq!(confirmed(&mut answers, beat(8, 7)), [2, 3, 4]);
        assert_eq!(confirmed(&mut answers, beat(9, 8)), [5]);
        assert_eq!(answers.len(), 0);
    }

    #[test]
    fn nobody_waits_for_a_read_for_ever() {
        let mut answers: Answers<u64, u64> = Answers::new(1000);
        assert!(answers.read(READ_AT, Epoch(0), Reader::Local(1), value(0)).is_none());
        assert!(answers.read(READ_AT, Epoch(9), Reader::Local(2), value(9)).is_none());
        let last = READ_AT.after(READ_MAX - Duration::from_micros(1));
        assert_eq!((answers.await_beat(last), answers.len()), (true, 2));
        assert_eq!((answers.await_beat(READ_AT.after(READ_MAX)), answers.len()), (false, 0));
        answers.unknown(Asker::Local(3));
        assert!(answers.await_beat(READ_AT.after(READ_MAX * 9)), "whether a request is known is waited for");
    }
}
