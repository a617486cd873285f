//! Below the ingress: the protocol's machine, an executor and a log in memory, in turns on one thread.

use std::path::PathBuf;
use std::sync::Arc;

use styx_engine::Engine;
use styx_protocol::control::Control;
use styx_protocol::deployment::Digest;
use styx_protocol::entity::Layout;
use styx_protocol::executor::Executor;
use styx_protocol::fallback::run_component;
use styx_protocol::ids::{EngineHash, Epoch, Generation, Timestamp};
use styx_protocol::machine::worker::{ClientRequest, ClientResponse, Executed};
use styx_protocol::machine::{Action, Config, Input, Machine, coordinator, worker};
use styx_protocol::modes::Modes;
use styx_protocol::record::Record;
use styx_protocol::replies::Retention;
use styx_protocol::task::Started;
use styx_protocol::transaction::Request;
use styx_storage::log::{Log, MemoryDisk, MemoryLog};

use super::Work;
use super::transfers::{Transfers, deployment};
use crate::guest;
use crate::system::Native;

/// Transactions of an epoch, as by default.
pub const EPOCH: usize = 1000;

/// Calls before those that are counted: memory is there then, and instances are warm.
const WARM_UP: usize = 2 * EPOCH;

/// Transfers with the functions as host code.
pub fn native(calls: usize) -> anyhow::Result<Work> {
    transfers(calls, Native, Digest([0; 32]))
}

pub fn wasm(calls: usize, component: &[u8], cache: PathBuf) -> anyhow::Result<Work> {
    let digest = guest::digest(component);
    let engine = Engine::in_little_space(cache.clone())?;
    let file = cache.join("component.wasm");
    std::fs::write(&file, component)?;
    engine.load(digest, &file)?;
    transfers(calls, engine.executor(), digest)
}

fn transfers(calls: usize, executor: impl Executor + 'static, component: Digest) -> anyhow::Result<Work> {
    let mut process = Process::new(executor)?;
    process.step(coordinator::Input::Control { control: Control::Deploy(deployment(component)), waiter: Some(0) });
    let mut transfers = Transfers::new()?;
    process.run(transfers.inserts());
    process.run(transfers.requests(WARM_UP));
    let mut counted = transfers.requests(calls);
    let before = process.done;
    Ok(Box::new(move || {
        process.run(std::mem::take(&mut counted));
        process.done - before
    }))
}

/// One process without its threads: driver, execution pool and appender.
struct Process<E> {
    machine: Machine<u64>,
    executor: E,
    log: MemoryLog,
    now: u64,
    /// Calls that came to a result.
    done: usize,
}

impl<E: Executor> Process<E> {
    fn new(executor: E) -> anyhow::Result<Self> {
        let config = Config {
            layout: Layout::new(1, 64),
            modes: Modes::default(),
            epoch_size_max: EPOCH,
            epoch_fuel_max: 1_000_000_000,
            record_bytes_max: 32 << 20,
            backlog_max: usize::MAX,
            suspended_max: 1024,
            long_max: 0,
            retention: Retention::default(),
            engine: EngineHash(0),
            generation: Generation(1),
            snapshots: false,
            step_max: worker::STEP_MAX,
            piece_bytes: worker::PIECE_BYTES,
            claim_order: false,
        };
        Ok(Process { machine: Machine::new(config), executor, log: MemoryDisk::default().open()?, now: 0, done: 0 })
    }

    /// Submits an epoch's requests after the other, and goes on until all have ended.
    fn run(&mut self, requests: Vec<Arc<Request>>) {
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() || self.machine.has_work() {
            for (at, request) in requests.by_ref().take(EPOCH).enumerate() {
                self.step(ClientRequest::Submit { request, waiter: at as u64, receipt: false });
            }
            self.now += 1000;
            self.step(coordinator::Input::Tick { now: Timestamp(self.now) });
        }
    }

    /// Takes a step, and does what comes of it until nothing is left.
    fn step(&mut self, input: impl Into<Input<u64>>) {
        let (mut next, mut appended) = (Some(input.into()), None);
        let mut actions = Vec::new();
        while let Some(input) = next.take() {
            self.machine.step(input, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Coordinator(coordinator::Action::Append(record)) => appended = Some(self.append(record)),
                    Action::Worker(worker::Action::Execute(batch)) => {
                        let execute = |transaction| {
                            Started::Local(self.executor.execute(transaction, &batch.state, &batch.catalog))
                        };
                        let transactions = batch.transactions.iter().map(execute).collect();
                        next = Some(worker::Input::Executed(Executed { transactions, queries: Vec::new() }).into());
                    }
                    Action::Worker(worker::Action::FallBack(batch)) => {
                        let run =
                            |members: &Vec<_>| run_component(&mut self.executor, members, &batch.state, &batch.catalog);
                        next = Some(worker::Input::FellBack(batch.components.iter().map(run).collect()).into());
                    }
                    Action::Worker(worker::Action::Respond(responses)) => {
                        let ok = |response: &ClientResponse<u64>| matches!(response, ClientResponse::Reply { reply, .. } if reply.outcome.is_ok());
                        self.done += responses.iter().filter(|response| ok(response)).count();
                    }
                    Action::Coordinator(coordinator::Action::Controlled { .. }) | Action::Finished(_) => {}
                    other => unreachable!("nobody asks for this: {other:?}"),
                }
            }
            // Replies wait for it: it is durable once the epoch has ended.
            if next.is_none() {
                next = appended.take().map(|epoch| coordinator::Input::Durable(epoch).into());
            }
        }
    }

    fn append(&mut self, record: Arc<styx_protocol::record::EpochRecord>) -> Epoch {
        let epoch = record.epoch;
        self.log.append(&Record::Epoch(record).encode()).expect("memory takes all");
        self.log.sync().expect("memory takes all");
        epoch
    }
}
