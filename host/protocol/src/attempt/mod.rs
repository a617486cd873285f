//! One attempt at a transaction: what it sees, what it may use, and what it has done.
//!
//! The engine (or a toy language in the simulator) implements [`Functions`]; everything that a
//! function does to the world goes through an [`Attempt`], which records it. Nothing here knows
//! what a guest is. Transactions run start to finish on one thread; nested calls are direct calls.

mod accesses;
mod frame;
mod overlay;
mod run;
mod scan;

use std::sync::Arc;

pub use accesses::{Access, Accesses, Footprint};
pub use frame::{CallRecord, Frame, LogLevel, LogLine, Target};
pub use overlay::Overlay;
pub use run::{Functions, call, run};

use crate::abort::{Abort, Code};
use crate::catalog::{Catalog, Limits, Operator};
use crate::entity::{Entity, Key, Layout, Value};
use crate::ids::{RequestId, Tid, Timestamp};
use crate::mutants::{Bug, planted};
use crate::range::RangeRead;
use crate::state::{State, Write};
use crate::transaction::Transaction;

/// What one attempt did: outcome, RW set and call graph.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The result, or why there is none.
    pub outcome: Result<Value, Abort>,
    /// Entities read and written, and ranges read.
    pub footprint: Footprint,
    /// Calls in the order in which they ran, the root first.
    pub calls: Vec<CallRecord>,
    /// Log lines of the guests.
    pub logs: Vec<LogLine>,
    /// Fuel used.
    pub fuel: u64,
    /// In the fallback: the attempt left its cached RW set or call graph, and means nothing.
    pub drifted: bool,
}

impl Execution {
    /// The writes to apply if this attempt commits; none for a logic abort.
    pub fn writes(&self) -> impl Iterator<Item = Write> + '_ {
        let committed = self.outcome.is_ok() || planted(Bug::AbortedApplied);
        self.footprint.accesses.iter().filter_map(move |(entity, access)| match access.write() {
            Some(value) if committed => Some((entity.clone(), value.cloned())),
            _ => None,
        })
    }
}

/// The running transaction. One per thread, used again and again: [`Attempt::begin`], [`run`],
/// [`Attempt::finish`].
#[derive(Debug)]
pub struct Attempt {
    state: Arc<State>,
    catalog: Arc<Catalog>,
    layout: Layout,
    /// Writes of earlier members of the same fallback component.
    overlay: Option<Box<Overlay>>,
    /// In the fallback: what the first execution touched and called; anything else is drift.
    cached: Option<Arc<Execution>>,
    transaction: Transaction,
    app: Arc<str>,
    limits: Limits,
    frames: Vec<Frame>,
    queued: Vec<Target>,
    footprint: Footprint,
    calls: Vec<CallRecord>,
    logs: Vec<LogLine>,
    doom: Option<Abort>,
    drifted: bool,
    fuel_used: u64,
    log_bytes: usize,
    /// Bytes of values written and of arguments passed so far.
    bytes: usize,
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
            transaction,
            app,
            limits,
            frames: Vec::new(),
            queued: Vec::new(),
            footprint: Footprint::default(),
            calls: Vec::new(),
            logs: Vec::new(),
            doom: None,
            drifted: false,
            fuel_used: 0,
            log_bytes: 0,
            bytes: 0,
        }
    }

    /// Makes this the attempt of the fallback phase: reads see `overlay` first, and whatever
    /// leaves `cached` is drift (Styx §6.3, conditions for parallel function re-invocation).
    pub fn fall_back(mut self, overlay: Box<Overlay>, cached: Arc<Execution>) -> Self {
        self.overlay = Some(overlay);
        self.cached = Some(cached);
        self
    }

    /// Ends the attempt.
    pub fn finish(self, outcome: Result<Value, Abort>) -> (Execution, Option<Box<Overlay>>) {
        let outcome = match self.doom {
            Some(doom) => Err(doom),
            None => outcome,
        };
        let execution = Execution {
            outcome,
            footprint: self.footprint,
            calls: self.calls,
            logs: self.logs,
            fuel: self.fuel_used,
            drifted: self.drifted,
        };
        (execution, self.overlay)
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
        self.frames.last().expect("a function is running")
    }
    fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a function is running")
    }
    /// The running function's operator.
    pub fn operator(&self) -> &Arc<Operator> {
        self.catalog.operator(self.frame().entity.operator()).expect("the operator of a running function is live")
    }

    // What it may use.

    /// Fuel that the running invocation may use.
    pub fn fuel_allowed(&self) -> u64 {
        self.limits.fuel.min(self.limits.transaction_fuel.saturating_sub(self.fuel_used))
    }
    /// Counts fuel used by an invocation.
    pub fn spend(&mut self, fuel: u64) {
        self.fuel_used = self.fuel_used.saturating_add(fuel);
    }
    /// Entities and ranges read or written so far.
    pub fn touched(&self) -> usize {
        self.footprint.accesses.len() + self.footprint.ranges.len()
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
    pub fn get(&mut self, key: &str) -> Option<Value> {
        let entity = self.entity(key);
        self.read(&entity)
    }
    /// Writes a value under a key of the running function's operator.
    pub fn put(&mut self, key: &str, value: &[u8]) {
        let entity = self.entity(key);
        self.write(entity, Some(value));
    }
    /// Removes a key of the running function's operator.
    pub fn delete(&mut self, key: &str) {
        let entity = self.entity(key);
        self.write(entity, None);
    }
    /// The value of the invoked entity.
    pub fn get_own(&mut self) -> Option<Value> {
        let entity = self.frame().entity.clone();
        self.read(&entity)
    }
    /// Writes the invoked entity.
    pub fn put_own(&mut self, value: &[u8]) {
        let entity = self.frame().entity.clone();
        self.write(entity, Some(value));
    }
    /// Removes the invoked entity.
    pub fn delete_own(&mut self) {
        let entity = self.frame().entity.clone();
        self.write(entity, None);
    }

    fn entity(&self, key: &str) -> Entity {
        let own = &self.frame().entity;
        if &**own.key() == key {
            return own.clone();
        }
        let composite = self.operator().composite;
        Entity::new(&self.layout, own.operator(), composite, Key::from(key))
    }

    fn read(&mut self, entity: &Entity) -> Option<Value> {
        if let Some(access) = self.footprint.accesses.get(entity) {
            if let Some(written) = access.write().filter(|_| !planted(Bug::OwnWrites)) {
                return written.cloned();
            }
            if access.is_read() {
                return self.base(entity).cloned();
            }
        }
        if !self.admits(|cached| cached.footprint.admits_read(entity)) || !self.room_for_access() {
            return None;
        }
        self.footprint.accesses.entry(entity, Access::default).set_read();
        self.base(entity).cloned()
    }

    fn write(&mut self, entity: Entity, value: Option<&[u8]>) {
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
        if self.is_doomed()
            || !self.admits(|cached| cached.footprint.admits_write(&entity))
            || !self.room_for_bytes(value.map_or(0, <[u8]>::len))
        {
            return;
        }
        if self.footprint.accesses.get(&entity).is_none() && !self.room_for_access() {
            return;
        }
        self.footprint.accesses.entry(&entity, Access::default).set_write(value.map(Value::from));
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
            self.drifted = true;
        }
        !self.drifted
    }

    fn room_for_access(&mut self) -> bool {
        let used = self.footprint.accesses.len() + self.footprint.ranges.len();
        if used >= self.limits.rw_set as usize {
            let limit = self.limits.rw_set;
            self.doom(Abort::new(
                Code::LimitExceeded,
                format!("the transaction touches more than {limit} entities (limits.rw_set)"),
            ));
        }
        self.doom.is_none()
    }

    /// Counts bytes that the transaction makes the host hold.
    fn room_for_bytes(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let limit = self.limits.payload as usize * PAYLOADS_MAX;
        if self.bytes > limit {
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

    fn range_read(&mut self, read: RangeRead) -> bool {
        if !self.admits(|cached| cached.footprint.admits_range(&read)) || !self.room_for_access() {
            return false;
        }
        if !self.footprint.ranges.contains(&read) {
            self.footprint.ranges.push(read);
        }
        true
    }
}

/// Bytes of values and arguments that one transaction may make the host hold, in multiples of `limits.payload`.
const PAYLOADS_MAX: usize = 32;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
