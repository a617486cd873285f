//! Closes files of which the name is gone, on a thread of its own.
//!
//! Closing the last handle of such a file has the file system free its blocks and its pages: 20 ms for 64 MiB that are
//! in memory. A log that gave up a dozen segments after a snapshot would commit nothing for a quarter of a second.

use std::fs::File;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

/// What a file takes is followed by so many times that of rest, so that others have the processor, too.
const REST: u32 = 3;

/// Closes the file soon, without a wait for it.
pub(super) fn close(file: File) {
    static FILES: OnceLock<Option<Sender<File>>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let (files, closed) = channel();
        thread::Builder::new().name("styx-closing".into()).spawn(move || close_all(&closed)).ok().map(|_| files)
    });
    // Without a thread it is closed here, where it is dropped.
    if let Some(files) = files {
        let _ = files.send(file);
    }
}

#[allow(clippy::disallowed_methods)] // how long it took decides nothing but when the next one is closed
fn close_all(files: &Receiver<File>) {
    for file in files {
        let begin = Instant::now();
        drop(file);
        thread::sleep(begin.elapsed() * REST);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use crate::files::{FileSystem, LocalFileSystem};

    #[test]
    fn a_file_that_was_removed_is_closed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        LocalFileSystem.remove(&path).unwrap();
        assert!(!path.exists(), "its name is gone at once");
        let is_open = || {
            fs::read_dir("/proc/self/fd")
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| fs::read_link(entry.path()).ok())
                .any(|file| file.to_string_lossy().starts_with(&*path.to_string_lossy()))
        };
        for _ in 0..500 {
            if !is_open() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nobody closed it");
    }
}
