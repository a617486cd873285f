//! Where an earlier front stopped, read from the replies that it left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::{Message, Offset, TopicPartitionList};
use styx_driver::kafka::progress::Progress;
use styx_driver::kafka::recovery::{self, ReplyMark};

use super::egress::{OFFSET, PARTITION, WATERMARK};
use super::topics::{EGRESS, INGRESS, Incoming, Topics};

/// How long a broker may be silent before a session begins again.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Where to go on, by partition of requests, of those whose names were taken. Blocks.
pub(super) fn resume(topics: &Topics, partitions: &[i32]) -> anyhow::Result<BTreeMap<i32, Progress>> {
    let consumer = topics.consumer()?;
    let mut all = BTreeMap::new();
    for egress in 0..topics.egress {
        let here = partitions.iter().copied().filter(|ingress| topics.egress_of(*ingress) == egress);
        let here: Vec<i32> = here.collect();
        if !here.is_empty() {
            wait_for_others(topics, &consumer, egress)?;
            all.extend(resume_from(&consumer, egress, &here)?);
        }
    }
    Ok(all)
}

/// Waits until all that was sent is committed or not: another partition's replies may be under way before those that are
/// looked for, and nothing behind them can be read.
fn wait_for_others(topics: &Topics, consumer: &Incoming, egress: i32) -> anyhow::Result<()> {
    let (_, sent) = topics.consumer_of_all()?.fetch_watermarks(EGRESS, egress, PATIENCE)?;
    let started = Instant::now();
    while consumer.fetch_watermarks(EGRESS, egress, PATIENCE)?.1 < sent {
        anyhow::ensure!(started.elapsed() < PATIENCE, "replies of another front are not decided");
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The same for the partitions whose replies stand in one.
fn resume_from(consumer: &Incoming, egress: i32, partitions: &[i32]) -> anyhow::Result<BTreeMap<i32, Progress>> {
    let (low, high) = consumer.fetch_watermarks(EGRESS, egress, PATIENCE)?;
    let mut span = recovery::first_span(partitions.len());
    loop {
        let from = (high - span).max(low);
        let marks = read(consumer, egress, from, high)?;
        if let Some(wider) = recovery::wider_span(span, from == low, partitions, &marks) {
            span = wider;
            continue;
        }
        let of = |partition: i32| marks.iter().copied().filter(move |mark| mark.partition == partition);
        return partitions
            .iter()
            .map(|partition| Ok((*partition, progress(consumer, *partition, of(*partition))?)))
            .collect();
    }
}

/// How far one partition has come.
fn progress(
    consumer: &Incoming,
    partition: i32,
    marks: impl Iterator<Item = ReplyMark> + Clone,
) -> anyhow::Result<Progress> {
    let (first, end) = consumer.fetch_watermarks(INGRESS, partition, PATIENCE)?;
    Ok(recovery::resume(first, end, marks).unwrap_or_else(|answered| {
        tracing::warn!(
            partition,
            answered,
            end,
            "{INGRESS} ends before what has been answered: it was created anew, and is read from its beginning"
        );
        Progress::new(first, BTreeSet::new())
    }))
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
