//! A worker's state machine: admits requests, and does its part of each round.
//!
//! It owns partitions, sequences the requests that come to it, remembers the ends of those that
//! brought a key, and tells their clients, once the coordinator says that the record is durable.
//!
//! | part | holds |
//! |---|---|
//! | `Ingress` | requests that no round has taken yet |
//! | `Rounds` | the round under way, and call graphs that several workers share |
//! | `Longs` | transactions that need more than an epoch has for them |
//! | `Ground` | what attempts rest on: placement, state, catalog |
//! | `Egress` | replies that are remembered, clients that wait, the outbox |
//! | `Handover` | what leaves for a snapshot |
//! | `Incoming` | partitions that this worker follows |
//! | `Rekeying` | entities that are dealt out anew, since their operator's keys have a prefix now, or none any more |

mod egress;
mod expected_fuel;
pub(crate) mod graphs;
mod ground;
mod handover;
mod ingress;
mod io;
mod long;
mod migration;
mod moving;
mod phase;
mod queues;
mod rekeying;
mod round;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

pub use ingress::{FEW, is_full};
pub use io::{
    Action, Batch, ClientRequest, ClientResponse, Config, Discarded, Executed, FallbackBatch, Input, PIECE_BYTES,
    STEP_MAX,
};
pub use migration::{CopiedOf, CopyAllowance, CopyProgress};
pub use work::Work;

use styx_planted::{Bug, planted};

use self::egress::Egress;
use self::ground::Ground;
use self::handover::Handover;
use self::ingress::{Ingress, Slot};
use self::long::{EndedQuery, ExecutedLong, Longs};
use self::migration::{Incoming, LACKS_MAX};
use self::moving::moving;
use self::rekeying::Rekeying;
use self::round::{Cut, Ended, Rounds, Scope};
use crate::commit::replies::Reply;
use crate::execute::attempt::{Execution, Operation};
use crate::execute::task::{LocalView, RunId};
use crate::ids::{Epoch, PartitionId, RequestId, Round, SequencerCounter, Tid, Timestamp, WorkerId};
use crate::machine::EpochSummary;
use crate::sequence::catalog::Catalog;
use crate::sequence::control::Control;
use crate::sequence::outcome::EpochChanges;
use crate::sequence::record::Chain;
use crate::sequence::route::sequencer_of;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::transaction::{CarriedTransaction, Request};
use crate::snapshot::{RestoredState, RetainedState, WorkerSnapshot};
use crate::state::State;
use crate::state::entity::Layout;
use crate::wire::fault::why;
use crate::wire::message::{Begin, Finished, Message, Node, Replay, Replayed};
use crate::wire::moving::Moving;

/// The machine of a worker. `W` names a waiting client; it is handed back with the reply, never looked at.
#[derive(Debug)]
pub struct Worker<W> {
    config: Config,
    ground: Ground,
    ingress: Ingress<W>,
    sequencer: Sequencer,
    rounds: Rounds<W>,
    egress: Egress<W>,
    handover: Handover,
    incoming: Incoming,
    rekeying: Rekeying,
    /// Requests that have come while it was not known yet what is remembered in partitions that come.
    early: Vec<ClientRequest<W>>,
    /// Transactions that moved to the next epoch, in TID order.
    carried: Vec<Slot<W>>,
    /// Queries that lacked what had not arrived here: for the next round.
    lacking: Vec<Slot<W>>,
    /// What is here is being dealt out to other partitions.
    divides: bool,
    /// The next snapshot builds on none: partitions are others.
    whole: bool,
    longs: Longs<W>,
    /// Changes of an epoch of the log, until it is applied.
    changes: EpochChanges,
    position: Position,
    /// What follows when nothing is left to be changed.
    next: Option<Next<W>>,
    /// The coordinator knows that there is something to do.
    woke: bool,
}

/// What follows changes of the state.
#[derive(Debug)]
enum Next<W> {
    /// A round, for the state of removed apps to be gone.
    Begin(Box<Begin>),
    /// The end of a round, for what it wrote; whether it was executed here.
    End(Box<Ended<W>>, bool),
}

/// How far this worker has come.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// The last epoch that ended here.
    epoch: Epoch,
    /// The chain after the epoch before: the coordinator knows the newest.
    chain: Chain,
    /// Of the last round that began.
    time: Timestamp,
}

impl<W> Worker<W> {
    /// A worker with an empty state.
    pub fn new(config: Config, view: LocalView) -> Self {
        let workers = u64::from(view.placement.workers());
        let mut worker = Worker {
            ingress: Ingress::new(&config),
            sequencer: Sequencer::new(u64::from(view.me.0) + 1, workers),
            rounds: Rounds::new(&config, view.me),
            egress: Egress::new(config.retention, config.layout, config.snapshots),
            handover: Handover::new(config.step_max),
            incoming: Incoming::default(),
            rekeying: Rekeying::default(),
            early: Vec::new(),
            carried: Vec::new(),
            lacking: Vec::new(),
            divides: false,
            whole: false,
            longs: Longs::new(config.long_max),
            changes: EpochChanges::default(),
            position: Position::default(),
            next: None,
            woke: false,
            ground: Ground::new(view, config.layout, config.step_max),
            config,
        };
        worker.track();
        worker
    }

    /// From now on it copies of what leaves only what [`Input::AllowCopy`] says, each time anew.
    pub fn copy_as_allowed(&mut self) {
        self.ground.outgoing_mut().ask();
    }

    /// Begins where a snapshot was taken, instead of with nothing.
    pub fn restore(&mut self, restored: RestoredState) {
        let RestoredState { frame, partitions, carried, replies, .. } = restored;
        (self.position.epoch, self.position.time) = (frame.epoch, frame.time);
        self.ground.restore(Catalog::restored(&frame.catalog), partitions);
        self.egress.restore(replies);
        for CarriedTransaction { tid, time, request } in carried {
            let (catalog, placement) = (self.ground.catalog(), &self.ground.view().placement);
            if sequencer_of(&request, &self.layout(), catalog, placement) != self.ground.me() {
                continue;
            }
            if request.retained {
                self.egress.begin(request.id, request.body_hash());
            }
            self.carried.push(Slot::unattended(tid, time, request));
        }
        self.carried.sort_unstable_by_key(|slot| slot.transaction.tid);
        // Partitions that were put into their place are new.
        self.track();
    }

    /// How keys are spread.
    pub fn layout(&self) -> Layout {
        self.ground.state().layout()
    }

    fn track(&mut self) {
        if self.config.snapshots {
            self.ground.state_mut().track();
        }
    }

    /// The committed state that is here.
    pub fn state(&self) -> &Arc<State> {
        self.ground.state()
    }
    /// What is deployed.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.ground.catalog()
    }
    /// Which worker this is.
    pub fn view(&self) -> &LocalView {
        self.ground.view()
    }
    /// The last epoch that ended here, and the state hash chain after the one before it.
    pub fn position(&self) -> (Epoch, Chain) {
        (self.position.epoch, self.position.chain)
    }
    /// Whether no round is under way.
    pub fn is_idle(&self) -> bool {
        self.rounds.is_idle() && self.next.is_none()
    }
    /// Whether the last step has left something to be changed, because it would have taken too long: say [`Input::Continue`].
    pub fn is_unfinished(&self) -> bool {
        self.ground.is_changing() || self.rekeying.is_unfinished()
    }
    /// Whether a round would find anything to do here.
    pub fn has_work(&self) -> bool {
        !(self.ingress.is_empty() && self.carried.is_empty() && self.lacking.is_empty()) || self.longs.has_ready()
    }
    /// Requests that wait for an epoch.
    pub fn backlog(&self) -> usize {
        self.ingress.len() + self.early.len() + self.lacking.len()
    }
    /// Apps of which requests wait for an epoch.
    pub fn waiting_apps(&self) -> usize {
        self.ingress.apps()
    }
    /// What a partition has been asked to do since it is here.
    pub fn work(&self, partition: PartitionId) -> Work {
        self.ground.work(partition)
    }
    /// Who is to have a partition, if it is on its way.
    pub fn leaves_to(&self, partition: PartitionId) -> Option<WorkerId> {
        self.ground.outgoing().leaves_to(partition)
    }
    /// Whether any partition is on its way to another worker.
    pub fn is_leaving(&self) -> bool {
        !self.ground.outgoing().is_empty()
    }
    /// How much of what leaves, or left last, is copied.
    pub fn copying(&self) -> Option<CopyProgress> {
        self.ground.outgoing().progress()
    }
    /// Replies remembered.
    pub fn remembered(&self) -> usize {
        self.egress.remembered()
    }
    /// Replies forgotten before their age was reached, for their number or their bytes.
    pub fn forgotten_early(&self) -> u64 {
        self.egress.forgotten_early()
    }

    /// Takes one input; pushes what is to be done. What a peer sends and cannot be applied is a
    /// [`Action::Fault`].
    ///
    /// # Panics
    /// When the driver breaks the protocol, or an invariant of this worker is broken.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        match input {
            Input::Client(request) => self.client(request, actions),
            input => {
                self.step_round(input, actions);
                debug_assert_eq!(self.invariants(), Ok(()));
            }
        }
        // Between rounds the coordinator must be told; during one it will ask.
        if !self.woke && self.is_idle() && self.has_work() {
            self.woke = true;
            actions.push(Action::Send { to: Node::Coordinator, message: Message::WorkAvailable });
        }
    }

    fn step_round(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        self.ground.begin_step();
        let mut scope = Scope { ground: &mut self.ground, egress: &mut self.egress, actions };
        match input {
            Input::Client(_) => unreachable!("clients do not wait for rounds"),
            Input::Executed(executed) => self.rounds.executed(executed, &mut scope),
            Input::TaskProgress(advanced) => self.rounds.advanced(advanced, &mut scope),
            Input::FellBack(outcomes) => self.rounds.fell_back(outcomes, &mut scope),
            Input::HandOver => self.handover.ask(),
            Input::Continue => {
                scope.ground.go_on();
                self.rounds.go_on(&mut scope);
            }
            Input::LongRead { run, operation } => {
                self.longs.ask(run, operation, self.ground.me());
            }
            Input::LongEnded { run, execution } => self.long_ended(run, *execution, actions),
            Input::Withdraw => self.withdraw(actions),
            Input::Want(entity) => {
                self.ground.has(&Operation::Get(entity));
            }
            Input::AllowCopy(allowance) => self.ground.outgoing_mut().allow(allowance),
            Input::Message { from, message } => {
                let name = message.name();
                if let Err(why) = self.on_message(from, message, actions) {
                    actions.push(Action::fault(from, name, why));
                }
            }
        }
        let mut scope = Scope { ground: &mut self.ground, egress: &mut self.egress, actions };
        if let Some(ended) = self.rounds.take_ended(&mut scope) {
            self.end(ended, true);
        }
        self.go_on(actions);
        if self.is_idle() && self.ground.fetching().has_arrived() {
            self.settle(actions);
        }
        // Not while an epoch is decided: what is read then would be written by whoever is not held back any more.
        if self.is_idle() || self.rounds.is_undecided() {
            self.longs.answer(&mut self.ground, actions);
        }
        if self.is_idle() {
            self.longs.start(&mut self.ground, actions);
        }
        self.longs.tell(&mut self.ground, actions);
        if self.handover.is_asked() && self.is_idle() {
            let (state, shadows) = self.ground.parts_mut();
            self.handover.go_on(state, shadows, actions);
        }
        self.tell_followers(actions);
        if let Some(version) = self.ground.fetching_mut().take_complete() {
            actions.push(Action::Send { to: Node::Coordinator, message: Message::Complete(version) });
        }
        let wanted = self.ground.fetching_mut().take_mails();
        actions.extend(wanted.into_iter().map(|(from, mail)| moving(from, mail.version, mail.moving)));
    }

    /// Puts what has arrived of partitions into its place.
    fn settle(&mut self, actions: &mut Vec<Action<W>>) {
        let version = self.ground.view().placement.version();
        let (pieces, fault) = self.ground.settle();
        actions.extend(pieces.into_iter().map(|from| moving(from, version, Moving::Taken)));
        if let Some((from, why)) = fault {
            actions.push(Action::fault(Node::Worker(from), "Moving", why));
        }
    }

    fn on_message(&mut self, from: Node, message: Message, actions: &mut Vec<Action<W>>) -> Result<(), &'static str> {
        let mut scope = Scope { ground: &mut self.ground, egress: &mut self.egress, actions };
        match (from, message) {
            (Node::Coordinator, Message::Begin(begin)) => self.begin(begin, actions),
            (Node::Coordinator, Message::Changes { round, changes }) => {
                if !self.is_idle() || round != self.rounds.last().next() {
                    return Err(why::ANOTHER_ROUND);
                }
                changes.writes.check(&self.layout()).map_err(|_| why::NO_WRITES)?;
                self.changes.append(changes);
                Ok(())
            }
            (Node::Coordinator, Message::Settle { round, logged, ends, queries }) => {
                self.rounds.settle(round, logged, ends, &queries, &self.longs, &mut scope)
            }
            (Node::Coordinator, Message::Decide { round, bits }) => self.rounds.decide(round, &bits, &mut scope),
            (Node::Coordinator, Message::Snapshot) => self.snapshot(actions),
            (Node::Coordinator, Message::Drain) => {
                self.drain(actions);
                Ok(())
            }
            (Node::Coordinator, Message::Durable(epoch)) => {
                self.egress.release(epoch);
                self.egress.respond(actions);
                Ok(())
            }
            (Node::Coordinator, Message::Migrate { version, mode, moves }) => self.migrate(version, mode, &moves),
            (Node::Coordinator, Message::CancelMigration(version)) => {
                self.cancel_migration(version, actions);
                Ok(())
            }
            (Node::Worker(worker), Message::Graphs(mail)) => self.rounds.mail(worker, mail, &mut scope),
            (Node::Worker(worker), Message::Moving(mail)) => self.on_moving(worker, mail, actions),
            (Node::Worker(worker), Message::Dealt { round, entities, last }) => {
                let expected = self.rounds.last().next();
                if round != expected || (self.is_idle() != self.rekeying.is_resting()) {
                    return Err(why::ANOTHER_ROUND);
                }
                let entities = entities.unpack(&self.layout()).map_err(|_| why::NO_WRITES)?;
                self.rekeying.dealt(worker, entities, last)
            }
            (Node::Worker(worker), Message::DealtTaken(round)) => {
                // The last ones come when the round is under way, or over.
                if round == self.rounds.last().next() {
                    self.rekeying.taken(worker)?;
                }
                Ok(())
            }
            (Node::Worker(worker), Message::Long(mail)) => self.longs.receive(worker, mail, &mut self.ground, actions),
            _ => Err(why::NOT_FOR_THIS),
        }
    }

    fn client(&mut self, request: ClientRequest<W>, actions: &mut Vec<Action<W>>) {
        if self.incoming.is_awaited() {
            return self.early.push(request);
        }
        // What is remembered and has not ended belongs to this epoch.
        let current = self.rounds.epoch().unwrap_or(self.position.epoch);
        let crowded = self.is_crowded(&request);
        let unmarked = self.rounds.unmarked();
        if let Err(response) = self.ingress.take(request, crowded, current, unmarked, &self.ground, &mut self.egress) {
            actions.push(Action::Respond(vec![response]));
        }
        self.egress.respond(actions);
    }

    /// Whether a request is of a function that uses much, of an app of which much of that waits.
    fn is_crowded(&mut self, request: &ClientRequest<W>) -> bool {
        let request: &Request = match request {
            ClientRequest::Submit { request, .. } | ClientRequest::Query { request, .. } => request,
            ClientRequest::Await { .. } => return false,
        };
        if self.ingress.expected_fuel().of(request) == 0 {
            return false;
        }
        let catalog = self.ground.catalog();
        let operator = catalog.operator(request.operator);
        operator.is_some_and(|operator| self.longs.are_too_many(&operator.app, catalog))
    }

    // Rounds.

    /// A round begins.
    fn begin(&mut self, begin: Begin, actions: &mut Vec<Action<W>>) -> Result<(), &'static str> {
        if !self.is_idle() || begin.round != self.rounds.last().next() {
            return Err(why::ANOTHER_ROUND);
        }
        if begin.epoch != self.position.epoch.next() || begin.time < self.position.time {
            return Err(why::ANOTHER_EPOCH);
        }
        if begin.counter > SequencerCounter::MAX {
            return Err(why::NO_COUNTER);
        }
        if let Some(why) = self.ground.refuses(&begin.controls) {
            return Err(why);
        }
        // A replay keeps the placement of its own generation.
        if begin.replay.is_some() && begin.controls.iter().any(|control| matches!(control, Control::Place(_))) {
            return Err(why::PLACEMENT);
        }
        let moves = begin.controls.iter().any(|control| self.changes_owners(control));
        if moves && !(begin.controls.len() == 1 && self.may_depart()) {
            return Err(why::MIGRATION);
        }
        let rekeyed = self.ground.rekeyed_by(&begin.controls);
        if !rekeyed.is_empty() && !self.ground.rests() {
            return Err(why::MOVES);
        }
        (self.position.time, self.position.chain, self.woke) = (begin.time, begin.before, false);
        let releases =
            begin.controls.iter().any(Control::may_release) && !self.ground.catalog().quarantine().is_empty();
        let before = self.ground.view().placement.clone();
        self.ground.apply(&begin.controls, self.config.snapshots);
        let repartitions = self.ground.view().placement.partitions() != before.partitions();
        if repartitions {
            self.egress.repartition(self.layout());
            (self.divides, self.whole) = (true, self.config.snapshots);
        }
        if releases && !planted(Bug::RefusalsKept) {
            self.egress.forget_quarantined(self.ground.catalog().quarantine(), begin.epoch);
        }
        if moves {
            self.depart(actions);
            self.incoming.await_all(self.ground.me(), &before, &self.ground.view().placement);
        }
        if moves || repartitions || begin.controls.iter().any(Control::is_deployment) {
            self.longs.begin_all_again(&mut self.ground);
        }
        self.rekeying.begin(begin.round, rekeyed, self.ground.others(), actions);
        self.next = Some(Next::Begin(Box::new(begin)));
        Ok(())
    }

    /// Does what follows, once the state is changed.
    fn go_on(&mut self, actions: &mut Vec<Action<W>>) {
        if !self.ground.is_changing() {
            self.rekeying.go_on(&mut self.ground, self.config.piece_bytes, self.config.step_max, actions);
        }
        while !self.ground.is_changing()
            && !self.incoming.is_awaited()
            && self.rekeying.is_resting()
            && let Some(next) = self.next.take()
        {
            self.arrive(actions);
            self.divide(actions);
            match next {
                Next::Begin(begin) => self.cut(*begin, actions),
                Next::End(ended, executed) => self.finish(*ended, executed, actions),
            }
        }
    }

    /// Cuts, sequences, executes.
    fn cut(&mut self, begin: Begin, actions: &mut Vec<Action<W>>) {
        let Begin { round, epoch, time, counter, controls, room, replay, .. } = begin;
        let query_base = if controls.iter().any(Control::is_deployment) { epoch } else { self.position.epoch };
        self.sequencer.level(counter);
        if let Some(Replay::Apply { begun, carried }) = replay {
            return self.apply(round, epoch, begun, &carried);
        }
        // Rescheduled transactions keep their TIDs, which are lower than all new ones.
        let mut slots = std::mem::take(&mut self.carried);
        let (mut executed, mut begun) = (Vec::new(), Vec::new());
        let (new, queries) = match replay {
            Some(Replay::Execute(replayed)) => (self.replay(replayed), Vec::new()),
            _ => {
                if self.longs.has_ready() {
                    let ready = self.longs.take_ready(query_base, &mut self.ground);
                    slots.extend(ready.slots);
                    slots.sort_unstable_by_key(|slot| slot.transaction.tid);
                    (executed, begun) = (ready.executed, ready.queries);
                }
                let new = self.ingress.cut(&slots, room as usize, (epoch, time), &mut self.sequencer, &mut self.egress);
                self.egress.respond(actions);
                let requests = new.iter().map(|slot| slot.transaction.request.clone()).collect();
                let carried = slots.iter().chain(executed.iter().map(|long: &ExecutedLong<W>| &long.slot));
                let mut carried: Vec<Tid> = carried.map(|slot| slot.transaction.tid).collect();
                carried.sort_unstable();
                let message = Message::Share { round, requests, carried };
                actions.push(Action::Send { to: Node::Coordinator, message });
                let mut queries = std::mem::take(&mut self.lacking);
                queries.iter_mut().for_each(|slot| slot.transaction.time = time);
                queries.extend(self.ingress.take_queries(time));
                (new, queries)
            }
        };
        if planted(Bug::TidsReassigned) {
            slots.iter_mut().for_each(|slot| slot.transaction.tid = self.sequencer.assign());
        }
        if slots.is_empty() {
            slots = new;
        } else {
            slots.extend(new);
        }
        let fuel_noted_above = self.ingress.expected_fuel().noted_above();
        let cut = Cut { round, epoch, time, slots, queries, executed, begun, query_base, fuel_noted_above };
        self.rounds.begin(cut, &mut Scope { ground: &mut self.ground, egress: &mut self.egress, actions });
    }

    /// Brings about what the log says an epoch changed here.
    fn apply(&mut self, round: Round, epoch: Epoch, begun: Vec<(RequestId, u64)>, taken: &[Tid]) {
        let time = self.position.time;
        let EpochChanges { writes, ends, carried } = std::mem::take(&mut self.changes);
        let stays =
            |slot: &Slot<W>| taken.binary_search(&slot.transaction.tid).is_err() && !planted(Bug::LongForgotten);
        self.carried.retain(stays);
        if !planted(Bug::KeysForgotten) {
            begun.into_iter().for_each(|(id, body)| self.egress.begin(id, body));
        }
        self.egress.trim(time);
        self.ground.apply_written(writes);
        ends.into_iter().for_each(|end| self.egress.apply(end, epoch, time));
        let slot = |CarriedTransaction { tid, time, request }| Slot::unattended(tid, time, request);
        let rescheduled = carried.into_iter().filter(|_| !planted(Bug::CarriedForgotten)).map(slot).collect();
        self.rounds.skip(round, &self.ground);
        let summary = EpochSummary { epoch, time, ..EpochSummary::default() };
        let (postponed, lacking, held, fuel) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        self.end(Ended { round, epoch: Some(epoch), summary, rescheduled, postponed, lacking, held, fuel }, false);
    }

    /// What the log says was cut here.
    fn replay(&mut self, replay: Vec<Replayed>) -> Vec<Slot<W>> {
        let time = self.position.time;
        let slot = |Replayed { tid, request }| {
            if request.retained && !planted(Bug::KeysForgotten) {
                self.egress.begin(request.id, request.body_hash());
            }
            Slot::unattended(tid, time, request)
        };
        replay.into_iter().map(slot).collect()
    }

    /// A round is over, but for what is left to be changed.
    fn end(&mut self, ended: Ended<W>, executed: bool) {
        if let Some(epoch) = ended.epoch {
            self.position.epoch = epoch;
        }
        self.next = Some(Next::End(Box::new(ended), executed));
    }

    /// A round is over here.
    fn finish(&mut self, ended: Ended<W>, executed: bool, actions: &mut Vec<Action<W>>) {
        let Ended { round, summary, mut rescheduled, mut postponed, lacking, held, fuel, .. } = ended;
        let mut waiting = Vec::new();
        for mut slot in lacking {
            slot.lacked = slot.lacked.saturating_add(1);
            // It was asked for, and comes soon. Who lacks one thing after the other is not executed anew for each: a query,
            // which nobody's writes disturb, runs beside the epochs, and a transaction waits.
            match (slot.transaction.query, slot.lacked > LACKS_MAX) {
                (true, false) => self.lacking.push(slot),
                (true, true) => postponed.push(slot),
                (false, false) => rescheduled.push(slot),
                (false, true) => waiting.push(slot),
            }
        }
        fuel.iter().for_each(|(request, fuel)| self.ingress.expected_fuel().learn(request, *fuel));
        let logged = postponed.iter().filter(|slot| !slot.transaction.query);
        let held_back = held.iter().map(|(_, slot)| slot).chain(&waiting);
        let moved = || rescheduled.iter().chain(logged.clone()).chain(held_back.clone());
        let mut carried: Vec<Tid> = moved().map(|slot| slot.transaction.tid).collect();
        carried.sort_unstable();
        let writes = self.ground.take_written();
        let changes = executed.then(|| {
            let mut carried: Vec<_> = moved().map(Slot::carried).collect();
            carried.sort_unstable_by_key(|carried| carried.tid);
            EpochChanges { writes, ends: self.egress.take_ended(), carried }
        });
        let waiters = postponed.into_iter().filter_map(|slot| self.longs.postpone(slot)).collect();
        give_back(waiters, actions);
        held.into_iter().for_each(|(holder, slot)| self.longs.hold(holder, slot));
        waiting.into_iter().for_each(|slot| self.longs.lack(slot));
        self.longs.epoch_over(&self.ground);
        // In a replay others may be there that the epoch did not take.
        self.carried.extend(rescheduled);
        self.carried.sort_unstable_by_key(|slot| slot.transaction.tid);
        let more = self.has_work() || self.divides;
        self.woke = more;
        let finished = Finished {
            round,
            hash: self.ground.state().hash(),
            deployment: self.ground.catalog().hash(),
            carried,
            more,
            counts: summary.counts,
        };
        actions.push(Action::Finished(EpochSummary { epoch: self.position.epoch, ..summary }));
        if let Some(changes) = changes {
            actions.push(Action::Send { to: Node::Coordinator, message: Message::Changes { round, changes } });
        }
        actions.push(Action::Send { to: Node::Coordinator, message: Message::Finished(finished) });
    }

    // Long transactions.

    fn long_ended(&mut self, run: RunId, execution: Execution, actions: &mut Vec<Action<W>>) {
        let Some(EndedQuery { slot, epoch, execution }) = self.longs.ended(run, execution, &mut self.ground) else {
            return;
        };
        let Some(waiter) = slot.waiter else { return };
        let tid = slot.transaction.tid;
        if !execution.logs.is_empty() {
            actions.push(Action::Logs { tid, lines: execution.logs.into() });
        }
        let reply = Reply { id: slot.transaction.request.id, tid, epoch, outcome: execution.outcome };
        self.egress.hold(epoch, ClientResponse::Reply { waiter, reply });
        self.egress.respond(actions);
    }

    fn withdraw(&mut self, actions: &mut Vec<Action<W>>) {
        give_back(self.longs.withdraw(&mut self.ground), actions);
    }

    /// Transactions that move to a later epoch, in TID order.
    fn carried(&self) -> Vec<CarriedTransaction> {
        let mut carried: Vec<_> = self.carried.iter().chain(self.longs.transactions()).map(Slot::carried).collect();
        carried.sort_unstable_by_key(|carried| carried.tid);
        carried
    }

    // Snapshots, and the end of a generation.

    /// Notes this worker's part of a snapshot.
    fn snapshot(&mut self, actions: &mut Vec<Action<W>>) -> Result<(), &'static str> {
        if !self.is_idle() {
            return Err(why::ANOTHER_PHASE);
        }
        if !self.handover.is_done() {
            return Err(why::SNAPSHOT_UNDER_WAY);
        }
        if self.divides {
            return Err(why::DIVIDES);
        }
        self.handover.begin();
        self.ground.state_mut().cut_delta();
        let part = WorkerSnapshot {
            epoch: self.position.epoch,
            layout: self.layout(),
            builds_on: !std::mem::take(&mut self.whole) || planted(Bug::SnapshotsContinued),
            hashes: self.ground.partitions().map(|(id, partition)| (id, partition.hash())).collect(),
            carried: self.carried(),
            replies: self.egress.cut_snapshot(),
        };
        actions.push(Action::WorkerSnapshot(Box::new(part)));
        Ok(())
    }

    /// Gives back everything of which nothing has happened, and takes nothing more that could happen: what
    /// was cut is brought to its end. Also for a generation that ends without being drained: what was not
    /// cut here by its end never is.
    pub fn drain(&mut self, actions: &mut Vec<Action<W>>) {
        self.withdraw(actions);
        let mut waiters = self.ingress.drain(&mut self.egress);
        waiters.extend(std::mem::take(&mut self.early).into_iter().map(ClientRequest::into_waiter));
        waiters.extend(std::mem::take(&mut self.lacking).into_iter().filter_map(|slot| slot.waiter));
        if planted(Bug::CutReturned) {
            waiters.extend(self.carried.iter_mut().filter_map(|slot| slot.waiter.take()));
        }
        give_back(waiters, actions);
    }

    /// What is left of this worker's part when it has left its generation, if that is where a snapshot
    /// was taken; otherwise itself, which takes a while to be dropped.
    #[expect(clippy::result_large_err, reason = "it is moved once in a generation")]
    pub fn into_retained(self) -> Result<RetainedState, Self> {
        let idle = self.is_idle() && self.carried.is_empty() && self.longs.is_empty();
        let noted = self.handover.is_done() && self.egress.is_cut();
        if !(self.config.snapshots && idle && noted) {
            return Err(self);
        }
        let Worker { config, ground, egress, position, .. } = self;
        Ok(RetainedState::new(config.generation, position.epoch, ground.into_partitions(), egress.into_kept()))
    }

    /// What holds between steps.
    fn invariants(&self) -> Result<(), &'static str> {
        self.ingress.invariants()?;
        self.egress.invariants(|id| self.ingress.remembers(id))?;
        self.rounds.invariants()?;
        self.longs.invariants(&self.ground)?;
        if !self.carried.is_sorted_by(|a, b| a.transaction.tid < b.transaction.tid) {
            return Err("transactions that moved to the next epoch stand in TID order");
        }
        if !self.rounds.is_idle() && !self.carried.is_empty() {
            return Err("a round takes all transactions that moved to it");
        }
        Ok(())
    }
}

fn discard<W>(discarded: Discarded, actions: &mut Vec<Action<W>>) {
    if !discarded.is_empty() {
        actions.push(Action::Discard(discarded));
    }
}

/// Clients learn that nothing has happened of what they have asked for.
fn give_back<W>(waiters: Vec<W>, actions: &mut Vec<Action<W>>) {
    if !waiters.is_empty() {
        let returned = |waiter| ClientResponse::Returned { waiter };
        actions.push(Action::Respond(waiters.into_iter().map(returned).collect()));
    }
}
