//! A store that does what it is told and does not say so, or says that it failed and has not.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use styx_storage::snapshot::{
    Acquired, Leases, Memory, PartKind, Runtime, SnapshotError, SnapshotStore, StoreLocation,
};

use crate::inline::Counting;
use crate::support::*;

/// What happens to the next puts of manifests and leases.
const FINE: u8 = 0;
const DONE_BUT_ERROR: u8 = 1;
/// It is not done, and the answer is an error.
const NOT_DONE: u8 = 2;
/// It is done, the answer is lost, and the repeated try finds the name taken.
const DONE_AND_REPEATED: u8 = 3;
/// Nothing is answered, not even a question.
const AWAY: u8 = 4;
/// It is done, whatever its condition.
const CARELESS: u8 = 5;
/// It is not done, and the answer is that the name is taken: another put of it is under way.
const BUSY: u8 = 6;
/// It is done, and no list is given after it.
const UNLISTED: u8 = 7;
/// Of what parts hold nothing is given, and that is no error.
const EMPTY: u8 = 8;

#[derive(Debug)]
struct Flaky {
    inner: InMemory,
    mood: AtomicU8,
    /// What somebody else writes immediately before the next put of a manifest.
    overtaking: Mutex<Option<(Path, PutPayload)>>,
    /// How many uploads in pieces were given up.
    given_up: Arc<AtomicU8>,
    puts: AtomicUsize,
    gets: AtomicUsize,
}

#[derive(Debug)]
struct CountedUpload {
    inner: Box<dyn MultipartUpload>,
    given_up: Arc<AtomicU8>,
}

#[async_trait::async_trait]
impl MultipartUpload for CountedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.given_up.fetch_add(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("flaky")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        let mood = if path.as_ref().starts_with("parts") { FINE } else { self.mood.load(Ordering::SeqCst) };
        let lost = || Error::Generic { store: "flaky", source: "the answer was lost".into() };
        if mood == NOT_DONE || mood == AWAY {
            return Err(lost());
        }
        if mood == BUSY {
            self.mood.store(FINE, Ordering::SeqCst);
            return Err(Error::AlreadyExists { path: path.to_string(), source: "another put is under way".into() });
        }
        if path.as_ref().starts_with("manifests") {
            let overtaking = self.overtaking.lock().unwrap().take();
            if let Some((theirs, bytes)) = overtaking {
                self.inner.put(&theirs, bytes).await?;
            }
        }
        let result = self.inner.put_opts(path, payload.clone(), options.clone()).await;
        match mood {
            DONE_BUT_ERROR => result.and(Err(lost())),
            DONE_AND_REPEATED => self.inner.put_opts(path, payload, options).await,
            CARELESS => self.inner.put(path, payload).await,
            _ => result,
        }
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(path, options).await?;
        Ok(Box::new(CountedUpload { inner, given_up: self.given_up.clone() }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        if self.mood.load(Ordering::SeqCst) == AWAY {
            return Err(Error::Generic { store: "flaky", source: "nobody answers".into() });
        }
        let got = self.inner.get_opts(path, options).await?;
        if self.mood.load(Ordering::SeqCst) == EMPTY && path.as_ref().starts_with("parts") {
            return Ok(GetResult { payload: GetResultPayload::Stream(Box::pin(stream::empty())), ..got });
        }
        Ok(got)
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.mood.load(Ordering::SeqCst) == UNLISTED {
            let error = Error::Generic { store: "flaky", source: "nobody lists".into() };
            return Box::pin(stream::iter([Err(error)]));
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn flaky() -> (Arc<Flaky>, StoreLocation) {
    let flaky = Arc::new(Flaky {
        inner: InMemory::new(),
        mood: AtomicU8::new(FINE),
        overtaking: Mutex::default(),
        given_up: Arc::default(),
        puts: AtomicUsize::default(),
        gets: AtomicUsize::default(),
    });
    let memory = Memory::from(flaky.clone() as Arc<dyn ObjectStore>);
    (flaky, StoreLocation::in_memory(&memory))
}

/// A bucket charges by the request, and takes as long for a small one.
#[test]
fn partitions_share_requests() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let (mut model, mut random) = (sample(1, 500, 5), Random(2));
    let (mut puts, mut gets) = (0, 0);
    let mut asked = |most: (usize, usize)| {
        let now = (flaky.puts.load(Ordering::SeqCst), flaky.gets.load(Ordering::SeqCst));
        let since = (now.0 - puts, now.1 - gets);
        (puts, gets) = now;
        assert!(
            since.0 <= most.0 && since.1 <= most.1,
            "{} puts and {} gets, where there may be {most:?}",
            since.0,
            since.1
        );
    };
    asked((10, 10));
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    // The pack, two system parts, the manifest; and whether they are there.
    asked((4, 6));
    for epoch in 2..12 {
        let mut pack = store.pack_writer(epoch, 1);
        for number in 0..500 {
            put_delta(&mut pack, number * 7, &change(&mut model, number * 7, 5, 2, &mut random));
        }
        store.commit(draft(&store, epoch, 1, Some(epoch - 1), pack.finish().unwrap())).unwrap();
        asked((4, 6));
    }
    let newest = store.latest().unwrap().unwrap();
    model.retain(|_, entries| !entries.is_empty());
    asked((0, 4));
    let mut found = restored(&store, &newest);
    found.retain(|_, entries| !entries.is_empty());
    assert_eq!(found, model);
    // Each pack once.
    asked((0, 11));
    assert!(store.compact(1, &Default::default(), 1, &|| false).unwrap().partitions > 100);
    asked((2, 20));
}

#[test]
fn a_snapshot_whose_answer_was_lost() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let mut model = sample(1, 3, 20);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let mut random = Random(1);
    let mut next = |store: &SnapshotStore, epoch: u64, builds_on: u64, model: &mut Model| {
        let changes = change(model, 7, 20, 8, &mut random);
        (draft(store, epoch, 1, Some(builds_on), vec![write_delta(store, 7, epoch, 1, &changes)]), changes)
    };

    // The client repeats what got through: nobody needs to know.
    let (second, _) = next(&store, 2, 1, &mut model);
    flaky.mood.store(DONE_AND_REPEATED, Ordering::SeqCst);
    assert_eq!(store.commit(second).unwrap().sequence, 2);

    // It is there and was not said to be: the next one, of all changes since the one before, goes behind it.
    let before = model.clone();
    let (third, mut changes) = next(&store, 3, 2, &mut model);
    for (mood, sequence) in [(DONE_BUT_ERROR, 4), (NOT_DONE, 4)] {
        flaky.mood.store(mood, Ordering::SeqCst);
        let result = store.commit(third.clone());
        assert!(matches!(&result, Err(SnapshotError::Store { .. })), "{result:?}");
        // Nobody else would take it for another writer's either.
        assert!(store.latest().unwrap().unwrap().sequence < sequence);
    }
    flaky.mood.store(FINE, Ordering::SeqCst);
    changes.extend(change(&mut model, 7, 20, 8, &mut random));
    let fourth = draft(&store, 4, 1, Some(2), vec![write_delta(&store, 7, 4, 1, &changes)]);
    let fourth = store.commit(fourth).unwrap();
    assert_eq!((fourth.sequence, fourth.epoch), (4, 4));
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored(&store, &fourth), model);
    assert_ne!(before, model);

    // The very same one again is that one.
    let (fifth, _) = (draft(&store, 5, 1, Some(4), Vec::new()), ());
    flaky.mood.store(DONE_BUT_ERROR, Ordering::SeqCst);
    assert!(store.commit(fifth.clone()).is_err());
    flaky.mood.store(FINE, Ordering::SeqCst);
    assert_eq!(store.commit(fifth).unwrap().sequence, 5);
    assert_eq!(store.latest().unwrap().unwrap().sequence, 5);
}

#[test]
fn a_snapshot_that_is_there_and_whose_writer_could_not_look_behind_it_is_continued_like_the_one_before() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let mut model = sample(1, 3, 20);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let changes = change(&mut model, 7, 20, 8, &mut Random(1));
    let second = draft(&store, 2, 1, Some(1), vec![write_delta(&store, 7, 2, 1, &changes)]);
    flaky.mood.store(UNLISTED, Ordering::SeqCst);
    let unsaid = store.commit(second.clone());
    assert!(matches!(&unsaid, Err(SnapshotError::Store { .. })), "{unsaid:?}");
    flaky.mood.store(FINE, Ordering::SeqCst);
    // Whatever else is wrong with the next one, nobody has taken over.
    let mut incomplete = second.clone();
    incomplete.parts[0].object.push('x');
    let missing = store.commit(incomplete);
    assert!(matches!(&missing, Err(error) if !matches!(error, SnapshotError::Fenced { .. })), "{missing:?}");
    let later = store.commit(styx_storage::snapshot::Draft { created_us: second.created_us + 1, ..second }).unwrap();
    assert_eq!((later.sequence, later.epoch), (3, 2));
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored(&store, &later), model);
}

#[test]
fn a_takeover_that_is_there_and_was_not_said_to_be_ends_the_generation_before() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let model = sample(1, 3, 20);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    flaky.mood.store(UNLISTED, Ordering::SeqCst);
    assert!(store.reinstate(1, 2, 0, 0).is_err());
    flaky.mood.store(FINE, Ordering::SeqCst);
    let late = store.commit(draft(&store, 2, 1, Some(1), Vec::new()));
    assert!(matches!(&late, Err(SnapshotError::Fenced { theirs: 2, .. })), "{late:?}");
    assert_eq!(store.reinstate(1, 2, 0, 1).unwrap().sequence, 3);
}

/// Whose pieces a bucket would keep, and charge for.
#[test]
fn what_is_written_in_pieces_and_given_up_is_said_to_be() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let written = |end: bool| {
        let mut pack = store.pack_writer(1, 1);
        let mut part = pack.part(PartKind::Base, 1).unwrap();
        part.push(1, b"key", Some(&Random(1).bytes(9 << 20))).unwrap();
        if end {
            part.finish().unwrap();
            pack.finish().unwrap();
        }
    };
    written(true);
    assert_eq!(flaky.given_up.load(Ordering::SeqCst), 0);
    written(false);
    let until = Instant::now() + Duration::from_secs(30);
    while flaky.given_up.load(Ordering::SeqCst) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(flaky.given_up.load(Ordering::SeqCst), 1);
}

/// Takes the manifest with this number away, to be written again immediately before the next put of one.
fn held_back(flaky: &Flaky, sequence: u64, damage: &[u8]) {
    let path = Path::from(format!("manifests/{sequence:020}"));
    let bytes = runtime().block_on(async {
        let bytes = flaky.inner.get(&path).await.unwrap().bytes().await.unwrap();
        flaky.inner.delete(&path).await.unwrap();
        bytes
    });
    let bytes = [&bytes[..], damage].concat();
    *flaky.overtaking.lock().unwrap() = Some((path, bytes.into()));
}

#[test]
fn who_takes_over_continues_what_is_written_while_it_does() {
    let (flaky, location) = flaky();
    let (old, new) = (open(&location), open(&location));
    let mut model = sample(1, 3, 20);
    old.commit(whole(&old, &model, 1, 1)).unwrap();
    let changes = change(&mut model, 7, 20, 8, &mut Random(1));
    old.commit(draft(&old, 2, 1, Some(1), vec![write_delta(&old, 7, 2, 1, &changes)])).unwrap();
    held_back(&flaky, 2, b"");
    let taken = new.take_over(2, 7).unwrap();
    assert_eq!((taken.sequence, taken.epoch), (3, 2));
    model.retain(|_, entries| !entries.is_empty());
    assert_eq!(restored(&new, &taken), model);
}

#[test]
fn a_number_under_which_there_is_damage_is_passed_over_by_the_next_try() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let model = sample(1, 3, 20);
    store.commit(whole(&store, &model, 1, 1)).unwrap();
    let other = open(&location);
    other.restore_newest(1, |_| Collect::default()).unwrap().unwrap();
    store.commit(draft(&store, 2, 1, Some(1), Vec::new())).unwrap();
    held_back(&flaky, 2, b"!");
    let second = draft(&other, 2, 1, Some(1), Vec::new());
    let result = other.commit(second.clone());
    assert!(matches!(&result, Err(error) if error.is_damage()), "{result:?}");
    assert_eq!(other.commit(second).unwrap().sequence, 3);
}

#[test]
fn a_number_that_is_refused_and_not_there_is_tried_again_after_a_pause() {
    let (flaky, location) = flaky();
    let environment = Arc::new(Counting::default());
    let store = SnapshotStore::open(&location, CLUSTER, Runtime::Inline(environment.clone())).unwrap();
    let model = sample(1, 3, 20);
    let draft = whole(&store, &model, 1, 1);
    flaky.mood.store(BUSY, Ordering::SeqCst);
    assert_eq!(store.commit(draft).unwrap().sequence, 1);
    assert_eq!(environment.pauses.lock().unwrap().len(), 1);
}

#[test]
fn a_lease_whose_answer_was_lost() {
    let (flaky, location) = flaky();
    let leases = || Leases::open(&location, runtime()).unwrap();
    let (first, second) = (leases(), leases());
    let ours = |acquired: Acquired| match acquired {
        Acquired::Ours(lease) => lease,
        Acquired::Theirs(record) => panic!("{record:?} has it"),
    };
    flaky.mood.store(DONE_AND_REPEATED, Ordering::SeqCst);
    let mut lease = ours(first.acquire("a", 1000, 0).unwrap());
    assert_eq!(lease.generation(), 1);
    lease.renew(10).unwrap();
    for mood in [DONE_BUT_ERROR, NOT_DONE] {
        flaky.mood.store(mood, Ordering::SeqCst);
        let result = lease.renew(20);
        assert!(matches!(&result, Err(SnapshotError::Store { .. })), "{result:?}");
        assert_eq!(lease.record().expires_us, 1010, "what is not known to be longer is not");
    }
    flaky.mood.store(FINE, Ordering::SeqCst);
    lease.renew(30).unwrap();
    assert_eq!(first.read().unwrap().unwrap().expires_us, 1030);
    assert!(matches!(second.acquire("b", 1000, 100).unwrap(), Acquired::Theirs(_)));
    // While the store is away, nobody can renew: its holder has a whole term when it is back.
    flaky.mood.store(AWAY, Ordering::SeqCst);
    assert!(second.acquire("b", 1000, 400).is_err() && lease.renew(401).is_err());
    flaky.mood.store(FINE, Ordering::SeqCst);
    assert!(matches!(second.acquire("b", 1000, 500).unwrap(), Acquired::Theirs(_)));
    assert!(matches!(second.acquire("b", 1000, 1749).unwrap(), Acquired::Theirs(_)));
    let taken = ours(second.acquire("b", 1000, 1750).unwrap());
    assert!(matches!(lease.renew(1751), Err(SnapshotError::LeaseLost { .. })));
    assert_eq!(taken.generation(), 2);
}

#[test]
fn a_store_that_ignores_conditions_is_refused() {
    let (flaky, location) = flaky();
    flaky.mood.store(CARELESS, Ordering::SeqCst);
    let refused = Leases::open(&location, runtime()).unwrap_err();
    assert!(refused.to_string().contains("If-Match"), "{refused}");
    let refused = SnapshotStore::open(&location, CLUSTER, runtime()).unwrap_err();
    assert!(refused.to_string().contains("If-None-Match"), "{refused}");
}

#[test]
fn bytes_that_a_store_leaves_out_are_damage_where_they_should_begin() {
    let (flaky, location) = flaky();
    let store = open(&location);
    let manifest = store.commit(whole(&store, &sample(1, 3, 20), 1, 1)).unwrap();
    let last = manifest.partitions.values().flatten().max_by_key(|part| part.offset).unwrap();
    assert!(last.offset > 0);
    flaky.mood.store(EMPTY, Ordering::SeqCst);
    // By itself, together with those beside it, and all that is in its object.
    let mut alone = manifest.clone();
    alone.partitions.retain(|partition, _| *partition == last.partition);
    alone.system.clear();
    let directory = tempfile::tempdir().unwrap();
    let backup = StoreLocation::new(directory.path().to_str().unwrap());
    for (read, at) in [
        (store.system_part(&manifest.system["coordinator"]).map(drop), 0),
        (store.restore(&alone, 1, &Collect::default()), last.offset),
        (store.export(1, &backup, &|_| {}).map(drop), 0),
    ] {
        assert!(matches!(&read, Err(SnapshotError::Damaged { offset, .. }) if *offset == at), "{at}: {read:?}");
    }
}
