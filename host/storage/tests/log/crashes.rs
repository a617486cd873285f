//! The embedded log on a file system that loses what was not synced: whatever is appended, synced and trimmed, and
//! whenever the process is killed or the power fails, what was said to be durable is there, and nothing that was not
//! appended.

use std::collections::VecDeque;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use styx_storage::files::{FileSystem, MemoryFileSystem, Opening, RandomAccessFile};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, Log, LogError};

/// Small, so that a run crosses many segments.
const OPTIONS: EmbeddedOptions = EmbeddedOptions { segment_bytes: 2 << 10, group_bytes_max: 1 << 10 };

const DIRECTORY: &str = "/data/log";

#[derive(Clone, Debug)]
enum Step {
    /// Appends a record of so many bytes.
    Append(usize),
    Sync,
    /// Trims to this percentage of what there is.
    Trim(usize),
    /// Ends the process properly, and starts it again.
    Restart,
    /// Ends it after so many more operations on files, wherever that is; and the next one, which finds that, after so
    /// many of its own.
    End(Vec<(u64, End)>),
}

/// How a process ends that is not asked to.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is killed: what it has written stays, and is as little durable as before.
    Kill,
    /// The power fails: of what was not synced, this seed chooses what stays.
    PowerFailure(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![Just(End::Kill), any::<u64>().prop_map(End::PowerFailure)];
    let step = prop_oneof![
        8 => (0..700_usize).prop_map(Step::Append),
        6 => Just(Step::Sync),
        1 => (0..=100_usize).prop_map(Step::Trim),
        1 => Just(Step::Restart),
        3 => vec((0..40_u64, end), 1..4).prop_map(Step::End),
    ];
    vec(step, 1..60)
}

/// A mistake of a log, or of a disk, that a run must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Names are not synced when a file was renamed.
    NameNotSynced,
    /// The commit is marked before the frame is synced.
    MarkedBeforeSync,
    /// A new file is not synced before it gets its name.
    NamedBeforeSync,
}

/// A file system that makes a mistake.
#[derive(Clone)]
struct Mistaken {
    files: MemoryFileSystem,
    mistake: Mistake,
    /// The segment whose sync was put off.
    put_off: Arc<Mutex<Option<PathBuf>>>,
}

struct MistakenFile {
    path: PathBuf,
    file: Box<dyn RandomAccessFile>,
    on: Mistaken,
}

impl Mistaken {
    fn is(&self, mistake: Mistake, path: &Path, suffix: &str) -> bool {
        self.mistake == mistake && path.to_str().unwrap().ends_with(suffix)
    }
}

impl FileSystem for Mistaken {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.files.create_directory(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.files.names(directory)
    }

    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn RandomAccessFile>> {
        let file = self.files.open(path, opening)?;
        Ok(Box::new(MistakenFile { path: path.to_owned(), file, on: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if self.mistake == Mistake::NameNotSynced { Ok(()) } else { self.files.sync_directory(path) }
    }
}

impl RandomAccessFile for MistakenFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        match self.on.put_off.lock().unwrap().take_if(|_| self.path.ends_with("log.mark")) {
            Some(segment) => self.on.files.open(&segment, Opening::Existing)?.sync_data(),
            None => Ok(()),
        }
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.on.is(Mistake::MarkedBeforeSync, &self.path, ".log") {
            *self.on.put_off.lock().unwrap() = Some(self.path.clone());
            return Ok(());
        }
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        if self.on.is(Mistake::NamedBeforeSync, &self.path, ".new") { Ok(()) } else { self.file.sync_all() }
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// A log and the machine that it runs on, beside what must be in it.
struct Run {
    files: Mistaken,
    process: Arc<Process>,
    /// How it will end, and those after it.
    ends: VecDeque<(u64, End)>,
    log: Option<EmbeddedLog>,
    /// Records appended so far: each has other bytes.
    appended: usize,
    /// All records ever, from number 0; those below `durable` survive.
    all: Vec<Vec<u8>>,
    durable: u64,
    first: u64,
    /// Beginning of the log if a trim that was interrupted is done.
    trimming: u64,
}

/// The process of the log.
struct Process {
    /// Operations on files that it still comes to.
    left: AtomicU64,
    /// Set when it would have done the next one: nothing has an effect from then on.
    ended: AtomicBool,
}

impl Process {
    fn operate(&self) -> io::Result<()> {
        match self.left.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => self.left.store(left, Ordering::Relaxed),
            None => self.ended.store(true, Ordering::Relaxed),
        }
        if self.has_ended() { Err(io::Error::other("the process has ended")) } else { Ok(()) }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Is a new one, which comes to so many operations.
    fn start(&self, left: u64) {
        self.left.store(left, Ordering::Relaxed);
        self.ended.store(false, Ordering::Relaxed);
    }
}

/// A promise that was broken.
type Broken = String;

impl Run {
    fn new(mistake: Mistake) -> Self {
        let process = Arc::new(Process { left: AtomicU64::new(u64::MAX), ended: AtomicBool::new(false) });
        let operating = process.clone();
        let files = MemoryFileSystem::new(move |_| operating.operate());
        let files = Mistaken { files, mistake, put_off: Arc::default() };
        let (ends, all) = (VecDeque::new(), Vec::new());
        Self { files, process, ends, log: None, appended: 0, all, durable: 0, first: 0, trimming: 0 }
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => self.start()?,
        };
        let done = match *step {
            Step::Append(length) => {
                self.appended += 1;
                let record: Vec<_> = (0..length).map(|at| (self.appended * 31 + at) as u8).collect();
                let appended = log.append(&record);
                if let Ok(position) = appended {
                    expect(position == self.all.len() as u64, || format!("{position} was appended"))?;
                    self.all.push(record);
                }
                appended.map(drop)
            }
            Step::Sync => log.sync(),
            Step::Trim(percent) => {
                let until = log.first() + (log.next() - log.first()) * percent as u64 / 100;
                self.trimming = until;
                log.trim(until).inspect(|()| self.first = until)
            }
            Step::Restart => {
                drop(log);
                self.all.truncate(self.durable as usize);
                log = self.start()?;
                Ok(())
            }
            Step::End(ref ends) => {
                self.ends = ends.iter().copied().collect();
                self.process.start(self.ends[0].0);
                Ok(())
            }
        };
        match done {
            Ok(()) => {
                // Whatever it says to be durable may be acknowledged.
                self.durable = log.durable();
                self.log = Some(log);
                let synced = matches!(step, Step::Sync | Step::Trim(_));
                expect(!synced || self.durable == self.all.len() as u64, || "a sync left something".into())
            }
            Err(_) if self.process.has_ended() => {
                drop(log);
                self.log = Some(self.start()?);
                Ok(())
            }
            Err(error) => Err(format!("{step:?}: {error}")),
        }
    }

    /// Starts the process, again if it ends meanwhile, and looks at what is there.
    fn start(&mut self) -> Result<EmbeddedLog, Broken> {
        loop {
            if self.process.has_ended() {
                *self.files.put_off.lock().unwrap() = None;
                if let Some((_, End::PowerFailure(seed))) = self.ends.pop_front() {
                    let mut state = seed;
                    self.files.files.crash(&mut |limit| below(&mut state, limit));
                }
                self.process.start(self.ends.front().map_or(u64::MAX, |(after, _)| *after));
            }
            match self.look() {
                Err(_) if self.process.has_ended() => {}
                found => return found,
            }
        }
    }

    fn look(&mut self) -> Result<EmbeddedLog, Broken> {
        let opened = EmbeddedLog::open_on(self.files.clone(), Path::new(DIRECTORY), OPTIONS, 0, 7);
        let mut log = opened.map_err(|error| error.to_string())?;
        let (first, next) = (log.first(), log.next());
        expect((self.durable..=self.all.len() as u64).contains(&next), || {
            format!("{next} of {} records are there, {} were durable", self.all.len(), self.durable)
        })?;
        expect(first == self.first || first == self.trimming, || format!("it begins with {first}"))?;
        let mut at = first as usize;
        let replayed = log.replay(first, &mut |_, record| {
            anyhow::ensure!(record == self.all[at], "record {at} is another");
            at += 1;
            Ok(())
        });
        replayed.map_err(|error| error.to_string())?;
        expect(at as u64 == next, || format!("{at} of {next} are replayed"))?;
        // What was shown must not go away any more.
        self.all.truncate(at);
        (self.durable, self.first, self.trimming) = (next, first, first);
        Ok(log)
    }
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// The next number of a small generator that is below `limit`.
fn below(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) % limit
}

fn check(steps: &[Step], mistake: Mistake) -> Result<(), TestCaseError> {
    let mut run = Run::new(mistake);
    steps.iter().try_for_each(|step| run.step(step)).map_err(TestCaseError::fail)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new_with_rng(
        Config { cases, failure_persistence: None, ..Config::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    )
}

#[test]
fn what_is_durable_survives_whatever_happens() {
    runner(3000).run(&steps(), |steps| check(&steps, Mistake::None)).unwrap();
}

#[test]
fn a_mistake_is_found() {
    for mistake in [Mistake::NameNotSynced, Mistake::MarkedBeforeSync, Mistake::NamedBeforeSync] {
        let found = runner(3000).run(&steps(), |steps| check(&steps, mistake));
        let Err(TestError::Fail(why, steps)) = found else { panic!("{mistake:?} is not found") };
        println!("{mistake:?}: {why}, after {steps:?}");
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_synced() {
    let files = MemoryFileSystem::default();
    files.set_free(5 * OPTIONS.segment_bytes);
    let open = || EmbeddedLog::open_on(files.clone(), Path::new(DIRECTORY), OPTIONS, 0, 7).unwrap();
    let (mut log, mut synced) = (open(), 0);
    let error = loop {
        log.append(&[1; 300]).unwrap();
        match log.sync() {
            Ok(()) => synced += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::FullDisk(_)) && synced > 10, "{error} after {synced}");
    assert!(matches!(log.append(b"more"), Err(LogError::Failed)));
    drop(log);
    // It can be read, and what a snapshot covers can be trimmed, without more space.
    let mut log = open();
    assert_eq!(log.next(), synced);
    log.trim(synced - 1).unwrap();
    log.append(&[2; 300]).unwrap();
    log.sync().unwrap();
    assert_eq!((log.first(), log.next()), (synced - 1, synced + 1));
}
