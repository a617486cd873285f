//! Threads that run long transactions beside the epochs. Each reads state by asking the driver's thread, and gives way
//! to all others.

use std::collections::HashMap;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Execution, Operation, Reader, RemoteResponse};
use styx_protocol::executor::Executor;
use styx_protocol::task::{LongTask, RunId};

use crate::fatal::{fatal, fatal_on_panic};

/// What a run has to say to the driver's thread.
pub(crate) enum LongEvent {
    /// It reads; answered with [`LongPool::answer`].
    Read(RunId, Operation),
    /// It is over.
    Ended(RunId, Box<Execution>),
}

/// How much less than the others' is the share of processor time of these threads (`nice`).
const NICENESS: i32 = 10;

/// See the module.
pub(crate) struct LongPool<E> {
    /// Executors that no thread has.
    idle: Receiver<E>,
    give_back: Sender<E>,
    stack_bytes: usize,
    /// Where runs wait for what they read.
    readers: HashMap<RunId, Sender<RemoteResponse>>,
}

/// What a run reads through.
struct DriverReader<S> {
    run: RunId,
    send: S,
    answers: Receiver<RemoteResponse>,
}

impl<S> std::fmt::Debug for DriverReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverReader").field("run", &self.run).finish_non_exhaustive()
    }
}

impl<S: Fn(LongEvent) -> bool + Send> Reader for DriverReader<S> {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        let is_there = (self.send)(LongEvent::Read(self.run, operation));
        let answer = is_there.then(|| self.answers.recv().ok()).flatten();
        answer.unwrap_or_else(|| RemoteResponse::Failed(Abort::new(Code::Aborted, "the server ends")))
    }
}

impl<E: Executor + Send + 'static> LongPool<E> {
    /// For as many runs at a time as there are `executors`.
    pub(crate) fn new(executors: impl Iterator<Item = E>, stack_bytes: usize) -> Self {
        let (give_back, idle) = unbounded();
        executors.for_each(|executor| give_back.send(executor).expect("the other end is here"));
        LongPool { idle, give_back, stack_bytes, readers: HashMap::new() }
    }

    /// Starts a run on a thread of its own; `send` takes what it has to say, and tells whether anybody hears it.
    pub(crate) fn start(&mut self, task: LongTask, send: impl Fn(LongEvent) -> bool + Clone + Send + 'static) {
        let mut executor = self.idle.try_recv().expect("no more run than may");
        let (answer, answers) = bounded(1);
        self.readers.insert(task.run, answer);
        let give_back = self.give_back.clone();
        let body = move || {
            // Where it is not allowed, all threads are equal.
            let _ = rustix::process::nice(NICENESS);
            let reader = Box::new(DriverReader { run: task.run, send: send.clone(), answers });
            let execution = Box::new(executor.run_long(&task, reader));
            // Before the end is told: the next run may want it. Nobody is there only when the process ends.
            let _ = give_back.send(executor);
            send(LongEvent::Ended(task.run, execution));
        };
        let thread = std::thread::Builder::new().name("styx-long".into()).stack_size(self.stack_bytes);
        if let Err(error) = thread.spawn(move || fatal_on_panic("long transaction", body)) {
            fatal(&format!("cannot start a thread for a long transaction: {error}"));
        }
    }

    /// A run gets what it has asked for.
    pub(crate) fn answer(&self, run: RunId, answer: RemoteResponse) {
        if let Some(reader) = self.readers.get(&run) {
            // It waits.
            let _ = reader.send(answer);
        }
    }

    /// A run is over.
    pub(crate) fn ended(&mut self, run: RunId) {
        self.readers.remove(&run);
    }
}
