//! The calls over pipelined connections, which go on through every kill, and what is seen of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, stream};
use hdrhistogram::Histogram;
use styx_client::{Client, Error, Reply, Request};

/// The answers so far.
pub(super) struct Progress {
    pub(super) started: Instant,
    pub(super) answered: AtomicUsize,
    pub(super) in_flight: AtomicUsize,
    seen: Mutex<Seen>,
}

struct Seen {
    latency_us: Histogram<u64>,
    slots: Vec<u32>,
}

const SLOT: Duration = Duration::from_millis(20);

impl Progress {
    pub(super) fn new() -> Arc<Self> {
        let latency_us = Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are right");
        Arc::new(Progress {
            started: Instant::now(),
            answered: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            seen: Mutex::new(Seen { latency_us, slots: Vec::new() }),
        })
    }

    fn answer(&self, sent: Instant) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().expect("nothing panics while holding this lock");
        seen.latency_us.saturating_record(sent.elapsed().as_micros() as u64);
        let slot = (self.started.elapsed().as_micros() / SLOT.as_micros()) as usize;
        if seen.slots.len() <= slot {
            seen.slots.resize(slot + 1, 0);
        }
        seen.slots[slot] += 1;
    }

    /// Median and 99th percentile, in milliseconds.
    pub(super) fn latency(&self) -> (f64, f64) {
        let seen = self.seen.lock().expect("nothing panics while holding this lock");
        let at = |quantile| seen.latency_us.value_at_quantile(quantile) as f64 / 1e3;
        (at(0.5), at(0.99))
    }

    /// Answers over time, as a line of bars, with marks below it where something was killed.
    pub(super) fn timeline(&self, elapsed: Duration, kills: &[Duration]) -> String {
        const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const WIDTH: usize = 64;
        let seen = self.seen.lock().expect("nothing panics while holding this lock");
        let slots = (elapsed.as_micros() / SLOT.as_micros()) as usize + 1;
        let column = |at: usize| (at * WIDTH / slots).min(WIDTH - 1);
        let mut columns = [0u32; WIDTH];
        for (at, count) in seen.slots.iter().enumerate() {
            columns[column(at)] += count;
        }
        let highest = columns.iter().copied().max().unwrap_or(1).max(1);
        let bars: String =
            columns.iter().map(|count| BARS[(*count as usize * 8).div_ceil(highest as usize).min(8)]).collect();
        let mut marks = vec![' '; WIDTH];
        for killed in kills {
            marks[column((killed.as_micros() / SLOT.as_micros()) as usize)] = '✗';
        }
        let marks: String = marks.into_iter().collect();
        format!("\n  answers over time ({:.1} s; ✗ = kill -9)\n  {bars}\n  {marks}", elapsed.as_secs_f64())
    }
}

/// Ends of all calls, in their order.
pub(super) struct Outcomes(pub(super) Vec<Result<Reply, Error>>);

impl Outcomes {
    pub(super) fn committed(&self) -> usize {
        self.0.iter().filter(|outcome| outcome.is_ok()).count()
    }

    pub(super) fn aborted(&self) -> usize {
        self.0.len() - self.committed()
    }

    /// How many are the same in both.
    pub(super) fn same(&self, other: &Outcomes) -> usize {
        let same = |pair: &(&Result<Reply, Error>, &Result<Reply, Error>)| match pair {
            (Ok(one), Ok(other)) => one.bytes == other.bytes,
            (Err(one), Err(other)) => (&one.code, &one.message) == (&other.code, &other.message),
            _ => false,
        };
        self.0.iter().zip(&other.0).filter(same).count()
    }

    /// How many ended in which way; names in messages are left out.
    pub(super) fn reasons(&self) -> Vec<(String, usize)> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for outcome in &self.0 {
            let reason = match outcome {
                Ok(_) => "committed".to_owned(),
                Err(error) => {
                    let anonymous =
                        |word| if str::bytes(word).any(|byte| byte.is_ascii_digit()) { "…" } else { word };
                    let words: Vec<&str> = error.message.split(' ').map(anonymous).collect();
                    format!("{}: {}", error.code, words.join(" "))
                }
            };
            *reasons.entry(reason).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}

/// Makes all calls once, over several connections, whatever happens to the server meanwhile.
pub(super) async fn drive(
    client: Client,
    calls: Arc<Vec<Request>>,
    progress: Arc<Progress>,
    connections: usize,
    window: usize,
) -> anyhow::Result<Outcomes> {
    // Consecutive calls of one order stay on one connection.
    let share = calls.len().div_ceil(connections).max(1);
    let tasks: Vec<_> = (0..calls.len())
        .step_by(share)
        .map(|first| {
            let (calls, progress, pipeline) = (calls.clone(), progress.clone(), client.pipeline());
            tokio::spawn(async move {
                let mine = first..(first + share).min(calls.len());
                let asked = stream::iter(mine).map(|at| {
                    let (progress, sent) = (progress.clone(), Instant::now());
                    progress.in_flight.fetch_add(1, Ordering::Relaxed);
                    let reply = pipeline.call(calls[at].clone());
                    async move {
                        let reply = reply.await;
                        progress.answer(sent);
                        (at, reply)
                    }
                });
                let mut ends: Vec<_> = asked.buffer_unordered(window).collect().await;
                ends.sort_by_key(|(at, _)| *at);
                ends.into_iter().map(|(_, end)| end).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(calls.len());
    for task in tasks {
        outcomes.extend(task.await?);
    }
    let unanswered = outcomes.iter().find_map(|outcome| outcome.as_ref().err().filter(|error| error.is_transient()));
    match unanswered.cloned() {
        Some(error) => Err(error).context("a call was never answered"),
        None => Ok(Outcomes(outcomes)),
    }
}
