//! One instance of a component in a Store of its own: a trap poisons a whole Store, so nothing
//! else lives there, and one call at a time runs in it.

use std::sync::Arc;

use styx_protocol::abort::Abort;
use styx_protocol::entity::Value;
use wasmtime::{Result, Store};

use crate::component::LinkedComponent;
use crate::contract::{Arguments, Invoke, Outcome};
use crate::guest::{Denied, Guest};
use crate::invocation::Context;
use crate::limits;
use crate::memory::MemoryShare;
use crate::outcome::{self, Bounds, FuelBound};
use crate::pool::KnownFunction;
use crate::wasi::Wasi;

/// A live instance, warm once it has served a call. Boxed wherever it is kept: it moves several times in each.
pub(crate) struct Instance {
    store: Store<Guest>,
    invoke: Invoke,
    calls: u32,
    memory_at_start: usize,
    /// Bytes of linear memory when the last call began.
    memory_at_entry: usize,
    /// What the last call was made with, to be used again.
    kept: Arc<Vec<u8>>,
    /// Where its calls run.
    stack: Stack,
    /// A call that is under way: the function, and the fuel that it may use.
    running: Option<(Arc<KnownFunction>, u64)>,
}

/// What a guest runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// The stack of its thread: it cannot wait for other workers.
    Thread,
    Fiber,
}

/// A call to be made in an instance.
pub(crate) struct Call {
    pub function: Arc<KnownFunction>,
    /// Bytes of linear memory allowed.
    pub memory_max: usize,
    /// What a new instance for it gets of the memory of all.
    pub share: Option<MemoryShare>,
}

/// Fuel of an invocation.
#[derive(Clone, Copy)]
struct Fuel {
    /// What it may use now.
    allowed: u64,
    /// What its app may use, however long that takes.
    limit: u64,
}

/// What is known of an invocation when it begins.
struct Entered {
    fuel: Fuel,
    /// Bytes of linear memory that it may have.
    memory_max: usize,
    /// The guest was told its entity.
    told: bool,
}

/// Result of an invocation.
pub(crate) struct Ended {
    pub result: std::result::Result<Value, Abort>,
    /// The instance may serve again.
    pub healthy: bool,
    /// The result may be due to what the instance did in an earlier call: it trapped, was denied growth, or used more
    /// than half of its fuel.
    pub unconfirmed: bool,
}

impl Instance {
    /// Makes an instance and runs its start-up code, which sees the same in every instance.
    ///
    /// # Errors
    /// It does not start: for the same reason in every instance of the component under the same limits.
    pub fn start(component: &LinkedComponent, call: &mut Call) -> std::result::Result<Box<Self>, Abort> {
        let mut store = new_store(component, call.memory_max, call.share.take());
        let invoke = match &component.module {
            Some(module) => module.instantiate(&mut store).map(Invoke::Direct),
            None => component
                .pre
                .instantiate(&mut store)
                .and_then(|instance| Invoke::find(&mut store, &instance, component.version, component.invoke)),
        };
        Instance::started(store, invoke, call, Stack::Thread)
    }

    /// As [`Instance::start`], on a fiber.
    pub async fn start_on_fiber(component: &LinkedComponent, call: &mut Call) -> std::result::Result<Box<Self>, Abort> {
        let mut store = new_store(component, call.memory_max, call.share.take());
        let invoke = component
            .pre
            .instantiate_async(&mut store)
            .await
            .and_then(|instance| Invoke::find(&mut store, &instance, component.version, component.invoke));
        Instance::started(store, invoke, call, Stack::Fiber)
    }

    fn started(
        store: Store<Guest>,
        invoke: Result<Invoke>,
        call: &Call,
        stack: Stack,
    ) -> std::result::Result<Box<Self>, Abort> {
        match invoke {
            Ok(invoke) => {
                let memory_at_start = store.data().memory.used;
                Ok(Box::new(Instance {
                    store,
                    invoke,
                    calls: 0,
                    memory_at_start,
                    memory_at_entry: memory_at_start,
                    kept: Arc::default(),
                    stack,
                    running: None,
                }))
            }
            Err(error) => {
                assert_pool_has_room(&error);
                let running = format!("{}, starting,", call.function.qualified);
                let (denied, fuel) = (store.data().memory.denied, FuelBound::Host(limits::START_FUEL));
                Err(outcome::of_trap(&error, &running, Bounds { denied, memory_max: call.memory_max, fuel }))
            }
        }
    }

    /// Whether an instance's `invoke` is the contract's.
    pub fn check_type(
        instance: &wasmtime::component::Instance,
        store: &mut Store<Guest>,
        component: &LinkedComponent,
    ) -> Result<()> {
        Invoke::find(store, instance, component.version, component.invoke).map(|_| ())
    }

    pub fn stack(&self) -> Stack {
        self.stack
    }

    /// Whether it has served a call before.
    pub fn is_warm(&self) -> bool {
        self.calls > 0
    }

    /// Bytes of linear memory.
    pub fn bytes(&self) -> usize {
        self.store.data().memory.used
    }

    /// Bytes of linear memory when the last call began: known while it runs.
    pub fn bytes_at_entry(&self) -> usize {
        self.memory_at_entry
    }

    /// Whether it is to be replaced.
    pub fn is_worn(&self) -> bool {
        self.calls >= limits::INSTANCE_CALLS_MAX
            || self.store.data().memory.used - self.memory_at_start > limits::INSTANCE_GROWTH_MAX
    }

    /// Runs the function of the attempt's frame. The transaction travels into the Store and back.
    pub fn call(&mut self, context: Box<Context>, call: Call) -> (Box<Context>, Ended) {
        let (arguments, entered) = self.enter(context, call);
        let result = self.invoke.call(&mut self.store, arguments);
        self.leave(result, entered)
    }

    /// As [`Instance::call`], on a fiber. If the future is dropped, the guest ends where it stands, and the instance with
    /// it.
    pub async fn call_on_fiber(&mut self, context: Box<Context>, call: Call) -> (Box<Context>, Ended) {
        let (arguments, entered) = self.enter(context, call);
        let result = self.invoke.call_on_fiber(&mut self.store, arguments).await;
        self.leave(result, entered)
    }

    /// Hands the transaction to the guest, with fuel.
    fn enter(&mut self, context: Box<Context>, call: Call) -> (Arguments, Entered) {
        self.calls += 1;
        self.memory_at_entry = self.bytes();
        let attempt = &context.attempt;
        let arguments = self.invoke.arguments(&call.function.qualified, attempt, &mut self.kept);
        let fuel = Fuel { allowed: attempt.fuel_allowed(), limit: attempt.fuel_limit() };
        self.store.set_fuel(fuel.allowed).expect("fuel is on");
        self.running = Some((call.function, fuel.allowed));
        self.store.data_mut().enter(context, call.memory_max);
        let told = arguments.tell();
        (arguments, Entered { fuel, memory_max: call.memory_max, told })
    }

    /// Takes the transaction back, and classifies how the guest has ended.
    fn leave(&mut self, result: Result<Outcome>, entered: Entered) -> (Box<Context>, Ended) {
        let Entered { fuel, memory_max, told } = entered;
        let left = self.store.get_fuel().expect("fuel is on");
        let (mut context, withheld) = self.store.data_mut().leave();
        let mut spent = fuel.allowed.saturating_sub(left).saturating_sub(withheld);
        let result = match result {
            Ok(Outcome { entity, returned }) => {
                // The host's own work has its price here as in an import.
                spent += entity.settle(&mut context.attempt, |attempt, value| {
                    let moved = value.len();
                    attempt.put_own_shared(value);
                    moved
                }) as u64;
                Ok(returned)
            }
            Err(error) => {
                // It may have trapped for what it was told.
                if told {
                    context.attempt.read_own();
                }
                Err(error)
            }
        };
        context.attempt.spend(spent);
        if let Some((function, _)) = self.running.take() {
            function.tally.add(spent);
        }
        let denied = self.store.data().memory.denied;
        let ended = match result {
            Ok(returned) => Ended {
                result: returned.map_err(|failure| {
                    let key = context.attempt.frame().entity.key();
                    outcome::of_failure(failure, denied.is_some(), &context.attempt.running(), key)
                }),
                healthy: denied.is_none(),
                unconfirmed: denied.is_some() || spent > fuel.limit / 2,
            },
            Err(error) => {
                assert_pool_has_room(&error);
                let waits = denied == Some(Denied::Now);
                if waits || fuel.allowed < fuel.limit && outcome::is_out_of_fuel(&error) {
                    context.attempt.postpone();
                }
                let most = context.attempt.operator().limits.fuel;
                let fuel = if fuel.limit < most {
                    FuelBound::Transaction(context.attempt.limits().transaction_fuel)
                } else {
                    FuelBound::Invocation(most)
                };
                Ended {
                    result: Err(outcome::of_trap_on(
                        &error,
                        &context.attempt.running(),
                        context.attempt.frame().entity.key(),
                        context.attempt.last_words(),
                        Bounds { denied, memory_max, fuel },
                    )),
                    healthy: false,
                    unconfirmed: true,
                }
            }
        };
        (context, ended)
    }
}

/// A call that is given up while it waits for another worker has used its fuel nevertheless.
impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((function, allowed)) = self.running.take() {
            let left = self.store.get_fuel().expect("fuel is on") + self.store.data().withheld();
            function.tally.add(allowed.saturating_sub(left));
        }
    }
}

/// Panics if the pool ran dry: its size is the host's responsibility and must never decide a transaction.
fn assert_pool_has_room(error: &wasmtime::Error) {
    assert!(
        !error.is::<wasmtime::PoolConcurrencyLimitError>(),
        "the instance pool is sized for every guest that can run or wait, and ran dry: {error:#}"
    );
}

/// A Store for an instance of `component`, with fuel for its start-up code.
pub(crate) fn new_store(component: &LinkedComponent, memory_max: usize, share: Option<MemoryShare>) -> Store<Guest> {
    let wasi = component.wasi.then(|| Box::new(Wasi::new()));
    let mut store = Store::new(component.pre.engine(), Guest::new(memory_max, share, wasi));
    store.limiter(|guest| &mut guest.memory);
    store.set_fuel(limits::START_FUEL).expect("fuel is on");
    store
}
