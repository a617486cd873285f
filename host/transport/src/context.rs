//! Context: what all tasks of a network share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::reason::Counters;
use super::{Incoming, NodeId, Options};

/// State that all tasks of a network share.
pub(super) struct Context {
    pub(super) me: NodeId,
    pub(super) options: Options,
    pub(super) counters: Arc<Counters>,
    pub(super) deliver: Box<dyn Fn(Incoming) + Send + Sync>,
    pub(super) generation: AtomicU64,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

impl Context {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }
}
