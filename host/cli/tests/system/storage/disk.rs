//! A disk that a test can fill.

use std::ffi::CString;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Bytes of a file system of the test's own.
const OWN_BYTES: u64 = 1 << 30;

/// Most that is written to fill a disk that others use too, and what they may write or free meanwhile.
const MARGIN_MAX: u64 = 1 << 30;

static ALONE: Mutex<()> = Mutex::new(());

/// A directory on a small file system of its own, where one may be mounted; otherwise on the disk of
/// temporary files, which then counts as full long before it is.
pub struct Disk {
    directory: TempDir,
    mounted: bool,
    /// What one test takes of a disk, another would miss.
    _alone: MutexGuard<'static, ()>,
    margin: u64,
    /// Below this the disk counts as full.
    pub reserve: u64,
}

impl Disk {
    pub fn new() -> Disk {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let (target, kind) = (path(directory.path()), CString::new("tmpfs").unwrap());
        let options = CString::new(format!("size={OWN_BYTES}")).unwrap();
        // SAFETY: all strings end with a zero and outlive the call.
        let mounted = unsafe {
            libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), libc::MS_NOSUID, options.as_ptr().cast()) == 0
        };
        let free = free(directory.path());
        let margin = (free / 8).min(MARGIN_MAX);
        Disk { directory, mounted, _alone: alone, margin, reserve: free - 2 * margin }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Takes so much that less than the reserve is left, until [`Disk::empty`].
    pub fn fill(&self) {
        let file = File::create(self.filler()).unwrap();
        // SAFETY: the file is open.
        let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, (2 * self.margin) as libc::off_t) };
        assert_eq!(failed, 0, "there is room to fill the disk with");
    }

    /// Gives it back.
    pub fn empty(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.directory.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // SAFETY: the string ends with a zero and outlives the call. Processes that still use it keep it.
            unsafe { libc::umount2(path(self.directory.path()).as_ptr(), libc::MNT_DETACH) };
        }
    }
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn free(directory: &Path) -> u64 {
    let mut told = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the call writes one statvfs, into a local that outlives it.
    let told = unsafe {
        assert_eq!(libc::statvfs(path(directory).as_ptr(), told.as_mut_ptr()), 0);
        told.assume_init()
    };
    told.f_bavail * told.f_frsize
}
