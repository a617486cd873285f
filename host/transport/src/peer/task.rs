//! The task of a peer: owns its links and its connection.
//!
//! One task does everything for a peer, so that nothing is locked: it takes messages from the queue, numbers them,
//! writes as many as the system takes at once, reads, and hands on. Without a connection the links keep what is to be
//! sent.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use styx_protocol::link::{Link, Rejected};
use tokio::sync::mpsc;

use super::{Adoption, Command, LinkKind, MESSAGE_BYTES, Peer, weight};
use crate::compression::Compressor;
use crate::connection::{Connection, read};
use crate::context::Context;
use crate::frame::{COMPRESSED, Frame, Header, Kind, ReadError};
use crate::hello::Notice;
use crate::reason::{Reason, Refusal, add};
use crate::{Compress, Incoming, NodeId};

/// Acknowledgements that no message carries leave after this time; silence is noticed at these intervals.
const TICK: Duration = Duration::from_millis(5);
/// An acknowledgement leaves at once when so much has come since the last.
const UNACKNOWLEDGED_BYTES: usize = 1 << 20;
/// The queue waits while more than this waits to be written.
const WAITING_BYTES_MAX: usize = 512 << 10;
/// Messages taken from the queue, and frames read, before the other side has its turn.
const TURN: usize = 1024;

/// A message as it travels: compressed once, however often it is sent.
#[derive(Clone, Debug)]
struct Message {
    wire: Bytes,
    flags: u8,
    generation: u64,
    /// Bytes that it counts for in [`Peer::held_bytes`].
    weight: usize,
}

/// The connection of the moment.
struct Live {
    connection: Connection,
    dialer: NodeId,
    /// The generation that the other side is in, once it has said so.
    theirs: Option<u64>,
    /// When bytes were known to have come last.
    heard: Instant,
    /// When a frame came last.
    last: Instant,
    /// Bytes that came since the last acknowledgement.
    unacknowledged: usize,
    /// The system has not taken all that there was.
    congested: bool,
}

/// Why a connection ends.
struct Ending {
    why: String,
    /// The other side is to read why.
    told: bool,
}

impl Ending {
    fn at_once(why: impl Into<String>) -> Ending {
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

/// Owns a peer's links and connection.
pub(crate) struct Task {
    context: Arc<Context>,
    peer: Arc<Peer>,
    generation: u64,
    control: Link<Message>,
    /// None: messages of this generation were lost.
    data: Option<Link<Message>>,
    their_session: Option<u64>,
    /// The links were forgotten since the last connection.
    forgotten: bool,
    compressor: Compressor,
    live: Option<Live>,
}

/// Something to be done.
enum Step {
    Command(Command),
    Read(Result<Frame, ReadError>),
    Written(std::io::Result<()>),
    Tick,
    Stop,
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
            forgotten: false,
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
            // Whatever can be done without waiting, so that neither direction keeps the other from its turn.
            if let Err(ending) = self.write().and_then(|()| self.read(None)).and_then(|()| self.write()) {
                self.lose(ending);
            }
            if !armed && self.expects() {
                armed = true;
                timer.as_mut().reset(tokio::time::Instant::now() + TICK);
                self.live.iter_mut().for_each(|live| live.heard = Instant::now());
            }
            let room = self.has_room();
            let (reading, writing) = io(self.live.as_mut());
            let step = tokio::select! {
                biased;
                () = &mut stopped => Step::Stop,
                written = writing => Step::Written(written),
                command = commands.recv(), if room => command.map_or(Step::Stop, Step::Command),
                frame = reading => Step::Read(frame),
                () = &mut timer, if armed => Step::Tick,
            };
            let done = match step {
                Step::Stop => break,
                Step::Written(written) => written.map_err(Ending::from),
                Step::Read(frame) => self.read(Some(frame)),
                Step::Command(command) => {
                    self.command(command);
                    Ok(())
                }
                Step::Tick => {
                    let ticked = self.tick();
                    armed = self.expects();
                    timer.as_mut().reset(tokio::time::Instant::now() + TICK);
                    ticked
                }
            };
            if let Err(ending) = done {
                self.lose(ending);
            }
        }
        self.lose(Ending::at_once("this node ends it"));
    }

    /// The queue may go on.
    fn has_room(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.connection.writer.waiting_bytes() < WAITING_BYTES_MAX)
    }

    /// The other side reads messages of this generation.
    fn flows(&self, live: &Live) -> bool {
        self.data.is_some() && live.theirs == Some(self.generation)
    }

    /// Something is due sooner or later: an acknowledgement of either side, or the first word.
    fn expects(&self) -> bool {
        let waits = |link: &Link<Message>| link.ack_owed() || link.weight() > 0;
        self.live.as_ref().is_some_and(|live| {
            live.theirs.is_none() || waits(&self.control) || self.flows(live) && self.data.as_ref().is_some_and(waits)
        })
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Send { link, generation, body } => self.send(link, generation, body),
            Command::Generation(generation) => self.begin(generation),
            Command::Adopt(adoption) => self.adopt(*adoption),
        }
    }

    fn send(&mut self, link: LinkKind, generation: u64, body: Bytes) {
        let weight = weight(&body);
        if link == LinkKind::Data && generation > self.generation {
            self.begin(generation);
        }
        let open = self.live.as_ref().is_some_and(|live| match link {
            LinkKind::Control => live.theirs.is_some(),
            LinkKind::Data => self.flows(live),
        });
        let (kind, link) = match link {
            LinkKind::Control => (Kind::Control, Some(&mut self.control)),
            LinkKind::Data => (Kind::Data, self.data.as_mut().filter(|_| generation == self.generation)),
        };
        let Some(link) = link else {
            return self.peer.release(weight);
        };
        let worth_it = match self.context.options.compress {
            // Compression costs more than a network that keeps up.
            Compress::Auto => self.live.as_ref().is_none_or(|live| live.congested),
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
        let number = link.send(Message { wire: wire.clone(), flags, generation, weight });
        // Otherwise the link sends it when the other side is there.
        if let Some(live) = self.live.as_mut().filter(|_| open) {
            let header = Header { kind, flags, generation, number, ack: link.acknowledge() };
            live.connection.writer.put(&header, &wire);
        }
    }

    /// A new generation: what is under way belongs to the old one.
    fn begin(&mut self, generation: u64) {
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        let old = self.data.replace(new_link(generation));
        self.peer.release(old.map_or(0, |old| old.weight()));
        self.announce();
    }

    /// Says what has arrived and which generation this is; the answer is all that has not.
    fn announce(&mut self) {
        let Some(live) = &mut self.live else { return };
        let ack = self.control.acknowledge();
        live.connection.writer.put_notice(Kind::Control, 0, ack, Vec::new());
        let received = self.data.as_mut().map_or(0, Link::acknowledge);
        live.connection.writer.put_notice(Kind::Resume, self.generation, received, Vec::new());
    }

    fn adopt(&mut self, adoption: Adoption) {
        let Adoption { mut connection, hello, dialer, settled } = adoption;
        let anew = self.their_session.is_some_and(|session| session != hello.session);
        // The end of a process that is over may have come already.
        if anew && let Err(ending) = self.read(None) {
            self.lose(ending);
        }
        if anew
            && let Some(live) = &self.live
            && live.last.elapsed() < self.context.options.takeover_after
        {
            let message = "another process with your id is connected, and lives: is your data directory a copy of its?";
            let refusal = Refusal::new(Reason::NodeTaken, message);
            tracing::warn!(peer = %self.peer.id, reason = refusal.reason.name(), "refused: {message}");
            connection.refuse(&refusal);
            self.context.spawn(connection.close());
            return;
        }
        if let Some(live) = &self.live
            && !anew
            && live.dialer > dialer
        {
            // Both sides have dialed, and both decide for the same one.
            let message = format!("there is a connection already, dialed by node {}", live.dialer);
            connection.refuse(&Refusal::new(Reason::DuplicateConnection, message));
            self.context.spawn(connection.close());
            return;
        }
        self.lose(Ending::at_once("a newer connection takes its place"));
        if anew {
            self.forget("the peer has started anew");
        }
        let restarted = std::mem::take(&mut self.forgotten);
        self.their_session = Some(hello.session);
        let (heard, last) = (Instant::now(), Instant::now());
        self.live = Some(Live { connection, dialer, theirs: None, heard, last, unacknowledged: 0, congested: false });
        self.announce();
        add(&self.context.counters.connections, 1);
        self.peer.connected.send_replace(true);
        drop(settled);
        let peer = self.peer.id;
        (self.context.deliver)(Incoming::Connected { peer, hello: Box::new(hello), restarted });
    }

    /// The other side has forgotten the links, or has others.
    fn forget(&mut self, why: &str) {
        self.forgotten = true;
        let control = std::mem::replace(&mut self.control, new_link(0));
        self.peer.release(control.weight());
        if self.data.as_ref().is_some_and(|data| data.sent() > 0 || data.received() > 0) {
            let data = self.data.take();
            self.peer.release(data.map_or(0, |data| data.weight()));
            self.peer.breaks(&self.context, self.generation, why.into());
        }
    }

    fn lose(&mut self, ending: Ending) {
        let Some(live) = self.live.take() else { return };
        self.peer.connected.send_replace(false);
        if ending.told {
            self.context.spawn(live.connection.close());
        }
        (self.context.deliver)(Incoming::Lost { peer: self.peer.id, why: ending.why });
    }

    /// Writes what the system takes without waiting.
    fn write(&mut self) -> Result<(), Ending> {
        let Some(live) = &mut self.live else { return Ok(()) };
        while live.connection.writer.waits() {
            match live.connection.writer.write().now_or_never() {
                Some(written) => written?,
                None => {
                    live.congested = true;
                    return Ok(());
                }
            }
        }
        live.congested = false;
        Ok(())
    }

    /// Takes a frame, and those that have come already.
    fn read(&mut self, frame: Option<Result<Frame, ReadError>>) -> Result<(), Ending> {
        let mut came = false;
        let read = self.take_frames(frame, &mut came);
        if let Some(live) = self.live.as_mut().filter(|_| came) {
            live.last = Instant::now();
        }
        read
    }

    fn take_frames(&mut self, mut frame: Option<Result<Frame, ReadError>>, came: &mut bool) -> Result<(), Ending> {
        for _ in 0..TURN {
            let Some(live) = &mut self.live else { break };
            let taken = match frame.take().or_else(|| read(&mut live.connection.reader).now_or_never()) {
                None => break,
                Some(Ok(frame)) => {
                    *came = true;
                    self.frame(frame)
                }
                Some(Err(ReadError::Io(error))) => return Err(error.into()),
                Some(Err(ReadError::Refused(refusal))) => Err(refusal),
            };
            if let Err(refusal) = taken {
                self.refuse(&refusal);
                if refusal.reason.is_of_links() {
                    self.forget("what the peer says is of other links than these");
                }
                if !refusal.reason.goes_on() {
                    return Err(Ending { why: refusal.message, told: true });
                }
            }
            if self.live.as_ref().is_some_and(|live| live.unacknowledged >= UNACKNOWLEDGED_BYTES) {
                self.acknowledge();
            }
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal) {
        if let Some(live) = &mut self.live {
            live.connection.refuse(refusal);
        }
        if !refusal.reason.is_ordinary() {
            tracing::warn!(peer = %self.peer.id, reason = refusal.reason.name(), "refused: {}", refusal.message);
        }
    }

    fn frame(&mut self, frame: Frame) -> Result<(), Refusal> {
        match frame.header.kind {
            Kind::Hello => Err(Refusal::new(Reason::UnexpectedHello, "this connection has been greeted")),
            Kind::Refused => {
                let Notice { reason, message } = Notice::decode(&frame.body);
                add(&self.context.counters.told, 1);
                tracing::info!(peer = %self.peer.id, reason, "the peer has refused something: {message}");
                let of_links = Reason::named(&reason).is_some_and(Reason::is_of_links);
                (self.context.deliver)(Incoming::Refused { peer: self.peer.id, reason, message });
                if of_links {
                    // With the same links it would refuse the same again.
                    self.forget("the peer has other links than these");
                    self.lose(Ending::at_once("the peer has other links than these"));
                }
                Ok(())
            }
            Kind::Resume => self.resume(frame.header),
            Kind::Data | Kind::Control => self.message(frame),
        }
    }

    /// The other side says where it is: what it has not received is sent.
    fn resume(&mut self, header: Header) -> Result<(), Refusal> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let before = live.theirs.replace(header.generation);
        let mut again = 0;
        let mut replay = |kind, link: &mut Link<Message>| {
            let ack = link.acknowledge();
            for (number, Message { wire, flags, generation, .. }) in link.unacknowledged() {
                let header = Header { kind, flags: *flags, generation: *generation, number, ack };
                live.connection.writer.put(&header, wire);
                again += 1;
            }
        };
        if before.is_none() {
            replay(Kind::Control, &mut self.control);
        }
        if let Some(data) = self.data.as_mut().filter(|_| header.generation == self.generation) {
            settle(&self.peer, data, header.generation, header.ack)?;
            if before != Some(header.generation) {
                replay(Kind::Data, data);
            }
        }
        add(&self.context.counters.repeated, again);
        Ok(())
    }

    fn message(&mut self, frame: Frame) -> Result<(), Refusal> {
        let Frame { header, body } = frame;
        let Header { kind, generation, number, .. } = header;
        let (mine, peer) = (self.generation, self.peer.id);
        // Generations do not concern the link of control messages.
        let (link, of) = match (kind, &mut self.data) {
            (Kind::Control, _) => (&mut self.control, 0),
            (_, Some(data)) => (data, generation),
            (_, None) => {
                let message = format!("generation {mine}: you have started anew within it; wait for the next");
                return Err(Refusal::new(Reason::Restarted, message));
            }
        };
        settle(&self.peer, link, of, header.ack).map_err(|refusal| match refusal.reason {
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
        (self.context.deliver)(match kind {
            Kind::Control => Incoming::Control { peer, generation, body },
            _ => Incoming::Message { peer, generation, body },
        });
        Ok(())
    }

    fn acknowledge(&mut self) {
        let flows = self.live.as_ref().is_some_and(|live| self.flows(live));
        let Some(live) = &mut self.live else { return };
        live.unacknowledged = 0;
        if self.control.ack_owed() {
            live.connection.writer.put_notice(Kind::Control, 0, self.control.acknowledge(), Vec::new());
        }
        if let Some(data) = self.data.as_mut().filter(|data| flows && data.ack_owed()) {
            live.connection.writer.put_notice(Kind::Data, self.generation, data.acknowledge(), Vec::new());
        }
    }

    fn tick(&mut self) -> Result<(), Ending> {
        self.acknowledge();
        let Some(live) = &mut self.live else { return Ok(()) };
        if std::mem::take(&mut live.connection.reader.decoder_mut().heard) {
            live.heard = Instant::now();
        }
        let silence = live.heard.elapsed();
        if silence > self.context.options.silence_max {
            let why = format!("an answer is due and nothing has come for {} s", silence.as_secs());
            return Err(Ending::at_once(why));
        }
        Ok(())
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

/// The next frame, and the next bytes written; both wait for ever if there is nothing to be had.
fn io(
    live: Option<&mut Live>,
) -> (impl Future<Output = Result<Frame, ReadError>> + '_, impl Future<Output = std::io::Result<()>> + '_) {
    let (reader, writer) = match live {
        Some(live) => (Some(&mut live.connection.reader), Some(&mut live.connection.writer)),
        None => (None, None),
    };
    let reading = async {
        match reader {
            Some(reader) => read(reader).await,
            None => std::future::pending().await,
        }
    };
    let writing = async {
        match writer.filter(|writer| writer.waits()) {
            Some(writer) => writer.write().await,
            None => std::future::pending().await,
        }
    };
    (reading, writing)
}
