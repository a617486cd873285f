//! Records of the log: an epoch of calls to bytes, and back.

use std::sync::Arc;

use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{EngineHash, Epoch, Generation, SequencerCounter, Timestamp};
use styx_protocol::outcome::{EpochChanges, EpochOutcome};
use styx_protocol::record::{Chain, EpochRecord, Record, Sequence};
use styx_protocol::transaction::Request;
use styx_protocol::writes::PackedWrites;

use super::Work;
use super::below::EPOCH;
use super::transfers::Transfers;

const LAYOUT: Layout = Layout::new(1, Layout::PARTITIONS_DEFAULT);

/// Calls to bytes, with what they came to, an epoch at a time.
pub fn encode(calls: usize) -> anyhow::Result<Work> {
    let records = records(calls)?;
    records[0].1.encode();
    Ok(Box::new(move || {
        let encode = |(calls, record): &(usize, Record)| {
            std::hint::black_box(record.encode());
            *calls
        };
        records.iter().map(encode).sum()
    }))
}

pub fn decode(calls: usize) -> anyhow::Result<Work> {
    let records: Vec<Vec<u8>> = records(calls)?.iter().map(|(_, record)| record.encode()).collect();
    let decode = |bytes: &Vec<u8>| match Record::decode(bytes) {
        Ok(Record::Epoch(epoch)) => epoch.sequences.iter().map(|sequence| sequence.requests.len()).sum(),
        _ => 0,
    };
    decode(&records[0]);
    Ok(Box::new(move || records.iter().map(decode).sum()))
}

/// Records, and how many calls each holds.
fn records(calls: usize) -> anyhow::Result<Vec<(usize, Record)>> {
    let requests = Transfers::new()?.requests(calls);
    let record = |(at, requests): (usize, &[Arc<Request>])| {
        let mut writes = PackedWrites::default();
        // A transfer writes two entities.
        for request in requests.iter().chain(requests) {
            let entity = Entity::new(&LAYOUT, request.operator, false, request.key.clone());
            writes.push(&entity, Some(b"1000000"));
        }
        let changes = EpochChanges { writes, ..EpochChanges::default() };
        let record = EpochRecord {
            epoch: Epoch(at as u64 + 1),
            generation: Generation(1),
            engine: EngineHash(0),
            time: Timestamp(0),
            sequencers: 1,
            counter: SequencerCounter((at * EPOCH) as u64),
            carried: Vec::new(),
            before: Chain::default(),
            controls: Vec::new(),
            sequences: vec![Sequence { requests: requests.to_vec() }],
            outcome: Some(Box::new(EpochOutcome { chain: Chain::default(), changes })),
        };
        (requests.len(), Record::Epoch(Arc::new(record)))
    };
    Ok(requests.chunks(EPOCH).enumerate().map(record).collect())
}
