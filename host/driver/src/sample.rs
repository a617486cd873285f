//! Sample of an operator's entities: some of each partition, from its first key to its last, so that old ones and new ones are
//! among them, whatever their keys are made of. It costs as much as it returns.

use std::collections::BTreeMap;
use std::ops::Bound;

use styx_protocol::attempt::Entry;
use styx_protocol::entity::{Key, Value};
use styx_protocol::ids::{OperatorId, PartitionId};
use styx_protocol::range::KeyRange;
use styx_protocol::state::State;

/// Places in a partition at which entities are taken.
const PLACES: usize = 16;

/// At most `limit` of an operator's entities in some partitions and, the last value excepted, so many bytes; and how many there
/// are.
pub fn sample(
    state: &State,
    operator: OperatorId,
    owns: impl Fn(PartitionId) -> bool,
    limit: usize,
    bytes: u64,
) -> (Vec<Entry>, u64) {
    let partitions = (0..).map(PartitionId).zip(state.partitions()).filter(|(id, _)| owns(*id));
    let held = partitions.filter_map(|(id, partition)| Some((id, partition.sizes().get(&operator)?.entities)));
    let held: Vec<(PartitionId, u64)> = held.collect();
    let all: u64 = held.iter().map(|(_, entities)| entities).sum();
    let (mut entries, mut left, mut before) = (Vec::new(), bytes, 0);
    for (partition, entities) in held {
        // Its part of the limit, so that all parts together are the limit.
        let part = |upto: u64| (u128::from(upto) * limit as u128 / u128::from(all.max(limit as u64))) as usize;
        let wanted = if all <= limit as u64 { entities as usize } else { part(before + entities) - part(before) };
        before += entities;
        let within = Within { state, operator, partition };
        for (key, value) in within.spread(wanted, entities) {
            if left == 0 {
                return (entries, all);
            }
            left = left.saturating_sub(value.len() as u64);
            entries.push(Entry(key, value));
        }
    }
    (entries, all)
}

/// Of the samples of several workers, each with the number of entities that it is of, one.
pub fn merge(samples: Vec<(Vec<Entry>, u64)>, limit: usize) -> (Vec<Entry>, u64) {
    let all: u64 = samples.iter().map(|(_, entities)| entities).sum();
    let mut merged = Vec::new();
    for (entries, entities) in samples {
        let part = (u128::from(entities) * limit as u128).div_ceil(u128::from(all.max(1))) as usize;
        let (found, part) = (entries.len(), part.min(entries.len()));
        // Evenly: what a worker tells is in the order of partitions.
        let kept = entries.into_iter().enumerate().filter(|(at, _)| (at + 1) * part / found > at * part / found);
        merged.extend(kept.map(|(_, entry)| entry));
    }
    merged.truncate(limit);
    (merged, all)
}

/// An operator's entities in a partition.
struct Within<'a> {
    state: &'a State,
    operator: OperatorId,
    partition: PartitionId,
}

impl Within<'_> {
    /// So many of them, or a few less, in runs at places between the first one and the last.
    fn spread(&self, wanted: usize, entities: u64) -> BTreeMap<Key, Value> {
        if wanted as u64 >= entities {
            return self.scan(Bound::Unbounded, wanted, false).collect();
        }
        let mut found = BTreeMap::new();
        let end = |reverse| self.scan(Bound::Unbounded, 1, reverse).next().map(|(key, _)| key);
        let (Some(first), Some(last)) = (end(false), end(true)) else { return found };
        let places = wanted.min(PLACES);
        // Where there is one place only, it is another one in each partition.
        let mut chosen: Vec<usize> =
            (0..places).map(|at| (at * PLACES / places + usize::from(self.partition.0)) % PLACES).collect();
        chosen.sort_unstable();
        let mut seen: Option<Key> = None;
        for (at, place) in chosen.into_iter().enumerate() {
            let run = wanted * (at + 1) / places - wanted * at / places;
            if place == PLACES - 1 {
                found.extend(self.scan(Bound::Unbounded, run, true));
                continue;
            }
            let key: Key = between(&first, &last, place as u64, PLACES as u64 - 1).as_str().into();
            // A run may have gone further than to the next place.
            let lower = match seen.take() {
                Some(seen) if seen >= key => Bound::Excluded(seen),
                _ if place == 0 => Bound::Unbounded,
                _ => Bound::Included(key),
            };
            found.extend(self.scan(lower, run, false).inspect(|(key, _)| seen = Some(key.clone())));
        }
        found
    }

    fn scan(&self, lower: Bound<Key>, limit: usize, reverse: bool) -> impl Iterator<Item = (Key, Value)> + use<> {
        let range = KeyRange::new("", lower, Bound::Unbounded);
        self.state.scan(self.operator, &range, Some(self.partition), limit, reverse).into_iter()
    }
}

/// Text that is about `part` of `parts` of the way from one key to another one, as if characters were digits.
fn between(first: &str, last: &str, part: u64, parts: u64) -> String {
    /// Two characters after what both have in common are enough to tell some places apart.
    const DIGITS: usize = 2;
    /// Where keys are text, what follows lies here.
    const LETTERS: (u64, u64) = (0x20, 0x7f);
    let common = first.chars().zip(last.chars()).take_while(|(a, b)| a == b).count();
    let digit = |key: &str, at: usize| {
        let letter = key.chars().nth(common + at).map_or(0, |letter| u64::from(u32::from(letter)));
        letter.clamp(LETTERS.0, LETTERS.1) - LETTERS.0
    };
    let base = LETTERS.1 - LETTERS.0 + 1;
    let number = |key: &str| (0..DIGITS).fold(0, |number, at| number * base + digit(key, at));
    let (low, high) = (number(first), number(last));
    let place = low + high.saturating_sub(low) * part / parts;
    let letter = |digit: u64| char::from((digit + LETTERS.0) as u8);
    first.chars().take(common).chain([letter(place / base), letter(place % base)]).collect()
}

#[cfg(test)]
mod tests {
    use styx_protocol::entity::{Entity, Layout};

    use super::*;

    const OPERATOR: OperatorId = OperatorId(1);

    fn state(partitions: u32, keys: impl Iterator<Item = String>) -> State {
        let layout = Layout::new(7, partitions);
        let mut state = State::new(layout);
        for key in keys {
            for operator in [OPERATOR, OperatorId(2)] {
                let entity = Entity::new(&layout, operator, false, key.as_str().into());
                state.apply((entity, Some(b"1234"[..].into())));
            }
        }
        state
    }

    fn keys(entries: &[Entry]) -> Vec<&str> {
        let mut keys: Vec<&str> = entries.iter().map(|Entry(key, _)| &**key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn of_few_all_are_taken_and_of_many_some_from_everywhere() {
        let few = state(8, (0..20).map(|number| format!("{number:02}")));
        let (entries, all) = sample(&few, OPERATOR, |_| true, 20, 1000);
        assert_eq!((keys(&entries).len(), all), (20, 20));
        assert_eq!(sample(&few, OperatorId(9), |_| true, 20, 1000), (vec![], 0));
        let own = |partition: PartitionId| partition.0.is_multiple_of(2);
        let (mine, some) = sample(&few, OPERATOR, own, 20, 1000);
        let (others, rest) = sample(&few, OPERATOR, |partition| !own(partition), 20, 1000);
        assert_eq!((mine.len() as u64, others.len() as u64, some + rest), (some, rest, 20));

        for (partitions, limit) in [(1, 100), (4, 100), (1024, 1000), (1024, 100)] {
            let many = state(partitions, (0..5000).map(|number| format!("item-{number:06}")));
            let (entries, all) = sample(&many, OPERATOR, |_| true, limit, 1 << 20);
            assert_eq!(all, 5000);
            let keys = keys(&entries);
            assert!(keys.len() <= limit && keys.len() > limit / 2, "{} of {limit} in {partitions}", keys.len());
            assert!(keys.windows(2).all(|two| two[0] != two[1]), "each once");
            let late = keys.iter().filter(|key| **key >= "item-002500").count();
            assert!(late * 5 > keys.len(), "{late} of {} are of the later half, in {partitions}", keys.len());
        }
    }

    #[test]
    fn bytes_are_bounded() {
        let many = state(8, (0..100).map(|number| number.to_string()));
        assert_eq!(sample(&many, OPERATOR, |_| true, 1000, 41).0.len(), 11);
        assert_eq!(sample(&many, OPERATOR, |_| true, 1000, 0), (vec![], 100));
    }

    #[test]
    fn samples_of_workers_are_one_in_proportion_to_what_they_hold() {
        let of = |name: &str, found: usize| -> Vec<Entry> {
            (0..found).map(|at| Entry(format!("{name}{at:03}").as_str().into(), b"1"[..].into())).collect()
        };
        let (merged, all) = merge(vec![(of("a", 100), 900), (of("b", 100), 100), (of("c", 0), 0)], 100);
        assert_eq!((merged.len(), all), (100, 1000));
        assert_eq!(merged.iter().filter(|Entry(key, _)| key.starts_with('b')).count(), 10);
        assert!(merged.iter().any(|Entry(key, _)| &**key == "b099"), "of all that it has told");
        assert_eq!(merge(vec![(of("a", 3), 3), (of("b", 2), 2)], 100).0.len(), 5);
        assert_eq!(merge(vec![], 100), (vec![], 0));
    }

    #[test]
    fn what_lies_between_two_keys_does() {
        for (first, last) in [("item-000", "item-999"), ("a", "z"), ("", "zz"), ("a", "aaaa"), ("ü", "ÿ"), ("x", "x")]
        {
            for part in 0..=10 {
                let key = between(first, last, part, 10);
                assert!(key.chars().count() <= first.chars().count() + 2, "{key}");
            }
            assert!(between(first, last, 1, 10) <= between(first, last, 9, 10), "{first} {last}");
        }
        assert!(between("item-000", "item-999", 5, 10).starts_with("item-4"));
        assert_eq!(between("a~", "b!", 1, 2), "a\u{7f}", "each character is a digit of as many as there are");
    }
}
