//! Quarantine of a damaged beginning that nobody needs, because a snapshot covers it.
//!
//! Recovery reads from a snapshot's position on. Damage before it is no reason to end. So the frames that can be read
//! behind the last damage become the log: the segment files after it as they are, and in place of the damaged one a
//! new one with its readable end. Everything before is kept, under names that nobody opens, until the log is trimmed
//! the next time. Where not even the last committed record can be read, and a snapshot is of just that position, the log
//! goes on behind it without any.
//!
//! Each step leaves a directory in which this finds its way again: before the last, damage is still damage, and is met
//! again at the next start.

use std::ops::Range;
use std::path::{Path, PathBuf};

use styx_planted::{Bug, planted};

use super::directory::Directory;
use super::format::{self, HEADER};
use super::mark::{Mark, MarkFile};
use super::segment::{self, UNFINISHED, with_suffix};
use super::{EmbeddedOptions, LogError};
use crate::files::Opening;

/// Suffix of a file in quarantine.
const QUARANTINED: &str = ".quarantined";

/// Frames of a segment that follow one another.
struct Run {
    /// Position of the first record, and the one after the last.
    records: Range<u64>,
    /// Offsets in the segment file.
    bytes: Range<usize>,
    /// The segment file's base.
    base: u64,
}

/// The last damage before the end that can be read.
struct Damage {
    file: PathBuf,
    offset: u64,
    /// True if a part of the file can be read.
    within: bool,
}

/// Moves the beginning of a damaged log away, if all damage lies before the record `needed`.
///
/// # Errors
/// [`LogError::Corrupt`] about damage that does not, or `why`, which opening has found, if nobody asks
/// for a later beginning or it would not help. Nothing was changed.
pub(super) fn quarantine(
    directory: &Directory,
    mark: &mut MarkFile,
    options: EmbeddedOptions,
    needed: u64,
    why: LogError,
) -> Result<(), LogError> {
    let Some((run, damage)) = readable_end(directory, mark.mark())? else {
        // Not even the end can be read. The mark says where it was, and if a snapshot is of just that, nothing is missed.
        return match &why {
            LogError::Corrupt { file, offset, .. } if needed == mark.mark().committed => {
                begin_anew(directory, mark, file, *offset)
            }
            _ => Err(why),
        };
    };
    let (first, known) = (run.records.start, mark.mark().first);
    let before: Vec<_> = directory.segments()?.into_iter().filter(|base| *base < run.base).collect();
    if first > needed && needed > known {
        let detail = "records are damaged behind the newest snapshot's position";
        return Err(LogError::corrupt(&damage.file, damage.offset, detail));
    }
    if first > needed || (first <= known && before.is_empty() && !damage.within) {
        return Err(why);
    }
    tracing::warn!(
        code = "LOG_CORRUPT",
        file = %damage.file.display(),
        offset = damage.offset,
        "the log is damaged before record {first}, and a snapshot covers what was there: it is set aside beside the \
         log until the next snapshot"
    );
    // From here on the records before are not missed. The mark may lag behind the damage: what a snapshot covers was durable.
    let first_kept = if planted(Bug::QuarantineNotMarked) { known } else { first.max(known) };
    mark.write(Mark { first: first_kept, committed: mark.mark().committed.max(first_kept), ..*mark.mark() })?;
    mark.sync()?;
    if damage.within {
        let bytes = keep(directory, run.base)?;
        segment::create(directory, first, mark.mark().log_id, &bytes[run.bytes], options.segment_bytes)?;
        if first != run.base {
            let path = directory.segment(run.base);
            directory.files.remove(&path).map_err(|error| LogError::io(&path, error))?;
        }
    }
    set_aside(directory, before)
}

/// A log that goes on behind its last committed record, of which nothing can be read: without files it is a new one there.
fn begin_anew(directory: &Directory, mark: &mut MarkFile, file: &Path, offset: u64) -> Result<(), LogError> {
    let committed = mark.mark().committed;
    tracing::warn!(
        code = "LOG_CORRUPT",
        file = %file.display(),
        offset,
        "the log is damaged, and a snapshot covers all that was there: it is set aside beside the log until the next \
         snapshot, and the log goes on with record {committed}"
    );
    mark.write(Mark { first: committed, ..*mark.mark() })?;
    mark.sync()?;
    set_aside(directory, directory.segments()?)
}

/// Keeps a copy of a segment file that is to be replaced. Gives what it holds.
fn keep(directory: &Directory, base: u64) -> Result<Vec<u8>, LogError> {
    let path = directory.segment(base);
    let failed = |error| LogError::io(&path, error);
    let bytes = directory.files.read(&path).map_err(failed)?;
    let copy = directory.files.open(&with_suffix(&path, QUARANTINED), Opening::Empty).map_err(failed)?;
    copy.write_all_at(&bytes, 0).and_then(|()| copy.sync_all()).map_err(failed)?;
    Ok(bytes)
}

/// Gives segment files names that nobody opens, the oldest first: what remains after a crash in between hangs together.
fn set_aside(directory: &Directory, bases: Vec<u64>) -> Result<(), LogError> {
    for base in bases {
        let path = directory.segment(base);
        let renamed = directory.files.rename(&path, &with_suffix(&path, QUARANTINED));
        renamed.map_err(|error| LogError::io(&path, error))?;
    }
    directory.sync()
}

/// Deletes the files in quarantine and those that were never finished.
pub(super) fn clear(directory: &Directory) -> Result<(), LogError> {
    let failed = |error| LogError::io(directory.path(), error);
    for name in directory.names()? {
        if [QUARANTINED, UNFINISHED].iter().any(|suffix| name.ends_with(&format!(".log{suffix}"))) {
            directory.files.remove(&directory.path().join(&name)).map_err(failed)?;
        }
    }
    Ok(())
}

/// The longest end of the log that can be read, as the run of its oldest segment, and the damage before it: at least
/// that a file is missing. `None` if it does not reach the last committed record.
fn readable_end(directory: &Directory, mark: &Mark) -> Result<Option<(Run, Damage)>, LogError> {
    let mut end: Option<Run> = None;
    for base in directory.segments()?.into_iter().rev() {
        let path = directory.segment(base);
        let bytes = directory.files.read(&path).map_err(|error| LogError::io(&path, error))?;
        let (run, before) = last_run(&bytes, base, mark.log_id);
        let reaches = match &end {
            Some(later) => run.records.end == later.records.start,
            None => run.records.end >= mark.committed,
        };
        if !reaches {
            let damage = Damage { file: path, offset: run.bytes.end as u64, within: false };
            return Ok(end.map(|end| (end, damage)));
        }
        let header = match segment::Reader::open(directory, base, mark.log_id)?.check_header() {
            // It could not be read, which says nothing of what is there.
            Err(error @ (LogError::Io { .. } | LogError::Removed(_))) => return Err(error),
            checked => checked.is_ok(),
        };
        let whole = header && run.records.start == base && run.bytes.start == HEADER;
        let offset = if header { before as u64 } else { 0 };
        end = Some(run);
        if !whole {
            let damage = Damage { file: path, offset, within: true };
            return Ok(end.map(|end| (end, damage)));
        }
    }
    let damage = Damage { file: directory.path().to_owned(), offset: 0, within: false };
    Ok(end.map(|end| (end, damage)))
}

/// The last run of a segment, and the offset at which the frames before it end.
fn last_run(bytes: &[u8], base: u64, log_id: u32) -> (Run, usize) {
    let mut run = Run { records: base..base, bytes: HEADER..HEADER, base };
    let mut before = HEADER;
    loop {
        let next = run.records.end;
        if let Some((frame, length)) = format::frame_at(bytes, run.bytes.end, next..=next, log_id) {
            run.bytes.end += length;
            run.records.end = frame.end();
            continue;
        }
        let Some((frame, at)) = format::find_frame(bytes, run.bytes.end, next, log_id) else { return (run, before) };
        before = run.bytes.end;
        run = Run { records: frame.position..frame.position, bytes: at..at, base };
    }
}
