//! Autoscaling: how many workers there should be, from what they have had to do (as DS2 does it: arrival rates over true
//! service rates, which are what a worker gets done in the time that it works).
//!
//! A policy without a clock: it is told at intervals what workers have counted, and says what it wants and why. It wants
//! more only when it has seen the need several times in a row, fewer only after much longer, and nothing for a while
//! after a change.

use std::fmt::Write;
use std::time::Duration;

use styx_protocol::ids::WorkerId;

use crate::time::Instant;

/// Bounds and patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoscaleConfig {
    /// Never fewer workers than this, and at least 1.
    pub min: u32,
    /// Never more.
    pub max: u32,
    /// How busy workers are to be, of a hundred.
    pub target: u32,
    /// More are wanted only while the mean is at least this, of a hundred.
    pub high: u32,
    /// Fewer are wanted only if the mean is at most this afterwards, of a hundred.
    pub low: u32,
    /// Looks in a row before more are wanted, or a balance.
    pub out_after: u32,
    /// Looks in a row before fewer are wanted.
    pub in_after: u32,
    /// Nothing is wanted for so long after a change, or after something was wanted.
    pub pause: Duration,
}

impl Default for AutoscaleConfig {
    fn default() -> Self {
        AutoscaleConfig {
            min: 1,
            max: 8,
            target: 60,
            high: 75,
            low: 50,
            out_after: 3,
            in_after: 24,
            pause: Duration::from_secs(60),
        }
    }
}

/// What a worker has counted since some moment that is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCounts {
    pub worker: WorkerId,
    /// Functions called.
    pub calls: u64,
    /// Time in which it executed something.
    pub busy: Duration,
    /// Requests that wait.
    pub waiting: u64,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// As many as there are.
    Stay,
    /// More.
    Out,
    /// Fewer.
    In,
    /// As many, but with other partitions: one has much more to do than others.
    Balance,
}

/// What was looked at, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub wish: Wish,
    /// Workers that there are, and that there should be.
    pub workers: u32,
    pub wanted: u32,
    /// How busy they are, of a hundred; by worker.
    pub busy: Vec<u32>,
    /// Calls per second that came, and that they could do if they were always busy.
    pub arrives: u64,
    pub capacity: u64,
    /// Why.
    pub reason: String,
}

/// Requests that wait longer than this keep a worker as busy as it can be, whatever else it says.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Fewer requests than this do not wait, they are on their way.
const WAITING_MIN: u64 = 100;

/// See the module.
#[derive(Debug)]
pub struct Autoscaler {
    config: AutoscaleConfig,
    last: Option<(Instant, Vec<WorkerCounts>)>,
    /// Looks in a row that wanted something.
    streaks: Streaks,
    quiet_until: Instant,
}

/// Looks in a row that wanted more, fewer, and a balance.
#[derive(Debug, Default)]
struct Streaks {
    out: u32,
    fewer: u32,
    hot: u32,
}

/// What workers did between two looks.
struct Seen {
    busy: Vec<u32>,
    calls: Vec<u64>,
    /// The longest that requests wait.
    waits: Duration,
}

impl Autoscaler {
    pub fn new(config: AutoscaleConfig) -> Self {
        Autoscaler { config, last: None, streaks: Streaks::default(), quiet_until: Instant(0) }
    }

    /// The bounds that it keeps to.
    pub fn config(&self) -> &AutoscaleConfig {
        &self.config
    }

    /// Looks at what workers have counted; `blocked`, if members or partitions are changing.
    pub fn look(&mut self, now: Instant, counts: &[WorkerCounts], blocked: Option<&str>) -> Decision {
        let workers = counts.len() as u32;
        let seen = self.seen(now, counts);
        self.last = Some((now, counts.to_vec()));
        let Seen { busy, calls, waits } = match seen {
            Some(seen) if blocked.is_none() => seen,
            _ => {
                self.streaks = Streaks::default();
                let reason =
                    blocked.unwrap_or("workers have come, gone or changed partitions: their counts begin anew");
                return stay(workers, reason.to_owned());
            }
        };
        let arrives = calls.iter().sum();
        let capacity = calls.iter().zip(&busy).map(|(calls, busy)| calls * 100 / u64::from((*busy).max(1))).sum();
        let total: u32 = busy.iter().sum();
        let AutoscaleConfig { target, high, low, out_after, in_after, .. } = self.config;
        let mean = total / workers.max(1);
        let (least, most) = (self.config.min.max(1), self.config.max.max(self.config.min).max(1));
        let needed = total.div_ceil(target.max(1)).max(1);
        let busiest = busy.iter().max().copied().unwrap_or(0);
        let mut reason = format!("{workers} workers are {mean} % busy on average");
        let _ = write!(reason, " (at most {busiest} %)");
        if waits > Duration::ZERO {
            let _ = write!(reason, ", requests wait for {} ms", waits.as_millis());
        }
        let (out, fewer) = (needed > workers && mean >= high, workers > 1 && total / (workers - 1) <= low);
        let hot = busiest >= high && busiest * 4 >= mean * 5;
        let may_grow = workers < most;
        let count = |is: bool, streak: &mut u32| *streak = if is { *streak + 1 } else { 0 };
        count(out, &mut self.streaks.out);
        count(fewer, &mut self.streaks.fewer);
        count(hot, &mut self.streaks.hot);
        let mut balances = false;
        let wanted = if workers < least {
            let _ = write!(reason, "; {least} are the fewest allowed");
            least
        } else if workers > most {
            let _ = write!(reason, "; {most} are the most allowed");
            most
        } else if now < self.quiet_until {
            let _ = write!(reason, "; nothing is changed for {} s more", self.quiet_until.since(now).as_secs() + 1);
            workers
        } else if out && may_grow && self.streaks.out < out_after {
            let _ =
                write!(reason, "; {needed} would be {target} % busy: seen {} times of {out_after}", self.streaks.out);
            workers
        } else if out && may_grow {
            let wanted = needed.min(most);
            let _ = write!(reason, "; {needed} would be {target} % busy, and {most} are the most allowed");
            wanted
        } else if fewer && workers > least && self.streaks.fewer >= in_after {
            let _ = write!(reason, "; one fewer would be {} % busy", total / (workers - 1));
            workers - 1
        } else if hot && self.streaks.hot >= out_after {
            let instead = if out { "" } else { ", not more workers" };
            let _ = write!(reason, "; one has much more to do than others: a balance would help{instead}");
            balances = true;
            workers
        } else if fewer && workers > least {
            let after = total / (workers - 1);
            let _ =
                write!(reason, "; one fewer would be {after} % busy: seen {} times of {in_after}", self.streaks.fewer);
            workers
        } else if hot {
            let seen = self.streaks.hot;
            let _ = write!(reason, "; one has much more to do than others: seen {seen} times of {out_after}");
            workers
        } else if out {
            let _ = write!(reason, "; {needed} would be {target} % busy, but {most} are the most allowed");
            workers
        } else {
            workers
        };
        if wanted != workers {
            self.streaks = Streaks::default();
        }
        if wanted != workers || balances {
            // Where a balance cannot help, one fewer may be wanted all the same.
            self.streaks.hot = 0;
            self.quiet_until = now.after(self.config.pause);
        }
        let wish = match wanted.cmp(&workers) {
            std::cmp::Ordering::Equal if balances => Wish::Balance,
            std::cmp::Ordering::Less => Wish::In,
            std::cmp::Ordering::Equal => Wish::Stay,
            std::cmp::Ordering::Greater => Wish::Out,
        };
        Decision { wish, workers, wanted, busy, arrives, capacity, reason }
    }

    /// What was done since the last look; none, if that cannot be said.
    fn seen(&self, now: Instant, counts: &[WorkerCounts]) -> Option<Seen> {
        let (then, last) = self.last.as_ref()?;
        let elapsed = now.since(*then);
        let same = last.len() == counts.len() && last.iter().zip(counts).all(|(last, now)| last.worker == now.worker);
        if !same || elapsed.is_zero() || counts.is_empty() {
            return None;
        }
        let (mut busy, mut calls, mut waits) = (Vec::new(), Vec::new(), Duration::ZERO);
        for (last, now) in last.iter().zip(counts) {
            let done = now.calls.checked_sub(last.calls)?;
            let worked = now.busy.checked_sub(last.busy)?;
            let rate = (u128::from(done) * 1_000_000 / elapsed.as_micros()) as u64;
            let wait = match now.waiting {
                few if few < WAITING_MIN => Duration::ZERO,
                many => Duration::from_millis(many.saturating_mul(1000) / rate.max(1)),
            };
            let share = (worked.as_micros() * 100 / elapsed.as_micros()).min(100) as u32;
            busy.push(if wait > WAIT_MAX { 100 } else { share });
            calls.push(rate);
            waits = waits.max(wait);
        }
        Some(Seen { busy, calls, waits: if waits > WAIT_MAX { waits } else { Duration::ZERO } })
    }
}

fn stay(workers: u32, reason: String) -> Decision {
    Decision { wish: Wish::Stay, workers, wanted: workers, busy: Vec::new(), arrives: 0, capacity: 0, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AutoscaleConfig = AutoscaleConfig {
        min: 1,
        max: 4,
        target: 60,
        high: 75,
        low: 50,
        out_after: 2,
        in_after: 3,
        pause: Duration::from_secs(30),
    };

    /// Looks every ten seconds at workers that are so busy, of a hundred, do 10 calls for each of these, and have so many
    /// requests waiting; what is wanted at each look.
    struct Looks {
        scaler: Autoscaler,
        now: Instant,
        counts: Vec<WorkerCounts>,
    }

    impl Looks {
        fn new(config: AutoscaleConfig) -> Self {
            Looks { scaler: Autoscaler::new(config), now: Instant(0), counts: Vec::new() }
        }

        fn look(&mut self, busy: &[u64], waiting: u64) -> Decision {
            self.counts
                .resize(busy.len(), WorkerCounts { worker: WorkerId(0), calls: 0, busy: Duration::ZERO, waiting: 0 });
            self.now = self.now.after(Duration::from_secs(10));
            for (at, (counts, busy)) in self.counts.iter_mut().zip(busy).enumerate() {
                counts.worker = WorkerId(at as u16);
                counts.calls += busy * 100;
                counts.busy += Duration::from_millis(100 * busy);
                counts.waiting = waiting;
            }
            self.scaler.look(self.now, &self.counts, None)
        }

        fn wanted(&mut self, busy: &[u64], looks: usize) -> Vec<u32> {
            (0..looks).map(|_| self.look(busy, 0).wanted).collect()
        }
    }

    #[test]
    fn what_is_wanted_goes_by_how_busy_workers_are_and_only_after_a_while() {
        // How busy they are; what is wanted at each of six looks, the first of which sees nothing yet.
        let table: [(&[u64], [u32; 6]); 9] = [
            (&[10], [1, 1, 1, 1, 1, 1]),
            (&[70], [1, 1, 1, 1, 1, 1]),
            (&[80], [1, 1, 2, 1, 1, 2]),
            (&[100, 100], [2, 2, 4, 2, 2, 4]),
            (&[90, 90, 90], [3, 3, 4, 3, 3, 4]),
            (&[95, 95, 95, 95], [4, 4, 4, 4, 4, 4]),
            (&[20, 20], [2, 2, 2, 1, 2, 2]),
            (&[30, 30], [2, 2, 2, 2, 2, 2]),
            (&[5, 5, 5], [3, 3, 3, 2, 3, 3]),
        ];
        for (busy, expected) in table {
            assert_eq!(Looks::new(CONFIG).wanted(busy, 6), expected, "{busy:?}");
        }
    }

    /// What is looked at meets bounds exactly, or misses them by one.
    #[test]
    fn what_is_decided_and_why_is_known() {
        let _transcript = styx_transcript::scenario!("policies");
        let mut draw = crate::testing::draws(1);
        for (min, max, target) in [(0, 0, 0), (1, 4, 60), (2, 3, 60), (3, 2, 50)] {
            styx_transcript::told(&(min, max, target));
            let mut scaler = Autoscaler::new(AutoscaleConfig { min, max, target, ..CONFIG });
            let (mut now, mut counts) = (Instant(0), Vec::<WorkerCounts>::new());
            for _ in 0..40 {
                if draw(&[0, 0, 0, 1]) == 1 {
                    let (first, workers) = (draw(&[0, 0, 0, 1]) as u16, draw(&[0, 1, 2, 3, 4]) as u16);
                    let ids = (0..workers).map(|at| WorkerId(if at == 0 { first * 9 } else { at }));
                    let new = |worker| WorkerCounts { worker, calls: 0, busy: Duration::ZERO, waiting: 0 };
                    counts = ids.map(new).collect();
                }
                let (busy, waits) = (draw(&[0, 1, 25, 49, 50, 59, 60, 61, 74, 75, 76, 100, 120]), draw(&[0, 0, 0, 1]));
                let one = draw(&[busy, busy, 76]);
                for looks in 0..draw(&[1, 4]) {
                    let seconds = draw(&[10, 10, 10, 10, 10, 0]);
                    now = now.after(Duration::from_secs(seconds));
                    for (at, counts) in counts.iter_mut().enumerate() {
                        let busy = if at == 0 { one } else { busy };
                        counts.calls += [1000, 2000, 7][at % 3] * u64::from(seconds > 0);
                        counts.busy += Duration::from_millis(busy * seconds * 10);
                        counts.waiting = waits * draw(&[99, 100, 101, 50]);
                    }
                    let blocked = (draw(&[0; 19]) + looks == 3 && busy == 25).then_some("a migration");
                    styx_transcript::did(&scaler.look(now, &counts, blocked));
                }
            }
        }
    }

    #[test]
    fn the_fewest_and_the_most_hold_at_once() {
        let mut few = Looks::new(AutoscaleConfig { min: 3, ..CONFIG });
        assert_eq!(few.wanted(&[5, 5], 2), [2, 3]);
        let mut many = Looks::new(AutoscaleConfig { max: 2, ..CONFIG });
        assert_eq!(many.wanted(&[90, 90, 90], 2), [3, 2]);
        let mut least = Looks::new(AutoscaleConfig { min: 2, ..CONFIG });
        assert_eq!(least.wanted(&[1, 1], 6), [2; 6]);
        let mut nonsense = Looks::new(AutoscaleConfig { min: 0, max: 0, target: 0, ..CONFIG });
        assert_eq!(nonsense.wanted(&[0], 6), [1; 6]);
    }

    /// Each bound is met exactly, or missed by one.
    #[test]
    fn who_sets_nothing_gets_bounds_and_patience_that_suit_most() {
        let looks = || Looks::new(AutoscaleConfig::default());
        let mut busy = looks();
        assert_eq!(busy.wanted(&[75], 4), [1, 1, 1, 2], "seen three times in a row");
        assert_eq!(busy.wanted(&[75], 6), [1, 1, 1, 1, 1, 2], "and again after a minute");
        assert_eq!(looks().wanted(&[74], 9), [1; 9]);
        assert_eq!(looks().wanted(&[77, 76, 76, 76], 4)[3], 6, "at 60 % there is work for a bit more than five");
        assert_eq!(looks().wanted(&[75; 4], 4)[3], 5);
        assert_eq!(looks().wanted(&[100; 7], 4)[3], 8, "and never more");
        let mut idle = looks();
        assert_eq!(idle.wanted(&[25, 25], 24), [2; 24]);
        assert_eq!(idle.wanted(&[25, 25], 2), [1, 2], "24 times in a row");
        assert_eq!(looks().wanted(&[25, 26], 60), [2; 60]);
        assert_eq!(looks().wanted(&[0], 60), [1; 60]);
    }

    #[test]
    fn requests_that_wait_count_as_work() {
        let mut looks = Looks::new(CONFIG);
        assert_eq!(looks.look(&[40], 99).wanted, 1);
        let waits = looks.look(&[40], 4_000);
        assert_eq!((waits.busy.as_slice(), waits.wanted), (&[100][..], 1));
        assert!(waits.reason.contains("requests wait for 10000 ms"), "{}", waits.reason);
        let more = looks.look(&[40], 4_000);
        assert_eq!((more.wish, more.wanted), (Wish::Out, 2), "{}", more.reason);
        assert_eq!((more.arrives, more.capacity), (400, 400));
        let mut brief = Looks::new(CONFIG);
        brief.look(&[40], 150);
        assert_eq!(brief.look(&[40], 150).busy, [40], "half a second is nothing");
    }

    #[test]
    fn one_that_is_hot_needs_a_balance_and_then_nothing_for_a_while() {
        let mut looks = Looks::new(CONFIG);
        looks.look(&[95, 10, 10], 0);
        let first = looks.look(&[95, 10, 10], 0);
        assert_eq!(first.wish, Wish::Stay);
        assert!(first.reason.contains("much more to do than others: seen 1 times of 2"), "{}", first.reason);
        let hot = looks.look(&[95, 10, 10], 0);
        assert_eq!((hot.wish, hot.wanted), (Wish::Balance, 3));
        assert!(hot.reason.contains("a balance would help"), "{}", hot.reason);
        let soon = looks.look(&[95, 10, 10], 0);
        assert!(soon.wish == Wish::Stay && soon.reason.contains("nothing is changed for"), "{}", soon.reason);
        looks.look(&[40, 40, 40], 0);
        looks.look(&[40, 40, 40], 0);
        let again = looks.look(&[95, 10, 10], 0);
        assert_eq!(again.wish, Wish::Stay, "it is to be seen twice in a row");
        assert_eq!(looks.look(&[95, 10, 10], 0).wish, Wish::Balance);
    }

    /// Neither more workers nor nothing: one waits for others that are less busy than it.
    #[test]
    fn one_that_is_hot_needs_a_balance_also_where_all_have_much_to_do() {
        // They are as busy on average as they are to be, or more, and each could be less than hot.
        for busy in [[100, 30], [100, 40], [90, 50]] {
            let mut looks = Looks::new(CONFIG);
            let wishes: Vec<Wish> = (0..3).map(|_| looks.look(&busy, 0).wish).collect();
            assert_eq!(wishes, [Wish::Stay, Wish::Stay, Wish::Balance], "{busy:?}");
        }
        // More would be better, and there may be none.
        let mut most = Looks::new(AutoscaleConfig { max: 2, ..CONFIG });
        let decided: Vec<Decision> = (0..3).map(|_| most.look(&[100, 55], 0)).collect();
        assert!(decided[2].wish == Wish::Balance && decided[2].wanted == 2, "{}", decided[2].reason);
        let mut may_grow = Looks::new(CONFIG);
        assert_eq!(may_grow.wanted(&[100, 55], 3), [2, 2, 3], "more come first where they may");
        // A little more than the others is not hot.
        for busy in [[80, 62], [95, 90]] {
            let mut looks = Looks::new(AutoscaleConfig { max: 2, ..CONFIG });
            assert!((0..6).all(|_| looks.look(&busy, 0).wish == Wish::Stay), "{busy:?}");
        }
    }

    #[test]
    fn where_a_balance_does_not_help_one_fewer_is_wanted_all_the_same() {
        let mut looks = Looks::new(AutoscaleConfig { in_after: 5, ..CONFIG });
        looks.look(&[80, 5, 5, 5], 0);
        let wishes: Vec<Wish> = (0..5).map(|_| looks.look(&[80, 5, 5, 5], 0).wish).collect();
        assert_eq!(wishes, [Wish::Stay, Wish::Balance, Wish::Stay, Wish::Stay, Wish::In]);
    }

    #[test]
    fn nothing_is_concluded_from_counts_that_begin_anew_or_while_members_change() {
        let mut looks = Looks::new(CONFIG);
        assert_eq!(looks.wanted(&[90], 2), [1, 1]);
        looks.counts[0].calls = 0;
        let anew = looks.look(&[90], 0);
        assert!(anew.wanted == 1 && anew.reason.contains("begin anew"), "{}", anew.reason);
        assert_eq!(looks.wanted(&[90], 2), [1, 2], "and then it is seen twice again");
        let blocked = looks.scaler.look(looks.now.after(Duration::from_secs(10)), &looks.counts, Some("a migration"));
        assert_eq!((blocked.wish, blocked.reason.as_str()), (Wish::Stay, "a migration"));
        let nobody = looks.scaler.look(looks.now, &[], None);
        assert_eq!((nobody.wish, nobody.workers), (Wish::Stay, 0));
    }

    #[test]
    fn after_something_was_wanted_nothing_is_for_a_while() {
        let mut looks = Looks::new(CONFIG);
        assert_eq!(looks.wanted(&[100], 3), [1, 1, 2]);
        let soon = looks.look(&[100], 0);
        assert!(soon.wanted == 1 && soon.reason.contains("nothing is changed for"), "{}", soon.reason);
        assert_eq!(looks.wanted(&[100], 3), [1, 2, 1]);
    }
}
