//! What was paid, one row per payment.

use styx_sdk::prelude::*;

use crate::{key, row};

/// A payment.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    amount: i64,
    time_us: u64,
    data: &'a str,
}

/// The operator `history`.
pub struct History;

#[operator(name = "history", key_prefix = "warehouse")]
/// Payments, by `warehouse:district:id`: where it was paid.
impl History {
    /// Adds the first payment of each of these customers of the key's district, from a number on.
    pub fn fill(ctx: &mut Context, first: u32, amount: i64, data: Vec<String>) -> Result<()> {
        let [warehouse, district] = key::numbers(ctx.key())?;
        let time_us = ctx.time().as_micros() as u64;
        for (customer, data) in (first..).zip(data) {
            let key = format!("{warehouse}:{district}:{}", key::initial(customer));
            ctx.state.put_raw_at(&key, &row::encode(&Row { amount, time_us, data: &data })?);
        }
        Ok(())
    }

    /// Adds a payment.
    pub fn insert(ctx: &mut Context, amount: i64, data: String) -> Result<()> {
        let time_us = ctx.time().as_micros() as u64;
        ctx.state.put_raw(&row::encode(&Row { amount, time_us, data: &data })?);
        Ok(())
    }

    /// A page of the key's district: [payments, their sum, bytes of data, last key or null].
    #[function(read_only)]
    pub fn audit(ctx: &Context, after: Option<String>, limit: u32) -> Result<(usize, i64, usize, Option<String>)> {
        let page = row::page(ctx, &format!("{}:", ctx.key()), after.as_deref(), limit);
        let (mut paid, mut data) = (0, 0);
        for (_, bytes) in &page {
            let row: Row = row::decode(bytes)?;
            paid += row.amount;
            data += row.data.len();
        }
        Ok((page.len(), paid, data, row::next_page(&page, limit)))
    }
}
