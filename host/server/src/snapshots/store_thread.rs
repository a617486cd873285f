//! The thread that puts manifests and tidies up behind them: one for each generation that takes snapshots, so that
//! one which is in the middle of something when its generation ends is waited for by nobody.
//!
//! It tries once and reports; the [scheduler](styx_driver::snapshots::SnapshotScheduler) decides what comes next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use styx_driver::snapshots::{ManifestDraft, ManifestPut, StoreFailure};
use styx_protocol::ids::{Generation, LogPosition};
use styx_protocol::record::Genesis;
use styx_storage::snapshot::{CompactionPolicy, Draft, PartRef, SnapshotError, SnapshotStore};

use super::delta_writer::decode_objects;
use super::failure::failure;
use super::metadata::{COMPONENT, METADATA, SnapshotMetadata};
use super::recovery_point::SnapshotOptions;
use super::restore::Found;
use crate::clock::now;
use crate::fatal::fatal_on_panic;

/// What has become of an order.
#[derive(Debug)]
pub(crate) enum StoreReport {
    /// Of a manifest.
    Put(Result<ManifestPut, StoreFailure>),
    /// Of maintenance: the log must be kept from a position on.
    Maintained(Result<Option<LogPosition>, StoreFailure>),
}

enum Order {
    Put(Box<ManifestDraft>),
    Maintain,
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct StoreThread {
    orders: Option<Sender<Order>>,
    cut_short: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    /// Starts it for a generation that began with `found`.
    pub(crate) fn start(
        store: SnapshotStore,
        options: SnapshotOptions,
        genesis: Genesis,
        generation: Generation,
        found: Option<&Found>,
        tell: impl Fn(StoreReport) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = unbounded();
        let cut_short = Arc::new(AtomicBool::new(false));
        let mut writer = ManifestWriter {
            store,
            options,
            genesis,
            generation,
            components: found.map(Found::components).unwrap_or_default(),
            metadata: None,
            cut_short: cut_short.clone(),
        };
        let thread = std::thread::Builder::new().name("styx-snapshots".into()).spawn(move || {
            fatal_on_panic("snapshots", move || {
                for order in inbox {
                    match order {
                        Order::Put(draft) => tell(StoreReport::Put(writer.put(*draft))),
                        Order::Maintain => tell(StoreReport::Maintained(writer.maintain())),
                    }
                }
            });
        })?;
        Ok(StoreThread { orders: Some(orders), cut_short, thread: Some(thread) })
    }

    /// Puts a manifest.
    pub(crate) fn put(&self, draft: Box<ManifestDraft>) {
        self.order(Order::Put(draft));
    }

    /// Merges deltas, and deletes what is too old.
    pub(crate) fn maintain(&self) {
        self.cut_short.store(false, Ordering::Relaxed);
        self.order(Order::Maintain);
    }

    /// What of the maintenance is not done may wait.
    pub(crate) fn cut_short(&self) {
        self.cut_short.store(true, Ordering::Relaxed);
    }

    /// Gives up what is under way, and waits for nothing.
    pub(crate) fn abandon(mut self) {
        self.thread = None;
    }

    fn order(&self, order: Order) {
        let orders = self.orders.as_ref().expect("it is open until it is dropped");
        orders.send(order).expect("the thread lives as long as its orders");
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.cut_short();
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic has ended the process.
            let _ = thread.join();
        }
    }
}

struct ManifestWriter {
    store: SnapshotStore,
    options: SnapshotOptions,
    genesis: Genesis,
    generation: Generation,
    /// Components that are in the store, by name.
    components: BTreeMap<String, PartRef>,
    /// Of a manifest that could not be put: the part that is there, and its epoch.
    metadata: Option<(u64, PartRef)>,
    cut_short: Arc<AtomicBool>,
}

impl ManifestWriter {
    fn put(&mut self, draft: ManifestDraft) -> Result<ManifestPut, StoreFailure> {
        assert_eq!(draft.generation, self.generation, "each generation has a thread of its own");
        let mut parts = Vec::new();
        for (worker, objects) in &draft.objects {
            let unreadable = |error| StoreFailure::Unreadable(*worker, format!("its list of objects: {error}"));
            parts.extend(decode_objects(objects).map_err(unreadable)?);
        }
        let mut system = self.write_components(&draft)?;
        system.push(self.write_metadata(&draft)?);
        let written_bytes = parts.iter().chain(&system).map(|part| part.bytes).sum();
        let draft = Draft {
            generation: self.generation.0,
            epoch: draft.header.epoch.0,
            builds_on: draft.builds_on.map(|epoch| epoch.0),
            state_hash: draft.state_hash.0,
            chain_hash: draft.header.chain.0,
            log_position: draft.log_position.0,
            created_us: now().0,
            parts,
            system,
        };
        let manifest = self.store.commit(draft).map_err(|error| failure(&error))?;
        self.metadata = None;
        Ok(ManifestPut { sequence: manifest.sequence, bytes: manifest.bytes(), written_bytes })
    }

    /// Every component that is deployed, so that a snapshot can be restored where nothing else is.
    fn write_components(&mut self, draft: &ManifestDraft) -> Result<Vec<PartRef>, StoreFailure> {
        let named: BTreeSet<_> = draft.header.catalog.components().collect();
        let mut parts = BTreeMap::new();
        for digest in named {
            let name = format!("{COMPONENT}{digest}");
            if !self.components.contains_key(&name) {
                let bytes = self.options.components.get(digest).map_err(|error| {
                    let what = format!("component {digest} of a deployment is not in the data directory: {error}");
                    StoreFailure::Fatal(what)
                })?;
                let part = self.write_system_part(&name, draft, &bytes)?;
                self.components.insert(name.clone(), part);
            }
            parts.insert(name.clone(), self.components[&name].clone());
        }
        self.components = parts;
        Ok(self.components.values().cloned().collect())
    }

    fn write_metadata(&mut self, draft: &ManifestDraft) -> Result<PartRef, StoreFailure> {
        let epoch = draft.header.epoch.0;
        if let Some((_, part)) = self.metadata.as_ref().filter(|(of, _)| *of == epoch) {
            return Ok(part.clone());
        }
        let metadata = SnapshotMetadata {
            genesis: self.genesis,
            header: draft.header.clone(),
            carried: draft.carried.clone(),
            hashes: draft.hashes.clone(),
        };
        let part = self.write_system_part(METADATA, draft, &metadata.encode())?;
        self.metadata = Some((epoch, part.clone()));
        Ok(part)
    }

    fn write_system_part(&self, name: &str, draft: &ManifestDraft, blob: &[u8]) -> Result<PartRef, StoreFailure> {
        let written = self.store.write_system_part(name, draft.header.epoch.0, self.generation.0, blob);
        written.map_err(|error| failure(&error))
    }

    fn maintain(&self) -> Result<Option<LogPosition>, StoreFailure> {
        let stop = || self.cut_short.load(Ordering::Relaxed);
        let policy = CompactionPolicy::default();
        let collected = self.store.compact(self.generation.0, &policy, now().0, &stop).and_then(|compacted| {
            if compacted.partitions > 0 {
                tracing::debug!(partitions = compacted.partitions, written = compacted.written_bytes, "deltas merged");
            }
            self.store.collect(self.options.retention, now().0)
        });
        match collected {
            Ok(collected) => Ok(collected.log_position.map(LogPosition)),
            Err(SnapshotError::Stopped) => Err(StoreFailure::Stopped),
            Err(error) => Err(failure(&error)),
        }
    }
}
