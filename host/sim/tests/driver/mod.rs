//! The machine with a driver that does everything at once, for tests that say what happens step by step.

pub mod long;
pub mod taken;

use std::sync::Arc;

use styx_protocol::control::Control;
use styx_protocol::entity::Layout;
use styx_protocol::executor::Executor;
use styx_protocol::fallback::run_component;
use styx_protocol::ids::{EngineHash, Epoch, Generation, OperatorId, RequestId, Tid, Timestamp};
use styx_protocol::machine::worker::{ClientResponse, Executed};
use styx_protocol::machine::{Action, Config, Input, Machine, coordinator, worker};
use styx_protocol::modes::Modes;
use styx_protocol::record::{EpochRecord, Record};
use styx_protocol::replies::{Reply, Retention};
use styx_protocol::task::{LongTask, Started};
use styx_protocol::transaction::Request;
use styx_sim::random::Random;
use styx_sim::toy::{self, Toy, keys};
use taken::Taken;

pub fn config(reordering: bool, fallback: bool) -> Config {
    Config {
        layout: Layout::new(7, 8),
        modes: Modes { reordering, fallback, caching: true },
        epoch_size_max: 16,
        epoch_fuel_max: 1 << 40,
        record_bytes_max: 1 << 20,
        backlog_max: 1000,
        suspended_max: 100,
        long_max: 4,
        retention: Retention::default(),
        engine: EngineHash(0),
        generation: Generation(1),
        snapshots: false,
        step_max: worker::STEP_MAX,
        piece_bytes: worker::PIECE_BYTES,
        claim_order: true,
    }
}

/// Keys that programs choose from.
pub const KEYS: u8 = 5;

pub fn request(id: u128, operator: u8, key: u8, program: &[u8], retained: bool) -> Request {
    Request {
        id: RequestId(id),
        operator: OperatorId(u32::from(operator) % 2),
        function: "f".into(),
        key: keys::name(u64::from(key % KEYS)).into(),
        args: toy::args(0, KEYS, program).into(),
        retained,
        origin: None,
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
    pub taken: Taken,
    /// Long transactions that were started, and run for ever.
    pub long: Vec<LongTask>,
    now: u64,
}

impl Driver {
    pub fn new(config: Config) -> Self {
        Driver {
            machine: Machine::new(config),
            executor: Toy::default(),
            log: vec![],
            replies: vec![],
            accepted: vec![],
            unknown: vec![],
            order: vec![],
            epochs: vec![],
            taken: Taken::default(),
            long: vec![],
            now: 0,
        }
    }

    /// A driver whose machine has the toy app deployed.
    pub fn deployed(config: Config) -> Self {
        let mut driver = Driver::new(config);
        driver
            .step(coordinator::Input::Control { control: Control::Deploy(toy::deployment(1)), waiter: Some(u64::MAX) });
        driver.tick();
        driver
    }

    /// From now on no transaction comes to its end inside an epoch.
    pub fn postpone(&mut self) {
        self.executor = Toy::postponing(1000, Random::new(1));
    }

    pub fn tick(&mut self) {
        self.now += 10;
        self.step(coordinator::Input::Tick { now: Timestamp(self.now) });
    }

    /// A driver that begins with another's last snapshot and the rest of its log.
    pub fn restored(config: Config, from: &Driver) -> Self {
        let mut driver = Driver::new(config);
        let layout = driver.machine.state().layout();
        driver.machine.restore(from.taken.restored(layout, |_| true));
        driver.now = from.now;
        let epoch = driver.machine.position().0;
        driver.recover(&from.log[epoch.0 as usize..]);
        driver
    }

    /// Recovers from another driver's log: executes nothing.
    pub fn recover(&mut self, log: &[Vec<u8>]) {
        records(log).for_each(|record| self.step(coordinator::Input::Replay(record)));
    }

    /// Executes the requests of another driver's log again.
    pub fn replay(&mut self, log: &[Vec<u8>]) {
        for record in records(log) {
            let record = EpochRecord { outcome: None, ..(*record).clone() };
            self.step(coordinator::Input::Replay(record.into()));
        }
    }

    /// Steps the machine and does what it says, until nothing is left.
    pub fn step(&mut self, input: impl Into<Input<u64>>) {
        let mut inputs = vec![input.into()];
        while let Some(input) = inputs.pop() {
            styx_transcript::told(&input);
            let mut actions = Vec::new();
            self.machine.step(input, &mut actions);
            for action in actions {
                styx_transcript::did(&action);
                match action {
                    Action::Coordinator(coordinator::Action::Append(record)) => {
                        self.log.push(Record::Epoch(record).encode())
                    }
                    Action::Worker(worker::Action::Execute(batch)) => {
                        let executed = Executed {
                            transactions: batch
                                .transactions
                                .iter()
                                .map(|transaction| self.executor.execute(transaction, &batch.state, &batch.catalog))
                                .map(Started::Local)
                                .collect(),
                            queries: batch
                                .queries
                                .iter()
                                .map(|transaction| self.executor.execute(transaction, &batch.state, &batch.catalog))
                                .map(Started::Local)
                                .collect(),
                        };
                        inputs.push(worker::Input::Executed(executed).into());
                    }
                    Action::Worker(worker::Action::FallBack(batch)) => {
                        // The last component first: their order must not matter.
                        let outcomes = batch
                            .components
                            .iter()
                            .rev()
                            .map(|members| run_component(&mut self.executor, members, &batch.state, &batch.catalog))
                            .collect();
                        inputs.push(worker::Input::FellBack(outcomes).into());
                    }
                    Action::Worker(worker::Action::Respond(responses)) => {
                        responses.into_iter().for_each(|response| self.responded(response));
                    }
                    Action::Coordinator(coordinator::Action::Controlled { result, .. }) => result.unwrap(),
                    Action::Finished(summary) => {
                        self.order.extend(summary.order.iter().map(|rank| rank.tid()));
                        self.epochs.push((
                            summary.epoch,
                            summary.counts.fell_back as usize,
                            summary.counts.rescheduled as usize,
                        ));
                    }
                    Action::Worker(worker::Action::StartLong(task)) => self.long.push(task),
                    Action::Worker(worker::Action::Logs { .. }) => {}
                    Action::Coordinator(coordinator::Action::Snapshot(frame)) => self.taken.frame(*frame),
                    Action::Worker(worker::Action::WorkerSnapshot(part)) => self.taken.part(*part),
                    Action::Worker(worker::Action::Changes { changes, last }) => self.taken.changes(changes, last, 1),
                    Action::Coordinator(_) | Action::Worker(_) => panic!("there is one worker: {action:?}"),
                }
            }
        }
    }

    fn responded(&mut self, response: ClientResponse<u64>) {
        match response {
            ClientResponse::Reply { waiter, reply } | ClientResponse::Replayed { waiter, reply } => {
                self.replies.push((waiter, reply))
            }
            ClientResponse::Accepted { waiter, .. } => self.accepted.push(waiter),
            ClientResponse::Unknown { waiter } => self.unknown.push(waiter),
            ClientResponse::Returned { .. } => unreachable!("nobody told it to drain"),
        }
    }
}

fn records(log: &[Vec<u8>]) -> impl Iterator<Item = Arc<EpochRecord>> {
    log.iter().map(|record| match Record::decode(record) {
        Ok(Record::Epoch(record)) => record,
        _ => panic!("a record that was written can be read"),
    })
}
