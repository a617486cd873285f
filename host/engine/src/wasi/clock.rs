//! The clocks: the transaction's logged time, which passes only when the guest reads it or sleeps.

use std::pin::Pin;

use styx_protocol::ids::Timestamp;
use wasmtime::Result;
use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// 2026-01-01T00:00Z: what the clock shows at start-up, the same in every instance.
const START_NANOSECONDS: u64 = 1_767_225_600_000_000_000;

/// Advance of the monotonic clock each time it is read, so that loops that wait for it end.
const STEP_NANOSECONDS: u64 = 1_000;

/// The time of one invocation.
pub(super) struct Clock {
    nanoseconds: u64,
}

impl Clock {
    pub fn at_start() -> Self {
        Clock { nanoseconds: START_NANOSECONDS }
    }

    pub fn at(time: Timestamp) -> Self {
        Clock { nanoseconds: time.0.saturating_mul(1000) }
    }

    fn advance(&mut self, nanoseconds: u64) {
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }
}

pub(super) struct Clocks;
impl HasData for Clocks {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a> {
    pub clock: &'a mut Clock,
    pub table: &'a mut ResourceTable,
}

impl View<'_> {
    /// A sleep is over at once; the clock has moved.
    fn elapsed(&mut self) -> Result<Resource<DynPollable>> {
        let elapsed = self.table.push(Elapsed)?;
        subscribe(self.table, elapsed)
    }
}

impl wall_clock::Host for View<'_> {
    fn now(&mut self) -> Result<wall_clock::Datetime> {
        let now = self.clock.nanoseconds;
        Ok(wall_clock::Datetime { seconds: now / 1_000_000_000, nanoseconds: (now % 1_000_000_000) as u32 })
    }

    fn resolution(&mut self) -> Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: 1_000 })
    }
}

impl monotonic_clock::Host for View<'_> {
    fn now(&mut self) -> Result<monotonic_clock::Instant> {
        self.clock.advance(STEP_NANOSECONDS);
        Ok(self.clock.nanoseconds)
    }

    fn resolution(&mut self) -> Result<monotonic_clock::Duration> {
        Ok(STEP_NANOSECONDS)
    }

    fn subscribe_instant(&mut self, when: monotonic_clock::Instant) -> Result<Resource<DynPollable>> {
        self.clock.nanoseconds = self.clock.nanoseconds.max(when);
        self.elapsed()
    }

    fn subscribe_duration(&mut self, duration: monotonic_clock::Duration) -> Result<Resource<DynPollable>> {
        self.clock.advance(duration);
        self.elapsed()
    }
}

/// Something that is always ready.
struct Elapsed;

impl Pollable for Elapsed {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(()))
    }
}
