//! `styx:guest/calls`: calls to other functions of the app, inside the same transaction.

use styx_protocol::abort::Abort;
use styx_protocol::attempt::{Attempt, Next, call};
use styx_protocol::entity::Value;
use wasmtime::component::{ComponentNamedList, Lift, LinkerInstance, WasmList, WasmStr};
use wasmtime::{Result, StoreContextMut};

use crate::contract::{EntityAccess, Version};
use crate::guest::{Guest, put, take, with_attempt};
use crate::invocation::{Context, Invocation};
use crate::outcome::Failure;

type Cx<'a> = StoreContextMut<'a, Guest>;
type Target = (WasmStr, WasmStr, WasmStr, WasmList<u8>);
/// What the guest did to its own entity before, and has not said yet.
type Before = EntityAccess<WasmList<u8>>;

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>, clustered: bool, version: Version) -> Result<()> {
    match version {
        Version::Asking => add_call(linker, clustered, |target: Target| (Before::NONE, target))?,
        Version::Told => add_call(
            linker,
            clustered,
            |(before, operator, key, function, args): (Before, WasmStr, WasmStr, WasmStr, WasmList<u8>)| {
                (before, (operator, key, function, args))
            },
        )?,
    }
    linker.func_wrap("call-async", |mut cx: Cx<'_>, (operator, key, function, args): Target| {
        with_attempt(&mut cx, |cx, attempt| {
            attempt.call_async(&operator.to_str(cx)?, &key.to_str(cx)?, &function.to_str(cx)?, args.as_le_slice(cx));
            Ok(((), args.len()))
        })
    })
}

/// Adds `call`; `parts` takes its parameters apart.
fn add_call<P>(linker: &mut LinkerInstance<'_, Guest>, clustered: bool, parts: fn(P) -> (Before, Target)) -> Result<()>
where
    P: ComponentNamedList + Lift + Send + 'static,
{
    if clustered {
        return linker.func_wrap_async("call", move |mut cx: Cx<'_>, parameters: P| {
            Box::new(async move {
                let (before, (operator, key, function, args)) = parts(parameters);
                let mut context = take(&mut cx)?;
                let settled = settle(&cx, &mut context.attempt, before);
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
                returned(&mut cx, context, settled + args.len(), result)
            })
        });
    }
    linker.func_wrap("call", move |mut cx: Cx<'_>, parameters: P| {
        let (before, (operator, key, function, args)) = parts(parameters);
        let mut context = take(&mut cx)?;
        let settled = settle(&cx, &mut context.attempt, before);
        let mut invocation = Invocation::new(context);
        // The callee runs in another Store while this guest's memory is borrowed.
        let result: Result<_> = (|| {
            let (operator, key, function) = (operator.to_str(&cx)?, key.to_str(&cx)?, function.to_str(&cx)?);
            Ok(call(&mut invocation, &operator, &key, &function, args.as_le_slice(&cx)))
        })();
        returned(&mut cx, invocation.into_inner(), settled + args.len(), result)
    })
}

/// What is called, and what is called by that, sees what the guest did to its own entity. Gives the bytes moved.
fn settle(cx: &Cx<'_>, attempt: &mut Attempt, before: Before) -> usize {
    before.settle(attempt, |attempt, value| {
        attempt.put_own(value.as_le_slice(cx));
        value.len()
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
