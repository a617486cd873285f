//! Programs by chance. Each simulated world draws a shape of its own, so that some worlds are full
//! of scans, some of calls, some of nothing but writes to two keys.

use super::{Bound, Call, Op, Place, Scan};
use crate::random::Random;

/// Shape of the programs of one world.
#[derive(Clone, Debug)]
pub struct Shape {
    pub keys: u8,
    /// Keys that are one of the first two, in a thousand.
    pub hot: u32,
    /// Keys that the accumulator chooses, in a thousand.
    pub dynamic: u32,
    /// How often a step is three: read, go where that points, write; in a thousand. Whose first
    /// read changes goes elsewhere when it runs again.
    pub chase: u32,
    /// Most steps of one function.
    pub steps_max: u64,
    /// Calls nested in each other.
    pub depth_max: u32,
    /// How often each kind of step is taken, in the order of [`Op`].
    pub weights: [u32; 12],
}

impl Shape {
    /// Draws a shape.
    pub fn draw(random: &mut Random) -> Self {
        let mut weights = [8, 5, 4, 2, 2, 4, 4, 4, 2, 3, 1, 1];
        for weight in &mut weights[1..] {
            match random.below(6) {
                0 => *weight = 0,
                1 => *weight *= 5,
                _ => {}
            }
        }
        // A world without any write has nothing to get wrong.
        weights[1] = weights[1].max(2);
        Shape {
            keys: random.pick(&[2, 3, 4, 5, 8, 16, 60, 200]),
            hot: random.pick(&[0, 0, 200, 500]),
            dynamic: random.pick(&[50, 200, 400]),
            chase: random.pick(&[0, 0, 150, 400]),
            steps_max: random.between(2, 7),
            depth_max: random.between(0, 3) as u32,
            weights,
        }
    }

    /// A key of the space.
    pub fn key(&self, random: &mut Random) -> u8 {
        if random.chance(self.hot) { random.below(2) as u8 } else { random.below(u64::from(self.keys)) as u8 }
    }

    /// A program; a pure one neither writes nor calls what may.
    pub fn program(&self, random: &mut Random, pure: bool) -> Vec<u8> {
        let mut budget = 4 * self.steps_max;
        self.body(random, pure, self.depth_max, &mut budget)
    }

    fn place(&self, random: &mut Random) -> Place {
        if random.chance(self.dynamic) {
            Place::Dynamic
        } else if random.chance(300) {
            Place::Own
        } else {
            Place::Key(self.key(random))
        }
    }

    fn bound(&self, random: &mut Random) -> Bound {
        match random.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.place(random)),
            _ => Bound::Included(self.place(random)),
        }
    }

    /// Steps of one function; `budget` bounds those of all functions together.
    fn body(&self, random: &mut Random, pure: bool, depth: u32, budget: &mut u64) -> Vec<u8> {
        let mut code = Vec::new();
        for _ in 0..random.between(1, self.steps_max) {
            if *budget == 0 {
                break;
            }
            *budget -= 1;
            if random.chance(self.chase) {
                self.chase(random, pure, &mut code);
                continue;
            }
            let kind = match random.weighted(&self.weights) {
                1..=4 if pure => 0,
                6 | 7 if depth == 0 => 0,
                kind => kind,
            };
            let body = match kind {
                6 | 7 => self.body(random, pure, depth - 1, budget),
                _ => Vec::new(),
            };
            let call = |random: &mut Random| Call {
                operator: random.below(2) as u8,
                function: u8::from(pure || random.chance(30)),
                place: self.place(random),
                pass: random.chance(500),
                body: &body,
            };
            let op = match kind {
                0 => Op::Read(self.place(random)),
                1 => Op::Write(self.place(random)),
                2 => Op::WriteIfOdd(self.place(random)),
                3 => Op::Delete(self.place(random)),
                4 => Op::DeleteIfOdd(self.place(random)),
                5 => Op::Scan(Scan {
                    prefix: random.chance(200).then(|| random.below(4) as u8),
                    lower: self.bound(random),
                    upper: self.bound(random),
                    limit: random.below(4) as u8,
                    reverse: random.chance(400),
                }),
                6 => Op::Call(call(random)),
                7 => Op::CallAsync(call(random)),
                8 => Op::AbortIfMultipleOf(random.below(5) as u8),
                9 => Op::SkipIfOdd(random.between(1, 3) as u8),
                10 => Op::Time,
                _ => Op::Random,
            };
            op.encode(&mut code);
        }
        code
    }

    /// Reads a key, goes where that points, and writes.
    fn chase(&self, random: &mut Random, pure: bool, code: &mut Vec<u8>) {
        Op::Read(self.place(random)).encode(code);
        let lower = Bound::Included(Place::Dynamic);
        match random.below(4) {
            0 if !pure => Op::Write(Place::Dynamic),
            1 => Op::Scan(Scan { prefix: None, lower, upper: Bound::Unbounded, limit: 2, reverse: random.chance(300) }),
            _ => Op::Read(Place::Dynamic),
        }
        .encode(code);
        if !pure {
            Op::Write(self.place(random)).encode(code);
        }
    }
}
