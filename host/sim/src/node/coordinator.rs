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
use super::records;
use super::snapshots::SnapshotScheduler;
use crate::check::checker::Ended;
use crate::check::{Checked, ensure};
use crate::environment::{Environment, GenerationView};
use crate::event::{Event, Life, Message, NodeEvent};
use crate::store::{Manifest, Written};
use crate::wire::{Invitation, Packet, Parcel};

/// A process that coordinates, or waits for the leadership.
#[derive(Debug)]
pub(super) struct CoordinatorNode {
    life: Life,
    membership: Membership<usize>,
    appender: Appender,
    leader: Option<LeaderState>,
    /// It has learned that it was replaced.
    deposed: bool,
}

/// A generation that it leads.
#[derive(Debug)]
struct LeaderState {
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
    /// Snapshot scheduler, if snapshots are taken.
    scheduler: Option<SnapshotScheduler>,
    snapshot: Option<Arc<Manifest>>,
    /// The epoch under way, if the round is one.
    round: Option<Epoch>,
}

impl CoordinatorNode {
    /// A process that has just started, and opens its log.
    ///
    /// # Errors
    /// The log does not hold what it held.
    pub(super) fn new(life: Life, environment: &mut Environment) -> Checked<Self> {
        let before = environment.disk.durable();
        let log = records(environment.disk.recover())?;
        let durable = environment.disk.durable();
        ensure(durable >= before, "log", || format!("epoch {before} was durable, {durable} is"))?;
        // Another one may still append, until the fence is raised.
        let generation = environment.disk.fence().generation();
        let of_log = log.iter().map(|record| record.generation).max().unwrap_or(Generation(0));
        ensure(of_log <= generation, "log", || format!("generation {of_log} appended before it was durable"))?;
        let cluster = &environment.plan.cluster;
        let patience = Patience { silent_us: cluster.silent, settle_us: cluster.settle, drain_us: cluster.rest };
        let build = Build { version: "1".into(), engine: environment.plan.config.engine };
        let now = environment.queue.now();
        let membership = Membership::new(build, patience, generation, cluster.workers, now);
        environment.later(life, 0, NodeEvent::Heartbeat);
        Ok(CoordinatorNode { life, membership, appender: Appender::new(), leader: None, deposed: false })
    }

    /// Whether an event of this generation, or of none, is for it.
    pub(super) fn leads(&self, generation: u64) -> bool {
        generation == 0 || self.leader.as_ref().is_some_and(|leader| leader.generation == generation)
    }

    /// Whether a later coordinator has replaced it.
    pub(super) fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// Whether another one has raised the fence above it.
    fn is_replaced(&self, environment: &Environment) -> bool {
        let other = environment.disk.owner().is_some_and(|owner| owner != self.life.node);
        other && !environment.disk.fence().admits(self.membership.generation())
    }

    /// The generation that it leads, if that is live and has nothing left to do.
    pub(super) fn quiet_generation(&self) -> Option<u64> {
        let scheduler = |leader: &LeaderState| leader.scheduler.as_ref().is_none_or(SnapshotScheduler::is_quiet);
        let quiet = |leader: &&LeaderState| {
            leader.live && leader.machine.is_idle() && !leader.machine.has_work() && scheduler(leader)
        };
        self.leader.as_ref().filter(quiet).filter(|_| self.appender.is_quiet()).map(|leader| leader.generation)
    }

    pub(super) fn slow_disk(&mut self, factor: u64) {
        self.appender.slow = factor;
    }

    /// The last epoch of a generation and its chain, on the process that leads it.
    pub(super) fn position(&self, generation: u64) -> Option<(Epoch, styx_protocol::record::Chain)> {
        let leader = self.leader.as_ref().filter(|leader| leader.generation == generation)?;
        Some(leader.machine.position())
    }

    /// An administrator's message.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, environment: &mut Environment) -> Checked {
        let Some(leader) = self.leader.as_mut().filter(|leader| leader.live) else {
            environment.break_connection(attempt);
            return Ok(());
        };
        let Message::Control(control) = message else { panic!("requests go to workers") };
        leader.step(
            Input::Control { control, waiter: attempt as u64 },
            &mut self.appender,
            &mut self.deposed,
            environment,
        )?;
        self.advance(environment)
    }

    /// From now on there are at most so many members.
    pub(super) fn resize(&mut self, most: u16, environment: &mut Environment) -> Checked {
        self.member(membership::Input::Resize(most), environment)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, clock: i64, environment: &mut Environment) -> Checked {
        match event {
            NodeEvent::Heartbeat => {
                self.member(membership::Input::Tick, environment)?;
                if let Some(leader) = &mut self.leader {
                    leader.links.pulse(environment);
                }
                let beat = environment.plan.cluster.heartbeat;
                let delay = environment.random.between(beat / 2, beat);
                environment.later(self.life, delay, NodeEvent::Heartbeat);
            }
            NodeEvent::Tick => {
                if let Some(leader) = &mut self.leader {
                    leader.ticking = false;
                    let now = environment.queue.now().saturating_add_signed(clock);
                    let tick = Input::Tick { now: Timestamp(now) };
                    leader.step(tick, &mut self.appender, &mut self.deposed, environment)?;
                }
            }
            NodeEvent::Synced(end, _) => {
                self.appender.synced(end, self.life, environment);
                if let Some(leader) = self.leader.as_mut().filter(|leader| leader.live) {
                    if let Some(scheduler) = &mut leader.scheduler {
                        scheduler.durable(end.epoch);
                    }
                    leader.step(Input::Durable(end.epoch), &mut self.appender, &mut self.deposed, environment)?;
                }
            }
            NodeEvent::FenceRaised(generation, end, _) => {
                environment.disk.sync(end);
                // Another one may have begun a later generation in the meantime.
                if environment.disk.fence().admits(Generation(generation)) {
                    self.member(membership::Input::Persisted(Generation(generation)), environment)?
                } else {
                    self.deposed = true
                }
            }
            NodeEvent::SnapshotDue => {
                if let Some(leader) = &mut self.leader
                    && leader.due(environment)
                {
                    leader.step(Input::Snapshot, &mut self.appender, &mut self.deposed, environment)?;
                }
            }
            NodeEvent::Put(put) => {
                if let Some(scheduler) = self.leader.as_mut().and_then(|leader| leader.scheduler.as_mut()) {
                    self.deposed |= scheduler.put(put, environment)?;
                }
            }
            NodeEvent::BatchShare(..)
            | NodeEvent::TaskDone(_)
            | NodeEvent::HandOver
            | NodeEvent::Uploaded
            | NodeEvent::Loaded => panic!("a coordinator executes nothing"),
        }
        self.advance(environment)
    }

    /// Another node's packet.
    pub(super) fn packet(&mut self, from: usize, packet: Packet, environment: &mut Environment) -> Checked {
        match packet {
            Packet::Hello(hello) => self.member(membership::Input::Hello { from, hello }, environment)?,
            Packet::Frame(frame) => {
                let Some(leader) = &mut self.leader else {
                    environment.figures.stale += 1;
                    return Ok(());
                };
                let (peer, parcels) = leader.links.receive(from, *frame, environment);
                for parcel in parcels {
                    let from = peer.expect("delivered by a link");
                    let messages = match parcel {
                        Parcel::Messages(messages) => messages,
                        Parcel::Written(written) => {
                            leader.written(from, *written);
                            continue;
                        }
                        Parcel::Live => panic!("workers do not say who is live"),
                    };
                    for message in messages {
                        let Peer::Worker(from) = from else { panic!("a coordinator does not speak to itself") };
                        let input = Input::Message { from, message };
                        leader.step(input, &mut self.appender, &mut self.deposed, environment)?;
                    }
                }
            }
            other => panic!("{other:?} is not for a coordinator"),
        }
        self.advance(environment)
    }

    fn member(&mut self, input: membership::Input<usize>, environment: &mut Environment) -> Checked {
        let mut actions = Vec::new();
        self.membership.step(environment.queue.now(), input, &mut actions);
        let me = self.life.node;
        for action in actions {
            match action {
                // Who hears a beat may rely on its being sent by the one who leads.
                membership::Action::Beat(..) if self.is_replaced(environment) => self.deposed = true,
                membership::Action::Beat(to, beat) => environment.send(me, to, Packet::Beat(beat)),
                membership::Action::Release(to) => environment.send(me, to, Packet::Release),
                membership::Action::Drain(_) => {
                    if let Some(leader) = &mut self.leader {
                        leader.step(Input::Drain, &mut self.appender, &mut self.deposed, environment)?;
                    }
                }
                membership::Action::Refuse(to, _) => environment.send(me, to, Packet::Refusal),
                membership::Action::Persist(generation) => {
                    self.close(environment);
                    let Some(end) = environment.disk.raise(me, generation.0) else {
                        self.deposed = true;
                        continue;
                    };
                    let delay = self.appender.sync_time(environment);
                    let works = environment.calm || !environment.random.chance(environment.plan.sync_failures);
                    environment.later(self.life, delay, NodeEvent::FenceRaised(generation.0, end, works));
                }
                membership::Action::Begin { generation, members } => self.begin(generation.0, &members, environment)?,
                membership::Action::Invite(placed) => {
                    if let Some(leader) = &self.leader {
                        leader.invite(&placed, environment);
                    }
                }
                membership::Action::Suspend => self.close(environment),
                membership::Action::Depose(generation) => {
                    let now = environment.queue.now();
                    environment.trace.event(now, [12, me as u64, generation.0], || {
                        format!("{} learns of generation {generation}, begun by another", self.life)
                    });
                    self.deposed = true;
                }
            }
        }
        Ok(())
    }

    /// Stops the generation that runs.
    fn close(&mut self, environment: &mut Environment) {
        if self.leader.take().is_some() {
            environment.dropped.push(self.life.node);
        }
        self.appender.close(self.life, environment);
    }

    fn begin(&mut self, generation: u64, placed: &[Seated<usize>], environment: &mut Environment) -> Checked {
        let me = self.life.node;
        let members: Arc<[usize]> = placed.iter().map(|placed| placed.place).collect();
        let placement = Arc::new(place(members.len() as u16, environment));
        let log = records(environment.disk.read())?;
        let now = environment.queue.now();
        let numbers = [13, me as u64, generation, members.len() as u64, log.len() as u64];
        environment.trace.event(now, numbers, || {
            format!(
                "{} begins generation {generation} with {} and {} epochs",
                self.life,
                members.iter().map(|member| format!("w{member}")).collect::<Vec<_>>().join(" "),
                log.len()
            )
        });
        environment.figures.generations += 1;
        environment.checker.opened(&log, environment.disk.trimmed())?;
        let life = Life { part: generation, ..self.life };
        let snapshot = environment.take_over(life, generation)?;
        let restored = snapshot.clone().filter(|snapshot| snapshot.frame.epoch > Epoch(0));
        environment.checker.placed(placement.clone(), restored.as_ref().map(|snapshot| snapshot.number));
        let summaries = members.iter().map(|_| VecDeque::new()).collect();
        let seen = GenerationView {
            placement: placement.clone(),
            members: members.clone(),
            summaries,
            queries: vec![],
            live: false,
        };
        let before = environment.generations.insert(generation, seen);
        ensure(before.is_none(), "membership", || format!("generation {generation} begins twice"))?;
        environment.gateways.coordinator = me;
        let config = Config { generation: Generation(generation), ..environment.plan.config };
        let peers = members.iter().enumerate().map(|(at, node)| (Peer::Worker(WorkerId(at as u16)), *node));
        let mut machine = Coordinator::new(config.coordinator(), placement.clone());
        if let Some(Manifest { frame, carried, .. }) = restored.as_deref() {
            machine.restore(frame, carried.iter().map(|carried| carried.tid).collect());
        }
        let from = machine.position().0;
        let durable = environment.disk.durable();
        let scheduler = snapshot
            .map(|snapshot| SnapshotScheduler::new(life, generation, members.len(), snapshot, durable, environment));
        let leader = LeaderState {
            life,
            generation,
            machine,
            scheduler,
            snapshot: restored,
            links: Links::new(me, generation, peers, environment),
            members,
            placement,
            backlog: log.into_iter().filter(|record| record.epoch > from).collect(),
            live: false,
            kept: false,
            ticking: false,
            round: None,
        };
        placed.iter().for_each(|placed| leader.invite(placed, environment));
        self.leader = Some(leader);
        Ok(())
    }

    /// Replays the next record, goes live, or has the next epoch cut some time.
    fn advance(&mut self, environment: &mut Environment) -> Checked {
        let Some(leader) = &mut self.leader else { return Ok(()) };
        if !leader.live && leader.machine.is_idle() {
            match leader.backlog.pop_front() {
                Some(record) => {
                    environment.figures.replayed += 1;
                    leader.round = Some(record.epoch);
                    environment.checker.cut(&record)?;
                    leader.step(Input::Replay(record), &mut self.appender, &mut self.deposed, environment)?;
                }
                None => {
                    let generation = leader.go_live(&mut self.appender, &mut self.deposed, environment)?;
                    self.member(membership::Input::Live(Generation(generation)), environment)?;
                }
            }
        }
        if let Some(leader) = &mut self.leader {
            if let Some(scheduler) = &mut leader.scheduler {
                // Who was replaced writes no more, as far as it knows.
                if environment.disk.fence().admits(Generation(leader.generation)) {
                    scheduler.advance(environment)?
                } else {
                    self.deposed = true
                }
            }
            leader.pace(environment);
            if leader.machine.is_drained() && environment.disk.durable() >= leader.machine.position().0 {
                return self.rested(environment);
            }
        }
        Ok(())
    }

    /// The generation has come to a rest: the next one may begin, perhaps after a snapshot.
    fn rested(&mut self, environment: &mut Environment) -> Checked {
        let Some(leader) = &mut self.leader else { return Ok(()) };
        let generation = leader.generation;
        if !leader.kept && environment.random.chance(800) {
            // Not yet, if another snapshot is under way; but not for ever.
            let reached = leader.machine.position().0;
            leader.kept = leader.scheduler.as_mut().is_some_and(|scheduler| scheduler.begin(Some(reached)));
            if leader.kept {
                leader.step(Input::Snapshot, &mut self.appender, &mut self.deposed, environment)?;
                return self.advance(environment);
            }
        }
        if leader.scheduler.as_ref().is_none_or(SnapshotScheduler::is_quiet) {
            self.member(membership::Input::Drained(Generation(generation)), environment)?;
        }
        Ok(())
    }

    /// After all is over.
    pub(super) fn check(&self, environment: &Environment) -> Checked {
        let epoch = environment.checker.epoch();
        ensure(epoch == environment.disk.durable(), "liveness", || {
            format!("epoch {epoch} never becomes durable; {} is", environment.disk.durable())
        })
    }
}

/// Placement of a generation of so many workers.
fn place(workers: u16, environment: &mut Environment) -> Placement {
    let partitions = environment.plan.config.layout.partitions;
    if !environment.plan.cluster.scattered {
        return Placement::round_robin(partitions, workers);
    }
    let random = &mut environment.random;
    let owners = (0..partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16)).collect();
    Placement::new(owners, workers)
}

impl LeaderState {
    fn invite(&self, placed: &Seated<usize>, environment: &mut Environment) {
        let invitation = Invitation {
            generation: self.generation,
            life: placed.life,
            coordinator: self.life.node,
            members: self.members.clone(),
            placement: self.placement.clone(),
            snapshot: self.snapshot.clone(),
        };
        environment.send(self.life.node, placed.place, Packet::Invitation(invitation));
    }

    fn go_live(&mut self, appender: &mut Appender, deposed: &mut bool, environment: &mut Environment) -> Checked<u64> {
        self.live = true;
        let now = environment.queue.now();
        environment.trace.event(now, [14, self.generation], || format!("generation {} is live", self.generation));
        self.links.send_all(&Parcel::Live, environment);
        let durable = environment.disk.durable();
        self.step(Input::Durable(durable), appender, deposed, environment)?;
        if let Some(seen) = environment.generations.get_mut(&self.generation) {
            seen.live = true;
        }
        for gateway in 0..environment.gateways.views.len() {
            let delay = environment.random.between(0, 20_000);
            environment.queue.after(&mut environment.random, delay, Event::Learn(gateway, self.generation));
        }
        Ok(self.generation)
    }

    /// Whether it is time for a snapshot.
    fn due(&mut self, environment: &mut Environment) -> bool {
        let reached = self.live.then(|| self.machine.position().0);
        self.scheduler.as_mut().is_some_and(|scheduler| scheduler.due(reached, environment))
    }

    /// A worker has written its part of a snapshot.
    fn written(&mut self, from: Peer, written: Written) {
        let (Peer::Worker(worker), Some(scheduler)) = (from, &mut self.scheduler) else {
            panic!("workers write parts of snapshots that were begun");
        };
        scheduler.written(worker, written);
    }

    /// Has the next epoch cut some time, if there is anything to cut.
    fn pace(&mut self, environment: &mut Environment) {
        if self.live && !self.ticking && self.machine.is_idle() && self.machine.has_work() {
            self.ticking = true;
            let delay = environment.delay(environment.plan.pace);
            environment.later(self.life, delay, NodeEvent::Tick);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(
        &mut self,
        input: Input<u64>,
        appender: &mut Appender,
        deposed: &mut bool,
        environment: &mut Environment,
    ) -> Checked {
        let mut actions = Vec::new();
        let mut letters: Vec<(Peer, Vec<Told>)> = Vec::new();
        self.machine.step(input, &mut actions);
        for action in actions {
            match action {
                Action::Send { to, message } => {
                    if matches!(message, Told::Settle { .. })
                        && !environment.disk.fence().admits(Generation(self.generation))
                    {
                        // Read-only requests would be answered from a state that is over.
                        *deposed = true;
                        return Ok(());
                    }
                    if matches!(message, Told::Settle { .. }) {
                        // All workers have executed: what queries come to rests on the state of now.
                        let seen = environment.generations.get_mut(&self.generation);
                        let queries = seen.map_or_else(Vec::new, |seen| std::mem::take(&mut seen.queries));
                        environment.expect_queries(queries);
                    }
                    let to = Peer::Worker(to);
                    match letters.iter_mut().find(|(peer, _)| *peer == to) {
                        Some((_, messages)) => messages.push(message),
                        None => letters.push((to, vec![message])),
                    }
                }
                Action::Append(record) => {
                    if !environment.disk.fence().admits(Generation(self.generation)) {
                        // Somebody else leads now; this process must stop.
                        *deposed = true;
                        return Ok(());
                    }
                    environment.cut(self.life, &record)?;
                    self.round = Some(record.epoch);
                    appender.append(record, Life { part: 0, ..self.life }, environment);
                }
                Action::Snapshot(frame) => {
                    if environment.newest() == self.generation {
                        environment.checker.expectation(&frame)?;
                    }
                    self.scheduler.as_mut().expect("it has requested a snapshot").frame(frame);
                }
                Action::Finished(summary) => self.finished(&summary, environment)?,
                Action::Fault(fault) => return Err(crate::check::Failure::new("peer", fault.to_string())),
                Action::Expel { worker, expected, found } => {
                    let message = format!("worker {worker} has deployed {found:x}, not {expected:x}");
                    return Err(crate::check::Failure::new("deployment", message));
                }
                Action::Controlled { waiter, result } => environment.respond_controlled(self.life, waiter, &result)?,
            }
        }
        letters.into_iter().try_for_each(|(to, messages)| self.links.send(to, messages, environment))
    }

    fn finished(&mut self, summary: &EpochSummary, environment: &mut Environment) -> Checked {
        let epoch = self.round.take();
        let newest = environment.newest() == self.generation;
        let Some(seen) = environment.generations.get_mut(&self.generation) else { return Ok(()) };
        let summaries: Option<Vec<EpochSummary>> = seen.summaries.iter_mut().map(VecDeque::pop_front).collect();
        let summaries = summaries.expect("a round ends when it has ended at all workers");
        if !newest {
            return Ok(()); // Of a replaced coordinator, before it notices.
        }
        if self.live {
            environment.count(&summaries, self.members.len() > 1);
        }
        let ended = Ended::of(summaries, summary.chain);
        environment.finished(self.life, epoch, ended)?;
        environment.ended = Some(self.generation);
        Ok(())
    }
}
