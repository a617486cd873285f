//! Looks at the state: what is shown must be the state after the epoch that is named with it.
//!
//! A scan that several workers answer shows each one's part after an epoch of its own, which is no earlier than the
//! named one. A worker may be done with an epoch before the coordinator is, so a look may have to wait for the oracle.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use styx_driver::wire::{AdminQuery, Response};
use styx_protocol::attempt::Entry;
use styx_protocol::entity::Value;
use styx_protocol::ids::Epoch;

use super::oracle::Entities;
use super::{Checked, ensure};
use crate::toy::keys;

/// A look that was shown.
#[derive(Debug)]
pub struct Look {
    /// What was asked.
    pub query: AdminQuery,
    pub shown: Response,
    /// Epochs of which it may be.
    pub epochs: RangeInclusive<Epoch>,
}

/// Values of an entity, each with the epoch from which on it had it.
type Versions = Vec<(Epoch, Option<u64>)>;

/// Every value that an entity had, from which epoch on.
#[derive(Debug, Default)]
pub struct Looks {
    versions: BTreeMap<(u32, &'static str), Versions>,
    last: Epoch,
    waiting: Vec<Look>,
}

impl Looks {
    /// The log begins anew: only what was shown counts still.
    pub fn reset(&mut self) -> Looks {
        Looks { waiting: std::mem::take(&mut self.waiting), ..Looks::default() }
    }

    /// Checks a look as soon as all of its epochs have ended.
    pub fn shown(&mut self, look: Look) -> Checked {
        if *look.epochs.end() > self.last {
            self.waiting.push(look);
            return Ok(());
        }
        self.check(&look)
    }

    /// An epoch has ended, in which nothing else has changed than this, if that.
    pub fn ended(&mut self, epoch: Epoch, mut changed: Vec<(u32, &'static str)>, state: &Entities) -> Checked {
        changed.sort_unstable();
        changed.dedup();
        for (operator, key) in changed {
            let value = value_in(state, operator, key);
            let versions = self.versions.entry((operator, key)).or_default();
            if versions.last().and_then(|(_, value)| *value) != value {
                versions.push((epoch, value));
            }
        }
        self.last = epoch;
        let due = |look: &mut Look| *look.epochs.end() <= epoch;
        let due: Vec<Look> = self.waiting.extract_if(.., due).collect();
        due.iter().try_for_each(|look| self.check(look))
    }

    fn check(&self, look: &Look) -> Checked {
        match (&look.query, &look.shown) {
            (AdminQuery::Get { operator, key }, Response::Value { value, .. }) => {
                self.compare(look, *operator, keys::intern(key), value.as_ref().map(|value| &value.0))
            }
            (AdminQuery::Scan { operator, .. }, Response::Entries { entries, more, .. }) => {
                let end = entries.last().filter(|_| *more).map(|Entry(key, _)| key);
                let mut shown: BTreeMap<_, _> = entries.iter().map(|Entry(key, value)| (&**key, value)).collect();
                for (_, key) in self.versions.keys().filter(|(of, _)| of == operator) {
                    if end.is_none_or(|end| *key <= &**end) {
                        self.compare(look, *operator, key, shown.remove(key))?;
                    }
                }
                ensure(shown.is_empty(), "looks", || format!("{look:?} shows what never was: {shown:?}"))
            }
            _ => Ok(()),
        }
    }

    fn compare(&self, look: &Look, operator: u32, key: &'static str, shown: Option<&Value>) -> Checked {
        let versions = self.versions.get(&(operator, key)).map_or(&[][..], |versions| &versions[..]);
        let first = versions.partition_point(|(since, _)| since <= look.epochs.start());
        let before = first.checked_sub(1).map_or((Epoch(0), None), |at| versions[at]);
        let later = versions[first..].iter().take_while(|(since, _)| since <= look.epochs.end());
        let is_shown = |value: Option<u64>| {
            value.map(u64::to_le_bytes).as_ref().map(|bytes| &bytes[..]) == shown.map(|shown| &shown[..])
        };
        ensure(std::iter::once(&before).chain(later).any(|(_, value)| is_shown(*value)), "looks", || {
            format!(
                "a look at operator {operator} {key} after epoch {:?} shows {shown:x?}; its values: {versions:x?}",
                look.epochs
            )
        })
    }
}

fn value_in(entities: &Entities, operator: u32, key: &str) -> Option<u64> {
    entities.get(&operator).and_then(|keys| keys.get(key)).copied()
}
