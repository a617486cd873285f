//! Clocks of a machine: each runs at its own speed from a start of its own, and the one on the wall jumps.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use styx_driver::time::{Instant, Now};
use styx_protocol::ids::Timestamp;

use crate::random::Random;

/// What the clocks on the walls show when a world begins, µs since 1970.
pub const BEGINNING: u64 = 1_700_000_000_000_000;

/// See the module. Clones show the same.
#[derive(Clone, Debug)]
pub struct Clock {
    /// What the monotonic clock shows at the beginning of the world, µs.
    start: u64,
    /// By how much it runs fast, in millionths.
    drift: i64,
    /// Difference between the clock on the wall and the true time, µs.
    offset: Rc<Cell<i64>>,
}

impl Clock {
    /// The clocks of some machine.
    pub fn draw(random: &mut Random) -> Self {
        let start = random.between(1, 1_000_000_000);
        let drift = random.between(0, 400) as i64 - 200;
        let offset = random.between(0, 100_000) as i64 - 50_000;
        Clock { start, drift, offset: Rc::new(Cell::new(offset)) }
    }

    /// Both clocks at a time of the world.
    pub fn at(&self, time: u64) -> Now {
        let drifted = time.saturating_add_signed(time as i64 / 1_000_000 * self.drift);
        let wall = Timestamp((BEGINNING + time).saturating_add_signed(self.offset.get()));
        Now { monotonic: Instant(self.start + drifted), wall }
    }

    /// How long the world waits until the monotonic clock shows `due`; a little longer than that, at the most.
    pub fn until(&self, due: Instant, time: u64) -> u64 {
        let left: Duration = due.since(self.at(time).monotonic);
        let left = left.as_micros() as u64;
        left + left / 1_000
    }

    /// The clock on the wall jumps.
    pub fn jump(&self, by: i64) {
        self.offset.set(self.offset.get() + by);
    }
}
