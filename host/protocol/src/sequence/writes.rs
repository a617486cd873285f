//! Writes of an epoch, packed into one run of bytes: an epoch has many, the log takes them as they are, and nothing of
//! them is looked at until somebody recovers.

use crate::ids::{OperatorId, PartitionId};
use crate::state::Write;
use crate::state::entity::{Entity, Layout};

/// See the module. Each write is a header, little-endian: operator, partition, length of the key, length of the value
/// plus one or 0 for a delete; then the key and the value.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct PackedWrites(Vec<u8>);

const HEADER: usize = 12;

#[derive(Clone, Copy, Debug)]
pub struct PackedWrite<'a> {
    operator: OperatorId,
    partition: PartitionId,
    key: &'a str,
    value: Option<&'a [u8]>,
    bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its bytes do not say what was written")]
pub struct NoWrites;

impl PackedWrites {
    /// Adds one; of several of one entity the last counts.
    pub fn push(&mut self, entity: &Entity, value: Option<&[u8]>) {
        let key = entity.key().as_bytes();
        let value_bytes = value.unwrap_or_default();
        // Keys and values have limits far below.
        let (key_length, value_length) = (key.len() as u16, value.map_or(0, |value| value.len() as u32 + 1));
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&entity.operator().0.to_le_bytes());
        header[4..6].copy_from_slice(&entity.partition().0.to_le_bytes());
        header[6..8].copy_from_slice(&key_length.to_le_bytes());
        header[8..].copy_from_slice(&value_length.to_le_bytes());
        self.0.reserve(HEADER + key.len() + value_bytes.len());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(value_bytes);
    }

    /// Adds those of another worker, or one.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The bytes that they take.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them are writes to partitions that are there.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self, layout: &Layout) -> Result<(), NoWrites> {
        self.iter().try_for_each(|write| write?.check(layout))
    }

    /// All of them, in order.
    ///
    /// # Errors
    /// They are no writes to partitions that are there.
    pub fn unpack(&self, layout: &Layout) -> Result<Vec<Write>, NoWrites> {
        self.iter().map(|write| write?.unpack(layout)).collect()
    }

    /// All of them, in order; ends behind an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<PackedWrite<'_>, NoWrites>> {
        self.from(0)
    }

    /// Those behind the first so many bytes.
    pub fn from(&self, bytes: usize) -> impl Iterator<Item = Result<PackedWrite<'_>, NoWrites>> {
        let mut rest = &self.0[bytes..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let read = read(&mut rest);
            if read.is_err() {
                rest = &[];
            }
            Some(read)
        })
    }

    /// The same in pieces of about so many bytes.
    pub fn into_pieces(self, most: usize) -> Vec<PackedWrites> {
        let mut pieces: Vec<PackedWrites> = Vec::new();
        for write in self.iter().map_while(Result::ok) {
            match pieces.last_mut() {
                Some(piece) if piece.0.len() + write.bytes.len() <= most => piece.extend(write.bytes),
                _ => pieces.push(PackedWrites(write.bytes.to_vec())),
            }
        }
        pieces
    }
}

fn read<'a>(rest: &mut &'a [u8]) -> Result<PackedWrite<'a>, NoWrites> {
    let header = rest.first_chunk::<HEADER>().ok_or(NoWrites)?;
    let [o0, o1, o2, o3, p0, p1, k0, k1, v0, v1, v2, v3] = *header;
    let key_length = usize::from(u16::from_le_bytes([k0, k1]));
    let value_length = u32::from_le_bytes([v0, v1, v2, v3]);
    let end = HEADER + key_length + value_length.saturating_sub(1) as usize;
    let (bytes, behind) = rest.split_at_checked(end).ok_or(NoWrites)?;
    *rest = behind;
    let (key, value) = bytes[HEADER..].split_at(key_length);
    Ok(PackedWrite {
        operator: OperatorId(u32::from_le_bytes([o0, o1, o2, o3])),
        partition: PartitionId(u16::from_le_bytes([p0, p1])),
        key: std::str::from_utf8(key).map_err(|_| NoWrites)?,
        value: (value_length > 0).then_some(value),
        bytes,
    })
}

impl<'a> PackedWrite<'a> {
    /// The partition of its entity.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// As it is packed.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its entity under `layout`, when it was packed under `before`; and its value. `is_composite` tells of operators of apps.
    pub fn relaid(
        &self,
        layout: &Layout,
        before: &Layout,
        is_composite: impl FnOnce(OperatorId) -> bool,
    ) -> (Entity, Option<&'a [u8]>) {
        let operator = (self.operator, is_composite(self.operator));
        (Entity::relaid(layout, before, operator, self.partition, self.key.into()), self.value)
    }

    fn check(&self, layout: &Layout) -> Result<(), NoWrites> {
        if u32::from(self.partition.0) < layout.partitions { Ok(()) } else { Err(NoWrites) }
    }

    /// The write.
    ///
    /// # Errors
    /// There is no such partition.
    pub fn unpack(&self, layout: &Layout) -> Result<Write, NoWrites> {
        self.check(layout)?;
        let entity = Entity::within(layout, self.operator, self.partition, self.key.into());
        Ok((entity, self.value.map(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout::new(3, 16);

    fn writes() -> Vec<Write> {
        let write = |operator, key: &str, value: Option<&[u8]>| {
            (Entity::new(&LAYOUT, OperatorId(operator), false, key.into()), value.map(Into::into))
        };
        vec![
            write(1, "a", Some(b"7")),
            write(0xffff_ff00, "", Some(b"")),
            write(2, "\u{e9}:x", None),
            write(1, "a", None),
        ]
    }

    fn packed() -> PackedWrites {
        let mut packed = PackedWrites::default();
        writes().iter().for_each(|(entity, value)| packed.push(entity, value.as_deref()));
        packed
    }

    #[test]
    fn what_is_packed_is_unpacked_in_order_whole_or_in_pieces() {
        assert_eq!(packed().unpack(&LAYOUT), Ok(writes()));
        for most in 0..packed().bytes().len() + 1 {
            let mut whole = PackedWrites::default();
            let pieces = packed().into_pieces(most);
            assert!(pieces.iter().all(|piece| piece.bytes().len() <= most || piece.iter().count() == 1), "{most}");
            let lengths: Vec<_> = packed().iter().map(|write| write.unwrap().bytes.len()).collect();
            assert!(lengths[0] + lengths[1] != most || pieces[0].bytes().len() == most, "what just fits goes along");
            pieces.iter().for_each(|piece| whole.extend(piece.bytes()));
            assert_eq!(whole, packed());
        }
    }

    #[test]
    fn what_is_no_writes_is_an_error_wherever_it_ends() {
        let bytes = packed().0;
        for cut in 1..bytes.len() {
            let cut_off = PackedWrites(bytes[..cut].to_vec());
            let whole = cut_off.iter().filter(Result::is_ok).count();
            assert!(cut_off.unpack(&LAYOUT).is_err() || cut_off.unpack(&LAYOUT).unwrap() == writes()[..whole], "{cut}");
        }
        assert_eq!(PackedWrites(vec![255; 40]).unpack(&LAYOUT), Err(NoWrites));
        let few = Layout { partitions: 1, ..LAYOUT };
        assert!(packed().iter().any(|write| write.unwrap().unpack(&few).is_err()), "a partition that there is not");
        assert_eq!((packed().check(&LAYOUT), packed().check(&few)), (Ok(()), Err(NoWrites)));
    }
}
