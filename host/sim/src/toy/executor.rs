//! Runs toy programs through the protocol's attempts. A program that waits for another worker is a
//! future that nobody wakes: it is polled again when its answers have come.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Bound;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{
    Attempt, Execution, Fragment, Locality, LogLevel, Mode, Next, Overlay, Reader, RemoteRequests, RemoteResponse,
};
use styx_protocol::catalog::Catalog;
use styx_protocol::entity::Value;
use styx_protocol::executor::Executor;
use styx_protocol::state::State;
use styx_protocol::task::{
    LocalView, LongTask, Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress,
};
use styx_protocol::transaction::Transaction;

use super::{World, interpret, keys};
use crate::random::Random;

/// An executor; one per thread.
#[derive(Debug, Default)]
pub struct Toy {
    parked: BTreeMap<SuspendedId, Waiting>,
    next: u64,
    /// Attempts that use up their slice, in a thousand.
    long: Option<(u32, Random)>,
}

type Run = Pin<Box<dyn Future<Output = Result<Value, Abort>>>>;

/// A program that waits.
struct Waiting {
    run: Run,
    guest: Rc<Guest>,
    fragment: Fragment,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("fragment", &self.fragment).finish_non_exhaustive()
    }
}

/// State that a running program and its executor share.
#[derive(Default)]
struct Guest {
    attempt: RefCell<Option<Box<Attempt>>>,
    ask: Cell<Option<RemoteRequests>>,
    answers: Cell<Option<Vec<RemoteResponse>>>,
}

impl Guest {
    fn with<T>(&self, act: impl FnOnce(&mut Attempt) -> T) -> T {
        act(self.attempt.borrow_mut().as_mut().expect("an attempt is in progress"))
    }

    async fn ask(&self, ask: RemoteRequests) -> Vec<RemoteResponse> {
        self.ask.set(Some(ask));
        poll_fn(|_| self.answers.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    async fn go(self: &Rc<Self>, mut next: Next) -> Result<Value, Abort> {
        loop {
            next = match next {
                Next::Invoke => {
                    let invoked: Run = Box::pin(invoke(self.clone()));
                    let result = invoked.await;
                    self.with(|attempt| attempt.invoked(result))
                }
                Next::AwaitRemote(ask) => {
                    let answers = self.ask(ask).await;
                    self.with(|attempt| attempt.answered(answers))
                }
                Next::Done(result) => return result,
            }
        }
    }
}

async fn invoke(guest: Rc<Guest>) -> Result<Value, Abort> {
    let (version, own, args) = guest.with(|attempt| {
        let length = attempt.frame().args.len();
        attempt.spend(length as u64);
        let frame = attempt.frame();
        (attempt.operator().component.0[0], frame.entity.key().clone(), frame.args.clone())
    });
    let mut program = Program(guest, Vec::new(), false);
    let acc = interpret(version, &own, &args, &mut program).await?;
    let mut result = acc.to_le_bytes().to_vec();
    result.extend(program.1);
    Ok(result.into())
}

/// The world of a running program, the bytes that its result shows, and whether the invoked entity is meant by its name.
struct Program(Rc<Guest>, Vec<u8>, bool);

impl Program {
    /// Whether a key is that of the invoked entity and not meant by its name: every other time.
    fn is_own(&mut self, key: &str) -> bool {
        self.2 = !self.2;
        self.2 && self.0.with(|attempt| &**attempt.frame().entity.key() == key)
    }
}

/// The number that a value stands for; results may show more behind it, and what a peer made up may be shorter.
fn number(value: &Value) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl World for Program {
    async fn get(&mut self, key: &str) -> Option<u64> {
        if self.is_own(key) {
            return self.0.with(Attempt::get_own).as_ref().map(number);
        }
        let value = match self.0.with(|attempt| attempt.get(key)) {
            Locality::Local(value) => value,
            Locality::Remote(ask) => {
                let answers = self.0.ask(ask).await;
                self.0.with(|attempt| attempt.got(answers))
            }
        };
        value.as_ref().map(number)
    }

    async fn put(&mut self, key: &str, value: Option<u64>) -> Result<(), Abort> {
        if self.is_own(key) {
            self.0.with(|attempt| match value {
                Some(value) => attempt.put_own(&value.to_le_bytes()),
                None => attempt.delete_own(),
            });
            return Ok(());
        }
        let reach = self.0.with(|attempt| match value {
            Some(value) => attempt.put(key, &value.to_le_bytes()),
            None => attempt.delete(key),
        });
        if let Locality::Remote(ask) = reach {
            let answers = self.0.ask(ask).await;
            self.0.with(|attempt| attempt.noted(answers));
        }
        Ok(())
    }

    async fn scan(
        &mut self,
        prefix: &str,
        lower: Bound<&'static str>,
        upper: Bound<&'static str>,
        limit: u32,
        reverse: bool,
    ) -> Vec<(usize, u64)> {
        let (lower, upper) = (lower.map(Into::into), upper.map(Into::into));
        let mut reach = self.0.with(|attempt| attempt.scan(prefix, lower, upper, limit, reverse));
        loop {
            match reach {
                Locality::Local(found) => {
                    return found.iter().map(|(key, value)| (keys::number(key), number(value))).collect();
                }
                Locality::Remote(ask) => {
                    let answers = self.0.ask(ask).await;
                    reach = self.0.with(|attempt| attempt.scanned(answers));
                }
            }
        }
    }

    async fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<u64, Abort> {
        let next = self.0.with(|attempt| attempt.call(operator, key, function, args));
        let result = self.0.go(next).await?;
        self.1.extend(result.get(8..).unwrap_or_default());
        Ok(number(&result))
    }

    fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<(), Abort> {
        self.0.with(|attempt| attempt.call_async(operator, key, function, args));
        Ok(())
    }

    fn show(&mut self, value: u64) {
        self.1.extend(value.to_le_bytes());
    }

    fn log(&mut self, number: u64) {
        self.0.with(|attempt| attempt.log(LogLevel::Info, number.to_string()));
    }

    fn time(&mut self) -> u64 {
        self.0.with(|attempt| attempt.time().0)
    }

    fn random(&mut self) -> u64 {
        self.0.with(Attempt::random)
    }
}

impl Toy {
    /// Programs that wait.
    pub fn waiting(&self) -> usize {
        self.parked.len()
    }

    /// Runs a program until it ends or waits.
    fn poll(&mut self, mut run: Run, guest: Rc<Guest>) -> (Box<Attempt>, Progress) {
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut attempt = guest.attempt.take().expect("an attempt is in progress");
        let progress = match polled {
            Poll::Ready(result) => Progress::Done(result),
            Poll::Pending => {
                let ask = guest.ask.take().expect("a suspended guest has requested something");
                let fragment = attempt.park();
                self.next += 1;
                let parked = SuspendedId(self.next);
                self.parked.insert(parked, Waiting { run, guest, fragment });
                Progress::Suspended(parked, ask)
            }
        };
        (attempt, progress)
    }

    /// Begins something with an attempt.
    fn begin(
        &mut self,
        mut attempt: Box<Attempt>,
        start: impl FnOnce(&mut Attempt) -> Next,
    ) -> (Box<Attempt>, Progress) {
        let next = start(&mut attempt);
        let guest = Rc::new(Guest::default());
        guest.attempt.replace(Some(attempt));
        let running = guest.clone();
        self.poll(Box::pin(async move { running.go(next).await }), guest)
    }

    /// An executor whose attempts use up their slice by chance, so many in a thousand.
    pub fn postponing(long: u32, random: Random) -> Self {
        Toy { long: Some((long, random)), ..Toy::default() }
    }

    fn is_long(&mut self) -> bool {
        self.long.as_mut().is_some_and(|(long, random)| random.chance(*long))
    }

    fn through(&mut self, attempt: Attempt) -> (Execution, Option<Box<Overlay>>) {
        match self.begin(Box::new(attempt), Attempt::start) {
            (attempt, Progress::Done(result)) => attempt.finish(result),
            (_, Progress::Suspended(..)) => panic!("a program of a single worker waits for another"),
        }
    }
}

impl Executor for Toy {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        let mut attempt = Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        if self.is_long() {
            attempt.postpone();
        }
        self.through(attempt).0
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let mut attempt =
            Attempt::begin(transaction.clone(), state.clone(), catalog.clone()).fall_back(overlay, cached.clone());
        if self.is_long() {
            attempt.postpone();
        }
        let (execution, overlay) = self.through(attempt);
        (execution, overlay.expect("an attempt of the fallback has an overlay"))
    }

    fn run_long(&mut self, task: &LongTask, reader: Box<dyn Reader>) -> Execution {
        let LongTask { transaction, layout, catalog, .. } = task;
        self.through(Attempt::begin_long(transaction.clone(), *layout, catalog.clone(), reader)).0
    }
}

impl TaskExecutor for Toy {
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        seat: &LocalView,
    ) -> Started {
        let mut attempt = seat.attempt(transaction, state, catalog, Mode::default());
        if self.is_long() {
            attempt.postpone();
        }
        match self.begin(Box::new(attempt), Attempt::start) {
            (attempt, Progress::Done(result)) if attempt.is_local() => Started::Local(attempt.finish(result).0),
            (attempt, progress) => Started::Distributed(attempt, progress),
        }
    }

    fn advance(&mut self, task: Task) -> TaskProgress {
        let Task { graph, attempt, kind } = task;
        let mut attempt = attempt.into_attempt();
        if !matches!(kind, TaskKind::Resume { .. }) && self.is_long() {
            attempt.postpone();
        }
        let (attempt, progress) = match kind {
            TaskKind::Root => self.begin(attempt, Attempt::start),
            TaskKind::Call { target, issuer } => self.begin(attempt, |attempt| attempt.serve_call(target, issuer)),
            TaskKind::Resume { parked, answers } => {
                let Waiting { run, guest, fragment } = self.parked.remove(&parked).expect("who is resumed waits here");
                attempt.unpark(fragment);
                guest.attempt.replace(Some(attempt));
                guest.answers.set(Some(answers));
                self.poll(run, guest)
            }
        };
        TaskProgress { graph, attempt, progress }
    }

    fn forget(&mut self) {
        self.parked.clear();
    }
}
