//! One connection: frames in, frames out, and each kind of refusal told once. Over any stream of bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_util::codec::FramedRead;

use super::addresses::Counted;
use super::frame::{self, Frame, FrameDecoder, Header, Kind, ReadError, VERSION};
use super::hello::{Hello, Notice};
use super::outgoing::Outgoing;
use super::reason::{Counters, Reason, Refusal, add};

/// Space for what is read.
const INPUT_BYTES: usize = 128 << 10;
/// Time for a refused connection to read why.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream of bytes in both directions: TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection of two nodes.
pub(super) struct Connection {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// The other node's, which the authority has signed.
    pub(super) certificate: Option<CertificateDer<'static>>,
    /// Among those of the address that it was dialed from.
    pub(super) counted: Option<Counted>,
}

/// The receiving half.
pub(super) type Reader = FramedRead<ReadHalf<Box<dyn Stream>>, FrameDecoder>;

/// Waits for a frame. May be cancelled.
pub(super) async fn read(reader: &mut Reader) -> Result<Frame, ReadError> {
    reader.next().await.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()))
}

/// The sending half.
pub(super) struct Writer {
    stream: WriteHalf<Box<dyn Stream>>,
    outgoing: Outgoing,
    /// What was written may still be in the stream: TLS keeps what the system does not take.
    flushed: bool,
    counters: Arc<Counters>,
    /// Reasons that were told, by their bits.
    told: u32,
}

impl Connection {
    pub(super) fn new(stream: impl Stream + 'static, counters: Arc<Counters>, body_bytes_max: usize) -> Self {
        let (reader, writer) = tokio::io::split(Box::new(stream) as Box<dyn Stream>);
        let decoder = FrameDecoder::new(body_bytes_max, counters.clone());
        Connection {
            reader: FramedRead::with_capacity(reader, decoder, INPUT_BYTES),
            writer: Writer { stream: writer, outgoing: Outgoing::default(), flushed: true, counters, told: 0 },
            certificate: None,
            counted: None,
        }
    }

    /// Counts a refusal and tells the other node, the first time for each reason.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        let version = self.reader.decoder().version;
        self.writer.refuse(refusal, version);
    }

    /// Ends the connection so that the other node can still read why: a socket closed with bytes
    /// unread would take the last words back.
    pub(super) async fn close(mut self) {
        let last_words = async {
            self.writer.flush().await?;
            self.writer.stream.shutdown().await?;
            let (stream, mut rest) = (self.reader.get_mut(), vec![0; INPUT_BYTES]);
            while stream.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        // Whoever does not read them in time does not want to know.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, last_words).await;
    }
}

impl Writer {
    /// Puts a frame into the next write.
    pub(super) fn put(&mut self, header: &Header, body: &Bytes) {
        add(&self.counters.frames_sent, 1);
        self.outgoing.push(&header.encode(body), body);
    }

    /// Puts a frame without a number into the next write.
    pub(super) fn put_notice(&mut self, kind: Kind, generation: u64, ack: u64, body: Vec<u8>) {
        self.put(&Header { kind, flags: 0, generation, number: 0, ack }, &body.into());
    }

    pub(super) fn greet(&mut self, hello: &Hello) {
        self.put_notice(Kind::Hello, hello.generation, 0, hello.encode());
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal, version: u8) {
        self.counters.refuse(refusal.reason);
        if refusal.reason == Reason::Duplicate || self.told & refusal.reason.bit() != 0 {
            return;
        }
        self.told |= refusal.reason.bit();
        let body = Notice::encode(refusal);
        if version < VERSION {
            self.outgoing.push(&frame::refusal_in_version_1(&body), &Bytes::new());
        } else {
            self.put_notice(Kind::Refused, 0, 0, body);
        }
    }

    /// Writes as much as the system takes at once, and flushes when that is all; waits until that is something. May be
    /// cancelled.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        if self.waiting_bytes() == 0 {
            self.stream.flush().await?;
            self.flushed = true;
            return Ok(());
        }
        self.flushed = false;
        let taken = self.outgoing.write(&mut self.stream).await?;
        add(&self.counters.writes, 1);
        add(&self.counters.bytes_sent, taken as u64);
        Ok(())
    }

    /// Writes everything that waits.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.waits() {
            self.write().await?;
        }
        Ok(())
    }

    /// Whether something is still to be written.
    pub(super) fn waits(&self) -> bool {
        !self.flushed || self.waiting_bytes() > 0
    }

    /// Bytes that the system has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.outgoing.len()
    }
}
