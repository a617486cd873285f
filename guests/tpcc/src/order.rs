//! Orders, and those among them that wait for their delivery.

use styx_sdk::prelude::*;

use crate::{key, row};

/// An order.
#[derive(Serialize, Deserialize)]
struct Row {
    number: u32,
    customer: u32,
    entered_us: u64,
    carrier: Option<u32>,
    lines: u32,
    all_local: bool,
}

/// A district's numbers, under `warehouse:next:district`.
#[derive(Serialize, Deserialize)]
struct Next<'a> {
    number: u32,
    /// The last part of the newest order's key.
    newest: &'a str,
}

/// The operator `order`.
pub struct Order;

#[operator(name = "order", key_prefix = "warehouse")]
/// Orders, by `warehouse:district:id`, where ids are in the order of numbers; each district's next
/// number; and an index of each customer's orders.
impl Order {
    /// Sets the number of the next order of the key's district.
    pub fn start(ctx: &mut Context, number: u32) -> Result<()> {
        let key = next_key(ctx.key())?;
        ctx.state.put_raw_at(&key, &row::encode(&Next { number, newest: "" })?);
        Ok(())
    }

    /// Adds orders [customer, carrier or null, lines] with the numbers from the key's on.
    pub fn fill(ctx: &mut Context, rows: Vec<(u32, Option<u32>, u32)>) -> Result<()> {
        let [warehouse, district, first] = key::numbers(ctx.key())?;
        let (entered_us, district) = (ctx.time().as_micros() as u64, format!("{warehouse}:{district}"));
        for (number, (customer, carrier, lines)) in (first..).zip(rows) {
            let row = Row { number, customer, entered_us, carrier, lines, all_local: true };
            Self::add(ctx, &district, &key::initial(number), &row)?;
        }
        Ok(())
    }

    /// Adds an order to the key's district: [id, number].
    pub fn insert(ctx: &mut Context, customer: u32, lines: u32, all_local: bool) -> Result<(String, u32)> {
        let (district, next_key) = (ctx.key().to_owned(), next_key(ctx.key())?);
        let Some(bytes) = ctx.state.get_raw_at(&next_key) else { bail!("there is no district {district}") };
        let Next { number, newest } = row::decode(&bytes)?;
        let id = key::after(ctx, newest);
        let entered_us = ctx.time().as_micros() as u64;
        Self::add(ctx, &district, &id, &Row { number, customer, entered_us, carrier: None, lines, all_local })?;
        ctx.state.put_raw_at(&next_key, &row::encode(&Next { number: number + 1, newest: &id })?);
        Ok((id, number))
    }

    /// Hands the order to a carrier: [number, customer].
    pub fn deliver(ctx: &mut Context, carrier: u32) -> Result<(u32, u32)> {
        let mut row: Row = row::decode(&row::own(ctx, "order")?)?;
        row.carrier = Some(carrier);
        ctx.state.put_raw(&row::encode(&row)?);
        Ok((row.number, row.customer))
    }

    /// The newest order of a customer of the key's district: [id, number, time, carrier or null], or null.
    #[function(read_only)]
    #[allow(clippy::type_complexity)]
    pub fn latest(ctx: &Context, customer: u32) -> Result<Option<(String, u32, u64, Option<u32>)>> {
        let prefix = format!("{}:", index_key(ctx.key(), customer)?);
        let Some((found, _)) = ctx.state.scan().prefix(&prefix).reverse().limit(1).entries_raw().pop() else {
            return Ok(None);
        };
        let id = &found[prefix.len()..];
        let Some(bytes) = ctx.state.get_raw_at(&format!("{}:{id}", ctx.key())) else {
            bail!("{found} leads to no order")
        };
        let row: Row = row::decode(&bytes)?;
        Ok(Some((id.to_owned(), row.number, row.entered_us, row.carrier)))
    }

    /// The id of the oldest of so many newest orders of the key's district, or null if there is none.
    #[function(read_only)]
    pub fn newest(ctx: &Context, count: u32) -> Option<String> {
        let prefix = format!("{}:", ctx.key());
        let oldest = ctx.state.scan().prefix(&prefix).reverse().limit(count).entries_raw().pop()?;
        Some(oldest.0[prefix.len()..].to_owned())
    }

    /// The number that the next order of the key's district will have.
    #[function(read_only)]
    pub fn next(ctx: &Context) -> Result<u32> {
        let Some(bytes) = ctx.state.get_raw_at(&next_key(ctx.key())?) else {
            bail!("there is no district {}", ctx.key())
        };
        Ok(row::decode::<Next>(&bytes)?.number)
    }

    /// A page of the key's district: [orders; the sums of lines, customers, carriers, and how many are all local;
    /// lowest and highest number of the page or null; how many wait for delivery, lowest and highest of those
    /// or null; last key or null].
    #[function(read_only)]
    #[allow(clippy::type_complexity)]
    pub fn audit(
        ctx: &Context,
        after: Option<String>,
        limit: u32,
    ) -> Result<(usize, [u64; 4], Range, u32, Range, Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let (mut sums, mut all, mut waiting, mut open) = ([0; 4], [None; 2], 0, [None; 2]);
        for (_, bytes) in &page {
            let row: Row = row::decode(bytes)?;
            let figures = [row.lines, row.customer, row.carrier.unwrap_or(0), row.all_local.into()];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += u64::from(figure));
            widen(&mut all, row.number);
            if row.carrier.is_none() {
                waiting += 1;
                widen(&mut open, row.number);
            }
        }
        Ok((page.len(), sums, all, waiting, open, row::next_page(&page, limit)))
    }

    fn add(ctx: &mut Context, district: &str, id: &str, row: &Row) -> Result<()> {
        ctx.state.put_raw_at(&format!("{district}:{id}"), &row::encode(row)?);
        ctx.state.put_raw_at(&format!("{}:{id}", index_key(district, row.customer)?), b"");
        Ok(())
    }
}

/// Lowest and highest, if there is any.
type Range = [Option<u32>; 2];

fn widen(range: &mut Range, number: u32) {
    range[0] = Some(range[0].map_or(number, |lowest| lowest.min(number)));
    range[1] = Some(range[1].map_or(number, |highest| highest.max(number)));
}

/// Where a district's next number is: apart from its orders.
fn next_key(district: &str) -> Result<String> {
    let [warehouse, district] = key::numbers(district)?;
    Ok(format!("{warehouse}:next:{district}"))
}

/// Where a customer's orders are listed: apart from the districts' orders, too.
fn index_key(district: &str, customer: u32) -> Result<String> {
    let [warehouse, district] = key::numbers(district)?;
    Ok(format!("{warehouse}:by-customer:{district}:{customer}"))
}

/// The operator `new_order`.
pub struct NewOrder;

#[operator(name = "new_order", key_prefix = "warehouse")]
/// Orders that were not delivered yet, by `warehouse:district:id`.
impl NewOrder {
    /// Adds orders with the numbers from the key's on, up to this one.
    pub fn fill(ctx: &mut Context, last: u32) -> Result<()> {
        let [warehouse, district, first] = key::numbers(ctx.key())?;
        for number in first..=last {
            ctx.state.put_raw_at(&format!("{warehouse}:{district}:{}", key::initial(number)), b"");
        }
        Ok(())
    }

    /// Adds an order.
    pub fn insert(ctx: &mut Context) {
        ctx.state.put_raw(b"");
    }

    /// Takes the oldest out of the key's district: its id, or null.
    pub fn pop(ctx: &mut Context) -> Option<String> {
        let prefix = format!("{}:", ctx.key());
        let (oldest, _) = ctx.state.scan().prefix(&prefix).limit(1).entries_raw().pop()?;
        ctx.state.delete_at(&oldest);
        Some(oldest[prefix.len()..].to_owned())
    }

    /// A page of the key's district: [orders, last key or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> (usize, Option<String>) {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        (page.len(), row::next_page(&page, limit))
    }
}
