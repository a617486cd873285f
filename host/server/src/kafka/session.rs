//! From requests to replies, for as long as nothing breaks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use styx_protocol::abort::Code;
use styx_protocol::transaction::Request;
use tokio::sync::mpsc;

use super::blocking;
use super::egress::{Answered, Delivered, Egress, Sent};
use super::progress::{Admission, Progress};
use super::record::{Asked, Record};
use super::resume::resume;
use super::topics::{INGRESS, Incoming, Topics};
use crate::gateway::Outcome;
use crate::handle::{Answer, Waiter};
use crate::http::status_of;
use crate::services::Services;

/// Requests under way, and bytes of their arguments; past that no more are taken.
const IN_FLIGHT_MAX: usize = 4096;
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Records taken from the library and not looked at: bursts of them, and records of a burst.
const READ_AHEAD: usize = 8;
const BURST_MAX: usize = 64;
/// Deliveries and answers taken at a time.
const TAKEN_MAX: usize = 256;
/// Before a request is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long a session that ends waits for replies: at a shutdown, and before another begins.
const LAST_REPLIES: Duration = Duration::from_secs(5);
const ALL_REPLIES: Duration = Duration::from_secs(60);
/// Between two looks at the number of partitions.
const REVIEW: Duration = Duration::from_secs(30);

/// Why a session is over.
pub(super) enum End {
    Shutdown,
    Repartitioned,
    Failed(anyhow::Error),
}

/// What the reading thread says.
enum News {
    Records(Vec<Record>),
    Repartitioned,
    Failed(anyhow::Error),
}

/// A partition of requests.
struct Partition {
    progress: Progress,
    /// Records that are too far ahead.
    held: VecDeque<Record>,
    paused: bool,
}

/// A request under way.
struct Flight {
    partition: i32,
    offset: i64,
    id: String,
    request: Arc<Request>,
    read_only: bool,
    started: Instant,
}

pub(super) struct Session {
    services: Services,
    partitions: BTreeMap<i32, Partition>,
    egress: Egress,
    delivered: mpsc::UnboundedReceiver<Delivered>,
    reader: Reader,
    flights: HashMap<u64, Flight>,
    flying_bytes: usize,
    tickets: u64,
    to: mpsc::UnboundedSender<(u64, Answer)>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
    /// Requests to be asked again, and when.
    again: VecDeque<(Instant, u64)>,
    /// Records whose app may be deployed any moment, and replies that there was no room for.
    postponed: VecDeque<Record>,
    unsent: VecDeque<Answered>,
    scratch: Vec<u8>,
}

impl Session {
    /// Finds out where to go on, and connects.
    pub async fn begin(topics: &Topics, services: Services) -> anyhow::Result<Self> {
        let resumed = {
            let topics = topics.clone();
            blocking(move || resume(&topics)).await?
        };
        let (egress, delivered) = Egress::new(topics)?;
        let reader = Reader::start(topics, &resumed)?;
        let partitions = resumed
            .into_iter()
            .map(|(number, progress)| (number, Partition { progress, held: VecDeque::new(), paused: false }));
        let (to, answers) = mpsc::unbounded_channel();
        Ok(Session {
            services,
            partitions: partitions.collect(),
            egress,
            delivered,
            reader,
            flights: HashMap::new(),
            flying_bytes: 0,
            tickets: 0,
            to,
            answers,
            again: VecDeque::new(),
            postponed: VecDeque::new(),
            unsent: VecDeque::new(),
            scratch: Vec::new(),
        })
    }

    /// Serves until it is over.
    pub async fn run(mut self) -> End {
        let shutdown = self.services.shutdown.clone();
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut ending: Option<(End, Instant)> = None;
        let (mut delivered, mut answers) = (Vec::new(), Vec::new());
        loop {
            let room = ending.is_none() && self.has_room();
            let worked = tokio::select! {
                biased;
                () = shutdown.wait(), if !matches!(ending, Some((End::Shutdown, _))) => {
                    ending = Some((End::Shutdown, Instant::now() + LAST_REPLIES));
                    Ok(())
                }
                1.. = self.delivered.recv_many(&mut delivered, TAKEN_MAX) => {
                    delivered.drain(..).try_for_each(|delivered| self.sent(delivered))
                }
                1.. = self.answers.recv_many(&mut answers, TAKEN_MAX) => {
                    answers.drain(..).try_for_each(|(ticket, answer)| self.answered(ticket, answer))
                }
                Some(news) = self.reader.news.recv(), if room => match news {
                    News::Records(records) => records.into_iter().try_for_each(|record| self.meet(record)),
                    News::Repartitioned => {
                        ending = Some((End::Repartitioned, Instant::now() + ALL_REPLIES));
                        Ok(())
                    }
                    News::Failed(why) => Err(why),
                },
                _ = tick.tick() => self.review(),
            };
            if let Err(why) = worked {
                return End::Failed(why);
            }
            match ending {
                Some((end, until)) if self.is_empty() || Instant::now() >= until => return end,
                other => ending = other,
            }
        }
    }

    fn has_room(&self) -> bool {
        let held = self.partitions.values().map(|partition| partition.held.len()).sum::<usize>();
        self.flights.len() + self.unsent.len() + held + self.postponed.len() < IN_FLIGHT_MAX
            && self.flying_bytes < IN_FLIGHT_BYTES_MAX
    }

    fn is_empty(&self) -> bool {
        self.partitions.values().all(|partition| partition.progress.is_done())
    }

    /// A record has been read.
    fn meet(&mut self, record: Record) -> anyhow::Result<()> {
        let Some(partition) = self.partitions.get_mut(&record.partition) else { return Ok(()) };
        if !partition.held.is_empty() {
            partition.held.push_back(record);
            return Ok(());
        }
        match partition.progress.meet(record.offset) {
            Admission::Taken => self.take(record),
            Admission::Answered => Ok(()),
            Admission::Held => {
                self.reader.pause(record.partition)?;
                partition.paused = true;
                partition.held.push_back(record);
                Ok(())
            }
        }
    }

    /// Submits a record, or says why not.
    fn take(&mut self, record: Record) -> anyhow::Result<()> {
        // Before anything has been deployed nobody knows what is unknown.
        if self.services.handle.catalog().version() == 0 {
            self.postponed.push_back(record);
            return Ok(());
        }
        let (id, started) = (record.id(), Instant::now());
        let mut scratch = std::mem::take(&mut self.scratch);
        let asked = record.request(&self.services, &id, &mut scratch);
        self.scratch = scratch;
        match asked {
            Ok(Asked { request, read_only }) => {
                self.tickets += 1;
                self.flying_bytes += request.args.len();
                let (partition, offset) = (record.partition, record.offset);
                let flight = Flight { partition, offset, id, request: Arc::new(request), read_only, started };
                self.flights.insert(self.tickets, flight);
                self.ask(self.tickets);
            }
            Err(why) => {
                self.services.latencies.record(Outcome::of_error(why.status), started.elapsed());
                let refusal = Answered::refusal(record.partition, record.offset, id, &why);
                self.egress.dead_letter(&record, &why, refusal)?;
            }
        }
        Ok(())
    }

    fn ask(&self, ticket: u64) {
        let Some(flight) = self.flights.get(&ticket) else { return };
        let waiter = Waiter::Stream { ticket, to: self.to.clone() };
        if flight.read_only {
            self.services.handle.query(Request::clone(&flight.request), waiter)
        } else {
            self.services.handle.submit(flight.request.clone(), waiter, false)
        }
    }

    /// A request has been answered.
    fn answered(&mut self, ticket: u64, answer: Answer) -> anyhow::Result<()> {
        let reply = match answer {
            Answer::Reply(reply) => reply,
            // What nobody can say is asked again, under the same id.
            _ => {
                self.again.push_back((Instant::now() + ASK_AGAIN, ticket));
                return Ok(());
            }
        };
        let outcome = match &reply.outcome {
            Err(abort) if abort.code == Code::Overloaded => {
                self.again.push_back((Instant::now() + ASK_AGAIN, ticket));
                return Ok(());
            }
            Ok(_) => Outcome::Committed,
            Err(abort) => Outcome::of_error(status_of(abort.code)),
        };
        let Some(flight) = self.flights.remove(&ticket) else { return Ok(()) };
        self.flying_bytes -= flight.request.args.len();
        let outcome = if outcome == Outcome::Committed && flight.read_only { Outcome::Answered } else { outcome };
        self.services.latencies.record(outcome, flight.started.elapsed());
        self.send(Answered::reply(flight.partition, flight.offset, flight.id, reply))
    }

    fn send(&mut self, answered: Answered) -> anyhow::Result<()> {
        let Some(partition) = self.partitions.get(&answered.partition) else { return Ok(()) };
        match self.egress.reply(answered, partition.progress.watermark()) {
            Ok(()) => Ok(()),
            Err(Ok(answered)) => {
                self.unsent.push_back(answered);
                Ok(())
            }
            Err(Err(error)) => Err(error.into()),
        }
    }

    /// The broker has said something of a message.
    fn sent(&mut self, delivered: Delivered) -> anyhow::Result<()> {
        match self.egress.judge(delivered) {
            Sent::Reply { partition, offset } => {
                if let Some(partition) = self.partitions.get_mut(&partition) {
                    partition.progress.done(offset);
                }
                self.resume_held(partition)
            }
            Sent::DeadLetter(refusal) => self.send(*refusal),
            Sent::Failed(why) => anyhow::bail!("replies cannot be written: {why}"),
        }
    }

    /// Takes what was too far ahead, as far as it is not any more.
    fn resume_held(&mut self, number: i32) -> anyhow::Result<()> {
        loop {
            let Some(partition) = self.partitions.get_mut(&number) else { return Ok(()) };
            let Some(record) = partition.held.front() else {
                if std::mem::take(&mut partition.paused) {
                    self.reader.resume(number)?;
                }
                return Ok(());
            };
            match partition.progress.meet(record.offset) {
                Admission::Held => return Ok(()),
                Admission::Answered => drop(partition.held.pop_front()),
                Admission::Taken => {
                    let record = partition.held.pop_front().expect("just seen");
                    self.take(record)?;
                }
            }
        }
    }

    /// Now and then: what is to be asked again, and what there was no room for.
    fn review(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while self.again.front().is_some_and(|(when, _)| *when <= now) {
            if let Some((_, ticket)) = self.again.pop_front() {
                self.ask(ticket);
            }
        }
        for record in std::mem::take(&mut self.postponed) {
            self.take(record)?;
        }
        for answered in std::mem::take(&mut self.unsent) {
            self.send(answered)?;
        }
        Ok(())
    }
}

/// The thread that reads requests. It ends when nobody listens.
struct Reader {
    consumer: Arc<Incoming>,
    news: mpsc::Receiver<News>,
    stop: Arc<AtomicBool>,
}

impl Reader {
    fn start(topics: &Topics, resumed: &BTreeMap<i32, Progress>) -> anyhow::Result<Self> {
        let consumer = topics.consumer()?;
        let mut assignment = TopicPartitionList::new();
        for (partition, progress) in resumed {
            assignment.add_partition_offset(INGRESS, *partition, Offset::Offset(progress.watermark()))?;
        }
        consumer.assign(&assignment)?;
        let (consumer, stop) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (to, news) = mpsc::channel(READ_AHEAD);
        let (reading, stopped, partitions) = (consumer.clone(), stop.clone(), resumed.len());
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
        let (mut burst, mut failed) = (Vec::new(), None);
        let mut patience = Duration::from_millis(100);
        while burst.len() < BURST_MAX {
            match consumer.poll(patience) {
                Some(Ok(message)) => burst.push(Record::from(&message)),
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
        if burst.is_empty() && reviewed.elapsed() >= REVIEW {
            reviewed = Instant::now();
            news.extend(grown());
        }
        if !burst.is_empty() {
            news.push(News::Records(burst));
        }
        for news in news.into_iter().chain(failed) {
            if to.blocking_send(news).is_err() {
                return;
            }
        }
    }
}
