//! A machine's disk: the storage's own file system in memory, on which everything takes time, fails, and is lost when
//! the power fails before it was synced.

use std::io;
use std::path::Path;

use styx_storage::files::{MemoryFileSystem, Operation, OperationKind};
use styx_storage::log::{EmbeddedLog, EmbeddedOptions, LogError};

use crate::random::Random;
use crate::thread::{Answer, DiskOperation, Wait, is_running, wait};

/// See the module. Clones are the same disk.
#[derive(Clone)]
pub struct Disk {
    files: MemoryFileSystem,
    log_id: u32,
    /// Room that must be left, so that what is under way can be brought to its end.
    reserve: u64,
}

/// Where the log is.
const DIRECTORY: &str = "/log";

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// An empty disk.
    pub fn new(log_id: u32, reserve: u64) -> Self {
        Disk { files: MemoryFileSystem::new(takes_time), log_id, reserve }
    }

    /// Something else takes all the room but for so many bytes; none, if it is gone.
    pub fn leave(&self, bytes: Option<u64>) {
        self.files.set_free(bytes.unwrap_or(u64::MAX));
    }

    pub fn open(&self, options: EmbeddedOptions) -> Result<EmbeddedLog, LogError> {
        EmbeddedLog::open_on(self.files.clone(), Path::new(DIRECTORY), options, 0, self.log_id)
    }

    /// Whether there is no room for what is new.
    pub fn is_nearly_full(&self) -> bool {
        self.files.free() < self.reserve
    }

    /// The process dies; with the power, what was not synced is lost but for a part that chance chooses.
    pub fn crash(&self, power: bool, random: &mut Random) {
        // What a process has written stays, if only the process dies.
        if power {
            self.files.crash(&mut |below| random.below(below));
        }
    }
}

/// A sync takes time; both it and everything else may fail.
fn takes_time(operation: &Operation<'_>) -> io::Result<()> {
    if !is_running() {
        return Ok(());
    }
    let operation = match operation.kind {
        OperationKind::Sync | OperationKind::SyncDirectory => DiskOperation::Sync,
        _ => return Ok(()),
    };
    match wait(Wait::Disk(operation)) {
        Answer::Done => Ok(()),
        _ => Err(io::Error::other("the disk fails")),
    }
}
