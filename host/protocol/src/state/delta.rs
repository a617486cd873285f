//! What has changed in a partition since the last snapshot.
//!
//! A snapshot must not stall the epochs after it, so a delta is *cut off* in constant time and
//! handed over in pieces while new epochs commit. Each entity knows the delta in which it was
//! written last. Whoever overwrites or deletes one that is cut off and not yet handed over saves
//! the value that belongs to the snapshot first: values are shared, not copied.

use std::collections::BTreeSet;

use styx_planted::{Bug, planted};

use super::Write;
use crate::ids::OperatorId;
use crate::state::entity::{Entity, Key, Value};

/// The number of a delta. 0 is none: of entities that were restored, or are handed over.
pub(super) type Number = u32;

/// Entities of the delta that grows and of the one that was cut off, each at least once.
#[derive(Debug, Default)]
pub(super) struct Delta {
    /// The delta that grows; 0 while changes are not tracked.
    number: Number,
    written: Vec<Entity>,
    deleted: Vec<Entity>,
    /// How long the two lists may become before repetitions are taken out.
    tidy_at: usize,
    /// What was written in the delta that was cut off, and is not handed over yet.
    pending: Vec<Entity>,
    /// What of it is told without looking: deletes, then values that are overwritten by now.
    saved: Vec<Write>,
}

/// Lists shorter than this are never tidied.
const TIDY_MIN: usize = 4096;

impl Delta {
    /// Tracks changes from now on.
    pub fn start(&mut self) {
        if self.number == 0 {
            (self.number, self.tidy_at) = (1, TIDY_MIN);
        }
    }

    /// An entity is written that had `before`, from the delta `mark`; returns its new mark.
    pub fn write(&mut self, entity: &Entity, before: Option<(&Value, Number)>) -> Number {
        if self.number == 0 {
            return 0;
        }
        let mark = before.map_or(0, |(_, mark)| mark);
        if let Some((value, mark)) = before {
            self.save(entity, value, mark);
        }
        if mark != self.number {
            self.written.push(entity.clone());
            self.tidy();
        }
        self.number
    }

    /// An entity is deleted that had a value, from the delta `mark`.
    pub fn delete(&mut self, entity: &Entity, value: &Value, mark: Number) {
        if self.number == 0 || planted(Bug::DeltaWithoutDeletes) {
            return;
        }
        self.save(entity, value, mark);
        self.deleted.push(entity.clone());
        self.tidy();
    }

    fn save(&mut self, entity: &Entity, value: &Value, mark: Number) {
        if mark != 0 && mark + 1 == self.number && !planted(Bug::DeltaSeesLater) {
            self.saved.push((entity.clone(), Some(value.clone())));
        }
    }

    /// An entity that is deleted and written again and again must not fill the memory.
    fn tidy(&mut self) {
        if self.written.len() + self.deleted.len() < self.tidy_at {
            return;
        }
        for list in [&mut self.written, &mut self.deleted] {
            list.sort_unstable_by(|a, b| (a.operator(), a.key()).cmp(&(b.operator(), b.key())));
            list.dedup();
        }
        self.tidy_at = TIDY_MIN.max(2 * (self.written.len() + self.deleted.len()));
    }

    /// Cuts off what has changed; the next delta begins.
    ///
    /// # Panics
    /// When the last one has not been handed over.
    pub fn cut(&mut self) {
        assert!(self.is_handed_over(), "deltas are handed over one after the other");
        self.pending = std::mem::take(&mut self.written);
        // Deletes first: what was written again after a delete is there.
        self.saved = self.deleted.drain(..).map(|entity| (entity, None)).collect();
        self.tidy_at = TIDY_MIN;
        self.number += 1;
    }

    /// Whether nothing has changed since the last one that was cut off.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.deleted.is_empty()
    }

    /// Whether nothing of a delta that was cut off is left.
    pub fn is_handed_over(&self) -> bool {
        self.pending.is_empty() && self.saved.is_empty()
    }

    /// Hands over up to `most` changes. `unmark` gives the value of an entity that was written last in
    /// a delta, and takes the mark off.
    pub fn hand_over(
        &mut self,
        most: usize,
        mut unmark: impl FnMut(&Entity, Number) -> Option<Value>,
        changes: &mut Vec<Write>,
    ) {
        let saved = self.saved.len().min(most);
        changes.extend(self.saved.drain(..saved));
        for _ in saved..most {
            let Some(entity) = self.pending.pop() else { return };
            // Otherwise it was saved when it was overwritten or deleted, or told before.
            if let Some(value) = unmark(&entity, self.number.wrapping_sub(1)) {
                changes.push((entity, Some(value)));
            }
        }
    }

    /// Compares what has changed with the marks of the entities that are there.
    ///
    /// # Panics
    /// An entity was written in a delta that does not know of it, or while nothing was tracked.
    pub fn check<'a>(&self, entities: impl Iterator<Item = (&'a Entity, Number)>) {
        assert!(self.number != 0 || (self.is_empty() && self.is_handed_over()), "what is not tracked has no changes");
        let known = |list: &[Entity]| -> BTreeSet<(OperatorId, Key)> {
            list.iter().map(|entity| (entity.operator(), entity.key().clone())).collect()
        };
        let (written, pending) = (known(&self.written), known(&self.pending));
        for (entity, mark) in entities {
            assert!(mark <= self.number, "{entity:?} was written in a delta to come");
            assert!(mark == 0 || mark + 1 >= self.number, "{entity:?} was written in a delta that is long handed over");
            let listed = |list: &BTreeSet<_>| list.contains(&(entity.operator(), entity.key().clone()));
            assert!(mark != self.number || mark == 0 || listed(&written), "{entity:?} is missing in the delta");
            // Once all of the delta before is handed over, it is no entity's mark any more.
            assert!(mark == 0 || mark + 1 != self.number || listed(&pending), "{entity:?} was not handed over");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::ids::OperatorId;
    use crate::state::entity::{Entity, Key, Layout, Value};
    use crate::state::{State, Write};

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(u8, u8),
        Delete(u8),
        Cut,
        HandOver(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0u8..12, any::<u8>()).prop_map(|(key, value)| Step::Write(key, value)),
            3 => (0u8..12).prop_map(Step::Delete),
            1 => Just(Step::Cut),
            3 => (0usize..5).prop_map(Step::HandOver),
        ];
        prop::collection::vec(step, 0..200)
    }

    /// What a store of snapshots does: the last change of an entity counts.
    fn merge(snapshot: &mut BTreeMap<Key, Value>, changes: Vec<Write>) {
        for (entity, value) in changes {
            match value {
                Some(value) => drop(snapshot.insert(entity.key().clone(), value)),
                None => drop(snapshot.remove(entity.key())),
            }
        }
    }

    fn entities(state: &State) -> BTreeMap<Key, Value> {
        let all = state.scan(OperatorId(0), &crate::state::range::KeyRange::all(), None, usize::MAX, false);
        all.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn deltas_add_up_to_the_state_when_they_were_cut_off(steps in steps(), restored in 0u8..12) {
            let layout = Layout::new(7, 3);
            let entity = |key: u8| Entity::new(&layout, OperatorId(0), false, format!("k{key}").into());
            let mut state = State::new(layout);
            for key in 0..restored {
                state.apply((entity(key), Some(vec![255, key].into())));
            }
            let mut snapshot = entities(&state);
            state.track();
            let (mut expected, mut under_way) = (snapshot.clone(), false);
            for step in steps {
                match step {
                    Step::Write(key, value) => state.apply((entity(key), Some(vec![value].into()))),
                    Step::Delete(key) => state.apply((entity(key), None)),
                    Step::Cut if !under_way => {
                        state.cut_delta();
                        (expected, under_way) = (entities(&state), true);
                    }
                    Step::HandOver(most) if under_way => {
                        let mut changes = Vec::new();
                        under_way = !state.hand_over(most, &mut changes);
                        prop_assert!(changes.len() <= most);
                        merge(&mut snapshot, changes);
                        if !under_way {
                            prop_assert_eq!(&snapshot, &expected);
                        }
                    }
                    Step::Cut | Step::HandOver(_) => {}
                }
                state.check();
            }
        }
    }

    #[test]
    fn what_comes_and_goes_does_not_pile_up() {
        let layout = Layout::new(7, 1);
        let mut state = State::new(layout);
        state.track();
        for round in 0..100_000u32 {
            let entity = Entity::new(&layout, OperatorId(0), false, format!("k{}", round % 10).into());
            state.apply((entity.clone(), Some(round.to_le_bytes().as_slice().into())));
            state.apply((entity, None));
        }
        state.cut_delta();
        let mut changes = Vec::new();
        assert!(state.hand_over(usize::MAX / 2, &mut changes));
        assert!(changes.len() <= super::TIDY_MIN, "{} changes of 10 entities", changes.len());
    }
}
