//! Deathstar's travel agency: hotels nearby, recommendations, logins, and reservations of a room and a
//! seat, both or none.
//!
//! What belongs to a city has keys `city:hotel` and lives together, so that a search is a scan of one
//! place; a hotel that opens meanwhile is in a search or is not, but never by half. Rooms and seats
//! are really taken: who comes too late gets nothing.

mod capacity;
mod geo;
mod recommendation;
mod search;
mod user;

pub use capacity::{Flight, Hotel, Order};
pub use geo::Geo;
pub use recommendation::Recommendation;
pub use search::{Rate, Search};
pub use user::User;

styx_sdk::export!(Flight, Geo, Hotel, Order, Rate, Recommendation, Search, User);

#[cfg(test)]
mod tests;
