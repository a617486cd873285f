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
        let Round { load, machines, design, costs, ref sizes } = *self;
        let count = sizes.len();
        let others = count as f64 - 1.0;
        let hop = machines.round_trip / 2.0;
        let sharing = count > 1 && load.shared > 0;
        let (share, conflicts) =
            (if sharing { load.shared as f64 / 100.0 } else { 0.0 }, load.conflicts as f64 / 100.0);
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
        let phase = Phase::begin(crew);
        for (worker, (&cut, &size)) in cuts.iter().zip(sizes).enumerate() {
            let shared = crew.work(worker, cut, heard(Kind::Begin, [1.0, size], 0.0));
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
            executed.push(crew.work(worker, shared, machine + outside + spread + 3.0 * message));
        }
        phase.end(crew, parts, cuts, &executed);
        let partners = (mean * calls).min(others);
        if sharing {
            // Whoever shares a graph waits for the others' part of it; with many, that is everybody.
            parts.trips += hop;
            wait_for_partners(&mut executed, partners, hop);
        }
        shares.extend(executed.iter().zip(sizes).map(|(at, size)| coming(*at, Kind::Executed, size * share)));
        let (settled, gathered) = center.hear(shares, Kind::Share);
        let sync = (0..center.shards()).map(|_| crew.vary(machines.sync)).fold(0.0, f64::max);
        center.append(gathered, all, bytes(Kind::Share), sync);

        // Settle: who conflicts.
        let telling = told(Kind::Settle, ends);
        let told_at = center.tell(settled, telling);
        let part_of = |size: f64| size + mean * calls;
        let phase = Phase::begin(crew);
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
                crew.work(worker, from, step + message)
            })
            .collect();
        phase.end(crew, parts, &told_at, &ready);

        // Decide: only if a graph had several workers.
        if sharing {
            let each = bits / count as f64;
            let judged = ready.iter().map(|at| coming(*at, Kind::Bits, each)).collect();
            let (last, _) = center.hear(judged, Kind::Bits);
            let telling = told(Kind::Decide, bits);
            let told_at = center.tell(last, telling);
            parts.trips += machines.round_trip;
            let phase = Phase::begin(crew);
            for (worker, at) in ready.iter_mut().enumerate() {
                let own = costs.micros(Op::Decode(Kind::Decide), [1.0, 0.0, telling.each]);
                let features = [sizes[worker] * conflicts, part_of(sizes[worker]), 0.0];
                let step = own + costs.micros(Op::Follow(Kind::Decide), features);
                *at = crew.work(worker, told_at[worker], step + spread + 2.0 * message);
            }
            phase.end(crew, parts, &told_at, &ready);
        }

        // The fallback, and the end: Finished, and Durable some time.
        {
            let phase = Phase::begin(crew);
            let begun = ready.clone();
            for (worker, at) in ready.iter_mut().enumerate() {
                let again = sizes[worker] * conflicts;
                // A result, an ack and a decision for each call, sent and received.
                let messages = 6.0 * (again * calls).min(others) * machines.message();
                let time =
                    again * machines.execute + again * calls * machines.part + messages + 2.0 * machines.message();
                let mails = heard(Kind::Graphs, [0.0, 3.0 * again * calls], 3.0 * again * calls);
                *at = crew.work(worker, *at, mails + time / machines.threads);
            }
            phase.end(crew, parts, &begun, &ready);
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
