//! System operators and effects: state of the system that goes the way of all state.

use std::sync::Arc;

use styx_protocol::abort::Code;
use styx_protocol::attempt::{Execution, Overlay, Reader};
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Deployment, Isolation, Limits, OperatorSpec};
use styx_protocol::effect::{Effect, EffectKey, EffectKind};
use styx_protocol::entity::{Entity, Layout, Value};
use styx_protocol::executor::Executor;
use styx_protocol::ids::{EngineHash, Epoch, Generation, OperatorId, PartitionId, RequestId, Tid, Timestamp};
use styx_protocol::machine::worker::{ClientRequest, Executed};
use styx_protocol::machine::{Action, Config, Input, Machine, coordinator, worker};
use styx_protocol::modes::Modes;
use styx_protocol::record::EpochRecord;
use styx_protocol::replies::{RestoredReplies, Retention};
use styx_protocol::snapshot::RestoredState;
use styx_protocol::state::{Partition, State, Write};
use styx_protocol::system::{self, EFFECTS};
use styx_protocol::task::{LongTask, Started};
use styx_protocol::transaction::{Request, Transaction};

const LAYOUT: Layout = Layout::new(5, 1024);

/// Each transaction leaves two effects, and fails if its function is called so.
struct Leaving;

fn effect(tid: Tid, due: u64, index: u32) -> Effect {
    let key = EffectKey { due: Timestamp(due), tid, place: 1, index };
    Effect::new(&LAYOUT, PartitionId(900), key, EffectKind::Send, Value::from(&b"later"[..]))
}

impl Executor for Leaving {
    fn execute(&mut self, transaction: &Transaction, _: &Arc<State>, _: &Arc<Catalog>) -> Execution {
        let outcome = match &*transaction.request.function {
            "fail" => Err(styx_protocol::abort::Abort::new(Code::Aborted, "no")),
            _ => Ok(Value::default()),
        };
        let effects = vec![effect(transaction.tid, 70, 0), effect(transaction.tid, 30, 1)].into();
        Execution { outcome, effects, ..Execution::default() }
    }

    fn fall_back(
        &mut self,
        _: &Transaction,
        _: &Arc<State>,
        _: &Arc<Catalog>,
        _: Box<Overlay>,
        _: &Arc<Execution>,
    ) -> (Execution, Box<Overlay>) {
        panic!("effects conflict with nothing")
    }

    fn run_long(&mut self, _: &LongTask, _: Box<dyn Reader>) -> Execution {
        panic!("nothing is postponed")
    }
}

fn machine() -> Machine<u64> {
    Machine::new(Config {
        layout: LAYOUT,
        modes: Modes::default(),
        epoch_size_max: 100,
        epoch_fuel_max: 1 << 40,
        record_bytes_max: 1 << 20,
        backlog_max: 100,
        suspended_max: 100,
        long_max: 4,
        retention: Retention::default(),
        engine: EngineHash(0),
        generation: Generation(1),
        snapshots: true,
        step_max: worker::STEP_MAX,
        piece_bytes: worker::PIECE_BYTES,
        claim_order: false,
    })
}

/// What a machine has said so far.
#[derive(Default)]
struct Said {
    log: Vec<Arc<EpochRecord>>,
    restored: Option<RestoredState>,
    changes: Vec<Write>,
}

fn step(machine: &mut Machine<u64>, said: &mut Said, input: impl Into<Input<u64>>) {
    let mut inputs = vec![input.into()];
    while let Some(input) = inputs.pop() {
        let mut actions = Vec::new();
        machine.step(input, &mut actions);
        for action in actions {
            match action {
                Action::Worker(worker::Action::Execute(batch)) => {
                    let run = |transaction| Started::Local(Leaving.execute(transaction, &batch.state, &batch.catalog));
                    let transactions = batch.transactions.iter().map(run).collect();
                    inputs.push(worker::Input::Executed(Executed { transactions, queries: vec![] }).into());
                }
                Action::Coordinator(coordinator::Action::Append(record)) => said.log.push(record),
                Action::Coordinator(coordinator::Action::Snapshot(frame)) => {
                    let (partitions, carried) = (vec![], vec![]);
                    let replies = RestoredReplies::new(vec![], LAYOUT);
                    said.restored =
                        Some(RestoredState { frame: *frame, laid_in: LAYOUT.partitions, partitions, carried, replies });
                }
                Action::Worker(worker::Action::WorkerSnapshot(_)) => inputs.push(worker::Input::HandOver.into()),
                Action::Worker(worker::Action::Changes { changes, last }) => {
                    said.changes.extend(changes);
                    if !last {
                        inputs.push(worker::Input::HandOver.into());
                    }
                }
                _ => {}
            }
        }
    }
}

fn submit(machine: &mut Machine<u64>, said: &mut Said, id: u128, function: &str) {
    let (key, args) = ("k".into(), Value::default());
    let request = Request {
        id: RequestId(id),
        operator: OperatorId(0),
        function: function.into(),
        key,
        args,
        retained: false,
        origin: None,
    };
    step(machine, said, ClientRequest::Submit { request: Arc::new(request), waiter: 0, receipt: false });
}

#[test]
fn effects_commit_with_their_transaction_and_are_recovered_like_any_state() {
    let (mut live, mut said) = (machine(), Said::default());
    for (id, function) in [(1, "work"), (2, "fail"), (3, "work")] {
        submit(&mut live, &mut said, id, function);
    }
    step(&mut live, &mut said, coordinator::Input::Tick { now: Timestamp(10) });
    assert_eq!(live.state().len(), 4, "what failed leaves nothing");
    let range = styx_protocol::range::KeyRange::all();
    let found = live.state().scan(EFFECTS.id, &range, Some(PartitionId(900)), 10, false);
    let expected: Vec<_> = [(1, 30, 1), (3, 30, 1), (1, 70, 0), (3, 70, 0)]
        .map(|(tid, due, index)| effect(Tid(tid), due, index).entity().key().clone())
        .into();
    assert_eq!(found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|(_, value)| **value == *b"\x01later"), "a byte for the kind, then the payload");
    assert!(live.state().scan(OperatorId(0), &range, None, 10, false).is_empty(), "no app sees them");

    // From the log.
    let mut replayed = machine();
    for record in said.log.clone() {
        step(&mut replayed, &mut Said::default(), coordinator::Input::Replay(record));
    }
    assert_eq!(replayed.position(), live.position());
    assert_eq!(replayed.state().hash(), live.state().hash());

    // From a snapshot.
    step(&mut live, &mut said, coordinator::Input::Snapshot);
    let mut partition = Partition::default();
    std::mem::take(&mut said.changes).into_iter().for_each(|(entity, value)| partition.apply(entity, value));
    let mut restored = said.restored.take().expect("a snapshot was taken");
    restored.partitions.push((PartitionId(900), partition));
    let mut again = machine();
    again.restore(restored);
    assert_eq!((again.position(), again.state().hash()), (live.position(), live.state().hash()));
    again.state().check();
    for machine in [&mut live, &mut again] {
        submit(machine, &mut Said::default(), 4, "work");
        step(machine, &mut Said::default(), coordinator::Input::Tick { now: Timestamp(20) });
    }
    assert_eq!((again.position(), again.position().0), (live.position(), Epoch(2)));
}

#[test]
fn names_of_system_operators_are_reserved() {
    let deployment = |name: &str| Deployment {
        app: "app".into(),
        id: "1".into(),
        created: Timestamp(1),
        components: vec![],
        operators: vec![OperatorSpec {
            name: name.into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::default(),
            doc: String::new(),
            state: Default::default(),
            functions: vec![],
        }],
        limits: Limits::default(),
        interface: Default::default(),
    };
    let catalog = Catalog::default();
    for name in ["styx.effects", "styx.", "_private"] {
        let refused = catalog.check(&Control::Deploy(deployment(name))).unwrap_err();
        assert_eq!(refused.code, Code::BadArguments);
        assert!(refused.message.contains(name) && refused.message.contains("\"styx.\""), "{refused}");
    }
    assert_eq!(catalog.check(&Control::Deploy(deployment("styx"))), Ok(()));
    assert_eq!(catalog.system("styx.effects"), Some(EFFECTS));
    assert_eq!(catalog.system("accounts"), None);
    for operator in system::ALL {
        assert!(system::is_reserved(operator.name));
        assert!(catalog.operator(operator.id).is_none(), "it has no functions that could be called");
    }
    let entity = Entity::new(&LAYOUT, EFFECTS.id, false, "x".into());
    assert_eq!(entity.operator(), EFFECTS.id);
}
