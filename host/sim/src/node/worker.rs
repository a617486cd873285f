//! A process that is a worker: it says hello until it is invited, and is part of one generation at
//! a time.

use std::sync::Arc;

use styx_protocol::ids::{Generation, PartitionId};
use styx_protocol::machine::worker::{Action, ClientRequest, ClientResponse, Input};
use styx_protocol::machine::{Config, Worker};
use styx_protocol::membership::{Beat, Build, Doubt, Member};
use styx_protocol::message::{Message as Told, Node as Peer};
use styx_protocol::route::memory_of;
use styx_protocol::snapshot::RetainedState;
use styx_protocol::task::LocalView;

use super::links::Links;
use super::pool::{ExecutionPool, Inputs};
use super::snapshots::DeltaWriter;
use crate::check::state::WorkerState;
use crate::check::{Checked, ensure};
use crate::environment::Environment;
use crate::event::{Life, Message, NodeEvent};
use crate::store::Manifest;
use crate::wire::{Invitation, Packet, Parcel};

/// A process that works, as a member of a generation or not.
#[derive(Debug)]
pub(super) struct WorkerNode {
    life: Life,
    member: Member,
    part: Option<Part>,
    /// State retained from the last generation.
    remains: Option<RetainedState>,
    released: bool,
}

/// Its part of a generation.
#[derive(Debug)]
struct Part {
    life: Life,
    generation: u64,
    machine: Worker<u64>,
    pool: ExecutionPool,
    links: Links,
    delta_writer: DeltaWriter,
    /// Snapshot that it begins with, until it has read it; and the packets that have come meanwhile.
    loading: Option<(Arc<Manifest>, Inputs)>,
    /// Clients may come.
    live: bool,
    /// Clients whose requests are not known here, until it is sure that nobody else is asked since;
    /// and whether they must be known.
    doubts: Vec<(Doubt, u64, bool)>,
}

impl WorkerNode {
    /// A process that has just started. Its life's events begin.
    pub(super) fn new(life: Life, environment: &mut Environment) -> Self {
        let engine = environment.plan.cluster.engine_of(life.node);
        let member = Member::new(u64::from(life.number), Build { version: "1".into(), engine });
        environment.later(life, 0, NodeEvent::Heartbeat);
        WorkerNode { life, member, part: None, remains: None, released: false }
    }

    /// Whether an event of this generation, or of none, is for it.
    pub(super) fn works_in(&self, generation: u64) -> bool {
        generation == 0 || self.part.as_ref().is_some_and(|part| part.generation == generation)
    }

    /// Its state, if it is a member of a generation.
    pub(super) fn worker_state(&self, generation: u64) -> Option<WorkerState<'_>> {
        let part = self.part.as_ref().filter(|part| part.generation == generation)?;
        Some(WorkerState { state: part.machine.state(), remembered: part.machine.remembered() })
    }

    /// Whether nothing is left to be done in this generation.
    pub(super) fn is_quiet(&self, generation: u64) -> bool {
        let quiet =
            |part: &Part| part.live && part.loading.is_none() && part.machine.is_idle() && !part.machine.has_work();
        self.part.as_ref().is_some_and(|part| part.generation == generation && quiet(part))
    }

    /// A client's message; only a worker that may answer it does.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, environment: &mut Environment) -> Checked {
        let waiter = attempt as u64;
        let Some(part) = self.part.as_mut().filter(|part| part.live) else {
            environment.break_connection(attempt);
            return Ok(());
        };
        let seat = part.machine.view();
        let kept = match &message {
            Message::Submit(request, _) if request.retained => Some(request.id),
            Message::Await(id) => Some(*id),
            _ => None,
        };
        if kept.is_some_and(|id| memory_of(id, &seat.placement) != seat.me) {
            environment.figures.misdirected += 1;
            environment.break_connection(attempt);
            return Ok(());
        }
        let request = match message {
            Message::Submit(request, receipt) => ClientRequest::Submit { request, waiter, receipt },
            Message::Query(request) => ClientRequest::Query { request: (*request).clone(), waiter },
            Message::Await(id) => ClientRequest::Await { id, waiter },
            Message::Control(_) => panic!("deployments go to the coordinator"),
        };
        part.step([Input::Client(request)].into(), environment)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, environment: &mut Environment) -> Checked {
        match event {
            NodeEvent::Heartbeat => {
                self.pulse(environment);
                Ok(())
            }
            NodeEvent::BatchShare(job, thread) => self.work(environment, |pool, inputs, environment| {
                pool.share_done(job, thread, inputs, environment);
            }),
            NodeEvent::TaskDone(task) => self.work(environment, |pool, inputs, _| pool.task_done(task, inputs)),
            NodeEvent::HandOver => self.work(environment, |_, inputs, _| inputs.push_back(Input::HandOver)),
            NodeEvent::Uploaded => {
                self.part.as_mut().into_iter().for_each(|part| part.uploaded(environment));
                Ok(())
            }
            NodeEvent::Loaded => {
                let remains = self.remains.take();
                self.part.as_mut().map_or(Ok(()), |part| part.loaded(remains, environment))
            }
            NodeEvent::Tick
            | NodeEvent::Synced(..)
            | NodeEvent::FenceRaised(..)
            | NodeEvent::SnapshotDue
            | NodeEvent::Put(_) => {
                panic!("this is for coordinators")
            }
        }
    }

    fn work(
        &mut self,
        environment: &mut Environment,
        done: impl FnOnce(&mut ExecutionPool, &mut Inputs, &mut Environment),
    ) -> Checked {
        let Some(part) = &mut self.part else { return Ok(()) };
        let mut inputs = Inputs::new();
        done(&mut part.pool, &mut inputs, environment);
        part.step(inputs, environment)
    }

    fn pulse(&mut self, environment: &mut Environment) {
        let mut silent = Vec::new();
        if let Some(part) = &mut self.part {
            part.links.pulse(environment);
            silent = part.links.silent(environment);
        }
        for coordinator in environment.plan.coordinators() {
            environment.send(self.life.node, coordinator, Packet::Hello(self.member.hello(silent.clone())));
        }
        let beat = environment.plan.cluster.heartbeat;
        let delay = environment.random.between(beat / 2, beat);
        environment.later(self.life, delay, NodeEvent::Heartbeat);
    }

    /// Another node's packet.
    pub(super) fn packet(&mut self, from: usize, packet: Packet, environment: &mut Environment) -> Checked {
        match packet {
            Packet::Beat(beat) => {
                if self.member.beat(beat) {
                    self.leave(environment)?;
                }
                self.part.as_mut().map_or(Ok(()), |part| part.hear(beat, environment))
            }
            Packet::Refusal => {
                environment.figures.refused += 1;
                Ok(())
            }
            Packet::Release => {
                self.released = true;
                Ok(())
            }
            Packet::Invitation(invitation) => {
                if self.member.invited(Generation(invitation.generation), invitation.life) {
                    self.leave(environment)?;
                    self.join(invitation, environment);
                }
                Ok(())
            }
            Packet::Frame(frame) => {
                let Some(part) = &mut self.part else {
                    environment.figures.stale += 1;
                    return Ok(());
                };
                let (peer, parcels) = part.links.receive(from, *frame, environment);
                let mut inputs = Inputs::new();
                for parcel in parcels {
                    match parcel {
                        Parcel::Live => part.live = true,
                        Parcel::Written(_) => panic!("this is for coordinators"),
                        Parcel::Messages(messages) => {
                            let from = peer.expect("delivered by a link");
                            inputs.extend(messages.into_iter().map(|message| Input::Message { from, message }));
                        }
                    }
                }
                part.step(inputs, environment)
            }
            Packet::Hello(_) => panic!("workers say hello to coordinators"),
        }
    }

    /// It is asked to stop, and asks to be let go.
    pub(super) fn retire(&mut self) {
        self.member.leave();
    }

    /// Whether it was let go.
    pub(super) fn is_released(&self) -> bool {
        self.released
    }

    /// Drops everything of the generation that it was part of.
    fn leave(&mut self, environment: &mut Environment) -> Checked {
        if let Some(mut part) = self.part.take() {
            let mut actions = Vec::new();
            part.machine.drain(&mut actions);
            for action in actions {
                if let Action::Respond(responses) = action {
                    for response in responses {
                        environment.tell(part.life, response)?;
                    }
                }
            }
            let now = environment.queue.now();
            environment.trace.event(now, [10, self.life.node as u64, part.generation], || {
                format!("{} leaves generation {}", self.life, part.generation)
            });
            environment.dropped.push(self.life.node);
            if part.loading.is_none() {
                self.remains = part.machine.into_retained().ok();
            }
        }
        Ok(())
    }

    fn join(&mut self, invitation: Invitation, environment: &mut Environment) {
        let Invitation { generation, coordinator, members, placement, snapshot, .. } = invitation;
        let place = members.iter().position(|member| *member == self.life.node).expect("a member is invited");
        let me = styx_protocol::ids::WorkerId(place as u16);
        let now = environment.queue.now();
        environment.trace.event(now, [11, self.life.node as u64, generation, place as u64], || {
            format!("{} joins generation {generation} as worker {me}", self.life)
        });
        let workers = members.iter().enumerate().filter(|(at, _)| *at != place);
        let workers = workers.map(|(at, node)| (Peer::Worker(styx_protocol::ids::WorkerId(at as u16)), *node));
        let peers = workers.chain([(Peer::Coordinator, coordinator)]);
        let links = Links::new(self.life.node, generation, peers, environment);
        let hand_over_max = environment.plan.snapshotting.chunk;
        let config = Config { generation: Generation(generation), hand_over_max, ..environment.plan.config };
        let machine = Worker::new(config.worker(), LocalView { me, placement });
        let deviating = environment.plan.cluster.engine_of(self.life.node) != environment.plan.config.engine;
        let life = Life { part: generation, ..self.life };
        let pool = ExecutionPool::new(life, deviating, environment);
        if snapshot.is_some() {
            let delay = environment.delay(environment.plan.snapshotting.store);
            environment.later(life, delay, NodeEvent::Loaded);
        }
        self.part = Some(Part {
            life,
            generation,
            machine,
            pool,
            links,
            delta_writer: DeltaWriter::default(),
            loading: snapshot.map(|snapshot| (snapshot, Inputs::new())),
            live: false,
            doubts: vec![],
        });
    }
}

impl Part {
    /// A beat has come: what this worker does not know, nobody knows, unless another generation has begun.
    fn hear(&mut self, beat: Beat, environment: &mut Environment) -> Checked {
        for (mut doubt, waiter, known) in std::mem::take(&mut self.doubts) {
            if doubt.hear(beat, Generation(self.generation)) {
                environment.respond_unknown(self.life, waiter, known)?
            } else {
                self.doubts.push((doubt, waiter, known))
            }
        }
        Ok(())
    }

    /// The snapshot is read: the machine begins with it, and what has come meanwhile follows.
    fn loaded(&mut self, remains: Option<RetainedState>, environment: &mut Environment) -> Checked {
        let Some((snapshot, inputs)) = self.loading.take() else { return Ok(()) };
        if environment.newest() != self.generation {
            // It may be there no more, and nobody waits for it.
            self.loading = Some((snapshot, inputs));
            return Ok(());
        }
        let LocalView { me, placement } = self.machine.view().clone();
        let owns = |partition| placement.owner(partition) == me;
        let held = |partition| remains.as_ref().is_some_and(|remains| remains.hold(&snapshot.frame, partition));
        let mut restored = environment.store.load(&snapshot, |partition| owns(partition) && !held(partition))?;
        environment.figures.remained +=
            (0..placement.partitions()).map(|id| PartitionId(id as u16)).filter(|id| owns(*id) && held(*id)).count()
                as u64;
        if let Some(remains) = remains {
            remains.complete(&mut restored, placement.partitions(), owns);
        }
        self.machine.restore(restored);
        environment.checker.restored(snapshot.number, self.machine.state())?;
        environment.learn(self.machine.catalog());
        self.step(inputs, environment)
    }

    /// Its part of a snapshot may be written: then the coordinator is told.
    fn uploaded(&mut self, environment: &mut Environment) {
        if let Some(written) = self.delta_writer.uploaded(self.generation, self.life, environment) {
            self.links.send_parcel(Peer::Coordinator, Parcel::Written(Box::new(written)), environment);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(&mut self, mut inputs: Inputs, environment: &mut Environment) -> Checked {
        if let Some((_, waiting)) = &mut self.loading {
            waiting.append(&mut inputs);
            return Ok(());
        }
        let mut actions = Vec::new();
        let mut letters: Vec<(Peer, Vec<Told>)> = Vec::new();
        while let Some(input) = inputs.pop_front() {
            self.machine.step(input, &mut actions);
            for action in actions.drain(..) {
                match action {
                    // All messages of one step and one destination travel together.
                    Action::Send { to, message } => match letters.iter_mut().find(|(peer, _)| *peer == to) {
                        Some((_, messages)) => messages.push(message),
                        None => letters.push((to, vec![message])),
                    },
                    action => self.perform(action, &mut inputs, environment)?,
                }
            }
        }
        letters.into_iter().try_for_each(|(to, messages)| self.links.send(to, messages, environment))
    }

    fn perform(&mut self, action: Action<u64>, inputs: &mut Inputs, environment: &mut Environment) -> Checked {
        let me = self.machine.view().me;
        let seen = environment.generations.get_mut(&self.generation);
        match action {
            Action::Execute(batch) => {
                if let Some(seen) = seen {
                    seen.queries.extend(batch.queries.iter().cloned());
                }
                environment.learn(&batch.catalog);
                self.pool.execute(batch, inputs, environment);
            }
            Action::RunTasks(tasks) => self.pool.advance(tasks, inputs, environment),
            Action::Fault(fault) => return Err(crate::check::Failure::new("peer", fault.to_string())),
            Action::FallBack(batch) => self.pool.fall_back(batch, inputs, environment),
            Action::Finished(summary) => {
                let waiting = self.pool.waiting();
                ensure(waiting == 0, "guests", || format!("{waiting} guests wait at {} after the round", self.life))?;
                if let Some(seen) = seen {
                    seen.summaries[usize::from(me.0)].push_back(summary);
                }
            }
            Action::WorkerSnapshot(part) => self.delta_writer.part(part, self.life, environment),
            Action::Changes { changes, last } => self.delta_writer.changes(changes, last, self.life, environment),
            Action::Logs { .. } => {}
            Action::Respond(responses) => {
                for response in responses {
                    if let ClientResponse::Unknown { waiter } = response {
                        let known = environment.history.is_known(waiter as usize, &environment.checker);
                        self.doubts.push((Doubt::default(), waiter, known));
                    } else {
                        environment.tell(self.life, response)?;
                    }
                }
            }
            Action::Send { .. } => panic!("messages travel together"),
        }
        Ok(())
    }
}
