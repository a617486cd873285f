//! The calls: trips on a few crowded hotels and flights, carts on a few items.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use styx_client::Request;

/// A call, before it is given its idempotency key.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) app: &'static str,
    pub(super) function: &'static str,
    pub(super) args: Value,
    request: Request,
}

impl Call {
    fn new(app: &'static str, operator: &'static str, key: String, function: &'static str, args: Value) -> Self {
        let request = Request::new(app, operator, &key, function, args.clone());
        Call { app, function, args, request }
    }
}

/// Sizes are chosen so that rooms, seats, items and money run out for some, not for most.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) hotels: usize,
    pub(super) flights: usize,
    pub(super) items: usize,
    pub(super) users: usize,
    pub(super) rooms: u64,
    pub(super) seats: u64,
    pub(super) stock: u64,
    pub(super) price: u64,
    pub(super) credit: u64,
    pub(super) setup: Vec<Request>,
    pub(super) calls: Vec<Call>,
}

impl Workload {
    pub(super) fn generate(calls: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (hotels, flights, items, users) = (8, 6, 10, 20);
        let trips = calls / 2;
        let orders = (calls - trips) / 2;
        let rooms = (trips / hotels * 9 / 10) as u64;
        let seats = (trips / flights * 9 / 10) as u64;
        // Two of an item per order on average.
        let stock = (orders * 2 / items * 9 / 10) as u64;
        let price = 7;
        let credit = (orders * 2 / users * 8 / 10) as u64 * price;

        let open = |app, operator, key, function, args| Call::new(app, operator, key, function, args).request;
        let named = |kind: &str, count: usize| (0..count).map(|at| format!("{kind}{at}")).collect::<Vec<_>>();
        let mut setup = Vec::new();
        setup.extend(named("h", hotels).into_iter().map(|key| open("travel", "hotel", key, "create", json!([rooms]))));
        setup
            .extend(named("f", flights).into_iter().map(|key| open("travel", "flight", key, "create", json!([seats]))));
        setup.extend(named("i", items).into_iter().map(|key| open("cart", "stock", key, "put", json!([stock, price]))));
        setup.extend(named("u", users).into_iter().map(|key| open("cart", "user", key, "create", json!([credit]))));

        // An order is filled, then paid: two calls in that order, pipelined one behind the other.
        let mut stream: Vec<Vec<Call>> = Vec::new();
        for at in 0..trips {
            let args = json!([
                format!("f{}", random.random_range(0..flights)),
                format!("h{}", random.random_range(0..hotels)),
                format!("u{}", random.random_range(0..users))
            ]);
            stream.push(vec![Call::new("travel", "reservation", format!("r{at}"), "make_reservation", args)]);
        }
        for at in 0..orders {
            let fill = json!([format!("i{}", random.random_range(0..items)), random.random_range(1..=3)]);
            let pay = json!([format!("u{}", random.random_range(0..users))]);
            stream.push(vec![
                Call::new("cart", "order", format!("o{at}"), "add_item", fill),
                Call::new("cart", "order", format!("o{at}"), "checkout", pay),
            ]);
        }
        stream.shuffle(&mut random);
        Workload {
            hotels,
            flights,
            items,
            users,
            rooms,
            seats,
            stock,
            price,
            credit,
            setup,
            calls: stream.into_iter().flatten().collect(),
        }
    }

    /// The calls as clients make them, each under a key of its own.
    pub(super) fn requests(&self) -> Vec<Request> {
        let keyed = |(at, call): (usize, &Call)| call.request.clone().idempotency_key(format!("demo-{at}"));
        self.calls.iter().enumerate().map(keyed).collect()
    }
}
