//! One simulated world, from its seed to its last check.

use styx_protocol::ids::Epoch;

use crate::check::judge::Judge;
use crate::check::testimony::Testimony;
use crate::check::{Checked, Failure};
use crate::clients::Clients;
use crate::node::{Answer, Figures, Life, Message, Node, NodeEvent, Outside};
use crate::plan::Plan;
use crate::queue::Queue;
use crate::random::Random;
use crate::trace::Trace;

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// To a node, in this life of its.
    Node(Life, NodeEvent),
    /// A client's message (the attempt, and what it says) reaches a node.
    Message(usize, usize, Message),
    /// An answer from a life of a node (or from its kernel) reaches the client of an attempt.
    Answer(Option<Life>, usize, Answer),
    /// A client has waited long enough.
    Timeout(usize),
    /// A client's slot goes on.
    Wake(usize),
    /// The administrator deploys.
    Deploy,
    /// A node starts again.
    Restart(usize),
    /// A node's disk is quick again.
    Quick(usize),
    /// A fault of this kind.
    Fault(usize),
}

/// How long everything may take to end once faults have stopped, in microseconds.
const END_MAX: u64 = 120_000_000;
/// Events of a world; more means that something goes round in circles.
const EVENTS_MAX: u64 = 2_000_000;

/// A world.
#[derive(Debug)]
pub struct World {
    outside: Outside,
    nodes: Vec<Node>,
    clients: Clients,
    /// How often each kind of fault may still happen.
    faults_left: [u32; 5],
}

/// Most faults of each kind in a world: every crash costs a replay, and enough is enough.
const FAULTS_MAX: [u32; 5] = [6, 20, 20, 20, 30];

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
        let judge = Judge::new(&plan.config, notes);
        let trace = Trace::new(notes);
        let mut outside = Outside {
            plan,
            random,
            queue: Queue::default(),
            trace,
            testimony: Testimony::default(),
            judge,
            figures: Figures::default(),
            calm: false,
        };
        let clients = Clients::new(&mut outside);
        let nodes = (0..outside.plan.nodes).map(|node| Node::new(node, &outside)).collect();
        let mut world = World { outside, nodes, clients, faults_left: FAULTS_MAX };
        (0..world.outside.plan.faults.len()).for_each(|kind| world.arm(kind));
        world
    }

    /// Runs until all is done and checked.
    ///
    /// # Errors
    /// A check is broken.
    pub fn run(&mut self) -> Checked<Report> {
        let mut deadline = None;
        let mut events = 0;
        while let Some(event) = self.outside.queue.pop() {
            self.happen(event)?;
            events += 1;
            let now = self.outside.queue.now();
            if self.clients.are_spent() && deadline.is_none() {
                deadline = Some(now + END_MAX);
                self.outside.calm = true;
                self.nodes.iter_mut().for_each(|node| node.slow_disk(1));
            }
            if self.outside.calm && self.nodes.iter().all(Node::is_quiet) && self.clients.are_done() {
                return self.end();
            }
            if deadline.is_some_and(|deadline| now > deadline) || events > EVENTS_MAX {
                break;
            }
        }
        let waiting = self.clients.waiting();
        let quiet: Vec<bool> = self.nodes.iter().map(Node::is_quiet).collect();
        Err(Failure::new(
            "liveness",
            format!(
                "faults have stopped and something never ends; quiet nodes {quiet:?}, waiting attempts {waiting:?}"
            ),
        ))
    }

    fn end(&mut self) -> Checked<Report> {
        let now = self.outside.queue.now();
        self.outside.testimony.check(&self.outside.judge)?;
        self.nodes.iter_mut().try_for_each(|node| node.check(&mut self.outside))?;
        self.outside.trace.event(now, [0], || "all is done".into());
        Ok(Report { figures: self.outside.figures, trace: self.outside.trace.hash() })
    }

    fn happen(&mut self, event: Event) -> Checked {
        let World { outside, nodes, clients, .. } = self;
        match event {
            Event::Node(life, _) if life != nodes[life.node].life || !nodes[life.node].is_up() => {}
            Event::Message(node, attempt, _) if !nodes[node].is_up() => self.break_connection(attempt),
            Event::Node(Life { node, .. }, _) | Event::Message(node, ..)
                if outside.queue.now() < nodes[node].paused_until =>
            {
                let rest = nodes[node].paused_until - outside.queue.now();
                outside.queue.after(&mut outside.random, rest, event);
            }
            Event::Node(Life { node, .. }, event) => {
                if !nodes[node].take(event, outside)? {
                    self.crash(node);
                }
            }
            Event::Message(node, attempt, message) => {
                nodes[node].take(NodeEvent::Message(attempt, message), outside)?;
            }
            Event::Answer(life, attempt, answer) => {
                let dead = life.is_some_and(|life| life != nodes[life.node].life);
                if dead && outside.random.chance(500) {
                    outside.testimony.attempts[attempt].lost = true;
                } else {
                    clients.answered(attempt, answer, outside);
                }
            }
            Event::Timeout(attempt) => clients.timed_out(attempt, outside),
            Event::Wake(slot) => clients.wake(slot, nodes[clients.node(slot, outside)].operators, outside),
            Event::Deploy => clients.deploy(outside),
            Event::Restart(node) => nodes[node].restart(outside)?,
            Event::Quick(node) => nodes[node].slow_disk(1),
            Event::Fault(_) if outside.calm => {}
            Event::Fault(kind) => {
                self.fault(kind);
                self.arm(kind);
            }
        }
        Ok(())
    }

    /// Lets a kind of fault happen some time.
    fn arm(&mut self, kind: usize) {
        let Outside { plan, queue, random, .. } = &mut self.outside;
        let mean = plan.faults[kind];
        if mean > 0 && self.faults_left[kind] > 0 {
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
            _ => return clients.administer(outside),
        }
        outside.figures.disturbances += 1;
    }

    fn crash(&mut self, node: usize) {
        self.nodes[node].crash(&mut self.outside);
        for attempt in self.clients.waiting() {
            if self.outside.testimony.attempts[attempt].node == node {
                self.break_connection(attempt);
            }
        }
        let delay = self.outside.random.between(500, 20_000);
        self.outside.queue.after(&mut self.outside.random, delay, Event::Restart(node));
    }

    fn break_connection(&mut self, attempt: usize) {
        let delay = self.outside.random.between(10, 1_000);
        self.outside.queue.after(&mut self.outside.random, delay, Event::Answer(None, attempt, Answer::Broken));
    }

    /// The history as lines: what happened last, and every transaction that touched a key which the
    /// failing transactions touched.
    pub fn history(&self, failure: &Failure) -> Vec<String> {
        let judge = &self.outside.judge;
        let touched = |tid| judge.sequenced.get(tid).map_or(&[][..], |known| &known.touched[..]);
        let keys: Vec<(u32, &str)> =
            failure.tids.iter().flat_map(touched).map(|touch| (touch.operator, touch.key)).collect();
        let mut lines = vec![format!("plan: {:?}", self.outside.plan)];
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

    /// What has been done so far.
    pub fn figures(&self) -> Figures {
        self.outside.figures
    }

    /// All events, where they were kept.
    pub fn lines(&self) -> &[String] {
        self.outside.trace.lines.as_deref().unwrap_or_default()
    }
}
