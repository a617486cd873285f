//! Operations on two entities, which happen whole or not at all: one is moved from an account to another (`ycsb`), or a
//! room and a seat are taken for an order (Styx, Figure 2; `deathstar-travel`). Accounts, some hotels and some flights
//! run out. What each of them must hold follows from the operations that have happened.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use styx_client::Request;

use super::ask::Told;
use super::check::Findings;
use super::ledger::{Way, keyed};

/// Accounts that money is moved between.
pub(super) const ACCOUNTS: u32 = 64;
/// The balance of each at first: little enough that it is sometimes gone.
const BALANCE: i64 = 40;
/// Hotels, and as many flights.
pub(super) const OFFERS: u32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Transfer,
    Booking,
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) number: u64,
    pub(super) what: What,
    /// Numbers of two accounts, or of a hotel and a flight.
    pub(super) places: [u32; 2],
    pub(super) way: Way,
    pub(super) told: Option<End>,
}

/// The end of an operation, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It happened; of a transfer, with what is left.
    Done(Option<i64>),
    Refused,
}

/// All entities that operations change: accounts, hotels and flights with what they hold, and orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    held: BTreeMap<String, i64>,
    orders: BTreeSet<String>,
}

impl Places {
    /// Before anybody has asked.
    pub(super) fn untouched() -> Places {
        let accounts = (0..ACCOUNTS).map(|number| (format!("account-{number}"), BALANCE));
        let offers = (0..OFFERS).flat_map(|number| {
            // Every third is small.
            let capacity = if number.is_multiple_of(3) { 40 } else { 1_000_000 };
            ["hotel", "flight"].map(|kind| (format!("{kind}-{number}"), capacity))
        });
        Places { held: accounts.chain(offers).collect(), orders: BTreeSet::new() }
    }

    /// The calls that bring all of them about.
    pub(super) fn opening() -> impl Iterator<Item = Request> {
        Places::untouched().held.into_iter().map(|(key, held)| {
            let (operator, _) = key.split_once('-').expect("a kind and a number");
            let app = if operator == "account" { "ycsb" } else { "deathstar-travel" };
            Request::new(app, operator, &key, "insert", json!([held]))
        })
    }

    /// From the entities of the operators.
    pub(super) fn read(
        held: impl IntoIterator<Item = (String, Value)>,
        orders: BTreeMap<String, Value>,
    ) -> anyhow::Result<Places> {
        let held = held.into_iter().map(|(name, value)| Ok((name.clone(), number(&value).context(name)?)));
        Ok(Places { held: held.collect::<anyhow::Result<_>>()?, orders: orders.into_keys().collect() })
    }
}

/// Four or eight bytes, little-endian.
fn number(value: &Value) -> anyhow::Result<i64> {
    let bytes = STANDARD.decode(value.as_str().context("no number")?)?;
    Ok(match bytes.len() {
        4 => u32::from_le_bytes(bytes.as_slice().try_into()?).into(),
        8 => i64::from_le_bytes(bytes.as_slice().try_into()?),
        length => bail!("a number of {length} bytes"),
    })
}

impl Operation {
    /// How much more each of its places holds afterwards.
    fn effects(&self) -> [(String, i64); 2] {
        let [one, other] = self.places;
        match self.what {
            What::Transfer => [(format!("account-{one}"), -1), (format!("account-{other}"), 1)],
            What::Booking => [(format!("hotel-{one}"), -1), (format!("flight-{other}"), -1)],
        }
    }

    /// The order that is there once a booking has happened.
    fn order(&self) -> Option<String> {
        (self.what == What::Booking).then(|| format!("order-{}", self.number))
    }

    pub(super) fn call(&self) -> Request {
        let [(one, _), (other, _)] = self.effects();
        // Half of the transfers wait for the other account, half do not.
        let function = if self.number.is_multiple_of(2) { "transfer" } else { "transfer_async" };
        let call = match self.order() {
            None => Request::new("ycsb", "account", &one, function, json!([other])),
            Some(order) => {
                Request::new("deathstar-travel", "order", &order, "reserve", json!([one, other, "somebody"]))
            }
        };
        keyed(call, (self.way == Way::Keyed).then(|| format!("operation-{}", self.number)))
    }

    /// Reads an answer; an error if it cannot be one to this.
    pub(super) fn read(&self, told: &Told) -> Result<Option<End>, String> {
        match (self.what, told) {
            (What::Transfer, Told::Done(left)) if left.as_i64() >= Some(0) => Ok(Some(End::Done(left.as_i64()))),
            (What::Booking, Told::Done(Value::Null)) => Ok(Some(End::Done(None))),
            (_, Told::Refused) => Ok(Some(End::Refused)),
            (_, Told::Unknown) if self.way == Way::Plain => Ok(None),
            (what, odd) => Err(format!("{what:?} {} was answered with {odd:?}", self.number)),
        }
    }
}

/// Checks that what was acknowledged is there, that what was refused is not, and that each place holds what it must,
/// give or take what is doubtful.
pub(super) fn check(operations: &[Operation], there: &Places, findings: &mut Findings) {
    let untouched = Places::untouched().held;
    let sum = |held: &BTreeMap<String, i64>| -> i64 {
        held.iter().filter(|(name, _)| name.starts_with("account-")).map(|(_, held)| held).sum()
    };
    let (now, due) = (sum(&there.held), sum(&untouched));
    if now != due {
        findings.other(format!("the sum of all balances is {now}, not {due}"));
    }
    let mut bounds: BTreeMap<String, [i64; 2]> = untouched.into_iter().map(|(name, held)| (name, [held; 2])).collect();
    let mut known = 0;
    for operation in operations {
        let order = operation.order();
        let shown = order.as_ref().map(|order| there.orders.contains(order));
        known += usize::from(shown == Some(true));
        match (operation.told, shown) {
            (Some(End::Done(_)), Some(false)) => findings.lost(format!("{order:?} was acknowledged, and is not there")),
            (Some(End::Refused), Some(true)) => findings.changed(format!("{order:?} was refused, and is there")),
            _ => {}
        }
        // An order that is there says what has happened, whatever was told.
        let happened = shown.or(operation.told.map(|end| end != End::Refused));
        for (place, more) in operation.effects() {
            let [least, most] = bounds.get_mut(&place).expect("only places that there are are drawn");
            *least += if happened == Some(false) {
                0
            } else if happened.is_none() {
                more.min(0)
            } else {
                more
            };
            *most += if happened == Some(false) {
                0
            } else if happened.is_none() {
                more.max(0)
            } else {
                more
            };
        }
    }
    if known < there.orders.len() {
        findings.other(format!("there are {} orders that nobody asked for", there.orders.len() - known));
    }
    for (place, [least, most]) in bounds {
        match there.held.get(&place) {
            None => findings.lost(format!("{place} is gone")),
            Some(held) if (least..=most).contains(held) => {}
            Some(held) => {
                findings.other(format!("{place} holds {held}; by what happened it must be {least} to {most}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred operations that were acknowledged, and what they come to; what is found when something was changed.
    fn found(change: impl FnOnce(&mut Vec<Operation>, &mut Places)) -> [u64; 4] {
        let mut there = Places::untouched();
        let mut operations = Vec::new();
        for number in 0..100 {
            let what = if number % 2 == 0 { What::Transfer } else { What::Booking };
            let places = [number as u32 % OFFERS, (number as u32 + 5) % OFFERS];
            let operation = Operation { number, what, places, way: Way::Keyed, told: Some(End::Done(None)) };
            operation.effects().iter().for_each(|(place, more)| *there.held.get_mut(place).unwrap() += more);
            there.orders.extend(operation.order());
            operations.push(operation);
        }
        change(&mut operations, &mut there);
        let mut findings = Findings::default();
        check(&operations, &there, &mut findings);
        [findings.lost, findings.doubled, findings.changed, findings.anomalies]
    }

    #[test]
    fn what_is_right_is_right_and_every_wrong_is_found() {
        assert_eq!(found(|_, _| {}), [0; 4]);
        // Nobody knows of them: both ways are right.
        assert_eq!(found(|operations, _| operations[6].told = None), [0; 4]);
        assert_eq!(found(|operations, _| operations[7].told = None), [0; 4]);
        assert_eq!(found(|operations, _| operations[7].told = Some(End::Refused)), [0, 0, 1, 1]);
        // Neither the order nor what it took: both places have too much.
        assert_eq!(found(|_, there| assert!(there.orders.remove("order-7"))), [1, 0, 0, 3]);
        assert_eq!(found(|_, there| assert!(there.orders.insert("order-x".into()))), [0, 0, 0, 1]);
        assert_eq!(found(|_, there| *there.held.get_mut("hotel-1").unwrap() -= 1), [0, 0, 0, 1]);
        let account = |there: &mut Places, number: u32, more| {
            *there.held.get_mut(&format!("account-{number}")).unwrap() += more;
        };
        // The sum, and the account.
        assert_eq!(found(|_, there| account(there, 0, 1)), [0, 0, 0, 2]);
        // The sum is right, and both accounts are not.
        let moved_again = found(|_, there| {
            account(there, 0, -1);
            account(there, 1, 1);
        });
        assert_eq!(moved_again, [0, 0, 0, 2]);
        assert_eq!(found(|_, there| assert!(there.held.remove("account-60").is_some())), [1, 0, 0, 2]);
    }
}
