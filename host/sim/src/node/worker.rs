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

use super::crew::{Crew, Inputs};
use super::links::Links;
use super::snapshots::Collector;
use super::{Life, Message, NodeEvent, Outside};
use crate::check::state::Holdings;
use crate::check::{Checked, ensure};
use crate::store::Manifest;
use crate::wire::{Invitation, Packet, Parcel};

/// See the module.
#[derive(Debug)]
pub(super) struct WorkerNode {
    life: Life,
    member: Member,
    part: Option<Part>,
    /// What is left of the last one.
    remains: Option<RetainedState>,
    released: bool,
}

/// Its part of a generation.
#[derive(Debug)]
struct Part {
    life: Life,
    generation: u64,
    machine: Worker<u64>,
    crew: Crew,
    links: Links,
    collector: Collector,
    /// What it begins with, until it has read it; and what has come meanwhile.
    loading: Option<(Arc<Manifest>, Inputs)>,
    /// Clients may come.
    live: bool,
    /// Clients whose requests are not known here, until it is sure that nobody else is asked since;
    /// and whether they must be known.
    doubts: Vec<(Doubt, u64, bool)>,
}

impl WorkerNode {
    /// A process that has just started. Its life's events begin.
    pub(super) fn new(life: Life, outside: &mut Outside) -> Self {
        let engine = outside.plan.cluster.engine_of(life.node);
        let member = Member::new(u64::from(life.number), Build { version: "1".into(), engine });
        outside.later(life, 0, NodeEvent::Pulse);
        WorkerNode { life, member, part: None, remains: None, released: false }
    }

    /// Whether an event of this generation, or of none, is for it.
    pub(super) fn works_in(&self, generation: u64) -> bool {
        generation == 0 || self.part.as_ref().is_some_and(|part| part.generation == generation)
    }

    /// What it holds, if it is part of a generation.
    pub(super) fn holdings(&self, generation: u64) -> Option<Holdings<'_>> {
        let part = self.part.as_ref().filter(|part| part.generation == generation)?;
        Some(Holdings { state: part.machine.state(), remembered: part.machine.remembered() })
    }

    /// Whether nothing is left to be done in this generation.
    pub(super) fn is_quiet(&self, generation: u64) -> bool {
        let quiet =
            |part: &Part| part.live && part.loading.is_none() && part.machine.is_idle() && !part.machine.has_work();
        self.part.as_ref().is_some_and(|part| part.generation == generation && quiet(part))
    }

    /// A client's message; only a worker that may answer it does.
    pub(super) fn hear(&mut self, attempt: usize, message: Message, outside: &mut Outside) -> Checked {
        let waiter = attempt as u64;
        let Some(part) = self.part.as_mut().filter(|part| part.live) else {
            outside.break_connection(attempt);
            return Ok(());
        };
        let seat = part.machine.seat();
        let kept = match &message {
            Message::Submit(request, _) if request.retained => Some(request.id),
            Message::Await(id) => Some(*id),
            _ => None,
        };
        if kept.is_some_and(|id| memory_of(id, &seat.placement) != seat.me) {
            outside.figures.misdirected += 1;
            outside.break_connection(attempt);
            return Ok(());
        }
        let request = match message {
            Message::Submit(request, receipt) => ClientRequest::Submit { request, waiter, receipt },
            Message::Query(request) => ClientRequest::Query { request: (*request).clone(), waiter },
            Message::Await(id) => ClientRequest::Await { id, waiter },
            Message::Control(_) => panic!("deployments go to the coordinator"),
        };
        part.step([Input::Client(request)].into(), outside)
    }

    /// Something happens to the process.
    pub(super) fn take(&mut self, event: NodeEvent, outside: &mut Outside) -> Checked {
        match event {
            NodeEvent::Pulse => {
                self.pulse(outside);
                Ok(())
            }
            NodeEvent::Share(job, thread) => self.work(outside, |crew, inputs, outside| {
                crew.share_done(job, thread, inputs, outside);
            }),
            NodeEvent::Piece(task) => self.work(outside, |crew, inputs, _| crew.piece_done(task, inputs)),
            NodeEvent::HandOver => self.work(outside, |_, inputs, _| inputs.push_back(Input::HandOver)),
            NodeEvent::Uploaded => {
                self.part.as_mut().into_iter().for_each(|part| part.uploaded(outside));
                Ok(())
            }
            NodeEvent::Loaded => {
                let remains = self.remains.take();
                self.part.as_mut().map_or(Ok(()), |part| part.loaded(remains, outside))
            }
            NodeEvent::Tick | NodeEvent::Synced(..) | NodeEvent::Raised(..) | NodeEvent::Wish | NodeEvent::Put(_) => {
                panic!("this is for coordinators")
            }
        }
    }

    fn work(&mut self, outside: &mut Outside, done: impl FnOnce(&mut Crew, &mut Inputs, &mut Outside)) -> Checked {
        let Some(part) = &mut self.part else { return Ok(()) };
        let mut inputs = Inputs::new();
        done(&mut part.crew, &mut inputs, outside);
        part.step(inputs, outside)
    }

    fn pulse(&mut self, outside: &mut Outside) {
        let mut silent = Vec::new();
        if let Some(part) = &mut self.part {
            part.links.pulse(outside);
            silent = part.links.silent(outside);
        }
        for coordinator in outside.plan.coordinators() {
            outside.send(self.life.node, coordinator, Packet::Hello(self.member.hello(silent.clone())));
        }
        let beat = outside.plan.cluster.heartbeat;
        let delay = outside.random.between(beat / 2, beat);
        outside.later(self.life, delay, NodeEvent::Pulse);
    }

    /// Another node's packet.
    pub(super) fn packet(&mut self, from: usize, packet: Packet, outside: &mut Outside) -> Checked {
        match packet {
            Packet::Beat(beat) => {
                if self.member.beat(beat) {
                    self.leave(outside)?;
                }
                self.part.as_mut().map_or(Ok(()), |part| part.hear(beat, outside))
            }
            Packet::Refusal => {
                outside.figures.refused += 1;
                Ok(())
            }
            Packet::Release => {
                self.released = true;
                Ok(())
            }
            Packet::Invitation(invitation) => {
                if self.member.invited(Generation(invitation.generation), invitation.life) {
                    self.leave(outside)?;
                    self.join(invitation, outside);
                }
                Ok(())
            }
            Packet::Frame(frame) => {
                let Some(part) = &mut self.part else {
                    outside.figures.stale += 1;
                    return Ok(());
                };
                let (peer, parcels) = part.links.receive(from, *frame, outside);
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
                part.step(inputs, outside)
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
    fn leave(&mut self, outside: &mut Outside) -> Checked {
        if let Some(mut part) = self.part.take() {
            let mut actions = Vec::new();
            part.machine.leave(&mut actions);
            for action in actions {
                if let Action::Respond(response) = action {
                    outside.tell(part.life, response)?;
                }
            }
            let now = outside.queue.now();
            outside.trace.event(now, [10, self.life.node as u64, part.generation], || {
                format!("{} leaves generation {}", self.life, part.generation)
            });
            outside.dropped.push(self.life.node);
            if part.loading.is_none() {
                self.remains = part.machine.into_retained().ok();
            }
        }
        Ok(())
    }

    fn join(&mut self, invitation: Invitation, outside: &mut Outside) {
        let Invitation { generation, coordinator, members, placement, snapshot, .. } = invitation;
        let place = members.iter().position(|member| *member == self.life.node).expect("a member is invited");
        let me = styx_protocol::ids::WorkerId(place as u16);
        let now = outside.queue.now();
        outside.trace.event(now, [11, self.life.node as u64, generation, place as u64], || {
            format!("{} joins generation {generation} as worker {me}", self.life)
        });
        let workers = members.iter().enumerate().filter(|(at, _)| *at != place);
        let workers = workers.map(|(at, node)| (Peer::Worker(styx_protocol::ids::WorkerId(at as u16)), *node));
        let peers = workers.chain([(Peer::Coordinator, coordinator)]);
        let links = Links::new(self.life.node, generation, peers, outside);
        let config = Config { generation: Generation(generation), ..outside.plan.config };
        let mut machine = Worker::new(config.worker(), LocalView { me, placement });
        machine.hand_over_most(outside.plan.snapshotting.chunk);
        let strange = outside.plan.cluster.engine_of(self.life.node) != outside.plan.config.engine;
        let life = Life { part: generation, ..self.life };
        let crew = Crew::new(life, strange, outside);
        if snapshot.is_some() {
            let delay = outside.delay(outside.plan.snapshotting.store);
            outside.later(life, delay, NodeEvent::Loaded);
        }
        self.part = Some(Part {
            life,
            generation,
            machine,
            crew,
            links,
            collector: Collector::default(),
            loading: snapshot.map(|snapshot| (snapshot, Inputs::new())),
            live: false,
            doubts: vec![],
        });
    }
}

impl Part {
    /// A beat has come: what this worker does not know, nobody knows, unless another generation has begun.
    fn hear(&mut self, beat: Beat, outside: &mut Outside) -> Checked {
        for (mut doubt, waiter, known) in std::mem::take(&mut self.doubts) {
            if doubt.hear(beat, Generation(self.generation)) {
                outside.tell_unknown(self.life, waiter, known)?
            } else {
                self.doubts.push((doubt, waiter, known))
            }
        }
        Ok(())
    }

    /// The snapshot is read: the machine begins with it, and what has come meanwhile follows.
    fn loaded(&mut self, remains: Option<RetainedState>, outside: &mut Outside) -> Checked {
        let Some((snapshot, inputs)) = self.loading.take() else { return Ok(()) };
        if outside.newest() != self.generation {
            // It may be there no more, and nobody waits for it.
            self.loading = Some((snapshot, inputs));
            return Ok(());
        }
        let LocalView { me, placement } = self.machine.seat().clone();
        let owns = |partition| placement.owner(partition) == me;
        let held = |partition| remains.as_ref().is_some_and(|remains| remains.hold(&snapshot.frame, partition));
        let mut restored = outside.store.load(&snapshot, |partition| owns(partition) && !held(partition))?;
        outside.figures.remained +=
            (0..placement.partitions()).map(PartitionId).filter(|id| owns(*id) && held(*id)).count() as u64;
        if let Some(remains) = remains {
            remains.complete(&mut restored, placement.partitions(), owns);
        }
        self.machine.restore(restored);
        outside.judge.restored(snapshot.number, self.machine.state())?;
        outside.learn(self.machine.catalog());
        self.step(inputs, outside)
    }

    /// Its part of a snapshot may be written: then the coordinator is told.
    fn uploaded(&mut self, outside: &mut Outside) {
        if let Some(written) = self.collector.uploaded(self.generation, self.life, outside) {
            self.links.send_parcel(Peer::Coordinator, Parcel::Written(Box::new(written)), outside);
        }
    }

    /// Steps the machine and does what it says, as the real driver does.
    fn step(&mut self, mut inputs: Inputs, outside: &mut Outside) -> Checked {
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
                    action => self.perform(action, &mut inputs, outside)?,
                }
            }
        }
        letters.into_iter().try_for_each(|(to, messages)| self.links.send(to, messages, outside))
    }

    fn perform(&mut self, action: Action<u64>, inputs: &mut Inputs, outside: &mut Outside) -> Checked {
        let me = self.machine.seat().me;
        let seen = outside.generations.get_mut(&self.generation);
        match action {
            Action::Execute(batch) => {
                if let Some(seen) = seen {
                    seen.queries.extend(batch.queries.iter().cloned());
                }
                outside.learn(&batch.catalog);
                self.crew.execute(batch, inputs, outside);
            }
            Action::RunTasks(tasks) => self.crew.advance(tasks, inputs, outside),
            Action::FallBack(batch) => self.crew.fall_back(batch, inputs, outside),
            Action::Finished(summary) => {
                let waiting = self.crew.waiting();
                ensure(waiting == 0, "guests", || format!("{waiting} guests wait at {} after the round", self.life))?;
                if let Some(seen) = seen {
                    seen.summaries[usize::from(me.0)].push_back(summary);
                }
            }
            Action::WorkerSnapshot(part) => self.collector.part(part, self.life, outside),
            Action::Changes { changes, last } => self.collector.changes(changes, last, self.life, outside),
            Action::Logs { .. } => {}
            Action::Respond(ClientResponse::Unknown { waiter }) => {
                let known = outside.testimony.is_known(waiter as usize, &outside.judge);
                self.doubts.push((Doubt::default(), waiter, known));
            }
            Action::Respond(response) => outside.tell(self.life, response)?,
            Action::Send { .. } => panic!("messages travel together"),
        }
        Ok(())
    }
}
