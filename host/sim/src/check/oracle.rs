//! The serial oracle: state as anybody would model it, and transactions one after the other.
//!
//! Shares nothing with the protocol but the words. Where it and the protocol differ, one is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};

use styx_protocol::abort::{Abort, Code};
use styx_protocol::control::Control;
use styx_protocol::entity::{Entity, Layout};
use styx_protocol::ids::{OperatorId, Tid};
use styx_protocol::state::State;
use styx_protocol::system::SystemFunction;
use styx_protocol::transaction::Request;

use super::catalog::{Deployed, Live};
use super::records::Records;
use crate::toy::{World, at_once, interpret, keys};

/// The result of who has none.
pub const NOTHING: u64 = u64::MAX;

/// Access to an entity, for the history of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    pub operator: u32,
    pub key: &'static str,
    /// A write and its value (`None`: a delete), or a read.
    pub wrote: Option<Option<u64>>,
    pub before: Option<u64>,
}

/// What a transaction does to a state.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// It asks for snapshot isolation only.
    pub snapshot: bool,
    /// It ends without effect.
    pub aborted: bool,
    /// Entities that it reads, not counting what it has written before.
    pub reads: Vec<(u32, &'static str)>,
    pub ranges: Vec<RangeRead>,
    /// Entities that it writes.
    pub writes: Vec<(u32, &'static str)>,
}

impl Footprint {
    /// Whether it has an effect.
    pub fn has_written(&self) -> bool {
        !self.aborted && !self.writes.is_empty()
    }
}

/// Keys that a scan has looked through.
#[derive(Clone, Debug)]
pub struct RangeRead {
    pub operator: u32,
    prefix: String,
    lower: Bound<&'static str>,
    upper: Bound<&'static str>,
}

impl RangeRead {
    /// Whether a key lies in it.
    pub fn contains(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && RangeBounds::<str>::contains(&(self.lower, self.upper), key)
    }
}

/// Entities by operator and key.
pub type Entities = BTreeMap<u32, BTreeMap<&'static str, u64>>;

/// State and code.
#[derive(Debug, Default)]
pub struct Oracle {
    seed: u64,
    /// Entities by operator and key.
    pub state: Entities,
    /// Records of topics that were executed.
    pub records: Records,
    deployed: Deployed,
    /// The state at the start of the epoch, if somebody asks for a snapshot in it.
    base: Option<Entities>,
    /// Entities written in the lock-free phase of such an epoch.
    written: BTreeMap<(u32, &'static str), Tid>,
    /// Two transactions that overwrote each other unseen.
    pub overwritten: Option<(Tid, Tid)>,
    /// Values before the writes of the running transaction.
    undo: Vec<(u32, &'static str, Option<u64>)>,
    calls: u64,
    calls_max: u64,
    depth_max: u32,
    /// Entities that the running transaction has touched.
    entities: BTreeSet<(u32, &'static str)>,
    /// Scans that it has made.
    scans: usize,
    touches_max: usize,
    /// It has met a bound: it reads nothing more, and ends without effect.
    doomed: bool,
    tid: Tid,
    time: u64,
    /// Accesses of the running transaction, if they are wanted.
    pub touched: Option<Vec<Touch>>,
    /// Entities that may have changed since they were taken from here, if they are wanted.
    pub changed: Option<Vec<(u32, &'static str)>>,
    /// What the running transaction says: the sum of its [lines](line).
    pub said: u64,
    /// The same as sets, if they are.
    footprint: Option<Footprint>,
}

struct Running<'a> {
    oracle: &'a mut Oracle,
    operator: u32,
    name: String,
    read_only: bool,
    depth: u32,
    place: u64,
    calls: u64,
    random: u64,
    issued: Vec<Target>,
}

struct Target {
    operator: Live,
    function: String,
    read_only: bool,
    depth: u32,
    key: &'static str,
    args: Vec<u8>,
    place: u64,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hash of a line that a function of an operator says.
pub fn line(operator: u32, number: u64) -> u64 {
    mix(number ^ mix(u64::from(operator) + 1))
}

impl Oracle {
    /// An empty world of a cluster with this seed; notes what is touched if `notes`.
    pub fn new(seed: u64, notes: bool) -> Self {
        Oracle { seed, touched: notes.then(Vec::new), ..Oracle::default() }
    }

    /// A change of what is deployed.
    pub fn control(&mut self, control: &Control) {
        for gone in self.deployed.apply(control).unwrap_or_default() {
            let entities = self.state.remove(&gone).unwrap_or_default();
            if let Some(changed) = &mut self.changed {
                changed.extend(entities.into_keys().map(|key| (gone, key)));
            }
        }
    }

    /// A whole transaction: all of its effects, or none.
    pub fn transaction(&mut self, tid: Tid, time: u64, query: bool, request: &Request) -> Result<u64, Abort> {
        (self.tid, self.time, self.calls, self.said) = (tid, time, 0, 0);
        self.undo.clear();
        self.entities.clear();
        (self.scans, self.doomed) = (0, false);
        if let Some(touched) = &mut self.touched {
            touched.clear();
        }
        let result = self.root(query, request);
        let result = if self.doomed { Err(Abort::new(Code::LimitExceeded, "too many entities")) } else { result };
        if result.is_err() {
            while let Some((operator, key, before)) = self.undo.pop() {
                self.set(operator, key, before);
            }
        }
        result
    }

    /// What a transaction would do to the state of now.
    pub fn footprint(&mut self, tid: Tid, time: u64, request: &Request) -> Footprint {
        let snapshot = self.is_snapshot(request);
        self.footprint = Some(Footprint { snapshot, ..Footprint::default() });
        let aborted = self.transaction(tid, time, false, request).is_err();
        let writes = self.undo.iter().map(|(operator, key, _)| (*operator, *key)).collect();
        while let Some((operator, key, before)) = self.undo.pop() {
            self.set(operator, key, before);
        }
        Footprint { aborted, writes, ..self.footprint.take().unwrap_or_default() }
    }

    /// An epoch starts, in which these run.
    pub fn start_epoch<'a>(&mut self, mut requests: impl Iterator<Item = &'a Request>) {
        let wanted = requests.any(|request| self.is_snapshot(request));
        self.base = wanted.then(|| self.state.clone());
        self.written.clear();
    }

    fn is_snapshot(&self, request: &Request) -> bool {
        self.deployed.by_id(request.operator.0).is_ok_and(|operator| operator.is_snapshot(&request.function))
    }

    /// A transaction that committed in the lock-free phase, where it stands; if it asked for a
    /// snapshot, it reads the state of the epoch's start, and its writes take effect where it stands.
    pub fn lock_free(&mut self, tid: Tid, time: u64, request: &Request) -> Result<u64, Abort> {
        let snapshot = self.is_snapshot(request);
        let base = if snapshot { self.base.take() } else { None };
        let Some(base) = base else {
            let result = self.transaction(tid, time, false, request);
            if self.base.is_some() && result.is_ok() {
                let written: Vec<_> = self.undo.iter().map(|(operator, key, _)| (*operator, *key)).collect();
                self.wrote(tid, &written);
            }
            return result;
        };
        let now = std::mem::replace(&mut self.state, base);
        let result = self.transaction(tid, time, false, request);
        let mut writes = Vec::new();
        if result.is_ok() {
            for (operator, key, _) in &self.undo {
                writes.push((*operator, *key, self.state.get(operator).and_then(|found| found.get(key)).copied()));
            }
            while let Some((operator, key, before)) = self.undo.pop() {
                self.set(operator, key, before);
            }
        }
        self.base = Some(std::mem::replace(&mut self.state, now));
        self.wrote(tid, &writes.iter().map(|(operator, key, _)| (*operator, *key)).collect::<Vec<_>>());
        for (operator, key, value) in writes {
            self.set(operator, key, value);
        }
        result
    }

    /// The first to write wins; nobody else in the lock-free phase may write the same.
    fn wrote(&mut self, tid: Tid, keys: &[(u32, &'static str)]) {
        for key in keys {
            if let Some(other) = self.written.insert(*key, tid).filter(|other| *other != tid) {
                self.overwritten = Some((other, tid));
            }
        }
    }

    /// All entities, with their operators and keys.
    pub fn entities(&self, layout: Layout) -> impl Iterator<Item = (Entity, u32, &'static str)> + '_ {
        let of = move |(operator, entities): (&u32, &'_ BTreeMap<&'static str, u64>)| {
            let (operator, composite) = (*operator, self.deployed.is_composite(*operator));
            let entity = move |key: &&'static str| {
                (Entity::new(&layout, OperatorId(operator), composite, (*key).into()), operator, *key)
            };
            entities.keys().map(entity).collect::<Vec<_>>()
        };
        self.state.iter().flat_map(of)
    }

    /// The same as the protocol holds it.
    pub fn as_state(&self, layout: Layout) -> State {
        let mut state = State::new(layout);
        for (entity, operator, key) in self.entities(layout) {
            state.apply((entity, Some(self.state[&operator][key].to_le_bytes().into())));
        }
        self.records.entities(layout).for_each(|write| state.apply(write));
        state
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.state.values().map(BTreeMap::len).sum::<usize>() + self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn root(&mut self, query: bool, request: &Request) -> Result<u64, Abort> {
        if let Some(refusal) = self.deployed.refusal(request.id, self.tid, request.operator.0) {
            return Err(refusal);
        }
        let operator = self.deployed.by_id(request.operator.0)?;
        let system = SystemFunction::named(&request.function);
        let declared = if system.is_none() { operator.read_only(&request.function)? } else { false };
        let read_only = declared || query;
        (self.calls_max, self.depth_max, self.touches_max) = (operator.calls, operator.depth, operator.touches);
        let (key, args) = (keys::intern(&request.key), request.args.to_vec());
        if let Some(function) = system {
            self.issue(0)?;
            return self.change(operator.id, key, function, &args);
        }
        let place = mix(self.seed ^ mix(self.tid.0));
        self.issue(0)?;
        self.call(Target { operator, function: request.function.to_string(), read_only, depth: 0, key, args, place })
    }

    /// What the system does itself to an entity.
    fn change(
        &mut self,
        operator: u32,
        key: &'static str,
        function: SystemFunction,
        args: &[u8],
    ) -> Result<u64, Abort> {
        let value = match function {
            SystemFunction::Put => Some(u64::from_le_bytes(args.try_into().expect("values are numbers"))),
            SystemFunction::Delete => None,
            // The toys have none.
            SystemFunction::Migrate => return Err(Abort::new(Code::UnknownFunction, "no such function")),
        };
        if self.touch(operator, key) {
            let before = self.set(operator, key, value);
            self.undo.push((operator, key, before));
            self.note(Touch { operator, key, wrote: Some(value), before });
        }
        Ok(NOTHING)
    }

    /// Whether an entity may be touched; counts it the first time.
    fn touch(&mut self, operator: u32, key: &'static str) -> bool {
        if !self.doomed && !self.entities.contains(&(operator, key)) {
            self.doomed = self.entities.len() + self.scans >= self.touches_max;
            self.entities.insert((operator, key));
        }
        !self.doomed
    }

    fn issue(&mut self, depth: u32) -> Result<(), Abort> {
        if self.doomed || depth >= self.depth_max || self.calls >= self.calls_max {
            return Err(Abort::new(Code::LimitExceeded, "too many calls, or too deep"));
        }
        self.calls += 1;
        Ok(())
    }

    fn call(&mut self, target: Target) -> Result<u64, Abort> {
        let place = target.place;
        let random = mix(place ^ 0xA076_1D64_78BD_642F);
        let name = format!("{}.{}", target.operator.name, target.function);
        let (operator, read_only, depth) = (target.operator.id, target.read_only, target.depth);
        let issued = Vec::new();
        let mut running = Running { oracle: self, operator, name, read_only, depth, place, calls: 0, random, issued };
        let result = at_once(interpret(target.operator.version, target.key, &target.args, &mut running))?;
        for issued in std::mem::take(&mut running.issued) {
            self.call(issued)?;
        }
        Ok(result)
    }

    fn set(&mut self, operator: u32, key: &'static str, value: Option<u64>) -> Option<u64> {
        if let Some(changed) = &mut self.changed {
            changed.push((operator, key));
        }
        let entities = self.state.entry(operator).or_default();
        match value {
            Some(value) => entities.insert(key, value),
            None => entities.remove(key),
        }
    }

    fn note(&mut self, touch: Touch) {
        if let Some(touched) = &mut self.touched {
            touched.push(touch);
        }
    }
}

impl Running<'_> {
    fn target(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<Target, Abort> {
        // To call nobody is a bug of who calls.
        let bug = |abort: Abort| Abort::new(Code::GuestException, abort.message);
        let operator = self.oracle.deployed.by_name(operator).map_err(bug)?;
        let read_only = operator.read_only(function).map_err(bug)?;
        if self.read_only && !read_only {
            return Err(Abort::new(Code::ReadOnly, format!("{} calls what may write", self.name)));
        }
        let read_only = self.read_only || read_only;
        let (depth, key, args) = (self.depth + 1, keys::intern(key), args.to_vec());
        self.oracle.issue(depth)?;
        self.calls += 1;
        let place = mix(self.place ^ self.calls.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Ok(Target { operator, function: function.into(), read_only, depth, key, args, place })
    }
}

impl World for Running<'_> {
    async fn get(&mut self, key: &str) -> Option<u64> {
        if !self.oracle.touch(self.operator, keys::intern(key)) {
            return None;
        }
        let value = self.oracle.state.get(&self.operator).and_then(|entities| entities.get(key)).copied();
        let Oracle { footprint, undo, .. } = &mut *self.oracle;
        if let Some(footprint) = footprint
            && !undo.iter().any(|(operator, written, _)| (*operator, *written) == (self.operator, key))
        {
            footprint.reads.push((self.operator, keys::intern(key)));
        }
        if self.oracle.touched.is_some() {
            let touch = Touch { operator: self.operator, key: keys::intern(key), wrote: None, before: value };
            self.oracle.note(touch);
        }
        value
    }

    async fn put(&mut self, key: &str, value: Option<u64>) -> Result<(), Abort> {
        if self.read_only {
            return Err(Abort::new(Code::ReadOnly, format!("{} writes", self.name)));
        }
        let key = keys::intern(key);
        if !self.oracle.touch(self.operator, key) {
            return Ok(());
        }
        let before = self.oracle.set(self.operator, key, value);
        self.oracle.undo.push((self.operator, key, before));
        self.oracle.note(Touch { operator: self.operator, key, wrote: Some(value), before });
        Ok(())
    }

    async fn scan(
        &mut self,
        prefix: &str,
        lower: Bound<&'static str>,
        upper: Bound<&'static str>,
        limit: u32,
        reverse: bool,
    ) -> Vec<(usize, u64)> {
        self.oracle.doomed |= self.oracle.entities.len() + self.oracle.scans >= self.oracle.touches_max;
        if self.oracle.doomed {
            return Vec::new();
        }
        self.oracle.scans += 1;
        let mut range = RangeRead { operator: self.operator, prefix: prefix.into(), lower, upper };
        let entities = self.oracle.state.entry(self.operator).or_default();
        let found = entities.iter().filter(|(key, _)| range.contains(key)).map(|(key, value)| (*key, *value));
        let limit = if limit == 0 { usize::MAX } else { limit as usize };
        let found: Vec<(&'static str, u64)> =
            if reverse { found.rev().take(limit).collect() } else { found.take(limit).collect() };
        self.oracle.doomed = found.len() > self.oracle.touches_max;
        if self.oracle.doomed {
            return Vec::new();
        }
        if let Some(footprint) = &mut self.oracle.footprint {
            if let Some((last, _)) = found.last().filter(|_| found.len() == limit) {
                *(if reverse { &mut range.lower } else { &mut range.upper }) = Bound::Included(last);
            }
            footprint.ranges.push(range);
        }
        for (key, value) in &found {
            self.oracle.note(Touch { operator: self.operator, key, wrote: None, before: Some(*value) });
        }
        found.into_iter().map(|(key, value)| (keys::number(key), value)).collect()
    }

    async fn call(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<u64, Abort> {
        let target = self.target(operator, key, function, args)?;
        self.oracle.call(target)
    }

    fn call_async(&mut self, operator: &str, key: &str, function: &str, args: &[u8]) -> Result<(), Abort> {
        let target = self.target(operator, key, function, args)?;
        self.issued.push(target);
        Ok(())
    }

    fn log(&mut self, number: u64) {
        self.oracle.said = self.oracle.said.wrapping_add(line(self.operator, number));
    }

    fn time(&mut self) -> u64 {
        self.oracle.time
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.random)
    }
}
