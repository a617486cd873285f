//! What [admission control](styx_driver::admission) knows of the log, shared with all who take requests, and the thread
//! that measures its disk.
//!
//! An append that finds the disk full ends the process. What was taken before a log waited for its brokers waits with it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use styx_driver::admission::LogCondition;
use styx_driver::fullness::Full;
use styx_protocol::catalog::Catalog;
use styx_protocol::ids::OperatorId;
use styx_storage::log::Stall;

use styx_driver::client::Failure;

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
    /// Who gets no more state, and whether that is anybody.
    full_state: ArcSwap<Full>,
    someone_is_full: AtomicBool,
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            full: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            stall: OnceLock::new(),
            free: AtomicU64::new(u64::MAX),
            full_state: ArcSwap::default(),
            someone_is_full: AtomicBool::new(false),
        }
    }
}

impl Admission {
    pub fn condition(&self) -> LogCondition {
        let stalled = self.stalled.load(Ordering::Relaxed) || self.stall.get().is_some_and(Stall::is_stalled);
        LogCondition { full: self.full.load(Ordering::Relaxed), stalled }
    }

    /// Bytes that are free where the log is, if that is a disk of this machine.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Why nothing is taken that only reads, if so.
    pub fn refuses_reads(&self) -> Option<Failure> {
        self.condition().refuses_reads()
    }

    /// Why nothing is taken that may write, if so.
    pub fn refuses_writes(&self) -> Option<Failure> {
        self.condition().refuses_writes()
    }

    /// Who gets no more state.
    pub fn full_state(&self) -> Arc<Full> {
        self.full_state.load_full()
    }

    /// Why nothing is taken that may write, of an operator, for the state that there is.
    pub fn refuses_state(&self, operator: OperatorId, catalog: &ArcSwap<Catalog>) -> Option<Failure> {
        let full = || {
            let catalog = catalog.load();
            let app = catalog.operator(operator).map(|operator| &*operator.app);
            self.full_state.load().refuses(app, &catalog)
        };
        self.someone_is_full.load(Ordering::Relaxed).then(full)?
    }

    /// Shows who gets no more state, and tells people of whom that is new.
    pub(crate) fn show_state(&self, full: Full) {
        let before = self.full_state.load_full();
        if *before == full {
            return;
        }
        if full.all && !before.all {
            tracing::error!(
                code = "STATE_FULL",
                "a worker has as much state as it may, and nothing that may write is taken; delete what is not needed, \
                 add workers, or raise --state-memory"
            );
        }
        for app in full.apps.iter().filter(|app| !before.apps.contains(app)) {
            tracing::warn!(
                code = "APP_STATE_FULL",
                app,
                "the app has as much state as it may, and nothing of it that may write is taken; `styx apps usage` shows \
                 what it has, --app-state is how much it may"
            );
        }
        for app in before.apps.iter().filter(|app| !full.apps.contains(app)) {
            tracing::info!(app, "the app may write again");
        }
        if before.all && !full.all {
            tracing::info!("there is room for state again");
        }
        self.someone_is_full.store(full != Full::default(), Ordering::Relaxed);
        self.full_state.store(Arc::new(full));
    }

    /// Follows this process's own log, which says when it waits.
    pub(crate) fn subscribe(&self, stall: Stall) {
        // A process has one log.
        let _ = self.stall.set(stall);
    }

    /// Shows what somebody else has measured.
    pub(crate) fn show(&self, LogCondition { full, stalled }: LogCondition) {
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
            // A panic has ended the process.
            let _ = thread.join();
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
        let LogCondition { full, .. } = LogCondition::measured(Some(free), self.reserve, false);
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
    space(directory).map(|(free, _)| free)
}

/// Bytes of a file system that this process may still use, and all that it has.
pub(crate) fn space(directory: &Path) -> io::Result<(u64, u64)> {
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    let mut told = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call writes one statvfs, into a local that outlives it.
    let failed = unsafe { libc::statvfs(path.as_ptr(), told.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so that all of it was written.
    let told = unsafe { told.assume_init() };
    Ok((told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let admission = Arc::new(Admission::default());
        assert_eq!((admission.condition(), admission.free()), (LogCondition::default(), None));
        let probe =
            Probe { directory: directory.path().into(), reserve: 1000, admission: admission.clone(), blind: false };
        for (free, writes) in [(999, Some(Failure::DiskFull)), (5000, None)] {
            probe.saw(free);
            assert_eq!((admission.refuses_writes(), admission.free()), (writes, Some(free)));
        }
    }

    #[test]
    fn a_watch_has_looked_when_it_begins() {
        let directory = tempfile::tempdir().unwrap();
        for (reserve, full) in [(0, false), (u64::MAX, true)] {
            let admission = Arc::new(Admission::default());
            let watch = DiskWatch::start(directory.path(), reserve, admission.clone()).unwrap();
            assert_eq!(admission.condition().full, full);
            assert!(admission.free().is_some_and(|free| free > 0));
            drop(watch);
        }
        assert!(DiskWatch::start(&directory.path().join("nowhere"), 0, Arc::default()).is_err());
    }
}
