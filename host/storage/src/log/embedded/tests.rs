//! Crashes, torn writes and damage, on real files.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::contract::{self, Random, Storage};
use super::format::{ALIGNMENT, FORMAT, FRAME_HEADER};
use super::*;
use crate::files::{LocalFile, MemoryFileSystem, Opening, OperationKind};

/// Small enough that a test crosses many segments.
const SMALL: EmbeddedOptions = EmbeddedOptions { segment_bytes: 256 << 10, group_bytes_max: 128 << 10 };
/// For tests that copy or scan the files thousands of times.
pub(super) const TINY: EmbeddedOptions = EmbeddedOptions { segment_bytes: 4 << 10, group_bytes_max: 2 << 10 };

struct Temporary(tempfile::TempDir);

impl Temporary {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Storage for Temporary {
    fn open(&self) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(EmbeddedLog::open(self.0.path(), SMALL)?))
    }
}

impl Storage for MemoryFileSystem {
    fn open(&self) -> Result<Box<dyn Log>, LogError> {
        Ok(Box::new(EmbeddedLog::open_on(self.clone(), Path::new("/log"), SMALL, 0, 7)?))
    }
}

#[test]
fn keeps_the_contract() {
    contract::check(&Temporary::new);
    contract::check(&MemoryFileSystem::default);
}

/// The record with the number `n` of a test log: between 1 and 300 bytes.
pub(super) fn record(n: u64) -> Vec<u8> {
    let mut random = Random(n);
    let length = 1 + random.below(300);
    (0..length).map(|_| random.below(256) as u8).collect()
}

/// Writes `count` records in groups of 1 to 3 and closes the log.
pub(super) fn write(directory: &Path, options: EmbeddedOptions, count: u64) {
    let mut log = EmbeddedLog::open(directory, options).unwrap();
    for n in log.next()..count {
        log.append(&record(n)).unwrap();
        if n % 3 != 1 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
}

fn expect_records(directory: &Path, options: EmbeddedOptions, count: u64) {
    let mut log = EmbeddedLog::open(directory, options).unwrap();
    assert_eq!(log.next(), count);
    assert!(contract::records(&mut log).into_iter().eq((0..count).map(record)));
}

pub(super) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn local(directory: &Path) -> Directory {
    Directory::open(LocalFileSystem, directory).unwrap()
}

/// Positions of the first records of the segment files.
fn bases(directory: &Path) -> Vec<u64> {
    local(directory).segments().unwrap()
}

fn last_segment(directory: &Path) -> PathBuf {
    segment::path(directory, *bases(directory).last().unwrap())
}

/// Offset after the last byte that is not zero.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Offset after the last frame of a segment, which is padded to 8 bytes.
pub(super) fn end_of_records(bytes: &[u8]) -> usize {
    used(bytes).next_multiple_of(8)
}

#[test]
fn a_write_torn_at_any_byte_is_cut_and_nothing_before_it() {
    let before = tempfile::tempdir().unwrap();
    write(before.path(), TINY, 10);
    let after = tempfile::tempdir().unwrap();
    copy(before.path(), after.path());
    write(after.path(), TINY, 12);
    let start = end_of_records(&fs::read(last_segment(before.path())).unwrap());
    let new = fs::read(last_segment(after.path())).unwrap();
    // Without its padding, which reads the same when it is missing.
    let end = used(&new);
    assert!(end - start > 100, "the torn group has some bytes");

    for torn in start..end {
        // In place of the missing rest lie zeros, stale bytes, or the end of the file.
        for rest in 0..3 {
            let crashed = tempfile::tempdir().unwrap();
            copy(before.path(), crashed.path());
            let file = fs::OpenOptions::new().write(true).open(last_segment(crashed.path())).unwrap();
            file.write_all_at(&new[start..torn], start as u64).unwrap();
            match rest {
                1 => file.write_all_at(&vec![0xA5; end - torn], torn as u64).unwrap(),
                2 => file.set_len(torn as u64).unwrap(),
                _ => {}
            }
            expect_records(crashed.path(), TINY, 10);
            if torn % 16 == 0 {
                // And it can be written again, over what was cut.
                write(crashed.path(), TINY, 14);
                expect_records(crashed.path(), TINY, 14);
            }
        }
    }
}

#[test]
fn a_torn_write_with_holes_is_cut() {
    let before = tempfile::tempdir().unwrap();
    write(before.path(), SMALL, 10);
    // One group of several records, whose pages reach the disk in any order.
    let after = tempfile::tempdir().unwrap();
    copy(before.path(), after.path());
    let mut log = EmbeddedLog::open(after.path(), SMALL).unwrap();
    for n in 0..200 {
        log.append(&record(n)).unwrap();
    }
    log.sync().unwrap();
    drop(log);
    let new = fs::read(last_segment(after.path())).unwrap();
    let start = end_of_records(&fs::read(last_segment(before.path())).unwrap());
    let end = used(&new);
    let pages: Vec<_> = (start..end).step_by(4096).map(|at| at..(at + 4096).min(end)).collect();
    assert!(pages.len() > 5);
    for seed in 0..200 {
        let mut random = Random(seed);
        let crashed = tempfile::tempdir().unwrap();
        copy(before.path(), crashed.path());
        let file = fs::OpenOptions::new().write(true).open(last_segment(crashed.path())).unwrap();
        let missing = random.below(pages.len() as u64) as usize;
        for (at, page) in pages.iter().enumerate() {
            if at != missing && random.below(2) == 0 {
                file.write_all_at(&new[page.clone()], page.start as u64).unwrap();
            }
        }
        expect_records(crashed.path(), SMALL, 10);
    }
}

#[test]
fn a_long_torn_write_is_cut_in_no_time() {
    let options = EmbeddedOptions::default();
    let mut random = Random(3);
    let noise: Vec<u8> = (0..1 << 20).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
    let start = std::time::Instant::now();
    for rest in [noise, vec![0; 8 << 20], vec![1; 8 << 20]] {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), options, 10);
        let path = last_segment(directory.path());
        let end = end_of_records(&fs::read(&path).unwrap());
        fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&rest, end as u64).unwrap();
        expect_records(directory.path(), options, 10);
    }
    // A fraction of a second.
    assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
}

#[test]
fn damage_before_readable_records_is_never_cut() {
    // As after a power failure with a mark that lags behind: nothing says that these were committed.
    let directory = tempfile::tempdir().unwrap();
    drop(EmbeddedLog::open(directory.path(), SMALL).unwrap());
    let mark = fs::read(directory.path().join("log.mark")).unwrap();
    write(directory.path(), SMALL, 20);
    fs::write(directory.path().join("log.mark"), mark).unwrap();
    let path = last_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = EmbeddedLog::open(directory.path(), SMALL).err().unwrap();
    assert!(matches!(&error, LogError::Corrupt { file, offset: 64, .. } if *file == path), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    // Undamaged, they all count, marked or not.
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    expect_records(directory.path(), SMALL, 20);
}

#[test]
fn a_lost_file_is_reported() {
    let pristine = tempfile::tempdir().unwrap();
    write(pristine.path(), TINY, 100);
    let bases = bases(pristine.path());
    assert!(bases.len() > 3);
    let lost = bases.iter().map(|base| segment::path(pristine.path(), *base));
    for path in lost.chain([pristine.path().join("log.mark")]) {
        let damaged = tempfile::tempdir().unwrap();
        copy(pristine.path(), damaged.path());
        fs::remove_file(damaged.path().join(path.file_name().unwrap())).unwrap();
        let result = EmbeddedLog::open(damaged.path(), TINY);
        assert!(matches!(result.err(), Some(LogError::Corrupt { .. })), "{}", path.display());
    }
}

#[test]
fn a_header_that_is_not_what_it_should_be_is_damage_at_its_place() {
    let (pristine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(pristine.path(), TINY, 60);
    write(other.path(), TINY, 60);
    let (bases, id) = (bases(pristine.path()), log_id(pristine.path()));
    let marked = |committed, first| {
        let mark = format::header(format::MARK, id, [committed, first]);
        let mut bytes = vec![0; mark::PLACES[1] as usize + HEADER];
        mark::PLACES.into_iter().for_each(|at| bytes[at as usize..][..HEADER].copy_from_slice(&mark));
        bytes
    };
    let segment = |directory: &Path, at: usize| fs::read(segment::path(directory, bases[at])).unwrap();
    let mut damaged = segment(pristine.path(), 1);
    damaged[3] ^= 1;
    let name = format!("{:020}.log", bases[1]);
    let cases = [
        (mark::NAME, marked(60, 61), Some(16)),
        (mark::NAME, marked(60, 60), None),
        (mark::NAME, vec![7; 2 * HEADER], Some(0)),
        (&name, segment(pristine.path(), 2), Some(16)),
        (&name, segment(other.path(), 1), Some(12)),
        (&name, segment(pristine.path(), 1), None),
        (&name, damaged, Some(0)),
        (&name, vec![0; HEADER - 1], Some(0)),
    ];
    for (name, bytes, at) in cases {
        let log = tempfile::tempdir().unwrap();
        copy(pristine.path(), log.path());
        let path = log.path().join(name);
        fs::write(&path, bytes).unwrap();
        match (EmbeddedLog::open(log.path(), TINY).err(), at) {
            (None, None) => {}
            (Some(LogError::Corrupt { file, offset, .. }), Some(at)) => assert_eq!((file, offset), (path, at)),
            (other, _) => panic!("{name}, {at:?}: {other:?}"),
        }
    }
}

#[test]
fn a_newer_segment_is_not_called_damaged() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), SMALL, 3);
    let path = last_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = EmbeddedLog::open(directory.path(), SMALL).err().unwrap();
    assert!(matches!(error, LogError::NewerFormat { found: 9, supported: FORMAT, .. }), "{error}");
    assert!(fs::read(&path).unwrap() == bytes, "nothing is changed");
}

#[test]
fn a_crash_between_mark_and_deletion_of_a_trim_is_finished_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), TINY, 60);
    let full = tempfile::tempdir().unwrap();
    copy(directory.path(), full.path());
    let mut log = EmbeddedLog::open(directory.path(), TINY).unwrap();
    log.trim(50).unwrap();
    drop(log);
    let segments = bases(directory.path());
    assert!(segments.len() < bases(full.path()).len(), "space is given back");
    // The mark of the trimmed log with the files of the full one.
    fs::copy(directory.path().join("log.mark"), full.path().join("log.mark")).unwrap();
    let mut log = EmbeddedLog::open(full.path(), TINY).unwrap();
    assert_eq!((log.first(), log.next()), (50, 60));
    assert_eq!(contract::records(&mut log), (50..60).map(record).collect::<Vec<_>>());
    log.trim(51).unwrap();
    assert_eq!(bases(full.path()), segments);
}

#[test]
fn a_long_record_is_refused_and_much_is_synced_early() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = EmbeddedLog::open(directory.path(), SMALL).unwrap();
    let limit = SMALL.record_bytes_max();
    assert!(matches!(log.append(&vec![0; limit + 1]), Err(LogError::TooLarge { .. })));
    for n in 0..4 {
        assert_eq!(log.append(&vec![n as u8; limit]).unwrap(), n);
        assert_eq!(log.durable(), n, "the one before had to make room");
    }
    log.sync().unwrap();
    assert_eq!(log.durable(), 4);
}

#[test]
fn a_record_that_is_longer_than_a_segment_has_one_of_its_own() {
    let reserved = Arc::new(Mutex::new(Vec::new()));
    let told = reserved.clone();
    let files = MemoryFileSystem::new(move |operation| {
        if operation.kind == OperationKind::Reserve {
            told.lock().unwrap().push(operation.bytes);
        }
        Ok(())
    });
    let options = EmbeddedOptions { segment_bytes: 64 << 10, group_bytes_max: 1 << 20 };
    let open = || EmbeddedLog::open_on(files.clone(), Path::new("/log"), options, 0, 7).unwrap();
    let records: Vec<_> = [700, 800, 1, 900].map(|kilobytes| vec![kilobytes as u8; kilobytes << 10]).into();
    let mut log = open();
    for record in &records {
        log.append(record).unwrap();
        log.sync().unwrap();
    }
    assert_eq!(contract::records(&mut log), records);
    drop(log);
    let mut log = open();
    assert_eq!(contract::records(&mut log), records);
    assert_eq!(log.segments, [0, 1, 2, 3]);
    // The first segment was there, empty, and grew. In all of them there is space before there are bytes.
    let length = |at: usize| (HEADER + (FRAME_HEADER + 4 + records[at].len()).next_multiple_of(ALIGNMENT)) as u64;
    assert_eq!(*reserved.lock().unwrap(), [64 << 10, length(0), length(1), 64 << 10, length(3)]);
}

#[test]
fn a_segment_that_becomes_shorter_while_it_is_read_ends_there() {
    let (files, path) = (MemoryFileSystem::default(), Path::new("/log"));
    let mut log = EmbeddedLog::open_on(files.clone(), path, TINY, 0, 7).unwrap();
    log.append(b"record").unwrap();
    log.sync().unwrap();
    let directory = Directory::open(files.clone(), path).unwrap();
    let mut readers = [0; 2].map(|base| Reader::open(&directory, base, 7).unwrap());
    assert_eq!(readers[0].next().unwrap().map(|frame| frame.count), Some(1));
    drop(FileSystem::open(&files, &segment::path(path, 0), Opening::Empty).unwrap());
    assert!(readers[1].next().unwrap().is_none());
}

#[test]
fn other_options_find_the_same_records() {
    let directory = tempfile::tempdir().unwrap();
    for (round, options) in [SMALL, TINY, EmbeddedOptions::default(), TINY].into_iter().enumerate() {
        write(directory.path(), options, 2000 * (round as u64 + 1));
        expect_records(directory.path(), TINY, 2000 * (round as u64 + 1));
    }
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = spawn_writer(directory.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("synced ")).unwrap();
    let refused = EmbeddedLog::open(directory.path(), SMALL).err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(refused, Some(LogError::Locked(_))), "{refused:?}");
    EmbeddedLog::open(directory.path(), SMALL).unwrap();
}

#[test]
fn a_killed_writer_loses_nothing_that_was_synced() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut next = 0;
    for round in 0..12 {
        let mut child = spawn_writer(directory.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut synced = next;
        let stop = next + 20 + random.below(400);
        for line in lines {
            if let Some(number) = line.unwrap().strip_prefix("synced ") {
                synced = number.parse().unwrap();
                if synced >= stop {
                    // SIGKILL, at whatever point of an append or a sync it is by now.
                    child.kill().unwrap();
                }
            }
        }
        assert!(!child.wait().unwrap().success());
        let mut log = EmbeddedLog::open(directory.path(), SMALL).unwrap();
        assert!(log.next() >= synced, "round {round}: {} after {synced} were synced", log.next());
        assert!(contract::records(&mut log).into_iter().eq((0..log.next()).map(record)), "round {round}");
        next = log.next();
    }
}

/// A process of this test binary that runs [`child_writer`] in `directory`.
fn spawn_writer(directory: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "log::embedded::tests::child_writer", "--ignored", "--nocapture"])
        .env("STYX_TEST_LOG_DIRECTORY", directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Appends and syncs until it is killed, saying what is synced.
#[test]
#[ignore = "the child process of the tests above"]
fn child_writer() {
    let Some(directory) = std::env::var_os("STYX_TEST_LOG_DIRECTORY") else {
        return;
    };
    let mut log = EmbeddedLog::open(Path::new(&directory), SMALL).unwrap();
    loop {
        for _ in 0..1 + log.next() % 4 {
            log.append(&record(log.next())).unwrap();
        }
        log.sync().unwrap();
        println!("synced {}", log.next());
    }
}

/// Number by which the log in `directory` is told from others.
fn log_id(directory: &Path) -> u32 {
    MarkFile::open(&local(directory), 0).unwrap().mark().log_id
}

/// Offset, position of the first record and position after the last, of the frames of a segment file.
fn frames(bytes: &[u8], base: u64, log_id: u32) -> Vec<(usize, u64, u64)> {
    let (mut frames, mut at, mut next) = (Vec::new(), HEADER, base);
    while let Some((frame, length)) = format::frame_at(bytes, at, next..=next, log_id) {
        frames.push((at, frame.position, frame.end()));
        at += length;
        next = frame.end();
    }
    frames
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn expect_from(directory: &Path, log: &mut EmbeddedLog, first: u64, count: u64) {
    assert_eq!((log.first(), log.next()), (first, count), "{}", directory.display());
    let mut seen = Vec::new();
    log.replay(first, &mut |sequence, bytes| {
        seen.push((sequence, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    assert!(seen.into_iter().eq((first..count).map(|n| (n, record(n)))));
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn damage_is_passed_over_if_it_lies_before_what_is_needed() {
    let pristine = tempfile::tempdir().unwrap();
    write(pristine.path(), TINY, 60);
    let (bases, log_id) = (bases(pristine.path()), log_id(pristine.path()));
    assert!(bases.len() >= 3);
    for base in bases {
        let bytes = fs::read(segment::path(pristine.path(), base)).unwrap();
        // In every frame its length, its position and its records; what is needed then is the record after it.
        let frames = frames(&bytes, base, log_id).into_iter();
        let within = frames.flat_map(|(start, _, end)| [start + 4, start + 8, start + 29].map(|at| (at, start, end)));
        // And in the header, without which a file is whole, but for that.
        for (at, start, needed) in within.chain([(3, 0, base)]) {
            let damaged = tempfile::tempdir().unwrap();
            copy(pristine.path(), damaged.path());
            let path = segment::path(damaged.path(), base);
            flip(&path, at);
            let before = fs::read(&path).unwrap();
            let open = |needed| EmbeddedLog::open_from(damaged.path(), TINY, needed);
            for lacking in if needed == 0 { vec![0] } else { vec![0, needed - 1] } {
                match open(lacking) {
                    Err(LogError::Corrupt { file, offset, detail }) => {
                        assert_eq!((&file, offset as usize), (&path, start), "{detail}");
                        let says_so = detail.contains("behind the newest snapshot's position");
                        assert_eq!(says_so, 0 < lacking && needed < 60, "{detail}");
                    }
                    Err(error) => panic!("{error}"),
                    Ok(_) => panic!("{} is damaged at {at}, and {lacking} is needed", path.display()),
                }
            }
            assert!(fs::read(&path).unwrap() == before, "damage is not changed while it is reported");
            let mut log = open(needed.max(1)).unwrap();
            expect_from(damaged.path(), &mut log, needed, 60);
            let kept = names(damaged.path()).into_iter().filter(|name| name.ends_with(".quarantined")).count();
            assert!(kept > 0, "what was damaged is kept");
            assert!(fs::read(segment::with_suffix(&path, ".quarantined")).unwrap() == before, "as it was");
            drop(log);
            // From now on it is a log like any other.
            write(damaged.path(), TINY, 66);
            let mut log = EmbeddedLog::open(damaged.path(), TINY).unwrap();
            expect_from(damaged.path(), &mut log, needed, 66);
            log.trim(needed + 1).unwrap();
            assert!(!names(damaged.path()).iter().any(|name| name.ends_with(".quarantined")), "until the next trim");
            drop(log);
            expect_from(damaged.path(), &mut EmbeddedLog::open(damaged.path(), TINY).unwrap(), needed + 1, 66);
        }
    }
}

#[test]
fn damage_behind_a_mark_that_lags_is_passed_over_if_a_snapshot_covers_it() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), TINY, 20);
    let mark = fs::read(directory.path().join("log.mark")).unwrap();
    write(directory.path(), TINY, 60);
    let log_id = EmbeddedLog::open(directory.path(), TINY).unwrap().mark.mark().log_id;
    fs::write(directory.path().join("log.mark"), mark).unwrap();
    let bases = bases(directory.path());
    let base = bases[bases.len() - 2];
    assert!(base > 20, "the mark knows of less");
    let path = segment::path(directory.path(), base);
    let (start, _, needed) = frames(&fs::read(&path).unwrap(), base, log_id)[0];
    flip(&path, start + 29);
    expect_from(directory.path(), &mut EmbeddedLog::open_from(directory.path(), TINY, needed).unwrap(), needed, 60);
    expect_from(directory.path(), &mut EmbeddedLog::open(directory.path(), TINY).unwrap(), needed, 60);
}

#[test]
fn a_lost_beginning_is_passed_over_if_it_is_not_needed() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), TINY, 60);
    let bases = bases(directory.path());
    let first = bases[1];
    fs::remove_file(segment::path(directory.path(), bases[0])).unwrap();
    assert!(matches!(EmbeddedLog::open_from(directory.path(), TINY, first - 1), Err(LogError::Corrupt { .. })));
    expect_from(directory.path(), &mut EmbeddedLog::open_from(directory.path(), TINY, first).unwrap(), first, 60);
    expect_from(directory.path(), &mut EmbeddedLog::open(directory.path(), TINY).unwrap(), first, 60);
}

#[test]
fn a_crash_during_a_quarantine_is_finished_by_the_next_start() {
    let pristine = tempfile::tempdir().unwrap();
    write(pristine.path(), TINY, 60);
    let bases = bases(pristine.path());
    let path = segment::path(pristine.path(), bases[1]);
    let (at, _, end) = frames(&fs::read(&path).unwrap(), bases[1], log_id(pristine.path()))[1];
    flip(&path, at + 29);
    let log = tempfile::tempdir().unwrap();
    copy(pristine.path(), log.path());
    drop(EmbeddedLog::open_from(log.path(), TINY, 60).unwrap());
    let done = EmbeddedLog::open(log.path(), TINY).unwrap().first();
    assert_eq!(done, end);
    assert!(names(log.path()).contains(&format!("{end:020}.log")), "{:?}", names(log.path()));
    // With each of the old files still there, and the new one not yet.
    for again in [&bases[..1], &bases[..2], &bases[1..2]] {
        for made in [true, false] {
            let crashed = tempfile::tempdir().unwrap();
            copy(log.path(), crashed.path());
            for base in again {
                fs::copy(segment::path(pristine.path(), *base), segment::path(crashed.path(), *base)).unwrap();
            }
            if !made && again.contains(&bases[1]) {
                let new = segment::path(crashed.path(), end);
                fs::rename(&new, segment::with_suffix(&new, segment::UNFINISHED)).unwrap();
            }
            let mut log = EmbeddedLog::open_from(crashed.path(), TINY, 60).unwrap();
            expect_from(crashed.path(), &mut log, done, 60);
        }
    }
}

#[test]
fn what_fails_during_a_quarantine_is_told_and_done_by_the_next_start() {
    /// So many operations more before one fails.
    const NEVER: u64 = u64::MAX;
    let path = Path::new("/log");
    // In the middle of the log, and where its end cannot be read either.
    for is_end in [false, true] {
        for failing in 0.. {
            let left = Arc::new(AtomicU64::new(NEVER));
            let counted = left.clone();
            let files = MemoryFileSystem::new(move |_| match counted.fetch_sub(1, Ordering::Relaxed) {
                0 => Err(std::io::Error::from_raw_os_error(5)),
                _ => Ok(()),
            });
            let open = |needed| EmbeddedLog::open_on(files.clone(), path, TINY, needed, 7);
            let mut log = open(0).unwrap();
            for n in 0..40 {
                log.append(&record(n)).unwrap();
                log.sync().unwrap();
            }
            let base = log.segments[if is_end { log.segments.len() - 1 } else { 1 }];
            drop(log);
            let damaged = segment::path(path, base);
            let frames = frames(&files.read(&damaged).unwrap(), base, 7);
            let (at, _, end) = if is_end { frames[frames.len() - 1] } else { frames[1] };
            let file = FileSystem::open(&files, &damaged, Opening::Existing).unwrap();
            file.write_all_at(b"?", at as u64 + 30).unwrap();
            drop(file);
            left.store(failing, Ordering::Relaxed);
            let opened = open(40);
            let has_failed = left.swap(NEVER, Ordering::Relaxed) > failing;
            let Some(error) = opened.as_ref().err() else {
                assert!(!has_failed, "the operation {failing} has failed, and nobody was told");
                assert!(failing > 20, "there are more operations than {failing}");
                break;
            };
            assert!(matches!(error, LogError::Io { .. }), "{failing}: {error}");
            drop(opened);
            expect_from(path, &mut open(40).unwrap(), end, 40);
        }
    }
}

#[test]
fn a_record_that_imitates_a_frame_is_none() {
    // A client's record with the bytes of a later frame, in a write that was torn.
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), SMALL, 10);
    let log_id = log_id(directory.path());
    let imitation = |log_id| {
        let mut pending = Pending::new(12);
        pending.push(b"imitation");
        pending.seal(log_id).to_vec()
    };
    for (guess, opens) in [(log_id.wrapping_add(1), true), (log_id, false)] {
        let torn = tempfile::tempdir().unwrap();
        copy(directory.path(), torn.path());
        let path = last_segment(torn.path());
        let end = end_of_records(&fs::read(&path).unwrap());
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[1; 64], end as u64).unwrap();
        file.write_all_at(&imitation(guess), end as u64 + 64).unwrap();
        assert_eq!(EmbeddedLog::open(torn.path(), SMALL).is_ok(), opens, "only the log's id makes it a frame");
    }
}

#[test]
fn files_of_two_logs_do_not_mix() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(one.path(), TINY, 60);
    write(other.path(), TINY, 60);
    let base = bases(one.path())[1];
    let path = segment::path(one.path(), base);
    fs::copy(segment::path(other.path(), base), &path).unwrap();
    let error = EmbeddedLog::open(one.path(), TINY).err().unwrap();
    assert!(matches!(&error, LogError::Corrupt { file, .. } if *file == path), "{error}");
}

#[test]
fn a_log_that_is_taken_away_acknowledges_nothing_more() {
    let take_away: [fn(&Path); 4] = [
        |log| fs::remove_dir_all(log).unwrap(),
        |log| fs::rename(log, log.with_extension("old")).unwrap(),
        |log| {
            // A copy is not what is written to.
            fs::rename(log, log.with_extension("old")).unwrap();
            fs::create_dir(log).unwrap();
            for name in names(&log.with_extension("old")) {
                fs::copy(log.with_extension("old").join(&name), log.join(&name)).unwrap();
            }
        },
        |log| fs::remove_file(last_segment(log)).unwrap(),
    ];
    for take_away in take_away {
        // In the segment that is written to, and where the next one begins.
        for length in [10, TINY.record_bytes_max()] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            write(&path, TINY, 5);
            let mut log = EmbeddedLog::open(&path, TINY).unwrap();
            take_away(&path);
            let synced = (0..3).map(|_| log.append(&vec![1; length]).and_then(|_| log.sync())).collect::<Vec<_>>();
            assert!(matches!(synced[0], Err(LogError::Removed(_))), "{:?}", synced[0]);
            assert!(synced[1..].iter().all(|synced| matches!(synced, Err(LogError::Failed))), "{synced:?}");
            assert_eq!(log.durable(), 5);
        }
    }
    let files = MemoryFileSystem::default();
    let path = Path::new("/log");
    let mut log = EmbeddedLog::open_on(files.clone(), path, TINY, 0, 7).unwrap();
    log.append(b"there").unwrap();
    log.sync().unwrap();
    files.remove(&segment::path(path, 0)).unwrap();
    log.append(b"nowhere").unwrap();
    assert!(matches!(log.sync(), Err(LogError::Removed(_))));
}

#[test]
fn an_error_of_the_disk_is_final() {
    // The newest segment cannot be written any more, as after an error of the device.
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), SMALL, 5);
    let mut log = EmbeddedLog::open(directory.path(), SMALL).unwrap();
    let path = last_segment(directory.path());
    log.newest.file = Box::new(LocalFile(File::open(&path).unwrap()));
    log.append(b"never durable").unwrap();
    let error = log.sync().unwrap_err();
    assert!(matches!(&error, LogError::Io { path: named, .. } if *named == path), "{error}");
    assert!(matches!(log.append(b"more"), Err(LogError::Failed)));
    assert!(matches!(log.sync(), Err(LogError::Failed)));
    assert_eq!(log.durable(), 5);
    drop(log);
    expect_records(directory.path(), SMALL, 5);
}
