//! `styx:guest/state`: the entities of the running function's operator.

use std::ops::Bound;

use styx_protocol::entity::Key;
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

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>) -> Result<()> {
    linker.func_wrap("get", |mut cx: StoreContextMut<'_, Guest>, (key,): (WasmStr,)| {
        with_attempt(&mut cx, |cx, attempt| Ok((attempt.get(&key.to_str(cx)?),)))
    })?;
    linker.func_wrap("put", |mut cx: StoreContextMut<'_, Guest>, (key, value): (WasmStr, WasmList<u8>)| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.put(&key.to_str(cx)?, value.as_le_slice(cx));
            Ok(())
        })
    })?;
    linker.func_wrap("delete", |mut cx: StoreContextMut<'_, Guest>, (key,): (WasmStr,)| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.delete(&key.to_str(cx)?);
            Ok(())
        })
    })?;
    linker.func_wrap("scan", |mut cx: StoreContextMut<'_, Guest>, (range, limit, reverse): (KeyRange, u32, bool)| {
        with_attempt(&mut cx, |_, attempt| Ok((attempt.scan(&range.prefix, range.lower.into(), range.upper.into(), limit, reverse),)))
    })?;
    linker.func_wrap("get-own", |mut cx: StoreContextMut<'_, Guest>, ()| with_attempt(&mut cx, |_, attempt| Ok((attempt.get_own(),))))?;
    linker.func_wrap("put-own", |mut cx: StoreContextMut<'_, Guest>, (value,): (WasmList<u8>,)| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.put_own(value.as_le_slice(cx));
            Ok(())
        })
    })?;
    linker.func_wrap("delete-own", |mut cx: StoreContextMut<'_, Guest>, ()| {
        with_attempt(&mut cx, |_, attempt| {
            attempt.delete_own();
            Ok(())
        })
    })
}
