//! A process that is the coordinator: it owns the log, begins generations, and replays the log
//! through their workers before clients may come.

use std::collections::VecDeque;
use std::sync::Arc;

use styx_protocol::ids::{Epoch, Generation, Timestamp, WorkerId};
use styx_protocol::machine::coordinator::{Action, Input};
use styx_protocol::machine::{Config, Coordinator, EpochSummary};
use styx_protocol::membership::{self, Build, Membership, Patience, Seated};
use styx_protocol::message::{Message as Told, Node as Peer};
use styx_protocol::placement::Placement;
use styx_protocol::record::EpochRecord;

use super::appender::Appender;
use super::links::Links;
use super::outside::GenerationView;
use super::snapshots::{Keeper, Written};
use super::{Life, Message, NodeEvent, Outside, records};
use crate::check::judge::Ended;
use crate::check::{Checked, ensure};
use crate::store::Manifest;
use crate::wire::{Invitation, Packet, Parcel};
use crate::world::Event;

/// See the module.
#[derive(Debug)]
pub(super) struct CoordinatorNode {
    life: Life,
    membership: Membership<usize>,
    appender: Appender,
    office: Option<Office>,
    /// It has learned that it was replaced.
    deposed: bool,
}

/// A generation that it leads.
#[derive(Debug)]
struct Office {
    life: Life,
    generation: u64,
    machine: Coordinator<u64>,
    links: Links,
    members: Arc<[usize]>,
    placement: Arc<Placement>,
    /// Records still to be replayed.
    backlog: VecDeque<Arc<EpochRecord>>,
    live: bool,
    /// A snapshot was begun after it had come to a rest.
    kept: bool,
    ticking: bool,
    /// Of snapshots, if any are taken; and what the generation began with.
    keeper: Option<Keeper>,
    snapshot: Option<Arc<Manifest>>,
    /// The epoch under way, if the round is one.
    round: Option<Epoch>,
}

impl CoordinatorNode {
    /// A process that has just started, and opens its log.
    ///
    /// # Errors
    /// The log does not hold what it held.
    pub(super) fn new(life: Life, outside: &mut Outside) -> Checked<Self> {
        let before = outside.disk.durable();
        let log = records(outside.disk.recover())?;
        let durable = outside.disk.durable();
        ensure(durable >= before, "log", || format!("epoch {before} was durable, {durable} is"))?;
        // Another one may still append, until the fence is raised.
        let generation = outside.disk.fence().generation();
        let of_log = log.iter().map(|record| record.generation).max().unwrap_or(Generation(0));
        ensure(of_log <= generation, "log", || format!("generation {of_log} appended before it was durable"))?;
        let cluster = &outside.plan.cluster;
        let patience = Patience { silent_us: cluster.silent, settle_us: cluster.settle, drain_us: cluster.rest };
        let build = Build { version: "1".into(), engine: outside.plan.config.engine };
        let now = outside.queue.now();
        let membership = Membership::new(build, patience, generation, cluster.workers, now);
        outside.later(life, 0, NodeEvent::Pulse);
        Ok(CoordinatorNode { life, membership, appender: Appender::new(), office: None, deposed: false })
    }

    /// Whether an event of this generation, or of none, is for it.
    pub(super) fn leads(&self, generation: u64) -> bool {
        generation == 0 || self.office.as_ref().is_some_and(|office| office.generation == generation)
    }

    /// Whether a later coordinator has replaced it.
    pub(super) fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// Whether another one has raised the fence above it.
    fn is_replaced(&self, outside: &Outside) -> bool {
        let other = outside.disk.owner().is_some_and(|owner| owner != self.life.node);
        other && !outside.disk.fence().admits(self.membership.generation())
    }

    /// The generation that it leads, if that is live and has nothing left to do.
    pub(super) fn quiet_generation(&self) -> Option<u64> {
        let keeper = |office: &Office| office.keeper.as_ref().is_none_or(Keeper::is_quiet);
        let quiet =
            |office: &&Office| office.live && office.machine.is_idle() && !office.machine.has_work() && keeper(office);
        self.office.as_ref().filter(quiet).filter(|_| self.appender.is_quiet()).map(|office| office.generation)
    }

    pub(super) fn slow_disk(&mut self, factor: u64) {
        self.appender.slow = factor;
    }

    /// Who leads this generation: its last epoch and the chain.
    pub(super) fn position(&self, generation: u64) -> Option<(Epoch, styx_protocol::record::Chain)> {
        let office = self.office.as_ref().filter(|office| office.generation == generation)?;
        Some(office.machine.position())
    }

    /// An administrator's message.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, outside: &mut Outside) -> Checked {
        let Some(office) = self.office.as_mut().filter(|office| office.live) else {
            outside.break_connection(attempt);
            return Ok(());
        };
        let Message::Control(control) = message else { panic!("requests go to workers") };
        office.step(
            Input::Control { control, waiter: attempt as u64 },
            &mut self.appender,
            &mut self.deposed,
            outside,
        )?;
        self.go_on(outside)
    }

    /// From now on there are at most so many members.
    pub(super) fn resize(&mut self, most: u16, outside: &mut Outside) -> Checked {
        self.member(membership::Input::Resize(most), outside)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, clock: i64, outside: &mut Outside) -> Checked {
        match event {
            NodeEvent::Pulse => {
                self.member(membership::Input::Tick, outside)?;
                if let Some(office) = &mut self.office {
                    office.links.pulse(outside);
                }
                let beat = outside.plan.cluster.heartbeat;
                let delay = outside.random.between(beat / 2, beat);
                outside.later(self.life, delay, NodeEvent::Pulse);
            }
            NodeEvent::Tick => {
                if let Some(office) = &mut self.office {
                    office.ticking = false;
                    let now = outside.queue.now().saturating_add_signed(clock);
                    let tick = Input::Tick { now: Timestamp(now) };
                    office.step(tick, &mut self.appender, &mut self.deposed, outside)?;
                }
            }
            NodeEvent::Synced(end, _) => {
                self.appender.synced(end, self.life, outside);
                if let Some(office) = self.office.as_mut().filter(|office| office.live) {
                    if let Some(keeper) = &mut office.keeper {
                        keeper.durable(end.epoch);
                    }
                    office.step(Input::Durable(end.epoch), &mut self.appender, &mut self.deposed, outside)?;
                }
            }
            NodeEvent::Raised(generation, end, _) => {
                outside.disk.sync(end);
                // Another one may have begun a later generation in the meantime.
                if outside.disk.fence().admits(Generation(generation)) {
                    self.member(membership::Input::Persisted(Generation(generation)), outside)?
                } else {
                    self.deposed = true
                }
            }
            NodeEvent::Wish => {
                if let Some(office) = &mut self.office
                    && office.wish(outside)
                {
                    office.step(Input::Snapshot, &mut self.appender, &mut self.deposed, outside)?;
                }
            }
            NodeEvent::Put(put) => {
                if let Some(keeper) = self.office.as_mut().and_then(|office| office.keeper.as_mut()) {
                    self.deposed |= keeper.put(put, outside)?;
                }
            }
            NodeEvent::Share(..)
            | NodeEvent::Piece(_)
            | NodeEvent::HandOver
            | NodeEvent::Uploaded
            | NodeEvent::Loaded => panic!("a coordinator executes nothing"),
        }
        self.go_on(outside)
    }

    /// Another node's packet.
    pub(super) fn packet(&mut self, from: usize, packet: Packet, outside: &mut Outside) -> Checked {
        match packet {
            Packet::Hello(hello) => self.member(membership::Input::Hello { from, hello }, outside)?,
            Packet::Frame(frame) => {
                let Some(office) = &mut self.office else {
                    outside.figures.stale += 1;
                    return Ok(());
                };
                let (peer, parcels) = office.links.receive(from, *frame, outside);
                for parcel in parcels {
                    let from = peer.expect("delivered by a link");
                    let messages = match parcel {
                        Parcel::Messages(messages) => messages,
                        Parcel::Written(written) => {
                            office.written(from, *written);
                            continue;
                        }
                        Parcel::Live => panic!("workers do not say who is live"),
                    };
                    for message in messages {
                        let Peer::Worker(from) = from else { panic!("a coordinator does not speak to itself") };
                        let input = Input::Message { from, message };
                        office.step(input, &mut self.appender, &mut self.deposed, outside)?;
                    }
                }
            }
            other => panic!("{other:?} is not for a coordinator"),
        }
        self.go_on(outside)
    }

    fn member(&mut self, input: membership::Input<usize>, outside: &mut Outside) -> Checked {
        let mut actions = Vec::new();
        self.membership.step(outside.queue.now(), input, &mut actions);
        let me = self.life.node;
        for action in actions {
            match action {
                // Who hears a beat may rely on its being sent by the one who leads.
                membership::Action::Beat(..) if self.is_replaced(outside) => self.deposed = true,
                membership::Action::Beat(to, beat) => outside.send(me, to, Packet::Beat(beat)),
                membership::Action::Release(to) => outside.send(me, to, Packet::Release),
                membership::Action::Drain(_) => {
                    if let Some(office) = &mut self.office {
                        office.step(Input::Drain, &mut self.appender, &mut self.deposed, outside)?;
                    }
                }
                membership::Action::Refuse(to, _) => outside.send(me, to, Packet::Refusal),
                membership::Action::Persist(generation) => {
                    self.close(outside);
                    let Some(end) = outside.disk.raise(me, generation.0) else {
                        self.deposed = true;
                        continue;
                    };
                    let delay = self.appender.sync_time(outside);
                    let works = outside.calm || !outside.random.chance(outside.plan.sync_failures);
                    outside.later(self.life, delay, NodeEvent::Raised(generation.0, end, works));
                }
                membership::Action::Begin { generation, members } => self.begin(generation.0, &members, outside)?,
                membership::Action::Invite(seated) => {
                    if let Some(office) = &self.office {
                        office.invite(&seated, outside);
                    }
                }
                membership::Action::Suspend => self.close(outside),
                membership::Action::Depose(generation) => {
                    let now = outside.queue.now();
                    outside.trace.event(now, [12, me as u64, generation.0], || {
                        format!("{} learns of generation {generation}, begun by another", self.life)
                    });
                    self.deposed = true;
                }
            }
        }
        Ok(())
    }

    /// Stops the generation that runs.
    fn close(&mut self, outside: &mut Outside) {
        if self.office.take().is_some() {
            outside.dropped.push(self.life.node);
        }
        self.appender.close(self.life, outside);
    }

    fn begin(&mut self, generation: u64, seated: &[Seated<usize>], outside: &mut Outside) -> Checked {
        let me = self.life.node;
        let members: Arc<[usize]> = seated.iter().map(|seated| seated.place).collect();
        let placement = Arc::new(place(members.len() as u16, outside));
        let log = records(outside.disk.read())?;
        let now = outside.queue.now();
        let numbers = [13, me as u64, generation, members.len() as u64, log.len() as u64];
        outside.trace.event(now, numbers, || {
            format!(
                "{} begins generation {generation} with {} and {} epochs",
                self.life,
                members.iter().map(|member| format!("w{member}")).collect::<Vec<_>>().join(" "),
                log.len()
            )
        });
        outside.figures.generations += 1;
        outside.judge.opened(&log, outside.disk.trimmed())?;
        let life = Life { part: generation, ..self.life };
        let snapshot = outside.take_over(life, generation)?;
        let restored = snapshot.clone().filter(|snapshot| snapshot.frame.epoch > Epoch(0));
        outside.judge.seated(placement.clone(), restored.as_ref().map(|snapshot| snapshot.number));
        let summaries = members.iter().map(|_| VecDeque::new()).collect();
        let seen = GenerationView {
            placement: placement.clone(),
            members: members.clone(),
            summaries,
            queries: vec![],
            live: false,
        };
        let before = outside.generations.insert(generation, seen);
        ensure(before.is_none(), "membership", || format!("generation {generation} begins twice"))?;
        outside.gateways.coordinator = me;
        let config = Config { generation: Generation(generation), ..outside.plan.config };
        let peers = members.iter().enumerate().map(|(at, node)| (Peer::Worker(WorkerId(at as u16)), *node));
        let mut machine = Coordinator::new(config.coordinator(), placement.clone());
        if let Some(Manifest { frame, carried, .. }) = restored.as_deref() {
            machine.restore(frame, carried.iter().map(|carried| carried.tid).collect());
        }
        let from = machine.position().0;
        let durable = outside.disk.durable();
        let keeper = snapshot.map(|snapshot| Keeper::new(life, generation, members.len(), snapshot, durable, outside));
        let office = Office {
            life,
            generation,
            machine,
            keeper,
            snapshot: restored,
            links: Links::new(me, generation, peers, outside),
            members,
            placement,
            backlog: log.into_iter().filter(|record| record.epoch > from).collect(),
            live: false,
            kept: false,
            ticking: false,
            round: None,
        };
        seated.iter().for_each(|seated| office.invite(seated, outside));
        self.office = Some(office);
        Ok(())
    }

    /// Replays the next record, goes live, or has the next epoch cut some time.
    fn go_on(&mut self, outside: &mut Outside) -> Checked {
        let Some(office) = &mut self.office else { return Ok(()) };
        if !office.live && office.machine.is_idle() {
            match office.backlog.pop_front() {
                Some(record) => {
                    outside.figures.replayed += 1;
                    office.round = Some(record.epoch);
                    outside.judge.cut(&record)?;
                    office.step(Input::Replay(record), &mut self.appender, &mut self.deposed, outside)?;
                }
                None => {
                    let generation = office.go_live(&mut self.appender, &mut self.deposed, outside)?;
                    self.member(membership::Input::Live(Generation(generation)), outside)?;
                }
            }
        }
        if let Some(office) = &mut self.office {
            if let Some(keeper) = &mut office.keeper {
                // Who was replaced writes no more, as far as it knows.
                if outside.disk.fence().admits(Generation(office.generation)) {
                    keeper.go_on(outside)?
                } else {
                    self.deposed = true
                }
            }
            office.pace(outside);
            if office.machine.is_drained() && outside.disk.durable() >= office.machine.position().0 {
                return self.rested(outside);
            }
        }
        Ok(())
    }

    /// The generation has come to a rest: the next one may begin, perhaps after a snapshot.
    fn rested(&mut self, outside: &mut Outside) -> Checked {
        let Some(office) = &mut self.office else { return Ok(()) };
        let generation = office.generation;
        if !office.kept && outside.random.chance(800) {
            // Not yet, if another snapshot is under way; but not for ever.
            let reached = office.machine.position().0;
            office.kept = office.keeper.as_mut().is_some_and(|keeper| keeper.begin(Some(reached)));
            if office.kept {
                office.step(Input::Snapshot, &mut self.appender, &mut self.deposed, outside)?;
                return self.go_on(outside);
            }
        }
        if office.keeper.as_ref().is_none_or(Keeper::is_quiet) {
            self.member(membership::Input::Drained(Generation(generation)), outside)?;
        }
        Ok(())
    }

    /// After all is over.
    pub(super) fn check(&self, outside: &Outside) -> Checked {
        let epoch = outside.judge.epoch();
        ensure(epoch == outside.disk.durable(), "liveness", || {
            format!("epoch {epoch} never becomes durable; {} is", outside.disk.durable())
        })
    }
}

/// Who owns what in a generation of so many workers.
fn place(workers: u16, outside: &mut Outside) -> Placement {
    let partitions = outside.plan.config.layout.partitions;
    if !outside.plan.cluster.scattered {
        return Placement::round_robin(partitions, workers);
    }
    let random = &mut outside.random;
    let owners = (0..partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16)).collect();
    Placement::new(owners, workers)
}

impl Office {
    fn invite(&self, seated: &Seated<usize>, outside: &mut Outside) {
        let invitation = Invitation {
            generation: self.generation,
            life: seated.life,
            coordinator: self.life.node,
            members: self.members.clone(),
            placement: self.placement.clone(),
            snapshot: self.snapshot.clone(),
        };
        outside.send(self.life.node, seated.place, Packet::Invitation(invitation));
    }

    fn go_live(&mut self, appender: &mut Appender, deposed: &mut bool, outside: &mut Outside) -> Checked<u64> {
        self.live = true;
        let now = outside.queue.now();
        outside.trace.event(now, [14, self.generation], || format!("generation {} is live", self.generation));
        self.links.send_all(&Parcel::Live, outside);
        let durable = outside.disk.durable();
        self.step(Input::Durable(durable), appender, deposed, outside)?;
        if let Some(seen) = outside.generations.get_mut(&self.generation) {
            seen.live = true;
        }
        for gateway in 0..outside.gateways.views.len() {
            let delay = outside.random.between(0, 20_000);
            outside.queue.after(&mut outside.random, delay, Event::Learn(gateway, self.generation));
        }
        Ok(self.generation)
    }

    /// Whether it is time for a snapshot.
    fn wish(&mut self, outside: &mut Outside) -> bool {
        let reached = self.live.then(|| self.machine.position().0);
        self.keeper.as_mut().is_some_and(|keeper| keeper.wish(reached, outside))
    }

    /// A worker has written its part of a snapshot.
    fn written(&mut self, from: Peer, written: Written) {
        let (Peer::Worker(worker), Some(keeper)) = (from, &mut self.keeper) else {
            panic!("workers write parts of snapshots that were begun");
        };
        keeper.written(worker, written);
    }

    /// Has the next epoch cut some time, if there is anything to cut.
    fn pace(&mut self, outside: &mut Outside) {
        if self.live && !self.ticking && self.machine.is_idle() && self.machine.has_work() {
            self.ticking = true;
            let delay = outside.delay(outside.plan.pace);
            outside.later(self.life, delay, NodeEvent::Tick);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(
        &mut self,
        input: Input<u64>,
        appender: &mut Appender,
        deposed: &mut bool,
        outside: &mut Outside,
    ) -> Checked {
        let mut actions = Vec::new();
        let mut letters: Vec<(Peer, Vec<Told>)> = Vec::new();
        self.machine.step(input, &mut actions);
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    if matches!(message, Told::Settle { .. })
                        && !outside.disk.fence().admits(Generation(self.generation))
                    {
                        // Read-only requests would be answered from a state that is over.
                        *deposed = true;
                        return Ok(());
                    }
                    if matches!(message, Told::Settle { .. }) {
                        // All workers have executed: what queries come to rests on the state of now.
                        let seen = outside.generations.get_mut(&self.generation);
                        let queries = seen.map_or_else(Vec::new, |seen| std::mem::take(&mut seen.queries));
                        outside.ask_oracle(queries);
                    }
                    let to = Peer::Worker(to);
                    match letters.iter_mut().find(|(peer, _)| *peer == to) {
                        Some((_, messages)) => messages.push(message),
                        None => letters.push((to, vec![message])),
                    }
                }
                Action::Append(record) => {
                    if !outside.disk.fence().admits(Generation(self.generation)) {
                        // Somebody else leads now; this process must stop.
                        *deposed = true;
                        return Ok(());
                    }
                    outside.cut(self.life, &record)?;
                    self.round = Some(record.epoch);
                    appender.append(record, Life { part: 0, ..self.life }, outside);
                }
                Action::Snapshot(frame) => {
                    if outside.newest() == self.generation {
                        outside.judge.noted(&frame)?;
                    }
                    self.keeper.as_mut().expect("it asked for it").frame(frame);
                }
                Action::Finished(summary) => self.finished(&summary, outside)?,
                Action::Expel { worker, expected, found } => {
                    let message = format!("worker {worker} has deployed {found:x}, not {expected:x}");
                    return Err(crate::check::Failure::new("deployment", message));
                }
                Action::Controlled { waiter, result } => outside.tell_controlled(self.life, waiter, &result)?,
            }
        }
        letters.into_iter().try_for_each(|(to, messages)| self.links.send(to, messages, outside))
    }

    fn finished(&mut self, summary: &EpochSummary, outside: &mut Outside) -> Checked {
        let epoch = self.round.take();
        let newest = outside.newest() == self.generation;
        let Some(seen) = outside.generations.get_mut(&self.generation) else { return Ok(()) };
        let summaries: Option<Vec<EpochSummary>> = seen.summaries.iter_mut().map(VecDeque::pop_front).collect();
        let summaries = summaries.expect("a round ends when it has ended at all workers");
        if !newest {
            return Ok(()); // Of a replaced coordinator, before it notices.
        }
        if self.live {
            outside.count(&summaries, self.members.len() > 1);
        }
        let ended = Ended::of(summaries, summary.chain);
        outside.finished(self.life, epoch, ended)?;
        outside.ended = Some(self.generation);
        Ok(())
    }
}
