mod everything;

use std::sync::Arc;

use styx_protocol::attempt::Execution;
use styx_protocol::entity::Layout;
use styx_protocol::ids::{OperatorId, RequestId, Timestamp};
use styx_protocol::machine::worker::{Batch, Executed, PIECE_BYTES, STEP_MAX};
use styx_protocol::modes::Modes;
use styx_protocol::quarantine::Subject;
use styx_protocol::replies::Retention;
use styx_protocol::task::Started;
use styx_protocol::transaction::Request;
use styx_transcript::{did, scenario, told};

use super::*;
use crate::fullness::Full;

/// A process with a log, both of which a test holds in its hands. Guests do nothing.
struct Rig {
    /// Who is suspected still, if that has changed.
    suspects: Option<Vec<Suspect>>,
    driver: SingleDriver<u64, u64, u64>,
    now: Now,
    batches: Vec<Batch>,
    log: Vec<Arc<EpochRecord>>,
    answers: Vec<(u64, Answer)>,
    responses: Vec<(u64, Response)>,
    snapshots: Vec<(u64, Result<(), NoSnapshot>)>,
    full: Vec<Full>,
    ended: u32,
}

fn config() -> SingleConfig {
    let machine = Config {
        layout: Layout::new(7, 4),
        modes: Modes::default(),
        epoch_size_max: 3,
        epoch_fuel_max: 1 << 40,
        record_bytes_max: 1 << 20,
        backlog_max: 100,
        suspended_max: 1,
        long_max: 4,
        retention: Retention::default(),
        engine: EngineHash(5),
        generation: Generation(1),
        snapshots: false,
        step_max: STEP_MAX,
        piece_bytes: PIECE_BYTES,
        claim_order: false,
    };
    SingleConfig {
        machine,
        epoch_max_wait: Duration::from_millis(1),
        state_max: 1 << 40,
        app_state_max: None,
        suspects: Vec::new(),
        quarantine_after: 3,
    }
}

impl Rig {
    /// A process that begins with nothing.
    fn new() -> Rig {
        Rig::of(Vec::new())
    }

    /// A process that begins with a log.
    fn of(log: Vec<Arc<EpochRecord>>) -> Rig {
        Rig::with(config(), log)
    }

    fn with(config: SingleConfig, log: Vec<Arc<EpochRecord>>) -> Rig {
        let mut rig = Rig {
            driver: SingleDriver::new(config),
            suspects: None,
            now: Now { monotonic: Instant(1), wall: Timestamp(1000) },
            batches: Vec::new(),
            log: Vec::new(),
            answers: Vec::new(),
            responses: Vec::new(),
            snapshots: Vec::new(),
            full: Vec::new(),
            ended: 0,
        };
        for record in log {
            rig.step(SingleEvent::Replay(record));
            while !rig.driver.is_idle() {
                rig.execute();
            }
        }
        let mut effects = Vec::new();
        rig.driver.recovered(rig.now, LogPosition(1), None, &mut effects);
        rig.perform(effects);
        rig
    }

    fn step(&mut self, event: SingleEvent<u64, u64, u64>) {
        told(&(self.now.monotonic.0, &event));
        let mut effects = Vec::new();
        self.driver.step(self.now, event, &mut effects);
        did(&self.driver.wake());
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<SingleEffect<u64, u64, u64>>) {
        for effect in effects {
            did(&effect);
            match effect {
                SingleEffect::Append(record) => self.log.push(record),
                SingleEffect::Execute(batch) => self.batches.push(batch),
                SingleEffect::Answer(client, answer) => self.answers.push((client, answer)),
                SingleEffect::AnswerAll(responses) => self.answers.extend(responses.into_iter().map(Answer::of)),
                SingleEffect::Respond(client, response) => self.responses.push((client, response)),
                SingleEffect::SnapshotAnswer { waiter, result } => {
                    self.snapshots.push((waiter, result.map(|_| ())));
                }
                SingleEffect::KeepSuspects(suspects) => self.suspects = Some(suspects),
                SingleEffect::Full(full) => self.full.push(full),
                SingleEffect::End => self.ended += 1,
                _ => {}
            }
        }
    }

    fn submit(&mut self, waiter: u64) {
        let (id, operator) = (RequestId(u128::from(waiter)), OperatorId(0));
        let (function, key, args) = ("f".into(), "a".into(), b"[]"[..].into());
        let request = Arc::new(Request { id, operator, function, key, args, retained: false, origin: None });
        let request = ClientRequest::Submit { request, waiter, receipt: false };
        self.step(SingleEvent::Client(ClientMessage::Request(request)));
    }

    fn settle(&mut self) {
        self.step(SingleEvent::Settled);
    }

    /// The batch that is out is done.
    fn execute(&mut self) {
        let batch = self.batches.remove(0);
        let run = |_: &_| Started::Local(Execution { outcome: Ok(b"null".as_slice().into()), ..Execution::default() });
        let transactions = batch.transactions.iter().map(run).collect();
        let queries = batch.queries.iter().map(run).collect();
        drop(batch);
        self.step(SingleEvent::Executed(Executed { transactions, queries }));
    }

    /// One request, and the epoch in which it is executed.
    fn epoch(&mut self, waiter: u64) {
        self.submit(waiter);
        self.settle();
        self.execute();
    }

    fn synced(&mut self, epoch: u64) {
        self.step(SingleEvent::Synced { epoch: Epoch(epoch), position: LogPosition(epoch + 1) });
    }
}

#[test]
fn nothing_is_told_before_it_is_durable() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    rig.epoch(1);
    rig.step(SingleEvent::Client(ClientMessage::Read(AdminQuery::Workers, 2)));
    assert!(rig.answers.is_empty() && rig.responses.is_empty());
    rig.synced(1);
    assert!(matches!(&rig.answers[..], [(1, Answer::Reply(reply))] if reply.outcome.is_ok()), "{:?}", rig.answers);
    assert!(matches!(rig.responses[..], [(2, Response::Workers(_))]), "{:?}", rig.responses);
}

#[test]
fn what_earlier_lives_ended_of_is_set_aside_first_and_suspected_until_that_is_durable() {
    let _transcript = scenario!("single");
    let suspect = |request, lives| Suspect {
        request: RequestId(request),
        app: String::new(),
        function: "f".into(),
        lives,
        said: Some("boom".into()),
        app_set_aside: false,
    };
    let mut rig = Rig::with(SingleConfig { suspects: vec![suspect(8, 1), suspect(7, 3)], ..config() }, Vec::new());
    rig.submit(7);
    rig.settle();
    rig.execute();
    let aside = |rig: &Rig| -> Vec<Subject> {
        let subject = |control: &Control| match control {
            Control::Quarantine(quarantined) => Some(quarantined.subject.clone()),
            _ => None,
        };
        rig.log[0].controls.iter().filter_map(subject).collect()
    };
    assert_eq!(aside(&rig), [Subject::Request(RequestId(7))]);
    assert_eq!(rig.suspects, None);
    rig.synced(1);
    assert_eq!(rig.suspects, Some(vec![suspect(8, 1)]));
    // The next life knows the quarantine by the log, and sets nothing aside again.
    let log = std::mem::take(&mut rig.log);
    let mut rig = Rig::with(SingleConfig { suspects: vec![suspect(7, 3)], ..config() }, log);
    rig.epoch(9);
    assert_eq!(aside(&rig), []);
    assert_eq!(rig.suspects, Some(Vec::new()));
}

#[test]
fn entities_are_shown_between_epochs() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    rig.submit(1);
    rig.settle();
    let get = AdminQuery::Get { operator: 0, key: "a".into() };
    rig.step(SingleEvent::Client(ClientMessage::Read(get, 2)));
    assert!(rig.responses.is_empty(), "some of what the epoch writes may be there already");
    rig.synced(1);
    rig.execute();
    assert!(matches!(rig.responses[..], [(2, Response::Value { epoch: Epoch(1), .. })]), "{:?}", rig.responses);
}

#[test]
fn who_gets_no_more_state_is_told_when_the_log_is_replayed_and_not_before() {
    let _transcript = scenario!("single");
    let config = SingleConfig { state_max: 0, ..config() };
    let mut rig = Rig::with(config, Vec::new());
    assert_eq!(rig.full, []);
    rig.settle();
    rig.settle();
    assert_eq!(rig.full, [Full { all: true, apps: vec![] }], "once");
}

#[test]
fn epochs_are_held_back_to_fill_while_the_log_does_not_keep_up() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    (1..=2).for_each(|waiter| rig.epoch(waiter));
    rig.submit(3);
    rig.settle();
    assert_eq!(rig.log.len(), 2, "two epochs wait for the log already");
    let due = rig.driver.wake().expect("it wants to be woken");
    rig.submit(4);
    rig.submit(5);
    rig.settle();
    rig.execute();
    assert_eq!(rig.log.len(), 3, "a full epoch does not wait");
    rig.submit(6);
    rig.settle();
    assert!(rig.batches.is_empty());
    rig.now.monotonic = due.after(Duration::from_millis(1));
    rig.settle();
    rig.execute();
    assert_eq!(rig.log.len(), 4, "it has waited long enough");
}

#[test]
fn a_process_that_stops_takes_nothing_new_and_ends_when_all_is_durable() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    rig.submit(1);
    rig.step(SingleEvent::Stop);
    rig.submit(2);
    rig.settle();
    rig.execute();
    rig.settle();
    assert_eq!((rig.log.len(), rig.ended), (1, 0));
    rig.synced(1);
    rig.settle();
    assert_eq!((rig.answers.len(), rig.ended), (1, 1));
}

#[test]
fn what_was_logged_is_replayed_to_the_same_end_and_answers_nobody() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    for epoch in 1..=3 {
        rig.epoch(epoch);
        rig.synced(epoch);
    }
    let mut again = Rig::of(rig.log.clone());
    assert_eq!(again.driver.position(), rig.driver.position());
    assert!(again.answers.is_empty() && again.log.is_empty());
    again.step(SingleEvent::Client(ClientMessage::Read(AdminQuery::Workers, 2)));
    assert_eq!(again.responses.len(), 1, "what stands in the log is durable");
}

#[test]
fn a_snapshot_that_nobody_can_take_is_refused() {
    let _transcript = scenario!("single");
    let mut rig = Rig::new();
    rig.step(SingleEvent::TakeSnapshot(7));
    assert_eq!(rig.snapshots, [(7, Err(NoSnapshot::Off))]);
}
