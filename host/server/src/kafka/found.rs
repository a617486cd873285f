//! What a front finds at the brokers before it begins: who answered what. [`styx_driver::kafka::beginning`] asks for it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::{Message, Offset, TopicPartitionList};
use styx_driver::kafka::beginning::{Brokers, Right};
use styx_driver::kafka::recovery::ReplyMark;
use styx_storage::log::kafka::ExclusiveWriter;

use super::egress::{self, OFFSET, PARTITION, WATERMARK};
use super::topics::{EGRESS, INGRESS, Incoming, Topics};

/// How long a broker may be silent before a session begins again.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// The brokers, as somebody sees them who waits.
pub(super) struct Found<'a> {
    topics: &'a Topics,
    consumer: Incoming,
    /// Since when a decision of others is waited for.
    waits: Cell<Option<(i32, Instant)>>,
}

impl<'a> Found<'a> {
    pub fn new(topics: &'a Topics) -> anyhow::Result<Self> {
        Ok(Found { topics, consumer: topics.consumer()?, waits: Cell::default() })
    }
}

impl Brokers for Found<'_> {
    type Writer = ExclusiveWriter;
    type Error = anyhow::Error;

    fn take(&self, rights: &[Right]) -> anyhow::Result<Vec<ExclusiveWriter>> {
        egress::take(self.topics, rights)
    }

    fn end_of_sent(&self, egress: i32) -> anyhow::Result<i64> {
        Ok(self.topics.consumer_of_all()?.fetch_watermarks(EGRESS, egress, PATIENCE)?.1)
    }

    fn decided(&self, egress: i32) -> anyhow::Result<(i64, i64)> {
        Ok(self.consumer.fetch_watermarks(EGRESS, egress, PATIENCE)?)
    }

    fn wait_for_decision(&self, egress: i32) -> anyhow::Result<()> {
        let waits = self.waits.get().filter(|(of, _)| *of == egress);
        let since = waits.map_or_else(Instant::now, |(_, since)| since);
        self.waits.set(Some((egress, since)));
        anyhow::ensure!(since.elapsed() < PATIENCE, "replies of another front are not decided");
        std::thread::sleep(POLL);
        Ok(())
    }

    fn replies(&self, egress: i32, from: i64, until: i64) -> anyhow::Result<Vec<ReplyMark>> {
        read(&self.consumer, egress, from, until)
    }

    fn requests(&self, partition: i32) -> anyhow::Result<(i64, i64)> {
        Ok(self.consumer.fetch_watermarks(INGRESS, partition, PATIENCE)?)
    }

    fn was_created_anew(&self, partition: i32, answered: i64, end: i64) {
        tracing::warn!(
            partition,
            answered,
            end,
            "{INGRESS} ends before what has been answered: it was created anew, and is read from its beginning"
        );
    }
}

/// The replies of a stretch of a partition.
fn read(consumer: &Incoming, egress: i32, from: i64, until: i64) -> anyhow::Result<Vec<ReplyMark>> {
    let mut marks = Vec::new();
    if from >= until {
        return Ok(marks);
    }
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(EGRESS, egress, Offset::Offset(from))?;
    consumer.assign(&assignment)?;
    let mut heard = Instant::now();
    loop {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                heard = Instant::now();
                marks.extend(message.headers().and_then(parse));
                if message.offset() + 1 >= until {
                    break;
                }
            }
            // Everything that there is to see.
            Some(Err(KafkaError::PartitionEOF(_))) => break,
            _ => anyhow::ensure!(heard.elapsed() < PATIENCE, "the brokers are silent about {EGRESS}"),
        }
    }
    consumer.unassign()?;
    Ok(marks)
}

/// A reply of a front; others may write into the topic too.
fn parse(headers: &impl Headers) -> Option<ReplyMark> {
    let number = |name: &str| {
        let header = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(header.value?).ok()?.parse::<i64>().ok()
    };
    let partition = i32::try_from(number(PARTITION)?).ok()?;
    Some(ReplyMark { partition, offset: number(OFFSET)?, watermark: number(WATERMARK)? })
}
