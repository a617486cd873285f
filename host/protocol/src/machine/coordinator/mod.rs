//! The coordinator's state machine: begins rounds, writes the log, and is the barrier between the
//! phases (Styx §4.1, §6).
//!
//! A round is an epoch, or carries read-only requests only; which, shows when all sequencers have
//! said what they add. Execution does not wait for that. When an epoch has ended, its record is appended, with what it came to.

mod io;
mod migration;
mod round;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

pub use io::{Action, Config, Input};
pub use migration::MigrationStage;
pub use round::Stage;

use styx_planted::{Bug, planted};

use self::migration::Migration;
use self::round::{CurrentRound, Ends, Gathered, Logged, Outcome};
use super::EpochSummary;
use super::outbox::Outbox;
use crate::abort::{Abort, Code};
use crate::cluster::placement::{Placement, Seat, Seating};
use crate::ids::{Epoch, PlacementVersion, Round, SequencerCounter, Tid, Timestamp, WorkerId};
use crate::pieces::PIECE_BYTES;
use crate::sequence::budget::RecordBudget;
use crate::sequence::catalog::Catalog;
use crate::sequence::control::Control;
use crate::sequence::outcome::{EpochChanges, EpochOutcome};
use crate::sequence::quarantine::{Quarantined, Subject};
use crate::sequence::record::{Chain, EpochRecord};
use crate::sequence::route::{memory_of, sequencer_of};
use crate::snapshot::SnapshotHeader;
use crate::state::entity::Layout;
use crate::wire::fault::{PeerFault, why};
use crate::wire::message::{Begin, Message, Node, Replay, Replayed};
use crate::wire::moving::MovingMode;

/// Why a migration is refused while another one goes on.
pub const MIGRATION_UNDER_WAY: &str = "another migration is under way: wait for its end, or cancel it";

/// The machine of the coordinator. `W` names whoever waits for a deployment.
#[derive(Debug)]
pub struct Coordinator<W> {
    config: Config,
    placement: Arc<Placement>,
    /// The placement that the generation began with; whether the log has been told.
    initial: Arc<Placement>,
    placed: bool,
    /// It is to be told though nothing happens.
    logs_placement: bool,
    /// Who the workers are, for the log: nobody, where there is no other generation.
    seats: Vec<Seat>,
    layout: Layout,
    /// What the records of the log that are replayed next are laid out in.
    logged: Layout,
    catalog: Catalog,
    controls: VecDeque<(Control, Option<W>)>,
    /// Somebody has something to do.
    woken: bool,
    round: Round,
    current: Option<Box<CurrentRound>>,
    /// The last epoch that ended.
    epoch: Epoch,
    chain: Chain,
    time: Timestamp,
    /// Where all sequencers' counters stand.
    counter: SequencerCounter,
    /// No TID of the log is higher. Not what the counter says: another membership's may stand above.
    highest: Tid,
    /// Transactions that were moved to a later epoch, in TID order.
    carried: Vec<Tid>,
    /// A snapshot is to be taken at the end of the round.
    snapshot: bool,
    draining: bool,
    migration: Option<Migration<W>>,
    /// The version of the last placement that workers were told of, whether it came to be or not.
    announced: PlacementVersion,
    outbox: Outbox<Action<W>>,
}

impl<W> Coordinator<W> {
    /// The coordinator of the workers in `placement`, with an empty log.
    pub fn new(config: Config, placement: Arc<Placement>) -> Self {
        Coordinator {
            initial: placement.clone(),
            announced: placement.version(),
            placed: false,
            logs_placement: false,
            seats: Vec::new(),
            layout: config.layout,
            logged: Layout { partitions: config.layout.created, ..config.layout },
            placement,
            catalog: Catalog::default(),
            controls: VecDeque::new(),
            woken: false,
            round: Round(0),
            current: None,
            epoch: Epoch(0),
            chain: Chain::default(),
            time: Timestamp(0),
            counter: SequencerCounter(0),
            highest: Tid(0),
            carried: Vec::new(),
            snapshot: false,
            draining: false,
            migration: None,
            outbox: Outbox::default(),
            config,
        }
    }

    /// Has the log know who the workers are.
    ///
    /// # Panics
    /// They are not as many as the placement has.
    pub fn seat(&mut self, seats: Vec<Seat>) {
        assert_eq!(seats.len(), self.workers(), "every worker has a seat");
        self.seats = seats;
    }

    /// Who the workers are, and which of them were emptied.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// Begins where a snapshot was taken, in so many partitions, instead of with an empty log. `carried` are the
    /// transactions that were carried there, in TID order.
    pub fn restore(&mut self, frame: &SnapshotHeader, carried: Vec<Tid>, partitions: u32) {
        self.logged.partitions = partitions;
        (self.epoch, self.chain) = (frame.epoch, frame.chain);
        self.catalog = Catalog::restored(&frame.catalog);
        self.woken |= !carried.is_empty();
        (self.highest, self.carried) = (frame.highest, carried);
        self.time = frame.time;
        self.counter = SequencerCounter::past(frame.highest, self.placement.workers());
    }

    /// What is deployed.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    /// The last epoch that ended, and the state hash chain after it.
    pub fn position(&self) -> (Epoch, Chain) {
        (self.epoch, self.chain)
    }
    /// Transactions that were moved to a later epoch, in TID order.
    pub fn carried(&self) -> &[Tid] {
        &self.carried
    }
    /// The time of the last epoch that ended.
    pub fn time(&self) -> Timestamp {
        self.time
    }
    /// Whether no round is under way.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }
    /// What the round under way waits for, if there is one.
    pub fn stage(&self) -> Option<Stage> {
        self.current.as_ref().map(|round| round.stage())
    }
    /// The record of the round under way without what it comes to, once it is known that it will have one.
    pub fn cut(&self) -> Option<&Arc<EpochRecord>> {
        self.current.as_ref().and_then(|round| round.record())
    }
    /// Whether a round would find anything to do.
    pub fn has_work(&self) -> bool {
        let has_control = self.controls.front().is_some_and(|(control, _)| !self.is_to_wait(control));
        self.woken || has_control || self.migration.as_ref().is_some_and(Migration::is_due)
    }
    /// Whether others have a copy of all that is to be theirs, which is to be so behind the next snapshot.
    pub fn is_copied(&self) -> bool {
        self.migration.as_ref().is_some_and(Migration::is_copied)
    }
    /// Whether partitions are on their way to other owners.
    pub fn is_migrating(&self) -> bool {
        self.migration.is_some()
    }
    /// How far a migration under way is.
    pub fn migration_stage(&self) -> Option<MigrationStage> {
        self.migration.as_ref().map(Migration::stage)
    }
    /// Whoever waits for the end of the migration under way waits no more.
    pub fn take_migration_waiter(&mut self) -> Option<W> {
        self.migration.as_mut().and_then(|migration| migration.waiter.take())
    }
    /// The version of the last placement that was to be, whether it came to be or not.
    pub fn announced(&self) -> PlacementVersion {
        self.announced
    }
    /// Who has which partition, from the epoch under way on.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
    }
    /// Takes one input; pushes what is to be done.
    ///
    /// What a worker sends and cannot be applied is an [`Action::Fault`].
    ///
    /// # Panics
    /// When the driver breaks the protocol, or replay meets another state than the log was written on.
    pub fn step(&mut self, input: Input<W>, actions: &mut Vec<Action<W>>) {
        match input {
            Input::Control { control, waiter } => {
                match self.check(&control).and_then(|()| self.check_carried(&control)) {
                    // Before anything that may have it executed once more, as the deployment that releases its app.
                    Ok(()) if matches!(control, Control::Quarantine(_)) => self.controls.push_front((control, waiter)),
                    Ok(()) => self.controls.push_back((control, waiter)),
                    Err(abort) => {
                        actions.extend(waiter.map(|waiter| Action::Controlled { waiter, result: Err(abort) }));
                    }
                }
            }
            Input::Tick { now } => {
                if self.is_idle() && self.has_work() {
                    self.begin(now, actions);
                }
            }
            Input::Replay(record) => self.replay(record, actions),
            Input::Migrate { owners, mode, waiter } => self.migrate(owners, mode, waiter, actions),
            Input::Repartition { partitions, waiter } => self.repartition(partitions, waiter, actions),
            Input::Place => {
                if let Some(migration) = self.migration.as_mut().filter(|_| self.current.is_none()) {
                    migration.fall_due();
                }
            }
            Input::LogPlacement => {
                self.logs_placement = true;
                self.woken |= !self.placed;
            }
            Input::CancelMigration => self.cancel_migration(actions),
            Input::Durable(epoch) => {
                if let Some(migration) = &mut self.migration {
                    migration.durable(epoch);
                }
                self.end_migration(actions);
                self.outbox.release(epoch);
                actions.extend(self.outbox.take());
                self.tell_all(&Message::Durable(epoch), actions);
            }
            Input::Snapshot => {
                self.snapshot = true;
                if self.is_idle() && self.may_snapshot() {
                    self.snapshot(actions);
                }
            }
            Input::Drain => self.drain(actions),
            Input::Message { from, message } => {
                let what = message.name();
                if let Err(why) = self.on_message(from, message, actions) {
                    actions.push(Action::Fault(PeerFault { from: Node::Worker(from), what, why }));
                }
            }
        }
        debug_assert_eq!(self.invariants(), Ok(()));
    }

    /// From now on no worker cuts anything new. One more round at least: with its end each worker says what is left, and
    /// it has heard of this by then.
    fn drain(&mut self, actions: &mut Vec<Action<W>>) {
        self.draining = true;
        self.woken = true;
        self.cancel_migration(actions);
        self.tell_all(&Message::Drain, actions);
    }

    /// Why the generation cannot end now for the next one to be another, if it cannot.
    pub fn refuses_end(&self) -> Option<&'static str> {
        if self.draining {
            Some("the generation ends")
        } else if self.migration.is_some() {
            Some(MIGRATION_UNDER_WAY)
        } else {
            None
        }
    }

    /// How keys are spread.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether the generation was told to drain, every worker has heard that, and nothing is under way any more.
    pub fn is_drained(&self) -> bool {
        self.draining && self.is_idle() && !self.has_work()
    }

    /// Gives up those who wait for a control that this coordinator will not see durable: the generation is over.
    /// Whether it was sequenced, the next generation knows.
    pub fn abandon(&mut self) -> Vec<W> {
        let held = self.outbox.drain().filter_map(|action| match action {
            Action::Controlled { waiter, .. } => Some(waiter),
            _ => None,
        });
        let migration = self.migration.take().and_then(|migration| migration.waiter);
        held.chain(self.controls.drain(..).filter_map(|(_, waiter)| waiter)).chain(migration).collect()
    }

    /// Whether a change can be sequenced, and if not, why.
    fn check(&self, control: &Control) -> Result<(), Abort> {
        let (bytes, most) = (control.weight(), self.budget().control_max());
        if bytes > most {
            let message = format!("a change of {bytes} bytes does not fit into the log, which takes at most {most}");
            return Err(Abort::new(Code::TooLarge, message));
        }
        if control.is_placement() {
            return Err(Abort::new(Code::BadArguments, "partitions change their owner by a migration"));
        }
        // What is placed anew must be here.
        if self.migration.is_some() && self.catalog.is_rekeyed_by(control) {
            return Err(Abort::new(Code::BadArguments, MIGRATION_UNDER_WAY));
        }
        self.catalog.check(control)
    }

    /// Only a transaction that waits for an epoch can be set aside by its TID: another one may be somebody else's yet.
    fn check_carried(&self, control: &Control) -> Result<(), Abort> {
        let Control::Quarantine(Quarantined { subject: Subject::Transaction(tid), .. }) = control else {
            return Ok(());
        };
        if self.carried.binary_search(tid).is_ok() {
            return Ok(());
        }
        Err(Abort::new(Code::BadArguments, format!("no transaction {tid} waits for an epoch")))
    }

    fn budget(&self) -> RecordBudget {
        RecordBudget::new(self.config.record_bytes_max)
    }

    fn workers(&self) -> usize {
        usize::from(self.placement.workers())
    }

    fn tell_all(&self, message: &Message, actions: &mut Vec<Action<W>>) {
        let workers = (0..self.placement.workers()).map(WorkerId);
        actions.extend(workers.map(|to| Action::Send { to, message: message.clone() }));
    }

    /// The next message that workers get is that of the next round, so all note the same.
    fn snapshot(&mut self, actions: &mut Vec<Action<W>>) {
        self.snapshot = false;
        if let Some(migration) = &mut self.migration {
            migration.fall_due();
        }
        self.tell_all(&Message::Snapshot, actions);
        actions.push(Action::Snapshot(Box::new(SnapshotHeader {
            generation: self.config.generation,
            epoch: self.epoch,
            chain: self.chain,
            time: self.time,
            highest: self.highest,
            catalog: self.catalog.image(),
            seating: self.seating(),
        })));
    }

    fn seating(&self) -> Option<Seating> {
        let seating = || Seating { seats: self.seats.clone(), owners: self.placement.owners().to_vec() };
        (!self.seats.is_empty()).then(seating)
    }

    /// A placement as the log is told of it.
    fn placing(&self, placement: &Placement) -> impl Iterator<Item = Control> + use<W> {
        let seat = (!self.seats.is_empty()).then(|| Control::Seat(self.seats.clone()));
        std::iter::once(Control::Place(placement.clone())).chain(seat)
    }

    fn begin(&mut self, now: Timestamp, actions: &mut Vec<Action<W>>) {
        self.woken = false;
        let epoch = Epoch(self.epoch.0 + 1);
        // Logged time never runs backwards, whatever the clock does.
        let time = self.time.max(now);
        let workers = self.workers();
        let mut room = self.budget().room(workers, self.carried.len());
        if !self.placed {
            room = room.saturating_sub(self.placing(&self.initial).map(|control| control.weight()).sum());
        }
        let mut controls = Vec::new();
        if let Some(migration) = self.migration.as_mut().filter(|migration| migration.is_due()) {
            // Alone: what a deployment removes is removed on one side or the other.
            self.seats = Seating::seats_after(&self.seats, self.placement.owners(), migration.next.owners());
            self.placement = Arc::new(migration.next.clone());
            self.layout.partitions = self.placement.partitions();
            actions.push(Action::Placed(self.placement.clone()));
            migration.place(epoch);
            if let Some(waiter) = migration.waiter.take_if(|_| migration.mode == MovingMode::Online) {
                self.outbox.hold(epoch, Action::Controlled { waiter, result: Ok(()) });
            }
            room = room.saturating_sub(self.placing(&self.placement).map(|control| control.weight()).sum());
            controls.push(Control::Place((*self.placement).clone()));
        }
        let (moves, mut before) = (!controls.is_empty(), None);
        while !moves && let Some((control, waiter)) = self.next_control(room) {
            room -= control.weight();
            // Checked on arrival; an earlier change of the same epoch, or a migration, may have overtaken it.
            let result = self.check(&control);
            if control.may_rekey() && result.is_err() {
                // Who reads the log would not know that a migration was under way.
                actions.extend(waiter.map(|waiter| Action::Controlled { waiter, result }));
                continue;
            }
            if result.is_ok() {
                if control.may_rekey() && before.is_none() {
                    before = Some(self.catalog.clone());
                }
                self.catalog.apply(&control);
            }
            if let Some(waiter) = waiter {
                self.outbox.hold(epoch, Action::Controlled { waiter, result });
            }
            controls.push(control);
        }
        let rekeyed = before.is_some_and(|before| !self.catalog.rekeyed_since(&before).is_empty());
        if rekeyed && workers > 1 && !planted(Bug::RekeyedUnnoticed) {
            // Owners stay. Whoever has asked some of the workers before and some behind it is to ask all of them again.
            self.placement = Arc::new(self.placement.next_after(self.announced, self.placement.owners().to_vec()));
            self.announced = self.placement.version();
            actions.push(Action::Placed(self.placement.clone()));
            room = room.saturating_sub(self.placing(&self.placement).map(|control| control.weight()).sum());
            controls.push(Control::Place((*self.placement).clone()));
        }
        actions.extend(self.outbox.take());
        let begin = Begin { room: room as u64, ..self.next(epoch, time, controls) };
        actions.extend((0..self.placement.workers()).map(WorkerId).map(|to| {
            let room = RecordBudget::share(room, workers, begin.round, to) as u64;
            Action::Send { to, message: Message::Begin(Begin { room, ..begin.clone() }) }
        }));
        self.current = Some(Box::new(CurrentRound::new(begin, workers)));
    }

    fn next_control(&mut self, room: usize) -> Option<(Control, Option<W>)> {
        let (first, _) = self.controls.front()?;
        if first.weight() > room || self.is_to_wait(first) {
            return None;
        }
        self.controls.pop_front()
    }

    /// What an app leaves behind is removed where all of it is.
    fn is_to_wait(&self, control: &Control) -> bool {
        matches!(control, Control::Remove(_)) && self.migration.as_ref().is_some_and(Migration::is_arriving)
    }

    fn next(&mut self, epoch: Epoch, time: Timestamp, controls: Vec<Control>) -> Begin {
        self.round.0 += 1;
        Begin {
            round: self.round,
            epoch,
            time,
            counter: self.counter,
            before: self.chain,
            controls,
            room: 0,
            replay: None,
        }
    }

    /// Brings about again what a record of the log says: what it came to, if the record says so, without executing
    /// anything.
    fn replay(&mut self, record: Arc<EpochRecord>, actions: &mut Vec<Action<W>>) {
        assert!(self.is_idle(), "records are replayed one after the other");
        assert_eq!(record.epoch.0, self.epoch.0 + 1, "the log's epochs are contiguous");
        assert_eq!(
            record.before, self.chain,
            "the state before epoch {} is not the one that the log was written on: a function is not deterministic, or log or snapshot are damaged",
            record.epoch
        );
        assert!(
            self.take_carried(&record.carried).is_ok(),
            "epoch {} takes transactions that no epoch before it has left over: log or snapshot are damaged",
            record.epoch
        );
        let workers = self.placement.workers();
        if record.sequencers == workers {
            assert_eq!(record.counter, self.counter, "TIDs diverged from the log in epoch {}", record.epoch);
        }
        // Whatever placement the epoch was first run on: this generation has its own members, and perhaps another layout.
        for control in &record.controls {
            if let Control::Place(placement) = control {
                self.logged.partitions = placement.partitions();
            }
        }
        let controls: Vec<Control> =
            record.controls.iter().filter(|control| !control.is_placement()).cloned().collect();
        for control in &controls {
            self.catalog.apply(control);
        }
        let begin = self.next(record.epoch, record.time, controls);
        // Under another membership, counters go on where no TID has been.
        self.highest = self.highest.max(record.highest());
        self.counter = self.counter.max(SequencerCounter::past(self.highest, workers));
        self.current = Some(Box::new(match &record.outcome {
            Some(outcome) => CurrentRound::apply(begin.clone(), self.workers(), outcome.chain),
            None => CurrentRound::replay(begin.clone(), self.workers()),
        }));
        for (worker, (changes, replay)) in self.replays(&record).into_iter().enumerate() {
            let to = WorkerId(worker as u16);
            let round = begin.round;
            let changes =
                changes.into_pieces(PIECE_BYTES).into_iter().map(|changes| Message::Changes { round, changes });
            actions.extend(changes.map(|message| Action::Send { to, message }));
            let begin = Begin { replay: Some(replay), ..begin.clone() };
            actions.push(Action::Send { to, message: Message::Begin(begin) });
        }
    }

    /// An epoch takes transactions of earlier ones, in TID order.
    ///
    /// # Errors
    /// Some of them are none.
    fn take_carried(&mut self, taken: &[Tid]) -> Result<(), &'static str> {
        if !taken.is_sorted_by(|a, b| a < b) || taken.iter().any(|tid| self.carried.binary_search(tid).is_err()) {
            return Err(why::NOT_CARRIED);
        }
        self.carried.retain(|tid| taken.binary_search(tid).is_err());
        Ok(())
    }

    /// What each worker is to do of an epoch of the log.
    fn replays(&self, record: &EpochRecord) -> Vec<(EpochChanges, Replay)> {
        let mut transactions: Vec<_> = record.transactions().collect();
        transactions.sort_unstable_by_key(|(tid, _)| *tid);
        let root = |request| usize::from(sequencer_of(request, &self.layout, &self.catalog, &self.placement).0);
        let Some(outcome) = &record.outcome else {
            let mut rooted: Vec<Vec<Replayed>> = vec![Vec::new(); self.workers()];
            for (tid, request) in transactions {
                rooted[root(request)].push(Replayed { tid, request: request.clone() });
            }
            let execute = |replayed| (EpochChanges::default(), Replay::Execute(replayed));
            return rooted.into_iter().map(execute).collect();
        };
        let mut parts: Vec<(EpochChanges, Vec<_>)> = vec![Default::default(); self.workers()];
        for (_, request) in transactions.iter().filter(|(_, request)| request.retained) {
            parts[root(request)].1.push((request.id, request.body_hash()));
        }
        let EpochChanges { writes, ends, carried } = &outcome.changes;
        for write in writes.iter() {
            // They were looked at when they arrived, and their checksum is right.
            let write = write.expect("the log holds what was appended");
            if self.logged != self.layout && !planted(Bug::WritesNotRelaid) {
                let is_composite = |operator| self.catalog.is_composite(operator);
                let (entity, value) = write.relaid(&self.layout, &self.logged, is_composite);
                let owner = self.placement.owner(entity.partition());
                parts[usize::from(owner.0)].0.writes.push(&entity, value);
                continue;
            }
            let owner = self.placement.owner(write.partition());
            parts[usize::from(owner.0)].0.writes.extend(write.bytes());
        }
        for end in ends {
            parts[usize::from(memory_of(end.id, &self.layout, &self.placement).0)].0.ends.push(end.clone());
        }
        for carried in carried {
            parts[root(&carried.request)].0.carried.push(carried.clone());
        }
        let apply = |begun| Replay::Apply { begun, carried: record.carried.clone() };
        parts.into_iter().map(|(changes, begun)| (changes, apply(begun))).collect()
    }

    /// Takes a message of a worker.
    ///
    /// # Errors
    /// It cannot be applied, and was not.
    fn on_message(
        &mut self,
        worker: WorkerId,
        message: Message,
        actions: &mut Vec<Action<W>>,
    ) -> Result<(), &'static str> {
        if usize::from(worker.0) >= self.workers() {
            return Err(why::NO_MEMBER);
        }
        let of = match &message {
            Message::WorkAvailable => {
                self.woken = true;
                return Ok(());
            }
            Message::Copied(version) => return self.copied(worker, *version),
            Message::Complete(version) => return self.complete(worker, *version, actions),
            Message::Share { round, .. }
            | Message::Executed { round, .. }
            | Message::Bits { round, .. }
            | Message::Changes { round, .. } => *round,
            Message::Finished(finished) => finished.round,
            _ => return Err(why::NOT_FOR_THIS),
        };
        let round = self.current.as_mut().ok_or(why::NO_ROUND)?;
        if of != round.number() {
            return Err(why::ANOTHER_ROUND);
        }
        match message {
            Message::Share { requests, carried, .. } => {
                if let Some(gathered) = round.share(worker, requests, carried)? {
                    self.gathered(gathered)?;
                }
                self.settle(actions);
            }
            Message::Executed { ends, queries, .. } => {
                round.executed(worker, ends, queries)?;
                self.settle(actions);
            }
            Message::Bits { bits, .. } => {
                if let Some(each) = round.bits(worker, bits)? {
                    actions.extend((0..).map(WorkerId).zip(each).map(|(to, bits)| {
                        let message = Message::Decide { round: of, bits };
                        Action::Send { to, message }
                    }));
                }
            }
            Message::Changes { changes, .. } => {
                // Who is alone owns everything, and is mostly part of this process.
                let owns = |partition| self.placement.owner_of(partition) == Some(worker);
                let is_shared = self.placement.workers() > 1;
                if is_shared && !changes.writes.iter().all(|write| write.is_ok_and(|write| owns(write.partition()))) {
                    return Err(why::NO_WRITES);
                }
                round.changed(worker, changes)?;
            }
            Message::Finished(finished) => {
                let (deployment, more) = (finished.deployment, finished.more);
                let outcome = round.finished(worker, finished)?;
                self.woken |= more;
                let expected = self.catalog.hash();
                if deployment != expected {
                    actions.push(Action::Expel { worker, expected, found: deployment });
                }
                if let Some(outcome) = outcome {
                    self.end(outcome, actions);
                }
            }
            _ => unreachable!("every other sort was refused above"),
        }
        Ok(())
    }

    /// All sequencers have said what they add, and what of earlier epochs they take: the cut.
    ///
    /// # Errors
    /// Some of that is no transaction of earlier epochs.
    fn gathered(&mut self, gathered: Gathered) -> Result<(), &'static str> {
        let Gathered { mut sequences, carried } = gathered;
        self.take_carried(&carried)?;
        let round = self.current.as_mut().expect("a round is under way");
        let logged = round.has_controls()
            || (self.logs_placement && !self.placed)
            || !carried.is_empty()
            || sequences.iter().any(|sequence| !sequence.requests.is_empty());
        if !logged {
            round.set_cut(None);
            return Ok(());
        }
        if planted(Bug::RecordIncomplete) {
            sequences.iter_mut().for_each(|sequence| drop(sequence.requests.pop()));
        }
        let mut controls = round.take_controls();
        let moves = controls.iter().any(Control::is_placement);
        if !std::mem::replace(&mut self.placed, true) {
            // All members know it from the beginning of the generation; the log is told with its first
            // epoch, so that a generation which does nothing writes nothing.
            controls.insert(0, Control::Place((*self.initial).clone()));
        }
        if !self.seats.is_empty() && (moves || controls.first().is_some_and(Control::is_placement)) {
            controls.push(Control::Seat(self.seats.clone()));
        }
        let record = Arc::new(EpochRecord {
            epoch: round.epoch(),
            generation: self.config.generation,
            engine: self.config.engine,
            time: round.time(),
            sequencers: self.placement.workers(),
            counter: self.counter,
            carried,
            before: self.chain,
            controls,
            sequences,
            outcome: None,
        });
        if !planted(Bug::NotLevelled) {
            self.counter = record.counter_after();
        }
        self.highest = self.highest.max(record.highest());
        round.set_cut(Some(record));
        Ok(())
    }

    /// If every graph is complete and the cut is known: on to validation.
    fn settle(&mut self, actions: &mut Vec<Action<W>>) {
        let round = self.current.as_mut().expect("a round is under way");
        if let Some(each) = round.settle() {
            let (round, logged) = (round.number(), round.is_logged());
            actions.extend((0..).map(WorkerId).zip(each).map(|(to, Ends { ends, queries })| {
                let message = Message::Settle { round, logged, ends, queries };
                Action::Send { to, message }
            }));
        }
    }

    /// The round is over on all workers.
    fn end(&mut self, outcome: Outcome, actions: &mut Vec<Action<W>>) {
        let round = self.current.take().expect("a round is under way");
        let time = round.time();
        if round.is_logged() {
            (self.epoch, self.time) = (round.epoch(), time);
            self.chain = self.chain.after(self.epoch, outcome.hash);
            self.carried.extend(outcome.carried);
            self.carried.sort_unstable();
        }
        match round.into_record() {
            Logged::New(record) => {
                let outcome = EpochOutcome { chain: self.chain, changes: outcome.changes };
                let record = EpochRecord { outcome: Some(Box::new(outcome)), ..record };
                actions.push(Action::Append(Arc::new(record)));
            }
            Logged::Before(Some(chain)) => assert_eq!(
                self.chain, chain,
                "the state after epoch {} is not what its record in the log says: log or snapshot are damaged",
                self.epoch
            ),
            Logged::Before(None) | Logged::Nothing => {}
        }
        let (epoch, chain, counts) = (self.epoch, self.chain, outcome.counts);
        actions.push(Action::Finished(EpochSummary { epoch, time, chain, counts, ..EpochSummary::default() }));
        if self.snapshot && self.may_snapshot() {
            self.snapshot(actions);
        }
    }

    /// What holds between steps.
    fn invariants(&self) -> Result<(), &'static str> {
        if !self.carried.is_sorted() {
            return Err("transactions that moved to the next epoch stand in TID order");
        }
        if self.snapshot && self.is_idle() && self.may_snapshot() {
            return Err("a snapshot is taken as soon as no round is under way");
        }
        self.outbox.invariants()?;
        self.current.as_ref().map_or(Ok(()), |round| round.invariants())
    }
}
