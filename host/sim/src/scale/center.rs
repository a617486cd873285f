//! The coordinator of the model: servers that do one thing after the other, and what messages cost
//! them. Where it is divided into shards, all have the same to do, and this is one of them.

use std::collections::VecDeque;

use super::cost::{Costs, Op};
use super::load::{Kind, empty_bytes};
use super::machines::{Design, Machines, SHARE};

/// Bytes of a frame's header.
const HEADER_BYTES: f64 = 56.0;

/// Bodies above so many bytes are compressed, and then have a part of their bytes: measured, zstd's level 1.
const COMPRESSED_ABOVE: f64 = 4096.0;
const COMPRESSED: f64 = 1.0 / 6.0;

/// Does one thing after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Server {
    free: f64,
    /// For how long it was busy.
    pub busy: f64,
}

impl Server {
    /// Begins as soon as it is free; when that is done.
    pub fn serve(&mut self, at: f64, time: f64) -> f64 {
        self.free = self.free.max(at) + time;
        self.busy += time;
        self.free
    }
}

/// What the coordinator tells all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    pub kind: Kind,
    /// Things that each message lists, of all shards.
    pub each: f64,
    /// Different things, in all of them.
    pub all: f64,
    pub item_bytes: f64,
}

impl Telling {
    /// A message that lists nothing.
    pub fn bare(kind: Kind) -> Self {
        Telling { kind, each: 0.0, all: 0.0, item_bytes: 0.0 }
    }
}

/// A message on its way to the coordinator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming {
    pub at: f64,
    pub kind: Kind,
    /// Things that it lists, for all shards.
    pub items: f64,
    pub item_bytes: f64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Center<'a> {
    machines: Machines,
    costs: &'a Costs,
    workers: usize,
    shards: f64,
    /// The thread of the coordinator's machine.
    pub driver: Server,
    /// Its connections: what comes, what goes.
    pub inbound: Server,
    pub outbound: Server,
    /// The thread that writes the log.
    pub log: Server,
    /// Those who speak for others.
    relays: Vec<Server>,
    /// When records become durable, and when workers know.
    durable: VecDeque<f64>,
    pub told: VecDeque<Vec<f64>>,
}

impl<'a> Center<'a> {
    pub fn new(machines: Machines, design: Design, costs: &'a Costs, workers: usize) -> Self {
        let relays = if design == Design::Tree { workers.div_ceil(SHARE) } else { 0 };
        Center {
            machines,
            costs,
            workers,
            shards: design.shards(workers) as f64,
            driver: Server::default(),
            inbound: Server::default(),
            outbound: Server::default(),
            log: Server::default(),
            relays: vec![Server::default(); relays],
            durable: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    fn hop(&self) -> f64 {
        self.machines.round_trip / 2.0
    }

    /// What a message costs a connection: its threads or the link, whichever has less room.
    fn transfer(&self, items: f64, item_bytes: f64) -> f64 {
        let bytes = empty_bytes() as f64 + HEADER_BYTES + items * item_bytes;
        let threads = (self.machines.network + bytes * self.machines.byte_nanos / 1e3) / self.machines.network_threads;
        let sent = if bytes > COMPRESSED_ABOVE { bytes * COMPRESSED } else { bytes };
        threads.max(sent * 8.0 / (self.machines.gigabits * 1e3))
    }

    /// Tells all workers; when each of them hears it.
    pub fn tell(&mut self, at: f64, telling: Telling) -> Vec<f64> {
        let Telling { kind, each, all, item_bytes } = telling;
        let neighbours = if self.relays.is_empty() { self.workers } else { self.relays.len() };
        let each = each * (self.workers as f64 / neighbours as f64) / self.shards;
        let op = Op::Tell(kind);
        let once = self.costs.micros(op, [0.0, 0.0, all / self.shards]);
        let message = self.machines.driver + self.costs.micros(op, [1.0, each, 0.0]);
        let transfer = self.transfer(each, item_bytes);
        self.driver.serve(at, once);
        let mut heard = Vec::with_capacity(self.workers);
        for _ in 0..neighbours {
            let left = self.driver.serve(at, message);
            heard.push(self.outbound.serve(left, transfer) + self.hop());
        }
        if self.relays.is_empty() {
            return heard;
        }
        // A node of the tree hears all shards, and tells its workers.
        let collecting = self.machines.message() * if each > 0.0 { self.shards } else { 1.0 };
        for (relay, heard) in self.relays.iter_mut().zip(&mut heard) {
            *heard = relay.serve(*heard, collecting);
        }
        let (passing, hop) = (self.machines.message(), self.hop());
        (0..self.workers)
            .map(|worker| self.relays[worker / SHARE].serve(heard[worker / SHARE], passing) + hop)
            .collect()
    }

    /// Hears messages in the order of their arrival; when the last one is done. Those of `noted` kind
    /// are also noted: when the last of them was. By worker, one kind after the other.
    pub fn hear(&mut self, mut coming: Vec<Coming>, noted: Kind) -> (f64, f64) {
        if !self.relays.is_empty() {
            coming = self.relayed(&coming);
        }
        coming.sort_unstable_by(|one, other| one.at.total_cmp(&other.at));
        let (mut last, mut note) = (0.0, 0.0);
        for Coming { at, kind, items, item_bytes } in coming {
            let items = items / self.shards;
            let arrived = self.inbound.serve(at, self.transfer(items, item_bytes));
            self.tell_durable(arrived);
            let [decode, hear] = [Op::Decode(kind), Op::Hear(kind)].map(|op| self.costs.micros(op, [1.0, 0.0, items]));
            let step = self.machines.driver + decode + hear;
            last = self.driver.serve(arrived, step);
            if kind == noted {
                note = last;
            }
        }
        (last, note)
    }

    /// A node of the tree says of each kind what its workers have said, when all of them have.
    fn relayed(&mut self, coming: &[Coming]) -> Vec<Coming> {
        let (passing, hop) = (self.machines.message(), self.hop());
        let shards = self.shards;
        let mut passed = Vec::new();
        for of_kind in coming.chunk_by(|one, other| one.kind == other.kind) {
            for (group, relay) in of_kind.chunks(SHARE).zip(&mut self.relays) {
                let mut heard: Vec<f64> = group.iter().map(|coming| coming.at).collect();
                heard.sort_unstable_by(f64::total_cmp);
                let all = heard.into_iter().map(|at| relay.serve(at, passing)).fold(0.0, f64::max);
                let items: f64 = group.iter().map(|coming| coming.items).sum();
                let sorted = relay.serve(all, passing * if items > 0.0 { shards } else { 1.0 });
                passed.push(Coming { at: sorted + hop, items, ..group[0] });
            }
        }
        passed
    }

    /// The record of an epoch with so many requests, known to be complete then, is written; the
    /// slowest shard's disk takes `sync`.
    pub fn append(&mut self, gathered: f64, requests: f64, bytes: f64, sync: f64) {
        let requests = requests / self.shards;
        let copied = requests * bytes * self.machines.byte_nanos / 1e3;
        let encoded = self.costs.micros(Op::Record, [1.0, requests, 0.0]);
        let written = self.log.serve(gathered, self.machines.record + encoded + copied);
        let told = if self.shards > 1.0 { self.hop() } else { 0.0 };
        self.durable.push_back(written + sync + told);
    }

    /// How many shards there are: each syncs a part of the log.
    pub fn shards(&self) -> usize {
        self.shards as usize
    }

    /// How many records are not yet durable then, and when the first of them will be.
    pub fn waiting(&mut self, at: f64) -> (usize, f64) {
        self.tell_durable(at);
        (self.durable.len(), self.durable.front().copied().unwrap_or(at))
    }

    /// Tells workers of what has become durable until then.
    fn tell_durable(&mut self, now: f64) {
        while let Some(durable) = self.durable.pop_front_if(|durable| *durable <= now) {
            let told = self.tell(durable, Telling::bare(Kind::Durable));
            self.told.push_back(told);
        }
    }
}
