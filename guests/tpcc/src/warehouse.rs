//! Warehouses and their districts.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

use crate::place;

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
/// Districts, by `warehouse:district`.
impl District {
    /// Opens a district.
    pub fn insert(ctx: &mut Context, name: String, address: Box<RawValue>, tax: u32, paid: i64) -> Result<()> {
        place::open(ctx, &name, &address, tax, paid)
    }

    /// The tax, in hundredths of a percent.
    #[function(read_only)]
    pub fn tax(ctx: &Context) -> Result<u32> {
        place::tax(ctx, "district")
    }

    /// Adds a payment; returns name and address.
    pub fn pay(ctx: &mut Context, amount: i64) -> Result<(String, Box<RawValue>)> {
        place::pay(ctx, "district", amount)
    }

    /// What was paid in all: [tax, cents].
    #[function(read_only)]
    pub fn audit(ctx: &Context) -> Result<(u32, i64)> {
        Ok((place::tax(ctx, "district")?, place::paid(ctx)?))
    }
}
