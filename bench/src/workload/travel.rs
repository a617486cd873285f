//! Deathstar's travel agency: searches, recommendations, a few logins and reservations.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use rand::{Rng, RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::{Call, Check, PAGE, Read, Workload, number, pages};

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

    /// Checks that hotels and flights miss exactly what orders have.
    fn booked(&self, read: &mut Read<'_>) -> anyhow::Result<()> {
        let mut booked: BTreeMap<(usize, String), i64> = BTreeMap::new();
        let page = |after: Option<&str>| Call::read("order", "0", "list", json!([after, PAGE]).to_string());
        pages(read, page, |figures| {
            let trips = figures.first().and_then(Value::as_array).context("a page of orders is a list")?;
            for (trip, kind) in trips.iter().flat_map(|trip| [(trip, 0), (trip, 1)]) {
                let what = trip[kind].as_str().context("a trip has a hotel and a flight")?;
                *booked.entry((kind, what.to_owned())).or_default() += 1;
            }
            Ok(())
        })?;
        for (kind, operator, count) in [(0, "hotel", HOTELS), (1, "flight", FLIGHTS)] {
            for at in 0..count {
                let key = format!("{operator}-{at}");
                let left = number(&read(&Call::read(operator, &*key, "left", "[]".into()))?)?;
                let taken = booked.remove(&(kind, key)).unwrap_or(0);
                let due = i64::from(self.capacity) - taken;
                ensure!(
                    left == due && left >= 0,
                    "{operator} {at} has {left} left of {}, {taken} booked",
                    self.capacity
                );
            }
        }
        ensure!(booked.is_empty(), "orders for what does not exist: {booked:?}");
        Ok(())
    }
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
        let rates = (0..HOTELS).step_by(3).map(move |hotel| in_city("rate", hotel, format!("[{}]", 8000 + hotel * 50)));
        let recommended = (0..RECOMMENDATIONS).map(move |hotel| {
            let mut random = Pcg64Mcg::seed_from_u64(hotel.into());
            let ((latitude, longitude), rate) = (place(hotel), random.random_range(0..=100));
            let price = random.random_range(5_000..=30_000);
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
            return Call::write("order", order, "reserve", arguments);
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

    fn check(&self, read: &mut Read<'_>) -> Vec<Check> {
        vec![Check::new("what hotels and flights have lost is what was booked", self.booked(read))]
    }
}
