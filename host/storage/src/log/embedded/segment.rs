//! The segment files, looked at before the storage opens them.
//!
//! The storage cuts an unreadable end of its newest segment, as a torn write.
//! Two things are done better with what is known here:
//!
//! - Whether that end had been committed only the commit mark knows. Damage to
//!   it is reported with file and offset, and keeps its bytes.
//! - The storage searches behind a torn write for a record that would prove it
//!   damage instead, and verifies whatever might be one: half a minute for some
//!   megabytes of noise. Records have dense numbers, so hardly anything might.
//!
//! The layout is the one that open-wal documents for external readers: a header
//! of 64 bytes, then records of `crc u32, length u32, number u64, type u8,
//! 3 reserved, payload, padding to 8`, then zeros.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use open_wal::crc32c;

use super::super::LogError;
use super::EmbeddedOptions;

pub(super) const HEADER: usize = 64;
const HEADER_CHECKSUM_AT: usize = 60;
const MAGIC: [u8; 8] = *b"WAL\0SEG1";
/// The segment format of the storage in use.
const SEGMENT_FORMAT: u16 = 1;
pub(super) const RECORD_HEADER: usize = 20;
pub(super) const RECORD_ALIGNMENT: usize = 8;
const RECORD_TYPE: u8 = 1;

/// The file whose first record has the number `base`.
pub(super) fn path(directory: &Path, base: u64) -> PathBuf {
    directory.join(format!("{base:020}.wal"))
}

/// First record numbers of the segment files in `directory`, ascending.
pub(super) fn bases(directory: &Path) -> Result<Vec<u64>, LogError> {
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

/// Checks that all records up to the number `committed` can be in `directory`,
/// and cuts a torn write off the newest segment. Writes nothing if there is
/// damage. The records of the other segments are left to the storage, which
/// takes any damage there for what it is.
pub(super) fn prepare(directory: &Path, committed: u64, options: EmbeddedOptions) -> Result<(), LogError> {
    let bases = bases(directory)?;
    let Some((newest, others)) = bases.split_last().filter(|_| bases[0] <= committed + 1) else {
        if bases.is_empty() && committed == 0 {
            return Ok(());
        }
        let detail = format!("the segment files up to record {committed} are missing");
        return Err(LogError::corrupt(directory, 0, detail));
    };
    for base in others {
        check_header(directory, *base)?;
    }
    match check_header(directory, *newest) {
        // Nothing in it was committed: its creation was interrupted, and the storage drops it.
        Err(LogError::Corrupt { .. }) if *newest > committed => Ok(()),
        Err(error) => Err(error),
        Ok(()) => check_newest(directory, *newest, committed, options),
    }
}

/// Checks the header of a segment file.
pub(super) fn check_header(directory: &Path, base: u64) -> Result<(), LogError> {
    let path = path(directory, base);
    let mut header = [0; HEADER];
    let read = fs::File::open(&path).and_then(|mut file| file.read_exact(&mut header));
    match read {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(LogError::io(&path, error)),
        _ => {}
    }
    if header[..8] != MAGIC || crc32c(&header[..HEADER_CHECKSUM_AT]).to_le_bytes() != header[HEADER_CHECKSUM_AT..] {
        return Err(LogError::corrupt(&path, 0, "the segment header is damaged"));
    }
    let found = u16::from_le_bytes([header[8], header[9]]);
    if found > SEGMENT_FORMAT {
        let (found, supported) = (found.into(), SEGMENT_FORMAT.into());
        return Err(LogError::NewerFormat { file: path, found, supported });
    }
    if header[12..20] != base.to_le_bytes() {
        return Err(LogError::corrupt(&path, 0, "the segment file has the name of another"));
    }
    Ok(())
}

fn check_newest(directory: &Path, base: u64, committed: u64, options: EmbeddedOptions) -> Result<(), LogError> {
    let path = path(directory, base);
    let failed = |error| LogError::io(&path, error);
    let bytes = fs::read(&path).map_err(failed)?;
    let (mut at, mut number) = (HEADER, base);
    while let Some(framed) = record_at(&bytes, at, number..=number, options.group_bytes_max) {
        at += framed;
        number += 1;
    }
    if number <= committed {
        let detail = format!("group {number} is unreadable, and {committed} were committed");
        return Err(LogError::corrupt(&path, at as u64, detail));
    }
    // No group but the last can be torn: the next is written when it is durable.
    let last = number + (bytes.len() / RECORD_ALIGNMENT) as u64;
    let mut behind = (at + RECORD_ALIGNMENT..bytes.len()).step_by(RECORD_ALIGNMENT);
    if behind.any(|at| record_at(&bytes, at, number..=last, options.group_bytes_max).is_some()) {
        return Err(LogError::corrupt(&path, at as u64, format!("group {number} is unreadable, and others follow")));
    }

    let torn = bytes[at..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let too_short = (bytes.len() as u64) < options.segment_bytes;
    if torn == 0 && !too_short {
        return Ok(());
    }
    if torn > 0 {
        tracing::info!(file = %path.display(), offset = at, "cut an unfinished write off the end of the log");
    }
    let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
    file.write_all_at(&vec![0; torn], at as u64).map_err(failed)?;
    if too_short {
        // The storage takes the end of the file for a torn write too.
        file.set_len(options.segment_bytes).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}

/// The header of the segment file whose first record has the number `base`.
pub(super) fn header(base: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&SEGMENT_FORMAT.to_le_bytes());
    header[12..20].copy_from_slice(&base.to_le_bytes());
    let checksum = crc32c(&header[..HEADER_CHECKSUM_AT]);
    header[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The number of the valid record that these bytes begin with.
pub(super) fn number(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[8..16].try_into().expect("eight bytes"))
}

/// The payload of the valid record that these bytes begin with.
pub(super) fn payload(record: &[u8]) -> &[u8] {
    let length = u32::from_le_bytes(record[4..8].try_into().expect("four bytes"));
    &record[RECORD_HEADER..RECORD_HEADER + length as usize]
}

/// Length of the valid record at `at`, if there is one, with a number in `numbers`.
pub(super) fn record_at(
    bytes: &[u8],
    at: usize,
    numbers: std::ops::RangeInclusive<u64>,
    record_bytes_max: u32,
) -> Option<usize> {
    let header: &[u8; RECORD_HEADER] = bytes.get(at..)?.first_chunk()?;
    let short = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let number = number(header);
    let length = short(4);
    if !numbers.contains(&number) || header[16] != RECORD_TYPE || length > record_bytes_max {
        return None;
    }
    let framed = (RECORD_HEADER + length as usize).next_multiple_of(RECORD_ALIGNMENT);
    let record = bytes.get(at..at + framed)?;
    (crc32c(&record[4..]) == short(0)).then_some(framed)
}
