//! Serving a router on a listener: HTTP/1.1 with time limits per connection, and a shutdown that
//! lets what is under way come to its end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::linger::Lingering;
use super::{Addresses, Tls};

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Bounds on connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Connections open at once; more wait to be accepted.
    pub open_max: usize,
    /// Those of each address; more are closed.
    pub addresses: Addresses,
    /// How long a request's head may take, and how long a connection may be idle.
    pub head: Duration,
    /// How long a client may leave unread what is sent to it.
    pub unread: Duration,
    /// How long connections stay open after a shutdown has begun: whoever uses one meanwhile is told to close
    /// it, where closing it here could meet a request that is on its way.
    pub linger: Duration,
    /// How long a shutdown waits for what is under way after that.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            open_max: 10_000,
            addresses: Addresses::new(1_000),
            head: Duration::from_secs(75),
            unread: Duration::from_secs(60),
            linger: Duration::from_millis(250),
            drain: Duration::from_secs(10),
        }
    }
}

/// Tells everything that serves to come to its end, and waits for it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    open: TaskTracker,
}

impl Shutdown {
    /// Begins the end.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Returns true if the end has begun.
    pub fn begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Completes when the end begins.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Completes when the end begins; owns what it needs.
    pub fn wait_owned(&self) -> impl Future<Output = ()> + Send + use<> {
        self.token.clone().cancelled_owned()
    }

    /// Counts a connection for as long as the guard lives.
    pub fn count(&self) -> impl Send + use<> {
        self.open.token()
    }
}

/// Serves `router`, over TLS if there is `tls`, until `shutdown` begins. Then new connections are refused, open ones are
/// used up, and requests and WebSockets finish, for at most [`ConnectionLimits::linger`] and [`ConnectionLimits::drain`].
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: Shutdown,
    limits: ConnectionLimits,
    tls: Option<Tls>,
) {
    let router = router.layer(from_fn_with_state(shutdown.clone(), last));
    let tls = tls.map(|tls| tls.accept(&shutdown));
    let slots = Arc::new(Semaphore::new(limits.open_max));
    let take = |stream: TcpStream, from: SocketAddr, slot: OwnedSemaphorePermit| {
        let Some(counted) = limits.addresses.admit(from.ip()) else {
            tracing::debug!(%from, "too many connections from there");
            return;
        };
        let (limits, held, peer) = (limits.clone(), (slot, counted), Peer(from.ip()));
        let (tls, router, shutdown) = (tls.clone(), router.clone(), shutdown.clone());
        let open = shutdown.count();
        tokio::spawn(async move {
            take(stream, held, peer, router, &shutdown, &limits, tls).await;
            drop(open);
        });
    };
    loop {
        let accept = async {
            let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
            (listener.accept().await, slot)
        };
        let (accepted, slot) = tokio::select! {
            accepted = accept => accepted,
            () = shutdown.wait() => break,
        };
        match accepted {
            Ok((stream, from)) => take(stream, from, slot),
            Err(error) => {
                // Out of file descriptors, or a client that is gone already: go on, but not hot.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    // To their clients those that wait are connected, and closing the listener would reset them with what was sent.
    if let Ok(listener) = listener.into_std() {
        while let (Ok(slot), Ok((stream, from))) = (slots.clone().try_acquire_owned(), listener.accept()) {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = stream {
                take(stream, from, slot);
            }
        }
    }
    shutdown.open.close();
    if tokio::time::timeout(limits.linger + limits.drain, shutdown.open.wait()).await.is_err() {
        tracing::warn!("some clients did not finish in time and are cut off");
    }
}

/// Has one client's connection, from its first byte to its last.
async fn take(
    stream: TcpStream,
    held: impl Send + Unpin + 'static,
    peer: Peer,
    router: Router,
    shutdown: &Shutdown,
    limits: &ConnectionLimits,
    tls: Option<TlsAcceptor>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY refused");
    }
    if let Err(error) = set_user_timeout(&stream, limits.unread) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT refused");
    }
    #[cfg(debug_assertions)]
    super::leak::connection(&stream);
    let Some(tls) = tls else {
        return converse(Lingering::new(stream, held), peer, router, shutdown, limits).await;
    };
    match tokio::time::timeout(limits.head, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(Lingering::new(stream, held), peer, router, shutdown, limits).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection is no TLS that is taken here"),
        Err(_) => tracing::debug!("a client did not shake hands in time"),
    }
}

/// Answers what comes on one connection.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    router: Router,
    shutdown: &Shutdown,
    limits: &ConnectionLimits,
) {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(64 << 10).half_close(true);
    let service = router.map_request(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request
    });
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).with_upgrades();
    let end = async {
        shutdown.wait().await;
        tokio::time::sleep(limits.linger).await;
    };
    let (mut connection, mut end) = (pin!(connection), pin!(end));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = end.as_mut() => {
            // The request under way is answered; no other is read.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Has the system close a connection whose other side takes nothing for so long.
fn set_user_timeout(stream: &TcpStream, time: Duration) -> io::Result<()> {
    let milliseconds = time.as_millis() as libc::c_uint;
    let (value, size) = (&raw const milliseconds, size_of_val(&milliseconds) as libc::socklen_t);
    // SAFETY: the socket is open, and the call reads one integer, of a local that outlives it.
    let failed =
        unsafe { libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, value.cast(), size) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Once the end has begun, each connection's next answer is its last.
async fn last(State(shutdown): State<Shutdown>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    #[cfg(debug_assertions)]
    super::leak::request();
    if shutdown.begun() && !response.status().is_informational() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
