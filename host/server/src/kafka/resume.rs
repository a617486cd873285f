//! Where an earlier front stopped, read from the replies that it left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::{Message, Offset, TopicPartitionList};

use super::egress::{OFFSET, PARTITION, WATERMARK};
use super::progress::{Progress, WINDOW};
use super::topics::{EGRESS, INGRESS, Incoming, Topics};

/// How long a broker may be silent before a session begins again.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// A reply, as far as it matters here: the record that it answers, and the watermark.
#[derive(Clone, Copy)]
struct Left {
    partition: i32,
    offset: i64,
    watermark: i64,
}

/// Where to go on, by partition of requests. Blocks.
pub(super) fn resume(topics: &Topics) -> anyhow::Result<BTreeMap<i32, Progress>> {
    let consumer = topics.consumer()?;
    let mut all = BTreeMap::new();
    for egress in 0..topics.egress {
        let partitions = (0..topics.ingress).filter(|ingress| topics.egress_of(*ingress) == egress);
        all.extend(resume_from(&consumer, egress, &partitions.collect::<Vec<_>>())?);
    }
    Ok(all)
}

/// The same for the partitions whose replies stand in one.
fn resume_from(consumer: &Incoming, egress: i32, partitions: &[i32]) -> anyhow::Result<BTreeMap<i32, Progress>> {
    let (low, high) = consumer.fetch_watermarks(EGRESS, egress, PATIENCE)?;
    // Replies to records beyond the watermark were written while it was at most a window below,
    // so that at most two windows of replies can follow.
    let enough = 2 * WINDOW;
    let mut span = (enough + WINDOW / 4) * partitions.len().max(1) as i64;
    loop {
        let from = (high - span).max(low);
        let left = read(consumer, egress, from, high)?;
        let of = |partition: i32| left.iter().filter(move |left| left.partition == partition);
        if from > low && partitions.iter().any(|partition| (of(*partition).count() as i64) < enough) {
            span *= 4;
            continue;
        }
        return partitions
            .iter()
            .map(|partition| Ok((*partition, progress(consumer, *partition, of(*partition))?)))
            .collect();
    }
}

/// How far one partition has come.
fn progress<'a>(
    consumer: &Incoming,
    partition: i32,
    left: impl Iterator<Item = &'a Left> + Clone,
) -> anyhow::Result<Progress> {
    let (first, end) = consumer.fetch_watermarks(INGRESS, partition, PATIENCE)?;
    let watermark = left.clone().map(|left| left.watermark).max().unwrap_or(0);
    if watermark > end {
        tracing::warn!(
            partition,
            answered = watermark,
            end,
            "{INGRESS} ends before what has been answered: it was created anew, and is read from its beginning"
        );
        return Ok(Progress::new(first, BTreeSet::new()));
    }
    let watermark = watermark.max(first);
    let answered = left.map(|left| left.offset).filter(|offset| *offset >= watermark).collect();
    Ok(Progress::new(watermark, answered))
}

/// The replies of a stretch of a partition.
fn read(consumer: &Incoming, egress: i32, from: i64, until: i64) -> anyhow::Result<Vec<Left>> {
    let mut left = Vec::new();
    if from >= until {
        return Ok(left);
    }
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(EGRESS, egress, Offset::Offset(from))?;
    consumer.assign(&assignment)?;
    let mut heard = Instant::now();
    loop {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                heard = Instant::now();
                left.extend(message.headers().and_then(parse));
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
    Ok(left)
}

/// A reply of a front; others may write into the topic too.
fn parse(headers: &impl Headers) -> Option<Left> {
    let number = |name: &str| {
        let header = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(header.value?).ok()?.parse::<i64>().ok()
    };
    let partition = i32::try_from(number(PARTITION)?).ok()?;
    Some(Left { partition, offset: number(OFFSET)?, watermark: number(WATERMARK)? })
}
