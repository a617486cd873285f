//! Which mutant is on: a number from the environment, read before `main`. Compiled into the copies only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// None is.
const OFF: u32 = 0;
/// Asks whether anybody reads the number: see `init`.
const PROBE: u32 = u32::MAX;
/// What the probe exits with.
const ANSWER: i32 = 77;

static ON: AtomicU32 = AtomicU32::new(OFF);
static REACHED: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub fn on(mutant: u32) -> bool {
    ON.load(Ordering::Relaxed) == mutant && reached()
}

/// Leaves a mark, once: what was never reached was never tested.
#[cold]
#[inline(never)]
fn reached() -> bool {
    if !REACHED.swap(true, Ordering::Relaxed)
        && let Some(mark) = std::env::var_os("STYX_MUTANT_REACHED")
    {
        std::fs::write(mark, []).expect("the directory of marks is there");
    }
    true
}

extern "C" fn init() {
    let Ok(number) = std::env::var("STYX_MUTANT") else { return };
    let number = number.parse().expect("a mutant is a number");
    if number == PROBE {
        std::process::exit(ANSWER);
    }
    ON.store(number, Ordering::Relaxed);
}

#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static INIT: extern "C" fn() = init;
