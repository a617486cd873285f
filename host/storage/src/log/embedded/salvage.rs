//! A damaged beginning that nobody needs: passed over, if a snapshot says so.
//!
//! Recovery reads from a snapshot's position on. Damage before it is no reason to end; but the
//! storage, which opens all or nothing, must not meet it. So what can be read behind the last damage
//! becomes a log of its own: the segment files after it as they are, and in place of the damaged one
//! a new one with its readable end, the bytes as they were. What lies before is *set aside*, under
//! names that nobody opens, until the log is trimmed the next time.
//!
//! Each step leaves a directory in which this finds its way again: before the last, damage is still
//! damage, and is met again at the next start.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::mark::{Mark, MarkFile};
use super::segment::{self, HEADER, RECORD_HEADER};
use super::{EmbeddedOptions, LogError, group};

/// What the name of a file that was set aside ends with.
const ASIDE: &str = ".aside";
/// What the name of a segment file that is being made ends with.
const UNFINISHED: &str = ".new";

/// Where what can be read begins.
struct Start {
    /// The first group's number and the number after the last of its segment.
    groups: Range<u64>,
    /// Where they lie in the segment file.
    bytes: Range<usize>,
    /// The segment file's number.
    base: u64,
}

/// The last damage before what can be read.
struct Damage {
    file: PathBuf,
    offset: u64,
    /// Whether a part of the file can be read.
    within: bool,
}

/// Sets the beginning of a damaged log aside, if all damage lies before the record `needed`.
///
/// # Errors
/// [`LogError::Corrupt`] about damage that does not, or `why`, which opening has found, if nobody asks
/// for a later beginning or it would not help. Nothing was changed.
pub(super) fn set_aside(
    directory: &Path,
    mark: &mut MarkFile,
    options: EmbeddedOptions,
    needed: u64,
    why: LogError,
) -> Result<(), LogError> {
    let Some((start, damage)) = find(directory, mark.mark(), options)? else { return Err(why) };
    let failed = |error| LogError::io(directory, error);
    let path = segment::path(directory, start.base);
    let bytes = fs::read(&path).map_err(failed)?;
    let first = match &bytes[start.bytes.clone()] {
        [] => mark.mark().committed,
        records => match group::decode(segment::payload(records)) {
            Some((first, _)) => first,
            None => return Err(why),
        },
    };
    let known = mark.mark().first;
    let before: Vec<_> = segment::bases(directory)?.into_iter().filter(|base| *base < start.base).collect();
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
    // From here on the records before are not missed.
    mark.write(Mark { first: first.max(known), ..*mark.mark() })?;
    mark.sync()?;
    if damage.within {
        let aside = aside(&path);
        fs::copy(&path, &aside).and_then(|_| File::open(&aside)?.sync_all()).map_err(failed)?;
        let new = segment::path(directory, start.groups.start);
        let unfinished = with_end(&new, UNFINISHED);
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(&segment::header(start.groups.start))?;
            file.write_all(&bytes[start.bytes.clone()])?;
            file.set_len(options.segment_bytes)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&unfinished, &new)).and_then(|()| sync(directory)).map_err(failed)?;
        if new != path {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    // The oldest first: what remains after a crash in between hangs together.
    for base in before {
        let path = segment::path(directory, base);
        fs::rename(&path, aside(&path)).map_err(failed)?;
    }
    sync(directory).map_err(failed)
}

/// Deletes what was set aside.
pub(super) fn forget(directory: &Path) -> Result<(), LogError> {
    let failed = |error| LogError::io(directory, error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(&format!(".wal{ASIDE}")) || name.ends_with(&format!(".wal{UNFINISHED}")) {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

/// The longest end of the log that can be read, and what is wrong before it: at least that it is not
/// there. `None` if it does not reach to what was committed.
fn find(directory: &Path, mark: &Mark, options: EmbeddedOptions) -> Result<Option<(Start, Damage)>, LogError> {
    let mut start: Option<Start> = None;
    for base in segment::bases(directory)?.into_iter().rev() {
        let path = segment::path(directory, base);
        let bytes = fs::read(&path).map_err(|error| LogError::io(&path, error))?;
        let whole = segment::check_header(directory, base).is_ok();
        let (run, before) = last_run(&bytes, base, options);
        let reaches = match &start {
            Some(later) => run.groups.end == later.groups.start,
            None => run.groups.end > mark.lsn,
        };
        let offset = if whole { before as u64 } else { 0 };
        if !reaches {
            let damage = Damage { file: path, offset: run.bytes.end as u64, within: false };
            return Ok(start.map(|start| (start, damage)));
        }
        let begins = run.groups.start == base && run.bytes.start == HEADER;
        start = Some(Start { base, ..run });
        if !whole || !begins {
            let damage = Damage { file: path, offset, within: true };
            return Ok(start.map(|start| (start, damage)));
        }
    }
    let damage = Damage { file: directory.to_owned(), offset: 0, within: false };
    Ok(start.map(|start| (start, damage)))
}

/// The last groups of a segment that follow one another, and where those before them end.
fn last_run(bytes: &[u8], base: u64, options: EmbeddedOptions) -> (Start, usize) {
    let mut run = Start { groups: base..base, bytes: HEADER..HEADER, base };
    let mut before = HEADER;
    loop {
        while let Some(framed) =
            segment::record_at(bytes, run.bytes.end, run.groups.end..=run.groups.end, options.group_bytes_max)
        {
            run.bytes.end += framed;
            run.groups.end += 1;
        }
        // No record is shorter than its header, so that no later number can stand there.
        let most = run.groups.end + (bytes.len() / RECORD_HEADER) as u64;
        let mut behind = (run.bytes.end + segment::RECORD_ALIGNMENT..bytes.len()).step_by(segment::RECORD_ALIGNMENT);
        let next = behind.find_map(|at| {
            segment::record_at(bytes, at, run.groups.end + 1..=most, options.group_bytes_max)?;
            Some((at, segment::number(&bytes[at..])))
        });
        let Some((at, number)) = next else { return (run, before) };
        before = run.bytes.end;
        run = Start { groups: number..number, bytes: at..at, base };
    }
}

fn aside(path: &Path) -> PathBuf {
    with_end(path, ASIDE)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Makes names durable.
fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}
