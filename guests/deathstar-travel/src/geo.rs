//! Where hotels are. Places are in millionths of a degree: whole numbers, alike in every language.

use styx_sdk::prelude::*;

/// As far as a search looks.
const NEARBY_METRES: u32 = 10_000;
/// As many hotels as it finds.
const NEAREST: usize = 5;

/// A latitude and a longitude, in millionths of a degree.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Place {
    /// North of the equator.
    pub latitude: i32,
    /// East of Greenwich.
    pub longitude: i32,
}

impl Place {
    /// Metres between two places of a city, where the earth is flat enough.
    pub fn metres_to(self, other: Place) -> u32 {
        const METRES: f64 = 0.111_195;
        // Only operations that round alike everywhere, in an order that is written down: no library's cosine.
        let radians = f64::from(self.latitude) * 1.745_329_251_994_329_5e-8;
        let square = radians * radians;
        let cosine = 1.0 - square / 2.0 + square * square / 24.0 - square * square * square / 720.0;
        let north = f64::from(other.latitude) - f64::from(self.latitude);
        let east = (f64::from(other.longitude) - f64::from(self.longitude)) * cosine;
        ((north * north + east * east).sqrt() * METRES) as u32
    }
}

/// The operator `geo`.
pub struct Geo;

#[operator(name = "geo", key_prefix = "city")]
/// Where hotels are, by `city:hotel`.
impl Geo {
    /// Adds a hotel, or moves it.
    pub fn insert(ctx: &mut Context, latitude: i32, longitude: i32) -> Result<()> {
        ctx.state.put_raw(&postcard::to_allocvec(&Place { latitude, longitude })?);
        Ok(())
    }

    /// The hotels of the key's city that are nearest, up to five within ten kilometres: [hotel, metres].
    #[function(read_only)]
    pub fn nearby(ctx: &Context, latitude: i32, longitude: i32) -> Result<Vec<(String, u32)>> {
        let here = Place { latitude, longitude };
        let prefix = format!("{}:", ctx.key());
        let mut found = Vec::new();
        for (key, bytes) in ctx.state.scan().prefix(&prefix).entries_raw() {
            let metres = here.metres_to(postcard::from_bytes(&bytes)?);
            if metres <= NEARBY_METRES {
                found.push((metres, key[prefix.len()..].to_owned()));
            }
        }
        found.sort_unstable();
        found.truncate(NEAREST);
        Ok(found.into_iter().map(|(metres, hotel)| (hotel, metres)).collect())
    }
}
