//! `styx:guest/state`: the entities of the running function's operator.

use std::ops::Bound;

use styx_protocol::attempt::{Attempt, Locality, RemoteResponse};
use styx_protocol::entity::{Key, Value};
use wasmtime::component::{ComponentType, Lift, LinkerInstance, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut};

use super::remote;
use crate::guest::{Guest, with_attempt};

#[derive(ComponentType, Lift)]
#[component(variant)]
enum KeyBound {
    #[component(name = "unbounded")]
    Unbounded,
    #[component(name = "included")]
    Included(Key),
    #[component(name = "excluded")]
    Excluded(Key),
}

impl From<KeyBound> for Bound<Key> {
    fn from(bound: KeyBound) -> Self {
        match bound {
            KeyBound::Unbounded => Bound::Unbounded,
            KeyBound::Included(key) => Bound::Included(key),
            KeyBound::Excluded(key) => Bound::Excluded(key),
        }
    }
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct KeyRange {
    prefix: String,
    lower: KeyBound,
    upper: KeyBound,
}

/// Price of an entry of a scan, in bytes, besides its own.
const ENTRY_BYTES: usize = 32;

/// What an entry of a scan costs.
pub(crate) fn entry_bytes(key: &Key, value: &Value) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

/// Fuel that an access to an entity costs besides its bytes, about the time that its execution, reservation, validation and
/// commit take: so a budget of fuel bounds the machine steps of an epoch, too. Each access pays the same, wherever it is
/// executed and whatever was accessed before.
pub(crate) const ACCESS_FUEL: usize = 1000;

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>, clustered: bool) -> Result<()> {
    type Cx<'a> = StoreContextMut<'a, Guest>;
    remote::add(
        linker,
        clustered,
        "get",
        |cx, attempt, (key,): (WasmStr,)| {
            let key = key.to_str(cx)?;
            Ok((attempt.get(&key), ACCESS_FUEL + key.len()))
        },
        |attempt, responses| Locality::Local(attempt.got(responses)),
        |value| {
            let moved = bytes(&value);
            ((value,), moved)
        },
    )?;
    remote::add(
        linker,
        clustered,
        "put",
        |cx, attempt, (key, value): (WasmStr, WasmList<u8>)| {
            let key = key.to_str(cx)?;
            Ok((attempt.put(&key, value.as_le_slice(cx)), ACCESS_FUEL + key.len() + value.len()))
        },
        acknowledged,
        |()| ((), 0),
    )?;
    remote::add(
        linker,
        clustered,
        "delete",
        |cx, attempt, (key,): (WasmStr,)| {
            let key = key.to_str(cx)?;
            Ok((attempt.delete(&key), ACCESS_FUEL + key.len()))
        },
        acknowledged,
        |()| ((), 0),
    )?;
    remote::add(
        linker,
        clustered,
        "scan",
        |_, attempt, (range, limit, reverse): (KeyRange, u32, bool)| {
            Ok((attempt.scan(&range.prefix, range.lower.into(), range.upper.into(), limit, reverse), 0))
        },
        Attempt::scanned,
        |entries| {
            let moved: usize = entries.iter().map(|(key, value)| entry_bytes(key, value)).sum();
            ((entries,), moved)
        },
    )?;
    // The own entity is where its function runs.
    linker.func_wrap("get-own", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| {
            let value = attempt.get_own();
            let moved = bytes(&value);
            Ok(((value,), moved))
        })
    })?;
    linker.func_wrap("put-own", |mut cx: Cx<'_>, (value,): (WasmList<u8>,)| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.put_own(value.as_le_slice(cx));
            Ok(((), value.len()))
        })
    })?;
    linker.func_wrap("delete-own", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| {
            attempt.delete_own();
            Ok(((), 0))
        })
    })
}

fn acknowledged(attempt: &mut Attempt, responses: Vec<RemoteResponse>) -> Locality<()> {
    attempt.noted(responses);
    Locality::Local(())
}

fn bytes(value: &Option<Value>) -> usize {
    value.as_ref().map_or(0, |value| value.len())
}
