//! The numbers that name things: transactions, epochs, operators, partitions, instants.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
            rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Transaction id: the rank of a transaction in the global sequence (Styx §5.1, Equation 1).
    /// Lower means higher priority. Kept when a transaction is rescheduled.
    Tid(u64)
}
id! {
    /// Number of an epoch, from 1. Epoch 0 is the empty state.
    Epoch(u64)
}
id! {
    /// Number of a generation, from 1: one membership under one coordinator. Fences those before it;
    /// 0 stands for none.
    Generation(u64)
}
id! {
    /// Number of a round inside a generation, from 1: an epoch, or read-only requests only.
    Round(u64)
}
id! {
    /// Position of a record in the log, from 0.
    LogPosition(u64)
}
id! {
    /// Version of a placement, counted in its generation from 1.
    PlacementVersion(u64)
}
id! {
    /// TIDs that a sequencer has assigned or passed over (Styx §5.1, Equation 1: *lc*).
    SequencerCounter(u64)
}
id! {
    /// Index of an operator in the catalog: one kind of entity of one app, for ever.
    OperatorId(u32)
}
id! {
    /// Unit of state ownership.
    PartitionId(u16)
}
id! {
    /// A worker, by its place in the membership of a generation, from 0.
    WorkerId(u16)
}
id! {
    /// Microseconds since 1970-01-01T00:00Z, as written in the log.
    Timestamp(u64)
}
id! {
    /// A process of a cluster, for as long as it lives: 1 is the coordinator, all others draw theirs.
    NodeId(u64)
}

/// Hash of everything that the engine's configuration decides about outcomes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct EngineHash(pub u64);

impl fmt::Display for EngineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Generation {
    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl Round {
    /// The round after this one.
    #[must_use]
    pub fn next(self) -> Round {
        Round(self.0 + 1)
    }
}

impl PlacementVersion {
    /// The version that a generation begins with.
    pub const FIRST: PlacementVersion = PlacementVersion(1);

    /// The version after this one.
    #[must_use]
    pub fn next(self) -> PlacementVersion {
        PlacementVersion(self.0 + 1)
    }
}

impl SequencerCounter {
    /// Far beyond what any cluster comes to; TIDs of as many sequencers as there may be are still numbers below 2^63.
    pub const MAX: SequencerCounter = SequencerCounter(1 << 46);

    /// The lowest counter at which each of so many sequencers has passed `highest`.
    pub fn past(highest: Tid, sequencers: u16) -> SequencerCounter {
        SequencerCounter(highest.0.div_ceil(u64::from(sequencers)))
    }
}

/// Id of a request as its client knows it: drawn by the gateway, or derived from the idempotency key.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct RequestId(pub u128);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for RequestId {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(RequestId)
    }
}

impl serde::Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_shown() {
        let id = RequestId(0x0123_4567_89ab_cdef_0000_0000_0000_00ff);
        assert_eq!(id.to_string(), "0123456789abcdef00000000000000ff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("g".parse::<RequestId>().is_err() && "".parse::<RequestId>().is_err());
    }
}
