//! Begin of a connection: dialing again and again, accepting, and the greetings.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::FutureExt;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::addresses::Addresses;
use super::connection::{CLOSE_TIMEOUT, Connection, read};
use super::frame::{Frame, Kind, ReadError};
use super::hello::{Hello, Notice};
use super::inner::Inner;
use super::peer::{Adoption, Peer};
use super::reason::{Reason, Refusal, add};
use super::tls::{self, FIRST_BYTE};
use super::{Incoming, NodeId};

/// For how long dialing in vain is nothing to tell people.
const QUIET: Duration = Duration::from_secs(1);

/// Accepts connections until the network stops.
pub(super) async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let unauthenticated = Arc::new(Semaphore::new(inner.context.options.unauthenticated_max));
    let addresses = Addresses::new(inner.context.options.connections_per_address);
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
        // Small messages must not wait for each other; the cost of failing is only time.
        let _ = stream.set_nodelay(true);
        let turn_away = |words: &str, stream| {
            let mut connection = inner.connection(stream);
            connection.refuse(&Refusal::new(Reason::TooManyConnections, words));
            // Whatever the system takes at once: nobody is waited for. Who speaks TLS takes it for a broken connection.
            let _ = connection.writer.write().now_or_never();
        };
        let Ok(permit) = unauthenticated.clone().try_acquire_owned() else {
            turn_away("too many connections have not greeted yet; try again later", stream);
            continue;
        };
        let Some(counted) = addresses.admit(from.ip()) else {
            turn_away("too many connections come from your address", stream);
            continue;
        };
        let inner = inner.clone();
        inner.context.clone().spawn(async move {
            let Some(mut connection) = secure(&inner, stream, from).await else { return };
            connection.counted = Some(counted);
            let greeted = welcome(&inner, &mut connection).await;
            drop(permit);
            match greeted {
                Ok((peer, hello)) => {
                    let dialer = peer.id;
                    peer.adopt(Adoption { connection, hello, dialer, settled: None });
                }
                Err(ReadError::Refused(refusal)) => {
                    if refusal.reason.is_ordinary() {
                        tracing::debug!(%from, reason = refusal.reason.name(), "refused: {}", refusal.message);
                    } else {
                        tracing::warn!(%from, reason = refusal.reason.name(), "refused: {}", refusal.message);
                    }
                    connection.refuse(&refusal);
                    connection.close().await;
                }
                Err(ReadError::Io(error)) => tracing::debug!(%from, "a connection ended before its greeting: {error}"),
            }
        });
    }
}

/// The connection over an accepted stream, after the handshake of TLS where this node has certificates. None if that
/// failed; the other side has been told.
async fn secure(inner: &Inner, stream: TcpStream, from: SocketAddr) -> Option<Connection> {
    let Some(certificates) = &inner.context.options.certificates else { return Some(inner.connection(stream)) };
    let handshake = async {
        let mut first = [FIRST_BYTE];
        stream.peek(&mut first).await?;
        // Whoever speaks plainly is told so plainly.
        if first[0] != FIRST_BYTE {
            return Ok(Err(inner.connection(stream)));
        }
        match certificates.acceptor.accept(tls::read_ahead(stream)).into_fallible().await {
            Ok(mut stream) => {
                stream.get_mut().1.set_buffer_limit(tls::WRITE_BYTES);
                Ok(Ok(stream))
            }
            Err((error, stream)) => {
                inner.context.spawn(hear_out(stream));
                Err(error)
            }
        }
    };
    let limit = inner.context.options.hello_timeout;
    let shaken = tokio::time::timeout(limit, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match shaken {
        Ok(Ok(stream)) => {
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
            let mut connection = inner.connection(stream);
            connection.certificate = certificate.map(CertificateDer::into_owned);
            Some(connection)
        }
        Ok(Err(mut plain)) => {
            let words = "this cluster speaks TLS, and you do not: start the node with --cluster-tls";
            let refusal = Refusal::new(Reason::NotEncrypted, words);
            tracing::warn!(%from, reason = refusal.reason.name(), "refused: it does not speak TLS");
            plain.refuse(&refusal);
            plain.close().await;
            None
        }
        Err(error) => {
            let reason = Reason::BadCertificate;
            inner.context.counters.refuse(reason);
            tracing::warn!(%from, reason = reason.name(), "refused: the TLS handshake failed: {error}");
            None
        }
    }
}

/// Ends a stream so that the other side can still read why: closed with bytes unread, it would take the last words back.
async fn hear_out(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let last_words = async {
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Whoever does not read them in time does not want to know.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, last_words).await;
}

/// Checks that the other node has a certificate for what it says that it is, where there is TLS.
fn certified(connection: &Connection, hello: &Hello) -> Result<(), Refusal> {
    let Some(certificate) = &connection.certificate else { return Ok(()) };
    tls::certified(certificate, hello.kind, hello.node)
}

/// Greets the node that has connected, if this node wants it.
async fn welcome(inner: &Inner, connection: &mut Connection) -> Result<(Arc<Peer>, Hello), ReadError> {
    let (hello, mine) = (greeting(first(inner, connection).await?)?, inner.hello());
    if hello.node == mine.node {
        let message = format!("node: mine {}, yours {}; every node needs an id of its own", mine.node, hello.node);
        return Err(Refusal::new(Reason::WrongNode, message).into());
    }
    certified(connection, &hello)?;
    (inner.admit)(&mine, &hello)?;
    let peer = inner.greeted(hello.node)?;
    connection.writer.greet(&Hello { session: peer.session, ..mine });
    Ok((peer, hello))
}

/// The first frame, if it comes in time.
async fn first(inner: &Inner, connection: &mut Connection) -> Result<Frame, ReadError> {
    let limit = inner.context.options.hello_timeout;
    tokio::time::timeout(limit, read(&mut connection.reader)).await.unwrap_or_else(|_| {
        let message = format!("no greeting within {} ms", limit.as_millis());
        Err(Refusal::new(Reason::HelloTimeout, message).into())
    })
}

/// The greeting that a first frame must be.
fn greeting(frame: Frame) -> Result<Hello, Refusal> {
    if frame.header.kind != Kind::Hello {
        let message = format!("a {:?} frame before the greeting", frame.header.kind);
        return Err(Refusal::new(Reason::NotGreeted, message));
    }
    Hello::decode(&frame.body)
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
            // The peer, which this task holds, has the sender.
            let _ = connected.wait_for(|connected| !connected).await;
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
    // Small messages must not wait for each other; the cost of failing is only time.
    let _ = stream.set_nodelay(true);
    let mut connection = match &inner.context.options.certificates {
        None => inner.connection(stream),
        Some(certificates) => {
            let shaken = certificates.connector.connect(tls::server_name(peer.id), tls::read_ahead(stream));
            let shaken = tokio::time::timeout(limit, shaken).await;
            let mut stream = shaken
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(|error| failed(io::Error::other(format!("the TLS handshake failed: {error}"))))?;
            stream.get_mut().1.set_buffer_limit(tls::WRITE_BYTES);
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
            let mut connection = inner.connection(stream);
            connection.certificate = certificate.map(CertificateDer::into_owned);
            connection
        }
    };
    connection.writer.greet(&Hello { session: peer.session, ..inner.hello() });
    connection.writer.flush().await.map_err(failed)?;
    let hello = match first(inner, &mut connection).await {
        Ok(frame) if frame.header.kind == Kind::Refused => {
            let Notice { reason, message } = Notice::decode(&frame.body);
            let told = format!("{address} refuses this node: {message}");
            add(&inner.context.counters.told, 1);
            (inner.context.deliver)(Incoming::Refused { peer: peer.id, reason, message });
            return Err(told);
        }
        Ok(frame) => greeting(frame).and_then(|hello| {
            certified(&connection, &hello)?;
            expected(peer.id, hello)
        }),
        Err(ReadError::Refused(refusal)) => Err(refusal),
        Err(ReadError::Io(error)) => return Err(failed(error)),
    };
    match hello {
        Ok(hello) => {
            let (settled, settling) = oneshot::channel();
            let dialer = inner.context.me;
            // Dropped without an answer if the peer has been forgotten meanwhile.
            peer.adopt(Adoption { connection, hello, dialer, settled: Some(settled) });
            let _ = settling.await;
            Ok(())
        }
        Err(refusal) => {
            connection.refuse(&refusal);
            inner.context.spawn(connection.close());
            let why = format!("{address} is of no use: {}", refusal.message);
            (inner.context.deliver)(Incoming::Unreached { peer: peer.id, gone: false, why: why.clone() });
            Err(why)
        }
    }
}

/// Checks that the dialed node has answered.
fn expected(dialed: NodeId, hello: Hello) -> Result<Hello, Refusal> {
    if hello.node != dialed {
        let message = format!("node: dialed {dialed}, answered {}; is the address another node's?", hello.node);
        return Err(Refusal::new(Reason::WrongNode, message));
    }
    Ok(hello)
}
