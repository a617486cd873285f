//! Epochs over many workers, played with chance: who waits for whom, and for how long.
//!
//! The coordinator is a queue for each of its threads and its link. Workers take what their
//! machine's steps and transactions cost, a little more or less each time, and pause now and then;
//! each phase ends when the coordinator has heard all of them. Times are in µs.

use std::collections::VecDeque;

use super::Load;
use super::center::{Center, Telling};
use super::cost::Costs;
use super::crew::Crew;
use super::load::Kind;
use super::machines::{Design, Machines};
use super::round::Round;
use super::waiting::{Arrived, Waits, take};

/// Epochs that may wait for one sync before further ones are held back to fill, and for how long these are.
const UNSYNCED_MAX: usize = 2;
const FILL_MAX: f64 = 1000.0;

/// Workers whose clients' waiting is looked at.
const WATCHED_MAX: usize = 20;

/// What is played.
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug)]
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
    let mut crew = Crew::new(&machines, count, seed);
    let mut queues: Vec<VecDeque<Arrived>> = vec![VecDeque::new(); count];
    let mut seen = vec![0.0; count];
    let mut ended: VecDeque<Ended> = VecDeque::new();
    let mut waits = Waits::default();
    let (mut now, mut started, mut done) = (0.0, 0.0, 0.0);
    let mut parts = Parts::default();
    let mut before = [0.0; 5];
    let warm_up = plan.epochs / 5 + 3;
    for epoch in 0..plan.epochs + warm_up {
        if epoch == warm_up {
            (started, done, parts) = (now, 0.0, Parts::default());
            before = busy(&center, &crew);
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
        let finished = round.run(&cuts, &mut center, &mut crew, &mut parts, &mut now);
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
                batch.iter().for_each(|arrived| waits.answered(arrived, reply));
            }
        }
    }
    let elapsed = now - started;
    let epochs = plan.epochs as f64;
    let mean = |sum: f64| sum / epochs / 1e3;
    let [work, slowest, trips] = [parts.work, parts.slowest, parts.trips].map(mean);
    let epoch = elapsed / epochs / 1e3;
    let after = busy(&center, &crew);
    let spent: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let part = |at: usize| (spent[at] / elapsed).min(1.0);
    Outcome {
        rate: done / elapsed * 1e6,
        epoch,
        parts: Parts { work, slowest, trips, coordinator: (epoch - work - slowest - trips).max(0.0) },
        p50: waits.quantile(0.5) / 1e3,
        p99: waits.quantile(0.99) / 1e3,
        driver: part(0),
        network: part(1).max(part(2)),
        log: part(3),
        coordinator_cpu: (spent[0] + (spent[1] + spent[2]) * machines.network_threads + spent[3]) / done,
        worker_cpu: spent[4] / done,
    }
}

fn busy(center: &Center<'_>, crew: &Crew) -> [f64; 5] {
    [center.driver.busy, center.inbound.busy, center.outbound.busy, center.log.busy, crew.busy]
}
