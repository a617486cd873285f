//! Who has changed what through this process's admin port, the last of them. The audit log itself is the server's.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use utoipa::ToSchema;

/// Changes that are kept.
const ENTRIES_MAX: usize = 1000;
/// Bytes that are kept of a path.
const PATH_MAX: usize = 512;

/// A request that was to change something.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AuditEntry {
    /// µs since 1970.
    pub time_us: u64,
    /// Name of the token; `nobody` if none was shown that is known.
    pub identity: String,
    /// The address that it came from.
    pub from: Option<String>,
    pub method: String,
    pub path: String,
    pub app: Option<String>,
    /// HTTP status of the answer.
    pub status: u16,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Audit(Mutex<VecDeque<AuditEntry>>);

impl Audit {
    pub fn push(&self, mut entry: AuditEntry) {
        entry.path.truncate(entry.path.floor_char_boundary(PATH_MAX));
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// The newest first.
    pub fn newest(&self) -> Vec<AuditEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let audit = Audit::default();
        for status in 0..ENTRIES_MAX as u16 + 5 {
            audit.push(AuditEntry {
                time_us: 1,
                identity: "me".into(),
                from: None,
                method: "POST".into(),
                path: "ü".repeat(PATH_MAX),
                app: None,
                status,
            });
        }
        let newest = audit.newest();
        assert_eq!((newest.len(), newest[0].status), (ENTRIES_MAX, ENTRIES_MAX as u16 + 4));
        assert!(newest[0].path.len() <= PATH_MAX);
    }
}
