//! Epochs over many workers, played with chance: who waits for whom, and for how long.
//!
//! The coordinator ([`center`](super::center)) is a queue for each of its threads and its link. Workers
//! take what their machine's steps and transactions cost, a little more or less each time, and pause
//! now and then; each phase ends when the coordinator has heard all of them. Times are in µs.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::center::{Center, Coming, Telling};
use super::cluster::BATCH;
use super::cost::{Costs, Op};
use super::load::{Kind, item_bytes};
use super::machines::{Design, Machines};
use super::Load;

/// Epochs that may wait for one sync before further ones are held back to fill, and for how long these are.
const UNSYNCED_MAX: usize = 2;
const FILL_MAX: f64 = 1000.0;

/// Workers whose clients' waiting is looked at.
const WATCHED_MAX: usize = 20;

/// What is played.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Plan {
    /// The cluster and what it is asked; `transactions` is the most that a worker takes into an epoch.
    pub load: Load,
    /// What it runs on.
    pub machines: Machines,
    /// How it is arranged.
    pub design: Design,
    /// Transactions per second that come to all workers; without, as many as they take.
    pub rate: Option<f64>,
    /// Epochs that count.
    pub epochs: usize,
}

/// Where the time of an epoch goes, in ms on average.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Parts {
    /// An average worker works.
    pub work: f64,
    /// It waits for the slowest one.
    pub slowest: f64,
    /// Messages travel.
    pub trips: f64,
    /// The coordinator works, and everybody waits for it.
    pub coordinator: f64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Outcome {
    /// Transactions per second.
    pub rate: f64,
    /// Average length of an epoch, in ms.
    pub epoch: f64,
    /// Where it goes.
    pub parts: Parts,
    /// Median wait of clients, in ms.
    pub p50: f64,
    /// What one in a hundred waits longer than, in ms.
    pub p99: f64,
    /// How busy the thread of the coordinator's machine is, of 1.
    pub driver: f64,
    /// How busy its connections or link are in the busier direction, of 1.
    pub network: f64,
    /// How busy the thread that writes the log is, of 1.
    pub log: f64,
    /// Processor time of the coordinator for each transaction, in µs.
    pub coordinator_cpu: f64,
    /// Processor time of the workers for each transaction, in µs.
    pub worker_cpu: f64,
}

/// Workers: chance, pauses, and what waits there.
struct Workers {
    random: Pcg64Mcg,
    varies: LogNormal<f64>,
    pauses: Option<Exp<f64>>,
    pause: f64,
    /// When each pauses next.
    next_pause: Vec<f64>,
    /// Time that all of them worked.
    busy: f64,
}

impl Workers {
    fn new(machines: &Machines, count: usize, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let sigma = machines.jitter;
        let varies = LogNormal::new(-sigma * sigma / 2.0, sigma).expect("sigma is a number");
        let every = machines.pause_every * 1e6;
        let pauses = (every > 0.0).then(|| Exp::new(1.0 / every).expect("pauses come now and then"));
        let next_pause = (0..count).map(|_| pauses.map_or(f64::MAX, |pauses| pauses.sample(&mut random))).collect();
        Workers { random, varies, pauses, pause: machines.pause, next_pause, busy: 0.0 }
    }

    /// About so much time.
    fn vary(&mut self, time: f64) -> f64 {
        time * self.varies.sample(&mut self.random)
    }

    /// A worker has something to do; when it is done.
    fn work(&mut self, worker: usize, from: f64, time: f64) -> f64 {
        let time = self.vary(time);
        self.busy += time;
        let mut end = from + time;
        while let (Some(pauses), true) = (self.pauses, self.next_pause[worker] < end) {
            let begins = self.next_pause[worker];
            end += (begins + self.pause - begins.max(from)).max(0.0);
            self.next_pause[worker] = begins + self.pause + pauses.sample(&mut self.random);
        }
        end
    }
}

/// Requests that came to a worker over some time, evenly.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    from: f64,
    until: f64,
    count: f64,
}

/// An epoch whose replies wait for its record.
struct Ended {
    finished: Vec<f64>,
    taken: Vec<Vec<Arrived>>,
}

/// Plays a plan.
pub fn play(plan: &Plan, costs: &Costs, seed: u64) -> Outcome {
    let Plan { load, machines, design, .. } = *plan;
    let count = usize::from(load.workers);
    let watched = count.min(WATCHED_MAX);
    let mut center = Center::new(machines, design, costs, count);
    let mut workers = Workers::new(&machines, count, seed);
    let mut queues: Vec<VecDeque<Arrived>> = vec![VecDeque::new(); count];
    let mut seen = vec![0.0; count];
    let mut ended: VecDeque<Ended> = VecDeque::new();
    let mut waits: Vec<(f64, f64)> = Vec::new();
    let (mut now, mut started, mut done) = (0.0, 0.0, 0.0);
    let mut parts = Parts::default();
    let mut before = [0.0; 5];
    let warm_up = plan.epochs / 5 + 3;
    for epoch in 0..plan.epochs + warm_up {
        if epoch == warm_up {
            (started, done, parts) = (now, 0.0, Parts::default());
            before = busy(&center, &workers);
            waits.clear();
        }
        let cuts = center.tell(now, Telling::bare(Kind::Begin));
        // The cut.
        let mut taken: Vec<Vec<Arrived>> = Vec::with_capacity(watched);
        let mut sizes = Vec::with_capacity(count);
        for worker in 0..count {
            let batch = match plan.rate {
                Some(rate) => {
                    let each = rate / count as f64 / 1e6;
                    let (from, until) = (std::mem::replace(&mut seen[worker], cuts[worker]), cuts[worker]);
                    queues[worker].push_back(Arrived { from, until, count: (until - from) * each });
                    take(&mut queues[worker], load.transactions as f64)
                }
                None => vec![Arrived { from: cuts[worker], until: cuts[worker], count: load.transactions as f64 }],
            };
            sizes.push(batch.iter().map(|arrived| arrived.count).sum::<f64>());
            if worker < watched {
                taken.push(batch);
            }
        }
        let round = Round { load, machines, design, costs, sizes };
        let finished = round.run(&cuts, &mut center, &mut workers, &mut parts, &mut now);
        done += round.sizes.iter().sum::<f64>();
        ended.push_back(Ended { finished: finished[..watched].to_vec(), taken });
        // Two records may wait for their sync; then epochs are held back, for a while.
        let (waiting, first) = center.waiting(now);
        if waiting >= UNSYNCED_MAX {
            now = first.min(now + FILL_MAX).max(now);
            center.waiting(now);
        }
        while let Some(told) = center.told.pop_front() {
            let Ended { finished, taken } = ended.pop_front().expect("what is durable has been executed");
            for (worker, batch) in taken.iter().enumerate() {
                let reply = finished[worker].max(told[worker]) + machines.round_trip;
                for arrived in batch {
                    for tenth in 0..10 {
                        let came = arrived.from + (arrived.until - arrived.from) * (f64::from(tenth) + 0.5) / 10.0;
                        waits.push((reply - came, arrived.count / 10.0));
                    }
                }
            }
        }
    }
    let elapsed = now - started;
    let epochs = plan.epochs as f64;
    let mean = |sum: f64| sum / epochs / 1e3;
    let [work, slowest, trips] = [parts.work, parts.slowest, parts.trips].map(mean);
    let epoch = elapsed / epochs / 1e3;
    let after = busy(&center, &workers);
    let spent: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let part = |at: usize| (spent[at] / elapsed).min(1.0);
    waits.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    Outcome {
        rate: done / elapsed * 1e6,
        epoch,
        parts: Parts { work, slowest, trips, coordinator: (epoch - work - slowest - trips).max(0.0) },
        p50: quantile(&waits, 0.5) / 1e3,
        p99: quantile(&waits, 0.99) / 1e3,
        driver: part(0),
        network: part(1).max(part(2)),
        log: part(3),
        coordinator_cpu: (spent[0] + (spent[1] + spent[2]) * machines.network_threads + spent[3]) / done,
        worker_cpu: spent[4] / done,
    }
}

fn busy(center: &Center<'_>, workers: &Workers) -> [f64; 5] {
    [center.driver.busy, center.inbound.busy, center.outbound.busy, center.log.busy, workers.busy]
}

/// Takes at most so many requests from the front.
fn take(queue: &mut VecDeque<Arrived>, most: f64) -> Vec<Arrived> {
    let mut left = most;
    let mut taken = Vec::new();
    while left > 0.0
        && let Some(first) = queue.pop_front()
    {
        let count = first.count.min(left);
        left -= count;
        let middle = match first.count > 0.0 {
            true => first.from + (first.until - first.from) * count / first.count,
            false => first.until,
        };
        taken.push(Arrived { from: first.from, until: middle, count });
        if count < first.count {
            queue.push_front(Arrived { from: middle, until: first.until, count: first.count - count });
        }
    }
    taken
}

fn quantile(sorted: &[(f64, f64)], part: f64) -> f64 {
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut left = total * part;
    for (value, weight) in sorted {
        left -= weight;
        if left <= 0.0 {
            return *value;
        }
    }
    sorted.last().map_or(0.0, |(value, _)| *value)
}

/// One round, once it is known how much each worker takes into it.
struct Round<'a> {
    load: Load,
    machines: Machines,
    design: Design,
    costs: &'a Costs,
    sizes: Vec<f64>,
}

impl Round<'_> {
    /// When each worker has finished; `now` becomes when the coordinator knows.
    fn run(
        &self,
        cuts: &[f64],
        center: &mut Center<'_>,
        workers: &mut Workers,
        parts: &mut Parts,
        now: &mut f64,
    ) -> Vec<f64> {
        let Round { load, machines, design, costs, ref sizes } = *self;
        let count = sizes.len();
        let others = count as f64 - 1.0;
        let hop = machines.round_trip / 2.0;
        let sharing = count > 1 && load.shared > 0;
        let (share, conflicts) = (if sharing { load.shared as f64 / 100.0 } else { 0.0 }, load.conflicts as f64 / 100.0);
        let calls = share * (load.parts - 1) as f64;
        let all: f64 = sizes.iter().sum();
        let mean = all / count as f64;
        let (ends, bits) = (all * share, all * share * conflicts);
        let bytes = |kind| item_bytes(kind, load) as f64;
        let coming = |at: f64, kind, items| Coming { at: at + hop, kind, items, item_bytes: bytes(kind) };
        let told = |kind, all: f64| {
            // Of those that a worker took part in, if it is told of no others.
            let mine = all / count as f64 * load.parts as f64;
            Telling { kind, each: if design == Design::AsIs { all } else { mine }, all, item_bytes: bytes(kind) }
        };
        // What a worker's thread does about messages: hears them, and does what follows.
        let heard = |kind, [itself, own]: [f64; 2], items| {
            costs.micros(Op::Decode(kind), [itself, 0.0, items]) + costs.micros(Op::Follow(kind), [itself, own, 0.0])
        };
        // What goes to or comes from every shard, not only from one.
        let spread = match design {
            Design::Sharded => (center.shards() - 1) as f64 * machines.message(),
            _ => 0.0,
        };

        // Execute: own transactions, and what others ask for; of each batch one mail to whoever it concerns.
        let message = machines.message() / machines.threads;
        let batches = |size: f64| (size / BATCH as f64).ceil().max(1.0);
        let mails = |size: f64| batches(size) * (size / batches(size) * calls).min(others);
        let mail = |size: f64| {
            // Orders and acks, sent and received.
            let network = 4.0 * mails(size) * machines.message()
                + 4.0 * size * calls * bytes(Kind::Graphs) * machines.byte_nanos / 1e3;
            network + heard(Kind::Graphs, [2.0 * mails(size), 2.0 * size * calls], 2.0 * size * calls)
        };
        let mut shares = Vec::with_capacity(2 * count);
        let mut executed = Vec::with_capacity(count);
        let phase = Phase::begin(workers);
        for (worker, (&cut, &size)) in cuts.iter().zip(sizes).enumerate() {
            let shared = workers.work(worker, cut, heard(Kind::Begin, [1.0, size], 0.0));
            // A shard has a part of the log, and hears of the requests of as many workers.
            if worker * center.shards() < count {
                shares.push(coming(shared, Kind::Share, size * center.shards() as f64));
            }
            let machine = costs.micros(Op::Executed, [batches(size), size, 0.0])
                + costs.micros(Op::Advanced, [mails(size), mean * calls, 0.0]);
            let leaving = size * bytes(Kind::Share) * machines.byte_nanos / 1e3;
            let outside =
                (size * machines.execute + mean * calls * machines.part + mail(size) + leaving) / machines.threads;
            // Begin, Share and Executed are messages, too.
            executed.push(workers.work(worker, shared, machine + outside + spread + 3.0 * message));
        }
        phase.end(workers, parts, cuts, &executed);
        let partners = (mean * calls).min(others);
        if sharing {
            // Whoever shares a graph waits for the others' part of it; with many, that is everybody.
            parts.trips += hop;
            wait_for_partners(&mut executed, partners, hop);
        }
        shares.extend(executed.iter().zip(sizes).map(|(at, size)| coming(*at, Kind::Executed, size * share)));
        let (settled, gathered) = center.hear(shares, Kind::Share);
        let sync = (0..center.shards()).map(|_| workers.vary(machines.sync)).fold(0.0, f64::max);
        center.append(gathered, all, bytes(Kind::Share), sync);

        // Settle: who conflicts.
        let telling = told(Kind::Settle, ends);
        let told_at = center.tell(settled, telling);
        let part_of = |size: f64| size + mean * calls;
        let phase = Phase::begin(workers);
        let mut ready: Vec<f64> = (0..count)
            .map(|worker| {
                let (size, from) = (sizes[worker], told_at[worker]);
                let step = match sharing {
                    true => {
                        let arriving = telling.each * telling.item_bytes * machines.byte_nanos / 1e3 / machines.threads;
                        heard(Kind::Settle, [1.0, part_of(size)], telling.each) + arriving + 2.0 * spread
                    }
                    false => costs.micros(Op::Commit, [size * conflicts, size, 0.0]),
                };
                workers.work(worker, from, step + message)
            })
            .collect();
        phase.end(workers, parts, &told_at, &ready);

        // Decide: only if a graph had several workers.
        if sharing {
            let each = bits / count as f64;
            let judged = ready.iter().map(|at| coming(*at, Kind::Bits, each)).collect();
            let (last, _) = center.hear(judged, Kind::Bits);
            let telling = told(Kind::Decide, bits);
            let told_at = center.tell(last, telling);
            parts.trips += machines.round_trip;
            let phase = Phase::begin(workers);
            for (worker, at) in ready.iter_mut().enumerate() {
                let own = costs.micros(Op::Decode(Kind::Decide), [1.0, 0.0, telling.each]);
                let features = [sizes[worker] * conflicts, part_of(sizes[worker]), 0.0];
                let step = own + costs.micros(Op::Follow(Kind::Decide), features);
                *at = workers.work(worker, told_at[worker], step + spread + 2.0 * message);
            }
            phase.end(workers, parts, &told_at, &ready);
        }

        // The fallback, and the end: Finished, and Durable some time.
        {
            let phase = Phase::begin(workers);
            let begun = ready.clone();
            for (worker, at) in ready.iter_mut().enumerate() {
                let again = sizes[worker] * conflicts;
                // A result, an ack and a decision for each call, sent and received.
                let messages = 6.0 * (again * calls).min(others) * machines.message();
                let time = again * machines.execute + again * calls * machines.part + messages + 2.0 * machines.message();
                let mails = heard(Kind::Graphs, [0.0, 3.0 * again * calls], 3.0 * again * calls);
                *at = workers.work(worker, *at, mails + time / machines.threads);
            }
            phase.end(workers, parts, &begun, &ready);
            let partners = (mean * calls * conflicts).min(others);
            if partners >= 0.5 {
                // Who conflicts waits for all that share its graph.
                parts.trips += 3.0 * hop;
                wait_for_partners(&mut ready, partners, 3.0 * hop);
            }
        }
        let finished = ready.iter().map(|at| coming(*at, Kind::Finished, 0.0)).collect();
        (*now, _) = center.hear(finished, Kind::Finished);
        // Begin, Executed, Settle and Finished travel in any case.
        parts.trips += 4.0 * hop;
        ready
    }
}

/// Everybody waits for the slowest of so many others, and for a message of it.
fn wait_for_partners(at: &mut [f64], partners: f64, trip: f64) {
    let mut sorted = at.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // The slowest of p others stands, on average, at p / (p + 1) of all of them.
    let place = (sorted.len() as f64 * partners / (partners + 1.0)).floor() as usize;
    let slowest = sorted[place.min(sorted.len() - 1)];
    at.iter_mut().for_each(|at| *at = at.max(slowest) + trip);
}

/// What all workers do between two messages of the coordinator.
struct Phase {
    busy: f64,
}

impl Phase {
    fn begin(workers: &Workers) -> Self {
        Phase { busy: workers.busy }
    }

    /// It ends: what of it was work, and what was waiting for the slowest.
    fn end(self, workers: &Workers, parts: &mut Parts, from: &[f64], until: &[f64]) {
        let work = (workers.busy - self.busy) / from.len() as f64;
        let last = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        parts.work += work;
        parts.slowest += (last(until) - last(from) - work).max(0.0);
    }
}
