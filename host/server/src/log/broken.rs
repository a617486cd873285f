//! A disk that fails, for tests: what the threads that own a log do then is shown by a process that
//! ends.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use styx_protocol::ids::{EngineHash, Generation, SequencerCounter};

use styx_storage::log::{Consumer, EmbeddedLog, EmbeddedOptions, Log, LogError};

/// How the log fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An append fails.
    Append,
    /// A sync fails, and what was to be synced is lost.
    SyncLost,
    /// A sync fails, and nevertheless all of it is on the disk.
    SyncKept,
    /// The disk has no room, in spite of any reserve.
    Full,
    /// A trim fails.
    Trim,
}

impl Fault {
    const ALL: [Fault; 5] = [Fault::Append, Fault::SyncLost, Fault::SyncKept, Fault::Full, Fault::Trim];
}

const DIRECTORY: &str = "STYX_TEST_BROKEN_LOG";
const FAULT: &str = "STYX_TEST_FAULT";

/// A log on real files that fails when its turn has come, and every time after that.
pub(crate) struct BrokenLog {
    log: EmbeddedLog,
    fault: Fault,
    /// Operations of the kind that fails which still succeed.
    left: u32,
}

impl BrokenLog {
    /// The log that the parent of this process has named, unless this process is nobody's child.
    #[expect(clippy::disallowed_methods, reason = "tests tell their child by its environment what is to fail")]
    pub(crate) fn of_parent(left: u32) -> Option<BrokenLog> {
        let directory = PathBuf::from(std::env::var_os(DIRECTORY)?);
        let fault: usize = std::env::var(FAULT).ok()?.parse().ok()?;
        let log = EmbeddedLog::open(&directory, EmbeddedOptions::default()).unwrap();
        Some(BrokenLog { log, fault: Fault::ALL[fault], left })
    }

    /// Whether it is this fault's turn.
    fn fails(&mut self, faults: &[Fault]) -> bool {
        if !faults.contains(&self.fault) {
            return false;
        }
        let fails = self.left == 0;
        self.left = self.left.saturating_sub(1);
        fails
    }

    fn error(&self) -> LogError {
        match self.fault {
            Fault::Full => LogError::FullDisk("the disk".into()),
            _ => LogError::Io { path: "the disk".into(), source: io::Error::other("injected fault") },
        }
    }
}

impl Log for BrokenLog {
    fn append(&mut self, record: &[u8]) -> Result<u64, LogError> {
        if self.fails(&[Fault::Append]) { Err(self.error()) } else { self.log.append(record) }
    }

    fn record_bytes_max(&self) -> usize {
        self.log.record_bytes_max()
    }

    fn sync(&mut self) -> Result<(), LogError> {
        if self.fails(&[Fault::SyncLost, Fault::Full]) {
            return Err(self.error());
        }
        let failed = self.fails(&[Fault::SyncKept]);
        self.log.sync()?;
        if failed { Err(self.error()) } else { Ok(()) }
    }

    fn first(&self) -> u64 {
        self.log.first()
    }

    fn durable(&self) -> u64 {
        self.log.durable()
    }

    fn next(&self) -> u64 {
        self.log.next()
    }

    fn replay(&mut self, from: u64, consumer: &mut Consumer<'_>) -> Result<(), LogError> {
        self.log.replay(from, consumer)
    }

    fn trim(&mut self, until: u64) -> Result<(), LogError> {
        if self.fails(&[Fault::Trim]) { Err(self.error()) } else { self.log.trim(until) }
    }
}

/// Runs the ignored test `child` of this binary, which serves a [`BrokenLog`] and prints
/// `durable N` for everything that it acknowledges, with each fault in turn. The process must end by
/// itself, loudly, and a new one find all that was acknowledged.
pub(crate) fn every_fault_ends_the_process(child: &str, faults: &[Fault]) {
    for fault in faults {
        let directory = tempfile::tempdir().unwrap();
        let number = Fault::ALL.iter().position(|known| known == fault).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .env(FAULT, number.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{fault:?}: {:?} {said}", output.status);
        let reason = if *fault == Fault::Full { "no space left for the log" } else { "injected fault" };
        let fatal =
            said.lines().find(|line| line.starts_with("FATAL: ")).unwrap_or_else(|| panic!("{fault:?}: {said}"));
        assert!(fatal.contains(reason) && fatal.contains("nothing acknowledged is lost"), "{fault:?}: {fatal}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        // The harness writes on the same lines.
        let acknowledged =
            told.split("durable ").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
        let acknowledged: u64 =
            acknowledged.max().unwrap_or_else(|| panic!("{fault:?}: nothing was acknowledged: {told}"));
        is_all_there(directory.path(), *fault, acknowledged);
    }
}

/// Opens the log as a new process would: it goes to `acknowledged` at least, without a gap.
fn is_all_there(directory: &Path, fault: Fault, acknowledged: u64) {
    let mut log = EmbeddedLog::open(directory, EmbeddedOptions::default()).unwrap();
    assert!(log.next() >= acknowledged, "{fault:?}: {acknowledged} were acknowledged, {} are there", log.next());
    let (mut read, first) = (0, log.first());
    log.replay(first, &mut |_, bytes| {
        styx_protocol::record::Record::decode(bytes)?;
        read += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(first + read, log.next());
    // And it takes more.
    log.append(b"more").unwrap();
    log.sync().unwrap();
}

/// A record of an epoch without requests.
pub(crate) fn record(epoch: u64) -> std::sync::Arc<styx_protocol::record::EpochRecord> {
    std::sync::Arc::new(styx_protocol::record::EpochRecord {
        epoch: styx_protocol::ids::Epoch(epoch),
        generation: Generation(1),
        engine: EngineHash(0),
        time: Default::default(),
        sequencers: 1,
        counter: SequencerCounter(0),
        carried: Vec::new(),
        before: Default::default(),
        controls: Vec::new(),
        sequences: Vec::new(),
        outcome: None,
    })
}
