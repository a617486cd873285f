//! Lines of orders.

use std::collections::BTreeSet;

use styx_sdk::prelude::*;

use crate::{key, row};

/// A line.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    item: u32,
    supplier: u32,
    quantity: u32,
    amount: i64,
    delivered_us: Option<u64>,
    text: &'a str,
}

/// What is shown of a line: item, warehouse that supplies it, quantity, amount, when it was delivered.
type Shown = (u32, u32, u32, i64, Option<u64>);

/// What a line begins with: item, warehouse that supplies it, quantity, amount, the stock's text.
type New = (u32, u32, u32, i64, String);

/// The operator `order_line`.
pub struct OrderLine;

#[operator(name = "order_line", key_prefix = "warehouse")]
/// Lines of orders, by `warehouse:district:id:line`.
impl OrderLine {
    /// Adds the lines [item, supplier, quantity, amount, text] of orders with the numbers from the key's on,
    /// delivered or not.
    pub fn fill(ctx: &mut Context, orders: Vec<Vec<New>>, delivered: bool) -> Result<()> {
        let [warehouse, district, first] = key::numbers(ctx.key())?;
        let delivered_us = delivered.then(|| ctx.time().as_micros() as u64);
        for (order, lines) in (first..).zip(orders) {
            let order = format!("{warehouse}:{district}:{}", key::initial(order));
            for (number, (item, supplier, quantity, amount, text)) in (1..).zip(lines) {
                let row = row::encode(&Row { item, supplier, quantity, amount, delivered_us, text: &text })?;
                ctx.state.put_raw_at(&key::line(&order, number), &row);
            }
        }
        Ok(())
    }

    /// Adds a line.
    pub fn insert(ctx: &mut Context, item: u32, supplier: u32, quantity: u32, amount: i64, text: String) -> Result<()> {
        let row = row::encode(&Row { item, supplier, quantity, amount, delivered_us: None, text: &text })?;
        ctx.state.put_raw(&row);
        Ok(())
    }

    /// Delivers all lines of the key's order; returns what they cost.
    pub fn deliver(ctx: &mut Context) -> Result<i64> {
        let now_us = ctx.time().as_micros() as u64;
        let mut cost = 0;
        for (key, bytes) in Self::lines(ctx) {
            let row: Row = row::decode(&bytes)?;
            cost += row.amount;
            ctx.state.put_raw_at(&key, &row::encode(&Row { delivered_us: Some(now_us), ..row })?);
        }
        Ok(cost)
    }

    /// The lines of the key's order: [item, supplier, quantity, amount, when it was delivered or null].
    #[function(read_only)]
    pub fn of_order(ctx: &Context) -> Result<Vec<Shown>> {
        let lines = Self::lines(ctx).into_iter().map(|(_, bytes)| {
            let row: Row = row::decode(&bytes)?;
            Ok((row.item, row.supplier, row.quantity, row.amount, row.delivered_us))
        });
        lines.collect()
    }

    /// The items in the orders of the key's district from an id on, each once.
    #[function(read_only)]
    pub fn items_since(ctx: &Context, order: String) -> Result<Vec<u32>> {
        let prefix = format!("{}:", ctx.key());
        let before = format!("{prefix}{order}");
        let entries = ctx.state.scan().prefix(&prefix).after(&before).entries_raw();
        let items = entries.iter().map(|(_, bytes)| Ok(row::decode::<Row>(bytes)?.item));
        Ok(items.collect::<Result<BTreeSet<u32>>>()?.into_iter().collect())
    }

    /// A page of the key's district: [lines, then the sums of items, suppliers, quantities and amounts,
    /// how many were delivered and what those cost; last key or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, [i64; 6], Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let mut sums = [0; 6];
        for (_, bytes) in &page {
            let row: Row = row::decode(bytes)?;
            let delivered = i64::from(row.delivered_us.is_some());
            let (item, supplier, quantity) = (row.item.into(), row.supplier.into(), row.quantity.into());
            let figures = [item, supplier, quantity, row.amount, delivered, delivered * row.amount];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        }
        Ok((page.len(), sums, row::next_page(&page, limit)))
    }

    fn lines(ctx: &Context) -> Vec<(String, Vec<u8>)> {
        ctx.state.scan().prefix(&format!("{}:", ctx.key())).entries_raw()
    }
}
