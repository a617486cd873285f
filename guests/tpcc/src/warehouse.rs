//! Warehouses and their districts.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

use crate::{place, row};

/// The operator `warehouse`.
pub struct Warehouse;

#[operator(name = "warehouse", key_prefix = "warehouse")]
/// Warehouses, by number.
impl Warehouse {
    /// Opens a warehouse; the address is a list of street, street, city, state and zip.
    pub fn insert(ctx: &mut Context, name: String, address: Box<RawValue>, tax: u32, paid: i64) -> Result<()> {
        place::open(ctx, &name, &address, tax, paid)
    }

    /// The tax, in hundredths of a percent.
    #[function(read_only)]
    pub fn tax(ctx: &Context) -> Result<u32> {
        place::tax(ctx, "warehouse")
    }

    /// Adds a payment; returns name and address.
    pub fn pay(ctx: &mut Context, amount: i64) -> Result<(String, Box<RawValue>)> {
        place::pay(ctx, "warehouse", amount)
    }

    /// What was paid in all: [tax, cents].
    #[function(read_only)]
    pub fn audit(ctx: &Context) -> Result<(u32, i64)> {
        Ok((place::tax(ctx, "warehouse")?, place::paid(ctx)?))
    }
}

/// The operator `district`.
pub struct District;

#[operator(name = "district", key_prefix = "warehouse")]
/// Districts, by `warehouse:district`. They number their orders.
impl District {
    /// Opens a district; the next order has this number.
    pub fn insert(
        ctx: &mut Context,
        name: String,
        address: Box<RawValue>,
        tax: u32,
        paid: i64,
        next_order: u32,
    ) -> Result<()> {
        place::open(ctx, &name, &address, tax, paid)?;
        let key = next_key(ctx);
        row::put_number_at(ctx, &key, next_order.into());
        Ok(())
    }

    /// Takes the number of a new order: [tax, number].
    pub fn next_order(ctx: &mut Context) -> Result<(u32, i64)> {
        let tax = place::tax(ctx, "district")?;
        let key = next_key(ctx);
        let number = row::number_at(ctx, &key)?;
        row::put_number_at(ctx, &key, number + 1);
        Ok((tax, number))
    }

    /// The number that the next order will have.
    #[function(read_only)]
    pub fn orders_end(ctx: &Context) -> Result<i64> {
        row::number_at(ctx, &next_key(ctx))
    }

    /// Adds a payment; returns name and address.
    pub fn pay(ctx: &mut Context, amount: i64) -> Result<(String, Box<RawValue>)> {
        place::pay(ctx, "district", amount)
    }

    /// What was paid, and the number of the next order: [tax, cents, number].
    #[function(read_only)]
    pub fn audit(ctx: &Context) -> Result<(u32, i64, i64)> {
        Ok((place::tax(ctx, "district")?, place::paid(ctx)?, row::number_at(ctx, &next_key(ctx))?))
    }
}

fn next_key(ctx: &Context) -> String {
    format!("{}:next", ctx.key())
}
