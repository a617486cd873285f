//! `styx:guest/state`: the entities of the running function's operator.

use std::ops::Bound;

use styx_protocol::entity::{Key, Value};
use wasmtime::component::{ComponentType, Lift, LinkerInstance, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut};

use crate::guest::{Guest, with_attempt};

/// `bound`.
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

/// `key-range`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct KeyRange {
    prefix: String,
    lower: KeyBound,
    upper: KeyBound,
}

/// What an entry of a scan costs besides its bytes.
const ENTRY_BYTES: usize = 32;

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>) -> Result<()> {
    type Cx<'a> = StoreContextMut<'a, Guest>;
    linker.func_wrap("get", |mut cx: Cx<'_>, (key,): (WasmStr,)| {
        with_attempt(&mut cx, |cx, attempt| {
            let key = key.to_str(cx)?;
            let value = attempt.get(&key).here();
            let moved = key.len() + bytes(&value);
            Ok(((value,), moved))
        })
    })?;
    linker.func_wrap("put", |mut cx: Cx<'_>, (key, value): (WasmStr, WasmList<u8>)| {
        with_attempt(&mut cx, |cx, attempt| {
            let key = key.to_str(cx)?;
            attempt.put(&key, value.as_le_slice(cx)).here();
            Ok(((), key.len() + value.len()))
        })
    })?;
    linker.func_wrap("delete", |mut cx: Cx<'_>, (key,): (WasmStr,)| {
        with_attempt(&mut cx, |cx, attempt| {
            let key = key.to_str(cx)?;
            attempt.delete(&key).here();
            Ok(((), key.len()))
        })
    })?;
    linker.func_wrap("scan", |mut cx: Cx<'_>, (range, limit, reverse): (KeyRange, u32, bool)| {
        with_attempt(&mut cx, |_, attempt| {
            let entries = attempt.scan(&range.prefix, range.lower.into(), range.upper.into(), limit, reverse).here();
            let moved: usize = entries.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES).sum();
            Ok(((entries,), moved))
        })
    })?;
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

fn bytes(value: &Option<Value>) -> usize {
    value.as_ref().map_or(0, |value| value.len())
}
