//! The host as the rest of the crate sees it: the component's imports in a guest,
//! and in a native build the one in [`testing`](crate::testing).

#[cfg(any(test, all(target_arch = "wasm32", feature = "allocator")))]
pub mod allocator;
#[cfg(target_arch = "wasm32")]
mod component;
#[cfg(target_arch = "wasm32")]
pub mod invocation;
#[cfg(target_arch = "wasm32")]
pub use component::*;

#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::*;
