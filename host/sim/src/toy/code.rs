//! Programs as bytes: what they say, how they are written and read.

use std::fmt::Write;

use super::{FUNCTIONS, OPERATORS, keys};

/// Names a key; `Dynamic` lets what was read choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The invoked entity's.
    Own,
    Key(u8),
    /// The one that the accumulator says.
    Dynamic,
}

/// One end of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Open.
    Unbounded,
    /// With the key.
    Included(Place),
    /// Without the key.
    Excluded(Place),
}

/// A scan of the own operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Number of a key whose prefix all results have.
    pub prefix: Option<u8>,
    /// Lower end.
    pub lower: Bound,
    /// Upper end.
    pub upper: Bound,
    /// Most results; 0: all.
    pub limit: u8,
    /// From the upper end down.
    pub reverse: bool,
}

/// A call of another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Index into [`OPERATORS`].
    pub operator: u8,
    /// Index into [`FUNCTIONS`].
    pub function: u8,
    pub place: Place,
    /// Whether the accumulator becomes an argument.
    pub pass: bool,
    /// The callee's program.
    pub body: &'a [u8],
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Folds in what is under a key.
    Read(Place),
    /// Writes the accumulator.
    Write(Place),
    /// Writes the accumulator if it is odd.
    WriteIfOdd(Place),
    /// Removes a key.
    Delete(Place),
    /// Removes a key if the accumulator is odd.
    DeleteIfOdd(Place),
    /// Folds in what a scan finds.
    Scan(Scan),
    /// Folds in the result of a call.
    Call(Call<'a>),
    /// Issues a call.
    CallAsync(Call<'a>),
    /// A logic abort if the accumulator is a multiple.
    AbortIfMultipleOf(u8),
    /// Leaves out that many steps if the accumulator is odd.
    SkipIfOdd(u8),
    /// Folds in the time.
    Time,
    /// Folds in a random number.
    Random,
    /// Takes what is under a key as a list of bytes, and adds one.
    Append(Place, u8),
    /// Writes a number.
    Set(Place, u16),
    /// Folds in what is under a key, and shows it in the result.
    Show(Place),
}

impl Place {
    fn encode(self, code: &mut Vec<u8>) {
        let (kind, value) = match self {
            Place::Own => (0, 0),
            Place::Key(key) => (1, key),
            Place::Dynamic => (2, 0),
        };
        code.extend([kind, value]);
    }
}

impl Bound {
    fn encode(self, code: &mut Vec<u8>) {
        let (kind, place) = match self {
            Bound::Unbounded => (0, Place::Own),
            Bound::Included(place) => (1, place),
            Bound::Excluded(place) => (2, place),
        };
        code.push(kind);
        place.encode(code);
    }
}

impl Call<'_> {
    fn encode(self, code: &mut Vec<u8>) {
        code.push(self.operator | self.function << 1 | u8::from(self.pass) << 2);
        self.place.encode(code);
        code.extend((self.body.len() as u16).to_le_bytes());
        code.extend_from_slice(self.body);
    }
}

impl Op<'_> {
    /// Appends the step to a program.
    pub fn encode(self, code: &mut Vec<u8>) {
        let mut place = |kind, place: Place| {
            code.push(kind);
            place.encode(code);
        };
        match self {
            Op::Read(at) => place(0, at),
            Op::Write(at) => place(1, at),
            Op::WriteIfOdd(at) => place(2, at),
            Op::Delete(at) => place(3, at),
            Op::DeleteIfOdd(at) => place(4, at),
            Op::Scan(scan) => {
                code.extend([5, scan.prefix.map_or(u8::MAX, |prefix| prefix % 4)]);
                scan.lower.encode(code);
                scan.upper.encode(code);
                code.extend([scan.limit, u8::from(scan.reverse)]);
            }
            Op::Call(call) => {
                code.push(6);
                call.encode(code);
            }
            Op::CallAsync(call) => {
                code.push(7);
                call.encode(code);
            }
            Op::AbortIfMultipleOf(n) => code.extend([8, n]),
            Op::SkipIfOdd(n) => code.extend([9, n]),
            Op::Time => code.push(10),
            Op::Random => code.push(11),
            Op::Append(at, element) => {
                code.push(12);
                at.encode(code);
                code.push(element);
            }
            Op::Set(at, value) => {
                code.push(13);
                at.encode(code);
                code.extend(value.to_le_bytes());
            }
            Op::Show(at) => {
                code.push(14);
                at.encode(code);
            }
        }
    }

    /// A program of some steps.
    pub fn program(ops: &[Op<'_>]) -> Vec<u8> {
        let mut code = Vec::new();
        ops.iter().for_each(|op| op.encode(&mut code));
        code
    }
}

/// Rest of a program that is being read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn place(&mut self) -> Option<Place> {
        Some(match (self.byte()?, self.byte()?) {
            (0, _) => Place::Own,
            (1, key) => Place::Key(key),
            (2, _) => Place::Dynamic,
            _ => return None,
        })
    }

    fn bound(&mut self) -> Option<Bound> {
        Some(match (self.byte()?, self.place()?) {
            (0, _) => Bound::Unbounded,
            (1, place) => Bound::Included(place),
            (2, place) => Bound::Excluded(place),
            _ => return None,
        })
    }

    fn call(&mut self) -> Option<Call<'a>> {
        let bits = self.byte()?;
        let place = self.place()?;
        let len = u16::from_le_bytes([self.byte()?, self.byte()?]);
        let (body, rest) = self.0.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(Call { operator: bits & 1, function: bits >> 1 & 1, place, pass: bits & 4 != 0, body })
    }

    fn op(&mut self) -> Option<Op<'a>> {
        Some(match self.byte()? {
            0 => Op::Read(self.place()?),
            1 => Op::Write(self.place()?),
            2 => Op::WriteIfOdd(self.place()?),
            3 => Op::Delete(self.place()?),
            4 => Op::DeleteIfOdd(self.place()?),
            5 => {
                let prefix = Some(self.byte()?).filter(|prefix| *prefix != u8::MAX);
                let (lower, upper) = (self.bound()?, self.bound()?);
                Op::Scan(Scan { prefix, lower, upper, limit: self.byte()?, reverse: self.byte()? != 0 })
            }
            6 => Op::Call(self.call()?),
            7 => Op::CallAsync(self.call()?),
            8 => Op::AbortIfMultipleOf(self.byte()?),
            9 => Op::SkipIfOdd(self.byte()?),
            10 => Op::Time,
            11 => Op::Random,
            12 => Op::Append(self.place()?, self.byte()?),
            13 => Op::Set(self.place()?, u16::from_le_bytes([self.byte()?, self.byte()?])),
            14 => Op::Show(self.place()?),
            _ => return None,
        })
    }
}

/// The first step of a program and what follows it; `None` if these bytes are no program.
pub fn decode(code: &[u8]) -> Option<(Op<'_>, &[u8])> {
    let mut reader = Reader(code);
    let op = reader.op()?;
    Some((op, reader.0))
}

/// A program as text.
pub fn show(mut code: &[u8]) -> String {
    let place = |place: Place| match place {
        Place::Own => "own".to_string(),
        Place::Key(key) => keys::name(u64::from(key)).to_string(),
        Place::Dynamic => "*".to_string(),
    };
    let mut text = String::new();
    while let Some((op, rest)) = decode(code) {
        let call = |call: Call<'_>| {
            let (operator, function) = (OPERATORS[usize::from(call.operator)], FUNCTIONS[usize::from(call.function)]);
            let pass = if call.pass { " with acc" } else { "" };
            format!("{operator}.{function}({}){pass} {{ {} }}", place(call.place), show(call.body))
        };
        let op = match op {
            Op::Read(at) => format!("read {}", place(at)),
            Op::Write(at) => format!("write {}", place(at)),
            Op::WriteIfOdd(at) => format!("if odd write {}", place(at)),
            Op::Delete(at) => format!("delete {}", place(at)),
            Op::DeleteIfOdd(at) => format!("if odd delete {}", place(at)),
            Op::Scan(scan) => format!("{scan:?}"),
            Op::Call(callee) => format!("call {}", call(callee)),
            Op::CallAsync(callee) => format!("send {}", call(callee)),
            Op::AbortIfMultipleOf(n) => format!("abort if multiple of {}", u64::from(n) % 5 + 2),
            Op::SkipIfOdd(n) => format!("if odd skip {n}"),
            Op::Time => "time".into(),
            Op::Random => "random".into(),
            Op::Append(at, element) => format!("append {element} to {}", place(at)),
            Op::Set(at, value) => format!("set {} to {value}", place(at)),
            Op::Show(at) => format!("show {}", place(at)),
        };
        let separator = if text.is_empty() { "" } else { "; " };
        write!(text, "{separator}{op}").expect("writing to a string");
        code = rest;
    }
    text
}
