//! A worker: executes on its keys, validates, commits and falls back under locks in TID order.
//!
//! [`Worker::receive`] says whether a message fits. One that does not fit *yet* (a participant's
//! report overtakes the root's verdicts) stays in flight: a real node keeps it.

use crate::message::{Batch, Body, Cut, End, Generation, Members, Message, To};
use crate::program::{
    Did, Execution, Found, KEYS, Outcome, Part, Returned, Transaction, Values, Verdict, compare, conflicts, judge,
};
use crate::scenario::{Planted, Protocol};

/// Where a participant stands with a transaction of the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Nothing of it is here, or it needed no fallback.
    Absent,
    /// Waits for its locks.
    Waiting,
    /// Holds its locks; some function waits for what a callee on another worker returns.
    Running,
    /// Has run again and holds its locks; these are the writes.
    Ran([Option<u8>; KEYS]),
    /// Released, written.
    Applied,
    /// Released, not written.
    Dropped,
}

/// How far a worker is within its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Executed,
    /// Has told its conflicts.
    Validated,
    /// Has applied the winners; the fallback runs.
    FallingBack,
    /// Has told that it is done.
    Finished,
}

/// What a worker knows of its epoch; all lists go with the batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Counted from the beginning of the log.
    pub number: u8,
    /// How far it is.
    pub phase: Phase,
    pub batch: Batch,
    /// The fallback on this worker's keys.
    pub stages: Vec<Stage>,
    /// What all keys held at its start, once that is settled.
    pub start: Values,
    cut: Cut,
    verdicts: Vec<Verdict>,
    found: Vec<[Option<Found>; KEYS]>,
    /// What functions of this worker, and callees of them elsewhere, returned when they ran again.
    returned: Vec<[Option<Returned>; KEYS]>,
    ends: Vec<Option<End>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    pub id: usize,
    /// The generation that it has joined.
    pub generation: Generation,
    /// That generation's members.
    pub members: Members,
    /// The first epoch that it takes part in.
    pub first: u8,
    /// Its keys' values; those of others' keys are 0.
    pub values: Values,
    /// The epoch under way or just finished.
    pub epoch: Option<Epoch>,
    /// The last epoch that it finished.
    pub finished: Option<Cut>,
    /// Outcomes of transactions rooted here that wait until their cut is durable.
    pub outbox: Vec<(Cut, usize, Outcome)>,
}

impl Worker {
    /// A worker at the beginning of the log.
    pub fn new(id: usize, generation: Generation, members: Members, initial: &Values) -> Self {
        let mut values = *initial;
        (0..KEYS).filter(|key| members.owner(*key) != id).for_each(|key| values[key] = 0);
        Worker { id, generation, members, first: 0, values, epoch: None, finished: None, outbox: Vec::new() }
    }

    fn epoch(&self) -> &Epoch {
        self.epoch.as_ref().expect("an epoch is under way")
    }

    fn epoch_mut(&mut self) -> &mut Epoch {
        self.epoch.as_mut().expect("an epoch is under way")
    }

    fn owns(&self, key: usize) -> bool {
        self.members.owner(key) == self.id
    }

    /// The transactions of the epoch under way, with their executions on the epoch's start.
    pub fn executions(&self, protocol: &Protocol) -> Vec<Execution> {
        let epoch = self.epoch();
        epoch.batch.iter().map(|(_, request)| protocol.transaction(*request).execute(&epoch.start)).collect()
    }

    /// Takes a message; false if it does not fit, and what has become of the worker is to be forgotten.
    pub fn receive(&mut self, protocol: &Protocol, message: &Message, out: &mut Vec<Message>) -> bool {
        if let (Body::Begin { members, values, .. }, true) = (&message.body, message.generation > self.generation) {
            *self = Worker { first: message.epoch, ..Worker::new(self.id, message.generation, *members, values) };
        }
        let stale = message.generation < self.generation && protocol.planted(Planted::OldMessages);
        if message.generation != self.generation && !stale {
            return false;
        }
        match (&message.body, self.phase_of(message.epoch)) {
            (Body::Begin { cut, batch, .. }, None) if message.epoch == self.next() => self.begin(*cut, batch, out),
            (Body::Settle(start), Some(Phase::Executed)) => self.settle(protocol, start, out),
            (Body::Decide(verdicts), Some(Phase::Validated)) => self.decide(protocol, verdicts, out),
            (Body::Again(at, found), Some(Phase::FallingBack)) => return self.merge(protocol, *at, found, out),
            (Body::Resolve(at, end), Some(Phase::FallingBack)) => return self.resolve(protocol, *at, *end, out),
            (Body::Returned(at, key, value), _) => {
                return self.returned(protocol, message.epoch, (*at, *key), *value, out);
            }
            _ => return false,
        }
        true
    }

    /// The epoch whose state its values are; `None` while an epoch's writes are applied, and before the first one.
    pub fn shows(&self, protocol: &Protocol) -> Option<Cut> {
        let mixed = self.epoch.as_ref().is_some_and(|epoch| epoch.phase == Phase::FallingBack);
        self.finished.filter(|_| !mixed || protocol.planted(Planted::LookMidway))
    }

    /// What the epoch's transactions have come to, once that is decided.
    pub fn verdicts(&self) -> &[Verdict] {
        self.epoch.as_ref().map_or(&[], |epoch| &epoch.verdicts)
    }

    /// The fallback of the epoch on this worker's keys.
    pub fn stages(&self) -> &[Stage] {
        self.epoch.as_ref().map_or(&[], |epoch| &epoch.stages)
    }

    /// Whether it has finished an epoch.
    pub fn is_past(&self, number: u8) -> bool {
        let finished =
            |epoch: &Epoch| number < epoch.number || number == epoch.number && epoch.phase == Phase::Finished;
        self.epoch.as_ref().is_some_and(finished)
    }

    fn next(&self) -> u8 {
        match &self.epoch {
            None => self.first,
            Some(epoch) if epoch.phase == Phase::Finished => epoch.number + 1,
            Some(_) => u8::MAX,
        }
    }

    fn phase_of(&self, number: u8) -> Option<Phase> {
        self.epoch.as_ref().filter(|epoch| epoch.number == number).map(|epoch| epoch.phase)
    }

    fn tell(&self, to: To, body: Body, out: &mut Vec<Message>) {
        let epoch = self.epoch().number;
        out.push(Message { generation: self.generation, epoch, to, body });
    }

    fn begin(&mut self, cut: Cut, batch: &Batch, out: &mut Vec<Message>) {
        let n = batch.len();
        self.epoch = Some(Epoch {
            number: self.next(),
            phase: Phase::Executed,
            batch: batch.clone(),
            stages: vec![Stage::Absent; n],
            cut,
            start: [0; KEYS],
            verdicts: Vec::new(),
            found: vec![[None; KEYS]; n],
            returned: vec![[None; KEYS]; n],
            ends: vec![None; n],
        });
        self.tell(To::Coordinator, Body::Executed(self.id, self.values), out);
    }

    fn settle(&mut self, protocol: &Protocol, start: &Values, out: &mut Vec<Message>) {
        let epoch = self.epoch_mut();
        (epoch.start, epoch.phase) = (*start, Phase::Validated);
        let bits = conflicts(&self.executions(protocol), |key| self.owns(key));
        self.tell(To::Coordinator, Body::Validated(self.id, bits), out);
    }

    fn decide(&mut self, protocol: &Protocol, verdicts: &[Verdict], out: &mut Vec<Message>) {
        let executions = self.executions(protocol);
        let mut verdicts = verdicts.to_vec();
        if protocol.planted(Planted::BitsNotJoined) {
            let own = conflicts(&executions, |key| self.owns(key));
            verdicts = executions.iter().zip(own).map(|(execution, bits)| judge(execution, bits)).collect();
        }
        let epoch = self.epoch_mut();
        (epoch.verdicts, epoch.phase) = (verdicts.clone(), Phase::FallingBack);
        for (at, execution) in executions.iter().enumerate() {
            if verdicts[at] == Verdict::Conflict {
                if execution.parts.iter().any(|part| self.owns(part.key)) {
                    self.epoch_mut().stages[at] = Stage::Waiting;
                }
                continue;
            }
            if verdicts[at] != Verdict::Early || !protocol.planted(Planted::FallbackBeforeReordered) {
                self.commit(execution);
            }
            if self.is_root(protocol, at) {
                self.end(at, End::Ended(execution.outcome()));
            }
        }
        self.finish(protocol, out);
    }

    fn commit(&mut self, execution: &Execution) {
        let mut values = self.values;
        execution.apply(&mut values);
        for (key, value) in values.iter().enumerate().filter(|(key, _)| self.members.owner(*key) == self.id) {
            self.values[key] = *value;
        }
    }

    fn request(&self, at: usize) -> usize {
        self.epoch().batch[at].1
    }

    fn is_root(&self, protocol: &Protocol, at: usize) -> bool {
        self.owns(protocol.transaction(self.request(at)).root)
    }

    fn end(&mut self, at: usize, end: End) {
        let request = self.request(at);
        self.epoch_mut().ends[at] = Some(end);
        if let End::Ended(outcome) = end {
            self.outbox.push((self.epoch().cut, request, outcome));
            self.outbox.sort_unstable();
        }
    }

    /// Whether a transaction of the fallback no longer holds locks here.
    pub fn released(&self, at: usize) -> bool {
        matches!(self.stages()[at], Stage::Applied | Stage::Dropped)
    }

    /// The transactions that have been granted all their locks here and may run again.
    pub fn granted(&self, protocol: &Protocol) -> Vec<usize> {
        let Some(epoch) = &self.epoch else { return Vec::new() };
        if !epoch.stages.contains(&Stage::Waiting) {
            return Vec::new();
        }
        let executions = self.executions(protocol);
        let blocks = |lower: usize, at: usize| {
            let waits = epoch.stages[lower] != Stage::Absent && !self.released(lower);
            let mut here = executions[at].parts.iter().map(|part| part.key).filter(|key| self.owns(*key));
            let one_writes = |key: usize| executions[lower].wrote(key) || executions[at].wrote(key);
            waits && here.any(|key| executions[lower].part(key).is_some() && one_writes(key))
        };
        let waiting = (0..epoch.stages.len()).filter(|at| epoch.stages[*at] == Stage::Waiting);
        waiting.filter(|at| !(0..*at).any(|lower| blocks(lower, *at))).collect()
    }

    /// Runs a transaction's functions on the keys of this worker again, with cached parameters.
    pub fn run_again(&mut self, protocol: &Protocol, at: usize, out: &mut Vec<Message>) {
        self.epoch_mut().stages[at] = Stage::Running;
        self.go_on(protocol, at, out);
    }

    /// Ends the functions that wait for no callee any more; once that are all of this worker's, reports to the root.
    fn go_on(&mut self, protocol: &Protocol, at: usize, out: &mut Vec<Message>) {
        let transaction: Transaction = *protocol.transaction(self.request(at));
        let is_root = self.is_root(protocol, at);
        let execution = self.executions(protocol).swap_remove(at);
        let (mut found, mut writes) = ([None; KEYS], [None; KEYS]);
        let own = || execution.parts.iter().filter(|part| self.members.owner(part.key) == self.id);
        let own: Vec<&Part> = own().collect();
        // Callees before their callers.
        for part in own.iter().rev() {
            let read = self.values[part.key];
            let did = (transaction.function)(part.key, part.parameter, read);
            let unseen = !is_root && !did.aborts && protocol.planted(Planted::DriftAtRootOnly);
            let compared = if unseen { Found::Kept(read) } else { compare(part, read, &did) };
            let Some(returned) = self.end_function(&execution, at, &did, compared) else { continue };
            found[part.key] = Some(compared);
            writes[part.key] = did.plus(returned.1).writes;
            if self.epoch_mut().returned[at][part.key].replace(returned.0).is_none() {
                self.answer(&execution, at, part.key, returned.0, out);
            }
        }
        if own.iter().any(|part| found[part.key].is_none()) {
            return;
        }
        self.epoch_mut().stages[at] = Stage::Ran(writes);
        if is_root {
            self.merge(protocol, at, &found, out);
        } else {
            let root = To::Worker(self.members.owner(transaction.root));
            self.tell(root, Body::Again(at, found), out);
            if protocol.planted(Planted::LocksReleasedEarly) {
                let found = found.into_iter().enumerate().filter_map(|(key, found)| Some((key, found?)));
                self.resolve(protocol, at, decision(protocol, found), out);
            }
        }
    }

    /// What a function returns, and what its callees returned to it in all; `None` while it waits for one of them.
    fn end_function(&self, execution: &Execution, at: usize, did: &Did, found: Found) -> Option<(Returned, u8)> {
        if !matches!(found, Found::Kept(_)) {
            return Some((Returned::Nothing, 0));
        }
        let mut sum = 0;
        let entered = |key: &usize| did.adds && did.calls[*key].is_some() && execution.part(*key).is_some();
        for callee in (0..KEYS).filter(entered) {
            match self.epoch().returned[at][callee]? {
                Returned::Value(value) => sum += value,
                Returned::Nothing => return Some((Returned::Nothing, 0)),
            }
        }
        Some((Returned::Value(did.plus(sum).returns), sum))
    }

    /// Sends a result to the caller's worker if it is another and the caller wants it.
    fn answer(&self, execution: &Execution, at: usize, key: usize, returned: Returned, out: &mut Vec<Message>) {
        let caller = execution.caller(key).filter(|caller| caller.did.adds && !self.owns(caller.key));
        if let Some(caller) = caller {
            self.tell(To::Worker(self.members.owner(caller.key)), Body::Returned(at, key, returned), out);
        }
    }

    /// Takes the result of a callee on another worker, or drops it if it comes too late.
    fn returned(
        &mut self,
        protocol: &Protocol,
        number: u8,
        (at, key): (usize, usize),
        returned: Returned,
        out: &mut Vec<Message>,
    ) -> bool {
        let is_past = self.is_past(number);
        let Some(epoch) = &mut self.epoch else { return false };
        if is_past && !(protocol.planted(Planted::ResultsByPlace) && at < epoch.stages.len()) {
            return !protocol.planted(Planted::LateResultsKept);
        }
        if number > epoch.number || epoch.phase != Phase::FallingBack {
            return false;
        }
        if matches!(epoch.stages[at], Stage::Waiting | Stage::Running) {
            epoch.returned[at][key] = Some(returned);
        }
        if epoch.stages[at] == Stage::Running {
            self.go_on(protocol, at, out);
        }
        true
    }

    /// The root takes a report; with the last one it decides.
    fn merge(&mut self, protocol: &Protocol, at: usize, found: &[Option<Found>; KEYS], out: &mut Vec<Message>) -> bool {
        let epoch = self.epoch_mut();
        if epoch.ends[at].is_some() || epoch.verdicts[at] != Verdict::Conflict {
            return false;
        }
        found.iter().enumerate().filter(|(_, found)| found.is_some()).for_each(|(key, f)| epoch.found[at][key] = *f);
        let found = epoch.found[at];
        let parts = self.executions(protocol).swap_remove(at).parts;
        if parts.iter().any(|part| found[part.key].is_none()) {
            return true;
        }
        let end = decision(protocol, parts.iter().map(|part| (part.key, found[part.key].expect("checked above"))));
        self.end(at, end);
        let mut participants = Members::NONE;
        parts.iter().for_each(|part| participants = participants.with(self.members.owner(part.key)));
        for participant in participants.without(self.id).iter() {
            self.tell(To::Worker(participant), Body::Resolve(at, end), out);
        }
        self.resolve(protocol, at, end, out);
        true
    }

    fn resolve(&mut self, protocol: &Protocol, at: usize, end: End, out: &mut Vec<Message>) -> bool {
        let epoch = self.epoch_mut();
        let Stage::Ran(writes) = epoch.stages[at] else {
            return protocol.planted(Planted::LocksReleasedEarly);
        };
        let commits = matches!(end, End::Ended(outcome) if !outcome.aborted);
        epoch.stages[at] = if commits { Stage::Applied } else { Stage::Dropped };
        for key in (0..KEYS).filter(|_| commits) {
            self.values[key] = writes[key].unwrap_or(self.values[key]);
        }
        self.finish(protocol, out);
        true
    }

    fn finish(&mut self, protocol: &Protocol, out: &mut Vec<Message>) {
        let epoch = self.epoch();
        let busy = epoch.stages.iter().any(|stage| matches!(stage, Stage::Waiting | Stage::Running | Stage::Ran(_)));
        let undecided = (0..epoch.batch.len()).any(|at| self.is_root(protocol, at) && epoch.ends[at].is_none());
        if busy || undecided {
            return;
        }
        let early = |(at, execution)| (epoch.verdicts[at] == Verdict::Early).then_some(execution);
        let early: Vec<Execution> = self.executions(protocol).into_iter().enumerate().filter_map(early).collect();
        let (ends, cut) = (epoch.ends.clone(), epoch.cut);
        self.epoch_mut().phase = Phase::Finished;
        self.finished = Some(cut);
        if protocol.planted(Planted::FallbackBeforeReordered) {
            early.iter().for_each(|execution| self.commit(execution));
        }
        self.tell(To::Coordinator, Body::Finished(self.id, self.values, ends), out);
    }
}

/// What the earliest function in serial order demands that did not simply stay within its bounds.
fn decision(protocol: &Protocol, found: impl Iterator<Item = (usize, Found)>) -> End {
    let mut found: Vec<_> = found.collect();
    if protocol.planted(Planted::AbortBeforeDrift) && found.iter().any(|(_, found)| matches!(found, Found::Aborted(_)))
    {
        found.retain(|(_, found)| *found != Found::Drifted);
    }
    let mut outcome = Outcome { reads: [None; KEYS], aborted: false };
    for (key, found) in found {
        match found {
            Found::Drifted => return End::Rescheduled,
            Found::Kept(read) => outcome.reads[key] = Some(read),
            Found::Aborted(read) => {
                outcome.reads[key] = Some(read);
                outcome.aborted = true;
                break;
            }
        }
    }
    End::Ended(outcome)
}
