//! The rows that TPC-C begins with (clause 4.3.3), in batches.
//!
//! Every batch comes from a seed of its own, so that the whole never has to be in memory, and the
//! check can count again what was there at the beginning.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use super::{DISTRICTS, LAST_NAME_WHILE_FILLED, Tpcc, last_name};
use crate::workload::Call;
use crate::workload::chance::{non_uniform, percent, text};

const BATCH: u32 = 50;
/// The payments of each customer so far, in cents.
pub const PAID: i64 = 1000;
pub const QUANTITY: i64 = 5;

/// The purpose of a seed.
#[derive(Clone, Copy)]
enum Table {
    Item,
    Stock,
    Place,
    Customer,
    Order,
    Lines,
    LineCounts,
    History,
}

fn random(table: Table, warehouse: u32, number: u32) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(u64::from(warehouse) << 32 | u64::from(number) << 4 | table as u64)
}

/// The calls that fill an empty app.
pub fn calls(tpcc: &Tpcc) -> impl Iterator<Item = Call> + Send + '_ {
    let items = (1..=tpcc.items).map(item);
    let stock = move |warehouse| batches(1, tpcc.items).map(move |batch| stock(warehouse, batch));
    let districts =
        move |warehouse| (1..=DISTRICTS).flat_map(move |district| self::district(tpcc, warehouse, district));
    let warehouses = (1..=tpcc.warehouses).flat_map(move |warehouse| {
        std::iter::once(self::warehouse(tpcc, warehouse)).chain(stock(warehouse)).chain(districts(warehouse))
    });
    items.chain(warehouses)
}

/// How many lines each of a district's orders has.
pub fn line_counts(tpcc: &Tpcc, warehouse: u32, district: u32) -> Vec<u32> {
    let mut random = random(Table::LineCounts, warehouse, district);
    (0..tpcc.customers).map(|_| random.random_range(5..=15)).collect()
}

/// First and last numbers of the batches of a range.
fn batches(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    (first..=last).step_by(BATCH as usize).map(move |from| (from, (from + BATCH - 1).min(last)))
}

fn between(random: &mut Pcg64Mcg, shortest: usize, longest: usize) -> String {
    let length = random.random_range(shortest..=longest);
    text(random, length)
}

/// 26 to 50 characters; in every tenth case they say that it is original.
fn data(random: &mut Pcg64Mcg) -> String {
    let mut data = between(random, 26, 50);
    if percent(random, 10.0) {
        let at = random.random_range(0..=data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}

fn address(random: &mut Pcg64Mcg) -> Value {
    let zip = format!("{:04}11111", random.random_range(0..10_000));
    json!([between(random, 10, 20), between(random, 10, 20), between(random, 10, 20), text(random, 2), zip])
}

/// The row of an item: name, price, data.
pub fn item_row(number: u32) -> (String, i64, String) {
    let mut random = random(Table::Item, 0, number);
    (between(&mut random, 14, 24), random.random_range(100..=10_000i32).into(), data(&mut random))
}

fn item(number: u32) -> Call {
    Call::write("item", number.to_string(), "insert", json!(item_row(number)).to_string())
}

fn stock(warehouse: u32, (from, to): (u32, u32)) -> Call {
    let mut random = random(Table::Stock, warehouse, from);
    let row = |_| json!([random.random_range(10..=100), text(&mut random, 240), data(&mut random)]);
    let rows: Vec<_> = (from..=to).map(row).collect();
    Call::write("stock", format!("{warehouse}:{from}"), "fill", json!([rows]).to_string())
}

fn warehouse(tpcc: &Tpcc, warehouse: u32) -> Call {
    let mut random = random(Table::Place, warehouse, 0);
    let paid = i64::from(DISTRICTS) * i64::from(tpcc.customers) * PAID;
    let row = json!([between(&mut random, 6, 10), address(&mut random), random.random_range(0..=2000), paid]);
    Call::write("warehouse", warehouse.to_string(), "insert", row.to_string())
}

fn district(tpcc: &Tpcc, warehouse: u32, district: u32) -> Vec<Call> {
    let mut random = random(Table::Place, warehouse, district);
    let paid = i64::from(tpcc.customers) * PAID;
    let name = between(&mut random, 6, 10);
    let row = json!([name, address(&mut random), random.random_range(0..=2000), paid]);
    let mut calls = vec![Call::write("district", format!("{warehouse}:{district}"), "insert", row.to_string())];
    customers(tpcc, warehouse, district, &mut calls);
    orders(tpcc, warehouse, district, &mut calls);
    calls
}

fn customers(tpcc: &Tpcc, warehouse: u32, district: u32, calls: &mut Vec<Call>) {
    let mut random = random(Table::Customer, warehouse, district);
    let mut names = Vec::new();
    for (from, to) in batches(1, tpcc.customers) {
        let row = |customer: u32| {
            let number = match customer {
                1..=1000 => u64::from(customer) - 1,
                _ => non_uniform(&mut random, 255, LAST_NAME_WHILE_FILLED, 0, 999),
            };
            let (first, last) = (between(&mut random, 8, 16), last_name(number));
            names.push((last.clone(), first.clone(), customer));
            json!({
                "first": first, "last": last, "phone": format!("{:016}", random.random_range(0..10u64.pow(16))),
                "address": address(&mut random), "credit": if percent(&mut random, 10.0) { "BC" } else { "GC" },
                "discount": random.random_range(0..=5000), "data": between(&mut random, 300, 500),
            })
        };
        let rows: Vec<_> = (from..=to).map(row).collect();
        calls.push(Call::write(
            "customer",
            format!("{warehouse}:{district}:{from}"),
            "fill",
            json!([rows]).to_string(),
        ));
    }
    let key = format!("{warehouse}:{district}");
    names.sort_unstable();
    let same_name: Vec<_> = names.chunk_by(|a, b| a.0 == b.0).collect();
    for batch in same_name.chunks(BATCH as usize) {
        let customers = |name: &&[(String, String, u32)]| {
            let numbers: Vec<u32> = name.iter().map(|(_, _, customer)| *customer).collect();
            json!([name[0].0, numbers])
        };
        let rows: Vec<_> = batch.iter().map(customers).collect();
        calls.push(Call::write("customer_name", key.clone(), "fill", json!([rows]).to_string()));
    }
    let mut random = self::random(Table::History, warehouse, district);
    for (from, to) in batches(1, tpcc.customers) {
        let data: Vec<_> = (from..=to).map(|_| between(&mut random, 12, 24)).collect();
        calls.push(Call::write("history", key.clone(), "fill", json!([from, PAID, data]).to_string()));
    }
}

fn orders(tpcc: &Tpcc, warehouse: u32, district: u32, calls: &mut Vec<Call>) {
    let key = |order: u32| format!("{warehouse}:{district}:{order}");
    let next = tpcc.customers + 1;
    calls.push(Call::write("order", format!("{warehouse}:{district}"), "start", format!("[{next}]")));
    let counts = line_counts(tpcc, warehouse, district);
    let first_new = tpcc.first_new_order();
    let mut random = random(Table::Order, warehouse, district);
    let mut customers: Vec<u32> = (1..=tpcc.customers).collect();
    customers.shuffle(&mut random);
    let mut lines = self::random(Table::Lines, warehouse, district);
    for (from, to) in batches(1, first_new - 1).chain(batches(first_new, tpcc.customers)) {
        let is_delivered = from < first_new;
        let order = |order: u32| {
            let at = order as usize - 1;
            let carrier = is_delivered.then(|| random.random_range(1..=10));
            json!([customers[at], carrier, counts[at]])
        };
        let orders: Vec<_> = (from..=to).map(order).collect();
        calls.push(Call::write("order", key(from), "fill", json!([orders]).to_string()));
        let mut line = || {
            let amount = if is_delivered { 0 } else { lines.random_range(1..=999_999) };
            json!([lines.random_range(1..=tpcc.items), warehouse, QUANTITY, amount, text(&mut lines, 24)])
        };
        let mut order_lines = |order: u32| (0..counts[order as usize - 1]).map(|_| line()).collect::<Vec<_>>();
        let orders: Vec<_> = (from..=to).map(&mut order_lines).collect();
        calls.push(Call::write("order_line", key(from), "fill", json!([orders, is_delivered]).to_string()));
    }
    if first_new <= tpcc.customers {
        calls.push(Call::write("new_order", key(first_new), "fill", json!([tpcc.customers]).to_string()));
    }
}
