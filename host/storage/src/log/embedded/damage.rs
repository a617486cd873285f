//! Bit rot: every bit of a log that is in use, flipped alone, and every length that one of its files
//! may have been cut to. All of it is reported, with file and offset, and nothing is changed; what is
//! not reported has done no harm, as of one of the two marks.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::contract;
use super::format::HEADER;
use super::tests::{TINY, copy, end_of_records, record, write};
use super::{EmbeddedLog, LogError, mark};

/// In several segments.
const RECORDS: u64 = 90;

/// One in so many of the bits that nothing uses is tried: each costs a cut and an fsync.
const UNUSED_STEP: usize = 97;

/// A change to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// This bit has the other value.
    Flip(usize),
    /// It ends here.
    Cut(usize),
}

impl Damage {
    /// The first byte that is not as it was.
    fn at(self) -> usize {
        match self {
            Damage::Flip(bit) => bit / 8,
            Damage::Cut(length) => length,
        }
    }
}

/// A copy of the log, for one thread.
struct Subject {
    directory: tempfile::TempDir,
    expect: Vec<Vec<u8>>,
}

impl Subject {
    fn new(pristine: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        copy(pristine, directory.path());
        Subject { directory, expect: (0..RECORDS).map(record).collect() }
    }

    /// Damages a file, opens the log, and repairs it. True if the damage was reported.
    fn check(&self, name: &Path, pristine: &[u8], damage: Damage) -> bool {
        let path = self.directory.path().join(name);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let mut damaged = pristine.to_vec();
        match damage {
            Damage::Flip(bit) => {
                damaged[bit / 8] ^= 1 << (bit % 8);
                file.write_all_at(&damaged[bit / 8..=bit / 8], (bit / 8) as u64).unwrap();
            }
            Damage::Cut(length) => {
                damaged.truncate(length);
                file.set_len(length as u64).unwrap();
            }
        }
        let of = || format!("{damage:?} of {}", name.display());
        let reported = match EmbeddedLog::open(self.directory.path(), TINY) {
            Ok(mut log) => {
                assert_eq!(contract::records(&mut log), self.expect, "{}", of());
                false
            }
            Err(LogError::Corrupt { file, offset, .. }) => {
                assert_eq!(file, path, "{}: the damaged file is named", of());
                assert!(offset as usize <= damage.at(), "{} is reported at {offset}", of());
                assert_eq!(fs::read(&path).unwrap(), damaged, "{}: damage is reported, not repaired", of());
                true
            }
            Err(other) => panic!("{}: {other}", of()),
        };
        match damage {
            Damage::Flip(bit) if reported => file.write_all_at(&pristine[bit / 8..=bit / 8], (bit / 8) as u64).unwrap(),
            _ => {
                file.write_all_at(pristine, 0).unwrap();
                file.set_len(pristine.len() as u64).unwrap();
            }
        }
        reported
    }
}

/// Offset after the last byte that must be there.
fn in_use(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Tries all damages, on all cores, and says how many were reported.
fn check_all(pristine: &Path, damages: &[(PathBuf, Vec<u8>, Vec<Damage>)]) -> u64 {
    let all: Vec<_> = damages
        .iter()
        .flat_map(|(name, bytes, damages)| damages.iter().map(move |damage| (name, bytes, damage)))
        .collect();
    let reported = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(threads)) {
            scope.spawn(|| {
                let subject = Subject::new(pristine);
                let seen = part.iter().filter(|(name, bytes, damage)| subject.check(name, bytes, **damage)).count();
                reported.fetch_add(seen as u64, Ordering::Relaxed);
            });
        }
    });
    reported.into_inner()
}

/// The files of a log that hold anything.
fn files(pristine: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    write(pristine, TINY, RECORDS);
    let entries = fs::read_dir(pristine).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| (PathBuf::from(path.file_name().unwrap()), fs::read(&path).unwrap()));
    let files: Vec<_> = files.filter(|(_, bytes)| !bytes.is_empty()).collect();
    assert!(files.len() >= 4, "several segments and the mark");
    files
}

#[test]
fn every_flipped_bit_is_reported_or_harmless() {
    let pristine = tempfile::tempdir().unwrap();
    let (mut used, mut unused) = (Vec::new(), Vec::new());
    for (name, bytes) in files(pristine.path()) {
        // Of which there are two.
        if name == Path::new(mark::NAME) {
            continue;
        }
        let end = end_of_records(&bytes) * 8;
        used.push((name.clone(), bytes.clone(), (0..end).map(Damage::Flip).collect::<Vec<_>>()));
        let rest = (end..bytes.len() * 8).step_by(UNUSED_STEP).map(Damage::Flip).collect();
        unused.push((name, bytes, rest));
    }
    let tried: usize = used.iter().map(|(.., damages)| damages.len()).sum();
    assert!(tried >= 100_000, "{tried} bits are in use");
    assert_eq!(check_all(pristine.path(), &used), tried as u64, "every bit that is in use");
    check_all(pristine.path(), &unused);
}

#[test]
fn a_damaged_mark_is_none() {
    let pristine = tempfile::tempdir().unwrap();
    let (name, bytes) =
        files(pristine.path()).into_iter().find(|(name, _)| name == Path::new(mark::NAME)).expect("a log has a mark");
    let places = mark::PLACES.map(|at| at as usize * 8..(at as usize + HEADER) * 8);
    let flips = places.into_iter().flatten().map(Damage::Flip).collect();
    assert_eq!(check_all(pristine.path(), &[(name, bytes, flips)]), 0, "the other one counts");
}

#[test]
fn every_file_that_was_cut_is_reported_or_harmless() {
    let pristine = tempfile::tempdir().unwrap();
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for (name, bytes) in files(pristine.path()) {
        if name == Path::new(mark::NAME) {
            let lengths = (0..bytes.len()).map(Damage::Cut).collect();
            long.push((name, bytes, lengths));
            continue;
        }
        let end = in_use(&bytes);
        short.push((name.clone(), bytes.clone(), (0..end).map(Damage::Cut).collect::<Vec<_>>()));
        let rest = (end..bytes.len()).step_by(UNUSED_STEP).map(Damage::Cut).collect();
        long.push((name, bytes, rest));
    }
    let tried: usize = short.iter().map(|(.., damages)| damages.len()).sum();
    assert!(tried >= 10_000, "{tried} lengths miss something");
    assert_eq!(check_all(pristine.path(), &short), tried as u64, "every length that misses something");
    check_all(pristine.path(), &long);
}
