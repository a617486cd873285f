//! State as the running function sees it: its own writes, those before it in the fallback, and what is
//! committed.

use styx_planted::{Bug, planted};

use super::base::Base;
use super::site::{Operation, RemoteRequests, RemoteResponse};
use super::{Access, Attempt, Finding, Stamp, quota};
use crate::abort::{Abort, Code};
use crate::state::entity::{Entity, Key, Payload, Value};
use crate::state::range::RangeRead;

/// What a function wants from the state.
#[derive(Debug)]
pub enum Locality<T> {
    /// It is here.
    Local(T),
    /// Other workers have it: ask them, and continue with their answers.
    Remote(RemoteRequests),
}

/// What has come of reading an entity.
enum Observed {
    /// Nothing is read: the transaction is doomed, or drifts.
    Nothing,
    /// What it has written there itself, as the access in this place has it.
    Written(usize),
    /// What was there before its own writes.
    Base,
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

/// The value of the invoked entity, where that can be told without having been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnValue<'a> {
    /// There is none.
    Absent,
    /// This one.
    Value(&'a Value),
    /// It has to be asked for: what is read of a state that goes on while the transaction runs is watched from then on.
    Unknown,
}

impl Attempt {
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
            RemoteResponse::Noted => {
                // Its owner took no part in the first execution, so that it holds no lock: one entity more.
                if self.room_for_access() {
                    self.drift();
                }
                None
            }
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
        self.change::<Value>(entity, None)
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
    /// The same without reading it: nothing is reserved before [`Attempt::read_own`] says that it was used, which it must
    /// before another function runs and before the invocation ends.
    pub fn own_value(&self) -> OwnValue<'_> {
        let entity = &self.frame().entity;
        if self.is_doomed() {
            return OwnValue::Unknown;
        }
        let accesses = &self.execution.footprint.accesses;
        let written = accesses.find(entity).and_then(|place| accesses.at(place).write());
        let value = match (written, &self.reinvocation, &self.base) {
            (Some(written), _, _) => written,
            (None, Some(reinvocation), _) if let Some(written) = reinvocation.overlay.get(entity) => written.as_ref(),
            (None, _, Base::State(state)) if state.lacks(entity) => return OwnValue::Unknown,
            (None, _, Base::State(state)) => state.get(entity),
            (None, _, Base::Current(_)) => return OwnValue::Unknown,
        };
        value.map_or(OwnValue::Absent, OwnValue::Value)
    }
    /// The value of an entity before this transaction's own writes, for whoever watches: nothing is read by that. `None`
    /// where it is not known here.
    pub fn before(&self, entity: &Entity) -> Option<Option<Value>> {
        let decided = self.reinvocation.as_ref().and_then(|reinvocation| reinvocation.overlay.get(entity));
        match (decided, &self.base) {
            (Some(written), _) => Some(written.clone()),
            (None, Base::State(state)) if !state.lacks(entity) => Some(state.get(entity).cloned()),
            (None, _) => None,
        }
    }
    /// Reads the invoked entity: its value, known from [`Attempt::own_value`], was used.
    pub fn read_own(&mut self) {
        let (entity, stamp) = (self.frame().entity.clone(), self.stamp());
        self.observe_entity(&entity, stamp.as_ref());
    }
    /// Writes the invoked entity.
    pub fn put_own(&mut self, value: &[u8]) {
        let entity = self.frame().entity.clone();
        self.change(entity, Some(value)).here();
    }
    /// As [`Attempt::put_own`], without a copy.
    pub fn put_own_shared(&mut self, value: Value) {
        let entity = self.frame().entity.clone();
        self.change(entity, Some(value)).here();
    }
    /// Removes the invoked entity.
    pub fn delete_own(&mut self) {
        let entity = self.frame().entity.clone();
        self.change::<Value>(entity, None).here();
    }

    fn entity(&self, key: &str) -> Entity {
        let own = &self.frame().entity;
        if &**own.key() == key {
            return own.clone();
        }
        let composite = self.operator().composite;
        Entity::new(&self.base.layout(), own.operator(), composite, Key::from(key))
    }

    pub(super) fn read(&mut self, entity: &Entity, stamp: Option<&Stamp>) -> Option<Value> {
        match self.observe_entity(entity, stamp) {
            Observed::Nothing => None,
            Observed::Written(place) => self.execution.footprint.accesses.at(place).write()?.cloned(),
            Observed::Base => self.base(entity),
        }
    }

    /// Reserves what is read of an entity, and says where its value is.
    fn observe_entity(&mut self, entity: &Entity, stamp: Option<&Stamp>) -> Observed {
        // What is read after a failure would depend on how far other branches had come.
        if self.is_doomed() {
            return Observed::Nothing;
        }
        let found = self.execution.footprint.accesses.find(entity);
        if let Some(place) = found {
            self.stamp_access(place, entity, stamp, false);
            let access = self.execution.footprint.accesses.at(place);
            if access.is_write() && !planted(Bug::OwnWrites) {
                return Observed::Written(place);
            }
            if access.is_read() {
                return Observed::Base;
            }
        } else if !self.room_for_access() {
            return Observed::Nothing;
        }
        if !self.admits(|first| first.cached.footprint.admits_read(entity)) {
            return Observed::Nothing;
        }
        let place = found.unwrap_or_else(|| self.execution.footprint.accesses.add(entity.clone(), Access::default()));
        self.execution.footprint.accesses.at_mut(place).set_read();
        self.stamp_access(place, entity, stamp, false);
        Observed::Base
    }

    /// Writes an entity of the running function's operator, wherever it is.
    fn change<V: AsRef<[u8]> + Into<Value>>(&mut self, entity: Entity, value: Option<V>) -> Locality<()> {
        if self.frame().read_only && !planted(Bug::ReadOnlyWrites) {
            self.doom(Abort::new(
                Code::ReadOnly,
                format!("{} is declared read-only and wrote \"{}\"", self.running(), entity.key()),
            ));
        }
        let bytes = value.as_ref().map_or(0, |value| value.as_ref().len());
        self.bounded(quota::admit_value(bytes, self.operator().limits.payload));
        self.bounded(quota::admit_key(entity.key().len()));
        if self.is_doomed() || !self.room_for_bytes(bytes) {
            return Locality::Local(());
        }
        let value = value.map(V::into);
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

    pub(super) fn write(&mut self, entity: Entity, value: Option<Value>, stamp: Option<&Stamp>) {
        if self.is_doomed() || !self.admits(|first| first.cached.footprint.admits_write(&entity)) {
            return;
        }
        match &mut self.base {
            Base::State(state) if state.lacks(&entity) => return self.lack(&entity),
            Base::State(_) => {}
            // Whoever owns it may have to ask a former owner for it, before it can be written.
            Base::Current(current) => {
                if let Err(abort) = current.get(&entity) {
                    self.doom(abort);
                    return;
                }
            }
        }
        let place = match self.execution.footprint.accesses.find(&entity) {
            Some(place) => place,
            None if !self.room_for_access() => return,
            None => self.execution.footprint.accesses.add(entity.clone(), Access::default()),
        };
        self.execution.footprint.accesses.at_mut(place).set_write(value);
        if let Some(written) = &mut self.written {
            written.insert(&entity);
        }
        self.stamp_access(place, &entity, stamp, true);
    }

    fn stamp_access(&mut self, place: usize, entity: &Entity, stamp: Option<&Stamp>, write: bool) {
        if let (Some(site), Some(stamp)) = (&mut self.site, stamp) {
            site.touched(place, entity, stamp, write);
            if write {
                site.report.add(Finding::Wrote);
            }
        }
    }

    /// The value before this transaction's own writes.
    fn base(&mut self, entity: &Entity) -> Option<Value> {
        if let Some(reinvocation) = &self.reinvocation
            && let Some(written) = reinvocation.overlay.get(entity)
        {
            return written.clone();
        }
        let current = match &mut self.base {
            Base::State(state) if state.lacks(entity) => {
                self.lack(entity);
                return None;
            }
            Base::State(state) => return state.get(entity).cloned(),
            Base::Current(current) => current.get(entity),
        };
        current.unwrap_or_else(|abort| {
            self.doom(abort);
            None
        })
    }

    /// Reserves what a scan has observed.
    pub(super) fn observe(&mut self, read: RangeRead) {
        if self.execution.footprint.ranges.last() != Some(&read) {
            self.execution.footprint.ranges.push(read);
        }
    }
}
