//! A log of JSON lines: what was appended is on disk when the append returns; many share an fsync.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

type Entry = (Vec<u8>, Option<oneshot::Sender<io::Result<()>>>);

/// The log. Cheap to clone.
#[derive(Clone)]
pub(super) struct Journal(mpsc::UnboundedSender<Entry>);

impl Journal {
    /// A new log, written by a thread of its own.
    pub(super) fn create(path: &Path) -> io::Result<Journal> {
        let file = File::options().create(true).append(true).open(path)?;
        let (to, entries) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("journal".into()).spawn(move || write(file, entries))?;
        Ok(Journal(to))
    }

    /// Appends a record; durable when this returns.
    pub(super) async fn append(&self, record: &impl Serialize) -> io::Result<()> {
        let (to, written) = oneshot::channel();
        self.send(record, Some(to))?;
        written.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Appends a record that need not be durable: it can be learned again.
    pub(super) fn note(&self, record: &impl Serialize) -> io::Result<()> {
        self.send(record, None)
    }

    fn send(&self, record: &impl Serialize, waiter: Option<oneshot::Sender<io::Result<()>>>) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.0.send((line, waiter)).map_err(|_| closed())
    }
}

fn closed() -> io::Error {
    io::Error::other("the log is closed")
}

fn write(mut file: File, mut entries: mpsc::UnboundedReceiver<Entry>) {
    let (mut lines, mut waiters) = (Vec::new(), Vec::new());
    while let Some(first) = entries.blocking_recv() {
        let mut next = Some(first);
        while let Some((line, waiter)) = next {
            lines.extend(line);
            waiters.extend(waiter);
            next = entries.try_recv().ok();
        }
        let mut written = file.write_all(&lines);
        if written.is_ok() && !waiters.is_empty() {
            written = file.sync_data();
        }
        for waiter in waiters.drain(..) {
            let result = written.as_ref().copied().map_err(|error| io::Error::new(error.kind(), error.to_string()));
            // A caller that is gone does not mind.
            let _ = waiter.send(result);
        }
        lines.clear();
    }
}
