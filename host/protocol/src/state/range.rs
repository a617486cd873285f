//! Ranges of keys: what a scan asks for and what it has observed.

use std::ops::Bound;

use crate::ids::OperatorId;
use crate::state::entity::{Entity, Key};

/// An interval of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct KeyRange {
    /// Lower end.
    #[rkyv(with = crate::archive::Plain)]
    pub lower: Bound<Key>,
    /// Upper end.
    #[rkyv(with = crate::archive::Plain)]
    pub upper: Bound<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// Keys that start with `prefix` and lie between the bounds.
    pub fn new(prefix: &str, lower: Bound<Key>, upper: Bound<Key>) -> Self {
        let mut range = KeyRange { lower, upper };
        if !prefix.is_empty() {
            let start: Key = prefix.into();
            let below = match &range.lower {
                Bound::Unbounded => true,
                Bound::Included(key) | Bound::Excluded(key) => **key < *start,
            };
            if below {
                range.lower = Bound::Included(start);
            }
            if let Some(end) = successor(prefix) {
                let above = match &range.upper {
                    Bound::Unbounded => true,
                    Bound::Included(key) => **key >= *end,
                    Bound::Excluded(key) => **key > *end,
                };
                if above {
                    range.upper = Bound::Excluded(end);
                }
            }
        }
        range
    }

    /// Whether `key` lies inside.
    pub fn contains(&self, key: &str) -> bool {
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= &**lower,
            Bound::Excluded(lower) => key > &**lower,
        };
        above
            && match &self.upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => key <= &**upper,
                Bound::Excluded(upper) => key < &**upper,
            }
    }

    /// Whether no key can lie inside.
    pub fn is_empty(&self) -> bool {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
            | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
            _ => false,
        }
    }

    /// Whether every key of `other` lies inside this range.
    pub fn covers(&self, other: &KeyRange) -> bool {
        if other.is_empty() {
            return true;
        }
        let lower = match (&self.lower, &other.lower) {
            (Bound::Unbounded, _) => true,
            (_, Bound::Unbounded) => false,
            (Bound::Excluded(mine), Bound::Included(theirs)) => mine < theirs,
            (Bound::Included(mine) | Bound::Excluded(mine), Bound::Included(theirs) | Bound::Excluded(theirs)) => {
                mine <= theirs
            }
        };
        lower
            && match (&self.upper, &other.upper) {
                (Bound::Unbounded, _) => true,
                (_, Bound::Unbounded) => false,
                (Bound::Excluded(mine), Bound::Included(theirs)) => mine > theirs,
                (Bound::Included(mine) | Bound::Excluded(mine), Bound::Included(theirs) | Bound::Excluded(theirs)) => {
                    mine >= theirs
                }
            }
    }
}

/// The least string above every string that starts with `prefix`; none above a run of the last character.
fn successor(prefix: &str) -> Option<Key> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32) {
            chars.push(next);
            return Some(chars.into_iter().collect::<String>().into());
        }
    }
    None
}

/// A range that a transaction has read: part of its read set, so that no phantom slips in.
///
/// Holds what was *observed*: a scan that stopped at its limit has not seen what lies beyond.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
pub struct RangeRead {
    /// The operator scanned.
    pub operator: OperatorId,
    /// The interval observed.
    pub range: KeyRange,
}

impl RangeRead {
    /// Whether an entity is, or would be, among what was read.
    pub fn contains(&self, entity: &Entity) -> bool {
        entity.operator() == self.operator && self.range.contains(entity.key())
    }

    /// Whether whatever `other` has read was read here, too.
    pub fn covers(&self, other: &RangeRead) -> bool {
        self.operator == other.operator && self.range.covers(&other.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_bounds_both_ends() {
        for (prefix, key, inside) in [
            ("ab", "ab", true),
            ("ab", "abz", true),
            ("ab", "ac", false),
            ("ab", "aa", false),
            ("a\u{d7ff}", "a\u{d7ff}x", true),
            ("a\u{d7ff}", "a\u{e000}", false),
            ("\u{10ffff}", "\u{10ffff}a", true),
        ] {
            assert_eq!(
                KeyRange::new(prefix, Bound::Unbounded, Bound::Unbounded).contains(key),
                inside,
                "{prefix} {key}"
            );
        }
    }

    #[test]
    fn the_narrower_bound_wins() {
        let range = KeyRange::new("a", Bound::Excluded("ab".into()), Bound::Included("zz".into()));
        assert_eq!(range, KeyRange { lower: Bound::Excluded("ab".into()), upper: Bound::Excluded("b".into()) });
    }

    #[test]
    fn covering_is_decided_by_the_bounds() {
        let of = |lower, upper| KeyRange { lower, upper };
        let (a, c): (Key, Key) = ("a".into(), "c".into());
        let closed = of(Bound::Included(a.clone()), Bound::Included(c.clone()));
        let open = of(Bound::Excluded(a), Bound::Excluded(c));
        assert!(
            closed.covers(&open)
                && !open.covers(&closed)
                && KeyRange::all().covers(&closed)
                && !closed.covers(&KeyRange::all())
        );
    }
    #[test]
    fn what_covers_a_range_contains_all_of_it_and_every_range_covers_itself() {
        let keys = ["", "a", "ab", "b", "c"];
        let ends = || {
            let keyed = keys.into_iter().flat_map(|key| [Bound::Included(key.into()), Bound::Excluded(key.into())]);
            keyed.chain([Bound::Unbounded])
        };
        let ranges: Vec<KeyRange> =
            ends().flat_map(|lower| ends().map(move |upper| KeyRange { lower: lower.clone(), upper })).collect();
        for one in &ranges {
            assert!(one.covers(one) && KeyRange::all().covers(one), "{one:?}");
            for other in ranges.iter().filter(|other| one.covers(other)) {
                assert!(keys.into_iter().all(|key| !other.contains(key) || one.contains(key)), "{one:?} {other:?}");
            }
        }
    }
}
