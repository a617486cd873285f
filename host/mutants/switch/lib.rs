//! Which mutant is on: a number from the environment, read before `main`. Compiled into the copies only.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// None is.
const OFF: u32 = 0;
/// Asks whether anybody reads the number: see `init`.
const PROBE: u32 = u32::MAX;
/// What the probe exits with.
const ANSWER: i32 = 77;
/// None is on, and all that are reached are noted.
const NOTE: u32 = u32::MAX - 1;
/// There are fewer mutants.
const NUMBERS: usize = 1 << 20;

static ON: AtomicU32 = AtomicU32::new(OFF);
/// Bits of a number that are compared: none, if every mutant that is reached is noted.
static COMPARED: AtomicU32 = AtomicU32::new(u32::MAX);
static REACHED: [AtomicBool; NUMBERS] = [const { AtomicBool::new(false) }; NUMBERS];

#[inline(always)]
pub fn on(mutant: u32) -> bool {
    (ON.load(Ordering::Relaxed) ^ mutant) & COMPARED.load(Ordering::Relaxed) == 0 && reached(mutant)
}

#[cold]
#[inline(never)]
fn reached(mutant: u32) -> bool {
    REACHED[mutant as usize].store(true, Ordering::Relaxed);
    ON.load(Ordering::Relaxed) == mutant
}

extern "C" fn init() {
    let Ok(number) = std::env::var("STYX_MUTANT") else { return };
    let number = number.parse().expect("a mutant is a number");
    if number == PROBE {
        std::process::exit(ANSWER);
    }
    if number == NOTE {
        COMPARED.store(0, Ordering::Relaxed);
    }
    ON.store(number, Ordering::Relaxed);
}

/// What was never reached was never tested.
extern "C" fn note() {
    if COMPARED.load(Ordering::Relaxed) == 0
        && let Some(file) = std::env::var_os("STYX_MUTANTS_REACHED")
    {
        let reached = (0..NUMBERS as u32).filter(|number| REACHED[*number as usize].load(Ordering::Relaxed));
        let bytes: Vec<u8> = reached.flat_map(u32::to_le_bytes).collect();
        std::fs::write(file, bytes).expect("the directory of notes is there");
    }
}

#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static INIT: extern "C" fn() = init;

#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_term_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".fini_array"))]
static NOTES: extern "C" fn() = note;
