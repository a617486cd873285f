//! One run at one pace; and what comes before: filling an app.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use tokio::task::JoinSet;

use super::booked::Booked;
use super::connection::End;
use super::drive::Drive;
use super::pace::{Pace, Schedule};
use super::tally::{Span, Tally};
use crate::progress::Progress;
use crate::system::{Disturbance, Figures, Migrated, System, own_cpu};
use crate::workload::Workload;

#[derive(Clone, Debug)]
pub struct Trial {
    /// When calls are due; a window is shared by all connections.
    pub pace: Pace,
    /// Time that does not count.
    pub warm_up: Duration,
    pub measured: Duration,
    /// The run ends early when a call has waited for so long.
    pub lag_max: Duration,
    /// Disturbances of the system, by times of the span at which they happen.
    pub disturbances: Vec<(Duration, Disturbance)>,
    /// Decides which calls are made.
    pub seed: u64,
}

#[derive(Debug)]
pub struct Measured {
    pub pace: Pace,
    pub seconds: f64,
    pub tally: Tally,
    pub early: bool,
    /// Figures of the system meanwhile.
    pub figures: Figures,
    /// Processor time of the client.
    pub client_cpu: Duration,
    /// How the system was disturbed, in order: from when until that was done.
    pub events: Vec<(Range<Duration>, Disturbance)>,
    /// What has come of those that were migrations.
    pub migrated: Vec<Migrated>,
    /// When snapshots were taken, from the beginning of the span.
    pub snapshots: Vec<Duration>,
}

impl Measured {
    pub fn tps(&self) -> f64 {
        self.tally.answered as f64 / self.seconds
    }

    /// A quantile of latency, in milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.tally.latency_us.value_at_quantile(quantile) as f64 / 1e3
    }

    /// The rate that was offered, in an open loop.
    pub fn offered(&self) -> Option<f64> {
        match self.pace {
            Pace::Open { rate } => Some(rate),
            Pace::Closed { .. } => None,
        }
    }
}

impl Trial {
    pub async fn run(
        &self,
        system: &dyn System,
        booked: &Arc<Booked>,
        progress: &Progress,
    ) -> anyhow::Result<Measured> {
        let connections = system.open(false).await?;
        let count = connections.len();
        let start = Instant::now() + Duration::from_millis(20);
        let from = start + self.warm_up;
        let span = Span { from, until: from + self.measured };
        let answered = Arc::new(AtomicU64::new(0));
        let mut running = JoinSet::new();
        for (at, connection) in connections.into_iter().enumerate() {
            let pace = match self.pace {
                Pace::Closed { window } => Pace::Closed { window: window.div_ceil(count) },
                open => open,
            };
            let drive = Drive {
                connection,
                booked: booked.clone(),
                // Far apart, so that connections of neighbouring seeds do not make the same calls.
                seed: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(at as u64),
                schedule: Schedule::new(pace, at, count, start, span.until),
                span,
                lag_max: self.lag_max,
                answered: answered.clone(),
            };
            running.spawn(drive.run());
        }
        let watched = watch(system, span, &self.disturbances, &answered, progress);
        let finished = async {
            let (mut tally, mut early) = (Tally::new(span), false);
            while let Some(ended) = running.join_next().await {
                let (seen, ended_early) = ended??;
                tally.merge(seen);
                early |= ended_early;
            }
            anyhow::Ok((tally, early))
        };
        // Connections that end early, or fail, are not waited for until the span is over.
        tokio::pin!(finished, watched);
        let ((tally, early), figures) = tokio::select! {
            ended = &mut finished => {
                let ended = ended?;
                let figures = if ended.1 { None } else { Some(watched.await?) };
                (ended, figures)
            }
            watched = &mut watched => (finished.await?, Some(watched?)),
        };
        let seconds = span.seconds().min(span.from.elapsed().as_secs_f64()).max(0.001);
        let Watched { figures, client_cpu, events, snapshots } = figures.unwrap_or_default();
        let migrated = system.migrated().await?;
        Ok(Measured { pace: self.pace, seconds, tally, early, figures, client_cpu, events, migrated, snapshots })
    }
}

/// What was seen during the span.
#[derive(Default)]
struct Watched {
    figures: Figures,
    client_cpu: Duration,
    events: Vec<(Range<Duration>, Disturbance)>,
    snapshots: Vec<Duration>,
}

/// Between two looks at the snapshots that there are: it keeps a few.
const LOOK_AT_SNAPSHOTS: Duration = Duration::from_secs(1);

/// Watches what the system and the client use during the span.
async fn watch(
    system: &dyn System,
    span: Span,
    disturbances: &[(Duration, Disturbance)],
    answered: &AtomicU64,
    progress: &Progress,
) -> anyhow::Result<Watched> {
    tokio::time::sleep_until(span.from.into()).await;
    let begun_at = SystemTime::now();
    let (before, cpu) = (system.figures().await?, own_cpu());
    let mut events = Vec::new();
    let (mut taken, mut looked) = (BTreeSet::new(), Instant::now());
    let mut last = (Instant::now(), answered.load(Ordering::Relaxed));
    while Instant::now() < span.until {
        while let Some((at, disturbance)) = disturbances.get(events.len())
            && span.from + *at <= Instant::now()
        {
            let begun = span.from.elapsed();
            system.disturb(*disturbance).await?;
            events.push((begun..span.from.elapsed(), *disturbance));
        }
        let next = Instant::now() + Duration::from_millis(250);
        tokio::time::sleep_until(next.min(span.until).into()).await;
        let (now, count) = (Instant::now(), answered.load(Ordering::Relaxed));
        progress.rate((count - last.1) as f64 / (now - last.0).as_secs_f64());
        last = (now, count);
        if now - looked >= LOOK_AT_SNAPSHOTS {
            looked = now;
            taken.extend(system.snapshots().await?);
        }
    }
    let snapshots = taken.iter().filter_map(|taken| taken.duration_since(begun_at).ok()).collect();
    let used = own_cpu() - cpu;
    let figures = system.figures().await?.since(&before);
    let others = figures.cpu.filter(|_| system.is_here()).unwrap_or_default();
    Ok(Watched { figures, client_cpu: used.saturating_sub(others), events, snapshots })
}

/// Calls that fill an app, under way at a time on each connection.
const FILLING: usize = 2000;

/// Makes all calls that fill an app; each must succeed.
pub async fn fill(system: &dyn System, workload: &dyn Workload, progress: &Progress) -> anyhow::Result<u64> {
    let mut connection = system.open(false).await?.into_iter().next().context("a system has a connection")?;
    let most = connection.capacity().min(FILLING);
    let mut calls = workload.fill();
    let (mut ticket, mut under_way, mut answers, mut done) = (0, 0, Vec::new(), false);
    poll_fn(|context| {
        loop {
            while !done && under_way < most {
                let Some(call) = calls.next() else {
                    done = true;
                    break;
                };
                connection.send(ticket, &call)?;
                ticket += 1;
                under_way += 1;
            }
            match connection.poll(context, &mut answers) {
                Poll::Ready(polled) => polled?,
                Poll::Pending if done && under_way == 0 => return Poll::Ready(anyhow::Ok(())),
                Poll::Pending => return Poll::Pending,
            }
            for answered in answers.drain(..) {
                under_way -= 1;
                if let End::Failed { code, message } = answered.end {
                    return Poll::Ready(Err(anyhow::anyhow!("a call that fills the app failed: {code}: {message}")));
                }
            }
            progress.filled(ticket - under_way as u64);
        }
    })
    .await?;
    Ok(ticket)
}
