//! A worker, a coordinator and whoever begins after them, each by the steps that a server takes, on one thread and one
//! directory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use styx_driver::diagnostic::Diagnostic;
use styx_driver::snapshots::{ManifestDraft, StoreFailure};
use styx_driver::wire::{SnapshotPlace, WrittenPart};
use styx_durability::components::Components;
use styx_durability::log::{LogOrder, serve};
use styx_durability::manifests::ManifestWriter;
use styx_durability::parts::{Conditions, DeltaWriter, Note, Outcome};
use styx_durability::recovery::{Opened, RecoveryPoint, Restore, SnapshotSource, take_over};
use styx_protocol::catalog::Catalog;
use styx_protocol::control::Control;
use styx_protocol::deployment::{Component, Deployment, Digest, Limits};
use styx_protocol::entity::Payload;
use styx_protocol::entity::{Entity, Layout, Value};
use styx_protocol::ids::{
    Epoch, Generation, LogPosition, OperatorId, PartitionId, RequestId, Tid, Timestamp, WorkerId,
};
use styx_protocol::placement::Placement;
use styx_protocol::record::Chain;
use styx_protocol::replies::{Kept, ReplyChange};
use styx_protocol::snapshot::{RestoredState, SnapshotHeader, WorkerSnapshot};
use styx_protocol::state::{Partition, StateHash, Write};
use styx_protocol::task::LocalView;
use styx_storage::log::MemoryDisk;
use styx_storage::snapshot::{Environment, PartKind, Retention, Runtime, SnapshotStore, StoreLocation};

const PARTITIONS: u32 = 4;
/// What is deployed.
const COMPONENT: &[u8] = b"one";
const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Environment for Counting {
    fn nonce(&self) -> u128 {
        self.0.fetch_add(1, Ordering::Relaxed).into()
    }

    fn pause(&self, _: Duration) {}
}

/// Components in memory, whose digests are their first bytes.
#[derive(Default)]
struct Shelf(RefCell<BTreeMap<Digest, Vec<u8>>>);

fn digest(bytes: &[u8]) -> Digest {
    Digest([bytes[0]; 32])
}

impl Components for Shelf {
    fn contains(&self, digest: Digest) -> bool {
        self.0.borrow().contains_key(&digest)
    }

    fn get(&self, digest: Digest) -> io::Result<Vec<u8>> {
        self.0.borrow().get(&digest).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        self.0.borrow_mut().insert(digest(bytes), bytes.to_vec());
        Ok(digest(bytes))
    }

    /// As if all were put half an hour ago.
    fn collect(&self, needed: &BTreeSet<Digest>, before: Timestamp) -> io::Result<usize> {
        let count = self.0.borrow().len();
        self.0.borrow_mut().retain(|digest, _| needed.contains(digest) || before.0 <= NOW.0 - 1_800_000_000);
        Ok(count - self.0.borrow().len())
    }
}

/// Components of a process that can open nothing.
struct NoDescriptors;

impl Components for NoDescriptors {
    fn contains(&self, _: Digest) -> bool {
        true
    }

    fn get(&self, _: Digest) -> io::Result<Vec<u8>> {
        Err(io::Error::from_raw_os_error(24))
    }

    fn put(&self, _: &[u8]) -> io::Result<Digest> {
        unreachable!("nothing is put")
    }

    fn collect(&self, _: &BTreeSet<Digest>, _: Timestamp) -> io::Result<usize> {
        unreachable!("nothing is tidied up")
    }
}

/// What happens while a store does not answer.
#[derive(Default)]
struct Outage {
    over: bool,
    told: Vec<Option<&'static str>>,
    end: Option<Box<dyn FnOnce()>>,
}

impl Conditions for Outage {
    fn is_over(&self) -> bool {
        self.over
    }

    fn pause(&mut self, _: Duration) {
        self.end.take().expect("the store answers after the outage")();
    }

    fn tell(&mut self, diagnostic: &Diagnostic) {
        self.told.push(diagnostic.code);
    }
}

/// A cluster whose one worker and whose coordinator are called by turns.
struct Cluster {
    disk: MemoryDisk,
    place: StoreLocation,
    runtime: Runtime,
    components: Shelf,
    layout: Layout,
    state: BTreeMap<PartitionId, Partition>,
}

impl Cluster {
    fn new(directory: &Path) -> Cluster {
        let components = Shelf::default();
        components.put(COMPONENT).unwrap();
        Cluster {
            disk: MemoryDisk::default(),
            place: StoreLocation::new(directory.to_str().unwrap()),
            runtime: Runtime::Inline(Arc::new(Counting::default())),
            components,
            layout: Layout::new(7, PARTITIONS),
            state: (0..PARTITIONS as u16).map(|id| (PartitionId(id), Partition::default())).collect(),
        }
    }

    /// A cluster that has taken a snapshot, and another one that builds on it.
    fn with_snapshots(directory: &Path) -> (Cluster, ManifestWriter) {
        let mut cluster = Cluster::new(directory);
        let (begin, restored) = cluster.begin(&cluster.components).unwrap();
        assert!(begin.found.is_none() && restored.is_none());
        cluster.lengthen_log();
        let (mut writer, mut manifests) = cluster.writers(&begin);
        let replies = vec![ReplyChange::Kept(kept(77)), ReplyChange::Kept(kept(78))];
        let changes = ["a", "b", "c", "d", "e"].map(|key| cluster.change(key, Some(key)));
        let part = cluster.write(&mut writer, 1, replies, changes.into());
        let first = manifests.put(draft(part, None, 3), &cluster.components, NOW).unwrap();
        let changes = vec![cluster.change("a", None), cluster.change("b", Some("2")), cluster.change("f", Some("3"))];
        let part = cluster.write(&mut writer, 2, vec![ReplyChange::Forgotten(RequestId(77))], changes);
        let second = manifests.put(draft(part, Some(1), 5), &cluster.components, NOW).unwrap();
        assert_eq!((first.sequence, second.sequence), (1, 2));
        assert!(second.written_bytes < second.bytes, "a delta is less than everything");
        (cluster, manifests)
    }

    /// Begins as a process does, and restores everything.
    fn begin(&self, components: &Shelf) -> anyhow::Result<(RecoveryPoint, Option<RestoredState>)> {
        self.begin_in(PARTITIONS, components)
    }

    /// The same, in so many partitions.
    fn begin_in(&self, partitions: u32, components: &Shelf) -> anyhow::Result<(RecoveryPoint, Option<RestoredState>)> {
        let source = SnapshotSource { place: &self.place, runtime: &self.runtime, components };
        let mut restored = None;
        let mut log = self.disk.open()?;
        let point =
            RecoveryPoint::find(&mut log, Some(partitions), NOW, 7, Some(source), &mut |store, found, layout| {
                restored = Some(found.restore(store, 1, (layout, &|_| true), None)?);
                Ok(())
            })?;
        Ok((point, restored))
    }

    /// Snapshots go on in the log; here it holds nothing of interest.
    fn lengthen_log(&self) {
        let mut log = self.disk.open().unwrap();
        for generation in 1..9 {
            serve(&mut log, LogOrder::Raise(Generation(generation)), &mut || None, &mut |_| {}).unwrap();
        }
    }

    fn writers(&self, begin: &RecoveryPoint) -> (DeltaWriter, ManifestWriter) {
        let (store, generation) = (begin.store.clone().unwrap(), begin.single_generation());
        let found = begin.found.as_ref();
        let manifests = ManifestWriter::new(store.clone(), begin.genesis, generation, Retention::default(), found);
        (DeltaWriter::new(store, begin.layout, generation, begin.builds_on()), manifests)
    }

    fn change(&mut self, key: &str, value: Option<&str>) -> Write {
        let entity = Entity::new(&self.layout, OperatorId(1), false, key.into());
        let value = value.map(|value| Value::from(value.as_bytes()));
        self.state.get_mut(&entity.partition()).unwrap().apply(entity.clone(), value.clone());
        (entity, value)
    }

    /// Hands a part over as a machine does, its changes one by one.
    fn write(
        &self,
        writer: &mut DeltaWriter,
        epoch: u64,
        replies: Vec<ReplyChange>,
        changes: Vec<Write>,
    ) -> WrittenPart {
        let mut outcome = writer.take(self.part(epoch, replies), &mut Outage::default()).unwrap();
        for (left, change) in (0..changes.len()).rev().zip(changes) {
            assert!(matches!(outcome, Outcome::HandOver), "{outcome:?}");
            let note = Note::Changes { changes: vec![change], last: left == 0 };
            outcome = writer.take(note, &mut Outage::default()).unwrap();
        }
        let Outcome::Written(part) = outcome else { panic!("{outcome:?}") };
        part
    }

    fn part(&self, epoch: u64, replies: Vec<ReplyChange>) -> Note {
        let part = WorkerSnapshot {
            epoch: Epoch(epoch),
            layout: self.layout,
            builds_on: true,
            hashes: self.hashes(),
            carried: Vec::new(),
            replies,
        };
        Note::Part(Box::new(part))
    }

    fn hashes(&self) -> Vec<(PartitionId, StateHash)> {
        self.state.iter().map(|(id, partition)| (*id, partition.hash())).collect()
    }
}

fn hashes(restored: &RestoredState) -> Vec<(PartitionId, StateHash)> {
    restored.partitions.iter().map(|(id, partition)| (*id, partition.hash())).collect()
}

fn kept(id: u128) -> Kept {
    let (body, tid, epoch, ended) = (9, Tid(4), Epoch(1), Timestamp(5));
    Kept { id: RequestId(id), body, tid, epoch, ended, outcome: Ok(Payload(Value::from([1, 2].as_slice()))) }
}

fn draft(part: WrittenPart, builds_on: Option<u64>, position: u64) -> ManifestDraft {
    let sum = part.hashes.iter().fold(0u128, |sum, (_, hash)| sum.wrapping_add(hash.0));
    ManifestDraft {
        generation: Generation(1),
        builds_on: builds_on.map(Epoch),
        log_position: LogPosition(position),
        header: SnapshotHeader {
            generation: Generation(1),
            epoch: part.epoch,
            chain: Chain(1),
            time: NOW,
            highest: Tid(9),
            catalog: catalog().image(),
            seating: None,
        },
        state_hash: StateHash(sum),
        hashes: part.hashes,
        carried: part.carried,
        objects: vec![(WorkerId(0), part.objects)],
    }
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    let size = COMPONENT.len() as u64;
    let component = Component { name: "a".into(), digest: digest(COMPONENT), size, sdk: "none".into() };
    catalog.apply(&Control::Deploy(Deployment {
        id: "dp_1".into(),
        app: "app".into(),
        created: NOW,
        components: vec![component],
        operators: Vec::new(),
        limits: Limits::default(),
        interface: Default::default(),
    }));
    catalog
}

#[test]
fn what_was_written_is_restored_where_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, manifests) = Cluster::with_snapshots(directory.path());
    let maintained = manifests.maintain(&cluster.components, NOW, &|| false);
    assert_eq!(maintained, Ok(Some(LogPosition(3))), "both are kept");
    let elsewhere = Shelf::default();
    let (begin, restored) = cluster.begin(&elsewhere).unwrap();
    let restored = restored.unwrap();
    assert_eq!((begin.epoch(), begin.position(), begin.single_generation()), (Epoch(2), LogPosition(5), Generation(1)));
    assert_eq!(hashes(&restored), cluster.hashes());
    assert_eq!(restored.replies.into_kept(), [kept(78)]);
    assert_eq!(elsewhere.get(digest(COMPONENT)).unwrap(), COMPONENT);
}

#[test]
fn a_component_that_no_snapshot_names_goes_after_the_grace() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, manifests) = Cluster::with_snapshots(directory.path());
    let other = cluster.components.put(b"another").unwrap();
    manifests.maintain(&cluster.components, NOW, &|| false).unwrap();
    assert!(cluster.components.contains(other), "the log may name it");
    let (begin, _) = cluster.begin(&cluster.components).unwrap();
    let (store, retention) = (begin.store.clone().unwrap(), Retention { grace_us: 0, ..Retention::default() });
    let generation = begin.single_generation();
    let manifests = ManifestWriter::new(store, begin.genesis, generation, retention, begin.found.as_ref());
    // What one that cannot be read names is not known.
    let manifests_of = directory.path().join("manifests").read_dir().unwrap();
    let manifest = manifests_of.map(|entry| entry.unwrap().path()).max().unwrap();
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, b"nonsense").unwrap();
    manifests.maintain(&cluster.components, NOW, &|| false).unwrap();
    assert!(cluster.components.contains(other));
    std::fs::write(&manifest, whole).unwrap();
    manifests.maintain(&cluster.components, NOW, &|| false).unwrap();
    assert_eq!([other, digest(COMPONENT)].map(|digest| cluster.components.contains(digest)), [false, true]);
}

#[test]
fn a_snapshot_that_is_damaged_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _) = Cluster::with_snapshots(directory.path());
    let identity = SnapshotStore::identify(&cluster.place, &cluster.runtime).unwrap().unwrap();
    let newest = SnapshotStore::open(&cluster.place, identity, &cluster.runtime).unwrap().latest().unwrap().unwrap();
    let delta = newest.partitions.values().flatten().find(|part| part.kind == PartKind::Delta).unwrap();
    std::fs::write(directory.path().join(&delta.object), b"nonsense").unwrap();
    let (begin, restored) = cluster.begin(&Shelf::default()).unwrap();
    assert_eq!((begin.epoch(), begin.position()), (Epoch(1), LogPosition(3)));
    assert_eq!(restored.unwrap().replies.into_kept().len(), 2);
    // A worker cannot choose: it reports.
    let store = begin.store.unwrap();
    let place = |sequence| SnapshotPlace {
        place: cluster.place.url().into(),
        identity: store.identity(),
        begin: Some(sequence),
    };
    let view = LocalView { me: WorkerId(0), placement: Arc::new(Placement::round_robin(PARTITIONS, 1)) };
    let read = |sequence| {
        let place = place(sequence);
        let restore = Restore {
            place: &place,
            view: &view,
            layout: begin.layout,
            retained: None,
            known: Some(store.clone()),
            threads: 1,
        };
        restore.run(|| panic!("it is known"))
    };
    assert!(read(2).unwrap_err().damaged);
    assert!(read(1).is_ok());
}

#[test]
fn a_worker_reads_its_own_partitions_of_the_store_that_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _) = Cluster::with_snapshots(directory.path());
    let store = cluster.begin(&cluster.components).unwrap().0.store.unwrap();
    let place = SnapshotPlace { place: cluster.place.url().into(), identity: store.identity(), begin: Some(2) };
    let view = LocalView { me: WorkerId(1), placement: Arc::new(Placement::round_robin(PARTITIONS, 2)) };
    let other = tempfile::tempdir().unwrap();
    let location = StoreLocation::new(other.path().to_str().unwrap());
    let known = Some(SnapshotStore::open(&location, store.identity(), &cluster.runtime).unwrap());
    let restore = Restore { place: &place, view: &view, layout: cluster.layout, retained: None, known, threads: 1 };
    let open = || SnapshotStore::open(&cluster.place, place.identity, &cluster.runtime);
    let Opened { restored, store } = restore.run(open).unwrap();
    let own = cluster.hashes().into_iter().filter(|(id, _)| view.placement.owner(*id) == view.me).collect::<Vec<_>>();
    assert_eq!((hashes(&restored.unwrap()), own.len()), (own, 2));
    assert_eq!(store.location().url(), cluster.place.url());
}

#[test]
fn a_part_is_written_once_the_store_answers_unless_the_generation_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    let begin = cluster.begin(&cluster.components).unwrap().0;
    let in_the_way = directory.path().join("parts");
    std::fs::write(&in_the_way, b"no directory").unwrap();
    let changes = vec![cluster.change("a", Some("1"))];
    let write = |conditions: &mut Outage| {
        let mut writer = cluster.writers(&begin).0;
        assert!(matches!(writer.take(cluster.part(1, Vec::new()), conditions), Ok(Outcome::HandOver)));
        writer.take(Note::Changes { changes: changes.clone(), last: true }, conditions)
    };
    let mut over = Outage { over: true, ..Outage::default() };
    assert!(matches!(write(&mut over), Ok(Outcome::GaveUp)) && over.told.is_empty());
    let mut outage = Outage { end: Some(Box::new(|| std::fs::remove_file(in_the_way).unwrap())), ..Outage::default() };
    assert!(matches!(write(&mut outage), Ok(Outcome::Written(_))));
    assert_eq!(outage.told, [Some("SNAPSHOT_STORE")]);
}

#[test]
fn a_snapshot_is_dealt_out_to_other_partitions_and_the_next_one_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, _) = Cluster::with_snapshots(directory.path());
    let sum = |restored: &RestoredState| {
        let hashes = restored.partitions.iter().map(|(_, partition)| partition.hash().0);
        hashes.fold(0u128, |sum, hash| sum.wrapping_add(hash))
    };
    let (begin, same) = cluster.begin(&Shelf::default()).unwrap();
    assert!(begin.builds_on() && same.as_ref().unwrap().laid_in == PARTITIONS);
    for partitions in [4 * PARTITIONS, 3 * PARTITIONS] {
        let (begin, other) = cluster.begin_in(partitions, &Shelf::default()).unwrap();
        let other = other.unwrap();
        assert_eq!((begin.layout.partitions, begin.builds_on(), other.laid_in), (partitions, false, PARTITIONS));
        assert_eq!(sum(&other), sum(same.as_ref().unwrap()), "nothing is lost, and nothing is there twice");
        let layout = begin.layout;
        for (id, partition) in other.partitions {
            assert!(u32::from(id.0) < partitions);
            let wrong = partition.into_entities().find(|(entity, _)| !entity.is_sound(&layout, false));
            assert!(wrong.is_none(), "{wrong:?} is in partition {id}");
        }
    }
    let unsound = cluster.begin_in(PARTITIONS + 1, &Shelf::default()).map(drop).unwrap_err().to_string();
    assert!(unsound.contains("--partitions: 5 partitions: there can be 4"), "{unsound}");
}

#[test]
fn a_generation_that_takes_over_fences_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, mut manifests) = Cluster::with_snapshots(directory.path());
    let store = cluster.begin(&cluster.components).unwrap().0.store.unwrap();
    let found = take_over(&store, Some(Epoch(2)), Generation(2), NOW).unwrap().unwrap();
    let manifest = &found.manifest;
    assert_eq!((manifest.sequence, manifest.epoch, manifest.generation, manifest.log_position), (3, 1, 2, 3));
    let mut writer = DeltaWriter::new(store, Layout::new(7, PARTITIONS), Generation(1), true);
    let changes = vec![cluster.change("a", Some("4"))];
    let part = cluster.write(&mut writer, 3, Vec::new(), changes);
    let put = manifests.put(draft(part, Some(2), 6), &cluster.components, NOW);
    assert!(matches!(put, Err(StoreFailure::Fatal(_))), "{put:?}");
}

#[test]
fn a_log_that_does_not_belong_to_the_snapshots_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (mut cluster, _) = Cluster::with_snapshots(directory.path());
    let refused = |cluster: &Cluster| cluster.begin(&cluster.components).unwrap_err().to_string();
    cluster.disk = MemoryDisk::default();
    assert!(refused(&cluster).contains("the log is empty"));
    // The same beginning, and nothing after it.
    let elsewhere = tempfile::tempdir().unwrap();
    let place = std::mem::replace(&mut cluster.place, StoreLocation::new(elsewhere.path().to_str().unwrap()));
    cluster.begin(&cluster.components).unwrap();
    cluster.place = place;
    assert!(refused(&cluster).contains("it is not the log that the snapshot was taken beside"));
}

#[test]
fn a_deployment_whose_component_is_gone_is_not_in_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new(directory.path());
    let begin = cluster.begin(&cluster.components).unwrap().0;
    let (mut writer, mut manifests) = cluster.writers(&begin);
    let changes = vec![cluster.change("a", Some("1"))];
    let part = cluster.write(&mut writer, 1, Vec::new(), changes);
    let put = manifests.put(draft(part.clone(), None, 1), &Shelf::default(), NOW);
    let Err(StoreFailure::Fatal(why)) = put else { panic!("{put:?}") };
    assert!(why.contains(&digest(COMPONENT).to_string()), "{why}");
    // One that cannot be opened just now may be there.
    let put = manifests.put(draft(part, None, 1), &NoDescriptors, NOW);
    assert!(matches!(put, Err(StoreFailure::Unavailable(_))), "{put:?}");
}
