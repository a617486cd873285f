use std::sync::Arc;

use styx_protocol::ids::{EngineHash, OperatorId, RequestId, Tid};
use styx_protocol::machine::worker::CopiedOf;
use styx_protocol::membership::Build;
use styx_protocol::transaction::Request;

use super::*;

fn messages() -> Vec<Envelope> {
    let layout = Layout::new(7, 4);
    let member = Member { node: NodeId(9), address: "127.0.0.1:1".into() };
    let placement = Placement::round_robin(4, 1);
    vec![
        Envelope::Refused("another build".into()),
        Envelope::Hello {
            hello: Hello {
                life: 2,
                build: Build { version: "1".into(), engine: EngineHash(3) },
                generation: Generation(3),
                heard: 4,
                silent: vec![WorkerId(1)],
                leaving: false,
            },
            address: "127.0.0.1:2".into(),
            suspects: vec![Suspect {
                request: RequestId(7),
                app: "shop".into(),
                function: "pay".into(),
                lives: 2,
                said: Some("boom".into()),
                app_set_aside: true,
            }],
            copied: Some(CopyProgress {
                version: PlacementVersion(2),
                partitions: CopiedOf { done: 1, of: 2 },
                entities: CopiedOf { done: 3, of: 4 },
                bytes: CopiedOf { done: 5, of: 6 },
            }),
            holds: Some(Holdings { bytes: 9, most: 10, apps: vec![("shop".into(), 8)] }),
        },
        Envelope::CopyPace {
            generation: Generation(3),
            version: PlacementVersion(2),
            pace: CopyPace { rate: Some(7), paused: true },
        },
        Envelope::Joined { generation: Generation(3) },
        Envelope::Invite(Invite {
            generation: Generation(3),
            life: 5,
            me: WorkerId(0),
            members: vec![member.clone()],
            placement: placement.clone(),
            layout,
            retention: Retention::default(),
            record_bytes_max: 1 << 20,
            store: Some(SnapshotPlace { place: "file:///x".into(), identity: 1, begin: Some(2) }),
        }),
        Envelope::PartWritten {
            generation: Generation(3),
            part: WrittenPart {
                epoch: Epoch(8),
                objects: vec![1, 2, 3],
                hashes: vec![(PartitionId(2), StateHash(77))],
                carried: Vec::new(),
            },
        },
        Envelope::View(View {
            generation: Generation(3),
            live: true,
            full: false,
            stalled: false,
            state: Full { all: true, apps: vec!["shop".into()] },
            members: vec![member],
            placement,
            layout,
            catalog: Some(Catalog::default().image()),
        }),
        Envelope::Queries(vec![Query {
            ticket: 1,
            generation: Generation(3),
            placement: PlacementVersion(1),
            question: Question::Await(RequestId(4)),
        }]),
        Envelope::Responses(vec![TicketedResponse {
            ticket: 1,
            response: Response::Reply(Reply {
                id: RequestId(4),
                tid: Tid(5),
                epoch: Epoch(6),
                outcome: Ok(Bytes(b"done".as_slice().into())),
            }),
        }]),
        Envelope::Report(b"{}".to_vec()),
    ]
}

/// Messages of format 11: each with its length before it.
const FIXTURE: &[u8] = include_bytes!("../../fixtures/wire-11.bin");

fn fixture() -> Vec<u8> {
    let one = |message: &Envelope| {
        let bytes = message.encode();
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    messages().iter().flat_map(one).collect()
}

#[test]
#[ignore = "writes the fixture: only together with a new version of the format"]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/wire-11.bin");
    std::fs::write(path, fixture()).unwrap();
}

#[test]
fn what_was_written_in_this_format_is_read_and_written_alike() {
    assert_eq!(VERSION, 11, "a new format needs a fixture of its own");
    let mut rest = FIXTURE;
    for expected in messages() {
        let (length, after) = rest.split_first_chunk().expect("the fixture holds every message");
        let (bytes, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        assert_eq!(Envelope::decode(bytes).unwrap(), expected);
        rest = after;
    }
    assert!(rest.is_empty());
    assert!(fixture() == FIXTURE, "the encoding has changed: raise the version, and write a fixture of it");
}

#[test]
fn a_message_of_another_format_is_refused_by_name_and_noise_is_none() {
    let mut bytes = Envelope::Released.encode();
    bytes[0] += 1;
    let error = Envelope::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("format 12") && error.contains("reads 11"), "{error}");
    assert!(matches!(Envelope::decode(&[1]), Err(DecodeError::TooShort(1))));
    assert!(matches!(Envelope::decode(&[11, 0, 9, 9, 9]), Err(DecodeError::Malformed(_))));
}

#[test]
fn messages_of_earlier_formats_are_refused() {
    let fixtures = [
        &include_bytes!("../../fixtures/wire-1.bin")[..],
        include_bytes!("../../fixtures/wire-2.bin"),
        include_bytes!("../../fixtures/wire-3.bin"),
        include_bytes!("../../fixtures/wire-4.bin"),
        include_bytes!("../../fixtures/wire-5.bin"),
        include_bytes!("../../fixtures/wire-6.bin"),
        include_bytes!("../../fixtures/wire-7.bin"),
        include_bytes!("../../fixtures/wire-8.bin"),
        include_bytes!("../../fixtures/wire-9.bin"),
        include_bytes!("../../fixtures/wire-10.bin"),
    ];
    for (fixture, version) in fixtures.into_iter().zip(1..) {
        let refused = Envelope::decode(&fixture[4..]);
        assert!(
            matches!(refused, Err(DecodeError::OtherVersion { found }) if found == version),
            "{version}: {refused:?}"
        );
    }
}

#[test]
fn requests_keep_what_they_ask() {
    let (function, key, args) = ("transfer".into(), "alice".into(), b"[1]".as_slice().into());
    let request =
        Request { id: RequestId(1), operator: OperatorId(2), function, key, args, retained: true, origin: None };
    let question = Question::Submit(Arc::new(request), true);
    let message = Envelope::Queries(vec![Query {
        ticket: 1,
        generation: Generation(2),
        placement: PlacementVersion(1),
        question,
    }]);
    assert_eq!(Envelope::decode(&message.encode()).unwrap(), message);
}

#[test]
fn an_answer_weighs_what_it_carries() {
    let weight = |response| TicketedResponse { ticket: 1, response }.weight();
    let stats =
        PartitionStats { partition: 0, worker: WorkerId(0), entities: 0, bytes: 0, calls: 0, fuel: 0, moves_to: None };
    let reply = |outcome| Response::Reply(Reply { id: RequestId(1), tid: Tid(1), epoch: Epoch(1), outcome });
    let entry = |key: &str, value: &[u8]| styx_protocol::attempt::Entry(key.into(), value.into());
    let value = |value: Option<&[u8]>| Response::Value {
        value: value.map(|value| Bytes(value.into())),
        partition: 0,
        epoch: Epoch(1),
    };
    let refused = styx_protocol::abort::Abort::new(styx_protocol::abort::Code::Aborted, "no");
    let cases = [
        (Response::Unknown, 0),
        (Response::Observed(vec!["abc".into(), "de".into()]), 5),
        (Response::Partitions(vec![stats.clone(), stats.clone(), stats]), 3 * 64),
        (reply(Ok(Bytes(b"12345"[..].into()))), 5),
        (reply(Err(refused)), 2),
        (value(Some(b"1234567")), 7),
        (value(None), 0),
        (
            Response::Entries { entries: vec![entry("ab", b"1"), entry("c", b"")], more: false, epoch: Epoch(1) },
            2 * 64 + 4,
        ),
        (Response::Sample { entries: vec![entry("ab", b"1")], entities: 9 }, 64 + 3),
    ];
    for (response, carried) in cases {
        assert_eq!(weight(response.clone()), 64 + carried, "{response:?}");
    }
}
