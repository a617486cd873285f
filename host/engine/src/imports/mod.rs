//! The imports of `wit/guest.wit`, and of 0.1, which differ in `calls.call` only. Every one goes through the attempt, which
//! records it.
//!
//! Written by hand on the hot path: keys and values are borrowed from the guest's memory, results
//! are lowered from shared values, nothing is copied twice. In a cluster, the imports that may need another worker are
//! asynchronous, and the guest runs on a fiber (see `invocation`).

mod calls;
mod context;
mod logging;
mod remote;
mod state;

pub(crate) use logging::level_of;
pub(crate) use state::{ACCESS_FUEL, entry_bytes};

use wasmtime::component::Linker;
use wasmtime::{Engine, Result};

use crate::contract::Version;
use crate::guest::Guest;
use crate::wasi;

/// A linker with the contract's imports, and WASI for those who need it; `clustered` where a guest
/// may have to wait for other workers.
pub(crate) fn linker(engine: &Engine, wasi: bool, clustered: bool) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    for (version, number) in [(Version::Asking, "0.1.0"), (Version::Told, "0.2.0")] {
        let name = |interface: &str| format!("styx:guest/{interface}@{number}");
        state::add(&mut linker.instance(&name("state"))?, clustered)?;
        calls::add(&mut linker.instance(&name("calls"))?, clustered, version)?;
        context::add(&mut linker.instance(&name("context"))?)?;
        logging::add(&mut linker.instance(&name("logging"))?)?;
    }
    if wasi {
        wasi::add(&mut linker)?;
    }
    Ok(linker)
}
