//! Rooms and seats, and the orders that take one of each.

use styx_sdk::prelude::*;

/// The operator `hotel`.
pub struct Hotel;

#[operator(name = "hotel")]
/// Rooms, by hotel.
impl Hotel {
    /// Opens a hotel with so many free rooms.
    pub fn insert(ctx: &mut Context, capacity: u32) {
        ctx.state.put_raw(&capacity.to_le_bytes());
    }

    /// Takes a room; aborts if there is none.
    pub fn reserve(ctx: &mut Context) -> Result<()> {
        take(ctx, "hotel")
    }

    /// Free rooms.
    #[function(read_only)]
    pub fn left(ctx: &Context) -> Result<u32> {
        left(ctx, "hotel")
    }
}

/// The operator `flight`.
pub struct Flight;

#[operator(name = "flight")]
/// Seats, by flight.
impl Flight {
    /// Opens a flight with so many free seats.
    pub fn insert(ctx: &mut Context, capacity: u32) {
        ctx.state.put_raw(&capacity.to_le_bytes());
    }

    /// Takes a seat; aborts if there is none.
    pub fn reserve(ctx: &mut Context) -> Result<()> {
        take(ctx, "flight")
    }

    /// Free seats.
    #[function(read_only)]
    pub fn left(ctx: &Context) -> Result<u32> {
        left(ctx, "flight")
    }
}

fn take(ctx: &mut Context, what: &str) -> Result<()> {
    let left = left(ctx, what)?;
    ensure!(left > 0, "{what} {} is sold out", ctx.key());
    ctx.state.put_raw(&(left - 1).to_le_bytes());
    Ok(())
}

fn left(ctx: &Context, what: &str) -> Result<u32> {
    match ctx.state.get_raw() {
        Some(bytes) => Ok(u32::from_le_bytes(bytes.as_slice().try_into()?)),
        None => bail!("there is no {what} {}", ctx.key()),
    }
}

/// A room and a seat for somebody.
#[derive(Serialize, Deserialize)]
struct Trip<'a> {
    hotel: &'a str,
    flight: &'a str,
    user: &'a str,
}

/// The operator `order`.
pub struct Order;

#[operator(name = "order")]
/// Trips, by order.
impl Order {
    /// Books a room and a seat, both or none.
    pub fn reserve(ctx: &mut Context, hotel: String, flight: String, user: String) -> Result<()> {
        ensure!(ctx.state.get_raw().is_none(), "order {} exists already", ctx.key());
        ctx.call_async("hotel", &hotel, "reserve", ())?;
        ctx.call_async("flight", &flight, "reserve", ())?;
        ctx.state.put_raw(&postcard::to_allocvec(&Trip { hotel: &hotel, flight: &flight, user: &user })?);
        Ok(())
    }

    /// A page of all orders, [hotel, flight, user] of each: [orders, last key of the page or null].
    #[function(read_only)]
    #[allow(clippy::type_complexity)]
    pub fn list(
        ctx: &Context,
        after: Option<String>,
        limit: u32,
    ) -> Result<(Vec<(String, String, String)>, Option<String>)> {
        let scan = ctx.state.scan().limit(limit);
        let page = after.as_deref().map_or(scan, |after| scan.after(after)).entries_raw();
        let mut trips = Vec::with_capacity(page.len());
        for (_, bytes) in &page {
            let Trip { hotel, flight, user } = postcard::from_bytes(bytes)?;
            trips.push((hotel.to_owned(), flight.to_owned(), user.to_owned()));
        }
        let last = if page.len() < limit as usize { None } else { page.last().map(|(key, _)| key.clone()) };
        Ok((trips, last))
    }
}
