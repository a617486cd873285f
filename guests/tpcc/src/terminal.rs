//! Terminals: where the five transactions begin.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

use crate::key;

/// A customer as the terminal is told: a number, or a last name.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Who {
    /// By number.
    Number(u32),
    /// By last name: the one in the middle, by first names.
    Last(String),
}

/// What a new order shows.
#[derive(Serialize)]
pub struct Ordered {
    order: u32,
    entered: u64,
    last: String,
    credit: String,
    discount: u32,
    warehouse_tax: u32,
    district_tax: u32,
    /// In cents, with discount and taxes.
    total: i64,
    /// Name of the item, what is left of it, brand or generic, price, amount.
    lines: Vec<(String, u32, char, u32, i64)>,
}

/// What a payment shows.
#[derive(Serialize)]
pub struct Payment {
    amount: i64,
    /// Name and address.
    warehouse: (String, Box<RawValue>),
    district: (String, Box<RawValue>),
    customer: Box<RawValue>,
}

/// What is known of a customer's newest order.
#[derive(Serialize)]
pub struct Status {
    customer: u32,
    first: String,
    middle: &'static str,
    last: String,
    balance: i64,
    order: Option<NewestOrder>,
}

/// The order.
#[derive(Serialize)]
pub struct NewestOrder {
    order: u32,
    entered: u64,
    carrier: Option<u32>,
    lines: Box<RawValue>,
}

/// A warehouse has so many districts.
const DISTRICTS: u32 = 10;
/// Stock levels are those of the items in so many orders.
const NEWEST_ORDERS: u32 = 20;

/// The operator `terminal`.
pub struct Terminal;

#[operator(name = "terminal", key_prefix = "warehouse")]
/// Terminals, by `warehouse:district`: the five transactions.
impl Terminal {
    /// Orders lines [item, supplying warehouse, quantity]; aborts if there is no such item.
    pub fn new_order(ctx: &mut Context, customer_id: u32, lines: Vec<(u32, u32, u32)>) -> Result<Ordered> {
        let [warehouse, district] = key::numbers(ctx.key())?;
        let warehouse_key = warehouse.to_string();
        let warehouse_tax: u32 = ctx.call("warehouse", &warehouse_key, "tax", ())?;
        let district_tax: u32 = ctx.call("district", ctx.key(), "tax", ())?;
        let customer_key = format!("{}:{customer_id}", ctx.key());
        let (last, credit, discount): (String, String, u32) = ctx.call("customer", &customer_key, "terms", ())?;

        let all_local = lines.iter().all(|(_, supplier, _)| *supplier == warehouse);
        let inserted = (customer_id, lines.len(), all_local);
        let (id, order): (String, u32) = ctx.call("order", ctx.key(), "insert", inserted)?;
        let order_key = format!("{}:{id}", ctx.key());
        ctx.call_async("new_order", &order_key, "insert", ())?;

        let (mut sum, mut shown) = (0, Vec::with_capacity(lines.len()));
        for (number, (item, supplier, quantity)) in (1..).zip(lines) {
            let (price, name, is_original): (u32, String, bool) = ctx.call("item", &item.to_string(), "get", ())?;
            let remote = supplier != warehouse;
            let (left, text, is_original_too): (u32, String, bool) =
                ctx.call("stock", &format!("{supplier}:{item}"), "take", (quantity, district, remote))?;
            let amount = i64::from(price) * i64::from(quantity);
            let line = (item, supplier, quantity, amount, text);
            ctx.call_async("order_line", &key::line(&order_key, number), "insert", line)?;
            sum += amount;
            shown.push((name, left, if is_original && is_original_too { 'B' } else { 'G' }, price, amount));
        }
        let parts = (10_000 - i64::from(discount)) * i64::from(10_000 + warehouse_tax + district_tax);
        Ok(Ordered {
            order,
            entered: ctx.time().as_micros() as u64,
            last,
            credit,
            discount,
            warehouse_tax,
            district_tax,
            total: sum * parts / 100_000_000,
            lines: shown,
        })
    }

    /// Takes cents from a customer, who may belong to another warehouse.
    pub fn payment(
        ctx: &mut Context,
        home_warehouse: u32,
        home_district: u32,
        customer_id: Who,
        amount: i64,
    ) -> Result<Payment> {
        let [own_warehouse, own_district] = key::numbers(ctx.key())?;
        let at_warehouse: (String, Box<RawValue>) =
            ctx.call("warehouse", &own_warehouse.to_string(), "pay", (amount,))?;
        let at_district: (String, Box<RawValue>) = ctx.call("district", ctx.key(), "pay", (amount,))?;
        let home = format!("{home_warehouse}:{home_district}");
        let customer = Self::find(ctx, &home, customer_id)?;
        let shown: Box<RawValue> =
            ctx.call("customer", &format!("{home}:{customer}"), "pay", (amount, own_warehouse, own_district))?;
        let history = format!("{}:{}", ctx.key(), key::own(ctx));
        let data = format!("{}    {}", at_warehouse.0, at_district.0);
        ctx.call_async("history", &history, "insert", (amount, data))?;
        Ok(Payment { amount, warehouse: at_warehouse, district: at_district, customer: shown })
    }

    /// The newest order of a customer of the terminal's district.
    #[function(read_only)]
    pub fn order_status(ctx: &Context, customer_id: Who) -> Result<Status> {
        let customer = Self::find(ctx, ctx.key(), customer_id)?;
        let customer_key = format!("{}:{customer}", ctx.key());
        let (balance, first, last): (i64, String, String) = ctx.call("customer", &customer_key, "status", ())?;
        let latest: Option<(String, u32, u64, Option<u32>)> = ctx.call("order", ctx.key(), "latest", (customer,))?;
        let order = match latest {
            Some((id, order, entered, carrier)) => {
                let lines = ctx.call("order_line", &format!("{}:{id}", ctx.key()), "of_order", ())?;
                Some(NewestOrder { order, entered, carrier, lines })
            }
            None => None,
        };
        Ok(Status { customer, first, middle: "OE", last, balance, order })
    }

    /// Delivers the oldest new order of each of the warehouse's districts: their numbers, null where there was none.
    pub fn delivery(ctx: &mut Context, carrier: u32) -> Result<Vec<Option<u32>>> {
        let [warehouse, _] = key::numbers(ctx.key())?;
        let mut delivered = Vec::with_capacity(DISTRICTS as usize);
        for district in 1..=DISTRICTS {
            let district_key = format!("{warehouse}:{district}");
            let oldest: Option<String> = ctx.call("new_order", &district_key, "pop", ())?;
            let Some(id) = oldest else {
                delivered.push(None);
                continue;
            };
            let order_key = format!("{district_key}:{id}");
            let (number, customer): (u32, u32) = ctx.call("order", &order_key, "deliver", (carrier,))?;
            let cost: i64 = ctx.call("order_line", &order_key, "deliver", ())?;
            ctx.call_async("customer", &format!("{district_key}:{customer}"), "deliver", (cost,))?;
            delivered.push(Some(number));
        }
        Ok(delivered)
    }

    /// How many items of the district's twenty newest orders are fewer than the threshold in stock.
    #[function(read_only)]
    pub fn stock_level(ctx: &Context, threshold: u32) -> Result<u32> {
        let [warehouse, _] = key::numbers(ctx.key())?;
        let oldest: Option<String> = ctx.call("order", ctx.key(), "newest", (NEWEST_ORDERS,))?;
        let Some(id) = oldest else { return Ok(0) };
        let items: Vec<u32> = ctx.call("order_line", ctx.key(), "items_since", (id,))?;
        ctx.call("stock", &format!("{warehouse}:0"), "low", (items, threshold))
    }

    fn find(ctx: &Context, district: &str, customer_id: Who) -> Result<u32> {
        match customer_id {
            Who::Number(number) => Ok(number),
            Who::Last(name) => ctx.call("customer_name", &format!("{district}:{name}"), "middle", ()),
        }
    }
}
