//! The calls, trips on a few crowded hotels and flights and carts of a few items, and what must be true afterwards: from
//! the answers alone follows what each hotel, flight, item and user must have left.

use anyhow::Context;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use styx_client::{Client, Request};

use super::calls::Outcomes;

/// What runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hotel,
    Flight,
    Item,
    User,
}

/// Of each kind: app, operator, the function that makes one and the one that reads it, and how many there are.
const KINDS: [(&str, &str, &str, &str, usize); 4] = [
    ("travel", "hotel", "create", "rooms_left", 8),
    ("travel", "flight", "create", "seats_left", 6),
    ("cart", "stock", "put", "get", 10),
    ("cart", "user", "create", "credit", 20),
];

const ALL: [Kind; 4] = [Kind::Hotel, Kind::Flight, Kind::Item, Kind::User];

const PRICE: u64 = 7;

fn name(kind: Kind, at: usize) -> String {
    format!("{}{at}", KINDS[kind as usize].1.chars().next().expect("it has a name"))
}

#[derive(Clone, Debug)]
struct Call {
    request: Request,
    function: &'static str,
    /// What it takes, if it commits, from where; what a user pays, the reply says.
    takes: Vec<(Kind, usize, u64)>,
}

/// A claim, and whether it holds.
pub(super) struct Proof {
    pub(super) claim: String,
    pub(super) holds: bool,
}

/// Sizes are chosen so that rooms, seats, items and money run out for some, not for most.
pub(super) struct Workload {
    /// What each of a kind has at first.
    first: [u64; 4],
    calls: Vec<Call>,
}

impl Workload {
    pub(super) fn generate(calls: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let trips = calls / 2;
        let orders = (calls - trips) / 2;
        let share = |of: usize, kind: Kind, tenths: usize| (of / KINDS[kind as usize].4 * tenths / 10) as u64;
        // Two of an item per order on average.
        let first = [
            share(trips, Kind::Hotel, 9),
            share(trips, Kind::Flight, 9),
            share(orders * 2, Kind::Item, 9),
            share(orders * 2, Kind::User, 8) * PRICE,
        ];
        let call = |app, operator, key: String, function, arguments, takes| {
            let request = Request::new(app, operator, &key, function, arguments);
            Call { request, function, takes }
        };
        let mut any = |kind: Kind| random.random_range(0..KINDS[kind as usize].4);
        // An order is filled, then paid: two calls in that order, pipelined one behind the other.
        let mut stream: Vec<Vec<Call>> = Vec::new();
        for at in 0..trips {
            let (flight, hotel, user) = (any(Kind::Flight), any(Kind::Hotel), any(Kind::User));
            let arguments = json!([name(Kind::Flight, flight), name(Kind::Hotel, hotel), name(Kind::User, user)]);
            let takes = vec![(Kind::Hotel, hotel, 1), (Kind::Flight, flight, 1)];
            stream.push(vec![call("travel", "reservation", format!("r{at}"), "make_reservation", arguments, takes)]);
        }
        for at in 0..orders {
            let (item, count, user) = (any(Kind::Item), 1 + (at % 3) as u64, any(Kind::User));
            let order = || format!("o{at}");
            let fill = json!([name(Kind::Item, item), count]);
            let pay = json!([name(Kind::User, user)]);
            stream.push(vec![
                call("cart", "order", order(), "add_item", fill, vec![(Kind::Item, item, count)]),
                call("cart", "order", order(), "checkout", pay, vec![(Kind::User, user, 0)]),
            ]);
        }
        stream.shuffle(&mut random);
        Workload { first, calls: stream.into_iter().flatten().collect() }
    }

    /// The calls that open everything.
    pub(super) fn opening(&self) -> impl Iterator<Item = Request> + '_ {
        ALL.into_iter().flat_map(|kind| {
            let (app, operator, create, _, count) = KINDS[kind as usize];
            let first = self.first[kind as usize];
            let arguments = if kind == Kind::Item { json!([first, PRICE]) } else { json!([first]) };
            (0..count).map(move |at| Request::new(app, operator, &name(kind, at), create, arguments.clone()))
        })
    }

    /// The calls as clients make them, each under a key of its own.
    pub(super) fn requests(&self) -> Vec<Request> {
        let keyed = |(at, call): (usize, &Call)| call.request.clone().idempotency_key(format!("demo-{at}"));
        self.calls.iter().enumerate().map(keyed).collect()
    }

    /// Compares the answers with the state that the server shows.
    pub(super) async fn check(&self, client: &Client, outcomes: &Outcomes) -> anyhow::Result<Vec<Proof>> {
        let mut taken = KINDS.map(|(.., count)| vec![0; count]);
        let (mut trips, mut asked) = (0, 0);
        for (call, outcome) in self.calls.iter().zip(&outcomes.0) {
            asked += usize::from(call.function == "make_reservation");
            let Ok(reply) = outcome else { continue };
            trips += usize::from(call.function == "make_reservation");
            for (kind, at, count) in &call.takes {
                let count = if *kind == Kind::User { number(&reply.value()?["total"])? } else { *count };
                taken[*kind as usize][*at] += count;
            }
        }
        let mut left = KINDS.map(|(.., count)| Vec::with_capacity(count));
        for kind in ALL {
            let (app, operator, _, read, count) = KINDS[kind as usize];
            for at in 0..count {
                let seen = client.call(app, operator, &name(kind, at), read, json!([])).await?;
                left[kind as usize].push(number(if kind == Kind::Item { &seen["stock"] } else { &seen })?);
            }
        }
        let sum = |all: &[Vec<u64>; 4], kind: Kind| all[kind as usize].iter().sum::<u64>();
        let balanced = |kind: Kind| {
            let (taken, left) = (&taken[kind as usize], &left[kind as usize]);
            taken.iter().zip(left).all(|(taken, left)| taken + left == self.first[kind as usize])
        };
        let full = [Kind::Hotel, Kind::Flight].iter().flat_map(|kind| &left[*kind as usize]).filter(|left| **left == 0);
        let (full, refused) = (full.count(), asked - trips);
        let (items, paid, credit) = (sum(&taken, Kind::Item), sum(&taken, Kind::User), sum(&left, Kind::User));
        let (value, answers) = (items * PRICE, outcomes.0.len());
        let proof = |claim: String, holds: bool| Proof { claim, holds };
        Ok(vec![
            proof(
                format!(
                    "no overbooking: {trips} trips took a room and a seat each, {refused} refused trips took neither; \
                     {full} hotels and flights are full"
                ),
                balanced(Kind::Hotel) && balanced(Kind::Flight),
            ),
            proof(
                format!(
                    "stock is conserved: {items} items went from shelves (Rust) into carts (Python), in one transaction each"
                ),
                balanced(Kind::Item),
            ),
            proof(
                format!("money is conserved: {paid} paid + {credit} left = {} given", paid + credit),
                balanced(Kind::User),
            ),
            proof(
                format!(
                    "every one of {answers} calls was answered exactly once; carts are worth {value}, {paid} of it paid"
                ),
                answers == self.calls.len() && paid <= value,
            ),
        ])
    }
}

fn number(value: &Value) -> anyhow::Result<u64> {
    value.as_u64().with_context(|| format!("{value} is no number"))
}
