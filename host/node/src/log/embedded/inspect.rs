//! A look at the segment files before the storage opens them.
//!
//! The storage cuts an unreadable end of its last segment, as a torn write.
//! Whether that end had been committed only the commit mark knows, so the
//! committed part is checked here first, without writing: damage there keeps
//! its bytes, and is reported with file and offset. The layout is the one that
//! open-wal documents for external readers: a header of 64 bytes, then records
//! of `crc u32, length u32, LSN u64, type u8, 3 reserved, payload, padding to 8`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use open_wal::crc32c;

use super::super::LogError;

const HEADER: usize = 64;
const HEADER_CHECKSUM_AT: usize = 60;
const MAGIC: [u8; 8] = *b"WAL\0SEG1";
/// The segment format of the storage in use.
const SEGMENT_FORMAT: u16 = 1;
const RECORD_HEADER: usize = 20;

/// The file whose first record has the number `base`.
pub(super) fn segment_path(directory: &Path, base: u64) -> PathBuf {
    directory.join(format!("{base:020}.wal"))
}

/// First record numbers of the segment files in `directory`, ascending.
pub(super) fn segments(directory: &Path) -> Result<Vec<u64>, LogError> {
    let failed = |error| LogError::io(directory, error);
    let mut bases = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".wal")).filter(|digits| digits.len() == 20);
        bases.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Checks that all records up to the number `committed` can be in `directory`:
/// every header, and every record of the segment where `committed` lies. The
/// storage itself checks the records of the segments before.
pub(super) fn check(directory: &Path, committed: u64, record_bytes_max: u32) -> Result<(), LogError> {
    let bases = segments(directory)?;
    match bases.first() {
        Some(oldest) if *oldest <= committed + 1 => {}
        None if committed == 0 => return Ok(()),
        _ => {
            let detail = format!("the segment files up to record {committed} are missing");
            return Err(LogError::corrupt(directory, 0, detail));
        }
    }
    let last = bases.iter().rposition(|base| *base <= committed);
    for (at, base) in bases.iter().copied().enumerate() {
        if base > committed {
            // Nothing in it counts yet; its creation may have been interrupted.
            break;
        }
        let path = segment_path(directory, base);
        let file = File::open(&path).map_err(|error| LogError::io(&path, error))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        check_header(&path, &mut reader, base)?;
        if Some(at) == last {
            check_records(&path, &mut reader, base, committed, record_bytes_max)?;
        }
    }
    Ok(())
}

fn check_header(path: &Path, reader: &mut impl Read, base: u64) -> Result<(), LogError> {
    let mut header = [0; HEADER];
    let whole = read_whole(path, reader, &mut header)?;
    let checksum = u32::from_le_bytes(header[HEADER_CHECKSUM_AT..].try_into().expect("four bytes"));
    if !whole || header[..8] != MAGIC || crc32c(&header[..HEADER_CHECKSUM_AT]) != checksum {
        return Err(LogError::corrupt(path, 0, "the segment header is damaged"));
    }
    let found = u16::from_le_bytes([header[8], header[9]]);
    if found > SEGMENT_FORMAT {
        let (found, supported) = (found.into(), SEGMENT_FORMAT.into());
        return Err(LogError::NewerFormat { file: path.to_owned(), found, supported });
    }
    if header[12..20] != base.to_le_bytes() {
        return Err(LogError::corrupt(path, 0, "the segment file has the name of another"));
    }
    Ok(())
}

fn check_records(
    path: &Path,
    reader: &mut impl Read,
    base: u64,
    committed: u64,
    record_bytes_max: u32,
) -> Result<(), LogError> {
    let mut offset = HEADER as u64;
    let mut record = Vec::new();
    for lsn in base..=committed {
        let damaged = |detail: &str| {
            Err(LogError::corrupt(path, offset, format!("{detail} in group {lsn}, and {committed} were committed")))
        };
        record.resize(RECORD_HEADER, 0);
        if !read_whole(path, reader, &mut record)? {
            return damaged("the file ends");
        }
        let length = u32::from_le_bytes(record[4..8].try_into().expect("four bytes"));
        if length > record_bytes_max {
            return damaged("impossible length");
        }
        let framed = (RECORD_HEADER + length as usize).next_multiple_of(8);
        record.resize(framed, 0);
        if !read_whole(path, reader, &mut record[RECORD_HEADER..])? {
            return damaged("the file ends");
        }
        if crc32c(&record[4..]).to_le_bytes() != record[..4] {
            return damaged("wrong checksum");
        }
        if record[8..16] != lsn.to_le_bytes() {
            return damaged("wrong number");
        }
        offset += framed as u64;
    }
    Ok(())
}

/// Fills `buffer`; `false` if the file ends before.
fn read_whole(path: &Path, reader: &mut impl Read, buffer: &mut [u8]) -> Result<bool, LogError> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(LogError::io(path, error)),
    }
}
