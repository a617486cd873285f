//! Record budget: who may add how much to an epoch's record, so that none is longer than the log takes.
//!
//! Workers execute what they add before others have said what they do, so the room is dealt out when a round begins:
//! half of it in equal parts, and half to one worker, each in turn. That one can take a request that is longer than an
//! equal part, so that which requests are refused does not depend on how many workers there are.

use rkyv::rancor;

use super::control::Control;
use super::transaction::Request;
use crate::ids::{Round, Tid, WorkerId};

/// Bytes of a record that holds nothing, and of what pads the rest.
const EMPTY: usize = 512;
/// Bytes for each sequencer.
const SEQUENCE: usize = 16;
/// Bytes of a request besides its text.
const REQUEST: usize = 128;

#[derive(Clone, Copy, Debug)]
pub struct RecordBudget(usize);

impl RecordBudget {
    /// The budget of a log whose longest record has so many bytes.
    pub fn new(record_bytes_max: usize) -> Self {
        RecordBudget(record_bytes_max)
    }

    /// Weight of the heaviest request that there is room for sooner or later.
    pub fn request_max(self) -> usize {
        (self.0 / 8 * 3).saturating_sub(EMPTY)
    }

    /// Weight of the heaviest control.
    pub fn control_max(self) -> usize {
        (self.0 / 2).saturating_sub(EMPTY)
    }

    /// Bytes for requests and controls in a record of so many sequencers and rescheduled transactions.
    pub fn room(self, sequencers: usize, carried: usize) -> usize {
        self.0.saturating_sub(EMPTY + sequencers * SEQUENCE + carried * size_of::<Tid>())
    }

    /// The part of a round's `room` that is a worker's, one of so many.
    pub fn share(room: usize, workers: usize, round: Round, worker: WorkerId) -> usize {
        let turn = round.0 % workers as u64 == u64::from(worker.0);
        room / 2 / workers + if turn { room / 2 } else { 0 }
    }
}

impl Request {
    /// The most bytes that it takes in a record.
    pub fn weight(&self) -> usize {
        REQUEST + self.function.len() + self.key.len() + self.args.len()
    }
}

impl Control {
    /// The most bytes that it takes in a record.
    pub fn weight(&self) -> usize {
        const PADDING: usize = 16;
        rkyv::to_bytes::<rancor::Error>(self).expect("what is in memory can be written to memory").len() + PADDING
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::placement::Placement;
    use crate::ids::{EngineHash, Epoch, Generation, OperatorId, RequestId, SequencerCounter, Timestamp};
    use crate::sequence::record::{Chain, EpochRecord, Record, Sequence};

    fn request(bytes: usize) -> Arc<Request> {
        let args = vec![7; bytes].into();
        let (function, key) = ("f".repeat(bytes % 7).into(), "k".repeat(bytes % 5).into());
        Arc::new(Request {
            id: RequestId(1),
            operator: OperatorId(1),
            function,
            key,
            args,
            retained: true,
            origin: None,
        })
    }

    #[test]
    fn a_record_is_no_longer_than_what_weighs_in_it() {
        for (workers, carried, bytes) in [(1, 0, 0), (1, 9, 1), (3, 2, 100), (7, 1, 33), (64, 1000, 3)] {
            let control = Control::Place(Placement::round_robin(1 + bytes as u32, workers));
            let requests: Vec<_> = (0..bytes * 3).map(request).collect();
            let weight: usize = requests.iter().map(|request| request.weight()).sum();
            let sequences = vec![Sequence { requests }; usize::from(workers)];
            let record = Record::Epoch(Arc::new(EpochRecord {
                epoch: Epoch(1),
                generation: Generation(1),
                engine: EngineHash(1),
                time: Timestamp(1),
                sequencers: workers,
                counter: SequencerCounter(1),
                carried: vec![Tid(1); carried],
                before: Chain::default(),
                controls: vec![control.clone(); 3],
                sequences,
                outcome: None,
            }));
            let filled = 3 * control.weight() + usize::from(workers) * weight;
            let length = record.encode().len();
            assert!(RecordBudget::new(length).room(usize::from(workers), carried) <= filled, "{length} {filled}");
        }
    }

    #[test]
    fn what_is_not_refused_has_room_when_its_turn_comes_and_nobody_has_more_than_there_is() {
        for bytes in [0, 2 << 10, 8 << 10, 983_052, 32 << 20] {
            for workers in [1, 2, 3, 64] {
                let budget = RecordBudget::new(bytes);
                let room = budget.room(workers, 0);
                let shares = |round| {
                    (0..workers)
                        .map(move |worker| RecordBudget::share(room, workers, Round(round), WorkerId(worker as u16)))
                };
                assert!((0..9).all(|round| shares(round).sum::<usize>() <= room));
                let best = (0..workers as u64).map(|round| shares(round).next().unwrap()).max().unwrap();
                assert!(best >= budget.request_max(), "{bytes} {workers}: {best}");
                assert!(room >= budget.control_max());
                // Nor is what has room refused.
                assert!(budget.request_max() + EMPTY >= bytes / 8 * 3 && budget.control_max() + EMPTY >= bytes / 2);
            }
        }
    }
}
