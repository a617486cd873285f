//! `styx:guest/context`: what the transaction knows about itself.

use wasmtime::component::LinkerInstance;
use wasmtime::{Result, StoreContextMut};

use crate::guest::{Guest, with_attempt};

pub(super) fn add(linker: &mut LinkerInstance<'_, Guest>) -> Result<()> {
    type Cx<'a> = StoreContextMut<'a, Guest>;
    // Names are copied rather than shared: their counts would bounce between threads.
    linker.func_wrap("app", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| Ok(((attempt.app().to_string(),), 0)))
    })?;
    linker.func_wrap("operator", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| Ok(((attempt.operator().name.to_string(),), 0)))
    })?;
    linker.func_wrap("key", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| Ok(((attempt.frame().entity.key().clone(),), 0)))
    })?;
    linker.func_wrap("tid", |mut cx: Cx<'_>, ()| with_attempt(&mut cx, |_, attempt| Ok(((attempt.tid().0,), 0))))?;
    linker.func_wrap("request-id", |mut cx: Cx<'_>, ()| {
        with_attempt(&mut cx, |_, attempt| Ok(((attempt.request_id().to_string(),), 0)))
    })?;
    linker.func_wrap("time", |mut cx: Cx<'_>, ()| with_attempt(&mut cx, |_, attempt| Ok(((attempt.time().0,), 0))))?;
    linker.func_wrap("random", |mut cx: Cx<'_>, ()| with_attempt(&mut cx, |_, attempt| Ok(((attempt.random(),), 0))))
}
