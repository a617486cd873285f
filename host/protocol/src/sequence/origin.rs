//! Origin of a request: the record of a topic that it was read from, and may be read from again.

#[derive(Clone, Copy, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct Origin {
    /// The topic's id: one that is created anew has another.
    pub topic: u128,
    /// The topic's partition.
    pub partition: u32,
    /// The record's offset in it.
    pub offset: u64,
    /// Everything below this offset has its reply where nobody loses it.
    pub answered: u64,
}

impl Origin {
    /// Whether both are of one record, whatever had been answered when it was read.
    pub fn is_of(&self, other: &Origin) -> bool {
        (self.topic, self.partition, self.offset) == (other.topic, other.partition, other.offset)
    }
}
