//! Checks the state that there is against what was asked and told.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::booking::{self, Bookings};
use super::ledger::{ACCOUNTS, Append, BALANCE, Ledger, Moved, Seen, Way, account};

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
    accounts: BTreeMap<String, i64>,
    pub(super) lists: BTreeMap<String, Vec<u64>>,
    pub(super) bookings: Bookings,
}

impl State {
    /// From the entities of accounts and lists, and the bookings.
    pub(super) fn read(
        accounts: &BTreeMap<String, Value>,
        lists: BTreeMap<String, Value>,
        bookings: Bookings,
    ) -> anyhow::Result<State> {
        let balance = |(name, value): (&String, &Value)| Ok((name.clone(), balance(value).context(name.clone())?));
        let accounts = accounts.iter().map(balance).collect::<anyhow::Result<_>>()?;
        let list = |(name, value): (String, Value)| {
            let list = serde_json::from_value(value).with_context(|| format!("{name} is no list"))?;
            Ok((name, list))
        };
        Ok(State { accounts, lists: lists.into_iter().map(list).collect::<anyhow::Result<_>>()?, bookings })
    }
}

/// Eight bytes; those that happen to be JSON are shown as such.
fn balance(value: &Value) -> anyhow::Result<i64> {
    let bytes = match value {
        Value::String(text) => STANDARD.decode(text)?,
        other => bail!("{other} is no balance"),
    };
    let bytes = bytes.try_into().ok().context("a balance has eight bytes")?;
    Ok(i64::from_le_bytes(bytes))
}

pub(super) fn check(ledger: &Ledger, state: &State, findings: &mut Findings) {
    for odd in &ledger.odd {
        findings.other(odd.clone());
    }
    lists(ledger, state, findings);
    money(ledger, state, findings);
    booking::check(&ledger.bookings, &state.bookings, findings);
}

/// The sum is what it was, and each account holds what was acknowledged, give or take what is doubtful.
fn money(ledger: &Ledger, state: &State, findings: &mut Findings) {
    let (sum, all) = (state.accounts.values().sum::<i64>(), BALANCE * i64::from(ACCOUNTS));
    if sum != all {
        findings.other(format!("the sum of all balances is {sum}, not {all}"));
    }
    let mut least = vec![BALANCE; ACCOUNTS as usize];
    let mut most = least.clone();
    for transfer in &ledger.transfers {
        let (from, to) = (transfer.from as usize, transfer.to as usize);
        match transfer.told {
            Some(Moved::Left(_)) => {
                for bound in [&mut least, &mut most] {
                    bound[from] -= 1;
                    bound[to] += 1;
                }
            }
            Some(Moved::Refused) => {}
            None => {
                least[from] -= 1;
                most[to] += 1;
            }
        }
    }
    for number in 0..ACCOUNTS {
        let (name, at) = (account(number), number as usize);
        match state.accounts.get(&name) {
            None => findings.lost(format!("{name} is gone")),
            Some(held) if (least[at]..=most[at]).contains(held) => {}
            Some(held) => findings.other(format!(
                "{name} holds {held}; by what was acknowledged it is {} to {}: a transfer was lost or doubled",
                least[at], most[at]
            )),
        }
    }
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

    /// A ledger of two appends to the same lists and a transfer, acknowledged, and the state that they come to.
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
        let mut accounts: BTreeMap<String, i64> = (0..ACCOUNTS).map(|number| (account(number), BALANCE)).collect();
        let mut transfer = ledger.transfer(Way::Keyed);
        *accounts.get_mut(&account(transfer.from)).unwrap() -= 1;
        *accounts.get_mut(&account(transfer.to)).unwrap() += 1;
        transfer.told = Some(Moved::Left(BALANCE - 1));
        ledger.transfers.push(transfer);
        (ledger, State { accounts, lists, bookings: booking::untouched() })
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

    #[test]
    fn money_that_comes_or_goes_is_found() {
        assert_eq!(found(|_, state| *state.accounts.get_mut("account-0").unwrap() += 1)[3], 2);
        let moved_again = found(|ledger, state| {
            let transfer = &ledger.transfers[0];
            *state.accounts.get_mut(&account(transfer.from)).unwrap() -= 1;
            *state.accounts.get_mut(&account(transfer.to)).unwrap() += 1;
        });
        assert_eq!(moved_again[3], 2, "the sum is right, and both accounts are not");
        // Nobody knows of it: both ways are right.
        assert_eq!(found(|ledger, _| ledger.transfers[0].told = None), [0; 4]);
        let gone = found(|_, state| {
            state.accounts.remove("account-3");
        });
        assert_eq!(gone[0], 1);
    }
}
