//! One simulated world, from its seed to its last check.

use std::sync::Arc;

use styx_protocol::ids::{Epoch, WorkerId};
use styx_protocol::placement::Placement;

use crate::check::checker::{Checker, again};
use crate::check::history::{History, TrackedRequest};
use crate::check::{Checked, Failure};
use crate::clients::Clients;
use crate::disk::Disk;
use crate::environment::{Environment, Gateways};
use crate::event::{Event, Life};
use crate::figures::Figures;
use crate::node::{Node, Role};
use crate::plan::{FAULTS, Plan};
use crate::queue::Queue;
use crate::random::Random;
use crate::replay;
use crate::store::{Manifest, Store};
use crate::threads::{ThreadPlan, Threads};
use crate::trace::Trace;
use crate::wire::Wire;

/// Once faults have stopped, an epoch ends or a client is answered at least so often, in microseconds.
const PAUSE_MAX: u64 = 30_000_000;
/// When faults stop at the latest.
const FAULTS_END: u64 = 3_000_000;
/// Events of a world; more means that something goes round in circles.
const EVENTS_MAX: u64 = 4_000_000;

/// A world.
#[derive(Debug)]
pub struct World {
    environment: Environment,
    nodes: Vec<Node>,
    clients: Clients,
    /// Number of faults of each kind that may still happen.
    faults_left: [u32; FAULTS],
}

/// Most faults of each kind in a world: every crash costs a replay, and enough is enough.
const FAULTS_MAX: [u32; FAULTS] = [6, 20, 20, 20, 30, 6, 4, 3, 4];

/// Result of a world.
#[derive(Debug)]
pub struct Report {
    /// Counters.
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
        let checker = Checker::new(&plan.config, alone, notes);
        let mut roles = match plan.cluster.workers {
            0 => vec![Role::Single],
            workers => {
                let workers = workers + usize::from(plan.cluster.foreign_engine);
                std::iter::once(Role::Coordinator).chain((0..workers).map(|_| Role::Worker)).collect()
            }
        };
        if plan.cluster.standby {
            roles.push(Role::Standby);
        }
        let mut environment = Environment {
            plan,
            random,
            queue: Queue::default(),
            trace: Trace::new(notes),
            history: History::default(),
            checker,
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
        let clients = Clients::new(&mut environment);
        let nodes: Vec<Node> = roles.into_iter().enumerate().map(|(at, role)| Node::new(at, role)).collect();
        for (at, node) in nodes.iter().enumerate() {
            let delay = match node.role() {
                Role::Standby => continue,
                Role::Single => 0,
                Role::Coordinator | Role::Worker => environment.random.between(0, 3_000),
            };
            environment.queue.after(&mut environment.random, delay, Event::Start(at));
        }
        let mut world = World { environment, nodes, clients, faults_left: FAULTS_MAX };
        (0..FAULTS).for_each(|kind| world.arm(kind));
        world
    }

    /// Runs until all is done and checked.
    ///
    /// # Errors
    /// A check is broken.
    pub fn run(&mut self) -> Checked<Report> {
        let (mut events, mut last, mut done) = (0, 0, (0, 0));
        while let Some(event) = self.environment.queue.pop() {
            self.dispatch(event)?;
            self.follow()?;
            events += 1;
            let now = self.environment.queue.now();
            if !self.environment.calm && (self.clients.are_spent() || now > FAULTS_END) {
                self.calm();
            }
            let progress = (self.environment.checker.ended.len(), self.clients.answers());
            if !self.environment.calm || progress != done {
                (last, done) = (now, progress);
            }
            if self.environment.calm && self.clients.are_done() && self.is_quiet() {
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
        self.environment.calm = true;
        self.environment.wire.heal();
        self.nodes.iter_mut().for_each(|node| node.slow_disk(1));
        let now = self.environment.queue.now();
        self.environment.trace.event(now, [15], || "faults stop".into());
    }

    /// Whether nothing is left to be done.
    fn is_quiet(&self) -> bool {
        let leader = &self.nodes[self.environment.gateways.coordinator];
        match leader.quiet_generation() {
            None => false,
            Some(0) => true,
            Some(generation) => {
                let members = &self.environment.generations[&generation].members;
                generation == self.environment.newest()
                    && members.iter().all(|member| self.nodes[*member].is_quiet(generation))
            }
        }
    }

    fn end(&mut self) -> Checked<Report> {
        let now = self.environment.queue.now();
        self.environment.history.check(&self.environment.checker)?;
        self.nodes.iter().try_for_each(|node| node.check(&self.environment))?;
        if !self.environment.checker.is_lenient() {
            self.verify()?;
        }
        self.environment.trace.event(now, [0], || "all is done".into());
        Ok(Report { figures: self.environment.figures, trace: self.environment.trace.hash() })
    }

    /// Whoever reads the log comes to the same: one process, or any number of workers.
    fn verify(&mut self) -> Checked {
        let Environment { plan, random, checker, figures, .. } = &mut self.environment;
        let partitions = plan.config.layout.partitions;
        let mut machine = styx_protocol::machine::Machine::new(plan.config);
        let mut threads = Threads::new(plan.threads(), false, Random::new(random.number()));
        for (record, ended) in checker.records.iter().zip(&checker.ended) {
            again(record.epoch, ended, &replay::one(&mut machine, record, &mut threads, random)?)
                .map_err(|failure| failure.at("one process"))?;
            figures.verified += ended.order.len() as u64;
        }
        for workers in (1..=4).filter(|workers| plan.verified[usize::from(*workers) - 1]) {
            let owners = (0..partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16)).collect();
            let placement = Arc::new(Placement::new(owners, workers));
            let threads = ThreadPlan { count: random.between(1, 3), ..plan.threads() };
            let mut cluster = replay::Cluster::new(&plan.config, threads, &placement, Random::new(random.number()));
            for (record, ended) in checker.records.iter().zip(&checker.ended) {
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
        let Environment { plan, random, checker, figures, store, disk, .. } = &mut self.environment;
        let usable: Vec<Arc<Manifest>> = store.usable(disk.trimmed()).cloned().collect();
        if usable.is_empty() {
            return Ok(());
        }
        let snapshot = random.pick(&usable.iter().collect::<Vec<_>>()).clone();
        let (epoch, number) = (snapshot.frame.epoch, snapshot.number);
        let from = epoch.0 as usize;
        let rest = checker.records.iter().zip(&checker.ended).skip(from);
        let workers = random.below(5) as u16;
        if workers == 0 {
            let mut machine = styx_protocol::machine::Machine::new(plan.config);
            machine.restore(store.load(&snapshot, |_| true)?);
            let mut threads = Threads::new(plan.threads(), false, Random::new(random.number()));
            for (record, ended) in rest {
                again(record.epoch, ended, &replay::one(&mut machine, record, &mut threads, random)?)
                    .map_err(|failure| failure.at(&format!("one process, from snapshot {number} of epoch {epoch}")))?;
                figures.verified += ended.order.len() as u64;
            }
            return Ok(());
        }
        let owners = (0..plan.config.layout.partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16));
        let placement = Arc::new(Placement::new(owners.collect(), workers));
        let mut cluster = replay::Cluster::new(&plan.config, plan.threads(), &placement, Random::new(random.number()));
        let carried = snapshot.carried.iter().map(|carried| carried.tid).collect();
        cluster.restore(&snapshot.frame, carried, |owns| store.load(&snapshot, owns))?;
        for (record, ended) in rest {
            cluster.replay(record).and_then(|now| again(record.epoch, ended, &now)).map_err(|failure| {
                failure.at(&format!("{workers} workers from snapshot {number} of epoch {epoch}, {placement:?}"))
            })?;
            figures.verified += ended.order.len() as u64;
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Event) -> Checked {
        let World { environment, nodes, clients, .. } = self;
        match event {
            Event::Node(life, _) if life.number != nodes[life.node].life.number || !nodes[life.node].is_up() => {}
            Event::Packet(_, node, _) if !nodes[node].is_up() => {}
            Event::Message(node, attempt, _) if !nodes[node].is_up() => environment.break_connection(attempt),
            Event::Node(Life { node, .. }, _) | Event::Message(node, ..) | Event::Packet(_, node, _)
                if environment.queue.now() < nodes[node].paused_until =>
            {
                let rest = nodes[node].paused_until - environment.queue.now();
                environment.queue.after(&mut environment.random, rest, event);
            }
            Event::Node(life, event) => {
                if !nodes[life.node].take(life, event, environment)? {
                    self.crash(life.node);
                }
            }
            Event::Put(life, manifest) => environment.put(life, &manifest)?,
            Event::Packet(from, node, packet) => nodes[node].packet(from, packet, environment)?,
            Event::Message(node, attempt, message) => nodes[node].hear(attempt, message, environment)?,
            Event::Response(life, attempt, answer) => {
                let dead = life.is_some_and(|life| life.number != nodes[life.node].life.number);
                if dead && environment.random.chance(500) {
                    environment.history.attempts[attempt].lost = true;
                } else {
                    clients.answered(attempt, answer, environment);
                }
            }
            Event::Timeout(attempt) => clients.timed_out(attempt, environment),
            Event::Wake(slot) => clients.wake(slot, environment),
            Event::Learn(gateway, generation) => {
                let view = &mut environment.gateways.views[gateway];
                *view = (*view).max(Some(generation));
            }
            Event::Deploy => clients.deploy(environment),
            Event::Start(node) => nodes[node].start(environment)?,
            Event::Quick(node) => nodes[node].slow_disk(1),
            Event::Resize(most) => nodes[environment.gateways.coordinator].resize(most, environment)?,
            Event::Fault(_) if environment.calm => {}
            Event::Fault(kind) => {
                self.fault(kind);
                self.arm(kind);
            }
        }
        Ok(())
    }

    /// Carries out what follows from an event at once.
    fn follow(&mut self) -> Checked {
        for node in std::mem::take(&mut self.environment.dropped) {
            self.break_connections(node);
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_deposed() || self.nodes[at].is_released() {
                self.crash(at);
            }
        }
        if let Some(generation) = self.environment.ended.take() {
            self.compare(generation)?;
        }
        Ok(())
    }

    /// Compares the workers of a generation, which have just ended a round, with what they must be.
    fn compare(&self, generation: u64) -> Checked {
        let Some(seen) = self.environment.generations.get(&generation) else { return Ok(()) };
        let worker_state: Option<Vec<_>> =
            seen.members.iter().map(|member| self.nodes[*member].worker_state(generation)).collect();
        let position = self.nodes[self.environment.gateways.coordinator].position(generation);
        // Somebody may have gone since.
        let (Some(worker_state), Some(position)) = (worker_state, position) else { return Ok(()) };
        if position.0.0 < self.environment.checker.records.len() as u64 {
            return Ok(()); // In a replay.
        }
        let thoroughly = position.0.0.is_multiple_of(8);
        self.environment.checker.compare(position, &worker_state, thoroughly)
    }

    /// Lets a kind of fault happen some time.
    fn arm(&mut self, kind: usize) {
        let Environment { plan, queue, random, .. } = &mut self.environment;
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
        let World { environment, nodes, clients, .. } = self;
        let (now, random) = (environment.queue.now(), &mut environment.random);
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
                environment.queue.after(random, time, Event::Quick(at));
            }
            4 => return clients.administer(environment),
            5 => {
                let until = now + random.between(1_000, 100_000);
                let other = random.below(nodes.len() as u64) as usize;
                let one_way = random.chance(400);
                let whole = random.chance(200);
                for other in if whole { 0..nodes.len() } else { other..other + 1 } {
                    environment.wire.cut(at, other, until);
                    if !one_way {
                        environment.wire.cut(other, at, until);
                    }
                }
            }
            6 => {
                let most = random.between(1, environment.plan.cluster.workers as u64) as u16;
                let back = random.between(10_000, 150_000);
                environment.queue.after(random, 0, Event::Resize(most));
                environment.queue.after(random, back, Event::Resize(u16::MAX));
            }
            8 => nodes[random.between(1, environment.plan.cluster.workers as u64) as usize].retire(),
            _ => {
                // Its supervisor takes the coordinator for dead, and starts the other one.
                let leader = environment.gateways.coordinator;
                let other = if leader == 0 { environment.plan.standby() } else { 0 };
                if nodes[leader].is_up() && !nodes[other].is_up() {
                    match random.below(3) {
                        // It lives, and some workers reach only one of the two.
                        0 => {
                            let until = now + random.between(10_000, 800_000);
                            for worker in 1..=environment.plan.cluster.workers {
                                let cut = if random.chance(500) { leader } else { other };
                                environment.wire.cut(worker, cut, until);
                                environment.wire.cut(cut, worker, until);
                            }
                        }
                        _ => nodes[leader].paused_until = now + random.between(1_000, 100_000),
                    }
                    environment.queue.after(random, 0, Event::Start(other));
                }
            }
        }
        environment.figures.disturbances += 1;
        let what = ["crash", "pause", "clock", "slow disk", "deployment", "cut", "resize", "replace", "retire"][kind];
        environment.trace.event(now, [16, kind as u64], || format!("disturbance: {what} (n{at})"));
    }

    fn crash(&mut self, node: usize) {
        self.nodes[node].crash(&mut self.environment);
        self.break_connections(node);
        let coordinates = matches!(self.nodes[node].role(), Role::Coordinator | Role::Standby);
        // Who was replaced stays away until it is needed.
        if coordinates && self.environment.gateways.coordinator != node && self.environment.newest() > 0 {
            return;
        }
        let delay = self.environment.random.between(500, 20_000);
        self.environment.queue.after(&mut self.environment.random, delay, Event::Start(node));
    }

    /// The clients of a node see their connections break.
    fn break_connections(&mut self, node: usize) {
        for attempt in self.clients.waiting() {
            if self.environment.history.attempts[attempt].node == node {
                self.environment.break_connection(attempt);
            }
        }
    }

    /// The history as lines: what happened last, and every transaction that touched a key which the
    /// failing transactions touched.
    pub fn history(&self, failure: &Failure) -> Vec<String> {
        let checker = &self.environment.checker;
        let touched = |tid| checker.sequenced.get(tid).map_or(&[][..], |known| &known.touched[..]);
        let keys: Vec<(u32, &str)> =
            failure.tids.iter().flat_map(touched).map(|touch| (touch.operator, touch.key)).collect();
        let mut lines = vec![format!("plan: {:?}", self.environment.plan)];
        for (number, generation) in &self.environment.generations {
            let members: Vec<String> = generation.members.iter().map(|member| format!("n{member}")).collect();
            lines.push(format!("generation {number}: {} {:?}", members.join(" "), generation.placement));
        }
        // In the claimed order; what has no place in it comes last.
        let mut sequenced: Vec<_> = checker.sequenced.iter().collect();
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
        if let Some(trace) = &self.environment.trace.lines {
            lines.push("the last events:".into());
            lines.extend(trace[trace.len().saturating_sub(60)..].iter().cloned());
        }
        lines
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.environment.plan
    }

    /// Requests of clients, with the responses to them.
    pub fn requests(&self) -> &[TrackedRequest] {
        &self.environment.history.requests
    }

    /// Leaves it to others to judge what transactions come to.
    pub fn be_lenient(&mut self) {
        self.environment.checker.be_lenient();
    }

    /// Counters so far.
    pub fn figures(&self) -> Figures {
        self.environment.figures
    }

    /// All events, where they were kept.
    pub fn lines(&self) -> &[String] {
        self.environment.trace.lines.as_deref().unwrap_or_default()
    }
}
