//! The links to a peer, and the sending half of the connection of the moment. Without a connection they keep what is to be
//! sent.

use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use styx_protocol::link::{Link, Rejected};

use super::{LinkKind, MESSAGE_BYTES, Outbound, Peer, weight};
use crate::compression::Compressor;
use crate::connection::Writer;
use crate::frame::{COMPRESSED, Frame, Header, Kind};
use crate::hello::Hello;
use crate::reason::{Reason, Refusal, add};
use crate::{Compress, Incoming, NodeId};

/// Nothing more is put into the connection while more than this waits to be written.
const WAITING_BYTES_MAX: usize = 512 << 10;
/// An acknowledgement leaves at once when so much has come since the last.
const UNACKNOWLEDGED_BYTES: usize = 1 << 20;

/// A message as it travels: compressed once, however often it is sent.
#[derive(Clone, Debug)]
struct Message {
    wire: Bytes,
    flags: u8,
    generation: u64,
    /// Bytes that it counts for in [`Peer::held_bytes`].
    weight: usize,
}

/// The connection of the moment, without its receiving half, which is the task's.
pub(super) struct Live {
    /// Which of the peer's connections it is.
    number: u64,
    pub(super) writer: Writer,
    pub(super) dialer: NodeId,
    /// The generation that the other side is in, once it has said so.
    theirs: Option<u64>,
    /// When bytes were known to have come last, or an answer was expected first.
    pub(super) heard: Instant,
    /// When a frame came last.
    pub(super) last: Instant,
    /// Bytes that came since the last acknowledgement.
    unacknowledged: usize,
}

/// Why a connection ends.
pub(super) struct Ending {
    pub(super) why: String,
    /// The other side is to read why.
    pub(super) told: bool,
}

impl Ending {
    pub(super) fn at_once(why: impl Into<String>) -> Ending {
        Ending { why: why.into(), told: false }
    }
}

impl From<std::io::Error> for Ending {
    fn from(error: std::io::Error) -> Ending {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Ending::at_once("the other side has closed it"),
            _ => Ending::at_once(error.to_string()),
        }
    }
}

/// See the module.
pub(super) struct Links {
    generation: u64,
    control: Link<Message>,
    /// None: messages of this generation were lost.
    data: Option<Link<Message>>,
    their_session: Option<u64>,
    /// The links were forgotten since the last connection.
    forgotten: bool,
    compressor: Compressor,
    pub(super) live: Option<Live>,
    /// Connections that there were.
    connections: u64,
    /// The task will look whether an answer that is due has come.
    pub(super) watched: bool,
}

impl Links {
    pub(super) fn new(generation: u64, compress_above_bytes: usize) -> Self {
        Links {
            generation,
            control: new_link(0),
            data: Some(new_link(generation)),
            their_session: None,
            forgotten: false,
            compressor: Compressor::new(compress_above_bytes),
            live: None,
            connections: 0,
            watched: false,
        }
    }

    /// The queue may go on.
    pub(super) fn has_room(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.writer.waiting_bytes() < WAITING_BYTES_MAX)
    }

    /// What is sent leaves at once: it need not be compressed, and nothing is before it.
    pub(super) fn is_free(&self, peer: &Peer) -> bool {
        peer.context.options.compress != Compress::Always
            && self.live.as_ref().is_some_and(|live| live.theirs.is_some() && !live.writer.waits())
    }

    /// Something is left for the task to do.
    pub(super) fn needs_task(&self) -> bool {
        // A connection that was lost has a receiving half.
        self.live.as_ref().is_none_or(|live| live.writer.waits() || !self.watched)
    }

    /// Whether the connection of the moment has this number.
    pub(super) fn is_live(&self, number: u64) -> bool {
        self.live.as_ref().is_some_and(|live| live.number == number)
    }

    /// The other side reads messages of this generation.
    fn flows(&self, live: &Live) -> bool {
        self.data.is_some() && live.theirs == Some(self.generation)
    }

    /// An acknowledgement is owed that no message may carry.
    pub(super) fn owes(&self) -> bool {
        self.live.as_ref().is_some_and(|live| {
            self.control.ack_owed() || self.flows(live) && self.data.as_ref().is_some_and(Link::ack_owed)
        })
    }

    /// An acknowledgement is due from the other side, or its first word.
    pub(super) fn expects(&self) -> bool {
        self.live.as_ref().is_some_and(|live| {
            live.theirs.is_none()
                || self.control.weight() > 0
                || self.flows(live) && self.data.as_ref().is_some_and(|data| data.weight() > 0)
        })
    }

    pub(super) fn send(&mut self, peer: &Peer, Outbound { link, generation, body }: Outbound) {
        let weight = weight(&body);
        if link == LinkKind::Data && generation > self.generation {
            self.begin(peer, generation);
        }
        let expected = self.expects();
        let open = self.live.as_ref().is_some_and(|live| match link {
            LinkKind::Control => live.theirs.is_some(),
            LinkKind::Data => self.flows(live),
        });
        let (kind, link) = match link {
            LinkKind::Control => (Kind::Control, Some(&mut self.control)),
            LinkKind::Data => (Kind::Data, self.data.as_mut().filter(|_| generation == self.generation)),
        };
        let Some(link) = link else {
            return peer.release(weight);
        };
        let worth_it = match peer.context.options.compress {
            // Compression costs more than a network that keeps up.
            Compress::Auto => self.live.as_ref().is_none_or(|live| live.writer.waits()),
            Compress::Always => true,
            Compress::Never => false,
        };
        let (wire, flags) = match worth_it.then(|| self.compressor.compress(&body)).flatten() {
            Some(smaller) => {
                add(&peer.context.counters.bytes_saved, (body.len() - smaller.len()) as u64);
                (smaller, COMPRESSED)
            }
            None => (body, 0),
        };
        let number = link.send(Message { wire: wire.clone(), flags, generation, weight });
        // Otherwise the link sends it when the other side is there.
        if let Some(live) = self.live.as_mut().filter(|_| open) {
            if !expected {
                live.heard = Instant::now();
            }
            let header = Header { kind, flags, generation, number, ack: link.acknowledge() };
            live.writer.put(&header, &wire);
        }
    }

    /// A new generation: what is under way belongs to the old one.
    pub(super) fn begin(&mut self, peer: &Peer, generation: u64) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        let old = self.data.replace(new_link(generation));
        peer.release(old.map_or(0, |old| old.weight()));
        self.announce();
    }

    /// Says what has arrived and which generation this is; the answer is all that has not.
    fn announce(&mut self) {
        let Some(live) = &mut self.live else { return };
        let ack = self.control.acknowledge();
        live.writer.put_notice(Kind::Control, 0, ack, Vec::new());
        let received = self.data.as_mut().map_or(0, Link::acknowledge);
        live.writer.put_notice(Kind::Resume, self.generation, received, Vec::new());
    }

    /// Another process has this peer's id by now.
    pub(super) fn is_anew(&self, hello: &Hello) -> bool {
        self.their_session.is_some_and(|session| session != hello.session)
    }

    /// Goes on over a new connection, whose number it gives; nothing else is live.
    pub(super) fn adopt(&mut self, peer: &Peer, writer: Writer, dialer: NodeId, hello: Hello) -> u64 {
        if self.is_anew(&hello) {
            self.forget(peer, "the peer has started anew");
        }
        let restarted = std::mem::take(&mut self.forgotten);
        self.their_session = Some(hello.session);
        self.connections += 1;
        let (number, now) = (self.connections, Instant::now());
        self.live = Some(Live { number, writer, dialer, theirs: None, heard: now, last: now, unacknowledged: 0 });
        self.announce();
        add(&peer.context.counters.connections, 1);
        peer.connected.send_replace(true);
        (peer.context.deliver)(Incoming::Connected { peer: peer.id, hello: Box::new(hello), restarted });
        number
    }

    /// The other side has forgotten the links, or has others.
    pub(super) fn forget(&mut self, peer: &Peer, why: &str) {
        self.forgotten = true;
        let control = std::mem::replace(&mut self.control, new_link(0));
        peer.release(control.weight());
        if self.data.as_ref().is_some_and(|data| data.sent() > 0 || data.received() > 0) {
            let data = self.data.take();
            peer.release(data.map_or(0, |data| data.weight()));
            peer.breaks(self.generation, why.into());
        }
    }

    /// The connection is over; gives what was left of it.
    pub(super) fn lose(&mut self, peer: &Peer, ending: Ending) -> Option<Writer> {
        let live = self.live.take()?;
        peer.connected.send_replace(false);
        (peer.context.deliver)(Incoming::Lost { peer: peer.id, why: ending.why });
        Some(live.writer)
    }

    /// Writes what the system takes without waiting.
    pub(super) fn write(&mut self) -> Result<(), Ending> {
        let Some(live) = &mut self.live else { return Ok(()) };
        while live.writer.waits() {
            match live.writer.write().now_or_never() {
                Some(written) => written?,
                None => break,
            }
        }
        Ok(())
    }

    /// Takes a frame that a message or its acknowledgement is in.
    pub(super) fn take(&mut self, peer: &Peer, frame: Frame) -> Result<(), Refusal> {
        match frame.header.kind {
            Kind::Resume => self.resume(peer, frame.header),
            _ => self.message(peer, frame),
        }
    }

    /// The other side says where it is: what it has not received is sent.
    fn resume(&mut self, peer: &Peer, header: Header) -> Result<(), Refusal> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let before = live.theirs.replace(header.generation);
        let mut again = 0;
        let mut replay = |kind, link: &mut Link<Message>| {
            let ack = link.acknowledge();
            for (number, Message { wire, flags, generation, .. }) in link.unacknowledged() {
                let header = Header { kind, flags: *flags, generation: *generation, number, ack };
                live.writer.put(&header, wire);
                again += 1;
            }
        };
        if before.is_none() {
            replay(Kind::Control, &mut self.control);
        }
        if let Some(data) = self.data.as_mut().filter(|_| header.generation == self.generation) {
            settle(peer, data, header.generation, header.ack)?;
            if before != Some(header.generation) {
                replay(Kind::Data, data);
            }
        }
        add(&peer.context.counters.repeated, again);
        Ok(())
    }

    fn message(&mut self, peer: &Peer, frame: Frame) -> Result<(), Refusal> {
        let Frame { header, body } = frame;
        let Header { kind, generation, number, .. } = header;
        let mine = self.generation;
        // Generations do not concern the link of control messages.
        let (link, of) = match (kind, &mut self.data) {
            (Kind::Control, _) => (&mut self.control, 0),
            (_, Some(data)) => (data, generation),
            (_, None) => {
                let message = format!("generation {mine}: you have started anew within it; wait for the next");
                return Err(Refusal::new(Reason::Restarted, message));
            }
        };
        settle(peer, link, of, header.ack).map_err(|refusal| match refusal.reason {
            Reason::OldGeneration | Reason::FutureGeneration => {
                let message = format!("generation: mine {mine}, yours {generation}; one of us is not there yet");
                Refusal::new(refusal.reason, message)
            }
            _ => refusal,
        })?;
        if number == 0 {
            return Ok(());
        }
        if let Some(live) = &mut self.live {
            live.unacknowledged += body.len() + MESSAGE_BYTES;
        }
        link.receive(number).map_err(|rejected| {
            Refusal::new(rejected.into(), format!("message {number} does not follow; connect again"))
        })?;
        (peer.context.deliver)(match kind {
            Kind::Control => Incoming::Control { peer: peer.id, generation, body },
            _ => Incoming::Message { peer: peer.id, generation, body },
        });
        if self.live.as_ref().is_some_and(|live| live.unacknowledged >= UNACKNOWLEDGED_BYTES) {
            self.acknowledge();
        }
        Ok(())
    }

    /// Acknowledges what has come, without a message that would carry it.
    pub(super) fn acknowledge(&mut self) {
        let flows = self.live.as_ref().is_some_and(|live| self.flows(live));
        let Some(live) = &mut self.live else { return };
        live.unacknowledged = 0;
        if self.control.ack_owed() {
            live.writer.put_notice(Kind::Control, 0, self.control.acknowledge(), Vec::new());
        }
        if let Some(data) = self.data.as_mut().filter(|data| flows && data.ack_owed()) {
            live.writer.put_notice(Kind::Data, self.generation, data.acknowledge(), Vec::new());
        }
    }
}

fn new_link(generation: u64) -> Link<Message> {
    Link::new(generation, |message| message.weight)
}

/// Takes the acknowledgement of a frame, and releases the bytes of what it is for.
fn settle(peer: &Peer, link: &mut Link<Message>, generation: u64, ack: u64) -> Result<(), Refusal> {
    let refuse = |rejected: Rejected, why: &str| {
        Refusal::new(rejected.into(), format!("you acknowledge message {ack}, {why}; connect again"))
    };
    let before = link.arrived();
    let released = link.acknowledged(generation, ack).map_err(|rejected| refuse(rejected, "which was never sent"))?;
    if ack < before {
        // Acknowledgements come in order: this one is of another link's other end.
        return Err(refuse(Rejected::ImpossibleAck, "and have acknowledged a later one"));
    }
    peer.release(released);
    Ok(())
}
