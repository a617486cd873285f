//! What is explored: a few requests, how they may be cut, how many crashes; and the planted mistakes.

use crate::program::{Did, Transaction, Values};
use crate::world::{
    ABORTS, ALL_OR_NOTHING, DRIFTS, ENDS, FALLS_BACK, GOES_ON, LATE, LOCKS, LOOKS, LOSES_CUT, ONCE, REORDERS, REPLIES,
    SERIAL,
};

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Replies do not wait until the cut is durable.
    ReplyEarly,
    /// Replies wait until some record of their epoch is durable, be it another generation's.
    ReplyByEpoch,
    /// Each worker goes by its own conflict bits.
    BitsNotJoined,
    /// Only the root notices drift.
    DriftAtRootOnly,
    /// An abort counts even where an earlier function drifted.
    AbortBeforeDrift,
    /// A participant applies or drops, and lets go of its locks, as soon as it has run again.
    LocksReleasedEarly,
    /// The fallback runs before the reordered commits are applied.
    FallbackBeforeReordered,
    /// Nodes take messages of an old generation.
    OldMessages,
    /// The log takes appends of an old generation.
    OldAppends,
    /// A result that is late is not dropped.
    LateResultsKept,
    /// A late result is taken for that of the transaction which now has its place in the batch.
    ResultsByPlace,
    /// State is shown that is not durable.
    LookEarly,
    /// State is shown once some record of its epoch is durable, be it another generation's.
    LookByEpoch,
    /// State is shown while an epoch's writes are applied.
    LookMidway,
    /// A record does not say what moves to the next epoch.
    CarriedUnlogged,
}

/// A small world.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// What the keys hold at first.
    pub initial: Values,
    pub transactions: &'static [Transaction],
    /// A new epoch takes those requests of one of these lists that are not cut yet, in its order.
    pub orders: &'static [&'static [usize]],
    /// How many nodes may be lost, at any step.
    pub crashes: u8,
    /// What must happen somewhere, lest the scenario is pointless.
    pub covers: &'static [&'static str],
}

/// The protocol in a scenario, right or with a mistake.
#[derive(Clone, Copy)]
pub struct Protocol {
    pub scenario: Scenario,
    pub mistake: Option<Planted>,
}

impl Protocol {
    /// Whether this mistake is made.
    pub fn planted(&self, mistake: Planted) -> bool {
        self.mistake == Some(mistake)
    }

    pub fn transaction(&self, request: usize) -> &Transaction {
        &self.scenario.transactions[request]
    }
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Adds one to a key.
const INCREMENT_A: Transaction = Transaction { root: A, function: |_, _, value| Did::write(value + 1) };

/// A reads, B gets A's value added.
const A_TO_B: Transaction = Transaction {
    root: A,
    function: |key, parameter, value| match key {
        A => Did::read().call(B, value),
        _ => Did::write(value + parameter),
    },
};

/// B reads, C gets B's value added.
const B_TO_C: Transaction = Transaction {
    root: B,
    function: |key, parameter, value| match key {
        B => Did::read().call(C, value),
        _ => Did::write(value + parameter),
    },
};

/// C reads, A gets C's value added, and one more.
const C_TO_A: Transaction = Transaction {
    root: C,
    function: |key, parameter, value| match key {
        C => Did::read().call(A, value),
        _ => Did::write(value + parameter + 1),
    },
};

/// Adds one to all keys, from A.
const ALL_FROM_A: Transaction = Transaction {
    root: A,
    function: |key, _, value| match key {
        A => Did::write(value + 1).call(B, 0).call(C, 0),
        _ => Did::write(value + 1),
    },
};

/// Adds two to all keys, from B.
const ALL_FROM_B: Transaction = Transaction {
    root: B,
    function: |key, _, value| match key {
        B => Did::write(value + 2).call(A, 0).call(C, 0),
        _ => Did::write(value + 2),
    },
};

/// Doubles all keys, from C.
const ALL_FROM_C: Transaction = Transaction {
    root: C,
    function: |key, _, value| match key {
        C => Did::write(2 * value).call(A, 0).call(B, 0),
        _ => Did::write(2 * value),
    },
};

/// A's function calls B or C, as A's value is even or odd, and adds one to both.
const EVEN_B_ODD_C: Transaction = Transaction {
    root: A,
    function: |key, _, value| match key {
        A => Did::write(value + 1).call(if value % 2 == 0 { B } else { C }, 0),
        _ => Did::write(value + 1),
    },
};

/// Adds one to C; adds one to A once A holds something. Only A's owner can see that it drifts.
const C_AND_A_IF_ANY: Transaction = Transaction {
    root: C,
    function: |key, _, value| match (key, value) {
        (C, _) => Did::write(value + 1).call(A, 0),
        (_, 0) => Did::read(),
        _ => Did::write(value + 1),
    },
};

/// Reads B, and C gets one more than A: what A passes on drifts although the root's functions do not.
const B_THEN_A_TO_C: Transaction = Transaction {
    root: B,
    function: |key, parameter, value| match key {
        B => Did::write(value + 1).call(A, 0),
        A => Did::write(value + 1).call(C, value),
        _ => Did::write(value + parameter),
    },
};

/// Takes one from A and gives it to B; aborts if there is none.
const TAKE_FROM_A: Transaction = Transaction {
    root: B,
    function: |key, _, value| match (key, value) {
        (B, _) => Did::write(value + 1).call(A, 0),
        (_, 0) => Did::abort(),
        _ => Did::write(value - 1),
    },
};

/// B gets A's value added; B's function aborts if that is nothing.
const A_TO_B_IF_ANY: Transaction = Transaction {
    root: A,
    function: |key, parameter, value| match (key, parameter) {
        (A, _) => Did::read().call(B, value),
        (_, 0) => Did::abort(),
        _ => Did::write(value + parameter),
    },
};

/// Sells one of B, of which the rest is C's: A gets what B and C return, B what C returns. Aborts if there is none.
const SELL: Transaction = Transaction {
    root: A,
    function: |key, _, value| match (key, value) {
        (A, _) => Did::write(value).call(B, 0).adds(),
        (B, 0) => Did::abort(),
        (B, _) => Did::write(value - 1).call(C, 0).adds().returns(1),
        _ => Did::write(value + 1).returns(value),
    },
};

/// Takes all of B.
const EMPTY_B: Transaction = Transaction { root: B, function: |_, _, _| Did::write(0) };

/// Puts one to B and one to C.
const FILL_B: Transaction = Transaction {
    root: B,
    function: |key, _, value| match key {
        B => Did::write(value + 1).call(C, 0),
        _ => Did::write(value + 1),
    },
};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "reordering",
        about: "a chain commits backwards, one more falls back behind it",
        initial: [1, 2, 3],
        transactions: &[INCREMENT_A, A_TO_B, B_TO_C, C_TO_A],
        orders: &[&[0, 1, 2, 3]],
        crashes: 1,
        covers: &[REORDERS, DRIFTS],
    },
    Scenario {
        name: "hot keys",
        about: "all write all three keys, from three roots",
        initial: [1, 1, 1],
        transactions: &[ALL_FROM_A, ALL_FROM_B, ALL_FROM_C],
        orders: &[&[0, 1, 2]],
        crashes: 1,
        covers: &[FALLS_BACK],
    },
    Scenario {
        name: "drift",
        about: "reads decide what is called and written, and whether it aborts",
        initial: [0, 0, 0],
        transactions: &[ALL_FROM_A, C_AND_A_IF_ANY, EVEN_B_ODD_C, TAKE_FROM_A],
        orders: &[&[0, 1, 2, 3], &[3, 2], &[1, 0]],
        crashes: 0,
        covers: &[DRIFTS, FALLS_BACK, ABORTS],
    },
    Scenario {
        name: "passing on",
        about: "reads decide what the root's callee passes on; others wait for its locks",
        initial: [1, 1, 1],
        transactions: &[INCREMENT_A, B_THEN_A_TO_C, ALL_FROM_C],
        orders: &[&[0, 1, 2]],
        crashes: 1,
        covers: &[DRIFTS, FALLS_BACK],
    },
    Scenario {
        name: "results",
        about: "functions wait for what their callees on other workers return, or abort and do not",
        initial: [0, 1, 0],
        transactions: &[EMPTY_B, SELL, FILL_B, FILL_B, SELL],
        orders: &[&[0, 1], &[2], &[3, 4]],
        crashes: 0,
        covers: &[ABORTS, FALLS_BACK, LATE],
    },
    Scenario {
        name: "looks",
        about: "a lost cut had come to another state",
        initial: [0, 0, 0],
        transactions: &[INCREMENT_A, FILL_B],
        orders: &[&[0], &[1]],
        crashes: 1,
        covers: &[LOSES_CUT],
    },
    Scenario {
        name: "other cut",
        about: "a lost cut comes out otherwise",
        initial: [0, 0, 0],
        transactions: &[INCREMENT_A, A_TO_B_IF_ANY],
        orders: &[&[0, 1], &[1, 0]],
        crashes: 1,
        covers: &[DRIFTS, ABORTS, LOSES_CUT],
    },
];

/// Where a mistake must show.
pub struct Hunt {
    pub mistake: Planted,
    pub scenario: &'static str,
    /// How many crashes it takes.
    pub crashes: u8,
    pub breaks: &'static [&'static str],
}

pub const HUNTS: &[Hunt] = &[
    Hunt { mistake: Planted::ReplyEarly, scenario: "other cut", crashes: 1, breaks: &[REPLIES] },
    Hunt { mistake: Planted::ReplyByEpoch, scenario: "other cut", crashes: 1, breaks: &[REPLIES] },
    Hunt { mistake: Planted::BitsNotJoined, scenario: "reordering", crashes: 0, breaks: &[GOES_ON, ENDS] },
    Hunt { mistake: Planted::DriftAtRootOnly, scenario: "passing on", crashes: 0, breaks: &[SERIAL] },
    Hunt { mistake: Planted::AbortBeforeDrift, scenario: "other cut", crashes: 0, breaks: &[SERIAL] },
    Hunt {
        mistake: Planted::LocksReleasedEarly,
        scenario: "passing on",
        crashes: 0,
        breaks: &[SERIAL, LOCKS, ALL_OR_NOTHING],
    },
    Hunt { mistake: Planted::FallbackBeforeReordered, scenario: "reordering", crashes: 0, breaks: &[SERIAL] },
    Hunt { mistake: Planted::OldMessages, scenario: "other cut", crashes: 1, breaks: &[SERIAL, REPLIES] },
    Hunt { mistake: Planted::OldAppends, scenario: "other cut", crashes: 1, breaks: &[ONCE, REPLIES] },
    Hunt { mistake: Planted::LateResultsKept, scenario: "results", crashes: 0, breaks: &[GOES_ON] },
    Hunt { mistake: Planted::ResultsByPlace, scenario: "results", crashes: 0, breaks: &[SERIAL] },
    Hunt { mistake: Planted::LookEarly, scenario: "looks", crashes: 0, breaks: &[LOOKS] },
    Hunt { mistake: Planted::LookByEpoch, scenario: "looks", crashes: 1, breaks: &[LOOKS] },
    Hunt { mistake: Planted::CarriedUnlogged, scenario: "reordering", crashes: 1, breaks: &[GOES_ON, ENDS] },
    Hunt { mistake: Planted::LookMidway, scenario: "drift", crashes: 0, breaks: &[LOOKS] },
];
