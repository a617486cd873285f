//! Directories of each version of the log's format: the present one is read, any other is refused by name and left as
//! it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError};

/// The version that is written.
const PRESENT: u32 = 2;

/// Sizes with which the fixtures have several segments.
const OPTIONS: EmbeddedOptions = EmbeddedOptions { segment_bytes: 4096, group_bytes_max: 2048 };

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/log/formats/v{version}"))
}

/// A copy, since opening a log may write.
fn copy(version: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files(&fixture(version)) {
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// Record `n` of the fixtures, which are 12, of which 3 were trimmed.
fn record(n: u64) -> Vec<u8> {
    vec![n as u8; 100 * n as usize]
}

/// Opens a directory that must be refused, and left as it is.
fn refused(directory: &Path) -> LogError {
    let before = files(directory);
    let error = EmbeddedLog::open(directory, OPTIONS).err().unwrap();
    assert!(!error.to_string().contains('\n'), "{error}");
    assert!(files(directory) == before);
    // Nor does a snapshot help.
    assert_eq!(EmbeddedLog::open_from(directory, OPTIONS, 9).err().unwrap().to_string(), error.to_string());
    error
}

#[test]
fn the_present_format_is_read() {
    let directory = copy(PRESENT);
    for next in 12..15 {
        let mut log = EmbeddedLog::open(directory.path(), OPTIONS).unwrap();
        assert_eq!((log.first(), log.next()), (3, next));
        let mut expected = 3;
        log.replay(3, &mut |position, bytes| {
            assert_eq!((position, bytes), (expected, &record(expected)[..]));
            expected += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(expected, next);
        log.append(&record(next)).unwrap();
        log.sync().unwrap();
    }
}

#[test]
fn an_older_format_is_refused_with_the_way_out() {
    let directory = copy(1);
    let error = refused(directory.path());
    assert!(matches!(error, LogError::OlderFormat { found: 1, supported: PRESENT, .. }), "{error}");
    let text = error.to_string();
    for says in ["log.mark", "format 1", "format 2", "start it with the version that wrote it"] {
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_newer_format_is_refused() {
    // Magic, version and checksum of a mark stand where they did in version 1, so that it refuses this one by name too.
    let directory = copy(PRESENT);
    let mark = directory.path().join("log.mark");
    let mut bytes = std::fs::read(&mark).unwrap();
    bytes[8] = 3;
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&mark, bytes).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, LogError::NewerFormat { found: 3, supported: PRESENT, .. }), "{error}");
}

/// Writes the fixture of the present format: to be run once when the format has changed, its result committed.
#[test]
#[ignore = "writes into the source tree, once per format"]
fn write_the_log_of_this_format() {
    let directory = fixture(PRESENT);
    assert!(!directory.exists(), "{} is there: formats that were written do not change", directory.display());
    let mut log = EmbeddedLog::open(&directory, OPTIONS).unwrap();
    for n in 0..12 {
        log.append(&record(n)).unwrap();
        if n % 3 == 2 {
            log.sync().unwrap();
        }
    }
    log.trim(3).unwrap();
}
