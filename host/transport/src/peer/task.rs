//! The task of a peer: reads its connection, and writes what nobody else could write at once.

use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::links::Ending;
use super::{Adoption, Command, Peer, Shared};
use crate::Incoming;
use crate::addresses::Counted;
use crate::connection::{Connection, Reader, read};
use crate::frame::{Frame, Kind, ReadError};
use crate::hello::Notice;
use crate::reason::{Reason, Refusal, add};

/// Acknowledgements that no message carries leave after this time.
const ACKNOWLEDGE: Duration = Duration::from_millis(5);
/// Messages taken from the queue, and frames read, before the other side has its turn.
const TURN: usize = 1024;

/// Owns the receiving half of a peer's connection.
pub(crate) struct Task {
    peer: Arc<Peer>,
    reading: Option<Reading>,
}

/// The receiving half of a connection.
struct Reading {
    /// Which of the peer's connections it is.
    number: u64,
    reader: Reader,
    /// Among those of the address that it was dialed from.
    counted: Option<Counted>,
}

/// Something to be done.
enum Step {
    /// There is something new.
    Called,
    Read(Result<Frame, ReadError>),
    Written(std::io::Result<()>),
    Due,
    Stop,
}

/// What is to be done at a time.
#[derive(Default)]
struct Dues {
    /// To acknowledge.
    acknowledgement: Option<Instant>,
    /// To look for an answer.
    look: Option<Instant>,
}

impl Task {
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        Task { peer, reading: None }
    }

    pub(crate) async fn run(mut self) {
        let peer = self.peer.clone();
        let mut stopped = pin!(peer.stop.clone().cancelled_owned());
        let mut timer = pin!(tokio::time::sleep(ACKNOWLEDGE));
        let mut dues = Dues::default();
        loop {
            self.take_commands();
            // Whatever can be done without waiting, so that neither direction keeps the other from its turn.
            if let Err(ending) = self.write().and_then(|()| self.read(None)).and_then(|()| self.write()) {
                self.lose(ending);
            }
            let due = self.due(&mut dues);
            if let Some(due) = due {
                let due = tokio::time::Instant::from_std(due);
                if timer.deadline() != due {
                    timer.as_mut().reset(due);
                }
            }
            // What was written may have made room.
            let goes_on = self.has_command();
            let step = tokio::select! {
                biased;
                () = &mut stopped => Step::Stop,
                () = ready(()), if goes_on => Step::Called,
                written = writing(&peer) => Step::Written(written),
                () = peer.called.notified() => Step::Called,
                frame = next(self.reading.as_mut()) => Step::Read(frame),
                () = &mut timer, if due.is_some() => Step::Due,
            };
            let done = match step {
                Step::Stop => break,
                Step::Called => Ok(()),
                Step::Written(written) => written.map_err(Ending::from),
                Step::Read(frame) => self.read(Some(frame)),
                Step::Due => self.tick(&mut dues),
            };
            if let Err(ending) = done {
                self.lose(ending);
            }
        }
        peer.shared().end();
        self.lose(Ending::at_once("this node ends it"));
    }

    fn take_commands(&mut self) {
        for _ in 0..TURN {
            let mut shared = self.peer.shared();
            let Shared { links, waiting, .. } = &mut *shared;
            if !links.has_room() {
                break;
            }
            match waiting.pop_front() {
                None => break,
                Some(Command::Send(message)) => links.send(&self.peer, message),
                Some(Command::Generation(generation)) => links.begin(&self.peer, generation),
                Some(Command::Adopt(adoption)) => {
                    drop(shared);
                    self.adopt(*adoption);
                }
            }
        }
    }

    /// Whether there is a command that can be taken now.
    fn has_command(&self) -> bool {
        let shared = self.peer.shared();
        !shared.waiting.is_empty() && shared.links.has_room()
    }

    /// When something is due, if anything is.
    fn due(&mut self, dues: &mut Dues) -> Option<Instant> {
        let mut shared = self.peer.shared();
        // Whoever sends may have found that the connection is over.
        self.reading = self.reading.take().filter(|reading| shared.links.is_live(reading.number));
        if !shared.links.owes() {
            dues.acknowledgement = None;
        } else if dues.acknowledgement.is_none() {
            dues.acknowledgement = Some(Instant::now() + ACKNOWLEDGE);
        }
        if dues.look.is_none() && shared.links.expects() {
            dues.look = Some(Instant::now() + self.look_after());
            shared.links.watched = true;
        }
        match (dues.acknowledgement, dues.look) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// How often it looks whether an answer that is due has come.
    fn look_after(&self) -> Duration {
        (self.peer.context.options.silence_max / 8).clamp(ACKNOWLEDGE, Duration::from_millis(250))
    }

    fn adopt(&mut self, adoption: Adoption) {
        let Adoption { mut connection, hello, dialer, settled } = adoption;
        let anew = self.peer.shared().links.is_anew(&hello);
        // The end of a process that is over may have come already.
        if anew && let Err(ending) = self.read(None) {
            self.lose(ending);
        }
        let context = &self.peer.context;
        let refusal = match &self.peer.shared().links.live {
            Some(live) if anew && live.last.elapsed() < context.options.takeover_after => {
                let message =
                    "another process with your id is connected, and lives: is your data directory a copy of its?";
                tracing::warn!(peer = %self.peer.id, reason = Reason::NodeTaken.name(), "refused: {message}");
                Some(Refusal::new(Reason::NodeTaken, message))
            }
            // Both sides have dialed, and both decide for the same one.
            Some(live) if !anew && live.dialer > dialer => {
                let message = format!("there is a connection already, dialed by node {}", live.dialer);
                Some(Refusal::new(Reason::DuplicateConnection, message))
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            connection.refuse(&refusal);
            context.spawn(connection.close());
            return;
        }
        self.lose(Ending::at_once("a newer connection takes its place"));
        let Connection { reader, writer, counted, .. } = connection;
        let number = self.peer.shared().links.adopt(&self.peer, writer, dialer, hello);
        self.reading = Some(Reading { number, reader, counted });
        drop(settled);
    }

    fn lose(&mut self, ending: Ending) {
        let told = ending.told;
        let writer = self.peer.shared().links.lose(&self.peer, ending);
        if let (Some(Reading { reader, counted, .. }), Some(writer)) = (self.reading.take(), writer)
            && told
        {
            self.peer.context.spawn(Connection { reader, writer, certificate: None, counted }.close());
        }
    }

    fn write(&mut self) -> Result<(), Ending> {
        self.peer.shared().links.write()
    }

    /// Takes a frame, and those that have come already.
    fn read(&mut self, frame: Option<Result<Frame, ReadError>>) -> Result<(), Ending> {
        let mut came = false;
        let read = self.take_frames(frame, &mut came);
        if came && let Some(live) = &mut self.peer.shared().links.live {
            live.last = Instant::now();
        }
        read
    }

    fn take_frames(&mut self, mut frame: Option<Result<Frame, ReadError>>, came: &mut bool) -> Result<(), Ending> {
        for _ in 0..TURN {
            let Some(reading) = &mut self.reading else { break };
            let taken = match frame.take().or_else(|| read(&mut reading.reader).now_or_never()) {
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
                    self.peer.shared().links.forget(&self.peer, "what the peer says is of other links than these");
                }
                if !refusal.reason.goes_on() {
                    return Err(Ending { why: refusal.message, told: true });
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal) {
        if let (Some(reading), Some(live)) = (&self.reading, &mut self.peer.shared().links.live) {
            live.writer.refuse(refusal, reading.reader.decoder().version);
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
                add(&self.peer.context.counters.told, 1);
                tracing::info!(peer = %self.peer.id, reason, "the peer has refused something: {message}");
                let of_links = Reason::named(&reason).is_some_and(Reason::is_of_links);
                (self.peer.context.deliver)(Incoming::Refused { peer: self.peer.id, reason, message });
                if of_links {
                    // With the same links it would refuse the same again.
                    self.peer.shared().links.forget(&self.peer, "the peer has other links than these");
                    self.lose(Ending::at_once("the peer has other links than these"));
                }
                Ok(())
            }
            Kind::Resume | Kind::Data | Kind::Control => self.peer.shared().links.take(&self.peer, frame),
        }
    }

    /// Does what is due.
    fn tick(&mut self, dues: &mut Dues) -> Result<(), Ending> {
        let now = Instant::now();
        let mut shared = self.peer.shared();
        let links = &mut shared.links;
        if dues.acknowledgement.is_some_and(|due| due <= now) {
            links.acknowledge();
        }
        if dues.look.is_none_or(|due| now < due) {
            return Ok(());
        }
        (dues.look, links.watched) = (None, false);
        let expects = links.expects();
        let (Some(live), Some(reading)) = (&mut links.live, &mut self.reading) else { return Ok(()) };
        if std::mem::take(&mut reading.reader.decoder_mut().heard) {
            live.heard = now;
        }
        let silence = now.saturating_duration_since(live.heard);
        if expects && silence > self.peer.context.options.silence_max {
            let why = format!("an answer is due and nothing has come for {} s", silence.as_secs());
            return Err(Ending::at_once(why));
        }
        Ok(())
    }
}

/// The next frame; waits for ever if there is nothing to be read.
async fn next(reading: Option<&mut Reading>) -> Result<Frame, ReadError> {
    match reading {
        Some(reading) => read(&mut reading.reader).await,
        None => pending().await,
    }
}

/// The next bytes that wait, written; waits for ever if none do.
async fn writing(peer: &Peer) -> std::io::Result<()> {
    poll_fn(|cx| {
        let mut shared = peer.shared();
        match &mut shared.links.live {
            Some(live) if live.writer.waits() => pin!(live.writer.write()).poll(cx),
            _ => Poll::Pending,
        }
    })
    .await
}
