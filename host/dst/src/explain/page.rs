//! A world as a page: a lane for each node, time from left to right, messages as arrows.

use std::collections::BTreeMap;

use super::timeline::{LATE, is_beat};
use crate::check::Failure;
use crate::world::World;

/// The page, but for what happened.
const PAGE: &str = include_str!("page.html");

/// A page that needs nothing else.
pub fn page(seed: u64, world: &World, failure: Option<&Failure>) -> String {
    let roles = world.roles().into_iter().enumerate().map(|(at, role)| format!("n{at} {role:?}").to_lowercase());
    let moments = world.moments();
    let dull: Vec<usize> = (0..moments.len()).filter(|at| is_beat(&moments[*at])).collect();
    let told = serde_json::json!({
        "world": seed.to_string(),
        "lanes": roles.collect::<Vec<_>>(),
        "failure": failure.map(|failure| format!("{}: {}", failure.check, failure.message)),
        "about": failure.map_or_else(Vec::new, |failure| failure.tids.iter().map(|tid| tid.0).collect()),
        "late": LATE,
        "tids": tids(world),
        "dull": dull,
        "moments": moments,
    });
    // Nothing in it ends the script.
    PAGE.replace("/*WORLD*/null", &told.to_string().replace("</", "<\\/"))
}

/// The transactions of each request, by its id.
fn tids(world: &World) -> BTreeMap<String, Vec<u64>> {
    world.transactions().iter().map(|(id, tids)| (id.to_string(), tids.iter().map(|tid| tid.0).collect())).collect()
}
