//! From requests to replies, for as long as nothing breaks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use styx_driver::kafka::beginning::{Begun, begin};
use styx_driver::kafka::writing::Sent;
use styx_driver::kafka::{Ending, FrontDriver, FrontEffect, FrontEvent, FrontLimits, Place};
use styx_protocol::abort::Code;
use tokio::sync::mpsc;

use super::assigned::Assigned;
use super::blocking;
use super::egress::{Answered, Egress};
use super::found::Found;
use super::record::{Asked, Record};
use super::topics::{INGRESS, Incoming, Topics};
use crate::clock::MonotonicClock;
use crate::gateway::Ingress;
use crate::handle::{Answer, Answers, Waiter};
use crate::http::{Memory, Outcome, status_of};

/// Records taken from the library and not looked at: batches of them, and records of a batch.
const READ_AHEAD: usize = 8;
const BATCH_MAX: usize = 64;
/// Deliveries and answers taken at a time.
const TAKEN_MAX: usize = 256;
/// Pause between two looks at the number of partitions.
const REVIEW: Duration = Duration::from_secs(30);

/// Why a session is over.
pub(super) enum End {
    Shutdown,
    Repartitioned,
    /// This front is to serve other partitions.
    Reassigned,
    Failed(anyhow::Error),
}

/// News of the reading thread.
enum News {
    Records(Vec<Record>),
    Repartitioned,
    Failed(anyhow::Error),
}

type Event = FrontEvent<Record, Answered>;

/// The front's driver with its topics, its clients' side of this process and a clock.
pub(super) struct Session {
    ingress: Arc<Ingress>,
    front: FrontDriver<Record, Answered>,
    clock: MonotonicClock,
    egress: Egress,
    sent: mpsc::UnboundedReceiver<Sent<KafkaError>>,
    reader: Reader,
    to: Arc<Answers>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
    scratch: Vec<u8>,
}

impl Session {
    /// Takes partitions, finds out where to go on, and connects. After that nobody else's replies come there, so that none is
    /// overlooked.
    pub async fn begin(topics: &Topics, ingress: Arc<Ingress>, partitions: Vec<i32>) -> anyhow::Result<Self> {
        let limits = FrontLimits::default();
        let found = {
            let topics = topics.clone();
            move || begin(&Found::new(&topics)?, &partitions, topics.ingress, topics.egress, limits.window)
        };
        let Begun { progress, writers } = blocking(found).await?;
        let (egress, sent) = Egress::start(topics, writers)?;
        let from = progress.iter().map(|(partition, progress)| (*partition, progress.watermark()));
        let reader = Reader::start(topics, from)?;
        let (to, answers) = mpsc::unbounded_channel();
        // How much is under way is the front's to say.
        let to = Answers::new(to, Memory::new(usize::MAX).account());
        let front = FrontDriver::new(topics.ingress_id, limits, progress);
        let (clock, scratch) = (MonotonicClock::start(), Vec::new());
        Ok(Session { ingress, front, clock, egress, sent, reader, to, answers, scratch })
    }

    /// Serves until it is over; also when partitions are `assigned` anew.
    pub async fn run(mut self, assigned: &mut Assigned) -> End {
        let shutdown = self.ingress.shutdown.clone();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut shutting_down = false;
        let (mut sent, mut answers) = (Vec::new(), Vec::new());
        loop {
            let room = self.front.has_room();
            let worked = tokio::select! {
                biased;
                () = shutdown.wait(), if !shutting_down => {
                    shutting_down = true;
                    self.step(FrontEvent::End(Ending::Shutdown))
                }
                () = assigned.changed() => return End::Reassigned,
                1.. = self.sent.recv_many(&mut sent, TAKEN_MAX) => sent.drain(..).try_for_each(|sent| match sent {
                    Sent::Reply(place) => self.step(FrontEvent::Written(place)),
                    Sent::Failed(why) => Err(anyhow::anyhow!("replies cannot be written: {why}")),
                }),
                1.. = self.answers.recv_many(&mut answers, TAKEN_MAX) => {
                    let mut answered = |(ticket, answer)| self.step(FrontEvent::Answered(ticket, answer));
                    answers.drain(..).try_for_each(&mut answered)
                }
                Some(news) = self.reader.news.recv(), if room => match news {
                    News::Records(records) => {
                        let records = records.into_iter().map(|record| (record.place(), record));
                        self.step(FrontEvent::Read(records.collect()))
                    }
                    News::Repartitioned => self.step(FrontEvent::End(Ending::Repartitioned)),
                    News::Failed(why) => Err(why),
                },
                _ = tick.tick() => self.step(FrontEvent::Tick),
            };
            if let Err(why) = worked {
                return End::Failed(why);
            }
            match self.front.ended(self.clock.now()) {
                Some(Ending::Shutdown) => return End::Shutdown,
                Some(Ending::Repartitioned) => return End::Repartitioned,
                None => {}
            }
        }
    }

    /// Steps the driver, and carries out what it wants done.
    fn step(&mut self, event: Event) -> anyhow::Result<()> {
        let mut events = VecDeque::from([event]);
        let mut effects = Vec::new();
        while let Some(event) = events.pop_front() {
            self.front.step(self.clock.now(), event, &mut effects);
            for effect in effects.drain(..) {
                events.extend(self.perform(effect)?);
            }
        }
        Ok(())
    }

    /// Carries out an effect; gives what came of it at once.
    fn perform(&mut self, effect: FrontEffect<Record, Answered>) -> anyhow::Result<Option<Event>> {
        match effect {
            FrontEffect::Prepare(place, record) => return Ok(Some(self.prepare(place, record))),
            FrontEffect::Ask { ticket, request, read_only } => {
                let waiter = Waiter::Stream { ticket, to: self.to.clone() };
                if read_only {
                    self.ingress.handle.query(request, waiter);
                } else {
                    self.ingress.handle.submit(request, waiter, false);
                }
            }
            FrontEffect::Reply { place, id, reply, request, read_only, duration } => {
                let outcome = match &reply.outcome {
                    Ok(_) if read_only => Outcome::Answered,
                    Ok(_) => Outcome::Committed,
                    Err(abort) => self.ingress.latencies.error(status_of(abort.code), abort.code.as_str()),
                };
                self.ingress.latencies.record(outcome, duration);
                let is_quarantined = matches!(&reply.outcome, Err(abort) if abort.code == Code::Quarantined);
                let catalog = self.ingress.handle.catalog();
                let kept = request.filter(|_| is_quarantined).and_then(|request| {
                    let operator = catalog.operator(request.operator)?.clone();
                    Some((request, operator))
                });
                let answered = Answered::reply(place, id, reply);
                let answered = match kept {
                    Some((request, operator)) => answered.quarantined(&request, &operator),
                    None => answered,
                };
                return Ok(Some(FrontEvent::Write(place, answered)));
            }
            FrontEffect::Write { place, reply, watermark } => {
                let unwritten = self.egress.reply(reply, watermark).err();
                return Ok(unwritten.map(|reply| FrontEvent::Unwritten(place, reply)));
            }
            FrontEffect::Pause(partition) => self.reader.pause(partition)?,
            FrontEffect::Resume(partition) => self.reader.resume(partition)?,
        }
        Ok(None)
    }

    /// Makes a request of a record, or says why it is none.
    fn prepare(&mut self, place: Place, record: Record) -> Event {
        if self.ingress.handle.catalog().version() == 0 {
            return FrontEvent::TooEarly(place, record);
        }
        let (id, started) = (record.id(), Instant::now());
        match record.request(&self.ingress, &id, &mut self.scratch) {
            Ok(Asked { request, read_only }) => FrontEvent::Prepared { place, id, request, read_only },
            Err(why) => {
                let latencies = &self.ingress.latencies;
                latencies.record(latencies.error(why.status, why.code), started.elapsed());
                let refusal = Answered::refusal(&record, id.clone(), &why);
                FrontEvent::Unfit { place, request: record.request_id(&id), id, refusal }
            }
        }
    }
}

/// The thread that reads requests. It ends when nobody listens.
struct Reader {
    consumer: Arc<Incoming>,
    news: mpsc::Receiver<News>,
    stop: Arc<AtomicBool>,
}

impl Reader {
    /// Reads partitions, each from an offset on.
    fn start(topics: &Topics, from: impl Iterator<Item = (i32, i64)>) -> anyhow::Result<Self> {
        let consumer = topics.consumer()?;
        let mut assignment = TopicPartitionList::new();
        for (partition, offset) in from {
            assignment.add_partition_offset(INGRESS, partition, Offset::Offset(offset))?;
        }
        consumer.assign(&assignment)?;
        let (consumer, stop) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (to, news) = mpsc::channel(READ_AHEAD);
        let (reading, stopped, partitions) = (consumer.clone(), stop.clone(), topics.ingress as usize);
        std::thread::Builder::new()
            .name("styx-kafka".into())
            .spawn(move || read(&reading, &stopped, &to, partitions))?;
        Ok(Reader { consumer, news, stop })
    }

    fn pause(&self, partition: i32) -> Result<(), KafkaError> {
        self.consumer.pause(&one(partition))
    }

    fn resume(&self, partition: i32) -> Result<(), KafkaError> {
        self.consumer.resume(&one(partition))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn one(partition: i32) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    list.add_partition(INGRESS, partition);
    list
}

fn read(consumer: &Incoming, stop: &AtomicBool, to: &mpsc::Sender<News>, partitions: usize) {
    let mut reviewed = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let (mut batch, mut failed) = (Vec::new(), None);
        let mut patience = Duration::from_millis(100);
        while batch.len() < BATCH_MAX {
            match consumer.poll(patience) {
                Some(Ok(message)) => batch.push(Record::from(&message)),
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    failed = Some(News::Failed(anyhow::anyhow!("requests cannot be read: {code}")));
                    break;
                }
                // The end for now, or a broker that is away: the library tries again by itself.
                Some(Err(_)) | None => break,
            }
            // What is there already comes along.
            patience = Duration::ZERO;
        }
        let grown = || {
            let metadata = consumer.fetch_metadata(Some(INGRESS), Duration::from_secs(5)).ok()?;
            let found = metadata.topics().first()?.partitions().len();
            (found > partitions).then_some(News::Repartitioned)
        };
        let mut news = Vec::new();
        if batch.is_empty() && reviewed.elapsed() >= REVIEW {
            reviewed = Instant::now();
            news.extend(grown());
        }
        if !batch.is_empty() {
            news.push(News::Records(batch));
        }
        for news in news.into_iter().chain(failed) {
            if to.blocking_send(news).is_err() {
                return;
            }
        }
    }
}
