//! One connection under load: sends what is due, records what comes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::booked::Booked;
use super::connection::{Answered, Connection, End};
use super::pace::Schedule;
use super::tally::{Span, Tally};
use super::timer::Timer;
use crate::workload::{Amounts, Ledger};

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
    pub booked: Arc<Booked>,
    pub seed: u64,
    pub schedule: Schedule,
    pub span: Span,
    /// The run ends early when a call that is due has waited for so long: the system is over its peak.
    pub lag_max: Duration,
    /// Answers, for whoever shows progress.
    pub answered: Arc<AtomicU64>,
}

struct UnderWay {
    due: Instant,
    function: &'static str,
    amounts: Amounts,
}

impl UnderWay {
    /// It counts, whenever it was due and however late its answer has come.
    fn answered(&self, end: &End, ledger: &Ledger) {
        let failure = match end {
            End::Done(_) => None,
            End::Failed { code, .. } => Some(&**code),
        };
        ledger.answered(&self.amounts, failure);
    }
}

impl Drive {
    /// Runs to the end; also says whether it ended early.
    pub async fn run(mut self) -> anyhow::Result<(Tally, bool)> {
        let timer = Timer::new()?;
        let Booked { workload, ledger } = &*self.booked;
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
                    call.answered(&answered.end, ledger);
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
                    let mut call = workload.next(&mut random);
                    let ticket = free.pop().unwrap_or_else(|| {
                        under_way.push(None);
                        under_way.len() as u64 - 1
                    });
                    let amounts = std::mem::take(&mut call.amounts);
                    under_way[ticket as usize] = Some(UnderWay { due, function: call.function, amounts });
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
                left -= answers.len();
                for answered in answers.drain(..) {
                    if let Some(call) = under_way.get_mut(answered.ticket as usize).and_then(Option::take) {
                        call.answered(&answered.end, ledger);
                    }
                }
            }
            Poll::Ready(anyhow::Ok(()))
        });
        // Who has lost an answer is not waited for.
        if let Ok(drained) = tokio::time::timeout(DRAIN_MAX, drained).await {
            drained?;
        }
        under_way.iter().flatten().for_each(|call| ledger.unanswered(&call.amounts));
        Ok((tally, early))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Context;

    use bytes::Bytes;

    use super::*;
    use crate::load::{Booked, Pace};
    use crate::workload::model::{Fault, Model};
    use crate::workload::{Call, languages};

    /// Accounts, which answer at once. Of some calls nobody knows what has become of it: all the same it has
    /// happened, or it has not.
    struct Accounts {
        model: Arc<Mutex<Model>>,
        taken: Vec<(u64, Call)>,
        count: u64,
        /// This call is answered and not made.
        lost: u64,
    }

    impl Connection for Accounts {
        fn capacity(&self) -> usize {
            100
        }

        fn send(&mut self, ticket: u64, call: &Call) -> anyhow::Result<()> {
            self.taken.push((ticket, call.clone()));
            Ok(())
        }

        fn poll(&mut self, _: &mut Context<'_>, answers: &mut Vec<Answered>) -> Poll<anyhow::Result<()>> {
            if self.taken.is_empty() {
                return Poll::Pending;
            }
            for (ticket, call) in self.taken.drain(..) {
                self.count += 1;
                let is_known = !self.count.is_multiple_of(101);
                if self.count != self.lost && (is_known || self.count.is_multiple_of(2)) {
                    self.model.lock().unwrap().call(&call).unwrap();
                }
                let end = if is_known {
                    End::Done(Bytes::new())
                } else {
                    End::failed("OUTCOME_UNKNOWN", "a worker was lost")
                };
                answers.push(Answered { ticket, end, retries: 0 });
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Whether what was answered has happened; `lost` is the number of a call that is lost.
    async fn holds(lost: u64) -> bool {
        let workload = languages::workload("ycsb-t --accounts 100000 --updates 20").unwrap();
        let model = Arc::new(Mutex::new(Model::new(&*workload, Fault::None)));
        let booked = Arc::new(Booked::new(workload));
        let start = Instant::now();
        // Long enough for a machine that is busy with something else meanwhile.
        let span = Span { from: start + Duration::from_millis(10), until: start + Duration::from_millis(300) };
        let drive = Drive {
            connection: Box::new(Accounts { model: model.clone(), taken: Vec::new(), count: 0, lost }),
            booked: booked.clone(),
            seed: 1,
            schedule: Schedule::new(Pace::Closed { window: 10 }, 0, 1, start, span.until),
            span,
            lag_max: Duration::from_secs(1),
            answered: Arc::default(),
        };
        let (tally, _) = drive.run().await.unwrap();
        assert!(tally.counts.committed > 0 && tally.counts.refused > 0, "{:?}", tally.counts);
        let mut ask = |calls: &[Call]| Ok(calls.iter().map(|call| model.lock().unwrap().call(call)).collect());
        booked.workload.check(&mut ask, &booked.ledger).iter().all(|check| check.result.is_ok())
    }

    #[tokio::test]
    async fn all_that_is_answered_counts_that_of_the_warm_up_as_well() {
        assert!(holds(0).await);
        assert!(!holds(1).await);
    }
}
