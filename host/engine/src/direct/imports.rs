//! The imports of `wit/guest.wit` as core functions. What they do is in [`crate::imports`]: these take their parameters
//! apart, and charge what the function in between, which a component has for each that uses memory, would have cost.

use std::ops::Bound;

use styx_protocol::attempt::{Attempt, Functions, call};
use styx_protocol::entity::{Key, Value};
use wasmtime::{AsContextMut, Caller, Engine, Linker, Result, StoreContextMut, Trap, bail};

use super::{Exports, abi};
use crate::guest::{Guest, put, take, with_context};
use crate::imports::{ACCESS_FUEL, entry_bytes, level_of};
use crate::invocation::{Context, Invocation};
use crate::limits::clip_line;
use crate::outcome::Failure;

type Cx<'a> = StoreContextMut<'a, Guest>;
type Guests<'a> = Caller<'a, Guest>;

/// Sizes of what imports leave: `option<list<u8>>` and `result<list<u8>, failure>`.
const OPTION_BYTES: usize = 12;
const RESULT_BYTES: usize = 20;

/// A linker with all of them. For guests on the stack of their thread: who needs another worker has to run again.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    state(&mut linker)?;
    calls(&mut linker)?;
    context(&mut linker)?;
    logging(&mut linker)?;
    Ok(linker)
}

/// Fuel of the function in between: it gets its parameters, and calls by a number; and any function costs one.
const fn between(parameters: usize) -> usize {
    parameters + 3
}

/// That function does not begin without fuel.
fn begin(cx: &Cx<'_>) -> Result<()> {
    if cx.get_fuel()? == 0 {
        return Err(Trap::OutOfFuel.into());
    }
    Ok(())
}

/// Runs `f` on the attempt and the guest's memory. Besides its result it says what it costs, apart from what is `between`.
fn with<R>(cx: &mut Cx<'_>, between: usize, f: impl FnOnce(&[u8], &mut Attempt) -> Result<(R, usize)>) -> Result<R> {
    with_all(cx, between, |memory, context| f(memory, &mut context.attempt))
}

/// As [`with`], for what may need another worker.
fn with_all<R>(
    cx: &mut Cx<'_>,
    between: usize,
    f: impl FnOnce(&[u8], &mut Context) -> Result<(R, usize)>,
) -> Result<R> {
    if between > 0 {
        begin(cx)?;
    }
    with_context(cx, |cx, context| {
        let (result, work) = f(Exports::memory(cx.data())?.data(cx), context)?;
        Ok((result, work + between))
    })
}

/// Leaves an `option<list<u8>>` where the guest wants it.
fn give(cx: &mut Cx<'_>, at: u32, value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => {
            let [value, length] = abi::lower(cx, value)?;
            abi::store_case(cx, at, OPTION_BYTES, 1, &[value, length])
        }
        None => abi::store_case(cx, at, OPTION_BYTES, 0, &[]),
    }
}

fn state(linker: &mut Linker<Guest>) -> Result<()> {
    const STATE: &str = "styx:guest/state@0.2.0";
    linker.func_wrap(STATE, "get", |mut caller: Guests<'_>, key: u32, key_length: u32, at: u32| {
        let cx = &mut caller.as_context_mut();
        let value = with_all(cx, between(3), |memory, context| {
            let key = abi::text(memory, key, key_length)?;
            let found = context.attempt.get(key);
            let value = context.here(found);
            let moved = value.as_ref().map_or(0, |value| value.len());
            Ok((value, ACCESS_FUEL + key.len() + moved))
        })?;
        give(cx, at, value.as_deref())
    })?;
    linker.func_wrap(STATE, "put", |mut caller: Guests<'_>, key: u32, key_length: u32, value: u32, length: u32| {
        with_all(&mut caller.as_context_mut(), between(4), |memory, context| {
            let (key, value) = (abi::text(memory, key, key_length)?, abi::bytes(memory, value, length)?);
            let written = context.attempt.put(key, value);
            context.here(written);
            Ok(((), ACCESS_FUEL + key.len() + value.len()))
        })
    })?;
    linker.func_wrap(STATE, "delete", |mut caller: Guests<'_>, key: u32, key_length: u32| {
        with_all(&mut caller.as_context_mut(), between(2), |memory, context| {
            let key = abi::text(memory, key, key_length)?;
            let deleted = context.attempt.delete(key);
            context.here(deleted);
            Ok(((), ACCESS_FUEL + key.len()))
        })
    })?;
    linker.func_wrap(
        STATE,
        "scan",
        |mut caller: Guests<'_>,
         prefix: u32,
         prefix_length: u32,
         lower: u32,
         lower_key: u32,
         lower_length: u32,
         upper: u32,
         upper_key: u32,
         upper_length: u32,
         limit: u32,
         reverse: u32,
         at: u32| {
            let cx = &mut caller.as_context_mut();
            let entries: Vec<(Key, Value)> = with_all(cx, between(11), |memory, context| {
                let prefix = abi::text(memory, prefix, prefix_length)?;
                let lower = bound(memory, lower, lower_key, lower_length)?;
                let upper = bound(memory, upper, upper_key, upper_length)?;
                let found = context.attempt.scan(prefix, lower, upper, limit, reverse != 0);
                let entries = context.here(found);
                let moved: usize = entries.iter().map(|(key, value)| entry_bytes(key, value)).sum();
                Ok((entries, moved))
            })?;
            let [list, length] = abi::lower_entries(cx, &entries)?;
            abi::store(cx, at, &[list, length])
        },
    )?;
    linker.func_wrap(STATE, "get-own", |mut caller: Guests<'_>, at: u32| {
        let cx = &mut caller.as_context_mut();
        let value = with(cx, between(1), |_, attempt| {
            let value = attempt.get_own();
            let moved = value.as_ref().map_or(0, |value| value.len());
            Ok((value, moved))
        })?;
        give(cx, at, value.as_deref())
    })?;
    linker.func_wrap(STATE, "put-own", |mut caller: Guests<'_>, value: u32, length: u32| {
        with(&mut caller.as_context_mut(), between(2), |memory, attempt| {
            let value = abi::bytes(memory, value, length)?;
            attempt.put_own(value);
            Ok(((), value.len()))
        })
    })?;
    linker.func_wrap(STATE, "delete-own", |mut caller: Guests<'_>| {
        with(&mut caller.as_context_mut(), 0, |_, attempt| {
            attempt.delete_own();
            Ok(((), 0))
        })
    })?;
    Ok(())
}

fn bound(memory: &[u8], end: u32, key: u32, length: u32) -> Result<Bound<Key>> {
    Ok(match end {
        0 => Bound::Unbounded,
        1 => Bound::Included(abi::text(memory, key, length)?.into()),
        2 => Bound::Excluded(abi::text(memory, key, length)?.into()),
        other => bail!("unexpected discriminant: {other}"),
    })
}

fn calls(linker: &mut Linker<Guest>) -> Result<()> {
    const CALLS: &str = "styx:guest/calls@0.2.0";
    linker.func_wrap(
        CALLS,
        "call",
        |mut caller: Guests<'_>,
         read: u32,
         change: u32,
         value: u32,
         value_length: u32,
         operator: u32,
         operator_length: u32,
         key: u32,
         key_length: u32,
         function: u32,
         function_length: u32,
         args: u32,
         args_length: u32,
         at: u32| {
            let cx = &mut caller.as_context_mut();
            begin(cx)?;
            let mut invocation = Invocation::new(take(cx)?);
            // The callee runs in another Store while this guest's memory is borrowed.
            let result: Result<_> = (|| {
                let memory = Exports::memory(cx.data())?.data(&*cx);
                let before =
                    abi::entity_access(read, change, value, value_length, |at, length| abi::bytes(memory, at, length))?;
                let args = abi::bytes(memory, args, args_length)?;
                let settled = before.settle(invocation.attempt(), |attempt, value| {
                    attempt.put_own(value);
                    value.len()
                });
                let operator = abi::text(memory, operator, operator_length)?;
                let key = abi::text(memory, key, key_length)?;
                let function = abi::text(memory, function, function_length)?;
                Ok((settled + args.len(), call(&mut invocation, operator, key, function, args)))
            })();
            let work = result
                .as_ref()
                .map_or(0, |(passed, result)| passed + result.as_ref().map_or(0, |value| value.len()) + between(13));
            put(cx, invocation.into_inner(), work)?;
            match result?.1 {
                Ok(value) => {
                    let [value, length] = abi::lower(cx, &value)?;
                    abi::store_case(cx, at, RESULT_BYTES, 0, &[value, length])
                }
                Err(abort) => {
                    let failure = Failure::from(abort);
                    let [code, code_length] = abi::lower(cx, failure.code.as_bytes())?;
                    let [message, length] = abi::lower(cx, failure.message.as_bytes())?;
                    abi::store_case(cx, at, RESULT_BYTES, 1, &[code, code_length, message, length])
                }
            }
        },
    )?;
    linker.func_wrap(
        CALLS,
        "call-async",
        |mut caller: Guests<'_>,
         operator: u32,
         operator_length: u32,
         key: u32,
         key_length: u32,
         function: u32,
         function_length: u32,
         args: u32,
         args_length: u32| {
            with(&mut caller.as_context_mut(), between(8), |memory, attempt| {
                let operator = abi::text(memory, operator, operator_length)?;
                let key = abi::text(memory, key, key_length)?;
                let function = abi::text(memory, function, function_length)?;
                let args = abi::bytes(memory, args, args_length)?;
                attempt.call_async(operator, key, function, args);
                Ok(((), args.len()))
            })
        },
    )?;
    Ok(())
}

fn context(linker: &mut Linker<Guest>) -> Result<()> {
    const CONTEXT: &str = "styx:guest/context@0.2.0";
    type Text = fn(&Attempt) -> Key;
    type Number = fn(&mut Attempt) -> u64;
    let texts: [(&str, Text); 4] = [
        ("app", |attempt| (&**attempt.app()).into()),
        ("operator", |attempt| (&*attempt.operator().name).into()),
        ("key", |attempt| attempt.frame().entity.key().clone()),
        ("request-id", |attempt| attempt.request_id().to_string().into()),
    ];
    for (name, text) in texts {
        linker.func_wrap(CONTEXT, name, move |mut caller: Guests<'_>, at: u32| {
            let cx = &mut caller.as_context_mut();
            let text = with(cx, between(1), |_, attempt| Ok((text(attempt), 0)))?;
            let [text, length] = abi::lower(cx, text.as_bytes())?;
            abi::store(cx, at, &[text, length])
        })?;
    }
    let numbers: [(&str, Number); 3] =
        [("tid", |attempt| attempt.tid().0), ("time", |attempt| attempt.time().0), ("random", Attempt::random)];
    for (name, number) in numbers {
        linker.func_wrap(CONTEXT, name, move |mut caller: Guests<'_>| {
            with(&mut caller.as_context_mut(), 0, |_, attempt| Ok((number(attempt), 0)))
        })?;
    }
    Ok(())
}

fn logging(linker: &mut Linker<Guest>) -> Result<()> {
    linker.func_wrap(
        "styx:guest/logging@0.2.0",
        "log",
        |mut caller: Guests<'_>, level: u32, message: u32, length: u32| {
            let cx = &mut caller.as_context_mut();
            if !cx.data().is_called() {
                return Ok(());
            }
            with(cx, between(3), |memory, attempt| {
                let Some(level) = level_of(level) else { bail!("unexpected discriminant: {level}") };
                let message = abi::text(memory, message, length)?;
                attempt.log(level, clip_line(message).to_owned());
                Ok(((), message.len()))
            })
        },
    )?;
    Ok(())
}
