//! The envelope of small objects that are read whole: manifests, the identity, the lease.
//!
//! ```text
//! magic 8 | version u16 | 0 u16 | length of the body u32 | xxh3-128 of all of this and the body | body
//! ```
//! Numbers are little-endian. The checksum's place is the same in every version to come, so that a version
//! is trusted only when the checksum matches: a flipped bit is damage, never "a newer format".

use rkyv::util::AlignedVec;
use xxhash_rust::xxh3::Xxh3;

use super::error::SnapshotError;

/// Bytes before the body.
pub(crate) const HEADER: usize = 32;
const CHECKED: usize = 16;

/// xxh3-128 of two pieces, as if they were one.
pub(crate) fn checksum(header: &[u8], body: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(header);
    hasher.update(body);
    hasher.digest128()
}

pub(crate) fn wrap(magic: &[u8; 8], version: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&u32::try_from(body.len()).expect("small objects have less than 4 GiB").to_le_bytes());
    let sum = checksum(&bytes, body);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The version, and the body, aligned for rkyv.
pub(crate) fn unwrap(
    magic: &[u8; 8],
    known: u16,
    object: &str,
    bytes: &[u8],
) -> Result<(u16, AlignedVec<16>), SnapshotError> {
    let damaged = |offset: usize, what: String| SnapshotError::damaged(object, offset as u64, what);
    if bytes.len() < HEADER {
        return Err(damaged(bytes.len(), format!("it ends after {} bytes", bytes.len())));
    }
    if &bytes[..8] != magic {
        return Err(damaged(0, "it does not begin like such an object".into()));
    }
    let (header, body) = (&bytes[..CHECKED], &bytes[HEADER..]);
    let length = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
    if body.len() != length {
        return Err(damaged(bytes.len(), format!("its body has {} bytes instead of {length}", body.len())));
    }
    if checksum(header, body).to_le_bytes() != bytes[CHECKED..HEADER] {
        return Err(damaged(HEADER, "the checksum does not fit".into()));
    }
    let version = u16::from_le_bytes(header[8..10].try_into().expect("two bytes"));
    if version > known {
        return Err(SnapshotError::NewerFormat { object: object.to_owned(), found: version, known });
    }
    let mut aligned = AlignedVec::with_capacity(length);
    aligned.extend_from_slice(body);
    Ok((version, aligned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_body_is_where_every_version_has_it() {
        let whole = wrap(b"magic  7", 0x102, b"some body");
        assert_eq!(whole[..CHECKED], *b"magic  7\x02\x01\0\0\x09\0\0\0");
        assert_eq!(whole[CHECKED..HEADER], checksum(&whole[..CHECKED], b"some body").to_le_bytes());
        assert_eq!(whole[HEADER..], *b"some body");
    }

    #[test]
    fn what_was_cut_off_or_appended_is_told_from_what_was_altered() {
        let whole = wrap(b"magic  7", 1, b"some body");
        let refused = |bytes: &[u8]| unwrap(b"magic  7", 1, "it", bytes).unwrap_err().to_string();
        let (version, body) = unwrap(b"magic  7", 2, "it", &whole).unwrap();
        assert_eq!((version, &body[..]), (1, &b"some body"[..]));
        assert!(refused(&whole[..whole.len() - 1]).contains("its body has 8 bytes instead of 9"));
        assert!(refused(&[&whole[..], b"!"].concat()).contains("its body has 10 bytes instead of 9"));
        assert!(refused(&[&whole[..whole.len() - 1], b"!"].concat()).contains("the checksum does not fit"));
    }
}
