//! A toy guest language whose reads decide its writes and calls, the machine's driver around it,
//! and a naive oracle that runs one transaction after the other.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::attempt::{Attempt, Execution, Functions, Overlay, call, run};
use styx_protocol::catalog::{
    Catalog, Component, Control, Deployment, Digest, Function, Isolation, Limits, OperatorSpec,
};
use styx_protocol::entity::{Layout, Value};
use styx_protocol::fallback::{Executor, run_component};
use styx_protocol::ids::{Epoch, OperatorId, RequestId, Tid, Timestamp};
use styx_protocol::machine::{Action, Config, Executed, Input, Machine};
use styx_protocol::record::Record;
use styx_protocol::replies::{Reply, Retention};
use styx_protocol::state::State;
use styx_protocol::transaction::{Request, Transaction};

pub const OPERATORS: [&str; 2] = ["plain", "composite"];

/// Names an entity: an operator and one of a few keys; `Dynamic` lets what was read choose.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Own,
    Key(u8),
    Dynamic,
}

/// One step of a toy function. `acc` starts from the arguments and folds in all that is read.
#[derive(Clone, Debug)]
pub enum Op {
    Read(Place),
    Write(Place),
    WriteIfOdd(Place),
    Delete(Place),
    Scan {
        from: u8,
        to: u8,
        limit: u8,
        reverse: bool,
    },
    /// Calls the program that many further down the list, so that every run ends.
    Call {
        operator: u8,
        place: Place,
        skip: u8,
        pass: bool,
    },
    CallAsync {
        operator: u8,
        place: Place,
        skip: u8,
        pass: bool,
    },
    AbortIfMultipleOf(u8),
}

pub type Program = Vec<Op>;
const KEYS: u64 = 5;

fn key(place: Place, own: &str, acc: u64) -> String {
    match place {
        Place::Own => own.to_string(),
        Place::Key(at) => format!("p{}:k{}", at as u64 % KEYS % 2, at as u64 % KEYS),
        Place::Dynamic => format!("p{}:k{}", acc % KEYS % 2, acc % KEYS),
    }
}

fn fold(acc: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(acc ^ 0xcbf2_9ce4_8422_2325, |acc, byte| (acc ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        .rotate_left(17)
}

fn args(program: usize, acc: Option<u64>) -> Vec<u8> {
    vec![program as u8, acc.map_or(0, |acc| (acc % 4) as u8)]
}

/// What a program needs from its world: the attempt, or the oracle.
trait World {
    fn get(&mut self, key: &str) -> Option<Vec<u8>>;
    fn put(&mut self, key: &str, value: &[u8]);
    fn delete(&mut self, key: &str);
    fn scan(&mut self, from: &str, to: &str, limit: u32, reverse: bool) -> Vec<(String, Vec<u8>)>;
    fn call(&mut self, operator: &str, key: &str, args: &[u8]) -> Result<Vec<u8>, Abort>;
    fn call_async(&mut self, operator: &str, key: &str, args: &[u8]);
}

fn interpret(programs: &[Program], own: &str, arguments: &[u8], world: &mut impl World) -> Result<Vec<u8>, Abort> {
    let at = arguments[0] as usize;
    let mut acc = u64::from(arguments[1]);
    let target = |skip: u8| (at + 1 + skip as usize % 3 < programs.len()).then_some(at + 1 + skip as usize % 3);
    for op in &programs[at] {
        match op {
            Op::Read(place) => acc = fold(acc, &world.get(&key(*place, own, acc)).unwrap_or_default()),
            Op::Write(place) => world.put(&key(*place, own, acc), &acc.to_le_bytes()),
            Op::WriteIfOdd(place) if acc % 2 == 1 => world.put(&key(*place, own, acc), &acc.to_le_bytes()),
            Op::WriteIfOdd(_) => {}
            Op::Delete(place) => world.delete(&key(*place, own, acc)),
            Op::Scan { from, to, limit, reverse } => {
                let bound = |at: u8| key(if u64::from(at) < KEYS { Place::Key(at) } else { Place::Dynamic }, own, acc);
                for (key, value) in world.scan(&bound(*from), &bound(*to), u32::from(*limit % 4), *reverse) {
                    acc = fold(fold(acc, key.as_bytes()), &value);
                }
            }
            Op::Call { operator, place, skip, pass } => {
                if let Some(program) = target(*skip) {
                    let result = world.call(
                        OPERATORS[*operator as usize % 2],
                        &key(*place, own, acc),
                        &args(program, pass.then_some(acc)),
                    )?;
                    acc = fold(acc, &result);
                }
            }
            Op::CallAsync { operator, place, skip, pass } => {
                if let Some(program) = target(*skip) {
                    world.call_async(
                        OPERATORS[*operator as usize % 2],
                        &key(*place, own, acc),
                        &args(program, pass.then_some(acc)),
                    );
                }
            }
            Op::AbortIfMultipleOf(n) if acc % (u64::from(*n) % 5 + 2) == 0 => {
                return Err(Abort::new(Code::Aborted, format!("acc is {acc}")));
            }
            Op::AbortIfMultipleOf(_) => {}
        }
    }
    Ok(acc.to_le_bytes().to_vec())
}

/// Runs toy programs through attempts.
pub struct Toy {
    programs: Arc<Vec<Program>>,
    attempt: Option<Attempt>,
}

impl World for Toy {
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.attempt().get(key).map(|value| value.to_vec())
    }
    fn put(&mut self, key: &str, value: &[u8]) {
        self.attempt().put(key, value);
    }
    fn delete(&mut self, key: &str) {
        self.attempt().delete(key);
    }
    fn scan(&mut self, from: &str, to: &str, limit: u32, reverse: bool) -> Vec<(String, Vec<u8>)> {
        let found = self.attempt().scan("", Bound::Included(from.into()), Bound::Excluded(to.into()), limit, reverse);
        found.into_iter().map(|(key, value)| (key.to_string(), value.to_vec())).collect()
    }
    fn call(&mut self, operator: &str, key: &str, args: &[u8]) -> Result<Vec<u8>, Abort> {
        call(self, operator, key, "f", args).map(|value| value.to_vec())
    }
    fn call_async(&mut self, operator: &str, key: &str, args: &[u8]) {
        self.attempt().call_async(operator, key, "f", args);
    }
}

impl Functions for Toy {
    fn attempt(&mut self) -> &mut Attempt {
        self.attempt.as_mut().expect("an attempt is in progress")
    }

    fn invoke(&mut self) -> Result<Value, Abort> {
        let frame = self.attempt().frame();
        let (own, args) = (frame.entity.key().clone(), frame.args.clone());
        interpret(&self.programs.clone(), &own, &args, self).map(Value::from)
    }
}

impl Toy {
    fn run(&mut self, attempt: Attempt) -> (Execution, Option<Box<Overlay>>) {
        self.attempt = Some(attempt);
        let outcome = run(self);
        self.attempt.take().expect("an attempt is in progress").finish(outcome)
    }
}

impl Executor for Toy {
    fn execute(&mut self, transaction: &Transaction, state: &Arc<State>, catalog: &Arc<Catalog>) -> Execution {
        self.run(Attempt::begin(transaction.clone(), state.clone(), catalog.clone())).0
    }

    fn fall_back(
        &mut self,
        transaction: &Transaction,
        state: &Arc<State>,
        catalog: &Arc<Catalog>,
        overlay: Box<Overlay>,
        cached: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        let attempt =
            Attempt::begin(transaction.clone(), state.clone(), catalog.clone()).fall_back(overlay, cached.clone());
        let (execution, overlay) = self.run(attempt);
        (execution, overlay.expect("an attempt of the fallback has an overlay"))
    }
}

/// State as anybody would model it, and transactions one after the other.
#[derive(Default, Clone)]
pub struct Oracle {
    pub state: BTreeMap<(usize, String), Vec<u8>>,
}

struct OracleWorld<'a> {
    programs: &'a [Program],
    oracle: &'a mut Oracle,
    operator: usize,
    issued: Vec<(usize, String, Vec<u8>)>,
}

impl World for OracleWorld<'_> {
    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.oracle.state.get(&(self.operator, key.to_string())).cloned()
    }
    fn put(&mut self, key: &str, value: &[u8]) {
        self.oracle.state.insert((self.operator, key.to_string()), value.to_vec());
    }
    fn delete(&mut self, key: &str) {
        self.oracle.state.remove(&(self.operator, key.to_string()));
    }
    fn scan(&mut self, from: &str, to: &str, limit: u32, reverse: bool) -> Vec<(String, Vec<u8>)> {
        let inside = self
            .oracle
            .state
            .iter()
            .filter(|((operator, key), _)| *operator == self.operator && from <= key.as_str() && key.as_str() < to);
        let mut found: Vec<_> = inside.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        if reverse {
            found.reverse();
        }
        found.truncate(if limit == 0 { usize::MAX } else { limit as usize });
        found
    }
    fn call(&mut self, operator: &str, key: &str, args: &[u8]) -> Result<Vec<u8>, Abort> {
        let operator = OPERATORS.iter().position(|name| *name == operator).unwrap();
        self.oracle.call(self.programs, operator, key, args)
    }
    fn call_async(&mut self, operator: &str, key: &str, args: &[u8]) {
        let operator = OPERATORS.iter().position(|name| *name == operator).unwrap();
        self.issued.push((operator, key.to_string(), args.to_vec()));
    }
}

impl Oracle {
    /// A whole transaction: all of its effects, or none.
    pub fn transaction(&mut self, programs: &[Program], request: &Request) -> Result<Vec<u8>, Abort> {
        let before = self.clone();
        let result = self.call(programs, request.operator.0 as usize, &request.key, &request.args);
        if result.is_err() {
            *self = before;
        }
        result
    }

    fn call(&mut self, programs: &[Program], operator: usize, own: &str, args: &[u8]) -> Result<Vec<u8>, Abort> {
        let mut world = OracleWorld { programs, oracle: self, operator, issued: Vec::new() };
        let result = interpret(programs, own, args, &mut world)?;
        for (operator, key, args) in std::mem::take(&mut world.issued) {
            self.call(programs, operator, &key, &args)?;
        }
        Ok(result)
    }
}

pub fn config(reordering: bool, fallback: bool) -> Config {
    Config {
        layout: Layout { seed: 7, partitions: 8 },
        sid: 1,
        n_seq: 1,
        reordering,
        fallback,
        epoch_size_max: 16,
        epoch_bytes_max: 1 << 20,
        backlog_max: 1000,
        retention: Retention::default(),
        engine: 0,
        generation: 1,
        claim_order: true,
    }
}

pub fn deployment() -> Deployment {
    let function = |name: &str, read_only| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        doc: String::new(),
    };
    let operator = |name: &str, key_prefix: Option<&str>| OperatorSpec {
        name: name.into(),
        component: 0,
        key_prefix: key_prefix.map(Into::into),
        isolation: Isolation::Warm,
        doc: String::new(),
        functions: vec![function("f", false), function("q", true)],
    };
    Deployment {
        id: "dp_1".into(),
        app: "toy".into(),
        created: Timestamp(0),
        components: vec![Component { name: "toy".into(), digest: Digest([0; 32]), size: 0, sdk: "toy".into() }],
        operators: vec![operator(OPERATORS[0], None), operator(OPERATORS[1], Some("p"))],
        limits: Limits { calls: 200, ..Limits::default() },
    }
}

pub fn request(id: u128, operator: u8, key: u8, program: u8, retained: bool) -> Request {
    Request {
        id: RequestId(id),
        operator: OperatorId(u32::from(operator) % 2),
        function: "f".into(),
        key: format!("p{}:k{}", u64::from(key) % KEYS % 2, u64::from(key) % KEYS).into(),
        args: args(program as usize, None).into(),
        retained,
    }
}

/// The machine with a single-threaded driver around it that keeps all it sees.
pub struct Driver {
    pub machine: Machine<u64>,
    executor: Toy,
    pub log: Vec<Vec<u8>>,
    pub replies: Vec<(u64, Reply)>,
    pub accepted: Vec<u64>,
    pub unknown: Vec<u64>,
    pub order: Vec<Tid>,
    pub epochs: Vec<(Epoch, usize, usize)>,
    now: u64,
}

impl Driver {
    pub fn new(programs: Arc<Vec<Program>>, config: Config) -> Self {
        Driver {
            machine: Machine::new(config),
            executor: Toy { programs, attempt: None },
            log: vec![],
            replies: vec![],
            accepted: vec![],
            unknown: vec![],
            order: vec![],
            epochs: vec![],
            now: 0,
        }
    }

    /// A driver whose machine has the toy app deployed.
    pub fn deployed(programs: Arc<Vec<Program>>, config: Config) -> Self {
        let mut driver = Driver::new(programs, config);
        driver.step(Input::Control { control: Control::Deploy(deployment()), waiter: u64::MAX });
        driver.tick();
        driver
    }

    pub fn tick(&mut self) {
        self.now += 10;
        self.step(Input::Tick { now: Timestamp(self.now) });
    }

    /// Recovers from another driver's log.
    pub fn replay(&mut self, log: &[Vec<u8>]) {
        for record in log {
            let Ok(Record::Epoch(record)) = Record::decode(record) else {
                panic!("a record that was written can be read")
            };
            self.step(Input::Replay(record));
        }
    }

    /// Steps the machine and does what it says, until nothing is left.
    pub fn step(&mut self, input: Input<u64>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut actions = Vec::new();
            self.machine.step(input, &mut actions);
            for action in actions {
                match action {
                    Action::Append(record) => self.log.push(Record::Epoch(record).encode()),
                    Action::Execute(batch) => {
                        let executed = Executed {
                            transactions: batch
                                .transactions
                                .iter()
                                .map(|transaction| self.executor.execute(transaction, &batch.state, &batch.catalog))
                                .collect(),
                            queries: batch
                                .queries
                                .iter()
                                .map(|transaction| self.executor.execute(transaction, &batch.state, &batch.catalog))
                                .collect(),
                        };
                        inputs.push(Input::Executed(executed));
                    }
                    Action::FallBack(batch) => {
                        // The last component first: their order must not matter.
                        let outcomes = batch
                            .components
                            .iter()
                            .rev()
                            .map(|members| run_component(&mut self.executor, members, &batch.state, &batch.catalog))
                            .collect();
                        inputs.push(Input::FellBack(outcomes));
                    }
                    Action::Reply { waiter, reply } => self.replies.push((waiter, reply)),
                    Action::Accepted { waiter, .. } => self.accepted.push(waiter),
                    Action::Controlled { result, .. } => result.unwrap(),
                    Action::Finished(summary) => {
                        self.order.extend(&summary.order);
                        self.epochs.push((summary.epoch, summary.fell_back, summary.rescheduled));
                    }
                    Action::Unknown { waiter } => self.unknown.push(waiter),
                    Action::Logs { .. } => {}
                }
            }
        }
    }
}
