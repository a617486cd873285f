//! Programs whose histories say all that they did: each names its keys, and shows what it reads, so
//! that a checker which knows only what clients saw can find what is wrong.

use std::fmt;

use super::{Call, OPERATORS, Op, Place, decode, keys};
use crate::random::Random;

/// Programs whose histories say all: they name the keys that they touch, and show what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Values are lists that grow.
    Append,
    /// Values are numbers, each written once.
    Register,
}

/// Operation of a program on one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Micro {
    /// Adds an element to the list of an entity.
    Append(Entity, u8),
    Write(Entity, u16),
    Read(Entity),
}

/// An entity: the index of its operator, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity(u8, &'static str);

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", OPERATORS[usize::from(self.0)], self.1)
    }
}

/// Draws such programs. A list holds eight elements; then another key takes its place.
#[derive(Debug)]
pub struct Lists {
    /// Keys in use, and how much was written to each.
    active: Vec<(u8, u16)>,
    next: u64,
}

const ELEMENTS: u16 = 8;

impl Lists {
    /// Programs on a few keys at a time.
    pub fn new(random: &mut Random) -> Self {
        let keys = random.between(2, 8);
        Lists { active: (0..keys).map(|key| (key as u8, 0)).collect(), next: keys }
    }

    /// A program that runs for an entity of an operator.
    pub fn program(&mut self, random: &mut Random, workload: Workload, pure: bool) -> Vec<u8> {
        let mut code = Vec::new();
        for _ in 0..random.between(1, 4) {
            let (key, step) = self.step(random, workload, pure);
            let far = random.chance(500);
            let later = far && !matches!(step, Op::Show(_)) && random.chance(400);
            if !far {
                step.encode(&mut code);
                continue;
            }
            // The entity's own function does it.
            let own = match step {
                Op::Append(_, element) => Op::Append(Place::Own, element),
                Op::Set(_, value) => Op::Set(Place::Own, value),
                _ => Op::Show(Place::Own),
            };
            let body = Op::program(&[own]);
            let (operator, function) = (random.below(2) as u8, u8::from(pure));
            let call = Call { operator, function, place: Place::Key(key), pass: false, body: &body };
            if later { Op::CallAsync(call) } else { Op::Call(call) }.encode(&mut code);
        }
        if random.chance(100) {
            Op::AbortIfMultipleOf(random.below(5) as u8).encode(&mut code);
        }
        code
    }

    /// Writes are told apart by their values, whichever operator's entity they go to.
    fn step(&mut self, random: &mut Random, workload: Workload, pure: bool) -> (u8, Op<'static>) {
        let at = random.below(self.active.len() as u64) as usize;
        let (key, written) = &mut self.active[at];
        let place = Place::Key(*key);
        let full = match workload {
            Workload::Append => *written >= ELEMENTS,
            Workload::Register => *written == u16::MAX,
        };
        if pure || full || random.chance(450) {
            let read = (*key, Op::Show(place));
            // A little later a new key takes the place of a full one, while there are any.
            if full && self.next < keys::COUNT as u64 && random.chance(300) {
                self.active[at] = (self.next as u8, 0);
                self.next += 1;
            }
            return read;
        }
        *written += 1;
        match workload {
            Workload::Append => (*key, Op::Append(place, *written as u8)),
            Workload::Register => (*key, Op::Set(place, *written)),
        }
    }
}

/// Operations of a program, in the order in which they take effect.
pub fn micros(operator: u8, own: &'static str, mut code: &[u8]) -> Vec<Micro> {
    let key = |place| match place {
        Place::Own => own,
        Place::Key(key) => keys::name(u64::from(key)),
        Place::Dynamic => panic!("lists name their keys"),
    };
    let (mut now, mut later) = (Vec::new(), Vec::new());
    while let Some((op, rest)) = decode(code) {
        code = rest;
        match op {
            Op::Append(at, element) => now.push(Micro::Append(Entity(operator, key(at)), element)),
            Op::Set(at, value) => now.push(Micro::Write(Entity(operator, key(at)), value)),
            Op::Show(at) => now.push(Micro::Read(Entity(operator, key(at)))),
            Op::Call(call) => now.extend(micros(call.operator, key(call.place), call.body)),
            Op::CallAsync(call) => later.extend(micros(call.operator, key(call.place), call.body)),
            _ => {}
        }
    }
    now.extend(later);
    now
}
