//! Data of a Store: the transaction while a call runs in it, the memory limit, and WASI.

use styx_protocol::attempt::Attempt;
use wasmtime::{Result, StoreContextMut, Trap, format_err};
use wasmtime_wasi::{WasiCtxView, WasiView};

use crate::direct::Exports;
use crate::invocation::Context;
use crate::limits::TABLE_ELEMENTS_MAX;
use crate::memory::{MemoryShare, Refused};
use crate::wasi::{Wasi, WasiData};

/// Fuel left to a guest whose transaction is already decided, to end in good order (an interpreter
/// raises and unwinds), so that its instance can be used again.
const GRACE_FUEL: u64 = 2_000_000;

/// Fuel that an import costs, about its time in instructions; and a unit for each byte moved, as
/// for WebAssembly's own `memory.copy`. Otherwise a loop over imports would outlast its fuel.
const IMPORT_FUEL: u64 = 100;

/// Lines that are kept of what is logged while no call is under way.
const SAID_MAX: usize = 8;

/// A Store's data.
pub(crate) struct Guest {
    /// The transaction; here only while a call runs in this instance itself.
    context: Option<Box<Context>>,
    /// Linear memory in use and allowed.
    pub memory: Memory,
    /// For components that import WASI.
    pub wasi: Option<Box<Wasi>>,
    /// What imports need of the instance, if it is a module's.
    pub exports: Option<Exports>,
    /// Fuel withheld from a guest whose transaction is decided.
    withheld: Option<u64>,
    /// What it has logged at start-up and in `describe`, the first lines of it: why it ends there, if it does.
    said: Vec<String>,
}

impl Guest {
    /// `share` of what all guests get; of its own, if none.
    pub fn new(memory_max: usize, share: Option<MemoryShare>, wasi: Option<Box<Wasi>>) -> Self {
        let memory = Memory { max: memory_max, used: 0, denied: None, share, starting: true };
        Guest { context: None, memory, wasi, exports: None, withheld: None, said: Vec::new() }
    }

    /// A call begins.
    pub fn enter(&mut self, mut context: Box<Context>, memory_max: usize) {
        self.memory.max = memory_max;
        self.memory.denied = None;
        self.memory.starting = false;
        if let Some(share) = &mut self.memory.share {
            share.patient = context.resources.patient;
        }
        self.withheld = None;
        if let Some(wasi) = &mut self.wasi {
            wasi.begin(&mut context.attempt);
        }
        self.context = Some(context);
    }

    /// The call is over: the transaction goes back, with the fuel that was withheld from the call.
    pub fn leave(&mut self) -> (Box<Context>, u64) {
        let mut context = self.context.take().expect("imports put the transaction back");
        if let Some(share) = &mut self.memory.share {
            share.release();
        }
        if let Some(wasi) = &mut self.wasi {
            wasi.drain_output(&mut context.attempt);
        }
        (context, self.withheld())
    }

    /// Fuel that was withheld from the last call.
    pub fn withheld(&self) -> u64 {
        self.withheld.unwrap_or(0)
    }

    /// The transaction of the call that is under way.
    pub fn attempt(&self) -> &Attempt {
        &self.context.as_ref().expect("a call is under way").attempt
    }

    /// Whether a call is under way: not so at start-up and in `describe`.
    pub fn is_called(&self) -> bool {
        self.context.is_some()
    }

    /// Notes a line that is logged while no call is under way.
    pub fn say(&mut self, line: &str) {
        if self.said.len() < SAID_MAX {
            self.said.push(line.to_owned());
        }
    }

    /// The first line that was logged while no call was under way.
    pub fn said(&self) -> Option<&str> {
        self.said.iter().flat_map(|said| said.lines()).map(str::trim).find(|line| !line.is_empty())
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiData::wasi(self).0.view()
    }
}

impl WasiData for Guest {
    fn wasi(&mut self) -> (&mut Wasi, Option<&mut Attempt>) {
        let wasi = self.wasi.as_deref_mut().expect("WASI is linked to those that carry it only");
        (wasi, self.context.as_deref_mut().map(|context| &mut *context.attempt))
    }
}

/// Takes the transaction out of the Store, so that the guest's memory can be borrowed meanwhile.
pub(crate) fn take(cx: &mut StoreContextMut<'_, Guest>) -> Result<Box<Context>> {
    let guest = cx.data_mut();
    let mut context = guest
        .context
        .take()
        .ok_or_else(|| format_err!("an import of styx:guest was called outside of an invocation"))?;
    if let Some(wasi) = &mut guest.wasi {
        wasi.drain_output(&mut context.attempt);
    }
    Ok(context)
}

/// Puts the transaction back, and charges for what the host did: `work`, a unit for each byte moved, besides a fixed
/// price. If the transaction is decided by now, the guest is given little fuel to end.
pub(crate) fn put(cx: &mut StoreContextMut<'_, Guest>, context: Box<Context>, work: usize) -> Result<()> {
    let decided = context.is_decided();
    cx.data_mut().context = Some(context);
    let left = cx.get_fuel()?;
    let Some(mut left) = left.checked_sub(IMPORT_FUEL + work as u64) else {
        cx.set_fuel(0)?;
        return Err(Trap::OutOfFuel.into());
    };
    if decided && cx.data().withheld.is_none() {
        let kept = left.min(GRACE_FUEL);
        cx.data_mut().withheld = Some(left - kept);
        left = kept;
    }
    cx.set_fuel(left)
}

/// Runs `f` on the attempt while the guest's memory is borrowed. Besides its result it says what it costs, as a rule the
/// bytes that it moves between guest and host.
pub(crate) fn with_attempt<R>(
    cx: &mut StoreContextMut<'_, Guest>,
    f: impl FnOnce(&StoreContextMut<'_, Guest>, &mut Attempt) -> Result<(R, usize)>,
) -> Result<R> {
    with_context(cx, |cx, context| f(cx, &mut context.attempt))
}

/// As [`with_attempt`], for what may need more than the attempt.
pub(crate) fn with_context<R>(
    cx: &mut StoreContextMut<'_, Guest>,
    f: impl FnOnce(&StoreContextMut<'_, Guest>, &mut Context) -> Result<(R, usize)>,
) -> Result<R> {
    let mut context = take(cx)?;
    let result = f(cx, &mut context);
    put(cx, context, result.as_ref().map_or(0, |&(_, work)| work))?;
    result.map(|(value, _)| value)
}

/// Linear memory of one instance.
pub(crate) struct Memory {
    /// Bytes allowed.
    pub max: usize,
    /// Bytes in use, over all memories.
    pub used: usize,
    /// What growth was denied since the call began.
    pub denied: Option<Denied>,
    /// What it has got of that which all guests share.
    share: Option<MemoryShare>,
    /// Its start-up code has not ended yet.
    starting: bool,
}

/// Growth that a limit of ours denies: an instance that has served calls before may meet it sooner than a fresh one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Memory,
    Table,
    /// The guests of the transaction have as much as those of one may.
    Together,
    /// Others have what there is; no limit of its own was met.
    Now,
}

impl wasmtime::ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        // A maximum that the guest itself declares is not a limit of ours.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < self.max) {
            return Ok(false);
        }
        let used = self.used.saturating_sub(current).saturating_add(desired);
        if used > self.max {
            self.denied = Some(Denied::Memory);
            return Ok(false);
        }
        if let Some(share) = &mut self.share {
            let before = std::mem::replace(&mut self.used, used);
            let taken = if self.starting {
                share.start(before, used, self.max)
            } else {
                share.grow(desired - current, self.max)
            };
            if let Err(refused) = taken {
                self.used = before;
                match refused {
                    Refused::Ever => self.denied = Some(Denied::Together),
                    Refused::Now => {
                        self.denied = Some(Denied::Now);
                        return Err(format_err!("other guests have the memory that it needs"));
                    }
                }
                return Ok(false);
            }
        }
        self.used = used;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> Result<()> {
        // Allowed, yet failed: the host is out of memory. That must kill the worker, never decide
        // a transaction.
        panic!("the host cannot give a guest the memory that its limits allow: {error:#}");
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        // As above; the pool's own maximum is ours.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < TABLE_ELEMENTS_MAX) {
            return Ok(false);
        }
        if desired > TABLE_ELEMENTS_MAX {
            self.denied = Some(Denied::Table);
            return Ok(false);
        }
        Ok(true)
    }
}
