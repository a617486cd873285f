use styx_protocol::catalog::Catalog;
use styx_protocol::ids::{Tid, Timestamp};
use styx_protocol::record::Chain;
use styx_transcript::{did, scenario, told};

use super::*;

type Effects = Vec<SnapshotEffect<&'static str>>;

const INTERVAL: Duration = Duration::from_secs(60);

struct Rig {
    scheduler: SnapshotScheduler<&'static str>,
    now: Instant,
}

fn header(epoch: u64) -> Box<SnapshotHeader> {
    Box::new(SnapshotHeader {
        generation: styx_protocol::ids::Generation(2),
        epoch: Epoch(epoch),
        chain: Chain(1),
        time: Timestamp(1),
        highest: Tid(9),
        catalog: Catalog::default().image(),
        seating: None,
    })
}

fn part(epoch: u64, partition: u16) -> WrittenPart {
    let hashes = vec![(PartitionId(partition), StateHash(u128::from(partition) + 1))];
    WrittenPart { epoch: Epoch(epoch), objects: vec![partition as u8], hashes, carried: Vec::new() }
}

fn put(sequence: u64) -> Result<ManifestPut, StoreFailure> {
    Ok(ManifestPut { sequence, bytes: 10, written_bytes: 5 })
}

fn unavailable<T>() -> Result<T, StoreFailure> {
    Err(StoreFailure::Unavailable("no answer".into()))
}

impl Rig {
    /// Two workers, at epoch 4, whose generation began with a snapshot of epoch 3 at log position 7.
    fn new() -> Self {
        let config = SnapshotConfig { interval: INTERVAL, ..SnapshotConfig::default() };
        let now = Instant(1_000);
        let mut scheduler =
            SnapshotScheduler::new(config, Generation(2), 2, Some((Epoch(3), LogPosition(7))), Epoch(3), None, now);
        scheduler.ended(Epoch(4));
        Rig { scheduler, now }
    }

    fn does(&mut self, run: impl FnOnce(&mut SnapshotScheduler<&'static str>, Instant, &mut Effects)) -> Effects {
        let mut effects = Vec::new();
        run(&mut self.scheduler, self.now, &mut effects);
        told(&self.now);
        did(&self.scheduler.due());
        effects.iter().for_each(did);
        effects.retain(|effect| !matches!(effect, SnapshotEffect::Diagnostic(_)));
        effects
    }

    fn after(&mut self, duration: Duration) -> Effects {
        self.now = self.now.after(duration);
        self.does(|scheduler, now, effects| scheduler.tick(now, effects))
    }

    fn want(&mut self, who: &'static str) -> Effects {
        self.does(|scheduler, now, effects| scheduler.want(who, now, effects))
    }

    fn header(&mut self, epoch: u64, position: u64) -> Effects {
        self.does(|scheduler, now, effects| scheduler.header(header(epoch), LogPosition(position), now, effects))
    }

    fn part(&mut self, worker: u16, epoch: u64) -> Effects {
        self.does(|scheduler, now, effects| scheduler.part(WorkerId(worker), part(epoch, worker), now, effects))
    }

    /// Somebody wants one of epoch 4, which goes on at record 9: everybody writes, and the log is durable.
    fn all_written(&mut self, who: &'static str) -> Effects {
        self.want(who);
        self.header(4, 9);
        self.part(0, 4);
        self.part(1, 4);
        self.durable(4)
    }

    fn durable(&mut self, epoch: u64) -> Effects {
        self.does(|scheduler, _, effects| scheduler.durable(Epoch(epoch), effects))
    }

    fn stored(&mut self, result: Result<ManifestPut, StoreFailure>) -> Effects {
        self.does(|scheduler, now, effects| scheduler.manifest_put(result, now, effects))
    }

    fn maintained(&mut self, result: Result<Option<u64>, StoreFailure>) -> Effects {
        self.does(|scheduler, now, effects| {
            scheduler.maintained(result.map(|kept| kept.map(LogPosition)), now, effects)
        })
    }
}

fn draft(effects: &Effects) -> &ManifestDraft {
    match &effects[..] {
        [SnapshotEffect::Put(draft)] => draft,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_snapshot_of_other_partitions_builds_on_none_however_soon_these_are_others_again() {
    let _transcript = scenario!("snapshots");
    let builds_on = |effects: Effects| match &effects[..] {
        [SnapshotEffect::Put(draft)] => draft.builds_on,
        other => panic!("{other:?}"),
    };
    let mut rig = Rig::new();
    rig.scheduler.begin_anew(Epoch(4));
    rig.scheduler.begin_anew(Epoch(5));
    assert_eq!(builds_on(rig.all_written("first")), None);
    rig.stored(put(2));
    rig.maintained(Ok(None));
    rig.scheduler.ended(Epoch(6));
    for (epoch, before) in [(5, None), (6, Some(Epoch(5)))] {
        rig.want("next");
        rig.header(epoch, 9 + epoch);
        rig.part(0, epoch);
        rig.part(1, epoch);
        assert_eq!(builds_on(rig.durable(epoch)), before, "{epoch}");
        rig.stored(put(epoch));
        rig.maintained(Ok(None));
    }
}

#[test]
fn a_manifest_is_put_when_all_is_written_and_the_log_is_durable_whatever_comes_last() {
    let _transcript = scenario!("snapshots");
    type Step = fn(&mut Rig) -> Effects;
    let steps: [Step; 3] = [|rig| rig.part(0, 4), |rig| rig.part(1, 4), |rig| rig.durable(4)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut rig = Rig::new();
        assert_eq!(rig.want("admin"), [SnapshotEffect::Begin]);
        assert_eq!(rig.header(4, 9), []);
        assert_eq!(steps[order[0]](&mut rig), []);
        assert_eq!(steps[order[1]](&mut rig), [], "{order:?}");
        let effects = steps[order[2]](&mut rig);
        let draft = draft(&effects);
        assert_eq!((draft.builds_on, draft.log_position.0, draft.state_hash), (Some(Epoch(3)), 9, StateHash(3)));
        assert_eq!(draft.objects, [(WorkerId(0), vec![0]), (WorkerId(1), vec![1])]);
    }
}

#[test]
fn what_is_durable_of_later_epochs_only_counts_up_to_the_snapshots() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    rig.want("admin");
    rig.scheduler.ended(Epoch(6));
    assert_eq!(rig.header(6, 9), []);
    rig.part(0, 6);
    rig.part(1, 6);
    assert_eq!(rig.durable(4), []);
    assert_eq!(rig.durable(5), []);
    draft(&rig.durable(6));
}

#[test]
fn the_log_is_trimmed_behind_what_the_store_keeps_and_never_past_the_newest_snapshot() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    rig.all_written("admin");
    let effects = rig.stored(put(12));
    let [SnapshotEffect::Answer("admin", Ok(summary)), SnapshotEffect::Taken(taken), SnapshotEffect::Maintain] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((summary, summary.sequence, summary.epoch), (taken, 12, 4));
    assert_eq!(rig.maintained(Ok(Some(7))), [SnapshotEffect::TrimLog(LogPosition(7))]);
    assert!(rig.scheduler.is_quiet());

    let too_far = std::panic::catch_unwind(|| {
        let mut rig = Rig::new();
        rig.all_written("admin");
        rig.stored(put(12));
        rig.maintained(Ok(Some(10)))
    });
    assert!(too_far.is_err(), "the newest snapshot goes on at record 9");
}

#[test]
fn one_is_taken_when_it_is_due_unless_nothing_has_happened() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    assert_eq!(rig.scheduler.due(), Some(rig.now.after(INTERVAL)));
    assert_eq!(rig.after(INTERVAL - Duration::from_micros(1)), []);
    assert_eq!(rig.after(Duration::from_micros(1)), [SnapshotEffect::Begin]);

    let mut idle = Rig::new();
    idle.scheduler.newest = Some((Epoch(4), LogPosition(9)));
    assert_eq!(idle.after(INTERVAL), []);
    assert_eq!(idle.scheduler.due(), Some(idle.now.after(INTERVAL)));
    assert_eq!(idle.want("admin"), [SnapshotEffect::IsNewest("admin", None)]);
}

#[test]
fn a_part_that_is_lost_is_asked_for_again_and_one_that_comes_twice_counts_once() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    rig.want("admin");
    rig.header(4, 9);
    rig.part(0, 4);
    assert_eq!(rig.after(Duration::from_secs(1)), []);
    assert_eq!(rig.after(Duration::from_secs(1)), [SnapshotEffect::ResendParts]);
    assert_eq!(rig.part(0, 4), []);
    assert_eq!(rig.part(1, 3), [], "of the snapshot before");
    assert_eq!(rig.part(1, 4), []);
    assert_eq!(rig.after(Duration::from_secs(9)), [], "only the log is awaited");
    draft(&rig.durable(4));
    assert_eq!(rig.part(1, 4), [], "said again though it was heard");
}

#[test]
fn a_worker_that_writes_another_epochs_part_must_go() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    let expelled = |effects: Effects| matches!(effects[..], [SnapshotEffect::Expel(WorkerId(1), _)]);
    assert!(expelled(rig.part(1, 4)), "nobody has asked for it");
    rig.want("admin");
    rig.header(4, 9);
    assert!(expelled(rig.part(1, 5)));
}

#[test]
fn a_store_that_does_not_answer_is_asked_again_and_one_that_another_has_taken_over_ends_the_process() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    let first = rig.all_written("admin");
    assert_eq!(rig.stored(unavailable()), []);
    assert_eq!(rig.after(Duration::from_millis(499)), []);
    assert_eq!(rig.after(Duration::from_millis(1)), first, "the same manifest");
    assert_eq!(rig.scheduler.due(), None);
    let fenced = rig.stored(Err(StoreFailure::Fatal("generation 3 writes".into())));
    assert_eq!(fenced, [SnapshotEffect::Halt("generation 3 writes".into())]);
}

#[test]
fn who_wants_one_does_not_wait_for_the_past_to_be_tidied() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    rig.all_written("first");
    rig.stored(put(12));
    rig.scheduler.ended(Epoch(5));
    assert_eq!(rig.want("second"), [SnapshotEffect::CutMaintenanceShort]);
    assert_eq!(rig.want("third"), []);
    assert_eq!(rig.maintained(Err(StoreFailure::Stopped)), [SnapshotEffect::Begin]);
    // Who comes while one is taken gets the next one.
    rig.header(5, 11);
    assert_eq!(rig.want("fourth"), []);
    rig.part(0, 5);
    rig.part(1, 5);
    rig.durable(5);
    let effects = rig.stored(put(13));
    let answered: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            SnapshotEffect::Answer(who, Ok(_)) => Some(*who),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["second", "third"]);
    assert!(effects.ends_with(&[SnapshotEffect::Maintain, SnapshotEffect::CutMaintenanceShort]), "{effects:?}");
    assert_eq!(rig.want("fifth"), [], "it is cut short once");
    // Nothing has happened since: they get the one that was just taken.
    let effects = rig.maintained(Err(StoreFailure::Stopped));
    let [SnapshotEffect::IsNewest("fourth", fourth), SnapshotEffect::IsNewest("fifth", fifth)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!([fourth, fifth].map(|newest| newest.as_ref().map(|newest| newest.sequence)), [Some(13); 2]);
}

#[test]
fn maintenance_that_fails_leaves_the_log_as_it_is() {
    let _transcript = scenario!("snapshots");
    for failure in [unavailable(), Err(StoreFailure::Damaged("a flipped bit".into()))] {
        let mut rig = Rig::new();
        rig.all_written("admin");
        rig.stored(put(12));
        assert_eq!(rig.maintained(failure), []);
        assert_eq!(rig.scheduler.due(), Some(rig.now.after(INTERVAL)));
    }
}

#[test]
fn whoever_waits_when_the_generation_ends_is_told() {
    let _transcript = scenario!("snapshots");
    let mut rig = Rig::new();
    rig.want("first");
    rig.want("second");
    let mut effects = Vec::new();
    rig.scheduler.close(&mut effects);
    assert!(matches!(
        &effects[..],
        [SnapshotEffect::Answer("first", Err(_)), SnapshotEffect::Answer("second", Err(_))]
    ));
}
