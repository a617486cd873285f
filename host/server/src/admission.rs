//! Admission control: refuses new work while the log could not take what it appends.
//!
//! A disk must still have the reserve that lets what is under way come to its end. Below it new work
//! is refused while there is still something to refuse it with; an append that finds the disk full
//! ends the process. A log on Kafka must not wait for its brokers: what was cut last is not durable
//! then and no reply may be given, not even to who reads it. What was taken before waits with it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use styx_storage::log::Stall;

use crate::handle::Failure;

/// Pause between two measurements of the disk. What can be appended meanwhile has to fit into the reserve.
const PAUSE: Duration = Duration::from_millis(250);

/// The log's condition as everybody sees it who takes requests. In a gateway, it is as the coordinator says.
#[derive(Debug)]
pub struct Admission {
    full: AtomicBool,
    /// Somebody else's log waits.
    stalled: AtomicBool,
    /// Whether this process's does.
    stall: OnceLock<Stall>,
    /// Bytes; `u64::MAX` where nobody looks.
    free: AtomicU64,
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            full: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            stall: OnceLock::new(),
            free: AtomicU64::new(u64::MAX),
        }
    }
}

impl Admission {
    /// Whether the log's disk has none for new work.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Bytes that are free where the log is, if that is a disk of this machine.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Whether the log waits for who keeps it.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) || self.stall.get().is_some_and(Stall::is_stalled)
    }

    /// Why nothing is taken that only reads, if so.
    pub fn refuses_reads(&self) -> Option<Failure> {
        self.is_stalled().then_some(Failure::LogStalled)
    }

    /// Why nothing is taken that may write, if so.
    pub fn refuses_writes(&self) -> Option<Failure> {
        self.refuses_reads().or_else(|| self.is_full().then_some(Failure::DiskFull))
    }

    /// Follows this process's own log, which says when it waits.
    pub(crate) fn subscribe(&self, stall: Stall) {
        drop(self.stall.set(stall));
    }

    /// Shows what somebody else has measured.
    pub(crate) fn show(&self, full: bool, stalled: bool) {
        self.full.store(full, Ordering::Relaxed);
        self.stalled.store(stalled, Ordering::Relaxed);
    }
}

/// Disk watch: measures a disk's free space for as long as it lives.
#[derive(Debug)]
pub struct DiskWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DiskWatch {
    /// Shows in `admission` from now on whether the disk of `directory` has `reserve` bytes left. It has
    /// looked once when this returns.
    ///
    /// # Errors
    /// The directory's file system cannot be looked at, or the thread cannot be started.
    pub fn start(directory: &Path, reserve: u64, admission: Arc<Admission>) -> io::Result<DiskWatch> {
        let mut probe = Probe { directory: directory.to_owned(), reserve, admission, blind: false };
        probe.saw(free_bytes(directory)?);
        let (stop, stopped) = bounded(0);
        let thread = std::thread::Builder::new().name("styx-disk".into()).spawn(move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                probe.measure();
            }
        })?;
        Ok(DiskWatch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Probe {
    directory: PathBuf,
    reserve: u64,
    admission: Arc<Admission>,
    /// The last look failed.
    blind: bool,
}

impl Probe {
    fn measure(&mut self) {
        match free_bytes(&self.directory) {
            Ok(free) => {
                self.blind = false;
                self.saw(free);
            }
            // What was seen last stands.
            Err(error) if !self.blind => {
                self.blind = true;
                tracing::warn!(directory = %self.directory.display(), "free space cannot be read: {error}");
            }
            Err(_) => {}
        }
    }

    fn saw(&self, free: u64) {
        self.admission.free.store(free, Ordering::Relaxed);
        let full = free < self.reserve;
        if self.admission.full.swap(full, Ordering::Relaxed) == full {
            return;
        }
        let (directory, reserve) = (self.directory.display(), self.reserve);
        if full {
            tracing::error!(
                code = "DISK_FULL",
                %directory,
                free,
                reserve,
                "the disk of the log is nearly full, and nothing that may write is taken; free some space, or lower \
                 --disk-reserve"
            )
        } else {
            tracing::info!(%directory, free, reserve, "the disk of the log has room again")
        }
    }
}

/// Bytes of a file system that this process may still use.
fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    let mut told = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call writes one statvfs, into a local that outlives it.
    let failed = unsafe { libc::statvfs(path.as_ptr(), told.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so that all of it was written.
    let told = unsafe { told.assume_init() };
    Ok(told.f_bavail * told.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_ends_at_the_reserve_and_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let admission = Arc::new(Admission::default());
        assert_eq!((admission.is_full(), admission.free()), (false, None));
        let probe =
            Probe { directory: directory.path().into(), reserve: 1000, admission: admission.clone(), blind: false };
        for (free, full) in [(1000, false), (999, true), (0, true), (5000, false)] {
            probe.saw(free);
            assert_eq!((admission.is_full(), admission.free()), (full, Some(free)));
        }
    }

    #[test]
    fn a_log_that_waits_refuses_all_and_a_full_disk_what_may_write() {
        let admission = Admission::default();
        for (full, stalled, reads, writes) in [
            (false, false, None, None),
            (true, false, None, Some(Failure::DiskFull)),
            (false, true, Some(Failure::LogStalled), Some(Failure::LogStalled)),
            (true, true, Some(Failure::LogStalled), Some(Failure::LogStalled)),
        ] {
            admission.show(full, stalled);
            assert_eq!((admission.refuses_reads(), admission.refuses_writes()), (reads, writes));
        }
    }

    #[test]
    fn a_watch_has_looked_when_it_begins() {
        let directory = tempfile::tempdir().unwrap();
        for (reserve, full) in [(0, false), (u64::MAX, true)] {
            let admission = Arc::new(Admission::default());
            let watch = DiskWatch::start(directory.path(), reserve, admission.clone()).unwrap();
            assert_eq!(admission.is_full(), full);
            assert!(admission.free().is_some_and(|free| free > 0));
            drop(watch);
        }
        assert!(DiskWatch::start(&directory.path().join("nowhere"), 0, Arc::default()).is_err());
    }
}
