//! Transactions: what they read decides what they write, which keys they touch, with which
//! parameters, and whether they abort.
//!
//! A transaction is a tree of functions, one per key that it touches. Each reads its key, may
//! write it and may call functions on other keys. The order is the serial one: a callee runs after
//! its caller, callees of one caller in the order of their keys, depth first. An abort ends it.
//! A function returns a value to its caller, who may add what its callees return to what it writes
//! and returns itself.

/// How many keys there are.
pub const KEYS: usize = 3;
/// One per key.
pub type Values = [u8; KEYS];
/// A transaction's place in the total order.
pub type Tid = u8;

/// What one function did on one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// The key's new value.
    pub writes: Option<u8>,
    /// Per key: the parameter of the call to it, if there is one.
    pub calls: [Option<u8>; KEYS],
    /// Whether the whole transaction aborts here.
    pub aborts: bool,
    /// What it returns to its caller.
    pub returns: u8,
    /// Whether what its callees return is added to what it writes and returns.
    pub adds: bool,
}

/// What a caller gets of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Returned {
    Value(u8),
    /// It aborted or drifted, and its caller comes to nothing either.
    Nothing,
}

impl Did {
    /// Reads only.
    pub fn read() -> Self {
        Did::default()
    }

    pub fn write(value: u8) -> Self {
        Did { writes: Some(value), ..Did::default() }
    }

    /// And calls another key.
    pub fn call(mut self, key: usize, parameter: u8) -> Self {
        self.calls[key] = Some(parameter);
        self
    }

    pub fn returns(self, value: u8) -> Self {
        Did { returns: value, ..self }
    }

    /// And adds what its callees return to what it writes and returns.
    pub fn adds(self) -> Self {
        Did { adds: true, ..self }
    }

    /// With what its callees returned, in all.
    pub fn plus(self, sum: u8) -> Self {
        let sum = if self.adds { sum } else { 0 };
        Did { writes: self.writes.map(|value| value + sum), returns: self.returns + sum, ..self }
    }

    pub fn abort() -> Self {
        Did { aborts: true, ..Did::default() }
    }
}

#[derive(Clone, Copy)]
pub struct Transaction {
    /// The key whose function is called first; its owner is the root.
    pub root: usize,
    /// The functions of all keys: (key, parameter, value read) -> what happens.
    pub function: fn(usize, u8, u8) -> Did,
}

/// One function's run within an execution.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where it ran.
    pub key: usize,
    /// What it was called with.
    pub parameter: u8,
    pub read: u8,
    pub did: Did,
}

/// A whole transaction's run on one state.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// In serial order.
    pub parts: Vec<Part>,
    /// Whether the last part aborted.
    pub aborted: bool,
}

/// What a client is told: all that the transaction read, and whether it aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome {
    /// Per key: the value read, if it was.
    pub reads: [Option<u8>; KEYS],
    /// Whether nothing was written because it aborted.
    pub aborted: bool,
}

impl Transaction {
    /// Runs the transaction on a state, alone.
    pub fn execute(&self, state: &Values) -> Execution {
        let mut execution = Execution::default();
        self.visit(self.root, 0, state, &mut execution);
        execution
    }

    fn visit(&self, key: usize, parameter: u8, state: &Values, execution: &mut Execution) -> u8 {
        assert!(execution.part(key).is_none(), "a transaction of the model calls each key once");
        let did = (self.function)(key, parameter, state[key]);
        let at = execution.parts.len();
        execution.parts.push(Part { key, parameter, read: state[key], did });
        execution.aborted |= did.aborts;
        let mut sum = 0;
        for (callee, parameter) in did.calls.iter().enumerate() {
            if let (Some(parameter), false) = (parameter, execution.aborted) {
                sum += self.visit(callee, *parameter, state, execution);
            }
        }
        execution.parts[at].did = did.plus(sum);
        execution.parts[at].did.returns
    }
}

impl Execution {
    /// What ran on a key.
    pub fn part(&self, key: usize) -> Option<&Part> {
        self.parts.iter().find(|part| part.key == key)
    }

    /// Who called a key's function.
    pub fn caller(&self, key: usize) -> Option<&Part> {
        self.parts.iter().find(|part| part.did.calls[key].is_some())
    }

    /// Whether it wrote (or would have, had it not aborted later).
    pub fn wrote(&self, key: usize) -> bool {
        self.part(key).is_some_and(|part| part.did.writes.is_some())
    }

    /// Whether it changes anything.
    pub fn is_writer(&self) -> bool {
        !self.aborted && self.parts.iter().any(|part| part.did.writes.is_some())
    }

    /// What the client is told.
    pub fn outcome(&self) -> Outcome {
        let mut reads = [None; KEYS];
        self.parts.iter().for_each(|part| reads[part.key] = Some(part.read));
        Outcome { reads, aborted: self.aborted }
    }

    /// Applies its writes.
    pub fn apply(&self, state: &mut Values) {
        for part in self.parts.iter().filter(|_| !self.aborted) {
            state[part.key] = part.did.writes.unwrap_or(state[part.key]);
        }
    }
}

/// Dependencies of one transaction on lower TIDs of its epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bits {
    waw: bool,
    raw: bool,
    war: bool,
}

impl Bits {
    /// Joins what another worker saw.
    pub fn or(self, other: Bits) -> Bits {
        Bits { waw: self.waw | other.waw, raw: self.raw | other.raw, war: self.war | other.war }
    }
}

/// The conflict bits of an epoch's executions, given in TID order, as seen on some of the keys.
/// Only what writes holds reservations: a transaction that writes nothing precedes all writers.
pub fn conflicts(executions: &[Execution], here: impl Fn(usize) -> bool) -> Vec<Bits> {
    let bits = |at: usize| {
        let mut bits = Bits::default();
        for lower in executions[..at].iter().filter(|lower| lower.is_writer()) {
            for part in executions[at].parts.iter().filter(|part| here(part.key)) {
                let (written, read) = (lower.wrote(part.key), lower.part(part.key).is_some());
                bits.waw |= part.did.writes.is_some() && written;
                bits.raw |= written;
                bits.war |= part.did.writes.is_some() && read;
            }
        }
        bits
    };
    (0..executions.len()).map(bits).collect()
}

/// What becomes of a transaction after the lock-free phase, in the order of the claimed ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Wrote nothing: precedes all writers.
    ReadOnly,
    /// Read what a lower TID overwrites: commits before it; among these the highest TID is first.
    Early,
    /// Commits in TID order.
    Commit,
    /// Runs again in the fallback.
    Conflict,
}

/// Judges a transaction by the bits of all workers.
pub fn judge(execution: &Execution, bits: Bits) -> Verdict {
    match (execution.is_writer(), bits.waw, bits.raw, bits.war) {
        (false, _, true, _) if execution.aborted => Verdict::Conflict,
        (false, ..) => Verdict::ReadOnly,
        (true, true, ..) | (true, _, true, true) => Verdict::Conflict,
        (true, false, true, false) => Verdict::Early,
        (true, false, false, _) => Verdict::Commit,
    }
}

/// What a function found when it ran again under locks, with its cached parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Found {
    /// It stayed within its locks and made the same calls; it read this.
    Kept(u8),
    /// It left its locks or its calls.
    Drifted,
    /// It aborts; it read this.
    Aborted(u8),
}

/// Compares a function's second run with its first.
pub fn compare(cached: &Part, read: u8, did: &Did) -> Found {
    let beyond_locks = did.writes.is_some() && cached.did.writes.is_none();
    if did.aborts {
        Found::Aborted(read)
    } else if cached.did.aborts || beyond_locks || did.calls != cached.did.calls {
        // Where the first run aborted, the call graph ended; now it would go on.
        Found::Drifted
    } else {
        Found::Kept(read)
    }
}
