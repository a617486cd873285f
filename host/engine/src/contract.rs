//! `invoke` in both versions of the contract, and what an invocation of 0.2 brings and takes along besides: the value of
//! its own entity, and what it did to that by itself.

use std::sync::Arc;

use styx_protocol::attempt::{Attempt, OwnValue};
use styx_protocol::entity::Value;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, ComponentType, Instance, Lift, Lower, TypedFunc};
use wasmtime::{AsContextMut, Result};

use crate::direct::{ModuleInstance, Untold};
use crate::guest::Guest;
use crate::outcome::Failure;

/// The longest value that an invocation brings along, in bytes: a longer one is copied for those only who ask for it.
pub(crate) const TOLD_BYTES_MAX: usize = 2 << 10;

/// The most bytes of an invocation that an instance keeps for the next one.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What `invoke` of 0.1 takes: the function, written `operator.function`, the key and the arguments.
pub(crate) type Separate = (Arc<str>, Arc<str>, Value);

/// `styx:guest/types.entity-told`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum EntityTold {
    #[component(name = "untold")]
    Untold,
    #[component(name = "told")]
    Told,
    #[component(name = "absent")]
    Absent,
}

/// `styx:guest/types.invocation`.
#[derive(Clone, ComponentType, Lower)]
#[component(record)]
pub(crate) struct Together {
    bytes: Arc<Vec<u8>>,
    #[component(name = "function-end")]
    function_end: u32,
    #[component(name = "key-end")]
    key_end: u32,
    #[component(name = "arguments-end")]
    arguments_end: u32,
    entity: EntityTold,
    tid: u64,
    time: u64,
}

impl Together {
    /// Of the attempt's frame, written into `bytes`, whatever they held: they are shared for the length of the call.
    pub fn new(function: &str, attempt: &Attempt, bytes: &mut Arc<Vec<u8>>) -> Self {
        let frame = attempt.frame();
        let into = Arc::make_mut(bytes);
        into.clear();
        let mut ends = [0; 3];
        for (end, part) in ends.iter_mut().zip([function.as_bytes(), frame.entity.key().as_bytes(), &frame.args]) {
            into.extend_from_slice(part);
            *end = into.len() as u32;
        }
        let entity = match attempt.own_value() {
            OwnValue::Value(value) if value.len() <= TOLD_BYTES_MAX => {
                into.extend_from_slice(value);
                EntityTold::Told
            }
            OwnValue::Absent => EntityTold::Absent,
            OwnValue::Value(_) | OwnValue::Unknown => EntityTold::Untold,
        };
        let [function_end, key_end, arguments_end] = ends;
        let bytes = bytes.clone();
        Together { bytes, function_end, key_end, arguments_end, entity, tid: attempt.tid().0, time: attempt.time().0 }
    }
}

/// `styx:guest/types.change`; `L` is a list of bytes, in the guest's memory or out of it.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(variant)]
pub(crate) enum Change<L> {
    #[component(name = "none")]
    None,
    #[component(name = "put")]
    Put(L),
    #[component(name = "delete")]
    Delete,
}

/// `styx:guest/types.entity-access`.
#[derive(Clone, Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct EntityAccess<L> {
    read: bool,
    change: Change<L>,
}

impl<L> EntityAccess<L> {
    pub fn new(read: bool, change: Change<L>) -> Self {
        EntityAccess { read, change }
    }

    /// Of a guest that does everything by imports.
    pub const NONE: Self = EntityAccess { read: false, change: Change::None };

    /// Does it; `put` writes a value, and says how long it was. Gives the bytes moved.
    pub fn settle(self, attempt: &mut Attempt, put: impl FnOnce(&mut Attempt, L) -> usize) -> usize {
        if self.read {
            attempt.read_own();
        }
        match self.change {
            Change::None => 0,
            Change::Put(value) => put(attempt, value),
            Change::Delete => {
                attempt.delete_own();
                0
            }
        }
    }
}

/// `styx:guest/types.outcome`.
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct Outcome {
    pub entity: EntityAccess<Value>,
    pub returned: std::result::Result<Value, Failure>,
}

impl From<std::result::Result<Value, Failure>> for Outcome {
    fn from(returned: std::result::Result<Value, Failure>) -> Self {
        Outcome { entity: EntityAccess::NONE, returned }
    }
}

/// A version of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 0.1: everything is asked for.
    Asking,
    /// 0.2: the own entity comes and goes with invocations and calls.
    Told,
}

impl Version {
    /// The version that a component's `invoke` is of, going by its parameters.
    pub fn of(component: &Component) -> Self {
        match component.component_type().get_export(component.engine(), "invoke").map(|invoke| invoke.ty) {
            Some(ComponentItem::ComponentFunc(invoke)) if invoke.params().len() == 1 => Version::Told,
            _ => Version::Asking,
        }
    }
}

/// The `invoke` of an instance.
pub(crate) enum Invoke {
    Asking(TypedFunc<Separate, (std::result::Result<Value, Failure>,)>),
    Told(TypedFunc<(Together,), (Outcome,)>),
    /// As of `Told`, of a module by itself.
    Direct(ModuleInstance),
}

/// What `invoke` is called with.
pub(crate) enum Arguments {
    Separate(Separate),
    Together(Together),
    Direct(Untold),
}

impl Invoke {
    /// Finds it in an instance.
    ///
    /// # Errors
    /// It has another type.
    pub fn find(
        store: impl AsContextMut,
        instance: &Instance,
        version: Version,
        export: ComponentExportIndex,
    ) -> Result<Self> {
        Ok(match version {
            Version::Asking => Invoke::Asking(instance.get_typed_func(store, export)?),
            Version::Told => Invoke::Told(instance.get_typed_func(store, export)?),
        })
    }

    /// What the function of the attempt's frame is called with. `bytes` are used if there are any.
    pub fn arguments(&self, function: &Arc<str>, attempt: &Attempt, bytes: &mut Arc<Vec<u8>>) -> Arguments {
        match self {
            Invoke::Asking(_) => {
                let frame = attempt.frame();
                Arguments::Separate((function.clone(), frame.entity.key().clone(), frame.args.clone()))
            }
            Invoke::Told(_) => {
                let invocation = Together::new(function, attempt, bytes);
                // Nobody counts what idle instances keep.
                if bytes.capacity() > KEPT_BYTES_MAX {
                    *bytes = Arc::default();
                }
                Arguments::Together(invocation)
            }
            Invoke::Direct(_) => Arguments::Direct(Untold::new(function, attempt)),
        }
    }

    /// Calls it.
    pub fn call(&self, store: impl AsContextMut<Data = Guest>, arguments: Arguments) -> Result<Outcome> {
        match (self, arguments) {
            (Invoke::Asking(invoke), Arguments::Separate(arguments)) => {
                invoke.call(store, arguments).map(|(returned,)| returned.into())
            }
            (Invoke::Told(invoke), Arguments::Together(invocation)) => {
                invoke.call(store, (invocation,)).map(|(outcome,)| outcome)
            }
            (Invoke::Direct(module), Arguments::Direct(untold)) => module.call(store, &untold),
            _ => unreachable!("arguments are made for the function that is called with them"),
        }
    }

    /// As [`Invoke::call`], on a fiber.
    pub async fn call_on_fiber(&self, store: impl AsContextMut<Data: Send>, arguments: Arguments) -> Result<Outcome> {
        match (self, arguments) {
            (Invoke::Asking(invoke), Arguments::Separate(arguments)) => {
                invoke.call_async(store, arguments).await.map(|(returned,)| returned.into())
            }
            (Invoke::Told(invoke), Arguments::Together(invocation)) => {
                invoke.call_async(store, (invocation,)).await.map(|(outcome,)| outcome)
            }
            _ => unreachable!("arguments are made for the function that is called with them"),
        }
    }
}

impl Arguments {
    /// Whether the guest knows its entity from them, so that whatever comes of the guest may be due to that.
    pub fn tell(&self) -> bool {
        match self {
            Arguments::Separate(_) => false,
            Arguments::Together(Together { entity, .. }) | Arguments::Direct(Untold { entity, .. }) => {
                *entity != EntityTold::Untold
            }
        }
    }
}
