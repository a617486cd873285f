//! Searches, and the rates that they show.

use styx_sdk::prelude::*;

/// The operator `rate`.
pub struct Rate;

#[operator(name = "rate", key_prefix = "city")]
/// What a night costs, by `city:hotel`; not every hotel tells.
impl Rate {
    /// Sets a hotel's rate, in cents.
    pub fn insert(ctx: &mut Context, cents: u32) {
        ctx.state.put_raw(&cents.to_le_bytes());
    }

    /// The rates of these hotels of the key's city, null for those that do not tell.
    #[function(read_only)]
    pub fn of(ctx: &Context, hotels: Vec<String>) -> Result<Vec<Option<u32>>> {
        let rate = |hotel: String| match ctx.state.get_raw_at(&format!("{}:{hotel}", ctx.key())) {
            Some(bytes) => Ok(Some(u32::from_le_bytes(bytes.as_slice().try_into()?))),
            None => Ok(None),
        };
        hotels.into_iter().map(rate).collect()
    }
}

/// The operator `search`.
pub struct Search;

#[operator(name = "search", key_prefix = "city")]
/// Searches, by city.
impl Search {
    /// The nearest hotels: [hotel, metres, rate in cents or null].
    #[function(read_only)]
    pub fn nearby(ctx: &Context, latitude: i32, longitude: i32) -> Result<Vec<(String, u32, Option<u32>)>> {
        let found: Vec<(String, u32)> = ctx.call("geo", ctx.key(), "nearby", (latitude, longitude))?;
        let hotels: Vec<&str> = found.iter().map(|(hotel, _)| hotel.as_str()).collect();
        let rates: Vec<Option<u32>> = ctx.call("rate", ctx.key(), "of", (hotels,))?;
        Ok(found.into_iter().zip(rates).map(|((hotel, metres), rate)| (hotel, metres, rate)).collect())
    }
}
