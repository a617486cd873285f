//! How a connection begins: dialing again and again, accepting, and the greetings.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::frame::{self, Frame, Header, Kind};
use super::hello::{Hello, Notice};
use super::network::Inner;
use super::peer::{Adoption, Command, Peer};
use super::reason::{Reason, Refusal, add};
use super::{Incoming, NodeId};

/// For how long dialing in vain is nothing to tell people.
const QUIET: Duration = Duration::from_secs(1);

/// Accepts connections until the network stops.
pub(super) async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let strangers = Arc::new(Semaphore::new(inner.context.options.strangers_max));
    loop {
        let accepted = tokio::select! {
            () = inner.context.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: the next attempt may have one.
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(inner.context.options.redial_min).await;
                continue;
            }
        };
        let Ok(place) = strangers.clone().try_acquire_owned() else {
            inner.context.counters.refuse(Reason::TooManyConnections);
            let words = "too many connections have not greeted yet; try again later";
            let refusal = Refusal::new(Reason::TooManyConnections, words);
            let header =
                Header { kind: Kind::Refused, flags: 0, generation: 0, sender: inner.context.me, number: 0, ack: 0 };
            drop(stream.try_write(&frame::encode(&header, &Notice::encode(&refusal))));
            continue;
        };
        let inner = inner.clone();
        inner.context.clone().spawn(async move {
            let mut connection = inner.connection(stream);
            let greeted = welcome(&inner, &mut connection).await;
            drop(place);
            match greeted {
                Ok(Ok((peer, hello))) => {
                    let dialer = peer.id;
                    let adoption = Adoption { connection, hello, dialer, settled: None };
                    drop(peer.commands.send(Command::Adopt(Box::new(adoption))));
                }
                Ok(Err(refusal)) => {
                    if refusal.reason.is_ordinary() {
                        tracing::debug!(%from, reason = refusal.reason.name(), "refused: {}", refusal.message)
                    } else {
                        tracing::warn!(%from, reason = refusal.reason.name(), "refused: {}", refusal.message)
                    }
                    connection.refuse(&refusal);
                    connection.farewell().await;
                }
                Err(error) => tracing::debug!(%from, "a connection ended before its greeting: {error}"),
            }
        });
    }
}

/// Greets whoever has connected, if this node wants it.
async fn welcome(inner: &Inner, connection: &mut Connection) -> io::Result<Result<(Arc<Peer>, Hello), Refusal>> {
    let (hello, mine) = match first(inner, connection).await? {
        Ok(frame) if frame.header.kind == Kind::Hello => match Hello::decode(&frame.body) {
            Ok(hello) if hello.node == frame.header.sender => (hello, inner.hello()),
            Ok(hello) => {
                let message = format!("sender: the greeting says {}, its frame {}", hello.node, frame.header.sender);
                return Ok(Err(Refusal::new(Reason::WrongSender, message)));
            }
            Err(refusal) => return Ok(Err(refusal)),
        },
        Ok(frame) => {
            let message = format!("a {:?} frame before the greeting", frame.header.kind);
            return Ok(Err(Refusal::new(Reason::NotGreeted, message)));
        }
        Err(refusal) => return Ok(Err(refusal)),
    };
    if hello.node == mine.node {
        let message = format!("node: mine {}, yours {}; every node needs an id of its own", mine.node, hello.node);
        return Ok(Err(Refusal::new(Reason::WrongNode, message)));
    }
    if let Err(refusal) = (inner.admit)(&mine, &hello) {
        return Ok(Err(refusal));
    }
    let Some(peer) = inner.peer(hello.node) else {
        return Err(io::Error::other("the network stops"));
    };
    connection.greet(&Hello { session: peer.session, ..mine });
    Ok(Ok((peer, hello)))
}

/// The first frame, if it comes in time.
async fn first(inner: &Inner, connection: &mut Connection) -> io::Result<Result<Frame, Refusal>> {
    let limit = inner.context.options.hello_timeout;
    tokio::time::timeout(limit, connection.first()).await.unwrap_or_else(|_| {
        let message = format!("no greeting within {} ms", limit.as_millis());
        Ok(Err(Refusal::new(Reason::HelloTimeout, message)))
    })
}

/// Keeps a peer connected until `stop`.
pub(super) async fn dial(inner: Arc<Inner>, peer: Arc<Peer>, address: String, stop: CancellationToken) {
    let pauses = ExponentialBuilder::new()
        .with_min_delay(inner.context.options.redial_min)
        .with_max_delay(inner.context.options.redial_max)
        .with_jitter()
        .without_max_times();
    let mut pause = pauses.build();
    let (mut said, mut failing) = (String::new(), None);
    let mut connected = peer.connected.subscribe();
    let dialing = async {
        loop {
            drop(connected.wait_for(|connected| !connected).await);
            match attempt(&inner, &peer, &address).await {
                Ok(()) => {
                    said.clear();
                    failing = None;
                    pause = pauses.build();
                }
                // A start takes a moment, and who has several addresses to try gives each a moment only.
                Err(refused) if failing.get_or_insert_with(Instant::now).elapsed() < QUIET => {
                    tracing::debug!(peer = %peer.id, address, "{refused}");
                }
                Err(refused) if refused != said => {
                    tracing::warn!(peer = %peer.id, address, "{refused}; dialing on");
                    said = refused;
                }
                Err(_) => {}
            }
            tokio::time::sleep(pause.next().unwrap_or(inner.context.options.redial_max)).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = dialing => {}
    }
}

/// Dials once. Ok: the peer's task has the connection, or has refused it for a better one. Otherwise the node has
/// been told.
async fn attempt(inner: &Inner, peer: &Peer, address: &str) -> Result<(), String> {
    let failed = |error: io::Error| {
        let why = format!("no connection to {address}: {error}");
        let gone = error.kind() == io::ErrorKind::ConnectionRefused;
        (inner.context.deliver)(Incoming::Unreached { peer: peer.id, gone, why: why.clone() });
        why
    };
    let limit = inner.context.options.hello_timeout;
    let stream = tokio::time::timeout(limit, TcpStream::connect(address))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(failed)?;
    let mut connection = inner.connection(stream);
    connection.greet(&Hello { session: peer.session, ..inner.hello() });
    connection.flush().await.map_err(failed)?;
    let hello = match first(inner, &mut connection).await.map_err(failed)? {
        Ok(frame) if frame.header.kind == Kind::Refused => {
            let Notice { reason, message } = Notice::decode(&frame.body);
            let told = format!("{address} refuses this node: {message}");
            add(&inner.context.counters.told, 1);
            (inner.context.deliver)(Incoming::Refused { peer: peer.id, reason, message });
            return Err(told);
        }
        Ok(frame) => answered(peer.id, &frame),
        Err(refusal) => Err(refusal),
    };
    match hello {
        Ok(hello) => {
            let (settled, settling) = oneshot::channel();
            let dialer = inner.context.me;
            let adoption = Adoption { connection, hello, dialer, settled: Some(settled) };
            drop(peer.commands.send(Command::Adopt(Box::new(adoption))));
            drop(settling.await);
            Ok(())
        }
        Err(refusal) => {
            connection.refuse(&refusal);
            inner.context.spawn(connection.farewell());
            let why = format!("{address} is of no use: {}", refusal.message);
            (inner.context.deliver)(Incoming::Unreached { peer: peer.id, gone: false, why: why.clone() });
            Err(why)
        }
    }
}

/// The greeting of the node that was dialed.
fn answered(dialed: NodeId, frame: &Frame) -> Result<Hello, Refusal> {
    if frame.header.kind != Kind::Hello {
        let message = format!("a {:?} frame before the greeting", frame.header.kind);
        return Err(Refusal::new(Reason::NotGreeted, message));
    }
    let hello = Hello::decode(&frame.body)?;
    if hello.node != dialed || frame.header.sender != dialed {
        let message = format!("node: dialed {dialed}, answered {}; is the address another node's?", hello.node);
        return Err(Refusal::new(Reason::WrongNode, message));
    }
    Ok(hello)
}
