//! The end of a connection: what the client still sends is taken in for a while.
//!
//! A socket that is closed with bytes unread resets the connection, which takes the answer back that the client has not
//! read yet: whoever is refused in the middle of a body would see a broken pipe instead of the reason.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// For how long a client may go on sending after the last answer, and be silent meanwhile.
const TIME_MAX: Duration = Duration::from_secs(5);
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// A stream that is read to its end, within bounds, when whoever has it ends their side and drops it.
pub struct Lingering<S: Linger, G: Send + 'static> {
    /// With what is held for as long as it is open.
    open: Option<(S, G)>,
    /// Our side was ended in good order, and the other's has not been seen to end.
    lingers: bool,
    ended: bool,
}

/// What can linger.
pub trait Linger: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Linger for S {}

impl<S: Linger, G: Send + 'static> Lingering<S, G> {
    /// `held` is dropped with the stream.
    pub fn new(stream: S, held: G) -> Self {
        Lingering { open: Some((stream, held)), lingers: false, ended: false }
    }

    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(&mut self.open.as_mut().expect("it is open until it is dropped").0)
    }
}

impl<S: Linger, G: Send + 'static> Drop for Lingering<S, G> {
    fn drop(&mut self) {
        let (true, Some((mut stream, held)), Ok(runtime)) = (self.lingers, self.open.take(), Handle::try_current())
        else {
            return;
        };
        let rest = async move {
            let mut taken = vec![0; 16 << 10];
            while let Ok(Ok(1..)) = timeout(SILENCE_MAX, stream.read(&mut taken)).await {}
        };
        runtime.spawn(async move {
            // Who is not done by then has been told for long.
            let _ = timeout(TIME_MAX, rest).await;
            drop(held);
        });
    }
}

impl<S: Linger, G: Send + Unpin + 'static> AsyncRead for Lingering<S, G> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (room, before) = (into.remaining(), into.filled().len());
        let read = self.stream().poll_read(context, into);
        match &read {
            // Nothing was read though there was room for it, or nothing can be: the other side has ended.
            Poll::Ready(Ok(())) => self.ended |= room > 0 && into.filled().len() == before,
            Poll::Ready(Err(_)) => self.ended = true,
            Poll::Pending => {}
        }
        self.lingers &= !self.ended;
        read
    }
}

impl<S: Linger, G: Send + Unpin + 'static> AsyncWrite for Lingering<S, G> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.open.as_ref().is_some_and(|(stream, _)| stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = self.stream().poll_shutdown(context);
        if matches!(shut, Poll::Ready(Ok(()))) {
            self.lingers = !self.ended;
        }
        shut
    }
}
