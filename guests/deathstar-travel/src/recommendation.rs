//! Hotels that are recommended.

use styx_sdk::prelude::*;

use crate::geo::Place;

/// What is known of a hotel.
#[derive(Serialize, Deserialize)]
struct Row {
    place: Place,
    rate: u32,
    price: u32,
}

/// By what a hotel is the best.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The nearest.
    Distance,
    /// The best rated.
    Rate,
    /// The cheapest.
    Price,
}

/// The operator `recommendation`.
pub struct Recommendation;

#[operator(name = "recommendation", key_prefix = "city")]
/// Hotels that are recommended, by `city:hotel`.
impl Recommendation {
    /// Adds a hotel.
    pub fn insert(ctx: &mut Context, latitude: i32, longitude: i32, rate: u32, price: u32) -> Result<()> {
        let row = Row { place: Place { latitude, longitude }, rate, price };
        ctx.state.put_raw(&postcard::to_allocvec(&row)?);
        Ok(())
    }

    /// The best hotels of the key's city by `distance`, `rate` or `price`: several, if they are equally good.
    #[function(read_only)]
    pub fn best(ctx: &Context, by: By, latitude: i32, longitude: i32) -> Result<Vec<String>> {
        let here = Place { latitude, longitude };
        let prefix = format!("{}:", ctx.key());
        // Less is better; a high rate counts as little.
        let (mut least, mut best) = (u32::MAX, Vec::new());
        for (key, bytes) in ctx.state.scan().prefix(&prefix).entries_raw() {
            let row: Row = postcard::from_bytes(&bytes)?;
            let figure = match by {
                By::Distance => here.metres_to(row.place),
                By::Rate => u32::MAX - row.rate,
                By::Price => row.price,
            };
            if figure < least || best.is_empty() {
                least = figure;
                best.clear();
            }
            if figure == least {
                best.push(key[prefix.len()..].to_owned());
            }
        }
        Ok(best)
    }
}
