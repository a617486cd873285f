//! Checksums made to fit, so that what stands behind them is reached. Without this nothing but checksums would be tried.

use styx_transport::frame::{HEADER_BYTES, seal};
use xxhash_rust::xxh3::xxh3_128;

/// Makes the checksum of a frame between nodes fit, if the bytes are long enough for one.
pub fn frame(bytes: &mut [u8]) {
    if let Some((header, body)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() {
        let length = u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
        seal(header, &body[..length.min(body.len())]);
    }
}

/// Makes length and checksum of a small object of a store fit.
pub fn envelope(bytes: &mut [u8]) {
    if bytes.len() >= 32 {
        let length = (bytes.len() - 32) as u32;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        let sum = xxh3_128(&[&bytes[..16], &bytes[32..]].concat());
        bytes[16..32].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Makes the checksums of a part fit: of its header, its blocks and its footer.
pub fn part(bytes: &mut [u8]) {
    let length = bytes.len();
    if length < 12 {
        return;
    }
    let mut at = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
    if at < 28 || at + 56 > length {
        return;
    }
    let sum = xxh3_128(&bytes[..at - 16]);
    bytes[at - 16..at].copy_from_slice(&sum.to_le_bytes());
    while at + 32 + 56 <= length {
        let end = at + 32 + u32_at(bytes, at) as usize;
        if end + 56 > length {
            break;
        }
        let sum = xxh3_128(&[&bytes[at..at + 16], &bytes[at + 32..end]].concat());
        bytes[at + 16..at + 32].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    let sum = xxh3_128(&bytes[..length - 16]);
    bytes[length - 16..].copy_from_slice(&sum.to_le_bytes());
}

/// Makes the checksums of a log's segment fit: of its header and its frames.
pub fn segment(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let log_id = u32_at(bytes, 12);
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    let mut at = 64;
    while at + 24 <= bytes.len() && u32_at(bytes, at + 4) > 0 {
        let end = at + (24 + u32_at(bytes, at + 4) as usize).next_multiple_of(8);
        if end > bytes.len() {
            break;
        }
        let sum = crc32c::crc32c_append(log_id, &bytes[at + 4..end]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
