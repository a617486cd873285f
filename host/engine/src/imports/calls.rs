//! `styx:guest/calls`: calls to other functions of the app, inside the same transaction.

use styx_protocol::attempt::call;
use wasmtime::component::{LinkerInstance, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut};

use crate::context::Carrier;
use crate::guest::{Guest, put, take, with_attempt};
use crate::outcome::Failure;

type Target = (WasmStr, WasmStr, WasmStr, WasmList<u8>);

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>) -> Result<()> {
    linker.func_wrap("call", |mut cx: StoreContextMut<'_, Guest>, (operator, key, function, args): Target| {
        let mut carrier = Carrier::new(take(&mut cx)?);
        // The callee runs in another Store while this guest's memory is borrowed.
        let result: Result<_> = (|| {
            let (operator, key, function) = (operator.to_str(&cx)?, key.to_str(&cx)?, function.to_str(&cx)?);
            Ok(call(&mut carrier, &operator, &key, &function, args.as_le_slice(&cx)))
        })();
        let returned = result.as_ref().map_or(0, |result| result.as_ref().map_or(0, |value| value.len()));
        put(&mut cx, carrier.into_inner(), args.len() + returned)?;
        result.map(|result| (result.map_err(Failure::from),))
    })?;
    linker.func_wrap("call-async", |mut cx: StoreContextMut<'_, Guest>, (operator, key, function, args): Target| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.call_async(&operator.to_str(cx)?, &key.to_str(cx)?, &function.to_str(cx)?, args.as_le_slice(cx));
            Ok(((), args.len()))
        })
    })
}
