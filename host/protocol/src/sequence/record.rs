//! What stands in the log: the requests and cuts of epochs, and what was true before the first.

use std::sync::Arc;

use rkyv::rancor::{Fallible, Source};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::with::{ArchiveWith, DeserializeWith, Map, SerializeWith, Unshare};
use rkyv::{Deserialize, Place};

use crate::format::{FormatError, LOG_RECORD};
use crate::ids::{EngineHash, Epoch, Generation, SequencerCounter, Tid, Timestamp};
use crate::sequence::control::Control;
use crate::sequence::outcome::EpochOutcome;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::transaction::{ArchivedRequest, Request};
use crate::state::StateHash;
use crate::state::entity::Layout;

/// State hash after an epoch, chained over all epochs before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Chain(pub u128);

impl Chain {
    /// The chain after one more epoch.
    #[must_use]
    pub fn after(self, epoch: Epoch, state: StateHash) -> Chain {
        let mut bytes = [0u8; 40];
        bytes[..16].copy_from_slice(&self.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&epoch.0.to_le_bytes());
        bytes[24..].copy_from_slice(&state.0.to_le_bytes());
        Chain(xxhash_rust::xxh3::xxh3_128(&bytes))
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What was decided when the log was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Genesis {
    /// Secret of the cluster: [`Layout::seed`].
    pub seed: u64,
    /// Number of partitions at the beginning.
    pub partitions: u32,
    /// When.
    pub created: Timestamp,
}

impl Genesis {
    /// How keys are spread at the beginning.
    pub fn layout(&self) -> Layout {
        Layout::new(self.seed, self.partitions)
    }
}

/// An epoch: its requests and its cut, which says which of them, in which order, hence with which TIDs, ran on which
/// membership and engine; and what it came to. Durable before any reply.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct EpochRecord {
    pub epoch: Epoch,
    /// Fences writers of an earlier generation.
    pub generation: Generation,
    /// Hash of the engine's configuration.
    pub engine: EngineHash,
    /// The epoch's time.
    pub time: Timestamp,
    /// Sequencers: one per worker.
    pub sequencers: u16,
    /// TIDs that each sequencer had passed: where its counter stands before its first request.
    pub counter: SequencerCounter,
    /// Rescheduled transactions that run in this epoch again, for a check.
    pub carried: Vec<Tid>,
    /// State hash chain after the epoch before, for a check.
    pub before: Chain,
    /// Deployments that take effect with this epoch.
    pub controls: Vec<Control>,
    /// The requests of each sequencer, in order.
    pub sequences: Vec<Sequence>,
    /// What it came to, in every record of the log. Without it, a replay executes the requests again: to check that
    /// it comes to the same.
    pub outcome: Option<Box<EpochOutcome>>,
}

/// What one sequencer adds to an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Sequence {
    /// Requests in order.
    #[rkyv(with = SharedNames)]
    pub requests: Vec<Arc<Request>>,
}

/// Archives requests by content. What is read shares the names of functions: those that stand side by side mostly
/// call the same one, and a string less to allocate is an eighth of what reading a request takes.
struct SharedNames;

impl ArchiveWith<Vec<Arc<Request>>> for SharedNames {
    type Archived = ArchivedVec<ArchivedRequest>;
    type Resolver = VecResolver;
    fn resolve_with(field: &Vec<Arc<Request>>, resolver: Self::Resolver, out: Place<Self::Archived>) {
        Map::<Unshare>::resolve_with(field, resolver, out);
    }
}

impl<S: Fallible + ?Sized> SerializeWith<Vec<Arc<Request>>, S> for SharedNames
where
    Map<Unshare>: SerializeWith<Vec<Arc<Request>>, S, Resolver = VecResolver>,
{
    fn serialize_with(field: &Vec<Arc<Request>>, serializer: &mut S) -> Result<Self::Resolver, S::Error> {
        Map::<Unshare>::serialize_with(field, serializer)
    }
}

impl<D: Fallible + ?Sized> DeserializeWith<ArchivedVec<ArchivedRequest>, Vec<Arc<Request>>, D> for SharedNames
where
    D::Error: Source,
{
    fn deserialize_with(
        field: &ArchivedVec<ArchivedRequest>,
        deserializer: &mut D,
    ) -> Result<Vec<Arc<Request>>, D::Error> {
        let mut requests: Vec<Arc<Request>> = Vec::with_capacity(field.len());
        for archived in field.iter() {
            let function = match requests.last() {
                Some(before) if *before.function == *archived.function.as_str() => before.function.clone(),
                _ => archived.function.as_str().into(),
            };
            requests.push(Arc::new(Request {
                id: archived.id.deserialize(deserializer)?,
                operator: archived.operator.deserialize(deserializer)?,
                function,
                key: archived.key.as_str().into(),
                args: archived.args.as_slice().into(),
                retained: archived.retained,
                origin: archived.origin.deserialize(deserializer)?,
            }));
        }
        Ok(requests)
    }
}

impl EpochRecord {
    /// Requests with their TIDs, sequencer by sequencer.
    pub fn transactions(&self) -> impl Iterator<Item = (Tid, &Arc<Request>)> {
        self.sequences.iter().enumerate().flat_map(|(index, sequence)| {
            let mut sequencer = Sequencer::new(index as u64 + 1, u64::from(self.sequencers));
            sequencer.level(self.counter);
            sequence.requests.iter().map(move |request| (sequencer.assign(), request))
        })
    }

    /// The counter that no sequencer has reached after this epoch.
    pub fn counter_after(&self) -> SequencerCounter {
        let longest = self.sequences.iter().map(|sequence| sequence.requests.len() as u64).max().unwrap_or(0);
        SequencerCounter(self.counter.0 + longest)
    }

    /// No TID up to this epoch's end is higher.
    pub fn highest(&self) -> Tid {
        Tid(self.counter_after().0 * u64::from(self.sequencers))
    }
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub enum Record {
    /// The first record.
    Genesis(Genesis),
    Epoch(#[rkyv(with = Unshare)] Arc<EpochRecord>),
    /// A generation begins: lower ones append nothing after this.
    Generation(Generation),
    /// A part of a record that is longer than the log takes. The others of its parts stand beside it, in order; if some
    /// are missing, so is the record.
    Part(RecordPart),
}

/// See [`Record::Part`].
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct RecordPart {
    /// So many of its parts stand before it.
    pub index: u32,
    pub last: bool,
    /// Some of the record's bytes.
    pub bytes: Vec<u8>,
}

impl Record {
    /// Bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        LOG_RECORD.encode(self)
    }

    /// Bytes of the record, in pieces of at most `most` bytes that are to be appended one after the other.
    pub fn encode_within(&self, most: usize) -> Vec<Vec<u8>> {
        let bytes = self.encode();
        if bytes.len() <= most {
            return vec![bytes];
        }
        let part_bytes = most.saturating_sub(PART_OVERHEAD).max(1);
        let parts = bytes.len().div_ceil(part_bytes);
        let part = |(index, bytes): (usize, &[u8])| {
            let part = RecordPart { index: index as u32, last: index + 1 == parts, bytes: bytes.to_vec() };
            Record::Part(part).encode()
        };
        bytes.chunks(part_bytes).enumerate().map(part).collect()
    }

    /// Reads a record, validating it before it is believed.
    ///
    /// # Errors
    /// The bytes are not a record of this version of the format.
    pub fn decode(bytes: &[u8]) -> Result<Record, FormatError> {
        LOG_RECORD.decode(bytes)
    }
}

/// The most bytes that a part of a record takes beside those that it holds.
const PART_OVERHEAD: usize = 256;

/// Puts records together whose parts are read one after the other.
#[derive(Debug, Default)]
pub struct RecordAssembler {
    /// Parts before the next one.
    parts: u32,
    bytes: Vec<u8>,
}

impl RecordAssembler {
    /// Takes the next record of the log; gives it, or what it is the last part of.
    ///
    /// # Errors
    /// The parts are not a record of this version of the format.
    pub fn take(&mut self, record: Record) -> Result<Option<Record>, FormatError> {
        let Record::Part(RecordPart { index, last, bytes }) = record else {
            // Whoever wrote parts before ended before the last one.
            *self = RecordAssembler::default();
            return Ok(Some(record));
        };
        if index == 0 {
            *self = RecordAssembler::default();
        }
        if index != self.parts {
            // The first ones are not there: the reading began behind them.
            return Ok(None);
        }
        self.parts += 1;
        self.bytes.extend(bytes);
        if last { Record::decode(&std::mem::take(self).bytes).map(Some) } else { Ok(None) }
    }
}
