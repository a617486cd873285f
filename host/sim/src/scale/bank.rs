//! The workload of the scale study: transfers that never wait, as YCSB-T has them, and the least
//! that can run them, so that what is measured is the protocol.
//!
//! Accounts are handed out in turn, so that nothing conflicts but what is meant to.

use std::collections::BTreeMap;
use std::sync::Arc;

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Attempt, Execution, Fragment, Mode, Next, Overlay, Placement};
use styx_protocol::catalog::{
    Catalog, Component, Consistency, Control, Deployment, Digest, Function, Isolation, Limits, OperatorSpec,
};
use styx_protocol::entity::{Key, Layout, Value};
use styx_protocol::fallback::Executor;
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::state::State;
use styx_protocol::task::{LocalView, Progress, Started, SuspendedId, Task, TaskExecutor, TaskKind, TaskProgress};
use styx_protocol::transaction::{Request, Transaction};

use super::Load;

const ACCOUNTS: &str = "accounts";
const FUNCTIONS: [&str; 2] = ["transfer", "deposit"];

/// The app: `transfer` takes from its account and deposits in others, without waiting for them.
pub fn deployment() -> Control {
    let function = |name: &str| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only: false,
        consistency: Consistency::Serializable,
        doc: String::new(),
    };
    Control::Deploy(Deployment {
        id: "dp_1".into(),
        app: "bank".into(),
        created: Timestamp(0),
        components: vec![Component { name: "bank".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
        operators: vec![OperatorSpec {
            name: ACCOUNTS.into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            functions: FUNCTIONS.map(function).into(),
        }],
        limits: Limits::default(),
    })
}

/// Accounts of every worker, and the transfers between them.
#[derive(Debug)]
pub struct Bank {
    load: Load,
    /// By worker.
    accounts: Vec<Vec<Key>>,
    /// The next account of each worker.
    next: Vec<usize>,
    requests: u128,
}

impl Bank {
    /// As many accounts as an epoch of this load needs.
    pub fn new(load: Load, layout: &Layout, placement: &Placement) -> Self {
        let workers = usize::from(load.workers);
        // Its own, and what others deposit there; none twice in an epoch.
        let each = load.transactions * load.parts + 1;
        let mut accounts: Vec<Vec<Key>> = vec![Vec::new(); workers];
        let mut missing = workers;
        for number in 0u64.. {
            let key: Key = format!("{number:06}").into();
            let own = &mut accounts[usize::from(placement.owner(layout.partition(&key, false)).0)];
            if own.len() < each {
                own.push(key);
                missing -= usize::from(own.len() == each);
            }
            if missing == 0 {
                break;
            }
        }
        Bank { load, accounts, next: vec![0; workers], requests: 0 }
    }

    fn account(&mut self, worker: usize) -> Key {
        let next = &mut self.next[worker];
        *next = (*next + 1) % self.accounts[worker].len();
        self.accounts[worker][*next].clone()
    }

    /// What a worker is asked for in one epoch.
    pub fn requests(&mut self, worker: usize) -> Vec<Request> {
        let (load, workers) = (self.load, self.accounts.len());
        let mut from = self.account(worker);
        let mut shared = 0;
        let mut requests = Vec::with_capacity(load.transactions);
        for at in 0..load.transactions {
            if !load.conflicts_at(at) {
                from = self.account(worker);
            }
            let others: Vec<Key> = match load.shared_at(at) {
                true => {
                    shared += 1;
                    // Each time others, all equally often.
                    let first = shared * (load.parts - 1);
                    (1..load.parts)
                        .map(|part| self.account((worker + 1 + (first + part) % (workers - 1)) % workers))
                        .collect()
                }
                false => (1..load.parts).map(|_| self.account(worker)).collect(),
            };
            self.requests += 1;
            requests.push(Request {
                id: RequestId(self.requests),
                operator: OperatorId(0),
                function: FUNCTIONS[0].into(),
                key: from.clone(),
                args: others.join(",").into_bytes().into(),
                retained: false,
            });
        }
        requests
    }
}

/// Runs transfers. They wait only in the fallback, where a call of another worker has its turn.
#[derive(Debug, Default)]
pub struct Transfers {
    parked: BTreeMap<SuspendedId, Fragment>,
    next: u64,
}

impl Transfers {
    fn invoke(attempt: &mut Attempt) -> Result<Value, Abort> {
        let (function, args) = (attempt.frame().function, attempt.frame().args.clone());
        let after = attempt.get_own().map_or(1, |value| u64::from(value[0]) + 1);
        attempt.put_own(&after.to_le_bytes());
        if function == 0 {
            for other in std::str::from_utf8(&args).expect("keys are text").split(',').filter(|key| !key.is_empty()) {
                attempt.call_async(ACCOUNTS, other, FUNCTIONS[1], b"1");
            }
        }
        Ok(Value::default())
    }

    fn go(&mut self, attempt: &mut Attempt, mut next: Next) -> Progress {
        loop {
            next = match next {
                Next::Invoke => {
                    let result = Transfers::invoke(attempt);
                    attempt.invoked(result)
                }
                Next::AwaitRemote(ask) => {
                    self.next += 1;
                    let parked = SuspendedId(self.next);
                    self.parked.insert(parked, attempt.park());
                    return Progress::Suspended(parked, ask);
                }
                Next::Done(result) => return Progress::Done(result),
            }
        }
    }

    fn alone(&mut self, mut attempt: Attempt) -> (Execution, Option<Box<Overlay>>) {
        let next = attempt.start();
        match self.go(&mut attempt, next) {
            Progress::Done(result) => attempt.finish(result),
            Progress::Suspended(..) => unreachable!("there is nobody to wait for"),
        }
    }
}

impl Executor for Transfers {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        self.alone(Attempt::begin(transaction.clone(), state.clone(), catalog.clone())).0
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let attempt = Attempt::begin(transaction.clone(), state.clone(), catalog.clone());
        let (execution, overlay) = self.alone(attempt.fall_back(overlay, cached.clone()));
        (execution, overlay.expect("an attempt of the fallback has an overlay"))
    }
}

impl TaskExecutor for Transfers {
    fn start(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        seat: &LocalView,
    ) -> Started {
        let mut attempt = Box::new(seat.attempt(transaction, state, catalog, Mode::default()));
        let next = attempt.start();
        match self.go(&mut attempt, next) {
            Progress::Done(result) if attempt.is_local() => Started::Local(attempt.finish(result).0),
            progress => Started::Distributed(attempt, progress),
        }
    }

    fn advance(&mut self, task: Task) -> TaskProgress {
        let mut attempt = task.attempt.into_attempt();
        let next = match task.kind {
            TaskKind::Root => attempt.start(),
            TaskKind::Call { target, issuer } => attempt.serve_call(target, issuer),
            TaskKind::Resume { parked, answers } => {
                attempt.unpark(self.parked.remove(&parked).expect("who is resumed waits here"));
                attempt.answered(answers)
            }
        };
        let progress = self.go(&mut attempt, next);
        TaskProgress { graph: task.graph, attempt, progress }
    }

    fn forget(&mut self) {
        self.parked.clear();
    }
}
