//! One round of the model: what its phases cost, and who waits for whom.

use super::Load;
use super::center::{Center, Coming, Telling};
use super::cluster::BATCH;
use super::cost::{Costs, Op};
use super::crew::Crew;
use super::load::{Kind, item_bytes};
use super::machines::{Design, Machines};
use super::model::Parts;

/// One round, once it is known how much each worker takes into it.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub load: Load,
    pub machines: Machines,
    pub design: Design,
    pub costs: &'a Costs,
    /// How many transactions each worker takes.
    pub sizes: Vec<f64>,
}

impl Round<'_> {
    /// When each worker has finished; `now` becomes when the coordinator knows.
    pub fn run(
        &self,
        cuts: &[f64],
        center: &mut Center<'_>,
        crew: &mut Crew,
        parts: &mut Parts,
        now: &mut f64,
    ) -> Vec<f64> {
        let settled = self.execute(cuts, center, crew, parts);
        let mut ready = self.settle(settled, center, crew, parts);
        if self.is_shared() {
            ready = self.decide(&ready, center, crew, parts);
        }
        self.fall_back(&mut ready, crew, parts);
        let finished = ready.iter().map(|at| self.coming(*at, Kind::Finished, 0.0)).collect();
        (*now, _) = center.hear(finished, Kind::Finished);
        // Begin, Executed, Settle and Finished travel in any case.
        parts.trips += 4.0 * self.hop();
        ready
    }

    /// Own transactions, and what others ask for; when the coordinator knows that all is complete.
    fn execute(&self, cuts: &[f64], center: &mut Center<'_>, crew: &mut Crew, parts: &mut Parts) -> f64 {
        let Round { machines, costs, ref sizes, .. } = *self;
        let (mean, calls) = (self.mean(), self.calls());
        let spread = self.spread(center);
        let mut shares = Vec::with_capacity(2 * sizes.len());
        let mut executed = Vec::with_capacity(sizes.len());
        let phase = Phase::begin(crew);
        for (worker, (&cut, &size)) in cuts.iter().zip(sizes).enumerate() {
            let shared = crew.work(worker, cut, self.follow(Kind::Begin, [1.0, size], 0.0));
            // A shard has a part of the log, and hears of the requests of as many workers.
            if worker * center.shards() < sizes.len() {
                shares.push(self.coming(shared, Kind::Share, size * center.shards() as f64));
            }
            let (batches, mails) = self.mails(size);
            let machine = costs.micros(Op::Executed, [batches, size, 0.0])
                + costs.micros(Op::Advanced, [mails, mean * calls, 0.0])
                // Orders and acks.
                + self.follow(Kind::Graphs, [2.0 * mails, 2.0 * size * calls], 2.0 * size * calls);
            let guests = size * machines.execute + mean * calls * machines.part;
            // Orders and acks, sent and received; Begin, Share and Executed.
            let messages = (4.0 * mails + 3.0) * machines.message() + spread;
            let bytes = size * self.bytes(Kind::Share) + 4.0 * size * calls * self.bytes(Kind::Graphs);
            let outside = guests + messages + bytes * machines.byte_nanos / 1e3;
            executed.push(crew.work(worker, shared, machine + outside / machines.threads));
        }
        phase.end(crew, parts, cuts, &executed);
        if self.is_shared() {
            // Whoever shares a graph waits for the others' part of it; with many, that is everybody.
            self.wait_for(mean * calls, 1.0, &mut executed, parts);
        }
        let ends = executed.iter().zip(sizes);
        shares.extend(ends.map(|(at, size)| self.coming(*at, Kind::Executed, size * self.share())));
        let (settled, gathered) = center.hear(shares, Kind::Share);
        let sync = (0..center.shards()).map(|_| crew.vary(machines.sync)).fold(0.0, f64::max);
        center.append(gathered, self.all(), self.bytes(Kind::Share), sync);
        settled
    }

    /// Who conflicts; if nothing is shared, the others commit.
    fn settle(&self, from: f64, center: &mut Center<'_>, crew: &mut Crew, parts: &mut Parts) -> Vec<f64> {
        let machines = self.machines;
        let telling = self.told(Kind::Settle, self.all() * self.share());
        let told = center.tell(from, telling);
        // Every shard says that all is complete, and hears bits if anything is shared.
        let spread = if self.is_shared() { 2.0 } else { 1.0 } * self.spread(center);
        let messages = machines.message() + spread;
        let bytes = telling.each * telling.item_bytes * machines.byte_nanos / 1e3;
        let outside = (messages + bytes) / machines.threads;
        self.each(&told, crew, parts, |size| {
            outside
                + match self.is_shared() {
                    true => self.follow(Kind::Settle, [1.0, self.takes_part(size)], telling.each),
                    false => self.costs.micros(Op::Commit, [size * self.conflicts(), size, 0.0]),
                }
        })
    }

    /// The dependencies of all workers are put together; who has none commits.
    fn decide(&self, settled: &[f64], center: &mut Center<'_>, crew: &mut Crew, parts: &mut Parts) -> Vec<f64> {
        let bits = self.all() * self.share() * self.conflicts();
        let mine = bits / settled.len() as f64;
        let (last, _) = center.hear(settled.iter().map(|at| self.coming(*at, Kind::Bits, mine)).collect(), Kind::Bits);
        let telling = self.told(Kind::Decide, bits);
        let told = center.tell(last, telling);
        parts.trips += 2.0 * self.hop();
        let outside = (2.0 * self.machines.message() + self.spread(center)) / self.machines.threads;
        self.each(&told, crew, parts, |size| {
            let own = [size * self.conflicts(), self.takes_part(size), 0.0];
            let decoded = self.costs.micros(Op::Decode(Kind::Decide), [1.0, 0.0, telling.each]);
            outside + decoded + self.costs.micros(Op::Follow(Kind::Decide), own)
        })
    }

    /// What conflicts runs again. Then there is Finished to be sent, and Durable to be heard some time.
    fn fall_back(&self, ready: &mut Vec<f64>, crew: &mut Crew, parts: &mut Parts) {
        let Round { machines, .. } = *self;
        let (calls, others) = (self.calls(), self.others());
        let finished = self.each(ready, crew, parts, |size| {
            let again = size * self.conflicts();
            // A result, an ack and a decision for each call, sent and received.
            let messages = (6.0 * (again * calls).min(others) + 2.0) * machines.message();
            let guests = again * machines.execute + again * calls * machines.part;
            let mails = self.follow(Kind::Graphs, [0.0, 3.0 * again * calls], 3.0 * again * calls);
            mails + (guests + messages) / machines.threads
        });
        *ready = finished;
        let partners = self.mean() * calls * self.conflicts();
        if partners >= 0.5 {
            // Who conflicts waits for all that share its graph: a result, an ack, the decision.
            self.wait_for(partners, 3.0, ready, parts);
        }
    }

    /// Every worker does something, as long as its size says; when each is done.
    fn each(&self, from: &[f64], crew: &mut Crew, parts: &mut Parts, time: impl Fn(f64) -> f64) -> Vec<f64> {
        let phase = Phase::begin(crew);
        let works = |(worker, (from, size)): (usize, (&f64, &f64))| crew.work(worker, *from, time(*size));
        let until: Vec<f64> = from.iter().zip(&self.sizes).enumerate().map(works).collect();
        phase.end(crew, parts, from, &until);
        until
    }

    /// Everybody waits for the slowest of so many others, and for so many messages one after the other.
    fn wait_for(&self, partners: f64, hops: f64, at: &mut [f64], parts: &mut Parts) {
        let trip = hops * self.hop();
        parts.trips += trip;
        let partners = partners.min(self.others());
        let mut sorted = at.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // The slowest of p stands, on average, at p / (p + 1) of all of them.
        let place = (sorted.len() as f64 * partners / (partners + 1.0)).floor() as usize;
        let slowest = sorted[place.min(sorted.len() - 1)];
        at.iter_mut().for_each(|at| *at = at.max(slowest) + trip);
    }

    fn hop(&self) -> f64 {
        self.machines.round_trip / 2.0
    }
    fn others(&self) -> f64 {
        self.sizes.len() as f64 - 1.0
    }
    fn all(&self) -> f64 {
        self.sizes.iter().sum()
    }
    fn mean(&self) -> f64 {
        self.all() / self.sizes.len() as f64
    }
    fn is_shared(&self) -> bool {
        self.sizes.len() > 1 && self.load.shared > 0
    }
    /// Which part of the transactions is shared.
    fn share(&self) -> f64 {
        if self.is_shared() { self.load.shared as f64 / 100.0 } else { 0.0 }
    }
    /// Which part of them conflicts.
    fn conflicts(&self) -> f64 {
        self.load.conflicts as f64 / 100.0
    }
    /// Calls of other workers, for each transaction.
    fn calls(&self) -> f64 {
        self.share() * (self.load.parts - 1) as f64
    }
    /// Transactions that a worker of this size takes part in.
    fn takes_part(&self, size: f64) -> f64 {
        size + self.mean() * self.calls()
    }
    fn bytes(&self, kind: Kind) -> f64 {
        item_bytes(kind, self.load) as f64
    }

    /// Batches of so many roots, and mails that they send: one of each batch to whoever it concerns.
    fn mails(&self, size: f64) -> (f64, f64) {
        let batches = (size / BATCH as f64).ceil().max(1.0);
        (batches, batches * (size / batches * self.calls()).min(self.others()))
    }

    /// What a worker's machine does about messages: takes them, and does what follows.
    fn follow(&self, kind: Kind, [itself, own]: [f64; 2], items: f64) -> f64 {
        self.costs.micros(Op::Decode(kind), [itself, 0.0, items])
            + self.costs.micros(Op::Follow(kind), [itself, own, 0.0])
    }

    /// What messages cost a worker that go to or come from every shard, not only one.
    fn spread(&self, center: &Center<'_>) -> f64 {
        match self.design {
            Design::Sharded => (center.shards() - 1) as f64 * self.machines.message(),
            _ => 0.0,
        }
    }

    /// A message to the coordinator, sent then.
    fn coming(&self, at: f64, kind: Kind, items: f64) -> Coming {
        Coming { at: at + self.hop(), kind, items, item_bytes: self.bytes(kind) }
    }

    /// What the coordinator tells of all, or each worker of what it took part in.
    fn told(&self, kind: Kind, all: f64) -> Telling {
        let mine = all / self.sizes.len() as f64 * self.load.parts as f64;
        let each = if self.design == Design::AsIs { all } else { mine };
        Telling { kind, each, all, item_bytes: self.bytes(kind) }
    }
}

/// What all workers do between two messages of the coordinator.
struct Phase {
    busy: f64,
}

impl Phase {
    fn begin(crew: &Crew) -> Self {
        Phase { busy: crew.busy }
    }

    /// It ends: what of it was work, and what was waiting for the slowest.
    fn end(self, crew: &Crew, parts: &mut Parts, from: &[f64], until: &[f64]) {
        let work = (crew.busy - self.busy) / from.len() as f64;
        let last = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
        parts.work += work;
        parts.slowest += (last(until) - last(from) - work).max(0.0);
    }
}
