use std::ops::Bound;

use super::*;
use crate::cluster::placement::Placement;
use crate::ids::OperatorId;
use crate::sequence::control::Control;
use crate::sequence::deployment::{
    Component, Consistency, Deployment, Digest, Function, Isolation, Limits, OperatorSpec, StateSpec,
};
use crate::sequence::interface::{Export, Import, ImportedFunction, Interface};
use crate::sequence::quarantine::{Quarantined, Subject};
use crate::state::entity::Entity;

const LAYOUT: Layout = Layout::new(1, 4);

/// An app with `write`, and `read`, which is declared to only do so; and another one with the same, which it calls.
fn catalog() -> Arc<Catalog> {
    let function = |name: &str, read_only| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        consistency: Consistency::Serializable,
        doc: String::new(),
    };
    let imported = |name: &str| ImportedFunction { name: name.into(), signature: None };
    let import = Import { app: "bank".into(), operator: "o".into(), functions: ["read", "write"].map(imported).into() };
    let own = Deployment {
        id: "dp_1".into(),
        app: "app".into(),
        created: Timestamp(0),
        components: vec![Component { name: "c".into(), digest: Digest([1; 32]), size: 0, sdk: "none".into() }],
        operators: vec![OperatorSpec {
            name: "o".into(),
            component: 0,
            key_prefix: None,
            isolation: Isolation::Warm,
            doc: String::new(),
            state: StateSpec { schema: None, migrates: true },
            functions: vec![function("write", false), function("read", true)],
        }],
        limits: Limits { fuel: 60, transaction_fuel: 100, payload: 10, rw_set: 3, calls: 3, ..Limits::default() },
        interface: Interface { exports: Vec::new(), imports: vec![import] },
    };
    let export = Export { operator: "o".into(), functions: Some(vec!["read".into(), "write".into()]), to: None };
    let bank = Deployment {
        id: "dp_2".into(),
        app: "bank".into(),
        limits: Limits { fuel: 80, payload: 5, calls: 1, rw_set: 1, ..Limits::default() },
        interface: Interface { exports: vec![export], imports: Vec::new() },
        ..own.clone()
    };
    let mut catalog = Catalog::default();
    [own, bank].into_iter().for_each(|deployment| drop(catalog.apply(&Control::Deploy(deployment))));
    Arc::new(catalog)
}

fn operator() -> OperatorId {
    catalog().find("app", "o").unwrap().id
}

fn attempt(function: &str) -> Attempt {
    let request = Request {
        id: RequestId(1),
        operator: operator(),
        function: function.into(),
        key: "own".into(),
        args: b"[]"[..].into(),
        retained: false,
        origin: None,
    };
    let transaction = Transaction { tid: Tid(1), time: Timestamp(1), request: Arc::new(request), query: false };
    Attempt::begin(transaction, Arc::new(State::new(LAYOUT)), catalog())
}

/// The same, whose first function runs.
fn running(function: &str) -> Attempt {
    let mut attempt = attempt(function);
    assert!(matches!(attempt.start(), Next::Invoke));
    attempt
}

/// One of two workers' that runs a function of an entity of its own.
fn shared(mode: Mode) -> Attempt {
    let placement = Placement::round_robin(LAYOUT.partitions, 2);
    let own = placement.owner(LAYOUT.partition("own", false));
    let mut attempt = attempt("write").among(own, Arc::new(placement), mode);
    assert!(matches!(attempt.start(), Next::Invoke));
    attempt
}

fn elsewhere(attempt: &Attempt) -> String {
    let mut keys = (0..100).map(|number| number.to_string());
    keys.find(|key| attempt.elsewhere(&Entity::new(&LAYOUT, operator(), false, key.as_str().into())).is_some()).unwrap()
}

#[test]
fn a_slice_bounds_what_an_invocation_may_use_now_and_not_what_its_app_may_use() {
    let mut attempt = running("write");
    assert_eq!((attempt.fuel_allowed(), attempt.fuel_limit()), (60, 60));
    attempt.slice(30);
    assert_eq!((attempt.fuel_allowed(), attempt.fuel_limit()), (30, 60));
    attempt.spend(20);
    assert_eq!((attempt.fuel_allowed(), attempt.fuel_limit()), (10, 60));
    attempt.spend(30);
    assert_eq!((attempt.fuel_allowed(), attempt.fuel_limit()), (0, 50), "all of the slice is used");
    attempt.slice(u64::MAX);
    assert_eq!(attempt.fuel_allowed(), 50);
}

#[test]
fn the_invoked_entity_is_read_written_and_deleted_without_its_key() {
    let mut attempt = running("write");
    assert_eq!(attempt.get_own(), None);
    attempt.put_own(b"1");
    assert_eq!(attempt.get_own().as_deref(), Some(&b"1"[..]));
    assert_eq!(attempt.get("own").here().as_deref(), Some(&b"1"[..]), "by its key it is the same");
    assert_eq!(attempt.get("other").here(), None);
    attempt.delete_own();
    assert_eq!((attempt.get_own(), attempt.get("own").here()), (None, None));
    assert!(matches!(attempt.invoked(Ok(Value::default())), Next::Done(Ok(_))));
    let execution = attempt.take_execution(Ok(Value::default()));
    let writes: Vec<_> = execution.writes().collect();
    assert_eq!(
        writes.iter().map(|(entity, value)| (&**entity.key(), value.is_some())).collect::<Vec<_>>(),
        [("own", false)]
    );
    let failed = Execution { outcome: Err(Abort::new(Code::Aborted, "no")), ..execution };
    assert_eq!(failed.writes().count(), 0, "who fails writes nothing");
}

/// So that a host hands the value in with the call, and notes that it was read only if it was used.
#[test]
fn the_value_of_the_invoked_entity_is_known_before_it_is_read() {
    let own = Entity::new(&LAYOUT, operator(), false, "own".into());
    let value = |byte: u8| Value::from([byte]);
    let mut state = State::new(LAYOUT);
    state.apply((own.clone(), Some(value(1))));
    let begin = |state: State| {
        let transaction = attempt("write").transaction().clone();
        Attempt::begin(transaction, Arc::new(state), catalog())
    };
    let mut alone = begin(state);
    assert!(matches!(alone.start(), Next::Invoke));
    assert_eq!(alone.own_value(), OwnValue::Value(&value(1)));
    assert!(alone.execution.footprint.accesses.is_empty(), "nothing is reserved by a look");
    alone.read_own();
    let accesses = &alone.execution.footprint.accesses;
    assert!(!accesses.is_empty() && accesses.iter().all(|(entity, access)| *entity == own && access.is_read()));
    alone.put_own(&[2]);
    assert_eq!(alone.own_value(), OwnValue::Value(&value(2)), "its own writes come first");
    alone.delete_own();
    assert_eq!(alone.own_value(), OwnValue::Absent);
    alone.doom(Abort::new(Code::Aborted, "no"));
    assert_eq!(alone.own_value(), OwnValue::Unknown);
    alone.read_own();
    assert_eq!(alone.get_own(), None, "whoever is doomed reads nothing");
    // In the fallback, what those before it have written comes before what is committed.
    for written in [Some(value(3)), None] {
        let mut overlay = Overlay::default();
        overlay.apply((own.clone(), written.clone()));
        let mut first = running("write");
        first.get_own();
        first.invoked(Ok(Value::default()));
        let cached = Arc::new(first.take_execution(Ok(Value::default())));
        let mut again = begin(State::new(LAYOUT)).fall_back(Box::new(overlay), cached);
        assert!(matches!(again.start(), Next::Invoke));
        assert_eq!(again.own_value(), written.as_ref().map_or(OwnValue::Absent, OwnValue::Value));
    }
    assert_eq!(running("write").own_value(), OwnValue::Absent);
}

/// For whoever watches.
#[test]
fn among_several_workers_a_function_knows_whether_it_was_called_asynchronously() {
    let here = |attempt: &Attempt| {
        let mut keys = (0..100).map(|number| number.to_string());
        let local = |key: &String| attempt.elsewhere(&Entity::new(&LAYOUT, operator(), false, key.as_str().into()));
        keys.find(|key| local(key).is_none()).unwrap()
    };
    let mut attempt = shared(Mode::STRICT);
    let key = here(&attempt);
    assert_eq!(attempt.frame().asynchronous(), Some(false), "the root");
    attempt.call_async("o", &key, "write", b"[]");
    assert!(matches!(attempt.invoked(Ok(Value::default())), Next::Invoke));
    assert_eq!(attempt.frame().asynchronous(), Some(true), "it runs when its caller has returned");
    assert!(matches!(attempt.call("o", &key, "read", b"[]"), Next::Invoke));
    assert_eq!(attempt.frame().asynchronous(), Some(false), "its caller waits, whoever waits for that");
    assert_eq!(running("write").frame().asynchronous(), None, "one worker keeps no paths");
}

#[test]
fn a_function_that_is_declared_read_only_and_writes_dooms_its_transaction() {
    for write in [|attempt: &mut Attempt| attempt.put_own(b"1"), Attempt::delete_own] {
        let mut attempt = running("read");
        write(&mut attempt);
        assert!(attempt.is_doomed() && attempt.is_settled());
        assert!(attempt.execution.footprint.accesses.is_empty(), "nothing was noted");
        assert_eq!(attempt.take_execution(Ok(Value::default())).outcome.unwrap_err().code, Code::ReadOnly);
    }
}

#[test]
fn who_meets_a_bound_is_doomed_and_the_first_reason_counts() {
    let mut attempt = running("write");
    attempt.put_own(b"0123456789");
    assert!(!attempt.is_doomed());
    attempt.put_own(b"0123456789a");
    let doom = attempt.doom.clone().unwrap();
    assert_eq!(doom.code, Code::LimitExceeded);
    assert_eq!(attempt.doom(Abort::new(Code::Aborted, "later")), doom);
    // As many entities as the app may touch.
    let mut attempt = running("write");
    for key in ["a", "b", "c"] {
        attempt.get(key).here();
    }
    assert!(!attempt.is_doomed());
    assert_eq!(attempt.get("a").here(), None);
    assert!(!attempt.is_doomed(), "one that was touched before is not touched again");
    assert!(
        matches!(attempt.scan("", Bound::Unbounded, Bound::Unbounded, 0, false), Locality::Local(found) if found.is_empty())
    );
    assert!(attempt.is_doomed());
}

#[test]
fn what_a_guest_does_can_matter_until_it_cannot() {
    assert!(!running("write").is_settled());
    let mut aborted = running("write");
    aborted.doom(Abort::new(Code::Aborted, "no"));
    assert!(aborted.is_doomed() && !aborted.is_settled(), "its caller may add to the message");
    let mut exceeded = running("write");
    exceeded.doom(Abort::new(Code::LimitExceeded, "too much"));
    assert!(exceeded.is_settled());
    let mut postponed = running("write");
    postponed.postpone();
    assert!(postponed.is_doomed() && postponed.is_settled());
    let mut drifted = running("write");
    drifted.resume(Usage::default(), true);
    assert!(drifted.is_doomed() && drifted.is_settled());
}

#[test]
fn of_what_is_postponed_nothing_counts() {
    let mut attempt = running("write");
    attempt.put_own(b"1");
    attempt.spend(7);
    attempt.doom(Abort::new(Code::LimitExceeded, "too much"));
    attempt.postpone();
    let execution = attempt.take_execution(Ok(Value::default()));
    assert!(execution.postponed && execution.footprint.accesses.is_empty() && execution.calls.is_empty());
    assert_eq!((execution.outcome.is_ok(), execution.fuel), (true, 7), "not even why it ended");
}

#[test]
fn lines_are_those_of_the_running_function() {
    let mut attempt = running("write");
    attempt.log(LogLevel::Info, "here".into());
    attempt.log(LogLevel::Info, "x".repeat(64 << 10));
    let execution = attempt.take_execution(Ok(Value::default()));
    let lines: Vec<_> = execution.logs.iter().map(|line| (line.operator, &*line.key, &*line.message)).collect();
    assert_eq!(lines, [(operator(), "own", "here")]);
}

#[test]
fn what_several_workers_must_know_is_reported() {
    let found = |does: fn(&mut Attempt), finding| {
        let mut attempt = shared(Mode::Parallel);
        let before = attempt.take_report();
        assert!(!before.has(finding), "{finding:?}");
        does(&mut attempt);
        attempt.take_report().has(finding)
    };
    assert!(found(Attempt::refuse, Finding::Refused));
    assert!(found(Attempt::suspect, Finding::Suspect));
    assert!(found(Attempt::postpone, Finding::Postponed));
    assert!(found(Attempt::put_something, Finding::Wrote));
    assert!(found(|attempt| drop(attempt.doom(Abort::new(Code::Aborted, "no"))), Finding::Doomed));
    // Of one worker's there is nothing to report.
    let mut alone = running("write");
    alone.refuse();
    alone.suspect();
    assert_eq!(alone.take_report(), Report::default());
}

impl Attempt {
    fn put_something(&mut self) {
        self.put_own(b"1");
    }
}

#[test]
fn what_is_elsewhere_is_asked_for_unless_nothing_counts_any_more() {
    let mut attempt = shared(Mode::Parallel);
    let key = elsewhere(&attempt);
    assert!(matches!(attempt.get(&key), Locality::Remote(asked) if asked.operations.len() == 1));
    assert!(matches!(attempt.put(&key, b"1"), Locality::Remote(_)));
    assert!(matches!(attempt.delete(&key), Locality::Remote(_)));
    let scan = |attempt: &mut Attempt| attempt.scan("", Bound::Unbounded, Bound::Unbounded, 0, false);
    assert!(matches!(scan(&mut attempt), Locality::Remote(_)));
    assert!(attempt.take_report().has(Finding::Reached));
    attempt.doom(Abort::new(Code::Aborted, "no"));
    assert!(matches!(attempt.get(&key), Locality::Local(None)));
    assert!(matches!(attempt.put(&key, b"1"), Locality::Local(())));
    // One that was invoked from cached parameters asks nobody: it drifts.
    for act in [
        |attempt: &mut Attempt, key: &str| matches!(attempt.get(key), Locality::Local(None)),
        |attempt: &mut Attempt, key: &str| matches!(attempt.put(key, b"1"), Locality::Local(())),
        |attempt: &mut Attempt, _: &str| matches!(attempt.scan("", Bound::Unbounded, Bound::Unbounded, 0, false), Locality::Local(found) if found.is_empty()),
    ] {
        let mut cached = shared(Mode::Cached);
        assert!(act(&mut cached, &key));
        let report = cached.take_report();
        assert!(cached.execution.drifted && report.has(Finding::Drifted) && report.has(Finding::Reached));
    }
}

#[test]
fn a_bound_that_was_met_elsewhere_dooms_here() {
    for answered in [
        |attempt: &mut Attempt, answer| drop(attempt.got(vec![answer])),
        |attempt: &mut Attempt, answer| attempt.noted(vec![answer]),
    ] {
        let mut attempt = shared(Mode::Parallel);
        let key = elsewhere(&attempt);
        attempt.get(&key);
        answered(&mut attempt, RemoteResponse::Failed(Abort::new(Code::LimitExceeded, "too much")));
        assert_eq!(attempt.doom.as_ref().unwrap().code, Code::LimitExceeded);
    }
}

#[test]
fn only_a_strict_one_goes_on_with_what_was_used_elsewhere() {
    let used = Usage { fuel: 9, calls: 2, touched: 1, bytes: 3 };
    for (mode, expected) in [(Mode::STRICT, used), (Mode::Parallel, shared(Mode::Parallel).used())] {
        let mut attempt = shared(mode);
        attempt.resume(used, false);
        assert_eq!((attempt.used(), attempt.is_doomed()), (expected, false), "{mode:?}");
    }
}

#[test]
fn a_call_that_cannot_be_made_dooms_its_caller() {
    let cases: [(&str, &str, &[u8], Code); 5] = [
        ("none", "write", b"[]", Code::GuestException),
        ("o", "none", b"[]", Code::GuestException),
        ("o", "write", b"0123456789a", Code::LimitExceeded),
        ("o", "write", &[0; 321], Code::LimitExceeded),
        ("o", "write", b"[]", Code::ReadOnly),
    ];
    for (operator, function, args, code) in cases {
        let mut attempt = running(if code == Code::ReadOnly { "read" } else { "write" });
        let refused = attempt.call(operator, "other", function, args);
        assert!(matches!(refused, Next::Done(Err(abort)) if abort.code == code), "{code:?}");
        assert_eq!(attempt.doom.as_ref().unwrap().code, code);
        // Whatever it asks for now.
        let refused = attempt.call("o", "other", "read", b"[]");
        assert!(matches!(refused, Next::Done(Err(abort)) if abort.code == code), "{code:?}");
    }
    let refused = running("write").call("o", &"k".repeat(KEY_BYTES_MAX + 1), "write", b"[]");
    assert!(matches!(refused, Next::Done(Err(abort)) if abort.code == Code::LimitExceeded), "a key has a length");
    assert!(matches!(running("write").call("o", &"k".repeat(KEY_BYTES_MAX), "write", b"[]"), Next::Invoke));
    // As many as the app may make, the first included.
    let mut attempt = running("write");
    for made in 0..3 {
        let next = attempt.call("o", "other", "read", b"[]");
        match made {
            0 | 1 => assert!(matches!(next, Next::Invoke) && attempt.frame().read_only),
            _ => assert!(matches!(next, Next::Done(Err(abort)) if abort.code == Code::LimitExceeded)),
        }
        if made < 2 {
            attempt.invoked(Ok(Value::default()));
        }
    }
}

#[test]
fn a_result_that_is_too_large_dooms_whoever_returns_it() {
    for (bytes, fits) in [(10, true), (11, false)] {
        let mut attempt = running("write");
        let next = attempt.invoked(Ok(vec![b' '; bytes].into()));
        match next {
            Next::Done(Ok(value)) => assert!(fits && value.len() == bytes),
            Next::Done(Err(abort)) => assert!(!fits && abort.code == Code::LimitExceeded),
            _ => panic!("nothing else is to be done"),
        }
    }
}

#[test]
fn who_cannot_begin_is_refused() {
    let begun = |change: fn(&mut Catalog), function: &str| {
        let mut changed = (*catalog()).clone();
        change(&mut changed);
        let Attempt { transaction, .. } = attempt(function);
        let mut attempt = Attempt::begin(transaction, Arc::new(State::new(LAYOUT)), Arc::new(changed));
        let Next::Done(Err(abort)) = attempt.start() else { panic!("nothing was invoked") };
        abort.code
    };
    let quarantine = |catalog: &mut Catalog| {
        let subject = Subject::Request(RequestId(1));
        let (reason, since) = ("it ended two processes".into(), Timestamp(1));
        catalog.apply(&Control::Quarantine(Quarantined { subject, app: None, function: None, reason, since }));
    };
    assert_eq!(begun(|_| (), "none"), Code::UnknownFunction);
    assert_eq!(begun(|catalog| *catalog = Catalog::default(), "write"), Code::UnknownOperator);
    assert_eq!(begun(quarantine, "write"), Code::Quarantined);
}

#[test]
fn requests_may_call_what_the_system_does_itself_and_functions_may_not() {
    let ended = |function: &str, args: &[u8], query: bool| {
        let Attempt { mut transaction, .. } = attempt(function);
        transaction.query = query;
        transaction.request = Arc::new(Request { args: args.into(), ..(*transaction.request).clone() });
        let mut attempt = Attempt::begin(transaction, Arc::new(State::new(LAYOUT)), catalog());
        let Next::Done(outcome) = attempt.start() else { panic!("no guest runs") };
        attempt.take_execution(outcome)
    };
    let written = |execution: &Execution| {
        let writes =
            execution.writes().map(|(entity, value)| (entity.key().to_string(), value.map(|value| value.to_vec())));
        writes.collect::<Vec<_>>()
    };
    let put = ended("styx.put", b"7", false);
    assert_eq!((put.outcome.as_deref(), written(&put)), (Ok(&b""[..]), vec![("own".to_owned(), Some(b"7".to_vec()))]));
    let deleted = ended("styx.delete", b"", false);
    assert_eq!((deleted.outcome.as_deref(), written(&deleted)), (Ok(&b""[..]), vec![("own".to_owned(), None)]));
    for (args, query, code) in [(&b"12345678901"[..], false, Code::LimitExceeded), (b"7", true, Code::ReadOnly)] {
        let execution = ended("styx.put", args, query);
        assert_eq!((execution.outcome.as_ref().unwrap_err().code, written(&execution)), (code, vec![]));
    }
    assert!(matches!(attempt("styx.migrate").start(), Next::Invoke), "the guest does it");
    for function in ["styx.put", "styx.delete", "styx.migrate"] {
        let mut attempt = running("write");
        let Next::Done(Err(abort)) = attempt.call("o", "other", function, b"7") else { panic!("it was called") };
        assert_eq!(abort.code, Code::GuestException, "{abort:?}");
    }
}

#[test]
fn asynchronous_calls_run_behind_their_caller_in_their_order() {
    let mut attempt = running("write");
    attempt.call_async("o", "first", "write", b"[1]");
    attempt.call_async("o", "second", "read", b"[2]");
    for expected in ["first", "second"] {
        assert!(matches!(attempt.invoked(Ok(b"x"[..].into())), Next::Invoke));
        assert_eq!(&**attempt.frame().entity.key(), expected);
    }
    assert!(matches!(attempt.invoked(Ok(b"y"[..].into())), Next::Done(Ok(value)) if &*value == b"x"));
}

fn ended(attempt: &mut Attempt, with: Abort) -> Abort {
    match attempt.invoked(Err(with)) {
        Next::Done(Err(abort)) => abort,
        next => panic!("it goes on with {next:?}"),
    }
}

#[test]
fn what_functions_pass_to_each_other_wrongly_is_a_bug_of_the_app_and_logged_once() {
    let refused = || Abort::new(Code::BadArguments, "`n` is missing");
    let mut root = running("write");
    assert_eq!(ended(&mut root, refused()).code, Code::BadArguments, "these came from a client");
    assert!(root.take_execution(Err(refused())).logs.is_empty());

    let says = "o.write was called with arguments that it does not take: `n` is missing";
    let mut attempt = running("write");
    assert!(matches!(attempt.call("o", "other", "write", b"[]"), Next::Invoke));
    let bug = ended(&mut attempt, refused());
    assert_eq!((bug.code, &*bug.message), (Code::GuestException, says));
    assert!(attempt.is_settled(), "nobody can add to it");
    assert_eq!(ended(&mut attempt, Abort::new(Code::Aborted, "sorry")), bug);
    let execution = attempt.take_execution(Err(bug));
    let lines: Vec<_> = execution.logs.iter().map(|line| (line.level, line.message.as_str())).collect();
    assert_eq!(lines, [(LogLevel::Warn, format!("GUEST_EXCEPTION: {says}").as_str())]);
}

#[test]
fn whoever_explains_a_refusal_keeps_its_code_or_gives_it_another() {
    let refusal = |message: &str, code: &str| Abort::new(Code::Aborted, message).with_app_code(code);
    for (said, expected) in [
        (Abort::new(Code::Aborted, "more"), refusal("more", "SOLD_OUT")),
        (refusal("more", "OTHER"), refusal("more", "OTHER")),
    ] {
        let mut attempt = running("write");
        assert!(matches!(attempt.call("o", "other", "write", b"[]"), Next::Invoke));
        assert_eq!(ended(&mut attempt, refusal("no", "SOLD_OUT")), refusal("no", "SOLD_OUT"));
        assert_eq!(ended(&mut attempt, said), expected);
    }
}

#[test]
fn a_function_of_another_app_runs_as_that_apps_and_counts_for_the_transaction() {
    let mut attempt = running("write");
    attempt.spend(10);
    assert!(matches!(attempt.call("bank/o", "k", "write", b"12345"), Next::Invoke));
    assert_eq!((&**attempt.app(), &*attempt.running(), attempt.frame().depth), ("bank", "bank/o.write", 1));
    assert_eq!((attempt.fuel_allowed(), attempt.fuel_limit()), (80, 80), "as much as that app lets each use");
    attempt.spend(30);
    assert_eq!(attempt.fuel_limit(), 60, "of what is left of the transaction's");
    attempt.put_own(b"12345");
    assert!(!attempt.is_doomed(), "and what it calls and touches is the transaction's");
    // What it calls by a mere name is its own app's.
    assert!(matches!(attempt.call("o", "k", "read", b""), Next::Invoke));
    assert_eq!(&*attempt.running(), "bank/o.read");
    assert!(matches!(attempt.invoked(Ok(b"x"[..].into())), Next::Done(Ok(_))));
    assert!(matches!(attempt.invoked(Ok(b"12345"[..].into())), Next::Done(Ok(value)) if &*value == b"12345"));
    assert_eq!((&**attempt.app(), &*attempt.running(), attempt.fuel_limit()), ("app", "o.write", 60));
    let [bank, own] = ["bank", "app"].map(|app| attempt.catalog().find(app, "o").unwrap().id);
    attempt.put_own(b"0123456789");
    assert!(matches!(attempt.invoked(Ok(Value::default())), Next::Done(Ok(_))));
    let execution = attempt.take_execution(Ok(Value::default()));
    assert_eq!(execution.fuel, 40);
    let written: Vec<_> = execution.writes().map(|(entity, _)| (entity.operator(), entity.key().to_string())).collect();
    assert_eq!(written, [(bank, "k".to_owned()), (own, "own".to_owned())]);
}

#[test]
fn the_payload_of_another_app_is_what_that_app_takes() {
    let code = |attempt: &Attempt| attempt.doom.as_ref().map(|doom| doom.code);
    let mut attempt = running("write");
    assert!(matches!(attempt.call("bank/o", "k", "write", b"123456"), Next::Done(Err(_))));
    assert_eq!(code(&attempt), Some(Code::LimitExceeded));
    for end in [
        |attempt: &mut Attempt| attempt.put_own(b"123456"),
        |attempt: &mut Attempt| drop(attempt.invoked(Ok(b"123456"[..].into()))),
    ] {
        let mut attempt = running("write");
        assert!(matches!(attempt.call("bank/o", "k", "write", b""), Next::Invoke));
        end(&mut attempt);
        assert_eq!(code(&attempt), Some(Code::LimitExceeded));
    }
}

#[test]
fn a_call_of_another_app_that_cannot_be_made_ends_the_transaction_and_is_logged() {
    let refused = |root: &str, name: &str, function: &str, wait: bool| {
        let mut attempt = running(root);
        if wait {
            assert!(matches!(attempt.call(name, "k", function, b""), Next::Done(Err(_))));
        } else {
            attempt.call_async(name, "k", function, b"");
        }
        let Execution { outcome, logs, .. } = attempt.take_execution(Ok(Value::default()));
        (outcome.unwrap_err().code, logs.len())
    };
    for wait in [true, false] {
        assert_eq!(refused("write", "bank/o", "none", wait), (Code::GuestException, 1));
        assert_eq!(refused("write", "none/o", "write", wait), (Code::GuestException, 1));
        assert_eq!(refused("read", "bank/o", "write", wait), (Code::ReadOnly, 0));
    }
    let mut attempt = running("read");
    assert!(matches!(attempt.call("bank/o", "k", "read", b""), Next::Invoke));
    assert!(attempt.frame().read_only);
    // The other app has agreed to nothing.
    assert!(
        matches!(attempt.call("app/o", "k", "read", b""), Next::Done(Err(abort)) if abort.code == Code::NotImported)
    );
    let logs = attempt.take_execution(Ok(Value::default())).logs;
    assert_eq!(logs.len(), 1);
    assert!(logs[0].message.starts_with("NOT_IMPORTED: app \"bank\" does not import app/o.read"), "{logs:?}");
}
