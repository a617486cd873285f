//! One simulated world, from its seed to its last check.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use styx_driver::coordinator::{Goal, MigrationMode, MigrationOptions};
use styx_durability::recovery::Found;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{Epoch, NodeId, PartitionId, RequestId, Tid, WorkerId};
use styx_protocol::placement::Placement;
use styx_storage::snapshot::SnapshotStore;

use crate::check::checker::again;
use crate::check::history::TrackedRequest;
use crate::check::{Checked, Failure};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::event::{Event, Life};
use crate::figures::Figures;
use crate::network::Dial;
use crate::node::Node;
use crate::plan::{ALL_FAULTS, FAULTS, Fault, Plan};
use crate::process::{Directory, Kept, Role};
use crate::random::Random;
use crate::replay;
use crate::threads::{ThreadPlan, Threads};
use crate::trace::Moment;

/// Once faults have stopped, an epoch ends or a client is answered at least so often, in microseconds.
const PAUSE_MAX: u64 = 100_000_000;
/// A day, in microseconds.
const DAY: u64 = 86_400_000_000;
/// When faults stop at the latest.
const FAULTS_END: u64 = 10_000_000;
/// Or when nothing has come of them for so long: an outage ends earlier, and clients who wait for what was lost show nothing.
const STILL: u64 = 4_000_000;
/// Nothing has happened for so long when all is quiet.
const QUIET: u64 = 200_000;
/// Events between two ends of transactions; more means that something goes round in circles. How many epochs a transaction
/// may wait for older ones is checked elsewhere: a world without fallback and with few keys takes long, and may.
const EVENTS_MAX: u64 = 4_000_000;

#[derive(Debug)]
pub struct World {
    environment: Environment,
    nodes: Vec<Node>,
    clients: Clients,
    /// What has come for processes that stand still, by node.
    asleep: Vec<VecDeque<Event>>,
    /// Number of faults of each kind that may still happen.
    faults_left: [u32; FAULTS],
    /// Events until processes die amid a migration.
    amid: Option<u64>,
}

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
        let cluster = &plan.cluster;
        let mut roles = vec![Role::Single];
        if cluster.workers > 0 {
            let workers = cluster.workers + usize::from(cluster.foreign_engine);
            roles = vec![Role::Coordinator];
            roles.extend((0..workers).map(|_| Role::Worker));
            roles.extend((0..cluster.gateways).map(|_| Role::Gateway));
            roles.extend((1..cluster.coordinators).map(|_| Role::Coordinator));
        }
        let faults_left = plan.faults_max;
        let mut environment = Environment::new(plan, random, notes);
        let clients = Clients::new(&mut environment);
        let shared = Kept::default();
        let node = |(at, role): (usize, Role)| {
            let clock = Clock::draw(&mut environment.random);
            let disk = Disk::new(environment.random.number() as u32, environment.plan.disk_reserve);
            let directory = Directory::new(disk, &environment.store, &environment.names);
            // Coordinators share what is deployed.
            let directory = match role {
                Role::Coordinator => directory.with_components(&shared),
                _ => directory,
            };
            Node::new(at, role, directory, clock)
        };
        let nodes: Vec<Node> = roles.into_iter().enumerate().map(node).collect();
        for at in 0..nodes.len() {
            let delay = environment.random.between(0, 20_000);
            environment.after(delay, Event::Start(at));
        }
        let asleep = nodes.iter().map(|_| VecDeque::new()).collect();
        let mut world = World { environment, nodes, clients, asleep, faults_left, amid: None };
        (0..FAULTS).for_each(|kind| world.arm(kind));
        world
    }

    /// Runs until all is done and checked.
    pub fn run(&mut self) -> Checked<Report> {
        let (mut events, mut last, mut done) = (0, 0, (0, 0, Epoch(0)));
        let mut transactions = 0;
        while let Some(event) = self.environment.queue.pop() {
            self.dispatch(event)?;
            self.follow()?;
            self.crash_amid()?;
            events += 1;
            let ended = self.environment.figures.transactions;
            if ended != transactions {
                (transactions, events) = (ended, 0);
            }
            let now = self.environment.queue.now();
            let serves = self.serves();
            self.environment.causes.look(now, serves)?;
            let answers = self.clients.answers() + self.environment.replied.count() as u64;
            let progress = (self.environment.checker.ended.len(), answers, self.environment.durable);
            if progress != done {
                (last, done) = (now, progress);
            }
            if !self.environment.calm && (self.clients.are_spent() || now > FAULTS_END.min(last + STILL)) {
                self.calm();
                last = now;
            }
            if self.environment.calm && now > last + QUIET && self.clients.are_done() && self.is_quiet() {
                return self.end();
            }
            if now > last + PAUSE_MAX || events > EVENTS_MAX {
                break;
            }
        }
        if self.environment.calm && self.clients.are_done() && self.is_quiet() {
            // Nothing will ever happen again.
            return self.end();
        }
        let waiting = self.clients.waiting();
        let up: Vec<bool> = self.nodes.iter().map(Node::is_up).collect();
        let under_way: Vec<usize> = self.nodes.iter().map(Node::under_way).collect();
        let checker = &self.environment.checker;
        Err(Failure::new(
            "liveness",
            format!(
                "faults have stopped and something never ends: {events} events since a transaction ended, {} s; up {up:?}, under way {under_way:?}, epoch {} of {}, durable {}, carried {:?}, records without a reply {:?}, wishes {:?}, waiting attempts {waiting:?}, {}",
                self.environment.queue.now() / 1_000_000,
                checker.epoch(),
                checker.records.len(),
                self.environment.durable,
                checker.carried(),
                self.environment.unanswered(),
                self.environment.wishes,
                self.clients.unfinished(),
            ),
        ))
    }

    /// Faults stop.
    fn calm(&mut self) {
        self.environment.calm = true;
        self.environment.network.heal();
        self.environment.slow_disks.clear();
        self.nodes.iter().for_each(|node| node.disk().leave(None));
        self.environment.store_cut.clear();
        self.environment.brokers_cut.clear();
        (0..self.nodes.len()).for_each(|node| self.environment.after(0, Event::TakeSnapshot(node)));
        let now = self.environment.queue.now();
        let awake = self.nodes.iter().map(|node| node.paused_until).max().unwrap_or_default();
        self.environment.causes.calm(awake.max(now));
        self.clients.calm(&mut self.environment);
        self.environment.trace.event(now, [15], || "faults stop".into());
    }

    /// Whether clients are served.
    fn serves(&self) -> bool {
        let generation = self.environment.generations.last_key_value();
        self.nodes[0].serves()
            || generation.is_some_and(|(_, view)| view.live && self.nodes[view.leader.node].life == view.leader)
    }

    /// Whether nothing is left to be done.
    fn is_quiet(&self) -> bool {
        let checker = &self.environment.checker;
        let is_done = self.environment.has_replied()
            && checker.is_between_epochs()
            && checker.carried().is_empty()
            && self.environment.durable == checker.epoch();
        // What nobody waits for any more is given up some time.
        is_done
            && self
                .nodes
                .iter()
                .all(|node| node.under_way() == 0 && !(node.is_up() && self.environment.wishes.wait_for(node.life)))
    }

    fn end(&mut self) -> Checked<Report> {
        let now = self.environment.queue.now();
        self.environment.figures.longest_wait = self.environment.checker.waits.longest;
        self.environment.figures.longest_outage_us = self.environment.causes.longest_us;
        self.environment.history.check(&self.environment.checker)?;
        self.environment.replied.check(&self.environment.brokers, &self.environment.checker)?;
        // When a long transaction takes part is in the log, and who would decide it in a replay is not.
        if !self.environment.checker.is_lenient() && self.environment.plan.config.long_max == 0 {
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
        let usable = self.environment.usable();
        if usable.is_empty() {
            return Ok(());
        }
        let sequence = self.environment.random.pick(&usable);
        let (store, found) = self.environment.snapshot(sequence)?;
        let epoch = found.metadata.header.epoch;
        let Environment { plan, random, checker, figures, .. } = &mut self.environment;
        let rest = checker.records.iter().zip(&checker.ended).skip(epoch.0 as usize);
        let workers = random.below(5) as u16;
        if workers == 0 {
            let mut machine = styx_protocol::machine::Machine::new(plan.config);
            machine.restore(restore(&store, &found, plan.config.layout, &|_| true)?);
            let mut threads = Threads::new(plan.threads(), false, Random::new(random.number()));
            for (record, ended) in rest {
                again(record.epoch, ended, &replay::one(&mut machine, record, &mut threads, random)?)
                    .map_err(|failure| failure.at(&format!("one process, from the snapshot of epoch {epoch}")))?;
                figures.verified += ended.order.len() as u64;
            }
            return Ok(());
        }
        let owners = (0..plan.config.layout.partitions).map(|_| WorkerId(random.below(u64::from(workers)) as u16));
        let placement = Arc::new(Placement::new(owners.collect(), workers));
        let mut cluster = replay::Cluster::new(&plan.config, plan.threads(), &placement, Random::new(random.number()));
        let described = found.described();
        cluster.restore(&described.header, (described.carried.clone(), described.partitions), |owns| {
            restore(&store, &found, plan.config.layout, owns)
        })?;
        for (record, ended) in rest {
            cluster.replay(record).and_then(|now| again(record.epoch, ended, &now)).map_err(|failure| {
                failure.at(&format!("{workers} workers from the snapshot of epoch {epoch}, {placement:?}"))
            })?;
            figures.verified += ended.order.len() as u64;
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Event) -> Checked {
        let World { environment, nodes, .. } = self;
        if let Some(life) = subject(&event) {
            let node = &nodes[life.node];
            if life.number != node.life.number || !node.is_up() {
                return Ok(());
            }
            let now = environment.queue.now();
            if now < node.paused_until || !self.asleep[life.node].is_empty() {
                // In order: what has come meanwhile waits in the kernel.
                if self.asleep[life.node].is_empty() {
                    environment.after(node.paused_until - now, Event::Awake(life.node));
                }
                self.asleep[life.node].push_back(event);
                return Ok(());
            }
        }
        self.happen(event)
    }

    /// A process goes on that stood still.
    fn awake(&mut self, node: usize) -> Checked {
        let now = self.environment.queue.now();
        let until = self.nodes[node].paused_until;
        if now < until {
            self.environment.after(until - now, Event::Awake(node));
            return Ok(());
        }
        for event in std::mem::take(&mut self.asleep[node]) {
            self.dispatch(event)?;
            self.follow()?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        let World { environment, nodes, clients, .. } = self;
        match event {
            Event::Run(life) => nodes[life.node].run(environment)?,
            Event::Thread(life, thread, answer) => nodes[life.node].resume(thread, answer, environment)?,
            Event::Work(life, work) => nodes[life.node].done(work, environment)?,
            Event::Compiled(life, digest) => nodes[life.node].compiled(digest, environment)?,
            Event::Network(life, happening) => {
                let happening = environment.meanwhile(happening);
                nodes[life.node].happened(happening, environment)?;
            }
            Event::Call(life, dial) => self.call(life, &dial),
            Event::Frame(life, connection, frame) => {
                if environment.network.is_open(connection) {
                    let happening = crate::network::Happening::Frame(connection, frame);
                    nodes[life.node].happened(happening, environment)?;
                }
            }
            Event::Silence(connection) => environment.close(connection, None, "an answer is due and nothing has come"),
            Event::Put(life, thread, put, fate) => {
                // A late manifest of its own is another's for all that a single process knows, which has no generations: it
                // ends, and starts again.
                let own = environment.plan.cluster.workers == 0 && nodes[life.node].life != life;
                if own && environment.is_behind(put.name.as_ref()) {
                    // Stores give a request up before newer snapshots have been written and this one's namesake deleted.
                    return Ok(());
                }
                if own && put.name.as_ref().starts_with("manifests/") {
                    environment.excuse(nodes[life.node].life);
                }
                environment.put_arrives(life, thread, &put, fate);
            }
            Event::Delete(life, thread, deletion, fate) => {
                environment.deletion_arrives(life, thread, &deletion, fate);
            }
            Event::Called(life, thread, call, fate) => environment.call_arrives(life, thread, *call, fate)?,
            Event::Told(life, input) => nodes[life.node].told(*input, environment)?,
            Event::ReviewGroup => {
                let now = environment.queue.now();
                let is_heard = |node: &&Node| {
                    node.role() == Role::Gateway
                        && node.is_up()
                        && node.paused_until <= now
                        && !environment.is_stalled(node.life.node)
                };
                let heard = nodes.iter().filter(is_heard).map(|node| node.life).collect();
                environment.review_group(&heard);
            }
            Event::Produce => clients.produce(environment),
            Event::Append(life, message) => {
                let is_gone = nodes[life.node].life != life || !nodes[life.node].is_up();
                environment.append_arrives(life, is_gone, &message);
            }
            Event::Confirmed(sender, offset) => environment.confirmed(&sender, offset),
            Event::Message(node, attempt, message) => {
                if nodes[node].is_up() {
                    nodes[node].hear(attempt, message, environment)?;
                } else {
                    environment.break_connection(attempt);
                }
            }
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
            Event::Deploy => clients.deploy(environment),
            Event::Release(subject) => clients.release(subject, environment),
            Event::Poisoned(life, culprit) => nodes[life.node].poisoned(culprit, environment)?,
            Event::Start(node) => nodes[node].start(environment)?,
            Event::Quick(node) => {
                environment.slow_disks.remove(&node);
            }
            Event::Outage(node) => self.crash(node, true)?,
            Event::Emptied(node) => nodes[node].disk().leave(None),
            Event::Retire(node) => nodes[node].retire(environment)?,
            Event::TakeSnapshot(node) => nodes[node].take_snapshot(environment)?,
            Event::Awake(node) => self.awake(node)?,
            Event::Fault(_) if environment.calm => {}
            Event::Fault(kind) => {
                self.fault(ALL_FAULTS[kind])?;
                self.arm(kind);
            }
        }
        Ok(())
    }

    /// A process calls another.
    fn call(&mut self, caller: Life, dial: &Dial) {
        let World { environment, nodes, .. } = self;
        let now = environment.queue.now();
        if !environment.network.reach(caller.node, dial.to, now) {
            return environment.hangs_up(caller, dial, None, false);
        }
        match nodes[dial.to].receives(&nodes[caller.node], environment) {
            Ok(()) => {
                let Some(session) = nodes[dial.to].session(dial.caller) else { return };
                let called = nodes[dial.to].life;
                environment.connects(caller, dial, called, session);
            }
            Err(refusal) => environment.hangs_up(caller, dial, refusal, true),
        }
    }

    /// Carries out what follows from an event at once.
    fn follow(&mut self) -> Checked {
        if let Some(failure) = self.environment.broken.take() {
            return Err(failure);
        }
        for life in std::mem::take(&mut self.environment.halted) {
            if self.nodes[life.node].life == life {
                self.crash(life.node, false)?;
            }
        }
        if let Some(generation) = self.environment.round_ended.take() {
            self.compare(generation)?;
        }
        Ok(())
    }

    /// Compares the workers of a generation, which have just ended a round, with what they must be.
    fn compare(&self, generation: styx_protocol::ids::Generation) -> Checked {
        let Some(view) = self.environment.generations.get(&generation) else { return Ok(()) };
        let states: Option<Vec<_>> =
            view.members.iter().map(|member| self.nodes[*member].worker_state(generation)).collect();
        // Somebody may have gone since.
        states.map_or(Ok(()), |states| self.environment.compare(&states))
    }

    /// Lets a kind of fault happen some time.
    fn arm(&mut self, kind: usize) {
        let Environment { plan, queue, random, .. } = &mut self.environment;
        let mean = plan.faults[kind];
        let possible = match ALL_FAULTS[kind] {
            Fault::Cut | Fault::Reset | Fault::Retire | Fault::Migration => plan.cluster.workers > 0,
            _ => true,
        };
        if possible && mean > 0 && self.faults_left[kind] > 0 {
            self.faults_left[kind] -= 1;
            let delay = random.between(1, 2 * mean);
            queue.after(random, delay, Event::Fault(kind));
        }
    }

    fn fault(&mut self, fault: Fault) -> Checked {
        let World { environment, nodes, clients, .. } = self;
        let now = environment.queue.now();
        let mut at = environment.random.below(nodes.len() as u64) as usize;
        if environment.plan.cluster.coordinators > 1 && environment.random.chance(400) {
            at = environment.leader().unwrap_or(at);
        }
        match fault {
            Fault::Crash => self.crash(at, false)?,
            Fault::PowerFailure => self.crash(at, true)?,
            Fault::Pause | Fault::Suspend => {
                let (least, most) = if fault == Fault::Pause { (500, 1_500_000) } else { (10_000, 3_000_000) };
                let until = now + environment.random.between(least, most);
                nodes[at].paused_until = until;
                environment.causes.affects(at, until);
            }
            Fault::ClockJump => {
                // Mostly a second; sometimes days, forward.
                let days = if environment.random.chance(200) { environment.random.between(1, 20) * DAY } else { 0 };
                nodes[at].clock.jump((environment.random.between(0, 2_000_000) + days) as i64 - 1_000_000);
            }
            Fault::SlowDisk => {
                let (factor, time) = (environment.random.between(2, 50), environment.random.between(10_000, 300_000));
                environment.slow_disks.insert(at, factor);
                environment.after(time, Event::Quick(at));
            }
            Fault::FullDisk => {
                // Below the reserve, above it, or so little that not even what is under way comes to its end.
                let room = environment.random.pick(&[0, 2 << 10, 64 << 10, 512 << 10]);
                let (room, time) = (environment.random.below(room + 1), environment.random.between(10_000, 500_000));
                at = environment.leader().unwrap_or(0);
                nodes[at].disk().leave(Some(room));
                environment.after(time, Event::Emptied(at));
            }
            Fault::Migration => {
                at = environment.leader().unwrap_or(0);
                let (partitions, workers) =
                    (environment.plan.config.layout.partitions, environment.plan.cluster.workers);
                // Of another number of partitions, in some worlds.
                let others = environment.plan.repartitions.len() > 1;
                let goal = match environment.random.below(4) {
                    _ if others && environment.random.chance(300) => {
                        Goal::Repartition(environment.random.pick(&environment.plan.repartitions))
                    }
                    0 => Goal::Balance,
                    1 => Goal::Empty(NodeId(environment.random.between(2, 1 + workers as u64))),
                    _ => {
                        let moves = environment.random.between(1, u64::from(partitions));
                        let mut pick = || {
                            let partition = environment.random.below(u64::from(partitions)) as u16;
                            (PartitionId(partition), NodeId(environment.random.between(2, 1 + workers as u64)))
                        };
                        Goal::Move((0..moves).map(|_| pick()).collect())
                    }
                };
                let cancels = environment.random.chance(200);
                // A tenth of a second for each piece, or none at all: whoever cancels finds it under way.
                let rate = environment.random.pick(&[
                    None,
                    None,
                    None,
                    None,
                    None,
                    Some(1 << 20),
                    Some(1 << 20),
                    Some(1 << 10),
                ]);
                let stops = !cancels && environment.random.chance(150);
                // Who needs what has not arrived runs beside the epochs.
                let immediate = environment.random.chance(600) && environment.plan.config.long_max > 0;
                let mode = environment.plan.migrates.unwrap_or(match (stops, immediate) {
                    (true, _) => MigrationMode::StopAndRestart,
                    (_, true) => MigrationMode::Immediate,
                    _ => MigrationMode::Online,
                });
                if !cancels && mode == MigrationMode::StopAndRestart {
                    environment.placements.wanted();
                }
                let options = MigrationOptions { rate, mode, ..MigrationOptions::default() };
                self.amid = self.amid.or(environment.plan.dies_amid(Fault::Migration));
                nodes[at].migrate((!cancels).then_some((goal, options)), environment)?;
            }
            Fault::Deployment => {
                let amid = environment.plan.dies_amid(Fault::Deployment);
                self.amid = self.amid.or(amid);
                match amid {
                    Some(_) => clients.rekey(environment),
                    None => clients.administer(environment),
                }
                let soon = environment.random.between(0, 50_000);
                at = environment.leader().unwrap_or(0);
                environment.after(soon, Event::TakeSnapshot(at));
            }
            Fault::Cut => {
                let duration = environment.random.between(10_000, 2_000_000);
                let other = environment.random.below(nodes.len() as u64) as usize;
                let one_way = environment.random.chance(300);
                // Mostly two nodes; sometimes the network falls apart into two halves, for longer than a worker is missed.
                let halves = environment.random.chance(300);
                let duration = if halves { 3 * duration } else { duration };
                let side = environment.random.number() | 1 << at;
                let is_here = |node: usize| if halves { side >> node & 1 == 1 } else { node == at };
                let is_there = |node: usize| if halves { !is_here(node) } else { node == other };
                for here in (0..nodes.len()).filter(|node| is_here(*node)) {
                    for there in (0..nodes.len()).filter(|node| is_there(*node)) {
                        cut(environment, here, there, now + duration);
                        if !one_way {
                            cut(environment, there, here, now + duration);
                        }
                    }
                }
            }
            Fault::Reset => {
                let other = environment.random.below(nodes.len() as u64) as usize;
                for connection in environment.network.between(at, other) {
                    environment.close(connection, None, "the connection was reset");
                }
            }
            Fault::Retire => {
                let cluster = &environment.plan.cluster;
                let mut retiring: Vec<usize> = (1..=cluster.workers).collect();
                if cluster.coordinators > 1 {
                    retiring.extend(environment.plan.coordinators());
                }
                let retiring = environment.random.pick(&retiring);
                // It may take long to hand over what it has.
                environment
                    .causes
                    .affects(retiring, now + environment.plan.cluster.timing.leave_max.as_micros() as u64);
                environment.after(0, Event::Retire(retiring));
            }
            Fault::Damage => {
                // Nobody sees it who need not read it.
                if environment.damage_snapshot() {
                    let most = environment.plan.cluster.workers as u64;
                    let reader = environment.random.between(0, most) as usize;
                    environment.after(0, Event::Outage(reader));
                }
            }
            Fault::Isolation => {
                let until = now + environment.random.between(10_000, 5_000_000);
                environment.causes.affects(at, until);
                let of = environment.random.below(3);
                if of != 0 {
                    environment.store_cut.insert(at, until);
                }
                if of != 1 {
                    environment.brokers_cut.insert(at, until);
                }
            }
        }
        self.environment.causes.caused();
        self.environment.figures.disturbances += 1;
        let life = self.nodes[at].life;
        self.environment.trace.event(now, [16, fault as u64], || format!("{life} disturbance: {fault:?}"));
        Ok(())
    }

    fn crash(&mut self, node: usize, power: bool) -> Checked {
        if !self.nodes[node].is_up() {
            return Ok(());
        }
        self.nodes[node].crash(power, &mut self.environment)?;
        self.environment.causes.affects(node, self.environment.queue.now());
        for attempt in self.clients.waiting() {
            if self.environment.history.attempts[attempt].node == node {
                self.environment.break_connection(attempt);
            }
        }
        self.environment.causes.caused();
        let delay = self.environment.random.between(1_000, 300_000);
        self.environment.after(delay, Event::Start(node));
        // Of a log on its disk, what a snapshot covers need not last either.
        if node == 0
            && !self.environment.plan.shared_log
            && !self.environment.calm
            && self.environment.random.chance(300)
        {
            self.environment.damage_log(self.nodes[0].disk(), power);
        }
        // What the next one finds need not last longer than it.
        if !self.environment.calm && self.environment.random.chance(100) {
            let soon = self.environment.random.between(0, 20_000);
            self.environment.after(delay + soon, Event::Outage(node));
        }
        Ok(())
    }

    /// Those die that are to die amid a migration, when it is time.
    fn crash_amid(&mut self) -> Checked {
        let Some(left) = self.amid.as_mut().filter(|_| !self.environment.calm) else { return Ok(()) };
        if *left > 0 {
            *left -= 1;
            return Ok(());
        }
        if let Some(amid) = self.environment.plan.amid.take() {
            amid.victims.iter().try_for_each(|victim| self.crash(*victim, false))?;
        }
        Ok(())
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
            let program = crate::toy::show(known.request.args.get(2..).unwrap_or_default());
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
        lines
    }

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

    /// What has happened, where it was kept.
    pub fn moments(&self) -> Vec<Moment> {
        self.environment.trace.moments()
    }

    /// The transactions of each request.
    pub fn transactions(&self) -> &BTreeMap<RequestId, Vec<Tid>> {
        &self.environment.checker.by_id
    }

    /// Roles of the nodes.
    pub fn roles(&self) -> Vec<Role> {
        self.nodes.iter().map(Node::role).collect()
    }
}

/// Nothing of a node reaches another until then; connections that carry nothing for long end.
fn cut(environment: &mut Environment, from: usize, to: usize, until: u64) {
    environment.network.cut(from, to, until);
    [from, to].into_iter().for_each(|node| environment.causes.affects(node, until));
    let silence = environment.plan.cluster.silence;
    if until > environment.queue.now() + silence {
        for connection in environment.network.between(from, to) {
            environment.after(silence, Event::Silence(connection));
        }
    }
}

/// What workers restore that own these partitions.
fn restore(
    store: &SnapshotStore,
    found: &Found,
    layout: Layout,
    owns: &dyn Fn(styx_protocol::ids::PartitionId) -> bool,
) -> Checked<styx_protocol::snapshot::RestoredState> {
    found.restore(store, 1, (layout, owns), None).map_err(|error| Failure::new("snapshot", format!("{error:#}")))
}

/// The life of a process that an event is for, if it is for one that must be there and awake.
fn subject(event: &Event) -> Option<Life> {
    match event {
        Event::Run(life)
        | Event::Thread(life, ..)
        | Event::Work(life, _)
        | Event::Compiled(life, _)
        | Event::Network(life, _)
        | Event::Call(life, _)
        | Event::Told(life, _)
        | Event::Poisoned(life, _)
        | Event::Frame(life, ..) => Some(*life),
        _ => None,
    }
}
