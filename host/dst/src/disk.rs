//! A machine's disk: the storage's own file system in memory, on which everything takes time, fails, and is lost when
//! the power fails before it was synced.

use std::io;
use std::ops::Range;
use std::path::Path;

use styx_protocol::ids::LogPosition;
use styx_storage::files::{FileSystem, MemoryFileSystem, Opening, Operation, OperationKind};
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
/// The file of marks, where they stand in it, and how long one is.
const MARK: &str = "log.mark";
const MARKS: [u64; 2] = [0, 512];
const MARK_BYTES: u64 = 64;
/// How long the headers of files and frames are.
const FILE_HEADER: usize = 64;
const FRAME_HEADER: usize = 24;

/// Records that were synced together, as they stand in a file.
struct Frame {
    file: String,
    bytes: Range<u64>,
    /// Position behind its last record.
    end: u64,
    /// Nothing follows in the file.
    is_last: bool,
}

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

    /// The log, of which records from `needed` on are.
    pub fn open(&self, options: EmbeddedOptions, needed: u64) -> Result<EmbeddedLog, LogError> {
        EmbeddedLog::open_on(self.files.clone(), Path::new(DIRECTORY), options, needed, self.log_id)
    }

    /// Something is damaged while nobody has the log open: a frame whose records all stand before `covered`, or a file of
    /// such frames, or one of the two marks. Gives what, and the position before which records are lost; `None` if there is
    /// nothing of the kind. After a power failure the last frame is spared, which would be taken for torn.
    pub fn damage(&self, covered: LogPosition, power: bool, random: &mut Random) -> Option<(String, LogPosition)> {
        if random.chance(100) {
            let at = random.pick(&MARKS) + random.below(MARK_BYTES);
            return self.alter(MARK, at..at + 1, 1 << random.below(8)).ok().map(|()| (MARK.to_owned(), LogPosition(0)));
        }
        let mut frames = self.frames().ok()?;
        frames.truncate(frames.len().saturating_sub(usize::from(power)));
        frames.retain(|frame| frame.end <= covered.0);
        let last = frames.len().checked_sub(1)?;
        let Frame { file, bytes, end, is_last } = &frames[random.between(0, last as u64) as usize];
        let path = Path::new(DIRECTORY).join(file);
        let done = match random.below(4) {
            0 if *is_last => self.files.remove(&path).and_then(|()| self.files.sync_directory(Path::new(DIRECTORY))),
            1 => self.alter(file, bytes.clone(), 0xFF),
            _ => {
                let at = random.between(bytes.start, bytes.end - 1);
                self.alter(file, at..at + 1, 1 << random.below(8))
            }
        };
        done.ok().map(|()| (format!("{file} at {bytes:?}"), LogPosition(*end)))
    }

    /// All frames of the log, the oldest first; the first of a file with the file's header.
    fn frames(&self) -> io::Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let names = self.files.names(Path::new(DIRECTORY))?;
        for file in names.into_iter().filter(|name| name.ends_with(".log")) {
            let bytes = self.files.read(&Path::new(DIRECTORY).join(&file))?;
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            let (mut start, mut at) = (0, FILE_HEADER);
            while at + FRAME_HEADER <= bytes.len() && number(at + 4) > 0 {
                let position = u64::from(number(at + 12)) << 32 | u64::from(number(at + 8));
                let end = position + u64::from(number(at + 16));
                at += (FRAME_HEADER + number(at + 4) as usize).next_multiple_of(8);
                frames.push(Frame { file: file.clone(), bytes: start..at as u64, end, is_last: false });
                start = at as u64;
            }
            if let Some(last) = frames.last_mut().filter(|frame| frame.file == file) {
                last.is_last = true;
            }
        }
        Ok(frames)
    }

    /// Bits of some bytes of a file are turned, for good.
    fn alter(&self, name: &str, bytes: Range<u64>, bits: u8) -> io::Result<()> {
        let file = self.files.open(&Path::new(DIRECTORY).join(name), Opening::Existing)?;
        let mut altered = vec![0; (bytes.end - bytes.start) as usize];
        file.read_exact_at(&mut altered, bytes.start)?;
        altered.iter_mut().for_each(|byte| *byte ^= bits);
        file.write_all_at(&altered, bytes.start)?;
        file.sync_data()
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
