//! Bookings: a room and a seat for one order, both or none (Styx, Figure 2). Some hotels and flights are
//! sold out soon, others never. Orders that are there say exactly what hotels and flights must have left.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use styx_client::Request;

use super::ask::Told;
use super::check::Findings;
use super::ledger::{Way, keyed};

pub(super) const APP: &str = "deathstar-travel";
/// Hotels, and as many flights.
const OFFERS: u32 = 12;

/// A room and a seat are asked for.
#[derive(Clone, Debug)]
pub(super) struct Booking {
    pub(super) number: u64,
    hotel: u32,
    flight: u32,
    pub(super) way: Way,
    pub(super) told: Option<Booked>,
}

/// The end of a booking, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Booked {
    Yes,
    SoldOut,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bookings {
    hotels: BTreeMap<String, u32>,
    flights: BTreeMap<String, u32>,
    orders: BTreeSet<String>,
}

/// Every third place is small.
fn capacity(number: u32) -> u32 {
    if number.is_multiple_of(3) { 40 } else { 1_000_000 }
}

/// Opens all hotels and flights.
pub(super) fn opening() -> impl Iterator<Item = Request> {
    let open = |operator: &str, number: u32| {
        Request::new(APP, operator, &format!("{operator}-{number}"), "insert", json!([capacity(number)]))
    };
    (0..OFFERS).flat_map(move |number| [open("hotel", number), open("flight", number)])
}

impl Booking {
    pub(super) fn new(number: u64, way: Way, random: &mut StdRng) -> Booking {
        let mut place = || random.random_range(0..OFFERS);
        Booking { number, hotel: place(), flight: place(), way, told: None }
    }

    fn order(&self) -> String {
        format!("order-{}", self.number)
    }

    pub(super) fn call(&self) -> Request {
        let arguments = json!([format!("hotel-{}", self.hotel), format!("flight-{}", self.flight), "somebody"]);
        let call = Request::new(APP, "order", &self.order(), "reserve", arguments);
        keyed(call, (self.way == Way::Keyed).then(|| format!("booking-{}", self.number)))
    }

    /// Reads an answer; an error if it cannot be one to this.
    pub(super) fn read(&self, told: &Told) -> Result<Option<Booked>, String> {
        match told {
            Told::Done(Value::Null) => Ok(Some(Booked::Yes)),
            Told::Refused => Ok(Some(Booked::SoldOut)),
            Told::Unknown if self.way == Way::Plain => Ok(None),
            odd => Err(format!("booking {} was answered with {odd:?}", self.number)),
        }
    }
}

impl Bookings {
    /// From the entities of the three operators.
    pub(super) fn read(
        hotels: &BTreeMap<String, Value>,
        flights: &BTreeMap<String, Value>,
        orders: BTreeMap<String, Value>,
    ) -> anyhow::Result<Bookings> {
        let left = |places: &BTreeMap<String, Value>| -> anyhow::Result<BTreeMap<String, u32>> {
            let read = |(name, value): (&String, &Value)| {
                let bytes = STANDARD.decode(value.as_str().with_context(|| format!("{name} is no place"))?)?;
                Ok((name.clone(), u32::from_le_bytes(bytes.as_slice().try_into()?)))
            };
            places.iter().map(read).collect()
        };
        let orders = orders.into_keys().collect();
        Ok(Bookings { hotels: left(hotels)?, flights: left(flights)?, orders })
    }
}

/// Checks that what was acknowledged is there, that what was refused is not, and that nothing was taken but for orders.
pub(super) fn check(bookings: &[Booking], there: &Bookings, findings: &mut Findings) {
    let mut taken: BTreeMap<String, u32> = BTreeMap::new();
    let mut known = 0;
    for booking in bookings {
        let order = booking.order();
        let booked = there.orders.contains(&order);
        match booking.told {
            Some(Booked::Yes) if !booked => findings.lost(format!("{order} was acknowledged, and is not there")),
            Some(Booked::SoldOut) if booked => findings.changed(format!("{order} was refused, and is there")),
            _ => {}
        }
        if booked {
            known += 1;
            for place in [format!("hotel-{}", booking.hotel), format!("flight-{}", booking.flight)] {
                *taken.entry(place).or_default() += 1;
            }
        }
    }
    if known < there.orders.len() {
        findings.other(format!("there are {} orders that nobody asked for", there.orders.len() - known));
    }
    for (kind, places) in [("hotel", &there.hotels), ("flight", &there.flights)] {
        for number in 0..OFFERS {
            let name = format!("{kind}-{number}");
            let due = capacity(number).checked_sub(taken.get(&name).copied().unwrap_or(0));
            match places.get(&name) {
                Some(left) if Some(*left) == due => {}
                left => findings.other(format!("{name} has {left:?} left; by the orders it must be {due:?}")),
            }
        }
    }
}

/// The state before anybody has asked.
#[cfg(test)]
pub(super) fn untouched() -> Bookings {
    let all = |kind: &str| (0..OFFERS).map(|number| (format!("{kind}-{number}"), capacity(number))).collect();
    Bookings { hotels: all("hotel"), flights: all("flight"), orders: BTreeSet::new() }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Bookings that were acknowledged, and what they come to; what is found when something was changed.
    fn found(change: impl FnOnce(&mut Vec<Booking>, &mut Bookings)) -> [u64; 4] {
        let mut random = StdRng::seed_from_u64(1);
        let mut there = untouched();
        let mut bookings = Vec::new();
        for number in 0..100 {
            let booking = Booking::new(number, Way::Keyed, &mut random);
            *there.hotels.get_mut(&format!("hotel-{}", booking.hotel)).unwrap() -= 1;
            *there.flights.get_mut(&format!("flight-{}", booking.flight)).unwrap() -= 1;
            there.orders.insert(booking.order());
            bookings.push(Booking { told: Some(Booked::Yes), ..booking });
        }
        change(&mut bookings, &mut there);
        let mut findings = Findings::default();
        check(&bookings, &there, &mut findings);
        [findings.lost, findings.doubled, findings.changed, findings.anomalies]
    }

    #[test]
    fn what_is_right_is_right_and_every_wrong_is_found() {
        assert_eq!(found(|_, _| {}), [0; 4]);
        assert_eq!(found(|bookings, _| bookings[7].told = None), [0; 4]);
        assert_eq!(found(|bookings, _| bookings[7].told = Some(Booked::SoldOut)), [0, 0, 1, 1]);
        // Neither the order nor what it took: both places have too much.
        let lost = found(|_, there| {
            there.orders.remove("order-7");
        });
        assert_eq!(lost, [1, 0, 0, 3]);
        assert_eq!(found(|_, there| *there.hotels.get_mut("hotel-1").unwrap() -= 1), [0, 0, 0, 1]);
        assert_eq!(found(|_, there| assert!(there.orders.insert("order-x".into()))), [0, 0, 0, 1]);
    }
}
