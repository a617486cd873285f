//! One simulated world, from its seed to its last check.

use std::sync::Arc;

use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::placement::Placement;

use crate::check::judge::{Judge, again};
use crate::check::testimony::{Asked, Testimony};
use crate::check::{Checked, Failure};
use crate::clients::Clients;
use crate::disk::Disk;
use crate::node::{Answer, Figures, Gateways, Life, Message, Node, NodeEvent, Outside, Role, Threads};
use crate::plan::{FAULTS, Plan};
use crate::queue::Queue;
use crate::random::Random;
use crate::replay;
use crate::store::{Manifest, Store};
use crate::trace::Trace;
use crate::wire::{Packet, Wire};

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// To a process, in this life of its.
    Node(Life, NodeEvent),
    /// A packet of a node reaches another.
    Packet(usize, usize, Packet),
    /// A manifest, sent in this life of a node, reaches the store.
    Put(Life, Arc<Manifest>),
    /// A client's message (the attempt, and what it says) reaches a node.
    Message(usize, usize, Message),
    /// An answer from a life of a node (or from its kernel) reaches the client of an attempt.
    Answer(Option<Life>, usize, Answer),
    /// A client has waited long enough.
    Timeout(usize),
    /// A client's slot goes on.
    Wake(usize),
    /// A gateway learns of a generation.
    Learn(usize, u64),
    /// The administrator deploys.
    Deploy,
    /// A node starts (again).
    Start(usize),
    /// A node's disk is quick again.
    Quick(usize),
    /// The cluster may have this many members.
    Resize(u16),
    /// A fault of this kind.
    Fault(usize),
}

/// Once faults have stopped, an epoch ends or a client is answered at least so often, in microseconds.
const PAUSE_MAX: u64 = 30_000_000;
/// When faults stop at the latest.
const FAULTS_END: u64 = 3_000_000;
/// Events of a world; more means that something goes round in circles.
const EVENTS_MAX: u64 = 4_000_000;

/// A world.
#[derive(Debug)]
pub struct World {
    outside: Outside,
    nodes: Vec<Node>,
    clients: Clients,
    /// How often each kind of fault may still happen.
    faults_left: [u32; FAULTS],
}

/// Most faults of each kind in a world: every crash costs a replay, and enough is enough.
const FAULTS_MAX: [u32; FAULTS] = [6, 20, 20, 20, 30, 6, 4, 3, 4];

/// What a world came to.
#[derive(Debug)]
pub struct Report {
    /// What was done.
    pub figures: Figures,
    /// Hash of the whole trace.
    pub trace: u64,
}

impl World {
    /// The world of a seed. With `notes`, its history is kept for reading.
    pub fn new(seed: u64, notes: bool) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random);
        World::of(plan, random, notes)
    }

    /// A world of a plan.
    pub fn of(plan: Plan, random: Random, notes: bool) -> Self {
        let alone = Arc::new(Placement::round_robin(plan.config.layout.partitions, 1));
        let judge = Judge::new(&plan.config, alone, notes);
        let mut roles = match plan.cluster.workers {
            0 => vec![Role::Single],
            workers => {
                let workers = workers + usize::from(plan.cluster.stranger);
                std::iter::once(Role::Coordinator).chain((0..workers).map(|_| Role::Worker)).collect()
            }
        };
        if plan.cluster.standby {
            roles.push(Role::Standby);
        }
        let mut outside = Outside {
            plan,
            random,
            queue: Queue::default(),
            trace: Trace::new(notes),
            testimony: Testimony::default(),
            judge,
            figures: Figures::default(),
            calm: false,
            disk: Disk::default(),
            store: Store::default(),
            wire: Wire::default(),
            generations: Default::default(),
            gateways: Gateways::default(),
            dropped: Vec::new(),
            ended: None,
        };
        let clients = Clients::new(&mut outside);
        let nodes: Vec<Node> = roles.into_iter().enumerate().map(|(at, role)| Node::new(at, role)).collect();
        for (at, node) in nodes.iter().enumerate() {
            let delay = match node.role() {
                Role::Standby => continue,
                Role::Single => 0,
                Role::Coordinator | Role::Worker => outside.random.between(0, 3_000),
            };
            outside.queue.after(&mut outside.random, delay, Event::Start(at));
        }
        let mut world = World { outside, nodes, clients, faults_left: FAULTS_MAX };
        (0..FAULTS).for_each(|kind| world.arm(kind));
        world
    }

    /// Runs until all is done and checked.
    ///
    /// # Errors
    /// A check is broken.
    pub fn run(&mut self) -> Checked<Report> {
        let (mut events, mut last, mut done) = (0, 0, (0, 0));
        while let Some(event) = self.outside.queue.pop() {
            self.happen(event)?;
            self.follow()?;
            events += 1;
            let now = self.outside.queue.now();
            if !self.outside.calm && (self.clients.are_spent() || now > FAULTS_END) {
                self.calm();
            }
            let progress = (self.outside.judge.ended.len(), self.clients.answers());
            if !self.outside.calm || progress != done {
                (last, done) = (now, progress);
            }
            if self.outside.calm && self.clients.are_done() && self.is_quiet() {
                return self.end();
            }
            if now > last + PAUSE_MAX || events > EVENTS_MAX {
                break;
            }
        }
        let waiting = self.clients.waiting();
        let generation = self.nodes.iter().find_map(Node::quiet_generation);
        let quiet: Vec<(bool, bool)> =
            self.nodes.iter().map(|node| (node.is_up(), node.is_quiet(generation.unwrap_or(0)))).collect();
        Err(Failure::new(
            "liveness",
            format!(
                "faults have stopped and something never ends after {events} events; quiet generation {generation:?}, (up, quiet) {quiet:?}, waiting attempts {waiting:?}"
            ),
        ))
    }

    /// Faults stop.
    fn calm(&mut self) {
        self.outside.calm = true;
        self.outside.wire.heal();
        self.nodes.iter_mut().for_each(|node| node.slow_disk(1));
        let now = self.outside.queue.now();
        self.outside.trace.event(now, [15], || "faults stop".into());
    }

    /// Whether nothing is left to be done.
    fn is_quiet(&self) -> bool {
        let leader = &self.nodes[self.outside.gateways.coordinator];
        match leader.quiet_generation() {
            None => false,
            Some(0) => true,
            Some(generation) => {
                let members = &self.outside.generations[&generation].members;
                generation == self.outside.newest()
                    && members.iter().all(|member| self.nodes[*member].is_quiet(generation))
            }
        }
    }

    fn end(&mut self) -> Checked<Report> {
        let now = self.outside.queue.now();
        self.outside.testimony.check(&self.outside.judge)?;
        self.nodes.iter().try_for_each(|node| node.check(&self.outside))?;
        if !self.outside.judge.is_lenient() {
            self.verify()?;
        }
        self.outside.trace.event(now, [0], || "all is done".into());
        Ok(Report { figures: self.outside.figures, trace: self.outside.trace.hash() })
    }

    /// Whoever reads the log comes to the same: one process, or any number of workers.
    fn verify(&mut self) -> Checked {
        let Outside { plan, random, judge, figures, .. } = &mut self.outside;
        let partitions = plan.config.layout.partitions;
        let mut machine = styx_protocol::machine::Machine::new(plan.config);
        let mut threads = Threads::new(plan, false, Random::new(random.number()));
        for (record, ended) in judge.records.iter().zip(&judge.ended) {
            again(record.epoch, ended, &replay::one(&mut machine, record, &mut threads, random)?)
                .map_err(|failure| failure.at("one process"))?;
            figures.verified += ended.order.len() as u64;
        }
        for workers in (1..=4).filter(|workers| plan.verified[usize::from(*workers) - 1]) {
            let owners = (0..partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16)).collect();
            let placement = Arc::new(Placement::new(owners, workers));
            let plan = Plan { threads: random.between(1, 3), ..plan.clone() };
            let mut cluster = replay::Cluster::new(&plan, &placement, Random::new(random.number()));
            for (record, ended) in judge.records.iter().zip(&judge.ended) {
                cluster
                    .replay(record)
                    .and_then(|now| again(record.epoch, ended, &now))
                    .map_err(|failure| failure.at(&format!("{workers} workers, {placement:?}")))?;
                figures.verified += ended.order.len() as u64;
            }
        }
        self.verify_snapshot()
    }

    /// Whoever begins with a snapshot comes to the same.
    fn verify_snapshot(&mut self) -> Checked {
        let Outside { plan, random, judge, figures, store, disk, .. } = &mut self.outside;
        let usable: Vec<Arc<Manifest>> = store.usable(disk.trimmed()).cloned().collect();
        if usable.is_empty() {
            return Ok(());
        }
        let snapshot = random.pick(&usable.iter().collect::<Vec<_>>()).clone();
        let (epoch, number) = (snapshot.frame.epoch, snapshot.number);
        let from = epoch.0 as usize;
        let rest = judge.records.iter().zip(&judge.ended).skip(from);
        let workers = random.below(5) as u16;
        if workers == 0 {
            let mut machine = styx_protocol::machine::Machine::new(plan.config);
            machine.restore(store.load(&snapshot, |_| true)?);
            let mut threads = Threads::new(plan, false, Random::new(random.number()));
            for (record, ended) in rest {
                again(record.epoch, ended, &replay::one(&mut machine, record, &mut threads, random)?)
                    .map_err(|failure| failure.at(&format!("one process, from snapshot {number} of epoch {epoch}")))?;
                figures.verified += ended.order.len() as u64;
            }
            return Ok(());
        }
        let owners = (0..plan.config.layout.partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16));
        let placement = Arc::new(Placement::new(owners.collect(), workers));
        let mut cluster = replay::Cluster::new(plan, &placement, Random::new(random.number()));
        cluster.restore(&snapshot, store)?;
        for (record, ended) in rest {
            cluster.replay(record).and_then(|now| again(record.epoch, ended, &now)).map_err(|failure| {
                failure.at(&format!("{workers} workers from snapshot {number} of epoch {epoch}, {placement:?}"))
            })?;
            figures.verified += ended.order.len() as u64;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        let World { outside, nodes, clients, .. } = self;
        match event {
            Event::Node(life, _) if life.number != nodes[life.node].life.number || !nodes[life.node].is_up() => {}
            Event::Packet(_, node, _) if !nodes[node].is_up() => {}
            Event::Message(node, attempt, _) if !nodes[node].is_up() => outside.break_connection(attempt),
            Event::Node(Life { node, .. }, _) | Event::Message(node, ..) | Event::Packet(_, node, _)
                if outside.queue.now() < nodes[node].paused_until =>
            {
                let rest = nodes[node].paused_until - outside.queue.now();
                outside.queue.after(&mut outside.random, rest, event);
            }
            Event::Node(life, event) => {
                if !nodes[life.node].take(life, event, outside)? {
                    self.crash(life.node);
                }
            }
            Event::Put(life, manifest) => outside.put(life, &manifest)?,
            Event::Packet(from, node, packet) => nodes[node].packet(from, packet, outside)?,
            Event::Message(node, attempt, message) => nodes[node].hear(attempt, message, outside)?,
            Event::Answer(life, attempt, answer) => {
                let dead = life.is_some_and(|life| life.number != nodes[life.node].life.number);
                if dead && outside.random.chance(500) {
                    outside.testimony.attempts[attempt].lost = true;
                } else {
                    clients.answered(attempt, answer, outside);
                }
            }
            Event::Timeout(attempt) => clients.timed_out(attempt, outside),
            Event::Wake(slot) => clients.wake(slot, outside),
            Event::Learn(gateway, generation) => {
                let view = &mut outside.gateways.views[gateway];
                *view = (*view).max(Some(generation));
            }
            Event::Deploy => clients.deploy(outside),
            Event::Start(node) => nodes[node].start(outside)?,
            Event::Quick(node) => nodes[node].slow_disk(1),
            Event::Resize(most) => nodes[outside.gateways.coordinator].resize(most, outside)?,
            Event::Fault(_) if outside.calm => {}
            Event::Fault(kind) => {
                self.fault(kind);
                self.arm(kind);
            }
        }
        Ok(())
    }

    /// What follows from an event at once.
    fn follow(&mut self) -> Checked {
        for node in std::mem::take(&mut self.outside.dropped) {
            self.break_connections(node);
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_deposed() || self.nodes[at].is_released() {
                self.crash(at);
            }
        }
        if let Some(generation) = self.outside.ended.take() {
            self.compare(generation)?;
        }
        Ok(())
    }

    /// Compares the workers of a generation, which have just ended a round, with what they must be.
    fn compare(&self, generation: u64) -> Checked {
        let Some(seen) = self.outside.generations.get(&generation) else { return Ok(()) };
        let holdings: Option<Vec<_>> =
            seen.members.iter().map(|member| self.nodes[*member].holdings(generation)).collect();
        let position = self.nodes[self.outside.gateways.coordinator].position(generation);
        // Somebody may have gone since.
        let (Some(holdings), Some(position)) = (holdings, position) else { return Ok(()) };
        if position.0.0 < self.outside.judge.records.len() as u64 {
            return Ok(()); // In a replay.
        }
        let thoroughly = position.0.0.is_multiple_of(8);
        self.outside.judge.compare(position, &holdings, thoroughly)
    }

    /// Lets a kind of fault happen some time.
    fn arm(&mut self, kind: usize) {
        let Outside { plan, queue, random, .. } = &mut self.outside;
        let mean = plan.faults[kind];
        let possible = match kind {
            5 | 6 | 8 => plan.cluster.workers > 0,
            7 => plan.cluster.standby,
            _ => true,
        };
        if possible && mean > 0 && self.faults_left[kind] > 0 {
            self.faults_left[kind] -= 1;
            let delay = random.between(1, 2 * mean);
            queue.after(random, delay, Event::Fault(kind));
        }
    }

    fn fault(&mut self, kind: usize) {
        let World { outside, nodes, clients, .. } = self;
        let (now, random) = (outside.queue.now(), &mut outside.random);
        let at = random.below(nodes.len() as u64) as usize;
        let node = &mut nodes[at];
        match kind {
            0 if node.is_up() => return self.crash(at),
            0 => return,
            1 => node.paused_until = now + random.between(500, 30_000),
            2 => node.clock += random.between(0, 200_000) as i64 - 100_000,
            3 => {
                node.slow_disk(random.between(2, 20));
                let time = random.between(1_000, 50_000);
                outside.queue.after(random, time, Event::Quick(at));
            }
            4 => return clients.administer(outside),
            5 => {
                let until = now + random.between(1_000, 100_000);
                let other = random.below(nodes.len() as u64) as usize;
                let one_way = random.chance(400);
                let whole = random.chance(200);
                for other in if whole { 0..nodes.len() } else { other..other + 1 } {
                    outside.wire.cut(at, other, until);
                    if !one_way {
                        outside.wire.cut(other, at, until);
                    }
                }
            }
            6 => {
                let most = random.between(1, outside.plan.cluster.workers as u64) as u16;
                let back = random.between(10_000, 150_000);
                outside.queue.after(random, 0, Event::Resize(most));
                outside.queue.after(random, back, Event::Resize(u16::MAX));
            }
            8 => nodes[random.between(1, outside.plan.cluster.workers as u64) as usize].retire(),
            _ => {
                // Its supervisor takes the coordinator for dead, and starts the other one.
                let leader = outside.gateways.coordinator;
                let other = if leader == 0 { outside.plan.standby() } else { 0 };
                if nodes[leader].is_up() && !nodes[other].is_up() {
                    match random.below(3) {
                        // It lives, and some workers reach only one of the two.
                        0 => {
                            let until = now + random.between(10_000, 800_000);
                            for worker in 1..=outside.plan.cluster.workers {
                                let cut = if random.chance(500) { leader } else { other };
                                outside.wire.cut(worker, cut, until);
                                outside.wire.cut(cut, worker, until);
                            }
                        }
                        _ => nodes[leader].paused_until = now + random.between(1_000, 100_000),
                    }
                    outside.queue.after(random, 0, Event::Start(other));
                }
            }
        }
        outside.figures.disturbances += 1;
        let what = ["crash", "pause", "clock", "slow disk", "deployment", "cut", "resize", "replace", "retire"][kind];
        outside.trace.event(now, [16, kind as u64], || format!("disturbance: {what} (n{at})"));
    }

    fn crash(&mut self, node: usize) {
        self.nodes[node].crash(&mut self.outside);
        self.break_connections(node);
        let coordinates = matches!(self.nodes[node].role(), Role::Coordinator | Role::Standby);
        // Who was replaced stays away until it is needed.
        if coordinates && self.outside.gateways.coordinator != node && self.outside.newest() > 0 {
            return;
        }
        let delay = self.outside.random.between(500, 20_000);
        self.outside.queue.after(&mut self.outside.random, delay, Event::Start(node));
    }

    /// The clients of a node see their connections break.
    fn break_connections(&mut self, node: usize) {
        for attempt in self.clients.waiting() {
            if self.outside.testimony.attempts[attempt].node == node {
                self.outside.break_connection(attempt);
            }
        }
    }

    /// The history as lines: what happened last, and every transaction that touched a key which the
    /// failing transactions touched.
    pub fn history(&self, failure: &Failure) -> Vec<String> {
        let judge = &self.outside.judge;
        let touched = |tid| judge.sequenced.get(tid).map_or(&[][..], |known| &known.touched[..]);
        let keys: Vec<(u32, &str)> =
            failure.tids.iter().flat_map(touched).map(|touch| (touch.operator, touch.key)).collect();
        let mut lines = vec![format!("plan: {:?}", self.outside.plan)];
        for (number, generation) in &self.outside.generations {
            let members: Vec<String> = generation.members.iter().map(|member| format!("n{member}")).collect();
            lines.push(format!("generation {number}: {} {:?}", members.join(" "), generation.placement));
        }
        // In the claimed order; what has no place in it comes last.
        let mut sequenced: Vec<_> = judge.sequenced.iter().collect();
        sequenced
            .sort_by_key(|(_, known)| known.end.as_ref().map_or((Epoch(u64::MAX), 0), |end| (end.epoch, end.rank)));
        for (tid, known) in sequenced {
            let involved: Vec<_> =
                known.touched.iter().filter(|touch| keys.contains(&(touch.operator, touch.key))).collect();
            if involved.is_empty() && !failure.tids.contains(tid) {
                continue;
            }
            let end = known.end.as_ref().map(|end| format!("ended in {} at rank {}", end.epoch, end.rank));
            let end = end.unwrap_or_else(|| "has no place".into());
            let program = crate::toy::show(&known.request.args[2..]);
            lines.push(format!(
                "{tid} from epoch {} {end}: {} {} {{ {program} }}",
                known.epoch, known.request.function, known.request.key
            ));
            for touch in involved {
                let what = match touch.wrote {
                    None => format!("read  {:x?}", touch.before),
                    Some(value) => format!("wrote {value:x?} over {:x?}", touch.before),
                };
                lines.push(format!("    {}/{} {what}", touch.operator, touch.key));
            }
        }
        if let Some(trace) = &self.outside.trace.lines {
            lines.push("the last events:".into());
            lines.extend(trace[trace.len().saturating_sub(60)..].iter().cloned());
        }
        lines
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.outside.plan
    }

    /// What clients asked, and what they were told.
    pub fn asked(&self) -> &[Asked] {
        &self.outside.testimony.asked
    }

    /// Leaves it to others to judge what transactions come to.
    pub fn be_lenient(&mut self) {
        self.outside.judge.be_lenient();
    }

    /// What has been done so far.
    pub fn figures(&self) -> Figures {
        self.outside.figures
    }

    /// All events, where they were kept.
    pub fn lines(&self) -> &[String] {
        self.outside.trace.lines.as_deref().unwrap_or_default()
    }
}
