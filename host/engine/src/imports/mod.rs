//! The imports of `wit/guest.wit`. Every one goes through the attempt, which records it.
//!
//! Written by hand on the hot path: keys and values are borrowed from the guest's memory, results
//! are lowered from shared values, nothing is copied twice. All are synchronous; a call that
//! leaves the process would be an async import beside these, on the same [`Guest`] data.

mod calls;
mod context;
mod logging;
mod state;

use wasmtime::component::Linker;
use wasmtime::{Engine, Result};

use crate::guest::Guest;
use crate::wasi;

pub(crate) use logging::clip;

/// A linker with the contract's imports, and WASI for those who need it.
pub(crate) fn linker(engine: &Engine, wasi: bool) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    state::add(&mut linker.instance("styx:guest/state@0.1.0")?)?;
    calls::add(&mut linker.instance("styx:guest/calls@0.1.0")?)?;
    context::add(&mut linker.instance("styx:guest/context@0.1.0")?)?;
    logging::add(&mut linker.instance("styx:guest/logging@0.1.0")?)?;
    if wasi {
        wasi::add(&mut linker)?;
    }
    Ok(linker)
}
