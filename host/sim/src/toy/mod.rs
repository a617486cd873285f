//! A toy guest language whose reads decide its writes, scans, calls and aborts.
//!
//! A program is bytes and travels in the arguments of its request; a call carries a part of the
//! caller's program. What a program does is folded into an accumulator, which is its result: a
//! single wrong read anywhere below gives another reply.

mod code;
mod executor;
mod generate;
mod interpret;
pub mod keys;
mod lists;

pub use code::{Bound, Call, Op, Place, Scan, decode, show};
pub use executor::Toy;
pub use generate::Shape;
pub use interpret::{World, at_once, fold, interpret};
pub use lists::{Entity, Lists, Micro, Workload, micros};

use styx_protocol::deployment::{
    Component, Consistency, Deployment, Digest, Function, Isolation, Limits, OperatorSpec,
};
use styx_protocol::ids::Timestamp;

/// The only app.
pub const APP: &str = "toy";
/// Its operators; the second has composite keys.
pub const OPERATORS: [&str; 2] = ["plain", "composite"];
/// The functions of each; the second is read-only, the third, which is never called by another, asks
/// for snapshot isolation.
pub const FUNCTIONS: [&str; 3] = ["f", "q", "s"];

/// The arguments that run `code` with the accumulator at `start` on a space of `keys` keys.
pub fn args(start: u8, keys: u8, code: &[u8]) -> Vec<u8> {
    let mut args = vec![start, keys];
    args.extend_from_slice(code);
    args
}

/// The same; of every three versions, one has keys the other way about.
pub fn rekeyed(number: u64) -> Deployment {
    let mut deployment = deployment(number);
    if number.is_multiple_of(3) {
        for operator in &mut deployment.operators {
            operator.key_prefix = operator.key_prefix.is_none().then(|| "p".into());
        }
    }
    deployment
}

/// Version `number` of the app. Every version computes something else; of every eight, one lacks
/// the second operator, one the read-only function, one asks for no snapshots, and three have narrow limits.
pub fn deployment(number: u64) -> Deployment {
    let function = |name: &str, read_only, consistency| Function {
        name: name.into(),
        parameters: vec![],
        returns: "{}".into(),
        read_only,
        consistency,
        doc: String::new(),
    };
    let serializable = Consistency::Serializable;
    let mut functions = vec![function(FUNCTIONS[0], false, serializable)];
    if number % 8 != 5 {
        functions.push(function(FUNCTIONS[1], true, serializable));
    }
    let snapshot = if number % 8 == 2 { serializable } else { Consistency::Snapshot };
    functions.push(function(FUNCTIONS[2], false, snapshot));
    let operator = |name: &str, key_prefix: Option<&str>| OperatorSpec {
        name: name.into(),
        component: 0,
        key_prefix: key_prefix.map(Into::into),
        isolation: Isolation::Warm,
        doc: String::new(),
        state: Default::default(),
        functions: functions.clone(),
    };
    let mut operators = vec![operator(OPERATORS[0], None)];
    if number % 8 != 7 {
        operators.push(operator(OPERATORS[1], Some("p")));
    }
    let digest = Digest([(number % 251) as u8; 32]);
    Deployment {
        id: format!("dp_{number}"),
        app: APP.into(),
        created: Timestamp(0),
        components: vec![Component { name: "toy".into(), digest, size: 0, sdk: "toy".into() }],
        operators,
        limits: Limits {
            calls: if number % 8 == 3 { 4 } else { 1000 },
            call_depth: if number % 8 == 6 { 2 } else { 64 },
            rw_set: if number % 8 == 4 { 6 } else { 1000 },
            ..Limits::default()
        },
        interface: Default::default(),
    }
}
