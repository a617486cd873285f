//! Threads that run long transactions beside the epochs. Each reads state by asking the driver's thread, and gives way
//! to all others.
//!
//! A run of a generation that is over ends with its next read. Until then it keeps its executor, and a run of the next
//! generation may have to wait for one.

use std::collections::HashMap;
use std::hash::Hash;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Execution, Operation, Reader, RemoteResponse};
use styx_protocol::executor::Executor;
use styx_protocol::task::LongTask;

use crate::fatal::{fatal, fatal_on_panic};

/// What a run has to say to the driver's thread; `I` names the run.
pub(crate) enum LongEvent<I> {
    /// It reads; answered with [`LongPool::answer`].
    Read(I, Operation),
    /// It is over.
    Ended(I, Box<Execution>),
}

/// How much less than the others' is the share of processor time of these threads (`nice`).
const NICENESS: i32 = 10;

/// See the module.
pub(crate) struct LongPool<E, I> {
    /// Executors that no thread has.
    idle: Receiver<E>,
    give_back: Sender<E>,
    stack_bytes: usize,
    /// Where runs wait for what they read.
    readers: HashMap<I, Sender<RemoteResponse>>,
}

/// What a run reads through.
struct DriverReader<I, S> {
    run: I,
    send: S,
    answers: Receiver<RemoteResponse>,
}

impl<I: std::fmt::Debug, S> std::fmt::Debug for DriverReader<I, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverReader").field("run", &self.run).finish_non_exhaustive()
    }
}

impl<I: Copy + Send + std::fmt::Debug, S: Fn(LongEvent<I>) -> bool + Send> Reader for DriverReader<I, S> {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        let is_there = (self.send)(LongEvent::Read(self.run, operation));
        let answer = is_there.then(|| self.answers.recv().ok()).flatten();
        answer.unwrap_or_else(|| RemoteResponse::Failed(Abort::new(Code::Aborted, "its generation is over")))
    }
}

impl<E: Executor + Send + 'static, I: Copy + Eq + Hash + std::fmt::Debug + Send + 'static> LongPool<E, I> {
    /// For as many runs at a time as there are `executors`.
    pub(crate) fn new(executors: impl Iterator<Item = E>, stack_bytes: usize) -> Self {
        let (give_back, idle) = unbounded();
        executors.for_each(|executor| give_back.send(executor).expect("the other end is here"));
        LongPool { idle, give_back, stack_bytes, readers: HashMap::new() }
    }

    /// Starts a run on a thread of its own; `send` takes what it has to say, and tells whether anybody hears it.
    pub(crate) fn start(
        &mut self,
        run: I,
        task: LongTask,
        send: impl Fn(LongEvent<I>) -> bool + Clone + Send + 'static,
    ) {
        let (answer, answers) = bounded(1);
        self.readers.insert(run, answer);
        let (idle, give_back) = (self.idle.clone(), self.give_back.clone());
        let body = move || {
            // Where it is not allowed, all threads are equal.
            let _ = rustix::process::nice(NICENESS);
            let mut executor = idle.recv().expect("this thread holds the other end");
            if answers.try_recv() != Err(TryRecvError::Disconnected) {
                let reader = Box::new(DriverReader { run, send: send.clone(), answers });
                let execution = Box::new(executor.run_long(&task, reader));
                send(LongEvent::Ended(run, execution));
            }
            // Nobody is there only when the process ends.
            let _ = give_back.send(executor);
        };
        let thread = std::thread::Builder::new().name("styx-long".into()).stack_size(self.stack_bytes);
        if let Err(error) = thread.spawn(move || fatal_on_panic("long transaction", body)) {
            fatal(&format!("cannot start a thread for a long transaction: {error}"));
        }
    }

    /// A run gets what it has asked for.
    pub(crate) fn answer(&self, run: I, answer: RemoteResponse) {
        if let Some(reader) = self.readers.get(&run) {
            // It waits.
            let _ = reader.send(answer);
        }
    }

    /// A run is over.
    pub(crate) fn ended(&mut self, run: I) {
        self.readers.remove(&run);
    }

    /// The generation of all runs is over.
    pub(crate) fn forget(&mut self) {
        self.readers.clear();
    }
}
