//! A connection whose bytes are on an account from when they come until a message of them is taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::handle::Answers;

/// See the module. Where there is no room for what comes, reading fails with [`io::ErrorKind::OutOfMemory`].
pub struct Metered {
    io: TokioIo<Upgraded>,
    /// Of the connection.
    answers: Arc<Answers>,
    untaken: usize,
}

impl Metered {
    /// A connection of which nothing has been read.
    pub fn new(upgraded: Upgraded, answers: Arc<Answers>) -> Self {
        Metered { io: TokioIo::new(upgraded), answers, untaken: 0 }
    }

    /// A message has been taken. Bytes of the next one may be there, at most as many as are read at once.
    pub fn taken(&mut self) {
        self.answers.account.shrink(std::mem::take(&mut self.untaken));
    }
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, into))?;
        let came = into.filled().len() - before;
        if !self.answers.account.grow(came) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        self.untaken += came;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
