//! Guests whose component is one core module with the contract around it: their module is instantiated by itself, and the
//! canonical ABI between it and the host is ours. Half of what a short call costs is wasmtime's way through a component
//! otherwise: functions and memories are looked up again for every value.
//!
//! Nothing else is different, fuel included: a guest cannot tell, and who runs it how decides nothing (a test runs the same
//! both ways). Who runs on a fiber, which may not call `cabi_realloc` from an import, and whatever a component has besides,
//! stays with wasmtime; see [`crate::invocation`] for who does.

mod abi;
mod imports;
mod shape;

use std::sync::Arc;

use styx_protocol::attempt::{Attempt, OwnValue};
use wasmtime::{AsContextMut, InstancePre, Memory, Result, Store, StoreContextMut, Trap, TypedFunc, format_err};

pub(crate) use shape::with_module_exported;

use crate::component::LinkedComponent;
use crate::contract::{EntityTold, Outcome, TOLD_BYTES_MAX};
use crate::guest::Guest;
use crate::instance::new_store;
use crate::limits;

/// A module that is linked, shared by all executors.
pub(crate) struct LinkedModule(InstancePre<Guest>);

/// `cabi_realloc`: what was there, its size, the alignment, the new size.
type Realloc = TypedFunc<(u32, u32, u32, u32), u32>;

/// `invoke`, flattened.
type Invoke = TypedFunc<(u32, u32, u32, u32, u32, u32, u64, u64), u32>;

/// What the imports need of the instance that they are called by.
pub(crate) struct Exports {
    memory: Memory,
    /// Absent while it runs: the guest may not call an import then. Boxed, for it moves at every call.
    realloc: Option<Box<Realloc>>,
}

/// An instance of a module.
pub(crate) struct ModuleInstance {
    invoke: Invoke,
}

/// An invocation that the guest is yet to be told.
pub(crate) struct Untold {
    function: Arc<str>,
    ends: [usize; 3],
    length: usize,
    pub entity: EntityTold,
    tid: u64,
    time: u64,
}

impl LinkedModule {
    /// The module of a component, if it has one that can be run by itself.
    pub fn link(component: &LinkedComponent) -> Option<Self> {
        let module = {
            let mut store = new_store(component, limits::MEMORY_BYTES_MAX as usize, None);
            let instance = component.pre.instantiate(&mut store).ok()?;
            instance.get_module(&mut store, shape::EXPORT)?
        };
        let linked = LinkedModule(imports::linker(module.engine()).ok()?.instantiate_pre(&module).ok()?);
        // That its exports have the types is known once they were found.
        let mut store = new_store(component, limits::MEMORY_BYTES_MAX as usize, None);
        linked.instantiate(&mut store).ok()?;
        Some(linked)
    }

    /// Makes an instance and runs its start-up code.
    ///
    /// # Errors
    /// That traps, or may not have what it needs.
    pub fn instantiate(&self, store: &mut Store<Guest>) -> Result<ModuleInstance> {
        let instance = self.0.instantiate(&mut *store)?;
        let memory = instance.get_memory(&mut *store, "memory").ok_or_else(|| format_err!("there is no memory"))?;
        let realloc: Realloc = instance.get_typed_func(&mut *store, "cabi_realloc")?;
        let invoke = instance.get_typed_func(&mut *store, "invoke")?;
        // As a component does it, when all imports are there.
        if let Some(initialize) = instance.get_func(&mut *store, shape::INITIALIZE) {
            initialize.typed::<(), ()>(&*store)?.call(&mut *store, ())?;
        }
        store.data_mut().exports = Some(Exports { memory, realloc: Some(Box::new(realloc)) });
        Ok(ModuleInstance { invoke })
    }
}

impl Exports {
    /// The memory, for an import.
    fn memory(guest: &Guest) -> Result<Memory> {
        match &guest.exports {
            Some(Exports { memory, realloc: Some(_) }) => Ok(*memory),
            Some(_) => Err(Trap::CannotLeaveComponent.into()),
            None => Err(format_err!("an import of styx:guest was called outside of an invocation")),
        }
    }

    /// `cabi_realloc` of a guest that is known to have exports.
    fn realloc(guest: &mut Guest) -> &mut Option<Box<Realloc>> {
        &mut guest.exports.as_mut().expect("they were just there").realloc
    }
}

impl Untold {
    /// Of the attempt's frame.
    pub fn new(function: &Arc<str>, attempt: &Attempt) -> Self {
        let frame = attempt.frame();
        let (value, entity) = match attempt.own_value() {
            OwnValue::Value(value) if value.len() <= TOLD_BYTES_MAX => (value.len(), EntityTold::Told),
            OwnValue::Absent => (0, EntityTold::Absent),
            OwnValue::Value(_) | OwnValue::Unknown => (0, EntityTold::Untold),
        };
        let key = function.len() + frame.entity.key().len();
        let ends = [function.len(), key, key + frame.args.len()];
        let (tid, time) = (attempt.tid().0, attempt.time().0);
        Untold { function: function.clone(), ends, length: ends[2] + value, entity, tid, time }
    }

    /// Writes it into memory of this length, for the guest.
    fn write(&self, attempt: &Attempt, into: &mut [u8]) {
        let frame = attempt.frame();
        let (texts, value) = into.split_at_mut(self.ends[2]);
        let (texts, args) = texts.split_at_mut(self.ends[1]);
        let (function, key) = texts.split_at_mut(self.ends[0]);
        function.copy_from_slice(self.function.as_bytes());
        key.copy_from_slice(frame.entity.key().as_bytes());
        args.copy_from_slice(&frame.args);
        if self.entity == EntityTold::Told {
            let OwnValue::Value(told) = attempt.own_value() else { unreachable!("as when it was measured") };
            value.copy_from_slice(told);
        }
    }
}

impl ModuleInstance {
    /// Runs an invocation.
    pub fn call(&self, mut store: impl AsContextMut<Data = Guest>, untold: &Untold) -> Result<Outcome> {
        let mut cx: StoreContextMut<'_, Guest> = store.as_context_mut();
        let (memory, at) = abi::allocate(&mut cx, 1, untold.length)?;
        let (bytes, guest) = memory.data_and_store_mut(&mut cx);
        untold.write(guest.attempt(), &mut bytes[at..at + untold.length]);
        let [function, key, arguments] = untold.ends.map(|end| end as u32);
        let parameters =
            (at as u32, untold.length as u32, function, key, arguments, untold.entity as u32, untold.tid, untold.time);
        let returned = self.invoke.call(&mut cx, parameters)?;
        abi::outcome(memory.data(&cx), returned)
    }
}
