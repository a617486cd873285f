//! `styx:guest/calls`: calls to other functions of the app, inside the same transaction.

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Next, call};
use styx_protocol::entity::Value;
use wasmtime::component::{LinkerInstance, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut};

use crate::guest::{Guest, put, take, with_attempt};
use crate::invocation::{Context, Invocation};
use crate::outcome::Failure;

type Cx<'a> = StoreContextMut<'a, Guest>;
type Target = (WasmStr, WasmStr, WasmStr, WasmList<u8>);

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>, clustered: bool) -> Result<()> {
    if clustered {
        linker.func_wrap_async("call", |mut cx: Cx<'_>, (operator, key, function, args): Target| {
            Box::new(async move {
                let mut context = take(&mut cx)?;
                let next: Result<Next> = (|| {
                    let (operator, key, function) = (operator.to_str(&cx)?, key.to_str(&cx)?, function.to_str(&cx)?);
                    Ok(context.attempt.call(&operator, &key, &function, args.as_le_slice(&cx)))
                })();
                let (context, result) = match next {
                    Ok(next) => {
                        let (context, result) = context.finish(next).await;
                        (context, Ok(result))
                    }
                    Err(error) => (context, Err(error)),
                };
                returned(&mut cx, context, args.len(), result)
            })
        })?;
    } else {
        linker.func_wrap("call", |mut cx: Cx<'_>, (operator, key, function, args): Target| {
            let mut invocation = Invocation::new(take(&mut cx)?);
            // The callee runs in another Store while this guest's memory is borrowed.
            let result: Result<_> = (|| {
                let (operator, key, function) = (operator.to_str(&cx)?, key.to_str(&cx)?, function.to_str(&cx)?);
                Ok(call(&mut invocation, &operator, &key, &function, args.as_le_slice(&cx)))
            })();
            returned(&mut cx, invocation.into_inner(), args.len(), result)
        })?;
    }
    linker.func_wrap("call-async", |mut cx: Cx<'_>, (operator, key, function, args): Target| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.call_async(&operator.to_str(cx)?, &key.to_str(cx)?, &function.to_str(cx)?, args.as_le_slice(cx));
            Ok(((), args.len()))
        })
    })
}

/// The result of `call` for the guest, or the error that it traps with.
fn returned(
    cx: &mut Cx<'_>,
    context: Box<Context>,
    passed: usize,
    result: Result<std::result::Result<Value, Abort>>,
) -> Result<(std::result::Result<Value, Failure>,)> {
    let returned = result.as_ref().map_or(0, |result| result.as_ref().map_or(0, |value| value.len()));
    put(cx, context, passed + returned)?;
    result.map(|result| (result.map_err(Failure::from),))
}
