//! Orders, and those among them that wait for their delivery.

use styx_sdk::prelude::*;

use crate::{key, row};

/// An order.
#[derive(Serialize, Deserialize)]
struct Row {
    customer: u32,
    entered_us: u64,
    carrier: Option<u32>,
    lines: u32,
    all_local: bool,
}

/// The operator `order`.
pub struct Order;

#[operator(name = "order", key_prefix = "warehouse")]
/// Orders, by `warehouse:district:order`; and an index of each customer's orders.
impl Order {
    /// Adds orders [customer, carrier or null, lines] from the key's on.
    pub fn fill(ctx: &mut Context, rows: Vec<(u32, Option<u32>, u32)>) -> Result<()> {
        let [warehouse, district, first] = key::numbers(ctx.key())?;
        let entered_us = ctx.time().as_micros() as u64;
        for (order, (customer, carrier, lines)) in (first..).zip(rows) {
            let row = Row { customer, entered_us, carrier, lines, all_local: true };
            Self::add(ctx, [warehouse, district, order], &row)?;
        }
        Ok(())
    }

    /// Adds an order.
    pub fn insert(ctx: &mut Context, customer: u32, lines: u32, all_local: bool) -> Result<()> {
        let numbers = key::numbers(ctx.key())?;
        let row = Row { customer, entered_us: ctx.time().as_micros() as u64, carrier: None, lines, all_local };
        Self::add(ctx, numbers, &row)
    }

    /// Hands the order to a carrier; returns its customer.
    pub fn deliver(ctx: &mut Context, carrier: u32) -> Result<u32> {
        let mut row: Row = row::decode(&row::own(ctx, "order")?)?;
        row.carrier = Some(carrier);
        ctx.state.put_raw(&row::encode(&row)?);
        Ok(row.customer)
    }

    /// The newest order of a customer of the key's district: [order, time, carrier or null], or null.
    #[function(read_only)]
    pub fn latest(ctx: &Context, customer: u32) -> Result<Option<(u32, u64, Option<u32>)>> {
        let [warehouse, district] = key::numbers(ctx.key())?;
        let prefix = format!("{}:", index(warehouse, district, customer));
        let Some((found, _)) = ctx.state.scan().prefix(&prefix).reverse().limit(1).entries_raw().pop() else {
            return Ok(None);
        };
        let order: u32 = found[prefix.len()..].parse()?;
        match ctx.state.get_raw_at(&key::order(warehouse, district, order)) {
            Some(bytes) => {
                let row: Row = row::decode(&bytes)?;
                Ok(Some((order, row.entered_us, row.carrier)))
            }
            None => bail!("{found} leads to no order"),
        }
    }

    /// A page of the key's district: [orders, highest number, then the sums of lines, customers, carriers,
    /// and how many are all local; last key or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, u32, [u64; 4], Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let (mut highest, mut sums) = (0, [0; 4]);
        for (key, bytes) in &page {
            let [_, _, order] = key::numbers(key)?;
            highest = highest.max(order);
            let row: Row = row::decode(bytes)?;
            let figures = [row.lines, row.customer, row.carrier.unwrap_or(0), row.all_local.into()];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += u64::from(figure));
        }
        Ok((page.len(), highest, sums, row::next_page(&page, limit)))
    }

    fn add(ctx: &mut Context, [warehouse, district, order]: [u32; 3], row: &Row) -> Result<()> {
        ctx.state.put_raw_at(&key::order(warehouse, district, order), &row::encode(row)?);
        ctx.state.put_raw_at(&format!("{}:{order:08}", index(warehouse, district, row.customer)), b"");
        Ok(())
    }
}

/// Where a customer's orders are listed: apart from the districts' orders.
fn index(warehouse: u32, district: u32, customer: u32) -> String {
    format!("{warehouse}:by-customer:{district}:{customer}")
}

/// The operator `new_order`.
pub struct NewOrder;

#[operator(name = "new_order", key_prefix = "warehouse")]
/// Orders that were not delivered yet, by `warehouse:district:order`.
impl NewOrder {
    /// Adds orders from the key's on, up to this one.
    pub fn fill(ctx: &mut Context, last: u32) -> Result<()> {
        let [warehouse, district, first] = key::numbers(ctx.key())?;
        (first..=last).for_each(|order| ctx.state.put_raw_at(&key::order(warehouse, district, order), b""));
        Ok(())
    }

    /// Adds an order.
    pub fn insert(ctx: &mut Context) {
        ctx.state.put_raw(b"");
    }

    /// Takes the oldest out of the key's district: its number, or null.
    pub fn pop(ctx: &mut Context) -> Result<Option<u32>> {
        let prefix = format!("{}:", ctx.key());
        let Some((oldest, _)) = ctx.state.scan().prefix(&prefix).limit(1).entries_raw().pop() else { return Ok(None) };
        ctx.state.delete_at(&oldest);
        let [_, _, order] = key::numbers(&oldest)?;
        Ok(Some(order))
    }

    /// A page of the key's district: [orders, lowest number or null, highest or null, last key or null].
    #[function(read_only)]
    #[allow(clippy::type_complexity)]
    pub fn audit(
        ctx: &Context,
        after: Option<String>,
        limit: u32,
    ) -> Result<(usize, Option<u32>, Option<u32>, Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let order = |entry: Option<&(String, Vec<u8>)>| {
            entry.map(|(key, _)| key::numbers(key).map(|[_, _, order]: [u32; 3]| order)).transpose()
        };
        Ok((page.len(), order(page.first())?, order(page.last())?, row::next_page(&page, limit)))
    }
}
