//! A run: worlds one after the other until enough transactions have ended.

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::check::{Checked, Failure};
use crate::figures::Figures;
use crate::world::{Report, World};

/// Result of a run.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Run {
    /// Counters.
    pub figures: Figures,
    /// Worlds that were simulated.
    pub worlds: u64,
    /// Hash of all traces.
    pub trace: u64,
    /// The first broken check and the seed of its world.
    #[serde(skip)]
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
    let mut run = Run::default();
    go_on(&mut run, seed, transactions, |world, report, _| tell(world, report));
    run
}

/// Goes on with a run that has come so far.
pub fn go_on(run: &mut Run, seed: u64, transactions: u64, mut tell: impl FnMut(u64, &Report, &Run)) {
    while run.figures.transactions < transactions && run.failure.is_none() {
        let world = world_seed(seed, run.worlds);
        if let Some(report) = add(run, world) {
            tell(world, &report, run);
        }
    }
}

/// A run of this world alone.
pub fn alone(world: u64) -> Run {
    let mut run = Run::default();
    add(&mut run, world);
    run
}

/// Simulates one more world of a run.
fn add(run: &mut Run, world: u64) -> Option<Report> {
    run.worlds += 1;
    let mut simulated = World::new(world, false);
    let result = within_limit(world, || simulate(&mut simulated));
    run.figures.add(&simulated.figures());
    match result {
        Ok(report) => {
            run.trace = run.trace.rotate_left(7) ^ report.trace;
            Some(report)
        }
        Err(failure) => {
            run.failure = Some((world, failure));
            None
        }
    }
}

/// How much time of processors may be used while a world is simulated: a thousand times what most take. Others may leave a
/// campaign next to none of them.
const LIMIT: Duration = Duration::from_secs(300);

/// How long it may take in any case: a world that waits for something uses none.
const PATIENCE: Duration = Duration::from_secs(7200);

/// Time of processors that this process has used.
fn used() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// Simulates a world; one that does not end is named, and ends the program.
fn within_limit<T>(world: u64, simulate: impl FnOnce() -> T) -> T {
    let (ended, waits) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let (begun, before) = (Instant::now(), used());
        while waits.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            let (took, used) = (begun.elapsed(), used() - before);
            if used < LIMIT && took < PATIENCE {
                continue;
            }
            let (used, took) = (used.as_secs(), took.as_secs());
            let late = format!(
                "broken: time limit: world {world} has not ended after {used} s of processors, {took} s in all"
            );
            // Not a macro, whose output a test keeps for itself.
            let _ = writeln!(std::io::stderr(), "{late}\nstyx-dst --world {world} --verbose shows it again");
            std::process::exit(1);
        }
    });
    let result = simulate();
    drop(ended);
    watchdog.join().expect("it waits");
    result
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a world; a panic is a broken check like any other.
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
