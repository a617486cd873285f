//! A run: worlds one after the other until enough transactions have ended.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::check::{Checked, Failure};
use crate::figures::Figures;
use crate::world::{Report, World};

/// Result of a run.
#[derive(Debug)]
pub struct Run {
    /// Counters.
    pub figures: Figures,
    /// Worlds that were simulated.
    pub worlds: u64,
    /// Hash of all traces.
    pub trace: u64,
    /// The first broken check and the seed of its world.
    pub failure: Option<(u64, Failure)>,
}

/// The seed of the world number `at` of a run.
pub fn world_seed(seed: u64, at: u64) -> u64 {
    let mut mixed = seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ mixed >> 32
}

/// Simulates worlds until `transactions` have ended, or a check is broken. Tells of each world.
pub fn run(seed: u64, transactions: u64, mut tell: impl FnMut(u64, &Report)) -> Run {
    let mut run = Run { figures: Figures::default(), worlds: 0, trace: 0, failure: None };
    while run.figures.transactions < transactions {
        let world = world_seed(seed, run.worlds);
        run.worlds += 1;
        let mut simulated = World::new(world, false);
        let result = simulate(&mut simulated);
        run.figures.add(&simulated.figures());
        match result {
            Ok(report) => {
                tell(world, &report);
                run.trace = run.trace.rotate_left(7) ^ report.trace;
            }
            Err(failure) => {
                run.failure = Some((world, failure));
                break;
            }
        }
    }
    run
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a world; a panic is a broken check like any other.
///
/// # Errors
/// A check is broken.
pub fn simulate(world: &mut World) -> Checked<Report> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = PANIC.with_borrow_mut(|panic| panic.as_mut().map(|panic| *panic = info.to_string()));
            if caught.is_none() {
                usual(info);
            }
        }));
    });
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let message = PANIC.take().unwrap_or_default();
    result.unwrap_or_else(|_| Err(Failure::new("halt", message)))
}
