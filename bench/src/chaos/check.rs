//! Checks the state that there is against what was asked and told.

use std::collections::{BTreeMap, HashMap};

use super::ledger::{Append, Ledger, Seen, Way};
use super::operation::{self, Places};

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// Told once so, and now otherwise.
    pub(super) changed: u64,
    pub(super) anomalies: u64,
    /// The first of them, in words.
    pub(super) lines: Vec<String>,
}

const LINES_MAX: usize = 20;

impl Findings {
    pub(super) fn lost(&mut self, line: String) {
        self.lost += 1;
        self.other(format!("lost: {line}"));
    }

    pub(super) fn doubled(&mut self, line: String) {
        self.doubled += 1;
        self.other(format!("doubled: {line}"));
    }

    pub(super) fn changed(&mut self, line: String) {
        self.changed += 1;
        self.other(format!("changed: {line}"));
    }

    pub(super) fn other(&mut self, line: String) {
        self.anomalies += 1;
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        }
    }
}

/// All entities, as clients understand them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) lists: BTreeMap<String, Vec<u64>>,
    pub(super) places: Places,
}

pub(super) fn check(ledger: &Ledger, state: &State, findings: &mut Findings) {
    ledger.odd.iter().for_each(|odd| findings.other(odd.clone()));
    lists(ledger, state, findings);
    operation::check(&ledger.operations, &state.places, findings);
}

fn lists(ledger: &Ledger, state: &State, findings: &mut Findings) {
    // Where each number stands, and what the list is up to there.
    let mut standing: HashMap<(&str, u64), Seen> = HashMap::new();
    for (name, list) in &state.lists {
        let mut seen = Seen::NOTHING;
        for element in list {
            seen = seen.and(*element);
            if standing.insert((name, *element), seen).is_some() {
                findings.doubled(format!("{element} stands twice in {name}"));
            }
        }
    }
    let mut asked = 0;
    for append in ledger.appends.values() {
        let names = append.names();
        let there = [0, 1].map(|at| standing.get(&(names[at].as_str(), append.number)).copied());
        asked += there.iter().flatten().count();
        let number = append.number;
        match (append.told, there) {
            (Some(told), [Some(first), Some(second)]) if told == [first, second] => {}
            (Some(told), [Some(_), Some(_)]) => findings.changed(format!(
                "append {number} was told {told:?} of {names:?}, which begin otherwise now: {there:?}"
            )),
            (Some(_), _) => findings.lost(format!("append {number} was acknowledged, and is not in both of {names:?}")),
            (None, [None, None] | [Some(_), Some(_)]) => {}
            (None, _) => findings.other(format!("append {number} is in only one of {names:?}: half of it happened")),
        }
        if append.told.is_none() && append.way == Way::Record {
            findings.lost(format!("append {number} came as a Kafka record, and has no reply"));
        }
    }
    let held = standing.len();
    if held > asked {
        findings.other(format!("the lists hold {} numbers that nobody appended to them", held - asked));
    }
}

/// How many of the doubtful appends had happened.
pub(super) fn happened(appends: &BTreeMap<u64, Append>, state: &State) -> usize {
    let there = |append: &&Append| {
        let [name, _] = append.names();
        append.told.is_none() && state.lists.get(&name).is_some_and(|list| list.contains(&append.number))
    };
    appends.values().filter(there).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of appends to the same lists, acknowledged, and the state that they come to.
    fn right() -> (Ledger, State) {
        let mut ledger = Ledger::new(1);
        let mut lists: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for _ in 0..50 {
            let mut append = ledger.append(Way::Keyed, 0);
            let seen = append.names().map(|name| {
                let list = lists.entry(name).or_default();
                list.push(append.number);
                list.iter().fold(Seen::NOTHING, |seen, element| seen.and(*element))
            });
            append.told = Some(seen);
            ledger.appends.insert(append.number, append);
        }
        (ledger, State { lists, places: Places::untouched() })
    }

    /// Findings when something was changed: lost, doubled, changed, and all.
    fn found(change: impl FnOnce(&mut Ledger, &mut State)) -> [u64; 4] {
        let (mut ledger, mut state) = right();
        change(&mut ledger, &mut state);
        let mut findings = Findings::default();
        check(&ledger, &state, &mut findings);
        [findings.lost, findings.doubled, findings.changed, findings.anomalies]
    }

    fn last(state: &mut State) -> &mut Vec<u64> {
        state.lists.values_mut().find(|list| list.len() > 2).unwrap()
    }

    #[test]
    fn what_is_right_is_right_and_every_wrong_is_found() {
        assert_eq!(found(|_, _| {}), [0; 4]);
        let lost = found(|_, state| {
            last(state).pop();
        });
        assert_eq!(lost, [1, 0, 0, 1]);
        let doubled = found(|_, state| {
            let list = last(state);
            list.push(list[0]);
        });
        assert_eq!((doubled[1], doubled[0]), (1, 0));
        let changed = found(|_, state| last(state).swap(0, 1));
        assert!(changed[2] > 0 && changed[0] == 0, "{changed:?}");
        assert_eq!(found(|_, state| last(state).push(1 << 40)), [0, 0, 0, 1]);
        let half = found(|ledger, state| {
            let last = *last(state).last().unwrap();
            ledger.appends.get_mut(&last).unwrap().told = None;
            let name = ledger.appends[&last].names()[0].clone();
            state.lists.get_mut(&name).unwrap().retain(|element| *element != last);
        });
        assert_eq!(half[3] - half[2], 1, "{half:?}");
    }
}
