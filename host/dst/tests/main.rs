//! Tests of simulated worlds, in one program: it is compiled once, and its tests share the processors.

mod bad_input;
mod histories;
mod known;
mod migrations;
mod simulation;
mod split;
mod steps;

use std::fmt::Display;

use styx_dst::run::simulate;
use styx_dst::world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs a world, made without notes. One that breaks is made again with them, which tell its history.
fn comes_through(name: impl Display, world: impl Fn(bool) -> World) -> World {
    let mut simulated = world(false);
    if let Err(failure) = simulate(&mut simulated) {
        let mut again = world(true);
        let _ = simulate(&mut again);
        again.history(&failure).iter().for_each(|line| println!("{line}"));
        panic!("{name}: {failure:?}");
    }
    simulated
}
