//! What a warehouse and a district have in common: a name, an address, a tax and what was paid there.

use serde_json::value::RawValue;
use styx_sdk::prelude::*;

use crate::row;

/// The part that does not change. What was paid so far is under another key.
#[derive(Serialize, Deserialize)]
struct Place<'a> {
    tax: u32,
    name: &'a str,
    /// A JSON array of street, street, city, state and zip, which is only ever passed on.
    address: &'a str,
}

/// Opens it.
pub fn open(ctx: &mut Context, name: &str, address: &RawValue, tax: u32, paid: i64) -> Result<()> {
    let place = row::encode(&Place { tax, name, address: address.get() })?;
    ctx.state.put_raw(&place);
    let key = paid_key(ctx);
    row::put_number_at(ctx, &key, paid);
    Ok(())
}

/// Its tax.
pub fn tax(ctx: &Context, what: &str) -> Result<u32> {
    Ok(row::decode::<Place>(&row::own(ctx, what)?)?.tax)
}

/// Adds a payment; returns name and address.
pub fn pay(ctx: &mut Context, what: &str, amount: i64) -> Result<(String, Box<RawValue>)> {
    let bytes = row::own(ctx, what)?;
    let place: Place = row::decode(&bytes)?;
    let key = paid_key(ctx);
    let paid = row::number_at(ctx, &key)?;
    row::put_number_at(ctx, &key, paid + amount);
    Ok((place.name.into(), RawValue::from_string(place.address.into())?))
}

/// What was paid there so far.
pub fn paid(ctx: &Context) -> Result<i64> {
    row::number_at(ctx, &paid_key(ctx))
}

fn paid_key(ctx: &Context) -> String {
    format!("{}:paid", ctx.key())
}
