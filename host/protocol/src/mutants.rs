//! Planted bugs: what the simulator must find, or its silence means nothing.
//!
//! Without the feature `mutants`, [`planted`] is `false` at compile time and leaves no code behind.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[$doc])* $name),+ }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$name),+];
        }
    };
}

bugs! {
    /// Validation overlooks that a range read is stale.
    SkipRangeReads,
    /// Validation overlooks that a write hits a range that a lower TID read.
    SkipRangeReaders,
    /// Validation overlooks that a read is stale.
    IgnoreRaw,
    /// Validation overlooks that a write hits what a lower TID read.
    IgnoreWar,
    /// Validation overlooks that a lower TID writes the same.
    IgnoreWaw,
    /// The cut's record lacks its last request.
    RecordIncomplete,
    /// Those that commit early rank by TID.
    EarlyByTid,
    /// Conflicting transactions commit their writes and fall back as well.
    ConflictsApplied,
    /// In the fallback, reads beyond the locks are no drift.
    DriftedReads,
    /// In the fallback, writes beyond the locks are no drift.
    DriftedWrites,
    /// In the fallback, range reads beyond the locks are no drift.
    DriftedRanges,
    /// In the fallback, other calls than the cached ones are no drift.
    DriftedCalls,
    /// In the fallback, what drifted is seen by its successors.
    DriftSeen,
    /// What drifted commits.
    DriftCommitted,
    /// In the fallback, a predecessor's delete is overlooked by reads.
    OverlayDeletes,
    /// In the fallback, a predecessor's writes are overlooked by scans.
    OverlayScans,
    /// Components connect writers only.
    ComponentsIgnoreReaders,
    /// Components do not connect who scans.
    ComponentsIgnoreRanges,
    /// An aborted transaction's writes are applied.
    AbortedApplied,
    /// A read overlooks the transaction's own write.
    OwnWrites,
    /// A scan overlooks the transaction's own writes.
    OwnScans,
    /// A limited scan has not observed its last entry.
    LimitedScan,
    /// A limited scan in reverse has observed the other end.
    ReverseScan,
    /// A scan of several partitions returns them one after the other.
    UnmergedScan,
    /// Asynchronous calls run last first.
    CallsReversed,
    /// Read-only functions may write.
    ReadOnlyWrites,
    /// A delete leaves the entity in the state hash.
    HashKeepsDeleted,
    /// An overwritten value stays in the state hash.
    HashForgetsOverwrites,
    /// A removed app leaves its state.
    RemovedStateKept,
    /// Rescheduled transactions get new TIDs.
    TidsReassigned,
    /// Rescheduled transactions get the time of their new epoch.
    TimeRenewed,
    /// Logged time follows the clock, even backwards.
    TimeBackwards,
    /// A replay takes a time of its own.
    ReplayTime,
    /// A replay forgets what was rescheduled.
    CarriedForgotten,
    /// A replay forgets requests with a key.
    KeysForgotten,
    /// Requests with a key are not remembered.
    KeysNotNoted,
    /// A duplicate of a request that waits for its epoch is admitted.
    DuplicatesAdmitted,
    /// A duplicate of a request under way is never answered.
    DuplicatesDropped,
    /// Another body under a known key is no error.
    BodiesNotCompared,
    /// Replies do not wait for their epoch to be durable.
    ReplyAtOnce,
    /// Replies wait for the epoch before theirs.
    ReplyEarly,
    /// Replies to duplicates do not wait.
    DuplicateReplyAtOnce,
    /// Receipts do not wait for the request to be durable.
    ReceiptAtOnce,
    /// A duplicate's receipt waits for the next epoch, though the request may wait for a later one.
    ReceiptNextEpoch,
    /// Answers to queries do not wait for what they rest on.
    QueryAtOnce,
    /// Waiting clients get the wrong client's reply.
    RepliesSwapped,
    /// The reply table is never trimmed.
    NeverTrimmed,
    /// The reply table keeps one reply too few.
    TrimmedEarly,
    /// A synchronous call takes an ack share along that its caller keeps as well.
    ShareTwice,
    /// Branches of a graph that met out of their serial order commit as they are.
    OvertakenIgnored,
    /// Of branches that ran side by side, the first failure to be known counts.
    FirstFailureCounts,
    /// Locks of the fallback do not make readers wait.
    LocksIgnoreReaders,
    /// Locks of the fallback do not cover ranges.
    LocksIgnoreRanges,
    /// Locks are released before all workers have confirmed.
    LocksEarly,
    /// Dependencies seen by other workers are overlooked.
    BitsNotMerged,
    /// In the fallback, what other workers report of drift is overlooked.
    DriftAtRootOnly,
    /// Sequencers do not level their counters.
    NotLevelled,
    /// What others rescheduled is missing in the epoch's record.
    CarriedElsewhereForgotten,
    /// A worker's reply does not wait for the record that the coordinator writes.
    DurableAssumed,
    /// A part of a graph whose attempt does not count is validated all the same.
    StalePartsValidated,
    /// A request is dropped when it does not fit into the epoch.
    OverflowDropped,
    /// A link takes what was sent in an earlier generation.
    OldGenerationsHeard,
    /// A link delivers what it has already delivered.
    DeliveredTwice,
    /// A link delivers what overtook something else.
    DeliveredEarly,
    /// A log takes what a replaced coordinator appends.
    FenceIgnored,
    /// What had no room to wait counts as failed.
    RefusalsCount,
    /// What may be due to the past of an instance counts.
    SuspectsBelieved,
    /// Each worker holds a graph to the limits, nobody all of them together.
    LimitsPerWorker,
    /// Another membership starts with counters that others have passed.
    CountersForgotten,
    /// Two snapshots may write the same.
    SnapshotsOverwrite,
    /// A request taken again after it was forgotten is forgotten with the first.
    TakenAgainForgotten,
    /// Two coordinators may begin generations of the same number.
    GenerationShared,
    /// A generation's number is used before it is durable.
    GenerationNotDurable,
    /// A worker follows an invitation that is old, or that it has followed before.
    OldInvitations,
    /// Workers that run something else are members.
    BuildsMixed,
    /// A snapshot lacks what was deleted.
    DeltaWithoutDeletes,
    /// A snapshot holds values of epochs after it.
    DeltaSeesLater,
    /// A snapshot lacks the remembered replies.
    RepliesNotInSnapshot,
    /// A snapshot lacks the rescheduled transactions.
    CarriedNotInSnapshot,
    /// After a restart from a snapshot, TIDs begin again.
    HighestNotRestored,
    /// After a restart from a snapshot, logged time begins again.
    TimeNotRestored,
    /// Whoever restores a snapshot forgets which requests are under way.
    PendingNotRestored,
    /// What changes after a restart from a snapshot is missing in the next one.
    RestoredNotTracked,
    /// A snapshot is noted in the middle of a round.
    SnapshotInRound,
    /// A snapshot says that TIDs are as high as its own membership's counters.
    HighestRounded,
    /// A snapshot keeps replies that were forgotten.
    ForgottenInSnapshot,
    /// A driver writes a snapshot before the log is durable up to it.
    ManifestEarly,
    /// A driver trims the log behind the newest snapshot, not the oldest that is kept.
    TrimmedTooFar,
    /// A driver begins a generation without taking the store of snapshots over from older ones.
    NotTakenOver,
    /// A driver deletes what an older snapshot that is kept still mentions.
    PartsCollected,
    /// A worker's driver restores what other workers remember.
    RepliesOfOthers,
    /// A worker gives back what was cut already.
    CutReturned,
    /// A worker gives back what it keeps.
    ReturnedKept,
    /// A worker begins with what it holds of something else than the snapshot.
    RemainsOfAnother,
}

/// Whether a bug is planted: never, in a product.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(feature = "mutants")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread's machines, or none.
#[cfg(feature = "mutants")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted.
#[cfg(feature = "mutants")]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
