//! The coordinator of one generation: cuts epochs, keeps the barrier, ORs the conflict bits, and appends what each
//! epoch came to. And, for the checker: the serial execution that an epoch claims to be.

use crate::message::{Batch, Body, Cut, End, Generation, Members, Message, Record, To};
use crate::program::{Bits, Execution, KEYS, Values, Verdict, judge};
use crate::scenario::{Planted, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Awaits {
    Executed,
    Validated,
    Finished,
}

/// The epoch under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    requests: Batch,
    batch: Batch,
    awaits: Awaits,
    heard: Members,
    start: Values,
    bits: Vec<Bits>,
    verdicts: Vec<Verdict>,
    values: Values,
    ends: Vec<Option<End>>,
}

/// A generation's coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    pub generation: Generation,
    /// Whom it counts on.
    pub members: Members,
    /// The durable prefix from which it began, then its own epochs that are finished.
    pub records: Vec<Record>,
    /// Drifted transactions, for the next epoch.
    pub carried: Batch,
    /// What all keys held when it began.
    initial: Values,
    /// The state after the serial execution of all that was finished.
    serial: Values,
    round: Option<Round>,
}

impl Coordinator {
    /// Begins a generation from what is durable.
    pub fn new(generation: Generation, members: Members, durable: &[Record], initial: Values) -> Self {
        let last = durable.last();
        let initial = last.map_or(initial, |record| record.values);
        let carried = last.map_or_else(Vec::new, |record| record.carried.clone());
        Coordinator { generation, members, records: durable.to_vec(), carried, initial, serial: initial, round: None }
    }

    /// Whether it has nothing under way.
    pub fn is_idle(&self) -> bool {
        self.round.is_none()
    }

    /// Whether a request is in a record that it knows.
    pub fn has_cut(&self, request: usize) -> bool {
        self.records.iter().any(|record| record.requests.iter().any(|(_, known)| *known == request))
    }

    /// The epochs that it may begin now, as lists of new requests.
    pub fn openings(&self, protocol: &Protocol) -> Vec<Vec<usize>> {
        if self.round.is_some() {
            return Vec::new();
        }
        let mut openings: Vec<Vec<usize>> = Vec::new();
        for order in protocol.scenario.orders {
            let requests: Vec<usize> = order.iter().copied().filter(|request| !self.has_cut(*request)).collect();
            if !(requests.is_empty() && self.carried.is_empty() || openings.contains(&requests)) {
                openings.push(requests);
            }
        }
        openings
    }

    fn cut(&self) -> Cut {
        Cut { generation: self.generation, epoch: self.records.len() as u8 }
    }

    /// Begins an epoch.
    pub fn open(&mut self, requests: &[usize], out: &mut Vec<Message>) {
        let used: usize = self.records.iter().map(|record| record.requests.len()).sum();
        let requests: Batch = ((used as u8 + 1)..).zip(requests.iter().copied()).collect();
        let batch: Batch = self.carried.drain(..).chain(requests.iter().copied()).collect();
        let n = batch.len();
        let begin = Body::Begin { cut: self.cut(), members: self.members, batch: batch.clone(), values: self.initial };
        self.round = Some(Round {
            requests,
            batch,
            awaits: Awaits::Executed,
            heard: Members::NONE,
            start: [0; KEYS],
            bits: vec![Bits::default(); n],
            verdicts: Vec::new(),
            values: [0; KEYS],
            ends: vec![None; n],
        });
        self.tell_all(begin, out);
    }

    fn tell_all(&self, body: Body, out: &mut Vec<Message>) {
        let Cut { generation, epoch } = self.cut();
        let to_one = |worker| Message { generation, epoch, to: To::Worker(worker), body: body.clone() };
        out.extend(self.members.iter().map(to_one));
    }

    /// Takes a message. `None`, and nothing changes, if it does not fit; false if an epoch ends
    /// that is not the serial execution it claims to be. The last record is new if there is one more than before.
    pub fn receive(&mut self, protocol: &Protocol, message: &Message, out: &mut Vec<Message>) -> Option<bool> {
        let members = self.members;
        let round = self.round.as_mut().filter(|_| message.epoch as usize == self.records.len())?;
        let from = match (&message.body, round.awaits) {
            (Body::Executed(from, values), Awaits::Executed) if !round.heard.contains(*from) => {
                take(&mut round.start, values, *from, members);
                *from
            }
            (Body::Validated(from, bits), Awaits::Validated) if !round.heard.contains(*from) => {
                round.bits = round.bits.iter().zip(bits).map(|(mine, theirs)| mine.or(*theirs)).collect();
                *from
            }
            (Body::Finished(from, values, ends), Awaits::Finished) if !round.heard.contains(*from) => {
                take(&mut round.values, values, *from, members);
                round.ends = round.ends.iter().zip(ends).map(|(known, new)| known.or(*new)).collect();
                *from
            }
            _ => return None,
        };
        round.heard = round.heard.with(from);
        if members.iter().any(|member| !round.heard.contains(member)) {
            return Some(true);
        }
        round.heard = Members::NONE;
        match round.awaits {
            Awaits::Executed => {
                round.awaits = Awaits::Validated;
                let settle = Body::Settle(round.start);
                self.tell_all(settle, out);
                Some(true)
            }
            Awaits::Validated => {
                round.awaits = Awaits::Finished;
                let executions = executions(protocol, round);
                let verdicts = executions.iter().zip(&round.bits).map(|(execution, bits)| judge(execution, *bits));
                round.verdicts = verdicts.collect();
                let decide = Body::Decide(round.verdicts.clone());
                self.tell_all(decide, out);
                Some(true)
            }
            Awaits::Finished => {
                let round = self.round.take().expect("a round is under way");
                let rescheduled = |(entry, end): (_, &Option<End>)| (*end == Some(End::Rescheduled)).then_some(entry);
                self.carried = round.batch.iter().copied().zip(&round.ends).filter_map(rescheduled).collect();
                let ended = |((_, request), end): (&(_, usize), &Option<End>)| match end {
                    Some(End::Ended(outcome)) => Some((*request, *outcome)),
                    Some(End::Rescheduled) | None => None,
                };
                let forgets = protocol.planted(Planted::CarriedUnlogged);
                self.records.push(Record {
                    cut: self.cut(),
                    requests: round.requests.clone(),
                    values: round.values,
                    ends: round.batch.iter().zip(&round.ends).filter_map(ended).collect(),
                    carried: if forgets { Vec::new() } else { self.carried.clone() },
                });
                Some(self.is_serial(protocol, &round))
            }
        }
    }

    /// Executes an epoch serially in its claimed order: read-only, early by descending TID, others
    /// by TID, fallback by TID. Whether that gives all outcomes and the state.
    fn is_serial(&mut self, protocol: &Protocol, round: &Round) -> bool {
        let mut order: Vec<usize> = (0..round.batch.len()).collect();
        let descending = |at: usize| if round.verdicts[at] == Verdict::Early { -(at as i8) } else { at as i8 };
        order.sort_by_key(|at| (round.verdicts[*at], descending(*at)));
        for at in order {
            let execution = protocol.transaction(round.batch[at].1).execute(&self.serial);
            match round.ends[at] {
                Some(End::Rescheduled) => continue,
                Some(End::Ended(outcome)) if outcome == execution.outcome() => execution.apply(&mut self.serial),
                _ => return false,
            }
        }
        self.serial == round.values
    }
}

/// Takes over what a worker says of its keys.
fn take(all: &mut Values, said: &Values, from: usize, members: Members) {
    (0..KEYS).filter(|key| members.owner(*key) == from).for_each(|key| all[key] = said[key]);
}

fn executions(protocol: &Protocol, round: &Round) -> Vec<Execution> {
    round.batch.iter().map(|(_, request)| protocol.transaction(*request).execute(&round.start)).collect()
}
