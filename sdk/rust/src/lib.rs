//! Write transactional stateful functions for Styx in Rust.
//!
//! An *operator* is a kind of entity, a function runs for one entity at a time,
//! and everything that a request touches, however many functions it calls, is one
//! strictly serializable transaction. There are no locks, retries or
//! compensations to write: return an error and nothing of it has happened.
//!
//! ```
//! use styx_sdk::prelude::*;
//!
//! #[derive(Serialize, Deserialize, Schema)]
//! struct Item { stock: u32, price: u64 }
//!
//! struct Stock;
//!
//! #[operator(name = "stock")]
//! impl Stock {
//!     /// Takes from the stock; aborts when there is not enough.
//!     pub fn take(ctx: &mut Context, quantity: u32) -> Result<u64> {
//!         let mut item: Item = ctx.state.require()?;
//!         ensure!(item.stock >= quantity, "not enough {}", ctx.key());
//!         item.stock -= quantity;
//!         ctx.state.put(&item)?;
//!         Ok(item.price * u64::from(quantity))
//!     }
//!
//!     /// What is there.
//!     #[function(read_only)]
//!     pub fn get(ctx: &Context) -> Result<Option<Item>> {
//!         ctx.state.get()
//!     }
//! }
//!
//! styx_sdk::export!(Stock);
//! # fn main() {}
//! ```
//!
//! # Determinism
//!
//! The same log must always yield the same state, so a function may depend on its
//! arguments, on the state and on what [`Context`] tells it, and on nothing else:
//!
//! - time is [`Context::time`], random numbers are [`Context::random`];
//! - a `static` that changes from call to call is a bug: instances are reused, and
//!   how often is nobody's promise;
//! - `std`'s `HashMap` seeds its iteration order from memory addresses. Use
//!   `BTreeMap`, or [`collections::HashMap`], whose order depends on the contents only.
//!
//! What is absent here: clocks, files, sockets, threads and `print` (which goes
//! nowhere in a component; use [`Context::log`]).

#![warn(missing_docs)]

mod abort;
mod arguments;
pub mod collections;
mod context;
mod describe;
mod export;
mod host;
mod json;
mod migration;
mod schema;
mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use abort::{Abort, Result, WithAppCode};
pub use arguments::Arguments;
pub use context::{Context, Level};
pub use describe::{FunctionDescription, Operator, OperatorDescription, ParameterDescription};
pub use schema::{Schema, Schemas};
pub use state::{Scan, State};
pub use styx_sdk_macros::{Schema, operator};

#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: host::allocator::Pieces = host::allocator::Pieces::new();

/// What nearly every guest uses.
pub mod prelude {
    pub use crate::{Abort, Arguments, Context, Level, Operator, Result, Schema, WithAppCode, bail, ensure, operator};
    pub use serde::{Deserialize, Serialize};
}

/// What the macros expand to. Not for use by hand, and not stable.
#[doc(hidden)]
pub mod __private {
    pub use crate::arguments::{decode, is_required, reply};
    #[cfg(target_arch = "wasm32")]
    pub use crate::export::component;
    pub use crate::export::{Exports, unknown_function};
    pub use crate::migration::{MIGRATE, Migration, migrate_own, migrated, set_migration};
    pub use crate::schema::{Probe, WriteAny, WriteSchema};
}
