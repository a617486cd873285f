//! Public interface of the transport: peers, messages to them, and the generation.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::Context;
use super::handshake;
use super::hello::Hello;
use super::inner::Inner;
use super::peer::LinkKind;
use super::reason::{Counters, Refusal};
use super::send_error::SendError;
use super::{Incoming, NodeId, Options};
use crate::listen::listen;

/// The connections of one node to all others. Ends when dropped.
pub struct Network {
    inner: Arc<Inner>,
    address: Option<SocketAddr>,
}

impl Network {
    /// Starts a node's network on the current runtime. `admit` decides who may connect
    /// ([`super::same_build`] if nothing else matters); `deliver` hears of everything that comes,
    /// on the runtime's threads or on one that sends: it must not wait, nor send by itself.
    pub async fn start(
        mut hello: Hello,
        options: Options,
        admit: impl Fn(&Hello, &Hello) -> Result<(), Refusal> + Send + Sync + 'static,
        deliver: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> io::Result<Network> {
        let listener = match options.listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        if hello.address.is_none() {
            hello.address = address.map(|address| address.to_string());
        }
        let context = Arc::new(Context {
            me: hello.node,
            options,
            counters: Arc::default(),
            deliver: Box::new(deliver),
            generation: AtomicU64::new(hello.generation),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        });
        let inner = Arc::new(Inner {
            context: context.clone(),
            admit: Box::new(admit),
            hello: RwLock::new(hello),
            peers: RwLock::default(),
        });
        if let Some(listener) = listener {
            context.spawn(handshake::accept(inner.clone(), listener));
        }
        Ok(Network { inner, address })
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Dials a peer at this address, and again whenever the connection is lost. One side of a pair
    /// is enough; if both dial, the connection of the higher id stays. Another address replaces the
    /// one before.
    pub fn connect(&self, peer: NodeId, address: impl Into<String>) {
        let address = address.into();
        self.inner.with_known(peer, |known| {
            match &known.dialing {
                Some((before, _)) if *before == address => return,
                Some((_, dialing)) => dialing.cancel(),
                None => {}
            }
            let stop = known.peer.stop.child_token();
            known.dialing = Some((address.clone(), stop.clone()));
            self.inner.context.spawn(handshake::dial(self.inner.clone(), known.peer.clone(), address, stop));
        });
    }

    /// Gives up the connection to a peer with all that was under way, even one whose other side is only
    /// silent, and dials it at another address: the peer is another process there.
    pub fn redirect(&self, peer: NodeId, address: impl Into<String>) {
        self.forget(peer);
        self.connect(peer, address);
    }

    /// Forgets a peer, its connection and all that was under way. It may connect again.
    pub fn forget(&self, peer: NodeId) {
        let mut peers = self.inner.peers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = peers.remove(&peer) {
            known.peer.stop.cancel();
        }
    }

    /// Sends a message of the current generation. Never waits: what cannot leave yet is kept.
    /// Messages to one peer arrive in order and once each, or the generation is broken.
    ///
    /// # Errors
    /// See [`SendError`]; the message was not taken.
    pub fn send(&self, peer: NodeId, body: impl Into<Bytes>) -> Result<(), SendError> {
        self.send_on(LinkKind::Data, peer, body.into())
    }

    /// Sends a message outside generations: what is said before there is one, and about new ones.
    /// In order and once each, as long as neither side starts anew; not ordered with
    /// [`Network::send`].
    ///
    /// # Errors
    /// See [`SendError`]; the message was not taken.
    pub fn send_control(&self, peer: NodeId, body: impl Into<Bytes>) -> Result<(), SendError> {
        self.send_on(LinkKind::Control, peer, body.into())
    }

    /// Sends a message outside generations if there is a connection to the peer. What is refused for want of
    /// one has certainly not arrived, where [`Network::send_control`] would keep it for later.
    ///
    /// # Errors
    /// See [`SendError`]; the message was not taken.
    pub fn send_control_now(&self, peer: NodeId, body: impl Into<Bytes>) -> Result<(), SendError> {
        let peers = self.inner.peers.read().unwrap_or_else(PoisonError::into_inner);
        let known = peers.get(&peer).ok_or(SendError::UnknownPeer(peer))?;
        if !*known.peer.connected.borrow() {
            return Err(SendError::NotConnected(peer));
        }
        known.peer.send(LinkKind::Control, body.into())
    }

    fn send_on(&self, link: LinkKind, peer: NodeId, body: Bytes) -> Result<(), SendError> {
        let peers = self.inner.peers.read().unwrap_or_else(PoisonError::into_inner);
        let known = peers.get(&peer).ok_or(SendError::UnknownPeer(peer))?;
        known.peer.send(link, body)
    }

    /// Begins a generation: messages of earlier ones, sent or received, are dropped from now on.
    /// Messages to peers that are not there yet wait for them. An earlier generation than the
    /// current one is ignored.
    pub fn set_generation(&self, generation: u64) {
        let peers = self.inner.peers.read().unwrap_or_else(PoisonError::into_inner);
        if self.inner.context.generation.fetch_max(generation, Ordering::AcqRel) < generation {
            for known in peers.values() {
                known.peer.begin(generation);
            }
        }
    }

    pub fn generation(&self) -> u64 {
        self.inner.context.generation.load(Ordering::Acquire)
    }

    /// Sets the digest of the deployment in greetings from now on.
    pub fn set_deployment(&self, digest: Option<String>) {
        self.inner.hello.write().unwrap_or_else(PoisonError::into_inner).deployment = digest;
    }

    /// Bytes that wait for a peer or for its acknowledgement, 64 for each message included.
    pub fn outstanding_bytes(&self, peer: NodeId) -> usize {
        let peers = self.inner.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or(0, |known| known.peer.held_bytes())
    }

    /// Nodes that are known: connected, dialed, or gone and not forgotten yet.
    pub fn peers(&self) -> usize {
        self.inner.peers.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Counters of what was sent, received and refused.
    pub fn counters(&self) -> &Counters {
        &self.inner.context.counters
    }

    /// Ends all connections and waits for the tasks. What was not acknowledged may be lost.
    pub async fn stop(self) {
        self.inner.context.stop.cancel();
        self.inner.context.tasks.close();
        self.inner.context.tasks.wait().await;
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.inner.context.stop.cancel();
    }
}
