//! One connection under load: sends what is due, records what comes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::connection::{Answered, Connection};
use super::pace::Schedule;
use super::tally::{Span, Tally};
use super::timer::Timer;
use crate::workload::Workload;

/// Least pause between two looks at the clock: little beside any latency, and long enough that a
/// client at full speed does not spend its time on waking.
const TICK: Duration = Duration::from_micros(200);

/// How long answers are waited for when nothing more is due.
const GRACE: Duration = Duration::from_secs(2);

/// How long it may take until a system that was asked too much has answered all: what it still has to
/// do must not burden the next run.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Rounds before other tasks of the thread have their turn.
const ROUNDS_MAX: usize = 64;

/// A connection and what it shall do.
pub struct Drive {
    pub connection: Box<dyn Connection>,
    pub workload: Arc<dyn Workload>,
    pub seed: u64,
    pub schedule: Schedule,
    pub span: Span,
    /// The run ends early when a call that is due has waited for so long: the system is over its peak.
    pub lag_max: Duration,
    /// Answers, for whoever shows progress.
    pub answered: Arc<AtomicU64>,
}

#[derive(Clone, Copy)]
struct UnderWay {
    due: Instant,
    function: &'static str,
}

impl Drive {
    /// Runs to the end; also says whether it ended early.
    pub async fn run(mut self) -> anyhow::Result<(Tally, bool)> {
        let timer = Timer::new()?;
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut tally = Tally::new(self.span);
        let mut under_way: Vec<Option<UnderWay>> = Vec::new();
        let mut free: Vec<u64> = Vec::new();
        let mut answers: Vec<Answered> = Vec::new();
        let (mut patience, mut early) = (self.span.until + GRACE, false);
        poll_fn(|context| {
            for _ in 0..ROUNDS_MAX {
                if let Poll::Ready(Err(error)) = self.connection.poll(context, &mut answers) {
                    return Poll::Ready(Err(error));
                }
                let now = Instant::now();
                let mut moved = !answers.is_empty();
                self.answered.fetch_add(answers.len() as u64, Ordering::Relaxed);
                for answered in answers.drain(..) {
                    let Some(call) = under_way.get_mut(answered.ticket as usize).and_then(Option::take) else {
                        return Poll::Ready(Err(anyhow::anyhow!("an answer to a call that is not under way")));
                    };
                    free.push(answered.ticket);
                    let workload = &self.workload;
                    tally.record(call.function, call.due, now, &answered, |code, message| {
                        workload.expects(code, message)
                    });
                }
                let mut wake = None;
                while !early && let Some(due) = self.schedule.next(now, under_way.len() - free.len()) {
                    if due > now {
                        wake = Some(due.max(now + TICK));
                        break;
                    }
                    if now - due > self.lag_max {
                        (early, patience) = (true, now + GRACE);
                        break;
                    }
                    if under_way.len() - free.len() >= self.connection.capacity() {
                        break;
                    }
                    let call = self.workload.next(&mut random);
                    let ticket = free.pop().unwrap_or_else(|| {
                        under_way.push(None);
                        under_way.len() as u64 - 1
                    });
                    under_way[ticket as usize] = Some(UnderWay { due, function: call.function });
                    self.schedule.sent();
                    moved = true;
                    if let Err(error) = self.connection.send(ticket, &call) {
                        return Poll::Ready(Err(error));
                    }
                }
                let over = early || self.schedule.is_over(now);
                if now >= patience || over && under_way.len() == free.len() {
                    return Poll::Ready(Ok(()));
                }
                if !moved {
                    timer.set(wake.unwrap_or(patience), context);
                    return Poll::Pending;
                }
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await?;
        let now = Instant::now();
        under_way.iter().flatten().for_each(|call| tally.give_up(call.due, now));
        // What was due and never sent has waited as well.
        while let Some(due) = self.schedule.next(now, 0).filter(|due| *due < now) {
            tally.give_up(due, now);
            self.schedule.sent();
        }
        let mut left = under_way.len() - free.len();
        let drained = poll_fn(|context| {
            while left > 0 {
                match self.connection.poll(context, &mut answers) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(polled) => polled?,
                }
                left -= answers.drain(..).count();
            }
            Poll::Ready(anyhow::Ok(()))
        });
        // Who has lost an answer is not waited for.
        if let Ok(drained) = tokio::time::timeout(DRAIN_MAX, drained).await {
            drained?;
        }
        Ok((tally, early))
    }
}
