//! One attempt at a transaction on one worker: what it sees, what it may use, and what it has done.
//!
//! The engine (or a toy language in the simulator) runs the functions; everything that a function
//! does to the world goes through an [`Attempt`], which records it. Nothing here knows what a
//! guest is. On one worker a transaction runs start to finish on one thread, and nested calls are
//! direct calls; among several, an attempt answers with [`Locality::Remote`] or [`Next::AwaitRemote`] what must
//! be done elsewhere, and goes on with the answer.

mod accesses;
mod base;
mod execution;
mod fragment;
mod frame;
mod index;
mod mode;
mod overlay;
mod path;
mod quota;
mod reinvocation;
mod remote;
mod report;
mod run;
mod scan;
mod site;
mod stamp;
mod state;
#[cfg(test)]
mod tests;
mod thin_vec;

use std::borrow::Cow;
use std::sync::Arc;

pub use accesses::{Access, Accesses, Footprint};
pub use base::Reader;
pub use execution::{Execution, ScanRecord};
pub use fragment::Fragment;
pub use frame::{CallRecord, Frame, LogLevel, LogLine, Target, place_of_call};
pub use mode::Mode;
pub use overlay::Overlay;
pub use path::{ASYNC, Path};
pub use quota::{KEY_BYTES_MAX, Usage};
pub use report::{Finding, Report};
pub use run::{Functions, Next, call, finish, run};
pub(crate) use scan::merge;
pub use site::{CachedCall, Entry, Operation, RemoteRequest, RemoteRequests, RemoteResponse, Scan};
pub use stamp::Stamp;
pub use state::{Locality, OwnValue};
pub use thin_vec::ThinVec;

use crate::abort::{Abort, Code};
use crate::cluster::placement::Placement;
use crate::ids::{RequestId, Tid, Timestamp, WorkerId};
use crate::sequence::catalog::{Catalog, Operator};
use crate::sequence::deployment::Limits;
use crate::sequence::interface::SEPARATOR;
use crate::sequence::transaction::{Request, Transaction};
use crate::state::State;
use crate::state::entity::{Entity, Layout, Value};
use base::Base;
use index::KeyIndex;
use quota::Quota;
use reinvocation::Reinvocation;
use site::RemoteContext;

/// The running transaction: [`Attempt::begin`], [`run`], [`Attempt::finish`].
#[derive(Debug)]
pub struct Attempt {
    transaction: Transaction,
    base: Base,
    catalog: Arc<Catalog>,
    /// The app that the request calls.
    app: Arc<str>,
    quota: Quota,
    /// Calls in progress.
    fragment: Fragment,
    /// What it has done so far.
    execution: Execution,
    /// Keys written, in order; kept from the first scan on.
    written: Option<Box<KeyIndex>>,
    /// Why it ends without effect, whatever the functions do from here.
    doom: Option<Abort>,
    /// What it needed first that has not arrived here.
    lacking: Option<Entity>,
    /// In the fallback.
    reinvocation: Option<Box<Reinvocation>>,
    /// Absent where one worker owns everything.
    site: Option<Box<RemoteContext>>,
}

impl Attempt {
    /// Starts an attempt at `transaction` on committed state.
    pub fn begin(transaction: Transaction, state: Arc<State>, catalog: Arc<Catalog>) -> Self {
        Self::on(Base::State(state), transaction, catalog)
    }

    /// Starts a run of a long transaction, beside the epochs: it reads through `reader`.
    pub fn begin_long(
        transaction: Transaction,
        layout: Layout,
        catalog: Arc<Catalog>,
        reader: Box<dyn Reader>,
    ) -> Self {
        Self::on(Base::current(layout, reader), transaction, catalog)
    }

    #[inline(always)]
    fn on(base: Base, transaction: Transaction, catalog: Arc<Catalog>) -> Self {
        let (app, limits) = match catalog.operator(transaction.request.operator) {
            Some(operator) => (operator.app.clone(), operator.limits),
            None => ("".into(), Limits::default()),
        };
        Attempt {
            transaction,
            base,
            catalog,
            app,
            quota: Quota::new(limits),
            fragment: Fragment::default(),
            execution: Execution::default(),
            written: None,
            doom: None,
            lacking: None,
            reinvocation: None,
            site: None,
        }
    }

    /// Bounds the fuel that this attempt may use inside an epoch: who needs more is postponed, to be run beside the
    /// epochs.
    pub fn slice(&mut self, fuel: u64) {
        self.quota.slice = fuel;
    }

    /// Makes this the attempt of the fallback phase: reads see `overlay` first, and whatever
    /// leaves `cached` is drift (Styx §6.3, conditions for parallel function re-invocation).
    pub fn fall_back(mut self, overlay: Box<Overlay>, cached: Arc<Execution>) -> Self {
        self.reinvocation = Some(Box::new(Reinvocation::new(overlay, cached)));
        self
    }

    /// Makes this the part of the attempt that runs on worker `me` of several.
    pub fn among(mut self, me: WorkerId, placement: Arc<Placement>, mode: Mode) -> Self {
        self.site = Some(Box::new(RemoteContext::new(me, placement, mode)));
        self
    }

    /// The same attempt from its beginning, with what [`Attempt::resume`] was told: nothing that it has done counts.
    pub fn anew(self, used: Usage, drifted: bool) -> Self {
        let Attempt { transaction, base, catalog, quota, reinvocation, site, .. } = self;
        let mut anew = Attempt::on(base, transaction, catalog);
        anew.slice(quota.slice);
        anew.reinvocation = reinvocation.map(|it| Box::new(Reinvocation::new(it.overlay, it.cached)));
        anew.site = site.map(|site| Box::new(RemoteContext::new(site.me, site.placement, site.mode)));
        anew.resume(used, drifted);
        anew
    }

    /// Ends the attempt.
    pub fn finish(mut self: Box<Self>, outcome: Result<Value, Abort>) -> (Execution, Option<Box<Overlay>>) {
        (self.take_execution(outcome), self.take_overlay())
    }

    /// Ends the attempt where it is, without moving it.
    pub fn take_execution(&mut self, outcome: Result<Value, Abort>) -> Execution {
        if self.execution.postponed {
            // Nothing of it counts.
            self.doom = None;
            self.execution = Execution { postponed: true, ..Execution::default() };
            if let Some(entity) = self.lacking.take() {
                self.execution.lacks = true;
                self.execution.footprint.accesses.add(entity, Access::default());
            }
        }
        // Among several workers the others say what was used.
        let charged = self.site.is_some() || self.execution.calls.len() <= self.quota.used.calls as usize;
        debug_assert!(charged, "every call is charged for");
        self.execution.outcome = match self.doom.take() {
            Some(doom) => Err(doom),
            None => outcome,
        };
        self.execution.fuel = self.quota.used.fuel;
        std::mem::take(&mut self.execution)
    }

    /// Takes back what [`Attempt::fall_back`] was given.
    pub fn take_overlay(&mut self) -> Option<Box<Overlay>> {
        self.reinvocation.take().map(|reinvocation| reinvocation.overlay)
    }

    /// What it has done here so far.
    pub fn so_far(&self) -> &Execution {
        &self.execution
    }

    /// Says what was done here, elsewhere and before.
    pub fn set_footprint(&mut self, footprint: Footprint) {
        self.execution.footprint = footprint;
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
        debug_assert!(self.fragment.is_over(), "one fragment runs at a time");
        self.fragment = fragment;
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
    /// The transaction itself.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }
    /// The request itself.
    pub fn request(&self) -> &Request {
        &self.transaction.request
    }
    /// When it was sequenced.
    pub fn time(&self) -> Timestamp {
        self.transaction.time
    }
    /// The app whose function is running.
    pub fn app(&self) -> &Arc<str> {
        &self.operator().app
    }
    /// Bounds of the transaction: those of the app that the request calls.
    pub fn limits(&self) -> &Limits {
        &self.quota.limits
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

    /// `operator.function` of the running function, for messages; with its app before it, if that is not the request's.
    pub fn running(&self) -> Cow<'_, str> {
        let operator = self.operator();
        let qualified = &*operator.function(self.frame().function).qualified;
        if *operator.app == *self.app {
            Cow::Borrowed(qualified)
        } else {
            Cow::Owned(format!("{}{SEPARATOR}{qualified}", operator.app))
        }
    }

    // What it may use.

    /// Fuel that the running invocation may use.
    pub fn fuel_allowed(&self) -> u64 {
        self.fuel_limit().min(self.quota.slice_left())
    }
    /// Fuel that its app, and what the transaction has used, leave for the running invocation, however long it takes.
    pub fn fuel_limit(&self) -> u64 {
        self.quota.fuel(self.operator().limits.fuel)
    }
    /// The guest was stopped for want of fuel, and its app may use more ([`Attempt::fuel_limit`]): nothing of the
    /// attempt counts.
    pub fn postpone(&mut self) {
        self.execution.postponed = true;
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Postponed);
        }
    }
    /// An entity is needed that has not arrived here: nothing of the attempt counts.
    pub(super) fn lack(&mut self, entity: &Entity) {
        if !self.execution.postponed {
            self.lacking = Some(entity.clone());
            if let Some(site) = &mut self.site {
                site.report.add(Finding::Lacks);
            }
        }
        self.postpone();
    }
    /// What it needed first that has not arrived here, if that is why it is postponed.
    pub fn lacking(&self) -> Option<&Entity> {
        self.lacking.as_ref()
    }
    /// Counts fuel used by an invocation.
    pub fn spend(&mut self, fuel: u64) {
        self.charge(Usage { fuel, ..Usage::default() });
    }
    /// What the transaction has used, as far as is known here.
    pub fn used(&self) -> Usage {
        self.quota.used
    }
    /// Whether what the whole graph used might have met a bound in a serial run.
    pub fn is_over(&self, used: &Usage) -> bool {
        self.quota.is_near(used)
    }

    /// Counts something against the limits.
    fn charge(&mut self, usage: Usage) {
        self.quota.used.add(usage);
        if let Some(site) = &mut self.site {
            site.report.usage.add(usage);
        }
    }

    /// Dooms the transaction if a bound is met.
    fn bounded(&mut self, admitted: Result<(), Abort>) -> bool {
        if let Err(abort) = admitted {
            self.doom(abort);
        }
        self.doom.is_none()
    }

    /// Counts an entity that is touched for the first time, or a scan.
    fn room_for_access(&mut self) -> bool {
        let has_room = self.bounded(self.quota.admit_access());
        if has_room {
            self.charge(Usage { touched: 1, ..Usage::default() });
        }
        has_room
    }

    /// Counts bytes that the transaction makes the host hold.
    fn room_for_bytes(&mut self, bytes: usize) -> bool {
        self.charge(Usage { bytes: bytes as u64, ..Usage::default() });
        self.bounded(self.quota.admit_bytes())
    }

    // Whether it still counts.

    /// Whether the attempt can no longer have an effect, so that the guest may as well stop.
    pub fn is_doomed(&self) -> bool {
        self.doom.is_some() || self.execution.drifted || self.execution.postponed
    }
    /// Whether nothing that the guests still do can matter, not even what they add to the message
    /// of a logic abort.
    pub fn is_settled(&self) -> bool {
        self.execution.drifted
            || self.execution.postponed
            || self.doom.as_ref().is_some_and(|doom| doom.code != Code::Aborted)
    }
    /// Ends the transaction without effect, whatever the guest does from here. The first doom counts.
    pub fn doom(&mut self, abort: Abort) -> Abort {
        if self.execution.drifted {
            return abort; // Nothing of this attempt counts.
        }
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Doomed);
        }
        self.doom.get_or_insert(abort).clone()
    }
    /// Replaces the doom, if any: a caller may add to the message of a failed callee, and give it another code.
    fn reword(&mut self, abort: &Abort) {
        if let Some(doom) = &mut self.doom
            && doom.code == Code::Aborted
            && abort.code == Code::Aborted
        {
            let app_code = abort.app_code.clone().or_else(|| doom.app_code.take());
            *doom = Abort { app_code, ..abort.clone() };
        }
    }

    /// In the fallback: whether the first execution's locks and calls cover what is done now; if not, it is drift.
    fn admits(&mut self, covered: impl FnOnce(&mut Reinvocation) -> bool) -> bool {
        if let Some(reinvocation) = &mut self.reinvocation
            && !self.execution.drifted
            && !covered(reinvocation)
        {
            self.drift();
        }
        !self.execution.drifted
    }

    /// The attempt has left its cached RW set or call graph.
    fn drift(&mut self) {
        self.execution.drifted = true;
        if let Some(site) = &mut self.site {
            site.report.add(Finding::Drifted);
        }
    }

    // What it may do besides.

    /// The next number of the invocation's generator (splitmix64, seeded from the transaction).
    pub fn random(&mut self) -> u64 {
        self.frame_mut().random()
    }

    /// Keeps a log line of the guest.
    pub fn log(&mut self, level: LogLevel, message: String) {
        if self.quota.log(message.len()) {
            let frame = self.frame();
            let line = LogLine {
                level,
                request: self.transaction.request.id,
                operator: frame.entity.operator(),
                function: frame.function,
                key: frame.entity.key().clone(),
                message,
            };
            self.execution.logs.push(line);
        }
    }

    /// What the running function has logged last of all, if that was an error.
    pub fn last_words(&self) -> Option<&str> {
        let frame = self.frame();
        let line = self.execution.logs.last()?;
        let is_its_own = line.operator == frame.entity.operator()
            && line.function == frame.function
            && line.key == *frame.entity.key();
        (is_its_own && line.level == LogLevel::Error).then_some(&*line.message)
    }
}
