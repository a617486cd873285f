//! The task of a peer: owns its links and its connection.
//!
//! One task does everything for a peer, so that nothing is locked: it takes messages from the
//! queue, numbers them, writes as many as the system takes at once, reads, and hands on. Without a
//! connection the links keep what is to be sent.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use styx_protocol::link::{self, Limits, Link, Outstanding, Receipt};
use tokio::sync::mpsc;

use super::{Adoption, Command, Lane, MESSAGE_BYTES, Peer, weight};
use crate::compression::Compressor;
use crate::connection::Connection;
use crate::frame::{COMPRESSED, Frame, Header, Kind, checksum};
use crate::hello::Notice;
use crate::network::Context;
use crate::reason::{Reason, Refusal, add};
use crate::{Compress, Incoming, NodeId};

/// Acknowledgements that no payload carries leave after this time, and clocks are looked at.
const TICK: Duration = Duration::from_millis(5);
/// An acknowledgement leaves at once when so much has come since the last.
const UNACKNOWLEDGED_BYTES: usize = 1 << 20;
/// The queue waits while more than this waits to be written.
const WAITING_BYTES_MAX: usize = 512 << 10;
/// Messages taken from the queue, and reads, before the other side has its turn.
const TURN: usize = 1024;
const READS: usize = 8;
/// A connection loses nothing while it lives, unless a frame was damaged: patience is cheap.
const LIMITS: Limits = Limits {
    timeout_us: 1_000_000,
    timeout_us_max: 10_000_000,
    repeat_max: 256,
    // The queue in front of the link is bounded; see `Peer::send`.
    payloads_max: usize::MAX,
    bytes_max: usize::MAX,
    ahead_max: 64 << 10,
};

/// A message as it travels: compressed and summed up once, however often it is sent.
#[derive(Clone, Debug)]
struct Payload {
    wire: Bytes,
    flags: u8,
    checksum: u64,
    generation: u64,
    /// What it counts for in `Peer::held_bytes`.
    weight: usize,
}

/// The connection of the moment.
struct Live {
    connection: Connection,
    dialer: NodeId,
    /// The generation that the other side is in, once it has said so.
    theirs: Option<u64>,
    /// When something was known to have come last.
    heard: Instant,
    /// Bytes that came since the last acknowledgement.
    unacknowledged: usize,
    /// A payload is missing: the last one in order when the other side was asked for it; of the
    /// links of control and of data.
    asked: [Option<u64>; 2],
}

const CONTROL: usize = 0;
const DATA: usize = 1;

/// Why a connection ends.
struct Ending {
    why: String,
    /// The other side is to read the last words.
    farewell: bool,
}

impl From<std::io::Error> for Ending {
    fn from(error: std::io::Error) -> Ending {
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the other side has closed it".into(),
            _ => error.to_string(),
        };
        Ending { why, farewell: false }
    }
}

/// Owns a peer's links and connection.
pub(crate) struct Task {
    context: Arc<Context>,
    peer: Arc<Peer>,
    generation: u64,
    control: Link<Payload>,
    /// None: messages of this generation were lost.
    data: Option<Link<Payload>>,
    their_session: Option<u64>,
    compressor: Compressor,
    live: Option<Live>,
}

impl Task {
    pub(crate) fn new(context: Arc<Context>, peer: Arc<Peer>, generation: u64) -> Self {
        Task {
            compressor: Compressor::new(context.options.compress_above_bytes),
            context,
            peer,
            generation,
            control: new_link(0),
            data: Some(new_link(generation)),
            their_session: None,
            live: None,
        }
    }

    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut stopped = pin!(self.peer.stop.clone().cancelled_owned());
        let mut timer = pin!(tokio::time::sleep(TICK));
        let mut armed = false;
        loop {
            for _ in 0..TURN {
                match self.has_room().then(|| commands.try_recv()) {
                    Some(Ok(command)) => self.command(command),
                    _ => break,
                }
            }
            self.pump();
            if !armed && self.expects() {
                armed = true;
                timer.as_mut().reset(tokio::time::Instant::now() + TICK);
                self.live.iter_mut().for_each(|live| live.heard = Instant::now());
            }
            tokio::select! {
                biased;
                () = &mut stopped => break,
                command = commands.recv(), if self.has_room() => match command {
                    Some(command) => self.command(command),
                    None => break,
                },
                () = ready(self.live.as_ref()) => {}
                () = &mut timer, if armed => {
                    self.tick();
                    armed = self.expects();
                    if armed {
                        timer.as_mut().reset(tokio::time::Instant::now() + TICK);
                    }
                }
            }
        }
        self.lose(Ending { why: "this node ends it".into(), farewell: false });
    }

    /// The queue may go on.
    fn has_room(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.connection.waiting_bytes() < WAITING_BYTES_MAX)
    }

    /// The other side reads messages of this generation.
    fn flows(&self, live: &Live) -> bool {
        self.data.is_some() && live.theirs == Some(self.generation)
    }

    /// Something is due sooner or later: an acknowledgement of either side, or the first word.
    fn expects(&self) -> bool {
        let waits = |link: &Link<Payload>| link.ack_owed() || link.outstanding() != Outstanding::default();
        self.live.as_ref().is_some_and(|live| {
            live.theirs.is_none() || waits(&self.control) || self.flows(live) && self.data.as_ref().is_some_and(waits)
        })
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Send { lane, generation, body } => self.send(lane, generation, body),
            Command::Generation(generation) => self.begin(generation),
            Command::Adopt(adoption) => self.adopt(*adoption),
        }
    }

    fn send(&mut self, lane: Lane, generation: u64, body: Bytes) {
        let weight = weight(&body);
        if lane == Lane::Data && generation > self.generation {
            self.begin(generation);
        }
        let (kind, link) = match lane {
            Lane::Control => (Kind::Control, Some(&mut self.control)),
            Lane::Data => (Kind::Data, self.data.as_mut().filter(|_| generation == self.generation)),
        };
        let Some(link) = link else {
            return self.peer.release(weight);
        };
        let worth_it = match self.context.options.compress {
            // Compression costs more than a network that keeps up.
            Compress::Auto => self.live.as_ref().is_none_or(|live| live.connection.is_congested()),
            Compress::Always => true,
            Compress::Never => false,
        };
        let (wire, flags) = match worth_it.then(|| self.compressor.compress(&body)).flatten() {
            Some(smaller) => {
                add(&self.context.counters.bytes_saved, (body.len() - smaller.len()) as u64);
                (smaller, COMPRESSED)
            }
            None => (body, 0),
        };
        let frame = link.send(Payload { flags, checksum: checksum(&wire), wire, generation, weight });
        let open = match (&self.live, lane) {
            (None, _) => false,
            (Some(live), Lane::Control) => live.theirs.is_some(),
            (Some(live), Lane::Data) => self.flows(live),
        };
        // Otherwise the link sends it when the other side is there.
        if let Some(live) = self.live.as_mut().filter(|_| open) {
            put(live, self.context.me, kind, frame);
        }
    }

    /// A new generation: what is under way belongs to the old one.
    fn begin(&mut self, generation: u64) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        let old = self.data.replace(new_link(generation));
        self.peer.release(old.map_or(0, |old| old.outstanding().bytes));
        if let Some(mut live) = self.live.take() {
            live.asked[DATA] = None;
            self.announce(&mut live);
            self.live = Some(live);
        }
    }

    /// Says what has arrived and which generation this is; the answer is all that has not.
    fn announce(&mut self, live: &mut Live) {
        let received = self.data.as_ref().map_or(0, Link::received);
        put(live, self.context.me, Kind::Control, self.control.acknowledgement());
        live.connection.put_notice(Kind::Resume, self.generation, received, Vec::new());
    }

    fn adopt(&mut self, adoption: Adoption) {
        let Adoption { mut connection, hello, dialer, settled } = adoption;
        let anew = self.their_session.is_some_and(|session| session != hello.session);
        if let Some(live) = &self.live
            && !anew
            && live.dialer > dialer
        {
            // Both sides have dialed, and both decide for the same one.
            let message = format!("there is a connection already, dialed by node {}", live.dialer);
            connection.refuse(&Refusal::new(Reason::DuplicateConnection, message));
            self.context.spawn(connection.farewell());
            return;
        }
        self.lose(Ending { why: "a newer connection takes its place".into(), farewell: false });
        if anew {
            self.forget();
        }
        self.their_session = Some(hello.session);
        let mut live =
            Live { connection, dialer, theirs: None, heard: Instant::now(), unacknowledged: 0, asked: [None; 2] };
        self.announce(&mut live);
        self.live = Some(live);
        add(&self.context.counters.connections, 1);
        self.peer.connected.send_replace(true);
        drop(settled);
        let peer = self.peer.id;
        (self.context.deliver)(Incoming::Connected { peer, hello: Box::new(hello), restarted: anew });
    }

    /// The other side has forgotten the links.
    fn forget(&mut self) {
        let control = std::mem::replace(&mut self.control, new_link(0));
        self.peer.release(control.outstanding().bytes);
        if self.data.as_ref().is_some_and(|data| data.counts().sent > 0 || data.received() > 0) {
            let data = self.data.take();
            self.peer.release(data.map_or(0, |data| data.outstanding().bytes));
            self.peer.breaks(&self.context, self.generation, "the peer has started anew".into());
        }
    }

    fn lose(&mut self, ending: Ending) {
        let Some(live) = self.live.take() else { return };
        self.peer.connected.send_replace(false);
        if ending.farewell {
            self.context.spawn(live.connection.farewell());
        }
        (self.context.deliver)(Incoming::Lost { peer: self.peer.id, why: ending.why });
    }

    /// Writes and reads what can be without waiting.
    fn pump(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        let pumped = self.exchange(&mut live);
        self.live = Some(live);
        if let Err(ending) = pumped {
            self.lose(ending);
        }
    }

    fn exchange(&mut self, live: &mut Live) -> Result<(), Ending> {
        live.connection.write()?;
        for _ in 0..READS {
            while let Some(decoded) = live.connection.next() {
                match decoded.and_then(|frame| self.frame(live, frame)) {
                    Ok(()) => {}
                    Err(refusal) => {
                        self.refuse(live, &refusal);
                        if refusal.reason.closes() {
                            return Err(Ending { why: refusal.message, farewell: true });
                        }
                    }
                }
            }
            if live.unacknowledged >= UNACKNOWLEDGED_BYTES {
                self.acknowledge(live);
            }
            match live.connection.read() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    if let Err(cut) = live.connection.finish() {
                        self.refuse(live, &cut);
                        return Err(Ending { why: cut.message, farewell: true });
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(live.connection.write()?)
    }

    fn refuse(&self, live: &mut Live, refusal: &Refusal) {
        live.connection.refuse(refusal);
        if !refusal.reason.is_ordinary() {
            tracing::warn!(peer = %self.peer.id, reason = refusal.reason.name(), "refused: {}", refusal.message);
        }
    }

    fn frame(&mut self, live: &mut Live, frame: Frame) -> Result<(), Refusal> {
        let Header { kind, sender, .. } = frame.header;
        if sender != self.peer.id {
            let message = format!("sender: greeted as {}, the frame says {sender}", self.peer.id);
            return Err(Refusal::new(Reason::WrongSender, message));
        }
        match kind {
            Kind::Hello => Err(Refusal::new(Reason::UnexpectedHello, "this connection has been greeted")),
            Kind::Refused => {
                let Notice { reason, message } = Notice::decode(&frame.body);
                add(&self.context.counters.told, 1);
                tracing::info!(peer = %self.peer.id, reason, "the peer has refused something: {message}");
                (self.context.deliver)(Incoming::Refused { peer: self.peer.id, reason, message });
                Ok(())
            }
            Kind::Resume => self.resume(live, frame.header),
            Kind::Data | Kind::Control => self.payload(live, frame),
        }
    }

    /// The other side says where it is: what it has not received can go.
    fn resume(&mut self, live: &mut Live, header: Header) -> Result<(), Refusal> {
        live.theirs = Some(header.generation);
        let mut again: Vec<_> = self.control.reconnected().into_iter().map(|frame| (Kind::Control, frame)).collect();
        if let Some(data) = self.data.as_mut().filter(|_| header.generation == self.generation) {
            let resumed = link::Frame { generation: header.generation, ack: header.ack, numbered: None };
            settle(&self.peer, data, |data| checked(data.receive(resumed, |_| {}), self.generation, header))?;
            again.extend(data.reconnected().into_iter().map(|frame| (Kind::Data, frame)));
        }
        add(&self.context.counters.repeated, again.len() as u64);
        for (kind, frame) in again {
            put(live, self.context.me, kind, frame);
        }
        Ok(())
    }

    fn payload(&mut self, live: &mut Live, frame: Frame) -> Result<(), Refusal> {
        let Frame { header, body } = frame;
        let Header { kind, generation, number, ack, .. } = header;
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
        live.unacknowledged += body.len() + MESSAGE_BYTES * usize::from(number > 0);
        let payload = Payload { wire: body, flags: 0, checksum: 0, generation, weight: 0 };
        let frame = link::Frame { generation: of, ack, numbered: (number > 0).then_some((number, payload)) };
        let (peer, deliver) = (self.peer.id, &self.context.deliver);
        let hand = |Payload { wire: body, generation, .. }: Payload| {
            deliver(match kind {
                Kind::Control => Incoming::Control { peer, generation, body },
                _ => Incoming::Message { peer, generation, body },
            });
        };
        let receipt = settle(&self.peer, link, |link| link.receive(frame, hand));
        // A connection keeps the order: what is missing was damaged. It is asked for once.
        let asked = &mut live.asked[if kind == Kind::Control { CONTROL } else { DATA }];
        let missing = matches!(receipt, Receipt::Kept | Receipt::Dropped(link::Dropped::TooFarAhead));
        if missing && asked.replace(link.received()) != Some(link.received()) {
            self.announce(live);
        }
        checked(receipt, mine, header)
    }

    fn acknowledge(&mut self, live: &mut Live) {
        live.unacknowledged = 0;
        if self.control.ack_owed() {
            put(live, self.context.me, Kind::Control, self.control.acknowledgement());
        }
        let flows = self.flows(live);
        if let Some(data) = self.data.as_mut().filter(|data| flows && data.ack_owed()) {
            put(live, self.context.me, Kind::Data, data.acknowledgement());
        }
    }

    fn tick(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        self.acknowledge(&mut live);
        if std::mem::take(&mut live.connection.heard) {
            live.heard = Instant::now();
        }
        let silence = live.heard.elapsed();
        if live.connection.waiting_bytes() == 0 && live.theirs.is_some() {
            self.repeat(&mut live);
        }
        self.live = Some(live);
        if silence > self.context.options.silence_max {
            let why = format!("an answer is due and nothing has come for {} s", silence.as_secs());
            self.lose(Ending { why, farewell: false });
        }
    }

    /// Sends again what a damaged frame may have taken away.
    fn repeat(&mut self, live: &mut Live) {
        let now_us = self.context.started.elapsed().as_micros() as u64;
        let flows = self.flows(live);
        let links = [(Kind::Control, Some(&mut self.control)), (Kind::Data, self.data.as_mut().filter(|_| flows))];
        for (kind, link) in links {
            for frame in link.map_or_else(Vec::new, |link| link.tick(now_us)) {
                put(live, self.context.me, kind, frame);
                add(&self.context.counters.repeated, 1);
            }
        }
    }
}

fn new_link(generation: u64) -> Link<Payload> {
    Link::new(generation, LIMITS, |payload| payload.weight)
}

/// Runs something that may acknowledge payloads, and releases their bytes.
fn settle<R>(peer: &Peer, link: &mut Link<Payload>, run: impl FnOnce(&mut Link<Payload>) -> R) -> R {
    let before = link.outstanding().bytes;
    let result = run(link);
    peer.release(before - link.outstanding().bytes);
    result
}

fn checked(receipt: Receipt, mine: u64, header: Header) -> Result<(), Refusal> {
    let Receipt::Dropped(dropped) = receipt else { return Ok(()) };
    let Header { generation, number, ack, .. } = header;
    let message = match Reason::from(dropped) {
        Reason::OldGeneration => format!("generation: mine {mine}, yours {generation}; this node has moved on"),
        Reason::FutureGeneration => format!("generation: mine {mine}, yours {generation}; this node is not there yet"),
        Reason::ImpossibleAck => format!("you acknowledge payload {ack}, which was never sent; connect again"),
        _ => format!("payload {number} is of no use now"),
    };
    Err(Refusal::new(dropped.into(), message))
}

fn put(live: &mut Live, sender: NodeId, kind: Kind, frame: link::Frame<Payload>) {
    let header = Header { kind, flags: 0, generation: frame.generation, sender, number: 0, ack: frame.ack };
    match frame.numbered {
        None => live.connection.put(&header, &Bytes::new(), checksum(&[])),
        Some((number, Payload { wire, flags, checksum, generation, .. })) => {
            live.connection.put(&Header { flags, generation, number, ..header }, &wire, checksum);
        }
    }
}

async fn ready(live: Option<&Live>) {
    match live {
        Some(live) => live.connection.ready().await,
        None => std::future::pending().await,
    }
}
