//! What can go wrong with a snapshot store, one line each: what is wrong and what to do.

/// Servers answer with pages; their beginning says what is wrong.
const REASON_BYTES_MAX: usize = 400;

/// An error of the snapshot store.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The place cannot be used at all; nothing was written.
    #[error("cannot keep snapshots at {place}: {reason}")]
    Unusable {
        /// The URL as it was given.
        place: String,
        /// What is wrong, and what to do about it.
        reason: String,
    },
    /// The place holds another cluster's snapshots.
    #[error(
        "{place} holds the snapshots of cluster {theirs:032x}, this is cluster {ours:032x}: \
         give this cluster a place of its own, or import theirs into an empty one"
    )]
    OtherCluster {
        /// The URL as it was given.
        place: String,
        /// Who asks.
        ours: u128,
        /// Whose the place is.
        theirs: u128,
    },
    /// An object is not what was written.
    #[error("{object} is damaged at byte {offset}: {what}; restore from an older snapshot or a backup")]
    Damaged {
        /// The object's name in the store.
        object: String,
        /// Where in the object, bytes from its start.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// An object that a manifest mentions is not there.
    #[error("{object} is missing though a manifest mentions it; restore from an older snapshot or a backup")]
    Missing {
        /// The object's name in the store.
        object: String,
    },
    /// There is no such snapshot.
    #[error("there is no snapshot {sequence} in {place}: ask for the list of those that are there")]
    NoSuchSnapshot {
        /// The URL of the store.
        place: String,
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
    /// Somebody else writes snapshots now; this writer must stop.
    #[error(
        "generation {ours} may no longer write snapshots: manifest {sequence} of generation {theirs} is there; \
         stop this process, another one has taken over"
    )]
    Fenced {
        /// The generation of who tried.
        ours: u64,
        /// The generation of who was there first.
        theirs: u64,
        /// Their manifest.
        sequence: u64,
    },
    /// Somebody else has the lease now; this process must stop acting in its name.
    #[error(
        "the lease of generation {ours} is lost to {holder:?}, generation {theirs}: stop this process, or start it again as a standby"
    )]
    LeaseLost {
        /// The generation of who held it.
        ours: u64,
        /// The generation of who has it now.
        theirs: u64,
        /// Who has it now; empty if it was given back.
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
        /// The rule.
        rule: String,
    },
    /// An import was asked into a place that holds snapshots.
    #[error("{place} already holds snapshots: import into an empty place")]
    NotEmpty {
        /// The URL of the store.
        place: String,
    },
    /// The store failed, after retries.
    #[error("cannot {action} {object}: {reason}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The object's name in the store.
        object: String,
        /// The store's answer, on one line.
        reason: String,
    },
    /// Who received the entries of a restore refused them.
    #[error("restoring partition {partition} failed: {source:#}")]
    Sink {
        /// The partition.
        partition: u16,
        /// The receiver's error.
        source: anyhow::Error,
    },
    /// Who waited for background work was told to stop.
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
