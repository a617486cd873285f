//! What the calls of an attempt have taken, for whoever watches it. Nothing depends on it: the clock is the caller's, and
//! who is not watched pays for a look at an absent profile.

use styx_protocol::attempt::Attempt;
use styx_protocol::entity::Entity;

use crate::executor::Executor;

/// Most calls that are noted of one attempt.
pub const PROFILED_MAX: usize = 256;

/// Calls that have ended, in that order.
#[derive(Debug)]
pub struct Profile {
    pub(crate) clock: fn() -> u64,
    pub calls: Vec<ProfiledCall>,
    /// There were more.
    pub cut: bool,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct ProfiledCall {
    /// Its place in the graph; those of what it called follow from it.
    pub place: u64,
    /// Calls that it has issued.
    pub issued: u32,
    pub entity: Entity,
    /// Index of the function in the operator.
    pub function: u16,
    pub read_only: bool,
    /// Whether it was called asynchronously, where that is kept.
    pub asynchronous: Option<bool>,
    pub begun: u64,
    pub ended: u64,
    /// Used meanwhile, also by what it called here and waited for.
    pub fuel: u64,
}

/// A call that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub at: u64,
    pub fuel: u64,
}

impl Profile {
    fn new(clock: fn() -> u64) -> Self {
        Profile { clock, calls: Vec::new(), cut: false }
    }

    pub(crate) fn note(&mut self, attempt: &Attempt, begun: Begun) {
        if self.calls.len() >= PROFILED_MAX {
            self.cut = true;
            return;
        }
        let frame = attempt.frame();
        self.calls.push(ProfiledCall {
            place: frame.place(),
            issued: frame.issued(),
            entity: frame.entity.clone(),
            function: frame.function,
            read_only: frame.read_only,
            asynchronous: frame.asynchronous(),
            begun: begun.at,
            ended: (self.clock)(),
            fuel: attempt.used().fuel.saturating_sub(begun.fuel),
        });
    }
}

impl Executor {
    /// Watches what is executed next, by this clock.
    pub fn watch(&mut self, clock: fn() -> u64) {
        self.resources.as_mut().expect("no attempt is under way").profile = Some(Box::new(Profile::new(clock)));
    }

    /// Watches no more, and says what was seen of the last attempt.
    pub fn watched(&mut self) -> Option<Box<Profile>> {
        self.resources.as_mut().expect("no attempt is under way").profile.take()
    }
}
