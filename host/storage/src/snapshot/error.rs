//! Errors of the snapshot store, one line each: the problem and the remedy.

/// Servers answer with pages; their beginning says what is wrong.
const REASON_BYTES_MAX: usize = 400;

/// An error of the snapshot store.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The location cannot be used at all; nothing was written.
    #[error("cannot keep snapshots at {location}: {reason}")]
    Unusable {
        /// The URL as it was given.
        location: String,
        /// The problem and the remedy.
        reason: String,
    },
    /// The location holds another cluster's snapshots.
    #[error(
        "{location} holds the snapshots of cluster {theirs:032x}, this is cluster {ours:032x}: \
         give this cluster a place of its own, or import theirs into an empty one"
    )]
    OtherCluster {
        /// The URL as it was given.
        location: String,
        /// The cluster that asks.
        ours: u128,
        theirs: u128,
    },
    /// An object is not what was written.
    #[error("{object} is damaged at byte {offset}: {what}; restore from an older snapshot or a backup")]
    Damaged {
        /// The object's name in the store.
        object: String,
        /// Bytes from the object's start.
        offset: u64,
        what: String,
    },
    /// An object that a manifest mentions is not there.
    #[error("{object} is missing though a manifest mentions it; restore from an older snapshot or a backup")]
    Missing {
        /// The object's name in the store.
        object: String,
    },
    #[error("there is no snapshot {sequence} in {location}: ask for the list of those that are there")]
    NoSuchSnapshot {
        /// The URL of the store.
        location: String,
        /// The manifest asked for.
        sequence: u64,
    },
    /// An object was written by a later version of Styx.
    #[error("{object} has format {found}, this version of Styx reads up to {known}: use a newer version")]
    NewerFormat {
        /// The object's name in the store.
        object: String,
        /// Its format's version.
        found: u16,
        /// The highest version that this program reads.
        known: u16,
    },
    /// A writer of a higher generation has taken over; this one must stop.
    #[error(
        "generation {ours} may no longer write snapshots: manifest {sequence} of generation {theirs} is there; \
         stop this process, another one has taken over"
    )]
    Fenced {
        /// Generation of this writer.
        ours: u64,
        /// Generation of the other writer.
        theirs: u64,
        sequence: u64,
    },
    /// Another process has the lease now; this one must stop acting in its name.
    #[error(
        "the lease of generation {ours} is lost to {holder:?}, generation {theirs}: stop this process, or start it again as a standby"
    )]
    LeaseLost {
        /// Generation of this process.
        ours: u64,
        /// Generation of the holder now.
        theirs: u64,
        /// The holder now; empty if it was given back.
        holder: String,
    },
    /// A snapshot does not fit onto the one before it.
    #[error("this snapshot does not fit: {0}; take a whole one (a base of every partition)")]
    Unfit(String),
    /// The caller broke a rule of the interface.
    #[error("{object}: {rule}")]
    Misuse {
        /// The object that was to be written.
        object: String,
        rule: String,
    },
    /// An import was asked into a place that holds snapshots.
    #[error("{location} already holds snapshots: import into an empty place")]
    NotEmpty {
        /// The URL of the store.
        location: String,
    },
    /// The store failed, after retries.
    #[error("cannot {action} {object}: {reason}")]
    Store {
        action: &'static str,
        /// The object's name in the store.
        object: String,
        /// The store's answer, on one line.
        reason: String,
    },
    /// The receiver of a restore refused entries.
    #[error("restoring partition {partition} failed: {source:#}")]
    Sink {
        partition: u16,
        /// The receiver's error.
        source: anyhow::Error,
    },
    /// The caller was told to stop while it waited for background work.
    #[error("stopped before the end: nothing was changed")]
    Stopped,
}

impl SnapshotError {
    /// True if the stored bytes are at fault, so that an older snapshot may help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Missing { .. })
    }

    pub(crate) fn damaged(object: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { object: object.to_owned(), offset, what: what.into() }
    }

    /// Compares the size that the store tells of `object` with the one that it should have.
    pub(crate) fn check_size(object: &str, size: u64, expected: u64) -> Result<(), Self> {
        if size == expected {
            return Ok(());
        }
        Err(Self::damaged(object, size.min(expected), format!("it has {size} bytes instead of {expected}")))
    }

    /// An error of the store about `object`.
    pub(crate) fn store(action: &'static str, object: &str, error: &dyn std::error::Error) -> Self {
        Self::Store { action, object: object.to_owned(), reason: one_line(error) }
    }
}

/// The error and its causes on one line. What wraps a cause often repeats it, and answers' bodies have many lines.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    let mut flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.len() > REASON_BYTES_MAX {
        flat.truncate(flat.floor_char_boundary(REASON_BYTES_MAX));
        flat.push('…');
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Caused {
        text: String,
        source: Option<Box<Caused>>,
    }

    fn said(texts: &[&str]) -> String {
        let caused =
            texts.iter().rev().fold(None, |source, text| Some(Box::new(Caused { text: (*text).into(), source })));
        one_line(&*caused.unwrap())
    }

    #[test]
    fn an_error_and_its_causes_are_one_line_that_says_each_thing_once() {
        assert_eq!(said(&["a", "b", "c"]), "a: b: c");
        assert_eq!(said(&["a: b", "b", "c"]), "a: b: c");
        assert_eq!(said(&["a\n  page", "b\tc"]), "a page: b c");
        assert_eq!(said(&[&"x".repeat(REASON_BYTES_MAX)]), "x".repeat(REASON_BYTES_MAX));
        let cut = said(&[&format!("{}ä", "x".repeat(REASON_BYTES_MAX - 1))]);
        assert_eq!(cut, format!("{}…", "x".repeat(REASON_BYTES_MAX - 1)));
    }

    #[test]
    fn only_bytes_that_are_not_as_they_were_written_are_damage() {
        assert!(SnapshotError::damaged("o", 3, "x").is_damage());
        assert!(SnapshotError::Missing { object: "o".into() }.is_damage());
        assert!(!SnapshotError::Stopped.is_damage());
        assert!(!SnapshotError::NewerFormat { object: "o".into(), found: 2, known: 1 }.is_damage());
    }
}
