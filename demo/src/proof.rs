//! The proof: what must be true afterwards, from the answers alone against the state that the server shows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use styx_client::Client;

use super::calls::Outcomes;
use super::workload::{Call, Workload};

/// A claim, and whether it holds.
pub(super) struct Proof {
    pub(super) claim: String,
    pub(super) holds: bool,
}

pub(super) async fn check(client: &Client, workload: &Workload, outcomes: &Outcomes) -> anyhow::Result<Vec<Proof>> {
    let committed: Vec<&Call> =
        workload.calls.iter().zip(&outcomes.0).filter(|(_, outcome)| outcome.is_ok()).map(|(call, _)| call).collect();
    let of = |function: &str| committed.iter().filter(|call| call.function == function).copied().collect::<Vec<_>>();
    let count_by = |calls: &[&Call], argument: usize| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for call in calls {
            *counts.entry(call.args[argument].as_str().unwrap_or_default().to_string()).or_default() += 1;
        }
        counts
    };

    // Rooms and seats: what was there, less what was booked, is what is left.
    let trips = of("make_reservation");
    let mut balanced = true;
    let mut full = 0;
    for (operator, function, argument, prefix, entities, capacity) in [
        ("hotel", "rooms_left", 1, "h", workload.hotels, workload.rooms),
        ("flight", "seats_left", 0, "f", workload.flights, workload.seats),
    ] {
        let booked = count_by(&trips, argument);
        for at in 0..entities {
            let key = format!("{prefix}{at}");
            let left = number(&client.call("travel", operator, &key, function, json!([])).await?);
            balanced &= left + booked.get(&key).copied().unwrap_or(0) == capacity;
            full += usize::from(left == 0);
        }
    }
    let overbooking = Proof {
        claim: format!(
            "no overbooking: {} trips took a room and a seat each, {} refused trips took neither; {full} hotels and flights are full",
            trips.len(),
            workload.calls.iter().filter(|call| call.app == "travel").count() - trips.len()
        ),
        holds: balanced,
    };

    // Items: what was on the shelf is on the shelf or in carts, although carts are kept by Python and shelves by Rust.
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    for fill in of("add_item") {
        *taken.entry(fill.args[0].as_str().unwrap_or_default().to_string()).or_default() += number(&fill.args[1]);
    }
    let mut conserved = true;
    for at in 0..workload.items {
        let key = format!("i{at}");
        let left = number(&client.call("cart", "stock", &key, "get", json!([])).await?["stock"]);
        conserved &= left + taken.get(&key).copied().unwrap_or(0) == workload.stock;
    }
    let stock = Proof {
        claim: format!(
            "stock is conserved: {} items went from shelves (Rust) into carts (Python), in one transaction each",
            taken.values().sum::<u64>()
        ),
        holds: conserved,
    };

    // Money: what users had is theirs or was paid for carts.
    let paid: u64 = workload
        .calls
        .iter()
        .zip(&outcomes.0)
        .filter(|(call, _)| call.function == "checkout")
        .filter_map(|(_, outcome)| Some(number(&outcome.as_ref().ok()?.value().ok()?["total"])))
        .sum();
    let mut credit = 0;
    for at in 0..workload.users {
        credit += number(&client.call("cart", "user", &format!("u{at}"), "credit", json!([])).await?);
    }
    let money = Proof {
        claim: format!(
            "money is conserved: {paid} paid + {credit} left = {} given",
            workload.users as u64 * workload.credit
        ),
        holds: paid + credit == workload.users as u64 * workload.credit,
    };
    let value: u64 = taken.values().sum::<u64>() * workload.price;
    let answered = Proof {
        claim: format!(
            "every one of {} calls was answered exactly once; carts are worth {value}, {paid} of it paid",
            outcomes.0.len()
        ),
        holds: outcomes.0.len() == workload.calls.len() && paid <= value,
    };
    Ok(vec![overbooking, stock, money, answered])
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX / 1_000_000)
}
