//! Stored formats: what was written is read, by its contents; what another version wrote is refused by name.
//!
//! The fixtures stay as they are when a format gets its next version. `STYX_WRITE_FIXTURES=1` writes those
//! that are missing.

use std::path::PathBuf;
use std::sync::Arc;

use styx_protocol::abort::{Abort, Code};
use styx_protocol::control::{Activation, Control};
use styx_protocol::deployment::Digest;
use styx_protocol::entity::{Entity, Layout, Payload};
use styx_protocol::format::{FormatError, LOG_RECORD};
use styx_protocol::ids::{
    EngineHash, Epoch, Generation, NodeId, OperatorId, PlacementVersion, RequestId, SequencerCounter, Tid, Timestamp,
    WorkerId,
};
use styx_protocol::origin::Origin;
use styx_protocol::outcome::{EpochChanges, EpochOutcome, RetainedEnd};
use styx_protocol::placement::{Placement, Seat};
use styx_protocol::quarantine::{Quarantined, Subject};
use styx_protocol::record::{Chain, EpochRecord, Genesis, Record, RecordAssembler, RecordPart, Sequence};
use styx_protocol::token::{Grant, Scope, Token};
use styx_protocol::transaction::{CarriedTransaction, Request};
use styx_protocol::writes::PackedWrites;

fn fixture(version: u32, name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/v{version}/{name}.bin"));
    if !path.exists() && std::env::var_os("STYX_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, bytes()).unwrap();
    }
    std::fs::read(path).unwrap()
}

fn genesis() -> Record {
    Record::Genesis(Genesis { seed: 77, partitions: 65_536, created: Timestamp(1_700_000_000) })
}

fn outcome(carried: Arc<Request>) -> EpochOutcome {
    let layout = Layout::new(77, 1024);
    let mut writes = PackedWrites::default();
    for (key, value) in [("alice", Some(&b"7"[..])), ("bob", None)] {
        writes.push(&Entity::new(&layout, OperatorId(3), false, key.into()), value);
    }
    let abort = Abort::new(Code::Aborted, "sold out").with_app_code("SOLD_OUT");
    let end = |tid, outcome| RetainedEnd { fell_back: tid > 40, tid: Tid(tid), id: RequestId(tid.into()), outcome };
    EpochOutcome {
        chain: Chain(1 << 90),
        changes: EpochChanges {
            writes,
            ends: vec![end(38, Ok(Payload(b"done".as_slice().into()))), end(43, Err(abort))],
            carried: vec![CarriedTransaction { tid: Tid(41), time: Timestamp(1_700_000_000), request: carried }],
        },
    }
}

fn part() -> Record {
    Record::Part(RecordPart { index: 2, last: true, bytes: vec![7; 5] })
}

fn epoch() -> Record {
    let request = |id: u128, key: &str| {
        Arc::new(Request {
            id: RequestId(id),
            operator: OperatorId(3),
            function: "transfer".into(),
            key: key.into(),
            args: vec![1, 2, 3].into(),
            retained: id > 5,
            origin: (id > 5).then(|| Box::new(Origin { topic: 1 << 100, partition: 3, offset: 8, answered: 7 })),
        })
    };
    let placement = Placement::round_robin(3, 2).next(vec![WorkerId(1), WorkerId(0), WorkerId(1)]);
    let activation = Activation { app: "bank".into(), deployment: "d2".into() };
    let token = Token {
        id: "0a1b".into(),
        name: "till".into(),
        digest: Digest([7; 32]),
        grant: Grant { scopes: vec![Scope::Invoke, Scope::Read], apps: Some(vec!["bank".into()]) },
        created: Timestamp(1_700_000_000),
        expires: Some(Timestamp(1_800_000_000)),
    };
    let quarantined = Quarantined {
        subject: Subject::Request(RequestId(5)),
        app: Some("bank".into()),
        function: Some("transfer".into()),
        reason: "it ended its process".into(),
        since: Timestamp(1_700_000_000),
    };
    Record::Epoch(Arc::new(EpochRecord {
        epoch: Epoch(9),
        generation: Generation(4),
        engine: EngineHash(0xabcd),
        time: Timestamp(1_700_000_001),
        sequencers: 2,
        counter: SequencerCounter(20),
        carried: vec![Tid(38)],
        before: Chain(1 << 100),
        controls: vec![
            Control::Place(placement),
            Control::Activate(activation),
            Control::Remove("shop".into()),
            Control::Issue(token),
            Control::Revoke("0a1a".into()),
            Control::Quarantine(quarantined),
            Control::Release(Subject::App("shop".into())),
            Control::Seat(vec![
                Seat { node: NodeId(1 << 40), emptied: false },
                Seat { node: NodeId(77), emptied: true },
            ]),
        ],
        sequences: vec![
            Sequence { requests: vec![request(5, "alice"), request(6, "bob")] },
            Sequence { requests: vec![] },
        ],
        outcome: Some(Box::new(outcome(request(4, "carol")))),
    }))
}

#[test]
fn a_log_of_this_version_is_read() {
    let read = |name, record: fn() -> Record| Record::decode(&fixture(7, name, || record().encode())).unwrap();
    let Record::Genesis(first) = read("genesis", genesis) else { panic!("the log's first record") };
    assert_eq!((first.seed, first.partitions, first.created), (77, 65_536, Timestamp(1_700_000_000)));

    let Record::Epoch(record) = read("epoch", epoch) else { panic!("an epoch's record") };
    assert_eq!((record.epoch, record.generation, record.engine), (Epoch(9), Generation(4), EngineHash(0xabcd)));
    assert_eq!(
        (record.time, record.before, record.carried.clone()),
        (Timestamp(1_700_000_001), Chain(1 << 100), vec![Tid(38)])
    );
    let [
        Control::Place(placement),
        Control::Activate(activation),
        Control::Remove(app),
        Control::Issue(token),
        Control::Revoke(revoked),
        Control::Quarantine(quarantined),
        Control::Release(released),
        Control::Seat(seats),
    ] = &record.controls[..]
    else {
        panic!("{:?}", record.controls)
    };
    assert_eq!(seats[..], [(1 << 40, false), (77, true)].map(|(node, emptied)| Seat { node: NodeId(node), emptied }));
    assert_eq!((token.id.as_str(), token.name.as_str(), revoked.as_str()), ("0a1b", "till", "0a1a"));
    assert_eq!((token.digest, token.created), (Digest([7; 32]), Timestamp(1_700_000_000)));
    assert_eq!(token.expires, Some(Timestamp(1_800_000_000)));
    assert_eq!(token.grant, Grant { scopes: vec![Scope::Invoke, Scope::Read], apps: Some(vec!["bank".into()]) });
    assert_eq!((&quarantined.subject, released), (&Subject::Request(RequestId(5)), &Subject::App("shop".into())));
    assert_eq!((quarantined.app.as_deref(), quarantined.function.as_deref()), (Some("bank"), Some("transfer")));
    assert_eq!((quarantined.reason.as_str(), quarantined.since), ("it ended its process", Timestamp(1_700_000_000)));
    assert_eq!(placement.version(), PlacementVersion(2));
    assert_eq!((placement.owners(), placement.workers()), (&[1, 0, 1].map(WorkerId)[..], 2));
    assert_eq!((activation.app.as_str(), activation.deployment.as_str(), app.as_str()), ("bank", "d2", "shop"));
    let transactions: Vec<_> = record.transactions().collect();
    let keys = transactions.iter().map(|(tid, request)| (tid.0, &*request.key, request.retained));
    assert_eq!(keys.collect::<Vec<_>>(), [(41, "alice", false), (43, "bob", true)]);
    let origins = transactions.iter().map(|(_, request)| request.origin.as_deref().map(|origin| origin.offset));
    assert_eq!(origins.collect::<Vec<_>>(), [None, Some(8)]);
    assert_eq!(&*transactions[0].1.function, "transfer");
    assert_eq!(&*transactions[0].1.args, [1, 2, 3]);
    let EpochOutcome { chain, changes } = &**record.outcome.as_ref().unwrap();
    let writes = changes.writes.iter().map(|write| write.unwrap().unpack(&Layout::new(77, 1024)).unwrap());
    let writes: Vec<_> = writes.map(|(entity, value)| (entity.key().to_string(), value)).collect();
    assert_eq!(writes, [("alice".to_owned(), Some(b"7"[..].into())), ("bob".to_owned(), None)]);
    let ends = changes.ends.iter().map(|end| (end.fell_back, end.tid.0, end.id.0, end.outcome.is_ok()));
    assert_eq!(ends.collect::<Vec<_>>(), [(false, 38, 38, true), (true, 43, 43, false)]);
    let carried: Vec<_> = changes.carried.iter().map(|carried| (carried.tid.0, &*carried.request.key)).collect();
    assert_eq!((*chain, carried), (Chain(1 << 90), vec![(41, "carol")]));

    assert_eq!(read("part", part), part());

    let fence = read("generation", || Record::Generation(Generation(12)));
    assert_eq!(fence, Record::Generation(Generation(12)));
}

#[test]
fn what_is_written_now_is_what_the_fixtures_hold() {
    for (name, record) in [
        ("genesis", genesis()),
        ("epoch", epoch()),
        ("part", part()),
        ("generation", Record::Generation(Generation(12))),
    ] {
        let message = "a change of the format needs its next version, and fixtures of that beside these";
        assert!(record.encode() == fixture(7, name, || record.encode()), "{name}: {message}");
    }
}

#[test]
fn a_record_that_is_longer_than_the_log_takes_is_read_from_its_parts_and_not_without_one_of_them() {
    let (record, bytes) = (epoch(), epoch().encode());
    for most in [300, 301, 400, 777, bytes.len() - 1, bytes.len()] {
        let pieces = record.encode_within(most);
        assert_eq!(pieces.len() == 1, most == bytes.len());
        assert!(pieces.iter().all(|piece| piece.len() <= most), "{most}");
        let read = |pieces: &mut dyn Iterator<Item = &Vec<u8>>| {
            let mut assembler = RecordAssembler::default();
            let taken = pieces.map(|piece| assembler.take(Record::decode(piece).unwrap()).unwrap());
            taken.last().flatten()
        };
        let all = || pieces.iter();
        assert_eq!(read(&mut all()), Some(record.clone()));
        // Whoever wrote some of them and ended is followed by somebody who writes all of them.
        assert_eq!(read(&mut all().take(pieces.len() - 1).chain(all())), Some(record.clone()));
        for missing in 0..pieces.len() {
            let rest = all().enumerate().filter(|(at, _)| *at != missing).map(|(_, piece)| piece);
            assert_eq!(read(&mut rest.into_iter()), None, "{missing} of {} is missing", pieces.len());
        }
    }
}

/// Snapshots are sorted by partition, and hash chains made of hashes: another program must come to the same.
#[test]
fn keys_have_the_partitions_and_hashes_that_they_always_had() {
    let layout = Layout::new(77, 1024);
    let placed = ["alice", "bob", "bob:1"].map(|key| {
        let entity = Entity::new(&layout, OperatorId(3), true, key.into());
        (entity.partition().0, entity.hash())
    });
    let expected =
        [(158, 14_139_812_118_671_487_013), (756, 12_402_585_550_035_003_666), (756, 577_877_626_994_626_827)];
    assert_eq!(placed, expected);
}

/// Records as they were before they carried a version.
mod version_1 {
    #[derive(rkyv::Archive, rkyv::Serialize)]
    pub struct Layout {
        pub seed: u64,
        pub partitions: u16,
    }
    #[derive(rkyv::Archive, rkyv::Serialize)]
    pub struct Genesis {
        pub layout: Layout,
        pub created: u64,
    }
    #[derive(rkyv::Archive, rkyv::Serialize)]
    #[allow(dead_code, reason = "the archive has the size of the largest variant that is written here")]
    pub enum Record {
        Genesis(Genesis),
        Epoch(u8),
        Generation(u64),
    }
}

#[test]
fn records_of_other_versions_are_refused_by_name() {
    let old = version_1::Record::Genesis(version_1::Genesis {
        layout: version_1::Layout { seed: 77, partitions: 64 },
        created: 1_700_000_000,
    });
    let old = fixture(1, "genesis", || rkyv::to_bytes::<rkyv::rancor::Error>(&old).unwrap().to_vec());
    let refused = Record::decode(&old).unwrap_err();
    assert_eq!(refused, FormatError::Older { name: "log record", found: 1, expected: 7 });
    assert_eq!(
        refused.to_string(),
        "this is a log record of format version 1, or none at all; this program reads version 7: start it with the release that wrote it, or begin with an empty directory"
    );

    let refused = Record::decode(&fixture(2, "epoch", Vec::new)).unwrap_err();
    assert_eq!(refused, FormatError::Older { name: "log record", found: 2, expected: 7 });
    for (version, name) in
        [2, 3, 4, 5, 6].into_iter().flat_map(|version| ["genesis", "epoch", "generation"].map(|name| (version, name)))
    {
        let refused = Record::decode(&fixture(version.into(), name, || panic!("they are there"))).unwrap_err();
        assert_eq!(refused, FormatError::Older { name: "log record", found: version, expected: 7 });
    }

    let mut new = genesis().encode();
    new[6] = 8;
    let refused = Record::decode(&new).unwrap_err();
    assert_eq!(refused, FormatError::Newer { name: "log record", found: 8, expected: 7 });
    assert_eq!(
        refused.to_string(),
        "this is a log record of format version 8; this program reads version 7: install the release that wrote it, or a later one"
    );
}

#[test]
fn damaged_records_are_refused() {
    let good = epoch().encode();
    for cut in 0..good.len() {
        assert!(Record::decode(&good[..cut]).is_err(), "cut at {cut}");
    }
    assert!(
        matches!(Record::decode(&good[..16]), Err(FormatError::Damaged { version, .. }) if version == LOG_RECORD.version)
    );
    // It may lie anywhere in memory.
    let shifted: Vec<u8> = [0].into_iter().chain(good.iter().copied()).collect();
    assert_eq!(Record::decode(&shifted[1..]).unwrap(), epoch());
}
