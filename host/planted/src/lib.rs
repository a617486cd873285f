//! Planted bugs: each breaks one promise. The simulator must find all of them, or its silence means nothing.
//!
//! To plant one: name the promise here, break it at one place with `planted(Bug::Name)`, and run `just mutants`.
//! Where debug assertions are compiled out, as in a product, [`planted`] is `false` at compile time and leaves no code behind.

macro_rules! bugs {
    ($($(#[doc = $promise:literal])* $name:ident,)+) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug { $($(#[doc = $promise])* $name,)+ }

        impl Bug {
            /// Every bug that can be planted.
            pub const ALL: &[Bug] = &[$(Bug::$name,)+];

            /// The promise that it breaks, and how.
            pub const fn promise(self) -> &'static str {
                match self { $(Bug::$name => concat!($($promise),*),)+ }
            }

            /// The bug of a name.
            pub fn named(name: &str) -> Option<Bug> {
                Bug::ALL.iter().copied().find(|bug| format!("{bug:?}") == name)
            }
        }
    };
}

bugs! {
    // Long transactions.
    /// A long transaction commits only if all that it has read is still what is committed when it ends. Planted: a
    /// write to what it has read goes unnoticed.
    LongReadsStale,
    /// The same holds for ranges. Planted: a write into a range that it has scanned goes unnoticed.
    LongScansStale,
    /// A long query reads what one epoch has left behind. Planted: it reads what is committed at the moment.
    LongQueriesTorn,
    /// A long transaction that was begun again twice is overtaken by nobody younger. Planted: it holds nobody back.
    LongHoldsNobody,
    /// Every worker says whether what a long transaction has read there still counts. Planted: only its own worker's
    /// reads count.
    LongJoinsUnchecked,
    /// All workers hold back whoever would write what a long transaction has read on one of them. Planted: that worker
    /// alone does.
    LongHolderUntold,
    /// What waits for the end of a long transaction, and the long one itself, is in the log until it ends. Planted: a
    /// recovery forgets what the next epoch does not take.
    LongForgotten,
    // Sequencing and the log.
    /// All that an epoch wrote is in its record. Planted: what its fallback wrote is not.
    FallbackUnlogged,
    /// What all workers changed is in the record of an epoch. Planted: what one worker says takes the place of what
    /// another said.
    ChangesOfOneWorker,
    /// What an epoch executes is in its record. Planted: the record of a cut lacks its last request.
    RecordIncomplete,
    /// A transaction that arrives later than another has ended gets a higher TID: sequencers level their counters
    /// at every epoch. Planted: they do not.
    NotLevelled,
    /// A rescheduled transaction keeps its TID, so that it grows older and ends. Planted: it gets a new one in the
    /// next epoch.
    TidsReassigned,
    /// A rescheduled transaction is executed in the epoch to which it was carried, also after a recovery between the
    /// two. Planted: a recovery forgets it.
    CarriedForgotten,
    /// A coordinator that has been replaced can append nothing more. Planted: the log takes what it appends.
    FenceIgnored,
    /// The number of a generation is durable before it is used: no two generations share one. Planted: it is used
    /// at once.
    GenerationNotDurable,
    // Validation and commit.
    /// A transaction commits only if it comes after all that it did not see in one serial order. Planted:
    /// validation overlooks that a read is stale.
    IgnoreRaw,
    /// A range read conflicts with every write into the range, of entities that did not exist too. Planted:
    /// validation overlooks ranges that were read.
    SkipRangeReads,
    /// The ranks that are reported are a serial order that explains every result. Planted: transactions that commit
    /// early are ranked by TID, not by what they saw.
    EarlyByTid,
    /// Of two transactions with snapshot isolation that write the same entity, one commits. Planted: both do.
    SnapshotsOverwrite,
    /// An aborted transaction leaves no trace. Planted: its writes are applied.
    AbortedApplied,
    /// A dependency that any worker sees counts for the whole transaction. Planted: the coordinator overlooks what
    /// other workers than the root's see.
    BitsNotMerged,
    /// A call graph is complete exactly when its ack shares add up to one. Planted: a synchronous call takes a
    /// share along that its caller keeps as well.
    ShareTwice,
    /// Functions of a transaction take effect in its serial order, wherever its asynchronous calls run. Planted:
    /// calls that met out of that order commit as they are.
    OvertakenIgnored,
    /// Which of several failing branches decides the outcome does not depend on which is known first. Planted: the first
    /// one that is known decides.
    FirstFailureCounts,
    /// A transaction's limits hold for all its functions together, on all workers. Planted: each worker compares
    /// its own part with them.
    LimitsPerWorker,
    // Fallback.
    /// In the fallback a transaction accesses only what it has locked; otherwise it has drifted and is rescheduled.
    /// Planted: reads beyond the locks are no drift.
    DriftedReads,
    /// Drift is checked by all participants. Planted: drift on another worker than the root's is overlooked.
    DriftAtRootOnly,
    /// In the fallback a transaction sees what its predecessors wrote, and deletes are writes. Planted: it sees
    /// what they deleted.
    OverlayDeletes,
    /// Transactions that the fallback executes in parallel touch nothing in common. Planted: writers alone are kept
    /// together, readers of what they write are not.
    ComponentsIgnoreReaders,
    /// Locks cover the ranges that a transaction read. Planted: they cover entities only.
    LocksIgnoreRanges,
    /// Locks are released when all participants have confirmed. Planted: they are released when the root has ended.
    LocksEarly,
    // Execution.
    /// A transaction reads its own writes. Planted: it reads the state before them.
    OwnWrites,
    /// A scan with a limit has read up to its last entry, and no further. Planted: it has not read that last entry.
    LimitedScan,
    /// A function that is declared read-only cannot write. Planted: it can.
    ReadOnlyWrites,
    /// A result that may be due to the past of an instance counts only once a fresh instance has confirmed it.
    /// Planted: it counts at once.
    UnconfirmedCounted,
    // Replies, exactly once.
    /// A client is told what is durable, nothing else. Planted: replies go out one epoch early.
    ReplyEarly,
    /// A worker's replies wait until the coordinator's record is durable. Planted: they wait on a machine that
    /// holds the log, and nowhere else.
    DurableAssumed,
    /// A query is answered when all that it may have read is durable. Planted: its answer waits for nothing.
    QueryAtOnce,
    /// A request is executed once, however often it is sent. Planted: one that waits for its epoch is admitted
    /// again.
    DuplicatesAdmitted,
    /// A key of idempotency belongs to one request: the same key with another body is an error. Planted: it is
    /// answered with the reply to the first.
    BodiesNotCompared,
    /// Remembered replies are a function of the log: a replay remembers the same. Planted: a replay forgets
    /// requests with a key.
    KeysForgotten,
    // Messages and membership.
    /// Messages of an earlier generation are dropped. Planted: a link delivers them, and a worker takes them.
    OldGenerationDelivered,
    /// A link delivers each message once. Planted: it delivers again what is resent.
    DeliveredTwice,
    /// A worker that drains gives back only requests that are in no epoch. Planted: it gives back one that has been
    /// cut as well.
    CutReturned,
    /// State that a worker retained from an earlier generation is used only if it is that of the recovery point.
    /// Planted: it is used whatever it is.
    RetainedOfAnother,
    /// Time in which a coordinator stands still is no silence of its workers. Planted: it takes all of them for lost.
    StandstillCounted,
    // State and snapshots.
    /// The state hash is a function of the state alone. Planted: overwritten values remain in it.
    HashForgetsOverwrites,
    /// A snapshot restores the state exactly: what was deleted is gone. Planted: it lacks deletes.
    DeltaWithoutDeletes,
    /// A snapshot is of one epoch, though it is written while later ones run. Planted: it holds values of later
    /// epochs.
    DeltaSeesLater,
    /// Replies are remembered as part of the state: a snapshot holds them. Planted: it does not.
    RepliesNotInSnapshot,
    /// A record of a topic that was executed is never executed again, however few replies are remembered. Planted: it is
    /// once its reply is forgotten.
    RecordsForgotten,
    // Migration.
    /// Who is to have a partition follows what is written to it. Planted: what is written behind the copy is not told.
    MigrationNotFollowed,
    /// The new owner begins when the old one has said all. Planted: it begins at once.
    MigrationNotAwaited,
    /// What is remembered of requests goes where their partition goes. Planted: it is forgotten.
    MigrationForgetsReplies,
    /// Transactions whose end is to be remembered go to who remembers it. Planted: they stay.
    MigrationKeepsCarried,
    /// A partition changes its owner right behind the cut of a snapshot. Planted: at any time.
    MigrationBetweenSnapshots,
    /// Owners change though nothing happens: a snapshot that is there already is as good as one that is cut. Planted: the
    /// migration waits for one that is never cut.
    IdleNotMigrated,
    /// A migration for which everything stopped is in the log when it is said to be done, though nothing has happened since. Planted: it
    /// is done when the next generation is live.
    RestartUnlogged,
    /// What has not arrived yet of a partition is not there to be read. Planted: it is read as if there were none.
    MissingTakenForNone,
    /// A scan waits for what has not arrived. Planted: it passes over it.
    ScansMissWhatIsElsewhere,
    /// What was written since is newer than what its former owner has of it. Planted: whatever comes last counts.
    ShadowOverwrites,
    // Another number of partitions.
    /// What a record of the log says of entities is laid out as the generation that replays it has it. Planted: as its own had
    /// it.
    WritesNotRelaid,
    /// The first snapshot in other partitions is whole. Planted: it continues the one before.
    SnapshotsContinued,
    /// What is remembered by ids of requests stays where it was. Planted: it is looked for as if there were as many partitions as at the
    /// beginning.
    MemoryDealtOut,
    // Another key prefix of an operator.
    /// An entity that is placed anew is no more where it was. Planted: it is there as well.
    RekeyedKept,
    /// What is read over several workers is read in one placement. Planted: with an operator's entities placed anew, the placement
    /// is taken for the same.
    RekeyedUnnoticed,
    // Members that come and go.
    /// A generation keeps who has which partition. Planted: partitions are dealt out anew.
    PlacementForgotten,
    /// Whoever was emptied gets no partitions when members change. Planted: it is forgotten that it was.
    EmptiedForgotten,
    /// Nor when others get their share or give theirs away. Planted: it is a taker like any other.
    EmptiedFilled,
    // The protocol.
    /// Who writes what lower TIDs read, and reads nothing that they write, commits. Planted: it conflicts.
    WarConflicts,
    /// Log lines are shown of the attempt that counted. Planted: those of one that conflicted are shown as well.
    LinesOfEveryAttempt,
    // Drivers: who is asked again, who is told.
    /// A gateway asks again what it had asked of a process that was replaced. Planted: it waits for the answer that was
    /// lost with it.
    ReplacedNotAskedAgain,
    /// A worker that is in another generation says so, and is asked again. Planted: a gateway takes that for an answer.
    MovedIgnored,
    /// A write that nobody remembers is not asked twice. Planted: it is.
    WritesAskedAgain,
    /// A gateway has no more requests under way than it may. Planted: it takes any number.
    BacklogIgnored,
    /// Messages lost between two workers are reported until their generation is over. Planted: a connection that follows
    /// is taken for their return.
    BrokenForgotten,
    /// A worker that restores a snapshot, however long, says that it is there. Planted: it does not.
    SilentWhileRestoring,
    /// A component that was asked of a coordinator which ended is asked of the next. Planted: it is not.
    ComponentAskedOnce,
    /// A worker begins an epoch that deploys something when it has compiled that. Planted: it begins at once.
    ComponentsNotAwaited,
    /// Whoever deploys is answered, though the generation ends before. Planted: they are not.
    DeploymentForgotten,
    /// What is read is told once it is durable. Planted: it is told at once.
    ReadAtOnce,
    /// A snapshot exists only when the log under it is durable. Planted: it is put before.
    ManifestBeforeLog,
    /// The log is kept from the oldest snapshot on that is. Planted: it is trimmed up to the newest.
    TrimmedToNewest,
    // What is set aside because it ends processes.
    /// What is set aside is not executed, wherever it waits. Planted: what is in the log is.
    QuarantinedExecuted,
    /// With a release the refusals that were remembered are forgotten. Planted: they are not.
    RefusalsKept,
    /// A generation begins by setting aside what workers have said before it. Planted: it waits until one says more.
    SetAsideOnce,
    /// Deaths of several processes add up. Planted: each worker's count for themselves.
    DeathsCountedApart,
    /// A suspect is forgotten when its quarantine is durable. Planted: when there is one.
    SuspectsForgottenEarly,
    // The front for records of topics.
    /// A record is one request, whatever its names stand for when it is read again. Planted: it is compared with what it
    /// was, and refused.
    RecordsCompared,
    /// A front goes on where replies end. Planted: it passes over the record there.
    FrontSkipsOne,
    /// Records beyond the watermark that have their reply are passed over. Planted: they are answered again.
    FrontForgetsAnswered,
    /// A front takes the right to answer before it looks for what was answered. Planted: after.
    FrontReadsFirst,
    /// A front takes every right under which whoever was there before may have written. Planted: those that it uses itself.
    FrontTakesWhatItUses,
    /// A record counts as answered when its reply is committed. Planted: when it is sent.
    FrontAssumesWritten,
    /// What is no request any more may have been one, and have been executed. Planted: it is refused at once.
    FrontRefusesAtOnce,
    /// What nobody can say is asked again. Planted: once.
    FrontAsksOnce,
    // Durability: what a process does with its log and its store.
    /// A record counts as durable after the sync that follows it. Planted: it counts when it is appended.
    AppendedNotSynced,
    /// The delta of a snapshot holds deletes. Planted: they are not written.
    DeletesNotWritten,
    /// A snapshot's metadata are its own. Planted: those of one before are mentioned again.
    MetadataOfAnother,
    // Storage: the log.
    /// What is found when a log is opened is durable from then on. Planted: it is not synced.
    FoundNotSynced,
    /// A segment has its name durably before anything is written to it. Planted: the directory is not synced.
    NameNotSynced,
    /// The mark says no more than is durable. Planted: it is written before the data.
    MarkBeforeData,
    /// What is set aside of a damaged log is marked as not missed before. Planted: it is not marked.
    QuarantineNotMarked,
    /// An unfinished write at the log's end is cut off. Planted: checksums of frames are not compared.
    ChecksumIgnored,
    // Storage: snapshots.
    /// A manifest that was put though nobody said so is known by its writer as its own. Planted: it is another's.
    ManifestNotRecognized,
    /// Manifests are deleted before the parts that they mention. Planted: after.
    PartsBeforeManifests,
    /// Parts that a kept snapshot mentions are kept. Planted: those of the newest alone are.
    PartsOfOldDeleted,
    /// Where deltas are merged, what is newer hides what is older. Planted: the older value stays.
    OlderValueMerged,
}

/// Whether a bug is planted: never, in a product.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(debug_assertions)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in the machines of this thread; `None` removes it.
#[cfg(debug_assertions)]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted in this thread.
#[cfg(debug_assertions)]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
