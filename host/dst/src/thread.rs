//! Threads of simulated processes that block: the product's own code, on a stack of its own, suspended wherever it
//! waits for a disk, a store, an order or the clock.
//!
//! A thread runs only while the world resumes it, so that everything stays in one thread of this program and follows
//! from the seed. What it waits for it says to the world, which lets time go on and answers. A process that crashes
//! drops its threads where they are.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use styx_protocol::attempt::{Operation, RemoteResponse};
use styx_protocol::ids::Generation;
use styx_protocol::task::RunId;

use crate::records::{Call, Told};
use crate::store::{Deletion, Put, PutAnswer};
use crate::topic::{Message, Sender};

/// What a thread waits for.
#[derive(Debug)]
pub enum Wait {
    /// An order: it goes on when there is one.
    Order,
    /// Time.
    Pause(Duration),
    /// The disk does something.
    Disk(DiskOperation),
    /// The store answers a read.
    Read,
    /// The store puts an object.
    Put(Put),
    /// The store deletes objects.
    Delete(Deletion),
    /// A message is sent to the topic.
    Append(Message),
    /// More of what was sent is confirmed, or nothing more will be.
    Confirmation(Sender),
    /// The topic is read.
    Fetch,
    /// The topic forgets what lies below an offset.
    Forget(i64),
    /// Brokers are asked for something.
    Call(Box<Call>),
    /// The process reads its state for a run of a long transaction.
    State(Option<Generation>, RunId, Operation),
}

/// An operation of a disk that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    Sync,
    /// Anything else: it is quick, and may fail.
    Other,
}

/// The world's answer.
#[derive(Debug)]
pub enum Answer {
    Done,
    Failed,
    /// The end of [`Wait::Put`].
    Put(PutAnswer),
    /// The brokers' answer.
    Told(Box<Told>),
    /// What [`Wait::State`] has found.
    State(Box<RemoteResponse>),
}

type Switch = Yielder<Answer, Wait>;

thread_local! {
    /// The way out of the thread that runs, if one does.
    static RUNNING: Cell<*const Switch> = const { Cell::new(ptr::null()) };
    /// Stacks of threads that have ended.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

const STACK_BYTES: usize = 1 << 20;

/// Waits, in a thread; returns at once what waits for nothing, outside of one.
///
/// # Panics
/// Nothing may be waited for outside of a thread.
pub fn wait(wait: Wait) -> Answer {
    let running = RUNNING.get();
    if std::thread::panicking() {
        // The process is gone, and drops what it held.
        return Answer::Failed;
    }
    assert!(!running.is_null(), "only a thread waits: {wait:?}");
    // SAFETY: it is set while its coroutine runs, on whose stack this call is: the coroutine's body, which owns the
    // yielder, has not ended.
    unsafe { &*running }.suspend(wait)
}

/// Whether this is called in a thread of a simulated process.
pub fn is_running() -> bool {
    !RUNNING.get().is_null()
}

pub struct Thread {
    coroutine: Option<Coroutine<Answer, Wait, ()>>,
    switch: Rc<Cell<*const Switch>>,
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Thread {
    /// A thread that has not begun.
    pub fn new(body: impl FnOnce() + 'static) -> Self {
        let switch = Rc::new(Cell::new(ptr::null()));
        let own = switch.clone();
        let stack = STACKS.with_borrow_mut(Vec::pop);
        let stack = stack.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("there is memory for a stack"));
        let coroutine = Coroutine::with_stack(stack, move |switch: &Switch, _| {
            own.set(switch);
            RUNNING.set(switch);
            body();
        });
        Thread { coroutine: Some(coroutine), switch }
    }

    /// Lets it run until it waits; `None` if it has ended.
    pub fn resume(&mut self, answer: Answer) -> Option<Wait> {
        let coroutine = self.coroutine.as_mut()?;
        let _outside = Outside(RUNNING.replace(self.switch.get()));
        match coroutine.resume(answer) {
            CoroutineResult::Yield(wait) => Some(wait),
            CoroutineResult::Return(()) => {
                let stack = self.coroutine.take().map(Coroutine::into_stack);
                STACKS.with_borrow_mut(|stacks| stacks.extend(stack));
                None
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let Some(mut coroutine) = self.coroutine.take() else { return };
        let _outside = Outside(RUNNING.replace(self.switch.get()));
        // Drops what is on its stack, as the end of a process does not: nothing of that reaches the world.
        coroutine.force_unwind();
        if coroutine.done() {
            STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
        }
    }
}

/// Puts back what ran before, also when a thread panics.
struct Outside(*const Switch);

impl Drop for Outside {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}
