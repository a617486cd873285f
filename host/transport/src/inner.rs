//! A network without its owner: the peers that it knows, for its public interface and for tasks that connect them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use super::NodeId;
use super::connection::{Connection, Stream};
use super::context::Context;
use super::frame::ReadError;
use super::hello::Hello;
use super::peer::{Peer, Task};
use super::reason::{Reason, Refusal};

/// Decides whether a node that has connected is welcome: this node's greeting, then the other's.
pub type Admit = dyn Fn(&Hello, &Hello) -> Result<(), Refusal> + Send + Sync;

/// A peer, and the task that keeps it dialed.
pub(super) struct Known {
    pub(super) peer: Arc<Peer>,
    pub(super) dialing: Option<(String, CancellationToken)>,
}

/// A network without its owner: what tasks hold.
pub(super) struct Inner {
    pub(super) context: Arc<Context>,
    pub(super) admit: Box<Admit>,
    pub(super) hello: RwLock<Hello>,
    pub(super) peers: RwLock<BTreeMap<NodeId, Known>>,
}

impl Inner {
    pub(super) fn hello(&self) -> Hello {
        let hello = self.hello.read().unwrap_or_else(PoisonError::into_inner).clone();
        Hello { generation: self.context.generation.load(Ordering::Acquire), ..hello }
    }

    pub(super) fn connection(&self, stream: impl Stream + 'static) -> Connection {
        let Context { counters, options, .. } = &*self.context;
        Connection::new(stream, counters.clone(), options.body_bytes_max)
    }

    /// The peer of this id, which has greeted, from now on at least.
    ///
    /// # Errors
    /// It is one too many, or the network stops.
    pub(super) fn greeted(&self, id: NodeId) -> Result<Arc<Peer>, ReadError> {
        if !self.has_room_for(id) {
            return Err(Refusal::new(Reason::TooManyConnections, "too many nodes are connected here").into());
        }
        let known = self.with_known(id, |known| known.peer.clone());
        known.ok_or_else(|| io::Error::other("the network stops").into())
    }

    /// Whether another peer may be known. If it is one too many, those are forgotten that are neither connected nor dialed, as
    /// they would be if this process had begun anew.
    fn has_room_for(&self, id: NodeId) -> bool {
        let peers_max = self.context.options.peers_max;
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if peers.len() < peers_max || peers.contains_key(&id) {
            return true;
        }
        peers.retain(|_, known| {
            let stays = known.dialing.is_some() || *known.peer.connected.borrow();
            if !stays {
                known.peer.stop.cancel();
            }
            stays
        });
        peers.len() < peers_max
    }

    /// Does something with the peer of this id; `None` if the network stops.
    pub(super) fn with_known<R>(&self, id: NodeId, run: impl FnOnce(&mut Known) -> R) -> Option<R> {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if self.context.stop.is_cancelled() {
            return None;
        }
        let known = match peers.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                // Under the lock: a new generation reaches either this line or the queue.
                let generation = self.context.generation.load(Ordering::Acquire);
                let peer = Arc::new(Peer::new(id, self.context.clone(), generation));
                self.context.spawn(Task::new(peer.clone()).run());
                entry.insert(Known { peer, dialing: None })
            }
        };
        Some(run(known))
    }
}
