//! One attempt at a transaction on one worker: what it sees, what it may use, and what it has done.
//!
//! The engine (or a toy language in the simulator) runs the functions; everything that a function
//! does to the world goes through an [`Attempt`], which records it. Nothing here knows what a
//! guest is. On one worker a transaction runs start to finish on one thread, and nested calls are
//! direct calls; among several, an attempt answers with [`Locality::Remote`] or [`Next::AwaitRemote`] what must
//! be done elsewhere, and goes on with the answer.

mod accesses;
mod frame;
mod index;
mod overlay;
mod path;
mod run;
mod scan;
mod site;
mod stamp;

use std::sync::Arc;

pub use accesses::{Access, Accesses, Footprint};
pub use frame::{CallRecord, Frame, LogLevel, LogLine, Target};
pub use overlay::Overlay;
pub use path::{ASYNC, Path};
pub use run::{Functions, Next, call, run};
pub use site::{
    CachedCall, Entry, Mode, Operation, Payload, RemoteRequest, RemoteRequests, RemoteResponse, Report, Scan, Usage,
};
pub use stamp::Stamp;

use smallvec::SmallVec;

use crate::abort::{Abort, Code};
use crate::cluster::placement::Placement;
use crate::cluster::worker_set::WorkerSet;
use crate::execute::effect::Effect;
use crate::ids::{RequestId, Tid, Timestamp, WorkerId};
use crate::mutants::{Bug, planted};
use crate::sequence::catalog::{Catalog, Limits, Operator};
use crate::sequence::transaction::Transaction;
use crate::state::entity::{Entity, Key, Layout, Value};
use crate::state::range::RangeRead;
use crate::state::{State, Write};
use index::KeyIndex;
use scan::PendingScan;
use site::RemoteContext;

/// What a function wants from the state.
#[derive(Debug)]
pub enum Locality<T> {
    /// It is here.
    Local(T),
    /// Other workers have it: ask them, and continue with their answers.
    Remote(RemoteRequests),
}

impl<T> Locality<T> {
    /// The thing itself, where one worker owns everything.
    ///
    /// # Panics
    /// It is elsewhere.
    pub fn here(self) -> T {
        match self {
            Locality::Local(thing) => thing,
            Locality::Remote(_) => panic!("an attempt of a single worker reached for another"),
        }
    }
}

/// What one attempt did: outcome, RW set and call graph.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The result, or why there is none.
    pub outcome: Result<Value, Abort>,
    /// Entities read and written, and ranges read.
    pub footprint: Footprint,
    /// Calls in the order in which they were issued, the root first.
    pub calls: Vec<CallRecord>,
    /// Of each function that returned: its place, and how many calls it had issued.
    pub left: SmallVec<[(u64, u32); 2]>,
    /// What scans of functions here have observed: the function's place, the number of the scan.
    pub scans: Vec<(u64, u32, RangeRead)>,
    /// Among several workers: the calls that came here, in the order in which they began.
    pub entered: Vec<CachedCall>,
    /// Log lines of the guests.
    pub logs: Vec<LogLine>,
    /// Work left behind, if it commits, in the order of its keys within each function.
    pub effects: Vec<Effect>,
    /// Fuel used.
    pub fuel: u64,
    /// In the fallback: the attempt left its cached RW set or call graph, and means nothing.
    pub drifted: bool,
}

impl Default for Execution {
    fn default() -> Self {
        Execution {
            outcome: Ok(Value::default()),
            footprint: Footprint::default(),
            calls: Vec::new(),
            left: SmallVec::new(),
            scans: Vec::new(),
            entered: Vec::new(),
            logs: Vec::new(),
            effects: Vec::new(),
            fuel: 0,
            drifted: false,
        }
    }
}

/// Appends to a list that most transactions keep short: with exactly the room that these need at
/// first, since thousands of transactions are kept until their epoch ends.
fn append<T>(list: &mut Vec<T>, usual: usize, item: T) {
    if list.capacity() == 0 {
        list.reserve_exact(usual);
    }
    list.push(item);
}

/// Looks for something in a list that is mostly asked for in its own order.
fn find_from<T>(list: &[T], cursor: &mut usize, wanted: impl Fn(&T) -> bool) -> Option<usize> {
    let start = (*cursor).min(list.len());
    let ahead = list[start..].iter().position(&wanted).map(|at| at + start);
    let found = ahead.or_else(|| list[..start].iter().position(wanted))?;
    *cursor = found + 1;
    Some(found)
}

impl Execution {
    /// Whether the same call was issued in the same place.
    fn has_issued(&self, cursor: &mut usize, record: &CallRecord) -> bool {
        let found = find_from(&self.calls, cursor, |call| call.place == record.place);
        found.is_some_and(|at| self.calls[at] == *record)
    }

    /// Whether the same scan had observed as much.
    fn has_scanned(&self, cursor: &mut usize, place: u64, number: u32, read: &RangeRead) -> bool {
        let found = find_from(&self.scans, cursor, |(of, at, _)| (*of, *at) == (place, number));
        let covers = |known: &RangeRead| known.operator == read.operator && known.range.covers(&read.range);
        found.is_some_and(|at| covers(&self.scans[at].2))
    }

    /// Whether the function in a place had issued as many calls.
    fn has_left(&self, cursor: &mut usize, left: (u64, u32)) -> bool {
        find_from(&self.left, cursor, |known| *known == left).is_some()
    }

    /// The writes to apply if this attempt commits; none for a logic abort.
    pub fn writes(&self) -> impl Iterator<Item = Write> + '_ {
        let committed = self.outcome.is_ok() || planted(Bug::AbortedApplied);
        let entities = self.footprint.accesses.iter().filter_map(move |(entity, access)| match access.write() {
            Some(value) if committed => Some((entity.clone(), value.cloned())),
            _ => None,
        });
        entities.chain(self.effects.iter().filter(move |_| committed).map(Effect::write))
    }
}

/// The running transaction: [`Attempt::begin`], [`run`], [`Attempt::finish`].
#[derive(Debug)]
pub struct Attempt {
    state: Arc<State>,
    catalog: Arc<Catalog>,
    layout: Layout,
    /// Writes of those that committed before it in the fallback.
    overlay: Option<Box<Overlay>>,
    /// In the fallback: what the first execution touched and called; anything else is drift.
    cached: Option<Arc<Execution>>,
    /// Where the next call, return and scan is looked for in the cached ones.
    cursors: (usize, usize, usize),
    /// Absent where one worker owns everything.
    site: Option<Box<RemoteContext>>,
    transaction: Transaction,
    app: Arc<str>,
    limits: Limits,
    fragment: Fragment,
    footprint: Footprint,
    /// Keys written, in order; kept from the first scan on.
    written: Option<KeyIndex>,
    calls: Vec<CallRecord>,
    left: SmallVec<[(u64, u32); 2]>,
    scans: Vec<(u64, u32, RangeRead)>,
    entered: Vec<CachedCall>,
    logs: Vec<LogLine>,
    doom: Option<Abort>,
    drifted: bool,
    usage: Usage,
    log_bytes: usize,
}

/// The calls in progress of one function that was started here, from another worker or as the
/// root. While it waits for another worker, other fragments of the transaction may run.
#[derive(Debug, Default)]
pub struct Fragment {
    frames: Vec<Frame>,
    queued: Vec<Target>,
    levels: Vec<run::Level>,
    scan: Option<Box<PendingScan>>,
}

/// Bytes of log lines kept per attempt.
const LOG_BYTES_MAX: usize = 64 << 10;

impl Attempt {
    /// Starts an attempt at `transaction` on committed state.
    pub fn begin(transaction: Transaction, state: Arc<State>, catalog: Arc<Catalog>) -> Self {
        let layout = state.layout();
        let (app, limits) = match catalog.operator(transaction.request.operator) {
            Some(operator) => (operator.app.clone(), operator.limits),
            None => ("".into(), Limits::default()),
        };
        Attempt {
            state,
            catalog,
            layout,
            overlay: None,
            cached: None,
            cursors: (0, 0, 0),
            site: None,
            transaction,
            app,
            limits,
            fragment: Fragment::default(),
            footprint: Footprint::default(),
            written: None,
            calls: Vec::new(),
            left: SmallVec::new(),
            scans: Vec::new(),
            entered: Vec::new(),
            logs: Vec::new(),
            doom: None,
            drifted: false,
            usage: Usage::default(),
            log_bytes: 0,
        }
    }

    /// Makes this the attempt of the fallback phase: reads see `overlay` first, and whatever
    /// leaves `cached` is drift (Styx §6.3, conditions for parallel function re-invocation).
    pub fn fall_back(mut self, overlay: Box<Overlay>, cached: Arc<Execution>) -> Self {
        self.overlay = Some(overlay);
        self.cached = Some(cached);
        self
    }

    /// Makes this the part of the attempt that runs on worker `me` of several.
    pub fn among(mut self, me: WorkerId, placement: Arc<Placement>, mode: Mode) -> Self {
        self.site = Some(Box::new(RemoteContext::new(me, placement, mode)));
        self
    }

    /// Ends the attempt.
    pub fn finish(mut self, outcome: Result<Value, Abort>) -> (Execution, Option<Box<Overlay>>) {
        (self.take_execution(outcome), self.overlay)
    }

    /// Ends the attempt where it is, without moving it.
    pub fn take_execution(&mut self, outcome: Result<Value, Abort>) -> Execution {
        let outcome = match self.doom.take() {
            Some(doom) => Err(doom),
            None => outcome,
        };
        Execution {
            outcome,
            footprint: std::mem::take(&mut self.footprint),
            calls: std::mem::take(&mut self.calls),
            left: std::mem::take(&mut self.left),
            scans: std::mem::take(&mut self.scans),
            entered: std::mem::take(&mut self.entered),
            logs: std::mem::take(&mut self.logs),
            effects: Vec::new(),
            fuel: self.usage.fuel,
            drifted: self.drifted,
        }
    }

    /// Takes back what [`Attempt::fall_back`] was given.
    pub fn take_overlay(&mut self) -> Option<Box<Overlay>> {
        self.overlay.take()
    }

    // What connects the parts of an attempt that runs on several workers.

    /// Whether the whole attempt ran here and is over: nobody else was asked or called.
    pub fn is_local(&self) -> bool {
        self.site
            .as_ref()
            .is_none_or(|site| site.outgoing.is_empty() && site.report.workers == WorkerSet::only(site.me))
    }

    /// How the graph is run; the default where one worker owns everything.
    pub fn mode(&self) -> Mode {
        self.site.as_ref().map_or_else(Mode::default, |site| site.mode)
    }

    /// Takes what is to be told to whoever waits for this part.
    pub fn take_report(&mut self) -> Report {
        let Some(site) = &mut self.site else { return Report::default() };
        let mut report = std::mem::take(&mut site.report);
        report.workers.merge(&WorkerSet::only(site.me));
        report
    }

    /// Goes on with what happened elsewhere meanwhile. In strict mode `used` is what the transaction
    /// has used up to now, wherever.
    pub fn resume(&mut self, used: Usage, drifted: bool) {
        if self.mode().strict {
            self.usage = used;
        }
        self.drifted |= drifted;
    }

    /// What the transaction has used, as far as is known here.
    pub fn used(&self) -> Usage {
        self.usage
    }

    /// Whether what the whole graph used might have met a bound in a serial run.
    pub fn is_over(&self, used: &Usage) -> bool {
        let bytes = u64::from(self.limits.payload) * PAYLOADS_MAX as u64;
        used.fuel > self.limits.transaction_fuel / 2
            || used.calls >= self.limits.calls
            || used.touched >= self.limits.rw_set
            || used.bytes >= bytes
    }

    /// Takes the asynchronous calls that other workers have to be told.
    pub fn take_outgoing(&mut self) -> Vec<(WorkerId, Target)> {
        self.site.as_mut().map_or_else(Vec::new, |site| std::mem::take(&mut site.outgoing))
    }

    /// Says that the outcome may be due to the past of an instance, so that it must not be believed.
    pub fn suspect(&mut self) {
        if let Some(site) = &mut self.site {
            site.report.suspect = true;
        }
    }

    /// Says that there was no room for another suspended instance.
    pub fn refuse(&mut self) {
        if let Some(site) = &mut self.site {
            site.report.refused = true;
        }
    }

    /// The piece that ran is over: gives back the memory that only a running function needs, on the
    /// thread that it came from.
    pub fn rest(&mut self) {
        self.fragment = Fragment::default();
    }

    /// Lays the calls in progress aside.
    pub fn park(&mut self) -> Fragment {
        std::mem::take(&mut self.fragment)
    }

    /// Takes calls up again.
    pub fn unpark(&mut self, fragment: Fragment) {
        debug_assert!(self.fragment.frames.is_empty(), "one fragment runs at a time");
        self.fragment = fragment;
    }

    /// Does for a function elsewhere what needs no function here.
    ///
    /// # Panics
    /// With a call.
    pub fn serve(&mut self, asked: RemoteRequest) -> RemoteResponse {
        let stamp = Some(asked.stamp);
        let answer = match asked.operation {
            Operation::Call(_) => panic!("a call needs an executor"),
            Operation::Get(entity) => RemoteResponse::Value(self.read(&entity, stamp.as_ref()).map(Payload)),
            Operation::Put(entity, value) => {
                self.write(entity, value, stamp.as_ref());
                RemoteResponse::Noted
            }
            Operation::Scan(scan) => {
                let entries = self.find(&scan, stamp.as_ref());
                RemoteResponse::Entries(entries.into_iter().map(|(key, value)| Entry(key, value)).collect())
            }
            Operation::Observe(read) => {
                self.observe(read);
                RemoteResponse::Noted
            }
        };
        match &self.doom {
            Some(doom) => RemoteResponse::Failed(doom.clone()),
            None => answer,
        }
    }

    /// Whether the running function may touch state elsewhere. A graph that did so is not invoked
    /// again from its cached parameters; one that is and does may keep to its locks all the same,
    /// so it stops here and runs strictly.
    fn may_reach(&mut self) -> bool {
        if self.mode().cached {
            self.drift();
            self.site.as_mut().expect("there is an elsewhere").report.reached = true;
        }
        !self.drifted
    }

    /// A question of the running function that touches state elsewhere.
    fn ask(&mut self, to: WorkerId, operation: Operation) -> RemoteRequests {
        if let Some(site) = &mut self.site {
            site.report.reached = true;
        }
        RemoteRequests { operations: vec![(to, self.asked(operation))] }
    }

    fn asked(&self, operation: Operation) -> RemoteRequest {
        let stamp = self.stamp().expect("who asks others has a site");
        RemoteRequest { operation, stamp, used: self.usage }
    }

    /// When the running function does what it does now.
    fn stamp(&self) -> Option<Stamp> {
        let frame = self.fragment.frames.last()?;
        Some(Stamp::new(frame.path.clone()?, frame.synchronous))
    }

    fn elsewhere(&self, entity: &Entity) -> Option<WorkerId> {
        self.site.as_ref().and_then(|site| site.elsewhere(entity))
    }

    /// The single answer to a single question; a bound met elsewhere dooms the transaction here.
    fn single(&mut self, answers: Vec<RemoteResponse>) -> RemoteResponse {
        let [answer] = <[RemoteResponse; 1]>::try_from(answers).expect("one answer to one question");
        if let RemoteResponse::Failed(abort) = &answer {
            self.doom(abort.clone());
        }
        answer
    }

    /// Counts something against the limits.
    fn charge(&mut self, usage: Usage) {
        self.usage.add(usage);
        if let Some(site) = &mut self.site {
            site.report.usage.add(usage);
        }
    }

    // What the running function may know.

    /// The transaction's id.
    pub fn tid(&self) -> Tid {
        self.transaction.tid
    }
    /// The id of its request.
    pub fn request_id(&self) -> RequestId {
        self.transaction.request.id
    }
    /// When it was sequenced.
    pub fn time(&self) -> Timestamp {
        self.transaction.time
    }
    /// The app.
    pub fn app(&self) -> &Arc<str> {
        &self.app
    }
    /// Bounds of the app.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    /// What is deployed.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    /// The running function's frame.
    ///
    /// # Panics
    /// Outside of a call.
    pub fn frame(&self) -> &Frame {
        self.fragment.frames.last().expect("a function is running")
    }
    fn frame_mut(&mut self) -> &mut Frame {
        self.fragment.frames.last_mut().expect("a function is running")
    }
    /// The running function's operator.
    pub fn operator(&self) -> &Arc<Operator> {
        self.catalog.operator(self.frame().entity.operator()).expect("the operator of a running function is live")
    }

    // What it may use.

    /// Fuel that the running invocation may use.
    pub fn fuel_allowed(&self) -> u64 {
        self.limits.fuel.min(self.limits.transaction_fuel.saturating_sub(self.usage.fuel))
    }
    /// Counts fuel used by an invocation.
    pub fn spend(&mut self, fuel: u64) {
        self.charge(Usage { fuel, ..Usage::default() });
    }
    /// Whether the attempt can no longer have an effect, so that the guest may as well stop.
    pub fn is_doomed(&self) -> bool {
        self.doom.is_some() || self.drifted
    }
    /// Whether nothing that the guests still do can matter, not even what they add to the message
    /// of a logic abort.
    pub fn is_settled(&self) -> bool {
        self.drifted || self.doom.as_ref().is_some_and(|doom| doom.code != Code::Aborted)
    }
    /// Ends the transaction without effect, whatever the guest does from here. The first doom counts.
    pub fn doom(&mut self, abort: Abort) -> Abort {
        if self.drifted {
            return abort; // Nothing of this attempt counts.
        }
        if let Some(site) = &mut self.site {
            site.report.doomed = true;
        }
        self.doom.get_or_insert(abort).clone()
    }
    /// Replaces the doom, if any: a caller may add to the message of a failed callee.
    fn reword(&mut self, abort: &Abort) {
        if let Some(doom) = &mut self.doom
            && doom.code == Code::Aborted
            && abort.code == Code::Aborted
        {
            *doom = abort.clone();
        }
    }

    /// The next number of the invocation's generator (splitmix64, seeded from the transaction).
    pub fn random(&mut self) -> u64 {
        self.frame_mut().random()
    }

    /// Keeps a log line of the guest.
    pub fn log(&mut self, level: LogLevel, message: String) {
        self.log_bytes += message.len();
        if self.log_bytes <= LOG_BYTES_MAX {
            let frame = self.frame();
            let line = LogLine { level, operator: frame.entity.operator(), key: frame.entity.key().clone(), message };
            self.logs.push(line);
        }
    }

    // State.

    /// The value under a key of the running function's operator, as this transaction sees it.
    pub fn get(&mut self, key: &str) -> Locality<Option<Value>> {
        let entity = self.entity(key);
        if let Some(owner) = self.elsewhere(&entity) {
            return if self.is_doomed() || !self.may_reach() {
                Locality::Local(None)
            } else {
                Locality::Remote(self.ask(owner, Operation::Get(entity)))
            };
        }
        let stamp = self.stamp();
        Locality::Local(self.read(&entity, stamp.as_ref()))
    }
    /// Continues [`Attempt::get`].
    pub fn got(&mut self, answers: Vec<RemoteResponse>) -> Option<Value> {
        match self.single(answers) {
            RemoteResponse::Value(value) => value.map(|Payload(value)| value),
            _ => None,
        }
    }
    /// Writes a value under a key of the running function's operator.
    pub fn put(&mut self, key: &str, value: &[u8]) -> Locality<()> {
        let entity = self.entity(key);
        self.change(entity, Some(value))
    }
    /// Removes a key of the running function's operator.
    pub fn delete(&mut self, key: &str) -> Locality<()> {
        let entity = self.entity(key);
        self.change(entity, None)
    }
    /// Continues [`Attempt::put`] and [`Attempt::delete`].
    pub fn noted(&mut self, answers: Vec<RemoteResponse>) {
        self.single(answers);
    }
    /// The value of the invoked entity, which is always here.
    pub fn get_own(&mut self) -> Option<Value> {
        let (entity, stamp) = (self.frame().entity.clone(), self.stamp());
        self.read(&entity, stamp.as_ref())
    }
    /// Writes the invoked entity.
    pub fn put_own(&mut self, value: &[u8]) {
        let entity = self.frame().entity.clone();
        self.change(entity, Some(value)).here();
    }
    /// Removes the invoked entity.
    pub fn delete_own(&mut self) {
        let entity = self.frame().entity.clone();
        self.change(entity, None).here();
    }

    fn entity(&self, key: &str) -> Entity {
        let own = &self.frame().entity;
        if &**own.key() == key {
            return own.clone();
        }
        let composite = self.operator().composite;
        Entity::new(&self.layout, own.operator(), composite, Key::from(key))
    }

    fn read(&mut self, entity: &Entity, stamp: Option<&Stamp>) -> Option<Value> {
        // What is read after a failure would depend on how far other branches had come.
        if self.is_doomed() {
            return None;
        }
        let found = self.footprint.accesses.find(entity);
        if let Some(place) = found {
            self.stamp_access(place, entity, stamp, false);
            let access = self.footprint.accesses.at(place);
            if let Some(written) = access.write().filter(|_| !planted(Bug::OwnWrites)) {
                return written.cloned();
            }
            if access.is_read() {
                return self.base(entity).cloned();
            }
        } else if !self.room_for_access() {
            return None;
        }
        if !self.admits(|cached| cached.footprint.admits_read(entity)) {
            return None;
        }
        let place = found.unwrap_or_else(|| self.footprint.accesses.add(entity.clone(), Access::default()));
        self.footprint.accesses.at_mut(place).set_read();
        self.stamp_access(place, entity, stamp, false);
        self.base(entity).cloned()
    }

    /// Writes an entity of the running function's operator, wherever it is.
    fn change(&mut self, entity: Entity, value: Option<&[u8]>) -> Locality<()> {
        if self.frame().read_only && !planted(Bug::ReadOnlyWrites) {
            self.doom(Abort::new(
                Code::ReadOnly,
                format!("{} is declared read-only and wrote \"{}\"", self.running(), entity.key()),
            ));
        }
        let payload = self.limits.payload as usize;
        if let Some(value) = value
            && value.len() > payload
        {
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!("a value of {} bytes is over the limit of {payload} (limits.payload)", value.len()),
            ));
        }
        if entity.key().len() > KEY_BYTES_MAX {
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!("a key of {} bytes is over the limit of {KEY_BYTES_MAX}", entity.key().len()),
            ));
        }
        if self.is_doomed() || !self.room_for_bytes(value.map_or(0, <[u8]>::len)) {
            return Locality::Local(());
        }
        let value = value.map(Value::from);
        if let Some(owner) = self.elsewhere(&entity) {
            return if self.may_reach() {
                Locality::Remote(self.ask(owner, Operation::Put(entity, value)))
            } else {
                Locality::Local(())
            };
        }
        let stamp = self.stamp();
        self.write(entity, value, stamp.as_ref());
        Locality::Local(())
    }

    fn write(&mut self, entity: Entity, value: Option<Value>, stamp: Option<&Stamp>) {
        if self.is_doomed() || !self.admits(|cached| cached.footprint.admits_write(&entity)) {
            return;
        }
        let place = match self.footprint.accesses.find(&entity) {
            Some(place) => place,
            None if !self.room_for_access() => return,
            None => self.footprint.accesses.add(entity.clone(), Access::default()),
        };
        self.footprint.accesses.at_mut(place).set_write(value);
        if let Some(written) = &mut self.written {
            written.insert(&entity);
        }
        self.stamp_access(place, &entity, stamp, true);
    }

    fn stamp_access(&mut self, place: usize, entity: &Entity, stamp: Option<&Stamp>, write: bool) {
        if let (Some(site), Some(stamp)) = (&mut self.site, stamp) {
            site.touched(place, entity, stamp, write);
            site.report.wrote |= write;
        }
    }

    /// The value before this transaction's own writes.
    fn base(&self, entity: &Entity) -> Option<&Value> {
        if let Some(overlay) = &self.overlay
            && let Some(written) = overlay.get(entity)
        {
            return written.as_ref();
        }
        self.state.get(entity)
    }

    /// In the fallback: whether the first execution's locks cover an access; if not, it is drift.
    fn admits(&mut self, covered: impl FnOnce(&Execution) -> bool) -> bool {
        if let Some(cached) = &self.cached
            && !self.drifted
            && !covered(cached)
        {
            self.drift();
        }
        !self.drifted
    }

    /// The attempt has left its cached RW set or call graph.
    fn drift(&mut self) {
        self.drifted = true;
        if let Some(site) = &mut self.site {
            site.report.drifted = true;
        }
    }

    /// Counts an entity that is touched for the first time, or a scan.
    fn room_for_access(&mut self) -> bool {
        if self.usage.touched >= self.limits.rw_set {
            let limit = self.limits.rw_set;
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!("the transaction touches more than {limit} entities (limits.rw_set)"),
            ));
        }
        if self.doom.is_none() {
            self.charge(Usage { touched: 1, ..Usage::default() });
        }
        self.doom.is_none()
    }

    /// Counts bytes that the transaction makes the host hold.
    fn room_for_bytes(&mut self, bytes: usize) -> bool {
        self.charge(Usage { bytes: bytes as u64, ..Usage::default() });
        let limit = self.limits.payload as usize * PAYLOADS_MAX;
        if self.usage.bytes > limit as u64 {
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!(
                    "the transaction writes and passes more than {limit} bytes ({PAYLOADS_MAX} times limits.payload)"
                ),
            ));
        }
        self.doom.is_none()
    }

    /// `operator.function` of the running function, for messages.
    fn running(&self) -> Arc<str> {
        self.operator().function(self.frame().function).qualified.clone()
    }

    /// Reserves what a scan has observed.
    fn observe(&mut self, read: RangeRead) {
        if self.footprint.ranges.last() != Some(&read) {
            self.footprint.ranges.push(read);
        }
    }
}

/// Bytes of values and arguments that one transaction may make the host hold, in multiples of `limits.payload`.
const PAYLOADS_MAX: usize = 32;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
