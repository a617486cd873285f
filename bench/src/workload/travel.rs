//! Deathstar's travel agency: searches, recommendations, a few logins and reservations.
//!
//! Its figures are what is added to the rooms of each hotel, then those of the seats of each flight.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::ledger::Due;
use super::{Ask, Call, Check, Ledger, PAGE, Seen, Workload, each, number, pages};

/// The one city; a key of it finds all that is there.
const CITY: &str = "san-francisco";
/// Hotels that have a place.
const PLACES: u32 = 80;
const RECOMMENDATIONS: u32 = 79;
const HOTELS: u32 = 100;
const FLIGHTS: u32 = 100;
const USERS: u32 = 501;

/// How the workload is made up.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rooms of each hotel, seats of each flight
    #[arg(long, default_value_t = 10)]
    pub capacity: u32,
    /// So many calls in a thousand reserve a room and a seat
    #[arg(long, default_value_t = 5)]
    pub reservations: u32,
}

pub struct Travel {
    capacity: u32,
    reservations: u32,
}

/// Logins are as many calls in a thousand.
const LOGINS: u32 = 5;
/// Of the searches and recommendations, as many in 99 are searches.
const SEARCHES: u32 = 60;

impl Travel {
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let Options { capacity, reservations } = *options;
        ensure!(reservations + LOGINS <= 1000, "--reservations can be up to {}", 1000 - LOGINS);
        Ok(Travel { capacity, reservations })
    }

    /// Reads how many rooms and seats are left, by figure.
    fn left(ask: &mut Ask<'_>) -> anyhow::Result<Vec<i64>> {
        let mut all = Vec::new();
        each(ask, (0..HOTELS + FLIGHTS).map(|figure| ((), left(figure))), |(), left| {
            all.push(number(&left)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Checks that hotels and flights miss exactly what orders have.
    fn booked(&self, ask: &mut Ask<'_>, left: &[i64]) -> anyhow::Result<()> {
        let mut booked: BTreeMap<String, i64> = BTreeMap::new();
        let page = |after: Option<&str>| Call::read("order", "0", "list", json!([after, PAGE]).to_string());
        pages(ask, page, |figures| {
            let trips = figures.first().and_then(Value::as_array).context("a page of orders is a list")?;
            for what in trips.iter().flat_map(|trip| [&trip[0], &trip[1]]) {
                let what = what.as_str().context("a trip has a hotel and a flight")?;
                *booked.entry(what.to_owned()).or_default() += 1;
            }
            Ok(())
        })?;
        for (figure, left) in (0..).zip(left) {
            let (_, key) = capacity(figure);
            let taken = booked.remove(&key).unwrap_or(0);
            let due = i64::from(self.capacity) - taken;
            ensure!(*left == due && *left >= 0, "{key} has {left} left of {}, {taken} booked", self.capacity);
        }
        ensure!(booked.is_empty(), "orders for what does not exist: {booked:?}");
        Ok(())
    }

    /// Checks that they miss exactly what was answered.
    fn answered(&self, ledger: &Ledger, left: &[i64]) -> anyhow::Result<()> {
        (0..).zip(left).try_for_each(|(figure, left)| {
            let due = ledger.due(figure) + Due::from(i64::from(self.capacity));
            due.demand(format_args!("of {} are left", capacity(figure).1), *left)
        })
    }
}

/// Operator and key of a figure.
fn capacity(figure: u32) -> (&'static str, String) {
    match figure.checked_sub(HOTELS) {
        None => ("hotel", format!("hotel-{figure}")),
        Some(flight) => ("flight", format!("flight-{flight}")),
    }
}

fn left(figure: u32) -> Call {
    let (operator, key) = capacity(figure);
    Call::read(operator, key, "left", "[]".into())
}

/// What a night costs, of hotels that tell.
fn rate(hotel: u32) -> Option<u32> {
    hotel.is_multiple_of(3).then_some(8000 + hotel * 50)
}

/// How well a hotel is rated and what it costs, of those that are recommended.
fn recommended(hotel: u32) -> (u32, u32) {
    let mut random = Pcg64Mcg::seed_from_u64(hotel.into());
    (random.random_range(0..=100), random.random_range(5_000..=30_000))
}

/// Metres between two places, by the operations of the apps.
fn metres((latitude, longitude): (i64, i64), other: (i64, i64)) -> u32 {
    let radians = latitude as f64 * 1.745_329_251_994_329_5e-8;
    let square = radians * radians;
    let cosine = 1.0 - square / 2.0 + square * square / 24.0 - square * square * square / 720.0;
    let (north, east) = (other.0 as f64 - latitude as f64, (other.1 as f64 - longitude as f64) * cosine);
    ((north * north + east * east).sqrt() * 0.111_195) as u32
}

/// What a search finds: the nearest five within ten kilometres, and their rates.
pub fn nearby(here: (i64, i64)) -> Value {
    let found = (0..PLACES).map(|hotel| (metres(here, place(hotel)), format!("hotel-{hotel}"), rate(hotel)));
    let mut found: Vec<_> = found.filter(|(metres, ..)| *metres <= 10_000).collect();
    found.sort_unstable();
    found.into_iter().take(5).map(|(metres, hotel, rate)| json!([hotel, metres, rate])).collect()
}

/// What is recommended, in the order of the keys.
pub fn best(by: &str, here: (i64, i64)) -> Value {
    let figure = |hotel: &u32| match by {
        "distance" => metres(here, place(*hotel)),
        "rate" => u32::MAX - recommended(*hotel).0,
        _ => recommended(*hotel).1,
    };
    let least = (0..RECOMMENDATIONS).map(|hotel| figure(&hotel)).min();
    let best = (0..RECOMMENDATIONS).filter(|hotel| Some(figure(hotel)) == least);
    let mut best: Vec<String> = best.map(|hotel| format!("hotel-{hotel}")).collect();
    best.sort_unstable();
    json!(best)
}

/// The place of a hotel, in millionths of a degree.
fn place(hotel: u32) -> (i64, i64) {
    let step = i64::from(hotel);
    (37_783_500 + step * 6_000, -122_410_000 + step * 8_000)
}

fn somewhere(random: &mut dyn RngCore) -> (i64, i64) {
    (random.random_range(37_783_000..=38_263_500), random.random_range(-122_410_000..=-121_770_000))
}

fn password(user: u32) -> String {
    format!("{user}").repeat(10)
}

impl Workload for Travel {
    fn name(&self) -> &'static str {
        "deathstar-travel"
    }

    fn fill(&self) -> Box<dyn Iterator<Item = Call> + Send + '_> {
        let in_city = |operator, hotel: u32, arguments: String| {
            Call::write(operator, format!("{CITY}:hotel-{hotel}"), "insert", arguments)
        };
        let places = (0..PLACES).map(move |hotel| {
            let (latitude, longitude) = place(hotel);
            in_city("geo", hotel, format!("[{latitude},{longitude}]"))
        });
        let rates = (0..HOTELS).filter_map(move |hotel| Some(in_city("rate", hotel, format!("[{}]", rate(hotel)?))));
        let recommended = (0..RECOMMENDATIONS).map(move |hotel| {
            let ((latitude, longitude), (rate, price)) = (place(hotel), recommended(hotel));
            in_city("recommendation", hotel, format!("[{latitude},{longitude},{rate},{price}]"))
        });
        let capacity = self.capacity;
        let capacities = [("hotel", HOTELS), ("flight", FLIGHTS)].into_iter().flat_map(move |(operator, count)| {
            let open = move |at| Call::write(operator, format!("{operator}-{at}"), "insert", format!("[{capacity}]"));
            (0..count).map(open)
        });
        let users = (0..USERS)
            .map(|user| Call::write("user", format!("user-{user}"), "register", format!("[\"{}\"]", password(user))));
        Box::new(places.chain(rates).chain(recommended).chain(capacities).chain(users))
    }

    fn next(&self, random: &mut dyn RngCore) -> Call {
        let kind = random.random_range(0..1000);
        if kind < self.reservations {
            let order = format!("{:016x}", random.next_u64());
            let (hotel, flight) = (random.random_range(0..HOTELS), random.random_range(0..FLIGHTS));
            let user = random.random_range(0..USERS);
            let arguments = format!("[\"hotel-{hotel}\",\"flight-{flight}\",\"user-{user}\"]");
            return Call::write("order", order, "reserve", arguments).adding([(hotel, -1), (HOTELS + flight, -1)]);
        }
        if kind < self.reservations + LOGINS {
            let user = random.random_range(0..USERS);
            return Call::read("user", format!("user-{user}"), "login", format!("[\"{}\"]", password(user)));
        }
        let (latitude, longitude) = somewhere(random);
        if random.random_range(0..99) < SEARCHES {
            return Call::read("search", CITY, "nearby", format!("[{latitude},{longitude}]"));
        }
        let by = ["distance", "rate", "price"][random.random_range(0..3)];
        Call::read("recommendation", CITY, "best", format!("[\"{by}\",{latitude},{longitude}]"))
    }

    fn expects(&self, code: &str, message: &str) -> bool {
        code == "ABORTED" && message.ends_with("is sold out")
    }

    fn figures(&self) -> usize {
        (HOTELS + FLIGHTS) as usize
    }

    fn check(&self, ask: &mut Ask<'_>, ledger: &Ledger) -> Vec<Check> {
        match Travel::left(ask) {
            Ok(left) => vec![
                Check::new("what hotels and flights have lost is what was booked", self.booked(ask, &left)),
                Check::new("what hotels and flights have lost is what was answered", self.answered(ledger, &left)),
            ],
            Err(error) => vec![Check::new("hotels and flights can be read", Err(error))],
        }
    }

    /// Of a reservation the hotel and the flight; other calls depend on what never changes.
    fn witnesses(&self, call: &Call) -> Vec<Call> {
        call.amounts.iter().map(|(figure, _)| left(*figure)).collect()
    }

    fn judge(&self, seen: &Seen<'_>) -> anyhow::Result<()> {
        let here = || {
            let place: Vec<i64> = seen.arguments.iter().filter_map(Value::as_i64).collect();
            (place[0], place[1])
        };
        let answer = match seen.call.function {
            "nearby" => nearby(here()),
            "best" => best(seen.arguments[0].as_str().context("by what is a word")?, here()),
            "login" => Value::Bool(true),
            _ => return reserved(seen),
        };
        ensure!(seen.answer.as_ref() == Some(&answer), "it was answered by {:?}, not by {answer}", seen.answer);
        Ok(())
    }
}

/// Says whether a room and a seat were taken, if there were any.
fn reserved(seen: &Seen<'_>) -> anyhow::Result<()> {
    let left = |read: &[Value]| read.iter().map(number).collect::<anyhow::Result<Vec<i64>>>();
    let (before, after) = (left(&seen.before)?, left(&seen.after)?);
    let are_left = before.iter().all(|left| *left > 0);
    ensure!(seen.answer == are_left.then_some(Value::Null), "with {before:?} left: {:?}", seen.answer);
    let due: Vec<i64> = before.iter().map(|left| left - i64::from(are_left)).collect();
    ensure!(after == due, "{before:?} became {after:?}, not {due:?}");
    Ok(())
}
