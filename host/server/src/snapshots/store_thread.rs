//! The thread of a [manifest writer](styx_durability::manifests): one for each generation that takes snapshots, so that
//! one which is in the middle of something when its generation ends is waited for by nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use styx_driver::snapshots::{ManifestDraft, ManifestPut, StoreFailure};
use styx_durability::manifests::ManifestWriter;
use styx_durability::recovery::Found;
use styx_protocol::ids::{Generation, LogPosition};
use styx_protocol::record::Genesis;
use styx_storage::snapshot::SnapshotStore;

use super::options::SnapshotOptions;
use crate::clock::now;
use crate::fatal::fatal_on_panic;

/// What has become of an order.
#[derive(Debug)]
pub(crate) enum StoreReport {
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
        let stop = cut_short.clone();
        let SnapshotOptions { retention, components, .. } = options;
        let mut writer = ManifestWriter::new(store, genesis, generation, retention, found);
        let thread = std::thread::Builder::new().name("styx-snapshots".into()).spawn(move || {
            super::go_behind();
            fatal_on_panic("snapshots", move || {
                for order in inbox {
                    tell(match order {
                        Order::Put(draft) => StoreReport::Put(writer.put(*draft, &components, now())),
                        Order::Maintain => StoreReport::Maintained(
                            writer.maintain(&components, now(), &|| stop.load(Ordering::Relaxed)),
                        ),
                    });
                }
            });
        })?;
        Ok(StoreThread { orders: Some(orders), cut_short, thread: Some(thread) })
    }

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
