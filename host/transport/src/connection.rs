//! One TCP connection: frames in and out without waiting, and each kind of refusal told once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use super::NodeId;
use super::decoder::Decoder;
use super::frame::{Frame, Header, Kind, checksum};
use super::hello::{Hello, Notice};
use super::outgoing::Outgoing;
use super::reason::{Counters, Reason, Refusal, add};

/// Read at once.
const INPUT_BYTES: usize = 128 << 10;
/// How long a refused connection may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection of two nodes.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    me: NodeId,
    counters: Arc<Counters>,
    decoder: Decoder,
    input: Box<[u8]>,
    /// The part of `input` that is not decoded yet.
    unread: std::ops::Range<usize>,
    outgoing: Outgoing,
    /// The system has not taken all that there was.
    congested: bool,
    /// Reasons that were told, by their bits.
    told: u32,
    /// Something has arrived since this was last cleared.
    pub(super) heard: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, me: NodeId, counters: Arc<Counters>, body_bytes_max: usize) -> Self {
        // Small messages must not wait for each other; the cost of failing is only time.
        drop(stream.set_nodelay(true));
        Connection {
            stream,
            me,
            counters,
            decoder: Decoder::new(body_bytes_max),
            input: vec![0; INPUT_BYTES].into(),
            unread: 0..0,
            outgoing: Outgoing::default(),
            congested: false,
            told: 0,
            heard: false,
        }
    }

    /// Puts a frame of payload bytes whose checksum is known into the next write.
    pub(super) fn put(&mut self, header: &Header, body: &Bytes, checksum: u64) {
        add(&self.counters.frames_sent, 1);
        self.outgoing.push(&header.encode(body.len() as u32, checksum), body);
    }

    /// Puts a frame without a payload into the next write.
    pub(super) fn put_notice(&mut self, kind: Kind, generation: u64, ack: u64, body: Vec<u8>) {
        let sum = checksum(&body);
        self.put(&Header { kind, flags: 0, generation, sender: self.me, number: 0, ack }, &body.into(), sum);
    }

    pub(super) fn greet(&mut self, hello: &Hello) {
        self.put_notice(Kind::Hello, hello.generation, 0, hello.encode());
    }

    /// Counts a refusal and tells the other node, the first time for each reason.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        self.counters.refuse(refusal.reason);
        if refusal.reason == Reason::Duplicate || self.told & refusal.reason.bit() != 0 {
            return;
        }
        self.told |= refusal.reason.bit();
        self.put_notice(Kind::Refused, 0, 0, Notice::encode(refusal));
    }

    /// The next frame of what was read; none when more must be read.
    pub(super) fn next(&mut self) -> Option<Result<Frame, Refusal>> {
        let mut input = &self.input[self.unread.clone()];
        let decoded = self.decoder.next(&mut input);
        self.unread.start = self.unread.end - input.len();
        if matches!(decoded, Some(Ok(_))) {
            add(&self.counters.frames_received, 1);
        }
        decoded
    }

    /// Reads what has arrived, if anything; everything read before must have been decoded.
    ///
    /// # Errors
    /// The connection is broken or has ended.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        debug_assert!(self.unread.is_empty());
        match self.stream.try_read(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                self.arrived(bytes);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn arrived(&mut self, bytes: usize) {
        self.heard = true;
        self.unread = 0..bytes;
        add(&self.counters.bytes_received, bytes as u64);
    }

    /// Whether the stream ended between frames.
    pub(super) fn finish(&self) -> Result<(), Refusal> {
        self.decoder.finish()
    }

    /// Writes as much as the system takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.outgoing.write(|slices| self.stream.try_write_vectored(slices)) {
                Ok(bytes) => {
                    add(&self.counters.writes, 1);
                    add(&self.counters.bytes_sent, bytes as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.congested = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.congested = false;
        Ok(())
    }

    /// Whether the network is slower than this node: something that it was given still waits.
    pub(super) fn is_congested(&self) -> bool {
        self.congested
    }

    /// Bytes that the system has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Waits until there is something to read, or room for what waits.
    pub(super) async fn ready(&self) {
        let interest =
            if self.outgoing.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        // An error shows again where the stream is used next.
        drop(self.stream.ready(interest).await);
    }

    /// Waits for one frame. For greetings; afterwards nothing waits.
    ///
    /// # Errors
    /// `Ok(Err(_))` if what came is refused; `Err(_)` if the connection broke.
    pub(super) async fn first(&mut self) -> io::Result<Result<Frame, Refusal>> {
        loop {
            if let Some(decoded) = self.next() {
                return Ok(decoded);
            }
            let bytes = self.stream.read(&mut self.input).await?;
            if bytes == 0 {
                return self.finish().map_or_else(|cut| Ok(Err(cut)), |()| Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.arrived(bytes);
        }
    }

    /// Writes everything that waits.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        loop {
            self.write()?;
            if self.outgoing.is_empty() {
                return Ok(());
            }
            self.stream.writable().await?;
        }
    }

    /// Ends the connection so that the other node can still read why: a socket closed with bytes
    /// unread would take the last words back.
    pub(super) async fn farewell(mut self) {
        let words = async {
            self.flush().await?;
            self.stream.shutdown().await?;
            while self.stream.read(&mut self.input).await? > 0 {}
            io::Result::Ok(())
        };
        drop(tokio::time::timeout(FAREWELL, words).await);
    }
}
