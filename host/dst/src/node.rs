//! Nodes: a machine with its disk and clocks, and the process on it, which crashes, stands still and starts again.

use styx_driver::coordinator::{Goal, MigrationOptions};
use styx_driver::network::Refusal;
use styx_driver::suspicion::Suspect;
use styx_driver::time::Instant;
use styx_protocol::deployment::Digest;
use styx_protocol::ids::{Generation, NodeId};

use crate::check::Checked;
use crate::check::state::WorkerState;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::event::{Event, Life, Message, ThreadId, Work};
use crate::network::{Happening, Peers};
use crate::process::{Around, Directory, Input, Own, Process, Role};
use crate::thread::Answer;

#[derive(Debug)]
pub struct Node {
    role: Role,
    running: Option<Running>,
    pub life: Life,
    /// Until when the process stands still.
    pub paused_until: u64,
    pub clock: Clock,
    directory: Directory,
}

#[derive(Debug)]
struct Running {
    own: Own,
    process: Process,
    /// The driver's thread works until then.
    busy_until: u64,
    /// When it wants to be woken next.
    wakes_at: Option<u64>,
    /// When it will be, in no order: of two times the earlier one may come to nothing.
    woken_at: Vec<u64>,
}

impl Running {
    /// Has it woken at a time, or before: what is due is put off more often than not.
    fn wake(&mut self, life: Life, at: u64, environment: &mut Environment) {
        if self.woken_at.iter().all(|woken| at < *woken) {
            self.woken_at.push(at);
            environment.after(at - environment.queue.now(), Event::Run(life));
        }
    }
}

impl Node {
    /// Node number `node`, which has never run.
    pub fn new(node: usize, role: Role, directory: Directory, clock: Clock) -> Self {
        Node { role, running: None, life: Life { node, number: 0 }, paused_until: 0, clock, directory }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the process runs.
    pub fn is_up(&self) -> bool {
        self.running.is_some()
    }

    /// The name by which others know it.
    fn id(&self, environment: &mut Environment) -> NodeId {
        match self.role {
            Role::Single | Role::Coordinator => styx_driver::COORDINATOR,
            Role::Worker => NodeId(1 + self.life.node as u64),
            // Gateways are new ones each time they start.
            Role::Gateway => NodeId(environment.random.number() | 1 << 63),
        }
    }

    /// The process starts.
    pub fn start(&mut self, environment: &mut Environment) -> Checked {
        if self.is_up() {
            return Ok(());
        }
        self.life.number += 1;
        let life = self.life;
        let now = environment.queue.now();
        environment.trace.event(now, [8, life.node as u64], || format!("{life} starts as {:?}", self.role));
        self.directory.suspect();
        let (id, session) = (self.id(environment), environment.random.number());
        let peers = Peers::new(id, session, environment.plan.cluster.limits);
        let mut own = Own::new(life, peers, self.directory.clone());
        let mut around = Around { own: &mut own, environment, clock: &self.clock, spent: 0 };
        let process = Process::start(self.role, &mut around);
        self.running = Some(Running { own, process, busy_until: now, wakes_at: None, woken_at: Vec::new() });
        self.arrange(environment);
        Ok(())
    }

    /// The process dies; with the power, of what was not synced something may survive.
    ///
    /// # Errors
    /// A request has ended more processes than it may.
    pub fn crash(&mut self, power: bool, environment: &mut Environment) -> Checked {
        let (now, life) = (environment.queue.now(), self.life);
        let Some(mut running) = self.running.take() else { return Ok(()) };
        self.note(power, &mut running.process, environment)?;
        drop(running);
        environment.figures.crashes += 1;
        environment.trace.event(now, [7, life.node as u64, environment.durable.0], || {
            let what = if power { "loses power" } else { "dies" };
            format!("{life} {what}; epoch {} was durable", environment.durable)
        });
        self.paused_until = 0;
        self.directory.disk.crash(power, &mut environment.random);
        for connection in environment.network.of(life) {
            if power {
                // Nobody says anything; whoever waits for an answer finds out some time.
                let silence = environment.plan.cluster.silence;
                environment.after(silence, Event::Silence(connection));
            } else {
                environment.close(connection, Some(life), "the other side has closed it");
            }
        }
        Ok(())
    }

    /// What a process was at when it ended is noted, which power may take away.
    fn note(&self, power: bool, process: &mut Process, environment: &mut Environment) -> Checked {
        if environment.plan.poison.is_none() {
            return Ok(());
        }
        let node = self.life.node;
        if process.ends_in_order() {
            self.directory.note(None);
            self.directory.keep_suspects(Vec::new());
            environment.poison.forgotten(node);
            return Ok(());
        }
        let found = process.noted().filter(|_| !power || environment.random.chance(500));
        if let Some(found) = &found {
            environment.died(node, found)?;
        }
        self.directory.note(found);
        Ok(())
    }

    /// A run beside the epochs ends the process.
    pub fn poisoned(&mut self, culprit: Suspect, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            process.poisoned(culprit, around);
            Ok(())
        })
        .map(drop)
    }

    /// Something happens to the process, unless it is not there any more.
    fn with<T>(
        &mut self,
        environment: &mut Environment,
        act: impl FnOnce(&mut Process, &mut Around<'_>) -> Checked<T>,
    ) -> Checked<Option<T>> {
        let Some(running) = &mut self.running else { return Ok(None) };
        let mut around = Around { own: &mut running.own, environment, clock: &self.clock, spent: 0 };
        let done = act(&mut running.process, &mut around)?;
        let life = self.life;
        let failure = running.process.listen(&mut around)?;
        let spent = around.spent;
        running.busy_until = running.busy_until.max(environment.queue.now() + spent);
        if running.process.has_ended() {
            environment.halted.push(life);
        }
        if let Some(why) = failure {
            environment.halts(life, &why)?;
        }
        self.arrange(environment);
        Ok(Some(done))
    }

    /// Has the process woken when something has come, or is due.
    fn arrange(&mut self, environment: &mut Environment) {
        let Some(running) = &mut self.running else { return };
        let now = environment.queue.now();
        let around = Around { own: &mut running.own, environment, clock: &self.clock, spent: 0 };
        let due = if around.own.has_come() {
            Some(0)
        } else {
            running.process.wake(&around).map(|due: Instant| self.clock.until(due, now))
        };
        let Some(due) = due else { return };
        let at = (now + due).max(running.busy_until).max(self.paused_until);
        if running.wakes_at.is_none_or(|wakes| at < wakes) {
            running.wakes_at = Some(at);
            running.wake(self.life, at, environment);
        }
    }

    /// The disk of its machine.
    pub fn disk(&self) -> &Disk {
        &self.directory.disk
    }

    /// It is woken: takes what has come, and does what is due.
    pub fn run(&mut self, environment: &mut Environment) -> Checked {
        let now = environment.queue.now();
        let Some(running) = &mut self.running else { return Ok(()) };
        running.woken_at.retain(|at| now < *at);
        match running.wakes_at {
            Some(at) if at <= now => running.wakes_at = None,
            later => {
                later.inspect(|at| running.wake(self.life, *at, environment));
                return Ok(());
            }
        }
        self.with(environment, |process, around| process.run(around)).map(drop)
    }

    /// A thread goes on.
    pub fn resume(&mut self, thread: ThreadId, answer: Answer, environment: &mut Environment) -> Checked {
        self.with(environment, |_, around| {
            around.resume(thread, answer);
            Ok(())
        })
        .map(drop)
    }

    /// An execution thread is done with something.
    pub fn done(&mut self, work: Work, environment: &mut Environment) -> Checked {
        self.with(environment, |_, around| {
            Process::done(work, around);
            Ok(())
        })
        .map(drop)
    }

    /// A component is compiled.
    pub fn compiled(&mut self, digest: Digest, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            process.compiled(digest, around);
            Ok(())
        })
        .map(drop)
    }

    /// Something happens to a connection.
    pub fn happened(&mut self, happening: Happening, environment: &mut Environment) -> Checked {
        self.with(environment, |_, around| {
            around.happened(happening);
            Ok(())
        })
        .map(drop)
    }

    /// It is told something.
    pub fn told(&mut self, input: Input, environment: &mut Environment) -> Checked {
        self.with(environment, |_, around| {
            around.own.inbox.borrow_mut().push_back(input);
            Ok(())
        })
        .map(drop)
    }

    /// A client's message arrives.
    pub fn hear(&mut self, attempt: usize, message: Message, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            if process.listens() {
                around.own.inbox.borrow_mut().push_back(Input::Client(attempt, message));
            } else {
                around.environment.break_connection(attempt);
            }
            Ok(())
        })
        .map(drop)
    }

    /// It is asked to end.
    pub fn retire(&mut self, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            process.retire(around);
            Ok(())
        })
        .map(drop)
    }

    /// Somebody wants partitions to change their owners, or that they do not.
    pub fn migrate(&mut self, goal: Option<(Goal, MigrationOptions)>, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            process.migrate(goal, around);
            Ok(())
        })
        .map(drop)
    }

    /// Somebody wants a snapshot.
    pub fn take_snapshot(&mut self, environment: &mut Environment) -> Checked {
        self.with(environment, |process, around| {
            process.take_snapshot(around);
            Ok(())
        })
        .map(drop)
    }

    /// Whether it takes the call of another.
    ///
    /// # Errors
    /// The refusal, if somebody is there to refuse.
    pub fn receives(&self, caller: &Node, environment: &Environment) -> Result<(), Option<Refusal>> {
        let Some(running) = &self.running else { return Err(None) };
        let engine = |node: &Node| match node.role {
            Role::Worker => environment.plan.cluster.engine_of(node.life.node),
            _ => environment.plan.config.engine,
        };
        let now = self.clock.at(environment.queue.now()).monotonic;
        running.process.receives(engine(caller), engine(self), caller.role == Role::Gateway, now)
    }

    /// The session of its links to a node.
    pub fn session(&mut self, peer: NodeId) -> Option<u64> {
        self.running.as_mut().map(|running| running.own.peers.session(peer))
    }

    /// Whether its process is all of a cluster, and serves.
    pub fn serves(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.process.serves())
    }

    /// What somebody waits for in its process.
    pub fn under_way(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.process.under_way())
    }

    pub fn worker_state(&self, generation: Generation) -> Option<WorkerState<'_>> {
        self.running.as_ref().and_then(|running| running.process.worker_state(generation))
    }
}
