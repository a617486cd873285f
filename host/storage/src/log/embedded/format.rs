//! Format of the files: headers and frames, encoded and decoded. No input or output.
//!
//! ```text
//! log.mark     header: "STYXLOG\n", committed position, first position
//! …0042.log    header: "styxlog\0", position of its first record, 0; then frames; then zeros, reserved for more
//!
//! header  64   magic 8 | version u32 | log id u32 | two fields u64 | zeros | crc u32 of the bytes before
//! frame   24+  crc u32 | length u32 | position u64 | records u32 | 0 u32
//!              | per record: length u32, bytes | zeros up to a multiple of 8
//! ```
//!
//! Numbers are little-endian, checksums are CRC-32C. A frame holds the records between two syncs; `position` is that
//! of its first record. Its checksum covers everything after itself and begins with the log's id, a random number:
//! neither a file of another log nor a record that imitates a frame is taken for a frame of this one.
//!
//! Version and checksum of a header stand where they do in every version, version 1 included, so that another version
//! is told from damage.

use styx_planted::{Bug, planted};

/// Version of everything in the directory.
pub(super) const FORMAT: u32 = 2;
/// Length of a header.
pub(super) const HEADER: usize = 64;
const HEADER_CHECKSUM_AT: usize = HEADER - 4;
/// Magic of the commit mark.
pub(super) const MARK: [u8; 8] = *b"STYXLOG\n";
/// Magic of a segment file.
pub(super) const SEGMENT: [u8; 8] = *b"styxlog\0";

/// Length of the fields before a frame's records.
pub(super) const FRAME_HEADER: usize = 24;
/// Frames begin at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// Length of the field before each record.
const LENGTH: usize = size_of::<u32>();
/// The most that a frame with one record has besides that.
pub(super) const OVERHEAD: usize = FRAME_HEADER + LENGTH + ALIGNMENT - 1;

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Not a header, or a damaged one.
    Damaged,
    /// A header of this other version of the format.
    Version(u32),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Encodes a header.
pub(super) fn header(magic: [u8; 8], log_id: u32, fields: [u64; 2]) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..16].copy_from_slice(&log_id.to_le_bytes());
    bytes[16..24].copy_from_slice(&fields[0].to_le_bytes());
    bytes[24..32].copy_from_slice(&fields[1].to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]);
    bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Log id and fields of a header.
pub(super) fn decode_header(magic: [u8; 8], bytes: &[u8; HEADER]) -> Result<(u32, [u64; 2]), HeaderError> {
    if bytes[..8] != magic || crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]) != u32_at(bytes, HEADER_CHECKSUM_AT) {
        return Err(HeaderError::Damaged);
    }
    match u32_at(bytes, 8) {
        FORMAT => Ok((u32_at(bytes, 12), [u64_at(bytes, 16), u64_at(bytes, 24)])),
        0 => Err(HeaderError::Damaged),
        other => Err(HeaderError::Version(other)),
    }
}

/// A frame that was verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Position of its first record.
    pub(super) position: u64,
    /// Number of its records, at least 1.
    pub(super) count: u64,
    records: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Position after its last record.
    pub(super) fn end(&self) -> u64 {
        self.position + self.count
    }

    /// The records with their positions.
    pub(super) fn records(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut rest = self.records;
        (self.position..self.end()).map(move |position| (position, split(&mut rest).expect("the frame was verified")))
    }
}

/// Takes the first record off `rest`.
fn split<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (record, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(record)
}

/// Total length of the frame that begins with `header`, if it can be one with a position in `positions`.
pub(super) fn frame_bytes(header: &[u8; FRAME_HEADER], positions: std::ops::RangeInclusive<u64>) -> Option<usize> {
    let (position, count) = (u64_at(header, 8), u64::from(u32_at(header, 16)));
    let possible = positions.contains(&position) && count > 0 && position.checked_add(count).is_some();
    possible.then(|| (FRAME_HEADER + u32_at(header, 4) as usize).next_multiple_of(ALIGNMENT))
}

/// Verifies a frame of the log `log_id`; `None` if it is not exactly what was written.
pub(super) fn decode_frame(bytes: &[u8], log_id: u32) -> Option<Frame<'_>> {
    let header: &[u8; FRAME_HEADER] = bytes.first_chunk()?;
    if crc32c::crc32c_append(log_id, &bytes[4..]) != u32_at(header, 0) && !planted(Bug::ChecksumIgnored) {
        return None;
    }
    let records = bytes.get(FRAME_HEADER..FRAME_HEADER + u32_at(header, 4) as usize)?;
    let frame = Frame { position: u64_at(header, 8), count: u64::from(u32_at(header, 16)), records };
    let mut rest = records;
    for _ in 0..frame.count {
        split(&mut rest)?;
    }
    rest.is_empty().then_some(frame)
}

/// The whole frame at `at` with a position in `positions`, and its total length.
pub(super) fn frame_at(
    bytes: &[u8],
    at: usize,
    positions: std::ops::RangeInclusive<u64>,
    log_id: u32,
) -> Option<(Frame<'_>, usize)> {
    let length = frame_bytes(bytes.get(at..)?.first_chunk()?, positions)?;
    Some((decode_frame(bytes.get(at..at + length)?, log_id)?, length))
}

/// The first frame at or after `from` whose position is higher than `position`, and its offset. Later frames of a
/// segment have positions that its length limits, so that hardly any byte sequence needs a checksum.
pub(super) fn find_frame(bytes: &[u8], from: usize, position: u64, log_id: u32) -> Option<(Frame<'_>, usize)> {
    let positions = position + 1..=position + (bytes.len() / LENGTH) as u64;
    (from.next_multiple_of(ALIGNMENT)..bytes.len())
        .step_by(ALIGNMENT)
        .find_map(|at| frame_at(bytes, at, positions.clone(), log_id).map(|(frame, _)| (frame, at)))
}

/// Records that wait for the next sync, as the frame that they will be.
pub(super) struct Pending {
    bytes: Vec<u8>,
    first: u64,
    count: u32,
}

impl Pending {
    /// An empty one whose first record will have the position `first`.
    pub(super) fn new(first: u64) -> Self {
        let mut pending = Self { bytes: Vec::new(), first, count: 0 };
        pending.restart(first);
        pending
    }

    /// Empties it, keeping its memory.
    pub(super) fn restart(&mut self, first: u64) {
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER, 0);
        (self.first, self.count) = (first, 0);
    }

    /// Adds a record and returns its position.
    pub(super) fn push(&mut self, record: &[u8]) -> u64 {
        let length = u32::try_from(record.len()).expect("checked against the limit, which is a u32");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(record);
        self.count += 1;
        self.next() - 1
    }

    /// True if the frame with `record` has at most `limit` bytes. An empty one takes any.
    pub(super) fn fits(&self, record: &[u8], limit: usize) -> bool {
        self.count == 0 || (self.bytes.len() + LENGTH + record.len()).next_multiple_of(ALIGNMENT) <= limit
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Position of the first record.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Position after the last record.
    pub(super) fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// The frame of the records; nothing can be added any more.
    pub(super) fn seal(&mut self, log_id: u32) -> &[u8] {
        let length = u32::try_from(self.bytes.len() - FRAME_HEADER).expect("checked against the limit, which is a u32");
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes[4..8].copy_from_slice(&length.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32c::crc32c_append(log_id, &self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        debug_assert!(decode_frame(&self.bytes, log_id).is_some(), "a sealed frame can be read");
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let mut pending = Pending::new(7);
        for record in [&b"one"[..], b"", b"three"] {
            pending.push(record);
        }
        assert_eq!((pending.first(), pending.next()), (7, 10));
        pending.seal(5).to_vec()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes = frame();
        let (decoded, length) = frame_at(&bytes, 0, 7..=7, 5).unwrap();
        assert_eq!((decoded.position, decoded.end(), length), (7, 10, bytes.len()));
        assert!(decoded.records().eq([(7, &b"one"[..]), (8, b""), (9, b"three")]));
        let fields = [u64::MAX, 3];
        assert_eq!(decode_header(MARK, &header(MARK, 5, fields)), Ok((5, fields)));
    }

    #[test]
    fn a_frame_of_another_log_or_position_is_none_of_this() {
        let bytes = frame();
        assert!(frame_at(&bytes, 0, 7..=7, 6).is_none());
        assert!(frame_at(&bytes, 0, 8..=9, 5).is_none());
        assert!(find_frame(&bytes, 0, 7, 5).is_none() && find_frame(&bytes, 0, 6, 5).is_some());
    }

    #[test]
    fn anything_cut_or_flipped_is_refused() {
        let bytes = frame();
        for length in 0..bytes.len() {
            assert!(frame_at(&bytes[..length], 0, 0..=u64::MAX, 5).is_none());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(frame_at(&damaged, 0, 0..=u64::MAX, 5).is_none(), "bit {bit}");
        }
        let mark = header(MARK, 5, [3, 2]);
        for bit in 0..HEADER * 8 {
            let mut damaged = mark;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_header(MARK, &damaged), Err(HeaderError::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn an_impossible_frame_is_refused_whatever_its_checksum() {
        // No records, and numbers that overflow.
        let mut empty = Pending::new(7);
        empty.bytes[16] = 0;
        let mut overflowing = Pending::new(0);
        overflowing.push(b"");
        overflowing.first = u64::MAX;
        for mut pending in [empty, overflowing] {
            let length = (pending.bytes.len() - FRAME_HEADER) as u32;
            pending.bytes[4..8].copy_from_slice(&length.to_le_bytes());
            pending.bytes[8..16].copy_from_slice(&pending.first.to_le_bytes());
            pending.bytes[16..20].copy_from_slice(&pending.count.to_le_bytes());
            let checksum = crc32c::crc32c_append(5, &pending.bytes[4..]);
            pending.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            assert!(frame_at(&pending.bytes, 0, 0..=u64::MAX, 5).is_none());
        }
    }
}
